"""Write down what of the package a process uses. Every Python that finds this on its path imports it first.

`tools/freshness.py` puts it on the path of a notebook's kernel, and so of whatever that starts. Each use is one
line of the file GLASSFORMER_USES: imports, calls, opens, lists or shows; the file or folder in the package; of a source
that is shown, the name of its function or class; of a call, the name of the function, or of the function and the number
of a `raise` statement in it.

What a look-up uses (`glassformer/lookups.py`) is held back until it answers. Then its question is written down with a
hash of the answer, as a line that begins with "asks", in place of what it used. Where that would not be all, what it
used is written down after all: it imported a module, whose code others run, or its question or answer has no words.

The package's modules are compiled here, with a mark in every function (`pieces.py`). Unlike a trace function, a mark
also speaks in threads that Python did not start, and under a debugger or whatever else sets a trace function.
"""

import builtins
import inspect
import linecache
import os
import sys
import threading
from importlib.machinery import SourceFileLoader
from types import CodeType, FrameType
from typing import Any

import answers  # pyrefly: ignore[missing-import]
import pieces  # pyrefly: ignore[missing-import]

PACKAGE = os.environ["GLASSFORMER_PACKAGE"] + os.sep
USES = os.open(os.environ["GLASSFORMER_USES"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
EVENTS = ("open", "os.listdir", "os.scandir")
IMPORTLIB = "<frozen importlib._bootstrap_external>"
seen = set()


class Lookup:
    """One that has not answered yet."""

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
        """Returns the look-up that now runs, if one does. One that was cut off counts with all that it used."""
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
    """One use of a file or folder, if that is in the package."""
    path = os.path.abspath(path) + os.sep
    if path.startswith(PACKAGE):
        inside = path.removeprefix(PACKAGE).removesuffix(os.sep).replace(os.sep, "/")
        write((kind, inside or ".", name))


def write(use: tuple[str, str, str]) -> None:
    """One line in the list of uses, the first time; or what a look-up has used so far."""
    if lookup := waiting.innermost():
        lookup.used.append(use)
    elif use not in seen:
        seen.add(use)
        os.write(USES, ("\t".join(use) + "\n").encode())


def hear(event: str, arguments: tuple) -> None:
    """Listens to Python's audit events, and notes opened files, listed folders and look-ups, and by whom."""
    if event == "glassformer.lookup":
        waiting.innermost()
        waiting.lookups.append(Lookup(sys._getframe(1), *arguments))
    if event == "glassformer.answer" and waiting.innermost():
        lookup = waiting.lookups.pop()
        for use in lookup.said(*arguments):
            write(use)
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


def getlines(filename: str, module_globals: dict[str, Any] | None = None) -> list[str]:
    """Works as linecache's; notes a source that is read for no particular function or class as opened."""
    if sys._getframe(1).f_code is not PLAIN_FINDSOURCE.__code__:
        note("opens", filename)
    return PLAIN_GETLINES(filename, module_globals)


def findsource(object: Any) -> tuple[list[str], int]:
    """Works as inspect's, on which getsource and getsourcelines rely; notes the function or class that is shown."""
    found = PLAIN_FINDSOURCE(object)
    name = getattr(object, "__qualname__", "<module>")
    if "<" in name:  # a module, or a function made by another: all of the file
        note("opens", inspect.getsourcefile(object) or "")
    else:
        note("shows", inspect.getsourcefile(object) or "", name)
    return found


class Reached(dict):
    """The functions and `raise` statements that were reached: a new one is written down."""

    def __missing__(self, piece: str) -> None:
        file, name = piece.split(" ")
        if not waiting.innermost():  # whoever calls it outside a look-up is heard
            self[piece] = None
        note("calls", os.path.join(PACKAGE, file), name)


def get_code(loader: SourceFileLoader, fullname: str) -> CodeType | None:
    """As importlib has it; the package's own modules get their marks, and are not taken from compiled files."""
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
sys.addaudithook(hear)
