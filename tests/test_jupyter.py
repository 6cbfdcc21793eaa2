"""Tests what is added to Jupyter's kernel and server: no version of Python, and no state that is lost when saving."""

import json
from types import SimpleNamespace

import pytest

from glassformer import jupyter

SHIPPED = {
    "view": {
        "model_name": "AnyModel",
        "state": {"layout": "IPY_MODEL_layout", "_modules": ["anywidget:kit"]},
    },
    "layout": {"model_name": "LayoutModel", "state": {}},
    "kit": {"model_name": "WidgetModel", "state": {"source": "text"}},
    "second": {"model_name": "AnyModel", "state": {"layout": "IPY_MODEL_layout"}},
    "stale": {"model_name": "AnyModel", "state": {"layout": "IPY_MODEL_layout"}},
}


def notebook(states, *shown, **metadata):
    if states is not None:
        metadata["widgets"] = {
            jupyter.WIDGET_STATE: {"state": states, "version_major": 2, "version_minor": 0}
        }
    outputs = [{"output_type": "stream", "text": "a"}]
    outputs += [
        {"output_type": "display_data", "data": {jupyter.WIDGET_VIEW: {"model_id": name}}} for name in shown
    ]
    cells = [{"cell_type": "markdown"}, {"cell_type": "code", "outputs": outputs}]
    return {"cells": cells, "metadata": metadata}


def saved(tmp_path, before, now):
    if before is not None:
        (tmp_path / "a.ipynb").write_text(json.dumps(before), encoding="utf-8")
    manager = SimpleNamespace(root_dir=str(tmp_path))
    model = {"type": "notebook", "content": now}
    jupyter.keep_states(model=model, path="/a.ipynb", contents_manager=manager)
    return model["content"]


@pytest.mark.parametrize("states", [None, {}, SHIPPED], ids=["none", "empty", "some"])
@pytest.mark.parametrize("shown", [["view"], []], ids=["shown", "cleared"])
def test_if_nothing_was_run_the_states_are_those_of_the_file(tmp_path, states, shown):
    before = notebook(states, *shown)
    assert saved(tmp_path, before, notebook({}, *shown)) == before


def test_what_was_run_is_new_and_what_is_shown_stays_with_what_it_refers_to(tmp_path):
    run = {"other": {"model_name": "AnyModel", "state": {}}, "kit": {"state": {"source": "newer"}}}
    now = saved(
        tmp_path, notebook(SHIPPED, "view"), notebook(dict(run), "view", "second", "other", "unknown", "")
    )
    assert now["metadata"]["widgets"][jupyter.WIDGET_STATE]["state"] == run | {
        name: SHIPPED[name] for name in ("view", "second", "layout")
    }


@pytest.mark.parametrize("before", [None, notebook(SHIPPED)], ids=["new file", "all run"])
def test_what_needs_nothing_stays(tmp_path, before):
    now = notebook({"view": SHIPPED["view"]}, "view")
    assert saved(tmp_path, before, json.loads(json.dumps(now))) == now


def test_a_kernel_tells_its_language_without_the_version_of_python():
    kernel = SimpleNamespace(language_info={"name": "python", "version": "3.13.1"})
    jupyter.load_ipython_extension(SimpleNamespace(kernel=kernel, showtraceback=print))
    assert kernel.language_info == {"name": "python"}
    jupyter.load_ipython_extension(SimpleNamespace())  # a terminal
