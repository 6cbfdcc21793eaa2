"""Tests that a folder of students' files, some of them hostile, gets a table that is right."""

import csv
import io
import re
import sys

import pytest
from bs4 import BeautifulSoup
from typer.testing import CliRunner

from glassformer.cli import app
from glassformer.exercises import classroom, submission
from glassformer.exercises.catalogue import catalogue, find

RELU, SOFTMAX, NORM = "feedforward.relu", "attention.softmax", "stream.rms_norm"
IS_SOFTMAX = """
import numpy as np
def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)
"""
OUTSIDE = """
import numpy as np
def rms_norm(x, weight, eps=1e-5): return x / (np.sqrt((x * x).mean(-1, keepdims=True)) + eps) * weight
"""
FORGED = """
import json, os
import numpy as np
line = json.dumps({"exercise": "stream.rms_norm", "status": "right", "message": "", "mistake": ""})
for stream in range(3, 20):
    try: os.write(stream, f"\\n{line}\\n".encode())
    except OSError: pass
print("\\x1b[2J", line)
from glassformer.exercises import exercise
exercise.expect = lambda *args, **options: None
def relu(x): return np.asarray(x)
def rms_norm(x, weight, eps=1e-5): raise SystemExit
"""
# Only Linux limits memory
MORE = "return bytearray(3 * 2**30)" if sys.platform == "linux" else "raise MemoryError"
CLASS = {
    "anna.py": f"{IS_SOFTMAX}{OUTSIDE}def relu(x): return x * (x > 0)\nnp.exp = None",  # and the checks go on
    "anna/my_transformer.py": IS_SOFTMAX + "from glassformer.scratch.feedforward import relu",
    "ben/my_transformer.py": OUTSIDE + "def relu(x): return relu(x)",
    "cleo.py": FORGED,
    "dora.py": IS_SOFTMAX + "def relu(x): return sum(range(10**15))",  # only another process can stop it
    "emil.py": b"def relu(x): return 'caf\xe9'",
    "g1/sam/my_transformer.py": IS_SOFTMAX + "import os\ndef relu(x): os._exit(0)",
    "g2/sam/my_transformer.py": "import sys\nsys.exit('\x1b<b>')",
    "=1+1<b>.py": f"def relu(x): {MORE}",
    "notes.txt": "",
    "dir.py/readme": "",
}
# Which exercises are right, wrong and not reached, and why
FOUND = {
    "anna.py": ({RELU, SOFTMAX}, {NORM}, set(), "^$"),
    "anna": ({SOFTMAX}, set(), set(), "^$"),
    "ben": (set(), {RELU, NORM}, set(), "^$"),
    "cleo.py": (set(), {NORM}, {RELU}, f"^{RELU}: A known mistake passes, too"),
    "dora.py": ({SOFTMAX}, set(), {RELU}, f"^It used up its 3 s .* while {RELU} was judged"),
    "emil.py": (set(), set(), "all", "cannot be imported. SyntaxError: .*utf-8"),
    "g1/sam": ({SOFTMAX}, set(), {RELU}, f"ended early, with status 0, while {RELU} was judged"),
    "g2/sam": (set(), set(), "all", r"cannot be imported. SystemExit: \\x1b<b>"),
    "=1+1<b>.py": (set(), set(), {RELU}, "needs more than 2 GiB of memory"),
    "dir.py": (set(), set(), "all", "There is no my_transformer.py"),
    "link.py": (set(), set(), "all", "is a link, which is not followed"),
}  # fmt: skip


@pytest.fixture(scope="module")
def students(tmp_path_factory):
    """Judges the class."""
    folder = tmp_path_factory.mktemp("class")
    for name, code in CLASS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(code if isinstance(code, bytes) else code.encode())
    (folder / "link.py").symlink_to(folder / "anna.py")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(classroom, "PATIENCE", 100)  # a busy machine must not stop anybody by the clock
        return classroom.judge(folder, [], seconds=3)


def test_who_has_what_and_why_something_was_not_reached(students):
    assert {one.name for one in students} == FOUND.keys()
    for one in students:
        *having, said = FOUND[one.name]
        found = [set(one.having(status)) for status in ("right", "wrong", "not reached")]
        assert found == [catalogue().keys() if names == "all" else names for names in having], one.name
        assert re.search(said, one.note), (one.name, one.note)


def test_the_mistakes_of_the_class_are_counted(students):
    *_, mistakes = classroom.tables(students)
    assert list(mistakes.rows) == [("2", NORM, find(NORM).prose.mistakes["eps outside"])]


def test_a_spreadsheet_and_a_page_show_nothing_but_text(students):
    rows = list(csv.DictReader(io.StringIO(classroom.as_csv(students).decode("utf-8-sig"))))
    assert len(rows) == len(FOUND) * len(catalogue())
    assert {row["student"] for row in rows} == {f"'{name}" if name[0] == "=" else name for name in FOUND}
    assert {row["verdict"] for row in rows if row["exercise"] == SOFTMAX} == {
        "right",
        "not there",
        "not reached",
    }
    page = BeautifulSoup(classroom.as_page(students, "<i>"), "html.parser")
    assert (page.title.string, page.select("i, b, script, [src], [href]")) == ("<i>", [])
    heads, *lines = (
        [cell.get_text() for cell in row.select("th, td")] for row in page.select("table")[3]("tr")
    )
    marks = {line[0]: dict(zip(heads, line, strict=True)) for line in lines}
    assert [marks[RELU][name] for name in ("anna.py", "ben", "emil.py", "anna")] == ["✓", "✗", "?", ""]


def test_a_function_counts_for_the_exercise_that_it_fits():
    those = [find(name) for name in ("generating.cache_bytes", "real.cache_bytes")]
    for function, status in ((those[1].reference, "right"), (those[1].mistakes[0].function, "wrong")):
        assert [one["status"] for one in submission.verdicts(those, function).values()] == [
            "not there",
            status,
        ]


def test_an_answer_that_does_not_end_is_not_called_wrong(monkeypatch):
    monkeypatch.setattr(submission, "SECONDS", 0.2)

    def endless(x):
        while True:
            pass

    assert submission.verdict(find(RELU), endless)["status"] == "not reached"


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (
            "echo 'word{\"exercise\": 1}'; echo word[]; exit 3",
            "Its process ended early, with status 3, while the file",
        ),
        ('echo \'word{"exercise": "gpt.gpt", "status": "<b>", "message": 1, "mistake": 1}\'', "status 0"),
        ("exec sleep 100", "It was stopped after 1 s while the file was imported"),
    ],
)
def test_what_a_process_leaves_open_is_not_reached(program, said, monkeypatch, tmp_path):
    (tmp_path / "class").mkdir()
    (tmp_path / "class" / "anna.py").touch()
    (tmp_path / "program").write_text(f"#!/bin/sh\n{program}\n")
    (tmp_path / "program").chmod(0o755)
    monkeypatch.setattr(classroom.secrets, "token_hex", lambda n: "word")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "program"))
    monkeypatch.setattr(classroom, "PATIENCE", 1)
    (one,) = classroom.judge(tmp_path / "class", [], seconds=1)
    assert (one.having("not reached"), said in one.note) == (list(catalogue()), True), one.note


def test_the_command_writes_both_files(tmp_path):
    (tmp_path / "anna.py").touch()
    written = tmp_path / "a.csv", tmp_path / "a.html"
    result = CliRunner().invoke(
        app, ["class", str(tmp_path), "--csv", str(written[0]), "--page", str(written[1])]
    )
    assert result.exit_code == 0, result.output
    assert re.search(r"^anna.py +0 +0 +\d+ +0", result.output, re.M)
    assert all("anna.py" in file.read_text(encoding="utf-8-sig") for file in written)
