"""Say first what helps where a notebook goes wrong: a name from a cell that was not run, and an interrupted cell.

An IPython extension calls `load` when a kernel starts, so nothing heavy is imported here.
"""

import os
import re
import sys
from collections.abc import Iterator
from types import FrameType, TracebackType
from typing import Any

_RUN_ABOVE = "choose Run > Run All Above Selected Cell in the menu, then run this cell again."
_STOPPED = (
    "you interrupted this cell, and what it had computed until then is kept. To start over, run it again, after the "
    "cell that makes its model if that is another one."
)


def load(shell: Any) -> None:
    """Make an IPython shell say in a sentence what to do. Loading it twice changes nothing.

    After the traceback of a NameError, it says to run the cells above, if one of them gives that name its value, or
    if the notebook's file is not known and other cells have made no names yet. If the name is an exercise's without
    quotes, it says so. For an interrupted cell, it says where it stopped and how to go on, in place of the traceback,
    which `%tb` still shows.
    """
    usual = shell.showtraceback
    if getattr(usual, "__module__", None) == __name__:
        return

    def showtraceback(exc_tuple: Any = None, *args: Any, **options: Any) -> None:
        error = (exc_tuple or sys.exc_info())[1]
        if isinstance(error, KeyboardInterrupt) and not hasattr(error, "_render_traceback_"):
            error: Any = error
            error._render_traceback_ = lambda: [_stopped(shell, error)]  # IPython asks an error how it looks
            usual(exc_tuple, *args, **options)
            del error._render_traceback_
            return
        usual(exc_tuple, *args, **options)
        if type(error) is NameError and (said := _not_run(shell, error)):
            print(said)

    shell.showtraceback = showtraceback


def notebook() -> str:
    """Returns the path of the notebook that this kernel is for, as JupyterLab or VS Code tells it, or ""."""
    return getattr(sys.modules["__main__"], "__vsc_ipynb_file__", "") or os.environ.get(
        "JPY_SESSION_NAME", ""
    )


def _stopped(shell: Any, error: KeyboardInterrupt) -> str:
    steps = [
        frame.f_locals.get("step")
        for frame in _frames(error.__traceback__)
        if frame.f_globals is shell.user_ns and "step" in frame.f_code.co_names + frame.f_code.co_varnames
    ]
    where = f" at step {steps[-1]:,}" if steps and isinstance(steps[-1], int) else ""
    return f"Stopped{where}: {_STOPPED}"


def _not_run(shell: Any, error: NameError) -> str:
    """Returns the sentence about a name that another cell should have made, or "" if no other cell is to blame."""
    *_, frame = _frames(error.__traceback__)
    if frame.f_globals is not shell.user_ns or error.name in frame.f_code.co_freevars:
        return ""
    this = shell.history_manager.input_hist_raw[-1].strip()
    if asked := re.search(rf"\b(check|hint|reveal)\(\s*({error.name}\b[\w.]*)", this):
        return f'The name of an exercise is written in quotes: {asked[1]}("{asked[2]}").'
    codes = _cells(shell)
    if codes is None:  # not known, but the names are that other cells have made so far
        others = (
            {one for one in shell.user_ns if one[0] != "_"} - set(shell.user_ns_hidden) - _made(shell, this)
        )
        return "" if others else f"No other cell has defined anything yet in this kernel: {_RUN_ABOVE}"
    above = codes[: codes.index(this)] if this in codes else codes
    if not any(error.name in _made(shell, code) for code in above):
        return ""
    if this in codes:
        return f"`{error.name}` gets its value in a cell above: {_RUN_ABOVE}"
    return f"`{error.name}` gets its value in another cell: run that one first, then this cell again."


def _cells(shell: Any) -> list[str] | None:
    """Returns the code of each cell of the notebook as it was saved; None if it is not known."""
    import json

    try:
        with open(notebook(), encoding="utf-8") as file:
            cells = json.load(file)["cells"]
        return ["".join(cell["source"]).strip() for cell in cells if cell["cell_type"] == "code"]
    except (OSError, ValueError, LookupError, TypeError):
        return None


def _made(shell: Any, code: str) -> set[str]:
    """Returns the names that a cell gives a value to."""
    import symtable

    try:
        table = symtable.symtable(shell.transform_cell(code), "<cell>", "exec")
    except (SyntaxError, ValueError):
        return set()
    return {one.get_name() for one in table.get_symbols() if one.is_assigned() or one.is_imported()}


def _frames(tb: TracebackType | None) -> Iterator[FrameType]:
    while tb is not None:
        yield tb.tb_frame
        tb = tb.tb_next
