"""Tests what a kernel says where a notebook goes wrong: of a name from a cell above, and of an interruption."""

import re

import nbformat
import pytest
from jupyter_client.manager import start_new_kernel
from nbformat.v4 import new_code_cell, new_notebook

LOAD = "from glassformer import error_hints\nfor _ in '12': error_hints.load(get_ipython())"
CELLS = [
    "%matplotlib inline\nimport numpy as np",
    "not Python",
    "for near, model in [(1, 2)]: pass",
    "print(model, np)",
    "below = 1",
]
RUN_ABOVE = "choose Run > Run All Above Selected Cell in the menu, then run this cell again.\n"
ABOVE = "`{}` gets its value in a cell above: " + RUN_ABOVE
ANOTHER = "`np` gets its value in another cell: run that one first, then this cell again.\n"
INTERRUPT = "import signal\nfor step in range(9):\n    if step == 4: signal.raise_signal(signal.SIGINT)"
STOPPED = (
    "class Stopped(KeyboardInterrupt):\n    def _render_traceback_(self): return ['more']\nraise Stopped"
)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """Returns a function that runs code in a kernel whose notebook has `CELLS`: (status, error, what is printed)."""
    path = tmp_path_factory.mktemp("book") / "notebook.ipynb"
    nbformat.write(new_notebook(cells=[new_code_cell(code) for code in CELLS]), path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JPY_SESSION_NAME", str(path))
        manager, client = start_new_kernel()

    def run(code, **options):
        shown = []
        reply = client.execute_interactive(code, output_hook=shown.append, **options)
        errors = ["\n".join(one["content"]["traceback"]) for one in shown if one["msg_type"] == "error"]
        said = "".join(one["content"]["text"] for one in shown if one["msg_type"] == "stream")
        return reply["content"]["status"], re.sub(r"\x1b\[[\d;]*m", "", "".join(errors)), said

    assert run(LOAD, store_history=False) == ("ok", "", "")
    run.path = path
    yield run
    client.stop_channels()
    manager.shutdown_kernel(now=True)


QUOTES = "The name of an exercise is written in quotes: "


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("from glassformer.exercises import *\nhint(attention.mask)", QUOTES + 'hint("attention.mask").\n'),
        ("check(\n    mask, len)", QUOTES + 'check("mask").\n'),
        ("check('attention.mask', mask)", ""),
        (CELLS[3], ABOVE.format("model")),
        ("def use():\n    return np\nuse()", ANOTHER),
        ("%%time\nnp", ANOTHER),
        ("mdoel", ""),
        ("def use():\n    print(model)\n    model = 1\nuse()", ""),  # UnboundLocalError
        ("raise NameError('np')", ""),
        ("exec('np', {})", ""),  # in another module
    ],
)
def test_after_the_traceback_of_a_name_from_another_cell_it_says_to_run_the_cells_above(kernel, code, said):
    status, error, printed = kernel(code)
    assert status == "error"
    assert error.startswith("-----")
    assert error.count("Traceback (most recent call last)") == 1
    assert printed.endswith(said)
    assert printed.count("gets its value in") + printed.count(QUOTES) == (said != "")


def test_a_name_that_only_cells_below_define_is_not_looked_for_above(kernel):
    text = kernel.path.read_text()
    nbformat.write(new_notebook(cells=[new_code_cell(code) for code in ("below", *CELLS)]), kernel.path)
    assert kernel("below")[2] == ""
    kernel.path.write_text(text)


def test_without_the_notebooks_file_only_a_kernel_in_which_no_cell_made_a_name_is_told(kernel):
    moved = kernel.path.rename(kernel.path.with_suffix(".moved"))
    kernel("one = 1")
    assert kernel("model")[2] == ""
    kernel("%reset -f")
    assert kernel("import os\nmodel")[2].startswith(
        "No other cell has defined anything yet in this kernel: choose"
    )
    moved.rename(kernel.path)


def test_an_interrupted_cell_says_where_it_stopped_without_a_traceback(kernel):
    status, error, printed = kernel(INTERRUPT)
    assert (status, printed) == ("error", "")
    assert error.startswith("Stopped at step 4: you interrupted this cell")
    assert "\n" not in error
    assert "Traceback" in kernel("%tb")[1]
    assert kernel("def sleep():\n    raise KeyboardInterrupt\nsleep()")[1].startswith(
        "Stopped: you interrupted"
    )
    assert kernel(STOPPED)[1] == "more"
    assert kernel("1 / 0")[1].startswith("-----")
