"""Tests of a page's desk. That its verdicts are a notebook's, for all known answers: test_numpy_alone."""

import builtins
import json
import os
import sys

import numpy as np
import pytest

from glassformer.exercises import check
from glassformer.exercises.desk import MOST_OUTPUT
from glassformer.exercises.output import Shown, shown_by
from glassformer.exercises.session import as_it_was

from .at_a_desk import Page, headlines, text

INPUT = builtins.input
STUB = "def scores(query, keys):\n    ...\n"
PLAIN = "def scores(query, keys):\n    return keys @ query\n"
RIGHT = "def scores(query, keys):\n    return keys @ query / np.sqrt(len(query))\n"
OTHERWISE = "def scores(query, keys):\n    return keys @ query * len(query) ** -0.5\n"


@pytest.fixture
def page(folder):
    return Page(folder)


def test_a_stub_a_mistake_and_a_right_answer(page):
    assert headlines(page.ask(STUB))[0].startswith("attention.scores: not attempted yet")
    assert page.files == {}
    wrong = page.ask(PLAIN)
    assert headlines(wrong) == ["attention.scores: not yet, 1 of 4 checks pass"]
    assert any(
        "The division by √d_head is missing" in text(spans) for _, spans in wrong["panels"][0]["lines"]
    )
    assert not wrong["right"]
    right = page.ask(RIGHT)
    assert headlines(right) == ["attention.scores: right, all 4 checks pass"]
    assert right["right"]
    assert right["kept"] == ""
    marks = json.loads(page.files["progress.json"])["exercises"]
    assert marks == {"attention.scores": {"tried": True, "done": True}}


def test_a_right_answer_is_kept_and_a_different_one_replaces_it_only_if_asked(page):
    assert page.ask(RIGHT, keep="yes")["kept"] == "added"
    first = page.files["my_transformer.py"]
    assert RIGHT in first
    assert "import numpy as np" in first
    assert page.ask(RIGHT, keep="yes")["kept"] == "same"
    differs = page.ask(OTHERWISE, keep="yes")
    assert (differs["right"], differs["kept"]) == (True, "different")
    assert page.files["my_transformer.py"] == first
    assert page.ask(OTHERWISE, keep="replace")["kept"] == "replaced"
    assert OTHERWISE in page.files["my_transformer.py"]
    assert page.files["my_transformer_old/001.py"] == first  # nothing that the reader made is lost


def test_a_new_worker_goes_on_with_the_files_of_the_page(page, folder):
    page.ask(RIGHT, keep="yes")
    other = Page(folder.parent.parent / "other" / "notebooks" / "exercises")
    other.files = page.files
    assert other.ask(OTHERWISE, keep="yes")["kept"] == "different"
    other.files = {}
    assert other.ask(OTHERWISE, keep="yes")["kept"] == "added"


WITH_A_CLASS = """\
import math as m


class Scale:
    width = 4


def root(n):
    return m.sqrt(n)


def scores(query, keys):
    return keys @ query / root(len(query)) + 0 * Scale.width
"""


def test_what_an_answer_uses_is_kept_with_it(page):
    assert page.ask(WITH_A_CLASS, keep="yes")["kept"] == "added"
    for part in ("import math as m\n", "class Scale:\n    width = 4\n", "def root(n):\n"):
        assert part in page.files["my_transformer.py"]


def test_the_main_module_of_others_is_as_before(page):
    before = sys.modules["__main__"]
    page.ask("import sys\nsys.modules['__main__'].mine = 1", do="try")
    assert sys.modules["__main__"] is before
    assert not hasattr(before, "mine")
    page.ask("mine", do="try")
    assert "NameError" in page.tells("error")[0]["text"]  # each request begins anew


def test_wrong_answers_are_never_kept(page):
    assert page.ask(PLAIN, keep="yes")["kept"] == ""
    assert "my_transformer.py" not in page.files


ERRORS = {
    "x = 1\ndef scores(query, keys)\n": ['File "<attention.scores>", line 2', "SyntaxError: expected ':'"],
    "def half():\n    return 1 / 0\n\nhalf()\n": [
        "line 4, in <module>",
        "line 2, in half",
        "return 1 / 0",
        "ZeroDivisionError",
    ],
    "exit()": ["line 1", "SystemExit"],
    "raise KeyboardInterrupt": ["KeyboardInterrupt"],
    "input('name?')": ["line 1", "input() does not work on this page"],
    "\0": ["null bytes"],
    "def f():\n    return f()\nf()": ["RecursionError"],
}


@pytest.mark.parametrize("code", ERRORS)
def test_an_error_is_shown_with_the_readers_own_lines(page, code):
    answer = page.ask(code)
    [error] = page.tells("error")
    for part in ERRORS[code]:
        assert part in error["text"]
    assert "desk.py" not in error["text"]
    assert headlines(answer) == [
        "attention.scores: your code raised an error, so there is nothing to check yet"
    ]
    assert builtins.input is INPUT
    assert page.ask(RIGHT)["right"]  # and the next check works


def test_code_without_the_function_is_told_its_name(page):
    assert headlines(page.ask("def score(query, keys):\n    return 1\n")) == [
        "attention.scores: your code should define a function scores, but it does not"
    ]


def test_trying_runs_the_code_and_shows_its_value_but_judges_nothing(page):
    answer = page.ask("print('a')\nprint('b')\nnp.arange(3)", do="try")
    assert "".join(told["text"] for told in page.tells("output")) == "a\nb\n"
    assert page.tells("value") == [{"says": "value", "text": "array([0, 1, 2])"}]
    assert answer == {"panels": [], "files": {}, "right": False, "kept": "", "code": ""}
    page.ask("x = 3", do="try")
    assert page.tells("value") == []
    page.ask("", do="try")
    assert page.tells("error") == []


def test_the_commands_of_a_notebook_work_in_the_readers_code(page):
    answer = page.ask(
        f'{RIGHT}\nhint("attention.scores")\nscores = check("attention.scores", scores)', do="try"
    )
    assert headlines(answer) == [
        "attention.scores: hint 1 of 3",
        "attention.scores: right, all 4 checks pass",
    ]


def test_what_is_printed_comes_line_by_line_and_ends_somewhere(page):
    page.ask("for i in range(100_000):\n    print('line', i)", do="try")
    lines = page.tells("output")
    assert lines[0]["text"] == "line 0\n"
    whole = "".join(told["text"] for told in lines)
    assert len(whole) < MOST_OUTPUT + 100
    assert whole.endswith("(the rest of the output is not shown)\n")
    page.ask("print('no end', end='')", do="try")
    assert [told["text"] for told in page.tells("output")] == ["no end"]
    page.ask("'x' * 1_000_000", do="try")
    assert len(page.tells("value")[0]["text"]) < MOST_OUTPUT + 100


def test_exercises_above_are_the_readers_if_accepted_and_else_the_books(page):
    seen = "scores.__module__, softmax(np.zeros(2))"
    page.ask(seen, exercise="attention.attend_one", do="try", earlier={"attention.scores": RIGHT})
    assert page.tells("value")[0]["text"] == "('__main__', array([0.5, 0.5]))"
    page.ask(seen, exercise="attention.attend_one", do="try")
    assert page.tells("value")[0]["text"].startswith("('glassformer.")
    fails_now = f"{RIGHT}\nimport gone"  # and half of what it defines is there
    page.ask(
        "scores.__module__", exercise="attention.softmax", do="try", earlier={"attention.scores": fails_now}
    )
    assert "glassformer" in page.tells("value")[0]["text"]
    page.files = {"my_transformer.py": RIGHT}  # kept in another browser, or in JupyterLab
    page.ask("scores.__module__", exercise="attention.softmax", do="try")
    assert page.tells("value")[0]["text"] == "'my_transformer'"
    page.ask("merge_heads", exercise="attention.scores", do="try")
    assert "NameError" in page.tells("error")[0]["text"]  # comes below


def test_exercises_of_other_chapters_come_from_the_readers_file(folder):
    page = Page(folder, chapter="05")
    page.files = {
        "my_transformer.py": "import numpy as np\n\ndef rms_norm(x, gain, epsilon=1e-5):\n    return 'mine'\n"
    }
    page.ask("rms_norm(1, 2)", exercise="stream.lens", do="try")
    assert page.tells("value") == [{"says": "value", "text": "'mine'"}]


def test_a_file_that_is_replaced_within_a_second_is_read_again(page, monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for (
        x
    ) in "123456":  # Python would take the bytecode of a file with the same size and second for the new one's
        page.files = {"my_transformer.py": f"x = {x}\n"}
        page.ask("import my_transformer\nmy_transformer.x", do="try")
        assert page.tells("value")[0]["text"] == x


# --- the page keeps the time ---


def test_the_page_is_told_when_a_limit_begins_and_ends(page):
    page.ask(RIGHT)
    states = [told["says"] for told in page.told if told["says"] in ("begin", "end")]
    assert states[:2] == ["begin", "end"]  # of the code
    assert states[2:4] == ["begin", "end"]  # of the checks
    assert {told["seconds"] for told in page.tells("begin")} == {5.0}
    says = [told["says"] for told in page.told]
    assert says.index("late") < says.index("begin")  # there is always something to show


def test_what_is_shown_if_the_page_stops_a_check_is_what_a_notebook_shows(folder, monkeypatch):
    page = Page(folder, seconds=0.3)
    loops = RIGHT.replace(
        "    return", "    if keys.shape == (3, 4) and query[0] == 2:\n        {}\n    return"
    )
    page.ask(loops.format("print('it would hang here')"))
    before = page.told[: next(i for i, told in enumerate(page.told) if told["says"] == "output")]
    late = [told["panel"] for told in before if told["says"] == "late"][-1]
    monkeypatch.undo()
    monkeypatch.chdir(folder)
    scope, panels = {}, []
    exec("import numpy as np\n" + loops.format("while True: pass"), scope)
    with shown_by(Shown(panels.append, lambda panel: None)):
        check("attention.scores", scope["scores"], seconds=0.3)
    assert "still running after 0.3 s and was stopped" in repr(panels[0])
    assert [panel.data() for panel in panels] == [late]


def late_at(page, printed):
    """Returns what the page was told last, before this was printed, about what to show if it stops the worker."""
    before = page.told[: next(i for i, told in enumerate(page.told) if told.get("text") == printed)]
    return [told for told in before if told["says"] == "late"][-1]


def test_code_that_never_ends_has_a_sentence_of_its_own(page):
    page.ask("print('it would hang here')")
    late = late_at(page, "it would hang here\n")
    assert "your code was still running after 5 s and was stopped" in text(late["panel"]["headline"])


def test_the_readers_file_that_never_ends_is_named_and_costs_no_right_answer(page):
    page.files = {"my_transformer.py": f"{RIGHT}print('it would hang here')\n"}
    page.ask("1", exercise="attention.softmax", do="try")  # `scores`, above it, comes from the file
    begun = [told for told in page.told if told["says"] in ("late", "begin", "end")]
    while_it_is_read, while_the_code_runs = (
        begun[i - 1] for i, told in enumerate(begun) if told["says"] == "begin"
    )
    assert text(while_it_is_read["panel"]["headline"]).startswith("my_transformer.py was still running")
    assert text(while_the_code_runs["panel"]["headline"]).startswith(
        "attention.softmax: your code was still running"
    )
    page.ask(RIGHT.replace("def", "\ndef"), keep="yes")
    late = page.tells("late")[-1]
    assert text(late["panel"]["headline"]).startswith("my_transformer.py was still running")
    assert late["right"]
    assert [text(one["headline"]) for one in late["before"]] == ["attention.scores: right, all 4 checks pass"]


REPLACES = {
    "numpy": ("np.sum = np.sqrt = None\n", "np.sqrt, np.sum; they have"),
    "an error": ("np.sum = None\n1 / 0\n", "np.sum; it has"),
}


@pytest.mark.parametrize("what", REPLACES)
def test_functions_that_the_code_replaces_are_restored_because_no_kernel_can_be_restarted(page, what):
    change, named = REPLACES[what]
    with as_it_was():  # should this fail, the tests go on
        said, verdict = headlines(page.ask(change + PLAIN))
    assert said == f"Your code changed {named} been restored."
    assert [verdict] == headlines(page.ask("1 / 0\n" if what == "an error" else PLAIN))
    assert headlines(page.ask(RIGHT)) == ["attention.scores: right, all 4 checks pass"]


def test_other_settings_of_python_last_for_one_request(page):
    was = os.getcwd(), sys.getrecursionlimit(), np.get_printoptions(), sys.stdout
    sets = "import os, sys\nos.chdir('/')\nsys.setrecursionlimit(10**6)\nnp.set_printoptions(precision=2)\n"
    page.ask(f"{sets}print(os.getcwd(), np.ones(1) / 3)\nsys.stdout = None\n{PLAIN}")
    assert [told["text"] for told in page.tells("output")] == ["/ [0.33]\n"]
    assert (os.getcwd(), sys.getrecursionlimit(), np.get_printoptions(), sys.stdout) == was


# --- what the reader's code leaves in the folder ---

FILES = "import contextlib, os, shutil\nfrom pathlib import Path\n"
DEEP = "Path('d/' * 60).mkdir(parents=True); Path('d/' * 60 + 'a.py').write_text('1')"
LEAVES = {  # code, and the name that the page is told it does not keep
    "a file two folders deep": (
        "Path('runs/first').mkdir(parents=True); Path('runs/first/a.json').write_text('1')", "",
    ),
    "other encodings": (
        "Path('a.json').write_bytes('ä'.encode('utf-16')); Path('b.py').write_bytes(b'\\xe4')", "`b.py`",
    ),
    "half a surrogate": ("Path('a.json').write_bytes(b'\\xed\\xa0\\xbd')", "`a.json`"),
    "folders called like files": ("[Path(n).mkdir() for n in ('x.py', 'y.json', 'my_transformer.py')]", ""),
    "links to themselves": ("os.symlink('a.json', 'a.json'); os.symlink('.', 'again')", "`a.json`"),
    "a link out": ("os.symlink('/etc/passwd', 'a.py'); os.symlink('/', 'out')", "`a.py`"),
    "a pipe": ("os.mkfifo('a.json')", "`a.json`"),
    "a large file": ("Path('log.json').write_text('x' * 5_100_000)", "`log.json`"),
    "many files": ("[Path(f'{i:04}.json').write_text('1') for i in range(2000)]", "`0100.json`"),
    "a deep folder": (DEEP, "`d/d/d/d/d/d/d/d/d`"),
    "names": ("Path('a\\nb.py').write_text('1'); Path(os.fsdecode(b'\\xff.py')).write_text('2')", "`a?b.py`"),
    "no folder": ("shutil.rmtree(os.getcwd())", ""),
    "a file for the folder": ("d = os.getcwd(); shutil.rmtree(d); Path(d).write_text('1')", ""),
    "nothing of the reader's": ("os.remove('my_transformer.py'); shutil.rmtree('my_transformer_old')", ""),
}  # fmt: skip
MINE = {
    "my_transformer.py": "x = 1\n",
    "my_transformer_old/001.py": "x = 0\n",
    "progress.json": '{"exercises": {"a.b": {"done": true}}}',
}


@pytest.mark.parametrize("what", LEAVES)
def test_whatever_the_code_leaves_the_answer_comes_and_the_readers_files_stay(page, folder, what):
    code, unkept = LEAVES[what]
    page.files = MINE
    for _ in range(2):  # in the same worker, on what the first one left
        right = page.ask(f"{FILES}with contextlib.suppress(OSError):\n    {code}\n{RIGHT}", keep="yes")
        assert (right["right"], right["kept"]) == (True, "added")
        said = [one for one in headlines(right) if "does not keep" in one]
        assert len(said) == bool(unkept)
        assert unkept.strip("`") in "".join(said)
        assert MINE["my_transformer.py"] in page.files["my_transformer.py"]
        assert page.files["my_transformer_old/001.py"] == MINE["my_transformer_old/001.py"]
        assert {"a.b", "attention.scores"} <= json.loads(page.files["progress.json"])["exercises"].keys()
        page.files["my_transformer.py"] = MINE["my_transformer.py"]
    other = Page(folder.with_name("other"))  # a new worker, and what it leaves in turn
    other.files = page.files
    assert other.ask(RIGHT, keep="no")["right"]
    assert other.files.keys() == page.files.keys()


def test_what_code_wrote_is_there_for_the_next_request_and_names_that_lead_out_are_not_written(page, folder):
    page.files = dict.fromkeys(("../../x.py", "/tmp/glassformer-no.py", "..", "", "\0.py", "a/../c.py"), "1")
    page.files |= {"n" * 300 + ".py": "1"}
    page.files |= {"a/b.json": "2", "half.json": "\ud83d"}
    page.ask(
        "from pathlib import Path\nPath('a/b.json').read_text(), len([*Path('.').rglob('*.*')])", do="try"
    )
    assert page.tells("value")[0]["text"] == "('2', 3)"
    assert {path.name for path in folder.parent.parent.rglob("*.*")} == {"b.json", "c.py", "half.json"}
    assert not os.path.exists("/tmp/glassformer-no.py")
