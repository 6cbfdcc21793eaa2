"""Records what a process uses of the package. Every Python that finds this file on its path imports it first.

`tools/freshness.py` puts it on the path of a notebook's kernel, and so of everything that the kernel starts. Each use
is a line of the file GLASSFORMER_USES: runs, shows, opens, lists or finds, a path, and the name of what is shown.
"""

import inspect
import linecache
import os
import sys
from importlib.machinery import SourceFileLoader
from types import CodeType
from typing import Any

PACKAGE = os.environ["GLASSFORMER_PACKAGE"] + os.sep
USES = os.open(os.environ["GLASSFORMER_USES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
PLAIN_GET_CODE, PLAIN_FINDSOURCE, PLAIN_STAT = SourceFileLoader.get_code, inspect.findsource, os.stat
seen = set()


def note(verb: str, path: Any, name: str = "") -> None:
    """Writes one line, the first time, if the path is in the package."""
    if not isinstance(path, str | bytes | os.PathLike):  # such as the number of an open file
        return
    path = os.path.abspath(os.fsdecode(path)) + os.sep
    inside = path.removeprefix(PACKAGE).strip(os.sep).replace(os.sep, "/") or "."
    use = f"{verb} {inside} {name}".strip()
    if path.startswith(PACKAGE) and use not in seen:
        seen.add(use)
        os.write(USES, f"{use}\n".encode())


def hear(event: str, arguments: tuple) -> None:
    """Listens to Python's audit events: opened files and listed folders."""
    if event in ("os.listdir", "os.scandir"):
        if "importlib._bootstrap" not in sys._getframe(1).f_code.co_filename:
            note("lists", "." if arguments[0] is None else arguments[0])
    elif event == "open":
        frame = sys._getframe(1)
        while frame and frame.f_code not in (PLAIN_GET_CODE.__code__, PLAIN_FINDSOURCE.__code__):
            frame = frame.f_back
        if not frame:  # otherwise it is noted below
            note("opens", arguments[0])


def get_code(loader: SourceFileLoader, module: str) -> CodeType | None:
    """Works as importlib's, which reads the source of a module or what was compiled of it."""
    note("runs", loader.get_filename(module))
    return PLAIN_GET_CODE(loader, module)


def findsource(shown: Any) -> tuple[list[str], int]:
    """Works as inspect's, on which getsource relies. A module, or a function made by another, counts with its file."""
    file, name = inspect.getsourcefile(shown) or "", getattr(shown, "__qualname__", "<module>")
    note("opens" if "<" in name else "shows", file, name)
    try:
        return PLAIN_FINDSOURCE(shown)
    finally:
        linecache.cache.pop(file, None)  # who reads its lines later opens it again, and is heard


def stat(path: Any, **others: Any) -> os.stat_result:
    """Works as os's, on which exists and is_file rely: the path was looked for."""
    note("finds", path)
    return PLAIN_STAT(path, **others)


SourceFileLoader.get_code, inspect.findsource, os.stat = get_code, findsource, stat  # pyrefly: ignore[bad-assignment]
sys.addaudithook(hear)
