"""Judges a folder of students' files, each in a process of its own, and tabulates what the class can do.

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
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from glassformer.progress import bar
from glassformer.untrusted_files import bytes_in

from . import own_file, record
from .attempt import RIGHT, WRONG
from .catalogue import add_exercises, catalogue, find
from .messages import FILE
from .panel import Table
from .submission import NOT_REACHED, NOT_THERE, Found

POSIX = os.name == "posix"
PATIENCE = 3 if POSIX else 1  # seconds on the clock for each of processor time
AT_ONCE = min(os.cpu_count() or 1, 4)  # processes
LARGEST, TOLD = 1024**2, 16 * 1024**2  # bytes of a student's file, and of what a process tells
KEPT = "PATH", "LD_LIBRARY_PATH", "SYSTEMROOT", "TEMP", "TMP"  # what the code sees of the environment
ONE = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "HF_HUB_OFFLINE"), "1")
MARKS = {RIGHT: "✓", WRONG: "✗", NOT_THERE: "", NOT_REACHED: "?"}
PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<style>
body {{ font: 11pt/1.4 sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em }}
caption {{ font-weight: bold }} tr {{ break-inside: avoid; vertical-align: top }}
th, td {{ border-bottom: 1px solid #bbb; white-space: normal !important }}
div:nth-of-type(4) :is(th, td) {{ white-space: nowrap !important; padding: 0 0.4em 0 0 !important }}
div:nth-of-type(4) th + th {{ writing-mode: vertical-rl; font-weight: normal }}
</style></head><body><h1>{title}</h1>
<p>The students' code ran with the rights of whoever started the command. Limits of time and memory stop accidents,
but this is no sandbox. Each file was judged in the same process in which its code ran, so a file that is written to
deceive may succeed. If a verdict surprises you, read the file.</p>
{tables}</body></html>
"""

_running: set[subprocess.Popen] = set()


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
    """Returns each student's file, or why there is none: ``NAME.py``, or each ``my_transformer.py`` in a folder."""
    found: dict[str, Path | str] = {}
    for entry in sorted(folder.iterdir()):
        if entry.is_symlink():
            found[entry.name] = "This is a link, which is not followed."
        elif entry.is_dir() and not entry.name.startswith((".", "__")):
            files = sorted(Path(at, FILE) for at, _, names in os.walk(entry) if FILE in names)
            found |= {file.parent.relative_to(folder).as_posix(): file for file in files}
            if not files:
                found[entry.name] = f"There is no {FILE}."
        elif entry.suffix == ".py":
            found[entry.name] = entry
    return found


def judge(folder: Path, own: Sequence[Path], seconds: int) -> list[Student]:
    """Judges the files of a folder, a few at a time, by the book's exercises and those of folders of one's own.

    Raises:
        OSError, ValueError, ImportError: a folder has no files of students, or no exercises that can be judged.
    """
    for name in [name for one in own for name in add_exercises(one)]:
        find(name)  # a judge that does not work is the teacher's to mend
    files = submissions(folder)
    if not any(isinstance(file, Path) for file in files.values()):
        raise ValueError(f"{folder} has no files of students: NAME.py, or NAME/{FILE}")
    asked = {"exercises": [str(one.resolve()) for one in own], "seconds": seconds}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        try:
            students = pool.map(lambda name: _judged(name, files[name], asked), files)
            return list(bar(students, total=len(files)))
        except BaseException:  # Ctrl-C ends what has begun
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(_running):
                _end(process)
            raise


def _judged(name: str, file: Path | str, asked: dict) -> Student:
    found: dict[str, Found] = {}
    try:
        note = file if isinstance(file, str) else _told(bytes_in(file, LARGEST), asked, found)
    except (OSError, ValueError) as error:
        note = str(error).replace(str(file), name)
    missing = {"status": NOT_REACHED, "message": _plain(note), "mistake": ""}
    verdicts = {one: found.get(one, missing) for one in catalogue()}
    late = (f"{one}: {it['message']}" for one, it in verdicts.items() if it["status"] == NOT_REACHED)
    return Student(_plain(name), verdicts, _plain(note) or next(late, ""))


def _told(code: bytes, asked: dict, found: dict[str, Found]) -> str:
    """Adds the verdicts of a process of its own to those found, and returns a note on why there are not more."""
    word, limit, ended = secrets.token_hex(16), PATIENCE * asked["seconds"], ""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as place, tempfile.TemporaryFile() as told:
        file = Path(place, FILE)
        file.write_bytes(code)
        own = {own_file.ENVIRONMENT: str(file), record.ENVIRONMENT: f"{place}/progress.json", "HOME": place}
        own["PYTHONPATH"] = str(Path(__file__).parents[2])
        environment = {one: os.environ[one] for one in KEPT if one in os.environ} | ONE | own
        process = subprocess.Popen(
            [sys.executable, "-m", f"{__package__}.submission"],
            **{"stdin": subprocess.PIPE, "stdout": told, "stderr": subprocess.DEVNULL},
            **{"cwd": place, "env": environment, "start_new_session": True},
        )
        _running.add(process)
        try:
            process.communicate(json.dumps({"word": word, **asked}).encode(), timeout=limit)
        except subprocess.TimeoutExpired:
            ended = f"It was stopped after {limit} s"
        finally:
            _end(process)
            _running.discard(process)
        told.seek(0)
        lines = [line[len(word) :] for line in told.read(TOLD).split(b"\n") if line.startswith(word.encode())]
    for line in lines:
        with contextlib.suppress(ValueError, KeyError, TypeError):  # it was cut off, or is no line of ours
            said = json.loads(line)
            if "note" in said:
                return said["note"]
            texts = {what: _plain(said[what]) for what in ("status", "message", "mistake")}
            if texts["status"] in MARKS:
                found.setdefault(said["exercise"], texts)
    if not ended and POSIX and process.returncode == -signal.SIGKILL:
        ended = f"It used up its {asked['seconds']} s of processor time, or all memory,"
    ended = ended or f"Its process ended early, with status {process.returncode},"
    left = next((name for name in catalogue() if name not in found), "")
    return f"{ended} while {f'{left} was judged' if found else 'the file was imported'}."


def _end(process: subprocess.Popen) -> None:
    """Ends a process and those that it has started, as far as the system knows them."""
    with contextlib.suppress(OSError):
        os.killpg(process.pid, signal.SIGKILL) if POSIX else process.kill()
    process.wait()


def _plain(text: object) -> str:
    """Returns a text of a student's as one line of characters that every terminal and page can show."""
    line = " ".join(str(text).split())
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)[:1000]


def tables(students: Sequence[Student]) -> list[Table]:
    """Returns the tables for a terminal: each student, each exercise that somebody has, and the class's mistakes."""
    rows = []
    for one in students:
        numbers = (str(len(one.having(status))) for status in MARKS)
        rows.append((one.name, *numbers, f"{', '.join(one.having(WRONG))} {one.note}"))
    counts = {name: Counter(one.verdicts[name]["status"] for one in students) for name in catalogue()}
    counts = {name: count for name, count in counts.items() if count[RIGHT] + count[WRONG]}
    each = [(name, *(str(count[status]) for status in MARKS)) for name, count in counts.items()]
    made = [(name, it["mistake"]) for one in students for name, it in one.verdicts.items() if it["mistake"]]
    mistakes = [(str(n), *mistake) for mistake, n in Counter(made).most_common()]
    return [
        Table("Students", ("student", *MARKS, "wrong in, or a note"), rows),
        Table("Exercises that somebody has", ("exercise", *MARKS), each),
        Table("Mistakes that the checks recognised", ("students", "exercise", "mistake"), mistakes),
    ]


def as_csv(students: Sequence[Student]) -> bytes:
    """Returns one line for each student and exercise, in UTF-8 as spreadsheets read it."""
    lines = [("student", "exercise", "verdict", "message", "mistake")]
    lines += [(one.name, name, *it.values()) for one in students for name, it in one.verdicts.items()]
    whole = io.StringIO(newline="")
    for line in lines:  # a spreadsheet would compute what begins like a formula
        safe = [f"'{text}" if text.startswith(("=", "+", "-", "@")) else text for text in line]
        csv.writer(whole).writerow(safe)
    return whole.getvalue().encode("utf-8-sig")


def as_page(students: Sequence[Student], title: str) -> bytes:
    """Returns a page without scripts that can be printed: the tables, who has what, and each wrong answer."""
    shown, wrong = tables(students), []
    marks = [(name, *(MARKS[one.verdicts[name]["status"]] for one in students)) for name, *_ in shown[1].rows]
    heads = "exercise", *(one.name for one in students)
    for one in students:
        wrong += [(one.name, name, one.verdicts[name]["message"]) for name in one.having(WRONG)]
    shown.append(Table("Who has what (✓ right, ✗ wrong, ? not reached)", heads, marks))
    shown.append(Table("What is wrong", ("student", "exercise", "what the check says"), wrong))
    parts = "".join(one._repr_html_() for one in shown)
    return PAGE.format(title=html.escape(_plain(title)), tables=parts).encode()
