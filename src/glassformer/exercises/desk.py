"""Lets a page of the book judge what its reader typed, without a kernel: questions and answers are JSON.

The book's practice pages run this in the reader's browser, where Python is compiled to WebAssembly and has NumPy, but
neither threads nor IPython. It calls the same commands as a practice notebook, so it gives the same verdicts.
"""

import ast
import builtins
import contextlib
import importlib
import io
import json
import linecache
import os
import re
import shutil
import stat
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

from . import commands, own_file, record
from .attempt import listed, restored, shorten
from .catalogue import find, of_chapter
from .output import Shown, display, shown_by
from .panel import Panel
from .session import as_it_was, functions_now, put_functions
from .timelimit import time_kept_by

capstone: Any = importlib.import_module(f"{__package__}.capstone")  # it takes its content from chapter 15
CAPSTONE = "capstone"  # in a request, this is the exercise whose answer is a whole GPT
ADAPTER = "Mine"  # the class that it defines
MOST_OUTPUT = 20_000  # characters; an endless loop that prints must not fill the page

# What a page keeps of the files that the reader's code writes: their suffixes, how many, bytes in all, nested folders
SUFFIXES, MOST_FILES, MOST_BYTES, DEEPEST = (".py", ".json"), 100, 1_000_000, 8
_FILE_HANGS = Panel(
    f"`{own_file.MODULE}.py` was still running after {own_file.SECONDS:g} s and was stopped",
    [("", "Download it at the top of the page, remove the loop that does not end, and open it again.")],
    mood="bad",
)
_NAMES = {own_file.ENVIRONMENT: f"{own_file.MODULE}.py", record.ENVIRONMENT: "progress.json"}
_OWN = re.compile(rf"{own_file.MODULE}\.py|{own_file.MODULE}_old/\d+\.py|progress\.json")


class Desk:
    """A place to work for the reader of one practice page.

    Every request begins with a new namespace that holds the imports of the page and the functions of the exercises
    above it, the reader's own as far as they were accepted. contributing/practice-in-the-page.md describes what
    passes between a page and its desk.
    """

    def __init__(
        self,
        chapter: str,
        setup: str,
        folder: Path,
        tell: Callable[[str], None],
        seconds: float = commands.SECONDS,
    ) -> None:
        """Makes a desk.

        Args:
            chapter: the number of the page's chapter, as in "03".
            setup: the imports of the practice notebook. Those that cannot be had here are left out.
            folder: an empty folder for the reader's files; its name decides how links to chapters begin.
            tell: called with what the page should know before the answer.
            seconds: the time limit for all checks together, and for running the reader's code.
        """
        self._chapter, self._setup, self._seconds = chapter, setup, seconds
        self._tell = lambda says, **facts: tell(json.dumps({"says": says, **facts}))
        self._folder = folder
        self._enter()
        os.environ.update({variable: str(folder / name) for variable, name in _NAMES.items()})
        sys.path.append(str(folder))  # last, as in a notebook

    def ask(self, request: str) -> str:
        """Does what a request asks for, and returns the panels to show and the reader's files afterwards.

        Raises:
            KeyError: there is no such exercise, or nothing of that kind can be asked for.
        """
        asked = json.loads(request)
        self._put(asked["files"])
        self._told = asked["files"]
        panels = self._panels = []
        page = Shown(lambda panel: panels.append(panel.data()), self._tell_late)
        with (
            shown_by(page), time_kept_by(self._time), _without_input(), _new_main(), self._output(), as_it_was()
        ):  # fmt: skip
            found = _ACTS[asked["do"]](self, asked) or {}
        nothing, files = {"right": False, "kept": "", "code": ""}, self._files()
        if self._left:
            said = Panel(
                f"Your browser does not keep {listed(self._left)}: of the files that your code writes, it keeps up to "
                f"{MOST_FILES} that end in {' or '.join(SUFFIXES)}, with {MOST_BYTES:,} bytes of UTF-8 text in all."
            )
            panels.append(said.data())
        return json.dumps({"panels": panels, "files": files, **nothing, **found})

    # --- what can be asked for ---

    def _check(self, asked: Mapping[str, Any]) -> dict[str, Any] | None:
        """Judges the reader's function, and keeps it if it is right and `keep` says so: "yes", "no" or "replace"."""
        exercise = find(asked["exercise"])
        function = self._defined(asked, "function", exercise.reference.__name__)
        if function is None:
            return None
        if commands.check(exercise.name, function, seconds=self._seconds) is not function:
            return None
        status = ""
        if asked["keep"] != "no":
            self._tell_late(_FILE_HANGS, right=True)
            status, panel = commands.kept(function, replace=asked["keep"] == "replace")
            display(panel)
        return {"right": True, "kept": status}

    def _try(self, asked: Mapping[str, Any]) -> None:
        self._run(asked)

    def _stage(self, asked: Mapping[str, Any]) -> None:
        """Judges one stage of the reader's GPT, or all of them if none is named."""
        design = self._defined(asked, "class", ADAPTER)
        if design is not None:
            capstone.check(*filter(None, [asked["stage"]]), design)

    def _built(self, asked: Mapping[str, Any]) -> None:
        design = self._defined(asked, "class", ADAPTER)
        if design is not None:
            capstone.built(design)

    def _start(self, asked: Mapping[str, Any]) -> dict[str, Any] | None:
        """Returns the code of an adapter that uses the functions in the reader's file."""
        self._tell_late(_FILE_HANGS)
        panel = capstone.commands.filled_adapter()
        display(replace(panel, code=""))
        return None if panel.mood == "bad" else {"code": panel.code}

    # --- how the reader's code runs ---

    def _defined(self, asked: Mapping[str, Any], kind: str, name: str) -> Any:
        """Returns what the reader's code defines, or None if it failed or does not define it; then a panel says so."""
        scope, exercise = self._run(asked), asked["exercise"]
        if scope is None:
            said = f"`{exercise}`: your code raised an error, so there is nothing to check yet"
            display(Panel(said, mood="bad"))
        elif name not in scope:
            said = f"`{exercise}`: your code should define a {kind} `{name}`, but it does not"
            display(Panel(said, [("", "Start over brings its first line back.")], mood="bad"))
        else:
            return scope[name]
        return None

    def _run(self, asked: Mapping[str, Any]) -> dict[str, Any] | None:
        """Runs the reader's code as a notebook runs a cell, and returns its namespace; None if it raised an error."""
        name, changed = asked["exercise"], []
        try:
            scope = self._scope(name, asked["earlier"])
            with self._code_of(name) as changed:
                value = _executed(name, asked["code"], scope)
                if value is not None:
                    self._tell("value", text=_cut(repr(value)))
        except BaseException as error:  # SystemExit too: the page goes on
            self._tell("error", text=_cut(_traceback(error, f"<{name}>")))
            scope = None
        if changed:
            display(Panel(restored(changed, by="code")))
        return scope

    @contextlib.contextmanager
    def _code_of(self, name: str) -> Iterator[list[str]]:
        """Limits the time of the reader's code for an exercise; afterwards, the list names the functions it replaced.

        These functions of Python and NumPy are restored, because a page has no kernel to restart.
        """
        functions, changed = functions_now(), []
        stopped = f"`{name}`: your code was still running after {self._seconds:g} s and was stopped"
        why = "Is there a loop whose condition never becomes false?"
        self._tell_late(Panel(stopped, [("", why)], mood="bad"))
        with self._time(self._seconds):
            try:
                yield changed
            finally:
                changed += put_functions(functions)

    def _scope(self, name: str, earlier: Mapping[str, str]) -> dict[str, Any]:
        """Returns the namespace in which the reader's code begins."""
        scope = vars(sys.modules["__main__"])
        for statement in ast.parse(self._setup).body:
            with contextlib.suppress(Exception):  # a library or a model that the page does not have
                exec(compile(ast.Module([statement], []), "<setup>", "exec"), scope)
        above = list(of_chapter(self._chapter))
        above = above[: above.index(name)] if name in above else []
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            builds_on = () if name == CAPSTONE else find(name).prose.builds_on
            mine = self._files().get(_NAMES[own_file.ENVIRONMENT], "")
            for one in map(find, dict.fromkeys([*above, *builds_on])):
                self._tell_late(_FILE_HANGS)
                called = one.reference.__name__
                is_kept = re.search(rf"^def {called}\(", mine, re.MULTILINE)
                own = one.name in builds_on or is_kept
                scope[called] = commands.own_or_the_books(one)[0] if own else one.reference
                if one.name in earlier:
                    try:
                        with self._code_of(one.name):
                            _executed(one.name, earlier[one.name], scope)
                    except Exception:  # it was right once; perhaps what it imports is gone
                        scope[called] = one.reference
        return scope

    # --- what the page is told ---

    def _tell_late(self, panel: Panel, *, right: bool = False) -> None:
        """Tells what to show, and the files as they are now, in case the page has to stop this worker.

        If the answer is right already, the page shows the verdict, too.
        """
        self._put_back()
        files = self._files()
        if files != self._told:
            self._tell("files", files=files)
            self._told = files
        self._tell("late", panel=panel.data(), right=right, before=self._panels if right else [])

    @contextlib.contextmanager
    def _time(self, seconds: float) -> Iterator[None]:
        """Lets the page keep the time, because it can stop this worker; Python itself has no thread to do so here."""
        self._tell("begin", seconds=seconds)
        try:
            yield
        finally:
            self._tell("end")

    @contextlib.contextmanager
    def _output(self) -> Iterator[None]:
        output = _Output(lambda text: self._tell("output", text=text))
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            yield
        output.flush()

    # --- the reader's files ---

    def _enter(self) -> None:
        """Goes to the folder, and makes it anew if the reader's code has removed or replaced it."""
        if not self._folder.is_dir():
            _remove(self._folder)
            self._folder.mkdir(parents=True)
        os.chdir(self._folder)

    def _put(self, files: Mapping[str, str]) -> None:
        """Writes the page's files in place of those that are here, which may be anything that code can leave."""
        self._enter()
        for path in list(self._paths()):
            _remove(path)
        for name, text in files.items():
            self._write(name, text)
        # The file may be another one now, and Python would compare only its size and the second of its last change.
        sys.modules.pop(own_file.MODULE, None)
        shutil.rmtree(self._folder / "__pycache__", ignore_errors=True)
        importlib.invalidate_caches()

    def _write(self, name: str, text: str) -> None:
        """Writes a file, unless its name leads out of the folder or cannot be used."""
        path = self._folder / name
        # An old Python's RuntimeError: a link to itself
        with contextlib.suppress(OSError, RuntimeError, ValueError):
            inside = path.parent.resolve().is_relative_to(self._folder.resolve())
            if inside and path.suffix in SUFFIXES:
                _remove(path)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(text.encode(errors="surrogatepass"))

    def _put_back(self) -> None:
        """Writes the reader's file, its earlier versions and the record again where the reader's code removed them.

        Otherwise a right answer would begin a new file, which the page would keep in place of the old one.
        """
        if not self._folder.is_dir():
            self._enter()
        for name, text in self._told.items():
            if _OWN.fullmatch(name) and not os.path.isfile(self._folder / name):
                self._write(name, text)

    def _files(self) -> dict[str, str]:
        """Returns the reader's file, earlier versions of it, the record of progress, and what the reader's code wrote.

        What their code writes is limited, and what is their own is not. Afterwards `_left` names what cannot be kept.
        """
        files, self._left, n_files, n_bytes = {}, [], MOST_FILES, MOST_BYTES
        for path in self._paths():
            name = path.relative_to(self._folder).as_posix()
            is_own = _OWN.fullmatch(name) is not None
            can = name.isprintable() and name.count("/") <= DEEPEST and n_files > 0
            with contextlib.suppress(OSError, ValueError):
                found = path.lstat()
                if stat.S_ISREG(found.st_mode) and (is_own or (can and found.st_size <= n_bytes)):
                    files[name] = path.read_bytes().decode()
                    if not is_own:
                        n_files, n_bytes = n_files - 1, n_bytes - found.st_size
                    continue
            shown = "".join(one if one.isprintable() and one != "`" else "?" for one in name)
            self._left.append(f"`{shown[:60]}`")
        return files

    def _paths(self) -> Iterator[Path]:
        """Yields what is called like a file that a page keeps, and folders that are too deep to look into."""
        for folder, folders, names in os.walk(self._folder):
            here = Path(folder)
            yield from (here / name for name in sorted(names) if Path(name).suffix in SUFFIXES)
            folders.sort()
            if len(here.relative_to(self._folder).parts) == DEEPEST:
                yield from (here / name for name in folders)
                folders.clear()


_ACTS: dict[str, Callable[[Desk, Mapping[str, Any]], dict[str, Any] | None]] = {
    "check": Desk._check,
    "try": Desk._try,
    "stage": Desk._stage,
    "built": Desk._built,
    "start": Desk._start,
}


class _Output(io.TextIOBase):
    """Passes on what is printed, line by line and up to a limit."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell, self._left, self._line = tell, MOST_OUTPUT, ""

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        if self._left > 0:
            self._line += text[: self._left]
            self._left -= len(text)
            if self._left <= 0:
                self._line += "\n… (the rest of the output is not shown)\n"
            if "\n" in text or self._left <= 0:
                self.flush()
        return len(text)

    def flush(self) -> None:
        if self._line:
            self._tell(self._line)
            self._line = ""


def _remove(path: Path) -> None:
    """Removes a file, a folder or a link, if there is one and it can be removed."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


def _executed(name: str, code: str, scope: dict[str, Any]) -> Any:
    """Runs the code for an exercise as a notebook runs a cell, and returns the value of its last line."""
    file = f"<{name}>"  # what errors call it
    linecache.cache[file] = (len(code), None, code.splitlines(keepends=True), file)  # for errors and `keep`
    scope["In"].append(code)
    cell = ast.parse(code, file)
    match cell.body:
        case [*_, ast.Expr(value)]:
            cell.body.pop()
            last = compile(ast.Expression(value), file, "eval")
        case _:
            last = None
    exec(compile(cell, file, "exec"), scope)
    return eval(last, scope) if last else None


def _cut(text: str) -> str:
    return text if len(text) <= MOST_OUTPUT else text[:MOST_OUTPUT] + " …"


def _traceback(error: BaseException, file: str) -> str:
    """Returns the error as Python prints it, from the reader's own first line on, and without lines of this file."""
    shorten(error, links=10)
    told = traceback.TracebackException.from_exception(error)
    frames = list(told.stack)
    own = next((i for i, frame in enumerate(frames) if frame.filename == file), len(frames))
    told.stack = traceback.StackSummary.from_list(one for one in frames[own:] if one.filename != __file__)
    return "".join(told.format()).rstrip()


@contextlib.contextmanager
def _new_main() -> Iterator[None]:
    """Gives the reader's code a main module of its own, in which `keep` finds what it uses, as in a notebook."""
    before, main = sys.modules["__main__"], ModuleType("__main__")
    vars(main)["In"] = []  # the cells that were run
    sys.modules["__main__"] = main
    try:
        yield
    finally:
        sys.modules["__main__"] = before


@contextlib.contextmanager
def _without_input() -> Iterator[None]:
    """Makes `input` say that nobody can answer, as a notebook without a console does."""

    def no_input(prompt: object = "") -> str:
        raise RuntimeError("input() does not work on this page. Pass what you need as an argument.")

    before = builtins.input
    builtins.input = no_input
    try:
        yield
    finally:
        builtins.input = before
