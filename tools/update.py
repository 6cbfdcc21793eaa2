"""Update this copy of the book and keep what its reader wrote, using only git and the Python on this machine.

    python3 tools/update.py            fetch the newest version and merge it with the reader's files
    python3 tools/update.py --open     do so while JupyterLab is running, if nobody can shut it down

Notebooks are merged cell by cell. A cell's source is the reader's if the reader has changed it, otherwise the book's.
Cells that the reader has added stay below the cell that they follow. If both have changed a cell, the reader's is kept,
and the book's follows it as text, which is never run. Lines within a cell are not merged, because an answer to the old
question seldom runs with half of the new one. Outputs go with the source. Other files are merged as git does it.

Before a file of the reader's is replaced, it is copied into `backups`. The branch moves last, and a notebook records
which version it was made from, so an interrupted update can simply be run again.
"""

from __future__ import annotations

import argparse
import contextlib
import difflib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
NOTE = "**An update of the book changed this cell. Yours, above, was kept; this is the book's new version:**"
OUTPUTS = "your outputs only"
WIDGET_STATE = "application/vnd.jupyter.widget-state+json"
# metadata.glassformer.cells, which tools/notebooks.py writes
MADE_FROM = re.compile(rb'"cells":\s*"([0-9a-f]{64})"')
NUMBERED = re.compile(r"(.*/)(\d+)[^/]*\.ipynb")
EXERCISE = re.compile(r"""\bcheck\(\s*["']([\w.]+)["']""")
BEGUN = "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply"


class Merged(NamedTuple):
    """The result of merging a file that the reader has changed."""

    target: str  # its path in the newest version
    content: bytes | None  # None if it has to go
    words: str  # what it has of the reader's, or ""


class UpdateError(Exception):
    """The book cannot be updated; the message says why, and what the reader can do."""


# Notebooks


def source(cell: dict) -> tuple[str, str]:
    """Returns a cell's kind and what is written in it."""
    return cell["cell_type"], "".join(cell["source"])


def partners(old: list[dict], new: list[dict], *, similar: bool = True) -> dict[int, int]:
    """Returns which cell of `new` is which of `old`, by their indices: the one with the same id or the same source.

    With `similar`, it is otherwise the one that checks the same exercise, or the most similar one that checks none.
    """
    found: dict[int, int] = {}

    def pair(key: Callable[[dict], object], choose: Callable[[str, list[int]], list[int]]) -> None:
        free: dict[object, list[int]] = {}
        for j in sorted(set(range(len(new))) - set(found.values())):
            free.setdefault(key(new[j]), []).append(j)
        for i in sorted(set(range(len(old))) - found.keys()):
            candidates = free.get(key(old[i]), [])
            for j in choose(source(old[i])[1], candidates)[:1]:
                found[i] = j
                candidates.remove(j)

    def closest(text: str, candidates: list[int]) -> list[int]:
        if EXERCISE.search(text):
            return candidates
        words = {
            tuple(source(new[j])[1].split()): j for j in reversed(candidates)
        }  # comparing letters takes long
        return [words[tuple(match)] for match in difflib.get_close_matches(tuple(text.split()), words, n=1)]

    pair(lambda cell: cell.get("id") or repr(cell), lambda _, candidates: candidates)
    pair(source, lambda _, candidates: candidates)
    if similar:
        pair(lambda cell: (cell["cell_type"], *EXERCISE.findall(source(cell)[1])), closest)
    return found


def merged_notebook(base: bytes | None, ours: bytes, theirs: bytes) -> tuple[bytes, str]:
    """Returns `theirs` with what the reader changed between `base` and `ours`, and in words what that is.

    Without any such change, it is `theirs` itself, and no words.

    Raises:
        ValueError: one of them is not a notebook.
    """
    try:
        book = json.loads(theirs)
        words = _bring(json.loads(base)["cells"] if base else [], json.loads(ours), book)
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("not a notebook") from error
    if not words:
        return theirs, ""
    written = json.dumps(book, indent=1, ensure_ascii=False) + "\n"
    return written.encode("utf-8", "backslashreplace"), words  # half a surrogate pair is an escape again


def _bring(before: list[dict], mine: dict, book: dict) -> str:
    """Puts what the reader changed into the book's notebook, and returns in words what that is."""
    reader, now = mine["cells"], book["cells"]
    kept = partners(before, reader)
    was = {j: source(before[i]) for i, j in kept.items()}
    own = [j for j in range(len(reader)) if j not in was]
    if [was.get(j) for j in range(len(reader))] == [*map(source, reader)] and len(kept) == len(before):
        return ""
    still = partners(before, now)
    place = {j: still[i] for i, j in kept.items() if i in still}  # of the reader's cells in the new notebook
    new = [k for k in range(len(now)) if k not in set(still.values())]
    alike = partners([reader[j] for j in own], [now[k] for k in new], similar=False)  # both have added them
    place.update({own[j]: new[k] for j, k in alike.items()})

    deleted = [still[i] for i in still.keys() - kept.keys() if source(before[i]) == source(now[still[i]])]
    slots = [[] if k in deleted else [cell] for k, cell in enumerate(now)]
    ids = {None, *(cell.get("id") for cell in now)}
    stay: list[dict] = []  # the reader's cells
    edited = added = both = 0
    slot: list[dict] = []
    slots.insert(0, slot)  # what precedes every cell of the book
    for j, cell in enumerate(reader):
        if j in place:
            slot, theirs = slots[place[j] + 1], now[place[j]]
            if source(cell) in (source(theirs), was.get(j)):
                continue
            slot[0] = {**cell, "id": theirs.get("id")}
            stay.append(slot[0])
            edited += 1
            if source(theirs) != was.get(j):
                slot.append(_note(theirs))
                both += 1
        elif source(cell) != was.get(j):  # otherwise the book has dropped it
            slot.append({**cell, "id": _id(j, source(cell))} if cell.get("id") in ids else cell)
            stay.append(slot[-1])
            edited += j in was
            added += j not in was and not source(cell)[1].startswith(NOTE)
    book["cells"] = [cell for slot in slots for cell in slot]
    _bring_widgets(stay, mine, book)
    counts = (edited, "changed"), (added, "added"), (len(deleted), "deleted")
    words = ", ".join(f"{n} cell{'s' * (n > 1)} that you {what}" for n, what in counts if n)
    return words + (f"; the book changed {both} of them, too, and its version is below yours" if both else "")


def _id(*of: object) -> str:
    """Returns an id for a cell that needs a new one. Merging the same again gives the same."""
    return hashlib.sha256(repr(of).encode("utf-8", "backslashreplace")).hexdigest()[:8]


def _note(cell: dict) -> dict:
    """Returns a cell of text that shows the book's version of a cell."""
    kind, text = source(cell)
    shown = f"````python\n{text}\n````" if kind == "code" else text
    written = f"{NOTE}\n\n{shown}".splitlines(keepends=True)
    return {"cell_type": "markdown", "id": _id(cell.get("id"), written), "metadata": {}, "source": written}


def _bring_widgets(cells: list[dict], mine: dict, book: dict) -> None:
    """Puts into the book's notebook the states of the widgets that the reader's cells show, and of their parts."""
    states = mine["metadata"].get("widgets", {}).get(WIDGET_STATE, {}).get("state", {})
    shown: dict[str, dict] = {}
    models = re.findall(r'"model_id": "([^"]+)"', json.dumps(cells))
    while models:
        model = models.pop()
        if model in states and model not in shown:
            shown[model] = states[model]
            models += re.findall(r"IPY_MODEL_([\w-]+)", json.dumps(states[model]))
    if shown:
        empty = {"state": {}, "version_major": 2, "version_minor": 0}
        book["metadata"].setdefault("widgets", {}).setdefault(WIDGET_STATE, empty)["state"].update(shown)


# The copy


class Copy:
    """The folder with the reader's copy of the book, and what git knows about it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def git(self, *arguments: str, data: bytes = b"", **environment: str) -> bytes:
        """Runs git and returns what it prints. Raises UpdateError with git's last words if it fails."""
        ran = subprocess.run(
            ["git", *arguments],
            cwd=self.root,
            input=data,
            capture_output=True,
            env={**os.environ, **environment},
        )
        if ran.returncode:
            words = ran.stderr.decode("utf-8", "replace").strip().splitlines() or ["no reason given"]
            why = next((line for line in words if line.startswith(("fatal:", "error:"))), words[-1])
            raise UpdateError(f"git {arguments[0]}: {_without_password(why)}")
        return ran.stdout

    def line(self, *arguments: str) -> str:
        """Returns the one line that git prints, or "" if it fails."""
        try:
            return self.git(*arguments).decode("utf-8", "surrogateescape").strip()
        except UpdateError:
            return ""

    def paths(self, *arguments: str) -> list[str]:
        """Returns the paths that git lists, or other words between zeros."""
        return self.git(*arguments).decode("utf-8", "surrogateescape").split("\0")[:-1]

    def changed(self, *versions: str, only: str = "") -> list[str]:
        """Returns the files that differ between two versions, or between one and the folder. `only` as in git diff."""
        return self.paths("diff", "--name-only", "--no-renames", "-z", f"--diff-filter={only}", *versions)

    def stored(self, version: str, path: str) -> bytes | None:
        """Returns a file of a version, or None if that has none."""
        try:
            return self.git("cat-file", "blob", f"{version}:{path}")
        except UpdateError:
            return None

    def here(self, path: str) -> bytes | None:
        """Returns a file of the folder, or None if there is none."""
        file = self.root / path
        return file.read_bytes() if file.is_file() else None

    def write(self, path: str, content: bytes) -> None:
        """Writes a file so that a crash leaves either the old one or the new one."""
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        scratch = file.with_name(f".{file.name}.{os.getpid()}")
        scratch.write_bytes(content)
        if file.exists():
            shutil.copymode(file, scratch)
        os.replace(scratch, file)

    def remove(self, path: str) -> None:
        """Deletes a file, and the folders that it leaves empty."""
        file = self.root / path
        file.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # a folder that is not empty stays, and so do those above it
            os.removedirs(file.parent)

    def origin(self, path: str, ours: bytes | None, base: str, newest: str) -> str:
        """Returns the version that a file was made from: as a rule `base`.

        A notebook records it. It is another version if an editor saved an older one over an update, if an update was
        interrupted, or if the notebook comes from another copy.
        """
        made = MADE_FROM.search(ours or b"") if path.endswith(".ipynb") else None
        if not made:
            return base

        def is_it(version: str) -> bool:
            found = MADE_FROM.search(self.stored(version, path) or b"")
            return found is not None and found[1] == made[1]

        if is_it(base):
            return base
        last = self.line("log", "-1", "--format=%H", f"-S{made[1].decode()}", newest, "HEAD", "--", path)
        return next(filter(is_it, (last, f"{last}^")), base) if last else base

    def renamed(self, base: str, newest: str) -> dict[str, str]:
        """Returns the new path of every notebook that has another one since `base`: as git says, or by its number."""

        def numbered(kind: str) -> dict[tuple[str, ...], str]:
            paths = self.changed(base, newest, only=kind)
            return {found.groups(): path for path in paths if (found := NUMBERED.fullmatch(path))}

        new = numbered("A")
        by_number = {path: new[place] for place, path in numbered("D").items() if place in new}
        words = self.paths(
            "diff", "--name-status", "-M", "--diff-filter=R", "-z", base, newest, "--", "*.ipynb"
        )
        return {**by_number, **{words[i]: words[i + 1] for i in range(1, len(words), 3)}}

    def merged(
        self, paths: Iterable[str], read: Callable[[str], bytes | None], base: str, newest: str
    ) -> dict[str, Merged]:
        """Merges the reader's version of each file, as `read` gives it, with the newest."""
        work: dict[str, tuple[bytes | None, str, str]] = {}
        renamed: dict[str, dict[str, str]] = {}
        for path in paths:
            ours = read(path)
            version = self.origin(path, ours, base, newest)
            if version not in renamed:
                renamed[version] = self.renamed(version, newest)
            work[path] = ours, version, renamed[version].get(path, path)
        results: dict[str, Merged] = {}
        content: dict[str, bytes | None] = {}
        for path in sorted(work, key=lambda path: path != work[path][2]):  # first, what has its new name
            ours, version, target = work[path]
            theirs = content[target] if target in content else self.stored(newest, target)
            before = self.stored(version, path)
            if ours is None:
                if path != target or theirs is None:
                    continue
                result = theirs, "you had deleted it, and it is back"
            elif theirs is None:
                result = self._dropped(path, before, ours)
            elif _unix(ours) in (theirs, before):
                result = theirs, ""
            elif theirs == before:
                result = ours, "" if path == target else "as you left it"
            else:
                result = self._merged(path, before, ours, theirs)
            content[target] = result[0]
            results[path] = Merged(target, *result)
        return results

    def _dropped(self, path: str, before: bytes | None, ours: bytes) -> tuple[bytes | None, str]:
        """Returns what becomes of a reader's file that the newest version does not have."""
        if before is None:
            return ours, ""
        is_book = _unix(ours) == before
        if path.endswith(".ipynb") and not is_book:
            with contextlib.suppress(ValueError):
                is_book = not merged_notebook(before, ours, before)[1]
        return (None, "") if is_book else (ours, "the book no longer has it; yours is still there")

    def _merged(self, path: str, before: bytes | None, ours: bytes, theirs: bytes) -> tuple[bytes, str]:
        """Returns a file that the reader and the book have changed, merged, and in words what is the reader's."""
        if path.endswith(".ipynb"):
            try:
                merged, words = merged_notebook(before, ours, theirs)
                return merged, words or OUTPUTS
            except ValueError:
                return theirs, "could not be read as a notebook, so this is the book's"
        versions = {"yours": _unix(ours), "before": before or b"", "book": theirs}
        with tempfile.TemporaryDirectory() as scratch:
            files = {str(Path(scratch, name)): text for name, text in versions.items()}
            for file, text in files.items():
                Path(file).write_bytes(text)
            try:
                return self.git("merge-file", "-p", *files), "your changes"
            except UpdateError:  # in the same lines, or not text
                return theirs, "you and the book changed the same lines, so this is the book's"

    def date(self, version: str) -> str:
        """Returns the day of a version."""
        return self.line("log", "-1", "--format=%cd", "--date=short", version)

    def fetch(self) -> str:
        """Fetches the newest version and returns its commit.

        It is at the remote `upstream`, or where this branch comes from, or on the main branch of `origin`.
        """
        remotes = self.line("remote").split()
        branch = self.line("symbolic-ref", "-q", "--short", "HEAD")  # "" if HEAD is detached
        tracked = self.line("config", f"branch.{branch}.remote")
        remote = next((name for name in ("upstream", tracked, "origin", *remotes) if name in remotes), None)
        if remote is None:
            raise UpdateError(
                "git does not know where this copy of the book came from. Tell it the address that you cloned:"
                " git remote add origin ADDRESS"
            )
        address = _without_password(self.line("remote", "get-url", remote))
        print(f"Looking for a newer version at {address} …", flush=True)
        try:
            if remote == tracked:
                wanted = self.line("config", f"branch.{branch}.merge")
            else:
                listed = self.git("ls-remote", "--symref", remote, "HEAD").decode("utf-8", "replace")
                default = re.search(r"^ref: (\S+)\tHEAD", listed, re.MULTILINE)
                wanted = default[1] if default else branch or "main"
            self.git("fetch", "--quiet", remote, wanted)
        except UpdateError as error:
            raise UpdateError(
                f"The newest version could not be fetched from {address}, and nothing has been changed. Are you online?"
                f" This is what git says: {error}"
            ) from None
        return self.line("rev-parse", "FETCH_HEAD")

    def joined(self, newest: str, results: dict[str, Merged]) -> str:
        """Returns a new commit that joins the reader's own commits with the newest version."""
        with tempfile.TemporaryDirectory() as scratch:
            index = {"GIT_INDEX_FILE": str(Path(scratch, "index"))}
            self.git("read-tree", newest, **index)
            for path, (target, content, _) in results.items():
                if content is None:
                    continue
                mode = self.line("ls-tree", "HEAD", "--", path).partition(" ")[0] or "100644"
                blob = self.git("hash-object", "-w", "--stdin", data=content).decode().strip()
                self.git("update-index", "--add", "--cacheinfo", f"{mode},{blob},{target}", **index)
            tree = self.git("write-tree", **index).decode().strip()
        message = ("-m", "Merge the newest version of the book")
        return self.git("commit-tree", tree, "-p", "HEAD", "-p", newest, *message).decode().strip()

    def take(self, paths: list[str], version: str) -> None:
        """Writes files of a version, and deletes those that it does not have."""
        with tempfile.TemporaryDirectory() as scratch:
            index = {"GIT_INDEX_FILE": str(Path(scratch, "index"))}
            self.git("read-tree", version, **index)
            there = {*self.git("ls-files", "-z", **index).decode("utf-8", "surrogateescape").split("\0")}
            for path in {*paths} - there:
                self.remove(path)
            names = "".join(f"{path}\0" for path in paths if path in there)
            self.git("checkout-index", "-f", "-z", "--stdin", data=os.fsencode(names), **index)


def _unix(text: bytes) -> bytes:
    """Returns a text with the line ends that git stores, whatever an editor on Windows has made of them."""
    return text if b"\0" in text else text.replace(b"\r\n", b"\n")


def _without_password(text: str) -> str:
    return re.sub(r"//[^/@\s]*@", "//", text)


def jupyter(root: Path, *arguments: str) -> bytes:
    """Runs the Jupyter of the book's environment, if there is one, and returns what it prints."""
    place = root / os.environ.get("VENV", ".venv")
    python = place / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        return b""
    return subprocess.run([python, "-m", "jupyter", *arguments], cwd=root, capture_output=True).stdout


def lab_runs(root: Path) -> bool:
    """Returns whether a JupyterLab of the book's environment shows the files of this folder."""
    try:
        servers = json.loads(jupyter(root, "server", "list", "--jsonlist"))
    except ValueError:  # there is no Jupyter
        return False
    return any(Path(server["root_dir"]).resolve() in (root, *root.parents) for server in servers)


def check(copy: Copy, *, lab_may_run: bool) -> None:
    """Raises UpdateError if the folder is in no state to be updated."""
    if shutil.which("git") is None:
        raise UpdateError("There is no git on this machine. Install it, and run this again.")
    if not (copy.root / ".git").exists():
        raise UpdateError(
            "This folder has no history of git; it may have been downloaded as a ZIP file. Clone the book with"
            " `git clone` from where you found it, copy your folder `notebooks` and your my_transformer.py over those"
            " of the new folder, and run this there: it merges your notebooks with the new ones."
        )
    copy.git("rev-parse", "HEAD")
    begun = any((copy.root / copy.line("rev-parse", "--git-path", name)).exists() for name in BEGUN)
    if begun or copy.git("ls-files", "--unmerged"):
        raise UpdateError(
            "git has begun to merge files here and has not finished, as `git status` shows. Finish it, or undo it with"
            " `git merge --abort` or `git rebase --abort`. Then run this again."
        )
    if not lab_may_run and lab_runs(copy.root):
        raise UpdateError(
            "JupyterLab is running in this folder. Save your notebooks, choose File > Shut Down in JupyterLab, and run"
            " this again. If you cannot shut it down, close all its notebooks and run"
            " `python tools/update.py --open`."
        )


def update(root: Path, *, lab_may_run: bool = False) -> None:
    """Fetches the newest version, merges it with the reader's files, and says what became of them.

    Raises:
        UpdateError: why it cannot be done.
    """
    copy = Copy(root)
    check(copy, lab_may_run=lab_may_run)
    newest, head = copy.fetch(), copy.line("rev-parse", "HEAD")
    base = copy.line("merge-base", newest, head)
    if not base:
        raise UpdateError(
            "This copy and the newest version have no history in common, so git cannot merge them. Clone the book into"
            " another folder, copy your folder `notebooks` over the new one, and run this there."
        )
    if base == newest:  # this copy has it already, and perhaps commits of the reader's
        base = newest = head

    goal, commits = newest, copy.changed(base, head)
    if commits:
        goal = copy.joined(newest, copy.merged(commits, lambda path: copy.stored(head, path), base, newest))
    news = {*copy.changed(head, goal)}
    in_the_way = [path for path in copy.changed(head, newest, only="A") if copy.here(path) is not None]
    untracked = copy.paths("ls-files", "-z", "--others", "--exclude-standard", "--", "notebooks/*.ipynb")
    touched = {*commits, *copy.changed(head), *in_the_way, *untracked}
    results = copy.merged(touched, copy.here, base, newest)
    rest = sorted(news - touched - {result.target for result in results.values()})
    for path, (target, content, words) in list(results.items()):
        if path == target and content == copy.here(path) and not (words and path in news):
            del results[path]  # it stays as it is
    if goal == head and not results:
        print(f"You have the newest version, of {copy.date(head)}. Nothing has been changed.")
        return

    backup = Path("backups", time.strftime("%Y-%m-%d-%H-%M-%S"))
    targets = {result.target for result in results.values()}
    for path in {*results, *targets}:
        if (content := copy.here(path)) is not None:
            copy.write("backups/.gitignore", b"*\n")
            copy.write(str(backup / path), content)
    for path, (target, content, _) in results.items():
        if content is not None:
            copy.write(target, content)
        if content is None or target != path:
            copy.remove(path)
    copy.take(rest, goal)
    copy.git("reset", "--quiet", "--mixed", goal)
    if notebooks := sorted(path for path in {*rest, *targets} if path.endswith(".ipynb") and copy.here(path)):
        jupyter(root, "trust", *notebooks)  # all that they show is the book's or the reader's own
    if goal != head:
        print(f"The book is now the version of {copy.date(newest)}. CHANGELOG.md says what is new.")
    report(results, backup if (root / backup).exists() else None)
    if "requirements.txt" in news:
        print("The packages that the book needs have changed, so the next start takes a few minutes.")
    if lab_may_run:
        print(
            "In JupyterLab, reload the page. If it says that a file has changed, choose Revert, not Overwrite."
        )
    else:
        print("Open the book again with `make lab` or `python tools/lab.py`.")


def report(results: dict[str, Merged], backup: Path | None) -> None:
    """Says what became of the reader's files."""
    told = {target: (path, words) for path, (target, _, words) in sorted(results.items()) if words}
    if any(words != OUTPUTS for _, words in told.values()):
        print("\nYour work is in the new version:")
    for target, (path, words) in told.items():
        if words != OUTPUTS:
            print(f"  {target}{f' (was {path})' if target != path else ''}: {words}")
    if run := [target for target, (_, words) in told.items() if words == OUTPUTS]:
        print("\nYou had run these notebooks without changing a cell. They show the book's outputs again:")
        print(*(f"  {target}" for target in run), sep="\n")
    if backup:
        print(
            f"\nThese files as you had them are in {backup}. Delete that folder when you no longer need it."
        )
    print("my_transformer.py and your progress are as they were.")


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description="Update the book and keep your answers.")
    parser.add_argument(
        "--open", action="store_true", help="do so although JupyterLab is running in this folder"
    )
    options = parser.parse_args(arguments)
    try:
        update(root, lab_may_run=options.open)
    except UpdateError as error:
        print(error, file=sys.stderr)
    except OSError as error:
        print(
            f"The update has stopped halfway: {error}. When that is mended, run this again.", file=sys.stderr
        )
    except KeyboardInterrupt:
        print("The update was interrupted. Run this again to complete it.", file=sys.stderr)
    else:
        return 0
    return 1


if __name__ == "__main__":
    sys.exit(main())
