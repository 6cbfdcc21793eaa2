"""Records what a process uses of the package. Every Python that finds this file on its path imports it first.

`tools/freshness.py` puts it on the path of a notebook's kernel, and so of everything that the kernel starts. Each use
is one line of the file GLASSFORMER_USES. The line has a verb (imports, calls, opens, lists, shows, names or makes) and
the file or folder in the package. For a source that is shown, it adds the name of the function or class; for a call,
the name of the function, and the number of a `raise` statement if one was reached; for code that is built at run time
(`exec`, `eval`) and is in no file, the words in it. "names" means that a module was asked for all its names (`vars`,
`dir`, `globals`).

What a look-up uses (`glassformer/lookups.py`) is held back until it answers. Then one line that begins with "asks"
records its question and a hash of the answer, instead of what it used. If that would be incomplete, its uses are
recorded after all: for example, if it imported a module whose code others run, or if its answer cannot be put in words.

This file compiles the package's modules, with a mark in every function (`pieces.py`). Unlike a trace function, a mark
also works in threads that Python did not start, and under a debugger or anything else that sets a trace function.
"""

import builtins
import inspect
import linecache
import os
import sys
import threading
from collections.abc import Callable
from functools import wraps
from importlib.machinery import SourceFileLoader
from types import CodeType, FrameType, ModuleType
from typing import Any

import answers  # pyrefly: ignore[missing-import]
import pieces  # pyrefly: ignore[missing-import]

PACKAGE = os.environ["GLASSFORMER_PACKAGE"] + os.sep
NAME = os.path.basename(os.environ["GLASSFORMER_PACKAGE"])
USES = os.open(os.environ["GLASSFORMER_USES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
EVENTS = ("open", "os.listdir", "os.scandir")
MAKES = ("compile", "exec")  # `eval` is heard as both
IMPORTLIB = "<frozen importlib._bootstrap_external>"
seen = set()


class Lookup:
    """A look-up that has not answered yet."""

    def __init__(self, frame: FrameType, name: str, args: tuple, named: dict[str, Any]) -> None:
        self.frame = frame  # of the call
        self.used: list[tuple[str, str, str]] = []
        try:
            self.question = answers.question(name, args, named)
        except answers.UntoldError:
            self.question = ""

    def said(self, answer: Any) -> list[tuple[str, str, str]]:
        """Returns the uses that this look-up stands for."""
        try:
            asked = ("asks", self.question, answers.answer(answer))
        except answers.UntoldError:
            return self.used
        imported = any(kind == "imports" for kind, _, _ in self.used)
        return [asked] if self.question and not imported else self.used


class Waiting(threading.local):
    """The look-ups of this thread that have not answered yet, each inside the one before."""

    def __init__(self) -> None:
        self.lookups: list[Lookup] = []

    def innermost(self) -> Lookup | None:
        """Returns the look-up that is running, if any. A look-up that was interrupted counts with all that it used."""
        frames, frame = set(), sys._getframe(1) if self.lookups else None
        while frame:
            frames.add(frame)
            frame = frame.f_back
        cut = []
        while self.lookups and self.lookups[-1].frame not in frames:
            cut = self.lookups.pop().used + cut
        for use in cut:
            write(use)
        return self.lookups[-1] if self.lookups else None


waiting = Waiting()


def note(kind: str, path: str, name: str = "") -> None:
    """Records one use of a file or folder, if it is in the package."""
    path = os.path.abspath(path) + os.sep
    if path.startswith(PACKAGE):
        inside = path.removeprefix(PACKAGE).removesuffix(os.sep).replace(os.sep, "/")
        write((kind, inside or ".", name))


def write(use: tuple[str, str, str]) -> None:
    """Writes one line in the list of uses, the first time; or everything that a look-up has used so far."""
    if lookup := waiting.innermost():
        lookup.used.append(use)
    elif use not in seen:
        seen.add(use)
        os.write(USES, ("\t".join(use) + "\n").encode())


def hear(event: str, arguments: tuple) -> None:
    """Listens to Python's audit events, and records opened files, listed folders and look-ups, and by whom."""
    if event == "glassformer.lookup":
        waiting.innermost()
        waiting.lookups.append(Lookup(sys._getframe(1), *arguments))
    if event == "glassformer.answer" and waiting.innermost():
        lookup = waiting.lookups.pop()
        for use in lookup.said(*arguments):
            write(use)
    if event in MAKES:
        note_made(arguments[0], sys._getframe().f_back)
    if event not in EVENTS or not isinstance(arguments[0], str | bytes | os.PathLike | None):
        return
    if sys._getframe(1).f_code is get_code.__code__:
        return
    path, caller = os.fsdecode(arguments[0] or "."), sys._getframe(1)  # os.listdir() lists where it is
    imports = caller.f_code.co_filename == IMPORTLIB
    if event != "open":
        if not imports:
            note("lists", path)
    elif imports:
        folder, compiled = os.path.split(path)
        # package/__pycache__/module.cpython-311.pyc; with a number behind, while it is written
        if ".pyc" in compiled:
            path = os.path.join(os.path.dirname(folder), compiled.split(".")[0] + ".py")
        note("imports", path)
    elif caller.f_back is None or caller.f_back.f_code.co_filename != linecache.__file__:
        note("opens", path)


def note_made(code: Any, caller: FrameType | None) -> None:
    """Records the words of code that a cell, the package or `python -c` builds; other libraries' code is ignored."""
    name = caller.f_globals.get("__name__") if caller else "__main__"
    if name in sys.modules and name != "__main__" and not f"{name}.".startswith(f"{NAME}."):
        return
    if words := pieces.words_of(code):
        path = caller.f_code.co_filename if caller else ""
        write(
            (
                "makes",
                path.removeprefix(PACKAGE).replace(os.sep, "/") if path.startswith(PACKAGE) else ".",
                words,
            )
        )


def note_names(names: Any) -> None:
    """Records that all names of a module were asked for, if these are the names of a module of the package."""
    if isinstance(names, dict) and isinstance(path := names.get("__file__"), str) and path.endswith(".py"):
        module = sys.modules.get(names.get("__name__", ""))
        if module is not None and module.__dict__ is names:
            note("names", path)


def asking(plain: Callable[..., Any], of_caller: Callable[[FrameType], Any]) -> Callable[..., Any]:
    """Returns a builtin that notes when it is asked for all names of a module; without arguments, of the caller."""

    @wraps(plain)
    def asked(*about: Any) -> Any:
        if not about:
            caller = sys._getframe(1)
            note_names(caller.f_globals if caller.f_locals is caller.f_globals else None)
            return of_caller(caller)
        if isinstance(about[0], ModuleType):
            note_names(about[0].__dict__)
        return plain(*about)

    return asked


def all_globals() -> dict[str, Any]:
    """Works as globals; notes that all names of the caller's module were asked for."""
    names = sys._getframe(1).f_globals
    note_names(names)
    return names


def getlines(filename: str, module_globals: dict[str, Any] | None = None) -> list[str]:
    """Works like linecache's getlines; a source that is read for no particular function or class counts as opened."""
    if sys._getframe(1).f_code is not PLAIN_FINDSOURCE.__code__:
        note("opens", filename)
    return PLAIN_GETLINES(filename, module_globals)


def findsource(object: Any) -> tuple[list[str], int]:
    """Works like inspect's findsource, on which getsource and getsourcelines rely; records what is shown."""
    found = PLAIN_FINDSOURCE(object)
    name = getattr(object, "__qualname__", "<module>")
    if "<" in name:  # a module, or a function made by another: all of the file
        note("opens", inspect.getsourcefile(object) or "")
    else:
        note("shows", inspect.getsourcefile(object) or "", name)
    return found


class Reached(dict):
    """The functions and `raise` statements that were reached; new ones are written down."""

    def __missing__(self, piece: str) -> None:
        file, name = piece.split(" ")
        if not waiting.innermost():  # whoever calls it outside a look-up is heard
            self[piece] = None
        note("calls", os.path.join(PACKAGE, file), name)


def get_code(loader: SourceFileLoader, fullname: str) -> CodeType | None:
    """Works like importlib's get_code; the package's own modules get marks, and are not read from compiled files."""
    path = os.path.abspath(loader.get_filename(fullname))
    if not path.startswith(PACKAGE):
        return PLAIN_GET_CODE(loader, fullname)
    note("imports", path)
    file = path.removeprefix(PACKAGE).replace(os.sep, "/")
    with open(path, "rb") as source:
        return compile(pieces.marked(source.read(), file), path, "exec", dont_inherit=True)


PLAIN_GET_CODE = SourceFileLoader.get_code
SourceFileLoader.get_code = get_code  # pyrefly: ignore[bad-assignment]
setattr(builtins, pieces.MARK, Reached())
PLAIN_FINDSOURCE, PLAIN_GETLINES = inspect.findsource, linecache.getlines
inspect.findsource, linecache.getlines = findsource, getlines
builtins.globals = wraps(globals)(all_globals)
builtins.vars = asking(vars, lambda caller: caller.f_locals)
builtins.locals = asking(locals, lambda caller: caller.f_locals)
builtins.dir = asking(dir, lambda caller: sorted(caller.f_locals))
sys.addaudithook(hear)
