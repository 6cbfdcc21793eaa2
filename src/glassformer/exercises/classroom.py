"""Judges a folder of students' files offline, each in a process of its own, and tabulates what the class can do.

What a process found comes back in a file that only this process opened, and a line counts only if it begins with a
secret word. So what a student's code prints, or how its process ends, is no verdict.
"""

import contextlib
import csv
import html
import io
import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from glassformer.progress import bar
from glassformer.untrusted_files import bytes_in

from . import own_file, record
from .attempt import RIGHT, WRONG
from .catalogue import add, catalogue, find
from .messages import FILE
from .panel import Table
from .submission import NOT_REACHED, NOT_THERE, Found

SECONDS = 30  # of processor time for one file
PATIENCE = 3  # times as long may pass on the clock
AT_ONCE = min(os.cpu_count() or 1, 4)  # processes
LARGEST = 1024**2  # bytes of a student's file
TOLD = 16 * 1024**2  # bytes of what a process tells
KEPT = "PATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "TEMP", "TMP", "LANG"  # what the code sees of the environment
STATES = RIGHT, WRONG, NOT_THERE, NOT_REACHED
MARKS = {RIGHT: "✓", WRONG: "✗", NOT_THERE: "", NOT_REACHED: "?"}
NO_SANDBOX = (
    "The students' code ran with the rights of whoever started the command. Limits of time and memory stop accidents, "
    "but this is no sandbox. Each file was judged in the same process in which its code ran, so a file that is written "
    "to deceive may succeed. If a verdict surprises you, read the file."
)


@dataclass(frozen=True)
class Student:
    """A student's name, the verdict on each exercise, and a note on why some were not reached."""

    name: str
    verdicts: dict[str, Found]
    note: str = ""

    def having(self, status: str) -> list[str]:
        """Returns the names of the exercises with that status."""
        return [name for name, found in self.verdicts.items() if found["status"] == status]


def submissions(folder: Path) -> dict[str, Path | str]:
    """Returns each student's file by the student's name, or why there is none.

    These are ``NAME.py``, and in a folder ``NAME`` every ``my_transformer.py``, however deep. A link is not followed.

    Raises:
        OSError: the folder cannot be read.
        ValueError: nobody's file is in it.
    """
    found: list[tuple[str, Path | str]] = []
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith((".", "__")):
            continue
        if entry.is_symlink():
            found.append((entry.stem, "This is a link, which is not followed."))
        elif entry.is_dir():
            files = [Path(at, FILE) for at, _, names in os.walk(entry) if FILE in names]
            named = [(file.parent.relative_to(folder).as_posix(), file) for file in sorted(files)]
            found += named or [(entry.name, f"There is no {FILE}.")]
        elif entry.suffix == ".py":
            found.append((entry.stem, entry))
    if not any(isinstance(file, Path) for _, file in found):
        raise ValueError(f"{folder} has no files of students: NAME.py, or NAME/{FILE}")
    twice = {name for name, n in Counter(name for name, _ in found).items() if n > 1}
    return {
        file.relative_to(folder).as_posix() if name in twice and isinstance(file, Path) else name: file
        for name, file in found
    }


def judge(folder: Path, own: Sequence[Path] = (), seconds: int = SECONDS) -> list[Student]:
    """Judges the files of a folder, a few at a time, by the book's exercises and those of folders of one's own.

    Raises:
        OSError, ValueError, ImportError: a folder has no files of students, or no exercises that can be judged.
    """
    names = [name for one in own for name in add(one)]
    for name in names:
        find(name)  # a judge that does not work is the teacher's to mend
    files, running = submissions(folder), set[subprocess.Popen]()
    judged = partial(_judged, own=[str(one.resolve()) for one in own], seconds=seconds, running=running)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            return list(bar(pool.map(judged, files, files.values()), total=len(files)))
        except BaseException:  # Ctrl-C ends what has begun
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(running):
                _end(process)
            raise


def _judged(
    name: str, file: Path | str, own: list[str], seconds: int, running: set[subprocess.Popen]
) -> Student:
    known = list(catalogue())
    try:
        code, note = (bytes_in(file, LARGEST), "") if isinstance(file, Path) else (b"", file)
    except (OSError, ValueError) as error:
        code, note = b"", _plain(str(error).replace(str(file), Path(file).name))
    found, note = ({}, note) if note else _told(code, own, seconds, running)
    missing = {"status": NOT_REACHED, "message": note, "mistake": ""}
    verdicts = {one: found.get(one, missing) for one in known}
    late = (f"{one}: {it['message']}" for one, it in verdicts.items() if it["status"] == NOT_REACHED)
    return Student(_plain(name), verdicts, note or next(late, ""))


def _told(
    code: bytes, own: list[str], seconds: int, running: set[subprocess.Popen]
) -> tuple[dict[str, Found], str]:
    """Returns what a process of its own finds about a file, and a note if it did not come to the end."""
    secret = secrets.token_hex(16)
    request = json.dumps({"secret": secret, "seconds": seconds, "exercises": own}).encode()
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place, tempfile.TemporaryFile() as told:
        file = Path(place, FILE)
        file.write_bytes(code)
        few = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
        paths = {own_file.ENVIRONMENT: str(file), record.ENVIRONMENT: str(Path(place, "progress.json"))}
        home = {"HOME": place, "PYTHONPATH": str(Path(__file__).parents[2]), "HF_HUB_OFFLINE": "1"}
        process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.submission"],
            stdin=subprocess.PIPE,
            stdout=told,
            stderr=subprocess.DEVNULL,
            cwd=place,
            env={one: os.environ[one] for one in KEPT if one in os.environ} | few | paths | home,
            start_new_session=True,
        )
        running.add(process)
        ended = ""
        try:
            process.communicate(request, timeout=PATIENCE * seconds)
        except subprocess.TimeoutExpired:
            ended = f"It was stopped after {PATIENCE * seconds} s"
        finally:
            _end(process)
            running.discard(process)
        told.seek(0)
        lines = [
            line.removeprefix(secret.encode())
            for line in told.read(TOLD).split(b"\n")
            if secret.encode() in line
        ]
    if process.returncode == -getattr(signal, "SIGXCPU", signal.SIGTERM):
        ended = f"Its {seconds} s of processor time were used up"
    try:
        return _read(lines, ended or f"Its process ended early, with status {process.returncode},")
    except (
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
    ):  # the file has found out the word, and made lines
        return {}, "Its process told what makes no sense."


def _read(lines: list[bytes], ended: str) -> tuple[dict[str, Found], str]:
    told: dict[str, Any] = {}
    found: dict[str, Found] = {}
    for line in lines:
        with contextlib.suppress(ValueError):  # a line that was cut off
            said = json.loads(line)
            if "exercise" in said:
                texts = {what: _plain(said[what]) for what in ("status", "message", "mistake")}
                found.setdefault(said["exercise"], texts)
                STATES.index(texts["status"])
            told |= said
    if "trouble" in told:
        return {}, _plain(told["trouble"])
    there = told.get("there", [])
    nothing = {"status": NOT_THERE, "message": "", "mistake": ""}
    others = dict.fromkeys(catalogue().keys() - set(there), nothing) if "there" in told else {}
    left = [name for name in there if name not in found]
    if "done" in told:
        return found | others, ""
    while_what = f"while {left[0]} was judged" if left else "while the file was imported"
    return found | others, f"{ended} {while_what}."


def _end(process: subprocess.Popen) -> None:
    """Ends a process and those that it has started, as far as the system knows them."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL) if os.name == "posix" else process.kill()
    process.wait()


def _plain(text: object) -> str:
    """Returns a text of a student's as one line of characters that every terminal and page can show."""
    line = " ".join(str(text).split())
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)[:1000]


def tables(students: Sequence[Student]) -> list[Table]:
    """Returns the tables for a terminal: each student, each exercise that somebody has, and the class's mistakes."""
    rows = [
        (
            one.name,
            *(str(len(one.having(status))) for status in STATES),
            f"{', '.join(one.having(WRONG))} {one.note}",
        )
        for one in students
    ]
    counts = {name: Counter(one.verdicts[name]["status"] for one in students) for name in catalogue()}
    each = [
        (name, *(str(counts[name][status]) for status in STATES))
        for name in counts
        if counts[name][RIGHT] + counts[name][WRONG]
    ]
    return [
        Table("Students", ("student", *STATES, "wrong in, or a note"), rows),
        Table("Exercises that somebody has", ("exercise", *STATES), each),
        Table(
            "Mistakes that the checks recognised",
            ("students", "exercise", "mistake"),
            [(str(n), *mistake) for mistake, n in _mistakes(students).most_common()],
        ),
    ]


def _mistakes(students: Sequence[Student]) -> Counter[tuple[str, str]]:
    """Returns how many students make each mistake: the exercise and the sentence."""
    return Counter(
        (name, found["mistake"])
        for one in students
        for name, found in one.verdicts.items()
        if found["mistake"]
    )


def as_csv(students: Sequence[Student]) -> bytes:
    """Returns one line for each student and exercise, in UTF-8 as spreadsheets read it."""
    whole = io.StringIO(newline="")
    writer = csv.writer(whole)
    writer.writerow(("student", "exercise", "verdict", "mistake", "message"))
    for one in students:
        for name, found in one.verdicts.items():
            line = one.name, name, found["status"], found["mistake"], found["message"]
            # A spreadsheet would compute what begins like a formula.
            writer.writerow(f"'{text}" if text.startswith(("=", "+", "-", "@")) else text for text in line)
    return whole.getvalue().encode("utf-8-sig")


def as_page(students: Sequence[Student], title: str) -> bytes:
    """Returns a page without scripts that can be printed: the tables, who has what, and each wrong answer."""
    return "".join(_page(students, html.escape(_plain(title)))).encode()


def _page(students: Sequence[Student], title: str) -> Iterator[str]:
    yield f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
body {{ font: 11pt/1.4 sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em }}
caption {{ font-weight: bold }} tr {{ break-inside: avoid; vertical-align: top }}
th, td {{ border-bottom: 1px solid #bbb; white-space: normal !important; overflow-wrap: break-word }}
.who th, .who td {{ white-space: nowrap !important; padding: 0 0.4em 0 0 !important }}
.who th + th {{ writing-mode: vertical-rl; font-weight: normal }}
</style></head><body><h1>{title}</h1><p>{len(students)} files. {NO_SANDBOX}</p>
"""
    for table in tables(students):
        yield table._repr_html_()
    shown = [
        name
        for name in catalogue()
        if any(one.verdicts[name]["status"] in (RIGHT, WRONG) for one in students)
    ]
    marks = [(name, *(MARKS[one.verdicts[name]["status"]] for one in students)) for name in shown]
    who = Table(
        "Who has what (✓ right, ✗ wrong, ? not reached)", ("exercise", *(one.name for one in students)), marks
    )
    yield f'<div class="who">{who._repr_html_()}</div>'
    wrong = [
        (one.name, name, one.verdicts[name]["message"]) for one in students for name in one.having(WRONG)
    ]
    yield Table("What is wrong", ("student", "exercise", "what the check says"), wrong)._repr_html_()
    yield "</body></html>\n"
