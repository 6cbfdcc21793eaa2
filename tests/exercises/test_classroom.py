"""Tests that a folder of students' files, some of them hostile, gets a table that is right."""

import csv
import io
import os
import re
import sys

import pytest
from bs4 import BeautifulSoup
from typer.testing import CliRunner

from glassformer.cli import app
from glassformer.exercises import classroom
from glassformer.exercises.catalogue import catalogue, find
from glassformer.exercises.submission import verdicts

RELU, SOFTMAX, NORM = "feedforward.relu", "attention.softmax", "stream.rms_norm"
IS_RELU = "import numpy as np\ndef relu(x): return np.maximum(x, 0)\n"
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
MORE = "x.append(bytearray(10**8))" if sys.platform == "linux" else "raise MemoryError"
CLASS = {
    "anna.py": IS_RELU + IS_SOFTMAX + OUTSIDE + "np.exp = None",  # and the checks go on
    "anna/my_transformer.py": IS_SOFTMAX + "from glassformer.scratch.feedforward import relu",
    "ben/my_transformer.py": OUTSIDE + "import ctypes\ndef relu(x): return relu(x)",
    "cleo.py": FORGED,
    "dora.py": IS_SOFTMAX + "def relu(x): return sum(range(10**15))",  # only another process can stop it
    "emil.py": b"def relu(x): return 'caf\xe9'",
    "g1/sam/my_transformer.py": IS_SOFTMAX + "import os\ndef relu(x): os._exit(0)",
    "g2/sam/my_transformer.py": "import sys\nsys.exit('<b>')",
    "=1+1<b>.py": f"def relu(x):\n  x = []\n  while True: {MORE}",
    "notes.txt": "",
    "dir.py/readme": "",
}


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """Returns the folder of a class, and the students by name."""
    folder = tmp_path_factory.mktemp("class")
    for name, code in CLASS.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(code if isinstance(code, bytes) else code.encode())
    (folder / "link.py").symlink_to(folder / "anna.py")
    return folder, {one.name: one for one in classroom.judge(folder, seconds=2)}


def having(student):
    """Returns the exercises with each status but "not there"; of a whole row that was not reached, "all"."""
    found = {status: student.having(status) for status in ("right", "wrong", "not reached")}
    if found["not reached"] == list(catalogue()):
        return "all"
    return [set(names) for names in found.values()]


def test_who_has_what(room):
    _, class_ = room
    assert {name: having(one) for name, one in class_.items()} == {
        "anna.py": [{RELU, SOFTMAX}, {NORM}, set()],
        "anna/my_transformer.py": [{SOFTMAX}, set(), set()],
        "ben": [set(), {RELU, NORM}, set()],
        "cleo": [set(), {NORM}, {RELU}],
        "dora": [{SOFTMAX}, set(), {RELU}],
        "emil": "all",
        "g1/sam": [{SOFTMAX}, set(), {RELU}],
        "g2/sam": "all",
        "=1+1<b>": [set(), set(), {RELU}],
        "dir.py": "all",
        "link": "all",
    }


def test_a_note_says_why_something_was_not_reached(room):
    _, class_ = room
    for name, said in {
        "anna.py": "^$",
        "cleo": f"^{RELU}: The checks accept a known mistake",
        "dora": rf"^(Its 2 s of processor time were used up|It was stopped after 6 s) while {RELU} was judged",
        "emil": "cannot be imported. SyntaxError: .*utf-8",
        "g1/sam": f"ended early, with status 0, while {RELU} was judged",
        "g2/sam": "cannot be imported. SystemExit: <b>",
        "=1+1<b>": "needs more than 2 GiB of memory",
        "dir.py": "There is no my_transformer.py",
        "link": "is a link, which is not followed",
    }.items():
        assert re.search(said, class_[name].note), (name, class_[name].note)


def test_the_mistakes_of_the_class_are_counted(room):
    _, class_ = room
    says = find(NORM).prose.mistakes["eps outside"]
    *_, mistakes = classroom.tables(list(class_.values()))
    assert list(mistakes.rows) == [("2", NORM, says)]


def test_a_spreadsheet_and_a_page_show_nothing_but_text(room):
    _, class_ = room
    rows = list(csv.DictReader(io.StringIO(classroom.as_csv(list(class_.values())).decode("utf-8-sig"))))
    assert len(rows) == len(class_) * len(catalogue())
    assert {row["student"] for row in rows} == {f"'{name}" if name[0] == "=" else name for name in class_}
    page = BeautifulSoup(classroom.as_page(list(class_.values()), "<i>"), "html.parser")
    assert (page.title.string, page.select("i, b, script, [src], [href]")) == ("<i>", [])
    assert "no sandbox" in page.p.get_text()
    who = page.select_one(".who")
    heads, *lines = ([cell.get_text() for cell in row.select("th, td")] for row in who.select("tr"))
    marks = {line[0]: dict(zip(heads, line, strict=True)) for line in lines}
    assert [marks[RELU][name] for name in ("anna.py", "ben", "emil", "anna/my_transformer.py")] == [
        "✓",
        "✗",
        "?",
        "",
    ]


def test_the_command_writes_both_and_judges_by_a_teachers_exercises(room, tmp_path):
    ours, folder = tmp_path / "ours", tmp_path / "class"
    for one in (ours / "judges", folder):
        one.mkdir(parents=True)
    words = (
        'title = ""\nsource = ""\ndifficulty = 1\nminutes = 1\nwhy = ""\nhints = ["", "", ""]\nmistakes = {}'
    )
    words = f'["own.same"]\n{words}'
    (ours / "exercises.toml").write_text(words, encoding="utf-8")
    judge = """
from glassformer.exercises.catalogue import exercise
def same(x): return x
exercise_ = exercise("own.same", same)
exercise_.case("one", 1, want=1)
"""
    (ours / "judges" / "same.py").write_text(judge, encoding="utf-8")
    (folder / "anna.py").write_text("def same(x): return 1 * x", encoding="utf-8")
    options = ["--exercises", ours, "--csv", tmp_path / "a.csv", "--page", tmp_path / "a.html"]
    result = CliRunner().invoke(app, ["class", str(folder), *map(str, options)])
    assert result.exit_code == 0, result.output
    assert re.search(r"^anna +1 +0 +\d+ +0", result.output, re.M)
    assert "anna,own.same,right,," in (tmp_path / "a.csv").read_text(encoding="utf-8-sig")
    assert "own.same" in (tmp_path / "a.html").read_text(encoding="utf-8")


def test_a_function_counts_for_the_exercise_that_it_fits():
    those = [find(name) for name in ("generating.cache_bytes", "real.cache_bytes")]
    found = verdicts(those, those[1].reference)
    assert [one["status"] for one in found.values()] == ["not there", "right"]
    found = verdicts(those, those[1].mistakes[0].function)
    assert [one["status"] for one in found.values()] == ["not there", "wrong"]


def test_a_line_without_the_secret_word_or_sense_is_no_verdict(monkeypatch, tmp_path):
    (tmp_path / "anna.py").write_text("", encoding="utf-8")
    monkeypatch.setattr(classroom.secrets, "token_hex", lambda n: "word")
    for lines in (
        '{"exercise": 1}',
        '{"there": 1}',
        "[]",
        '{"exercise": "x", "status": "<b>", "message": "", "mistake": ""}',
    ):
        program = tmp_path / "program"
        program.write_text(f"#!/bin/sh\necho 'word{lines}'\n")
        os.chmod(program, 0o755)
        monkeypatch.setattr(classroom.sys, "executable", str(program))
        (one,) = classroom.judge(tmp_path, seconds=1)
        assert having(one) == "all"
