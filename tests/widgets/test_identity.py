"""Tests that a view's model id follows from its cell, and that a cell that is run again leaves every view alive."""

import gc
import re
import sys
from itertools import count
from types import SimpleNamespace

import comm
import ipywidgets
import pytest

from glassformer.widgets import ClockHands, PositionHeatmap
from glassformer.widgets.kit import identity
from tools import notebooks

numbers = count()  # of runs
CODE = "ClockHands()"
TEXT = f"""---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
---

```{{code-cell}} ipython3
{CODE}
```
"""


@pytest.fixture
def run(monkeypatch):
    """Runs a function as a cell: run(make, cell="a", code=…) returns what it returns."""

    def run(make, cell=None, code=CODE):
        parent = {
            "header": {"msg_id": f"run {next(numbers)}"},
            "metadata": {} if cell is None else {"cellId": cell},
            "content": {"code": code},
        }
        shell = SimpleNamespace(kernel=SimpleNamespace(get_parent=lambda: parent))
        monkeypatch.setattr(identity, "get_ipython", lambda: shell)
        return make()

    return run


@pytest.fixture
def sent(monkeypatch):
    """Collects what the browser is told: the kind of message, and the model's id."""
    sent = []
    monkeypatch.setattr(
        comm.DummyComm, "publish_msg", lambda self, kind, *_, **__: sent.append((kind, self.comm_id))
    )
    return sent


def ids(view):
    return view.model_id, view.layout.model_id, *(module.model_id for module in view._modules)


def test_a_cell_that_is_run_again_makes_the_same_ids(run):
    first = ids(run(ClockHands, "a"))
    assert ids(run(ClockHands, "a")) == first
    assert all(re.fullmatch("[0-9a-f]{32}", one) for one in first)
    assert len(set(first)) == len(first)


def test_other_cells_other_kinds_and_other_views_of_a_cell_have_other_ids(run):
    views = [
        *run(lambda: [ClockHands() for _ in range(3)], "a"),
        run(ClockHands, "b"),
        run(PositionHeatmap, "a"),
        run(ClockHands, code="ClockHands() "),
        run(ClockHands),
    ]
    assert len({one for view in views for one in (view.model_id, view.layout.model_id)}) == 2 * len(views)


@pytest.mark.parametrize("cell", [None, "vscode-notebook-cell:/a.ipynb#X1", "", "a" * 65, 7])
def test_without_a_notebooks_cell_id_it_is_that_of_a_stored_cell_with_this_code(run, tmp_path, cell):
    text = tmp_path / "chapters" / "01.md"
    text.parent.mkdir()
    text.write_text(TEXT, encoding="utf-8")
    (stored,) = notebooks.read_text(text).cells
    assert run(ClockHands, cell).model_id == run(ClockHands, stored.id).model_id


def test_without_a_cell_ids_are_random():
    assert ClockHands().model_id != ClockHands().model_id
    assert len(ClockHands().model_id) == 32


def test_in_colab_ids_are_random(run, monkeypatch):
    monkeypatch.setitem(sys.modules, "google.colab", SimpleNamespace())
    assert run(lambda: identity.of_cell("ClockHands"), "a") is None


def test_widgets_of_other_libraries_are_left_alone(run):
    assert run(ipywidgets.IntSlider, "a").model_id != run(ipywidgets.IntSlider, "a").model_id


def test_the_new_view_takes_over_and_the_old_one_closes_nothing(run, sent):
    first = run(lambda: ClockHands(position=3), "a")
    name, connection = first.model_id, first.comm
    sent.clear()
    second = run(lambda: ClockHands(position=8), "a")
    del first
    gc.collect()
    assert ("comm_msg", name) in sent
    assert {kind for kind, _ in sent} == {"comm_msg"}  # nothing is opened twice or closed
    assert second.comm is connection
    connection.handle_msg(
        {"content": {"data": {"method": "update", "state": {"position": 5}}}, "buffers": []}
    )
    assert second.position == 5
    assert ipywidgets.Widget.get_manager_state(widgets=[second])["state"][name]["state"]["position"] == 5


def test_a_view_that_was_replaced_can_be_shown_again(run):
    first, second = run(ClockHands, "a"), run(ClockHands, "a")
    bundle = run(first._repr_mimebundle_, "b")
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert data[notebooks.WIDGET_VIEW]["model_id"] not in {second.model_id, None}
    assert data["text/plain"] == "ClockHands()"
    second.close()
    assert run(ClockHands, "a").comm is not None
