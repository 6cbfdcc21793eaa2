"""Tests the capstone on a practice page: the same panels as in a notebook, without threads, and nothing is lost."""

import json
import sys
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

from glassformer.chapters.ch15.capstone import commands
from glassformer.chapters.ch15.capstone import judge as judging
from glassformer.chapters.ch15.capstone.judge import STAGES
from glassformer.chapters.ch15.capstone.template import adapter_source
from glassformer.exercises import capstone
from glassformer.exercises.output import Shown, shown_by
from glassformer.exercises.timelimit import time_kept_by
from tests.exercises.at_a_desk import Page, headlines, text
from tests.exercises.test_machine import all_written

from .designs import llama

SOURCE = Path(llama.__file__).read_text(encoding="utf-8")
OWN_FILE = (
    all_written() + "\n\ndef decode(ids, characters):\n    return ''.join(characters[i] for i in ids)\n"
)

# A mistake, and the stages that see it.
MISTAKES = {
    "no division": (" / np.sqrt(q.shape[-1])\n    if causal", "\n    if causal", ("attention", "loss")),
    "no mask": ("np.where(hidden, -np.inf, scores)", "scores", ("block", "model")),
    "unknown name": ("def softmax(x):", "def softmax(x):\n    x = y", ("model",)),
    "imports": ("import numpy as np", "import numpy as np\nimport no_such_library", ("model",)),
}


@pytest.fixture
def page(folder, monkeypatch):
    monkeypatch.setattr(commands, "_made_before", set())
    return Page(folder, chapter="15")


def ask(page, code, stage="", do="stage"):
    return page.ask(code, exercise="capstone", do=do, stage=stage)


def in_a_notebook(code, command, monkeypatch):
    """Returns the panels that a notebook with this code shows, without seconds that differ."""
    monkeypatch.setattr(commands, "_made_before", set())
    scope, panels = {"__name__": "mine"}, []
    file = Path("cell.py").resolve()
    file.write_text(code, encoding="utf-8")
    exec(compile(code, str(file), "exec"), scope)
    with shown_by(Shown(panels.append, lambda panel: None)):
        command(scope["Mine"])
    return json.loads(json.dumps([panel.data() for panel in panels]))


@pytest.mark.weekly
def test_a_stage_and_the_whole_say_what_a_notebook_says(page, monkeypatch):
    [panel] = ask(page, SOURCE, "cache")["panels"]
    assert [panel] == in_a_notebook(SOURCE, lambda mine: capstone.check("cache", mine), monkeypatch)
    assert panel["mood"] == "good"
    panels = ask(page, SOURCE)["panels"]
    assert panels == in_a_notebook(SOURCE, capstone.check, monkeypatch)
    done = json.loads(page.files["progress.json"])["exercises"]
    assert {name for name, marks in done.items() if marks.get("done")} == {
        f"capstone.{name}" for name in STAGES
    }
    assert text(panels[0]["headline"]) == "Your GPT: 10 of 10 stages and the star"
    assert ask(page, SOURCE, do="built")["panels"] == panels[1:]


@pytest.mark.parametrize("mistake", list(MISTAKES)[:3])
def test_a_mistake_is_told_as_in_a_notebook_and_the_second_time_with_advice(page, monkeypatch, mistake):
    old, new, stages = MISTAKES[mistake]
    assert old in SOURCE
    code = SOURCE.replace(old, new)
    for stage in stages:
        first = ask(page, code, stage)["panels"]
        assert [panel["mood"] for panel in first] == ["bad"]
        second = ask(page, code, stage)["panels"]

        def twice(mine):
            capstone.check(stage, mine)  # noqa: B023
            capstone.check(stage, mine)  # noqa: B023

        assert first + second == in_a_notebook(code, twice, monkeypatch)


def test_code_that_fails_or_defines_no_class_is_told(page):
    old, new, _ = MISTAKES["imports"]
    assert headlines(ask(page, SOURCE.replace(old, new), "model")) == [
        "capstone: your code raised an error, so there is nothing to check yet"
    ]
    assert "ModuleNotFoundError" in page.tells("error")[0]["text"]
    assert headlines(ask(page, "x = 1", "model")) == [
        "capstone: your code should define a class Mine, but it does not"
    ]
    assert "class Mine:" in adapter_source([])


def test_a_reader_begins_with_the_functions_of_their_own_file(page):
    page.files = {"my_transformer.py": OWN_FILE}
    answer = ask(page, "", do="start")
    assert "`" not in answer["code"].partition("class")[0]
    assert text(answer["panels"][0]["lines"][0][1]).startswith(
        "With your own functions from my_transformer.py: encode"
    )
    assert answer["panels"][0]["code"] == ""
    [panel] = ask(page, answer["code"], "attention")["panels"]
    assert panel["mood"] == "good"
    page.files = {"my_transformer.py": OWN_FILE.replace("sqrt", "cbrt")}
    [panel] = ask(page, answer["code"], "attention")["panels"]
    assert panel["mood"] == "bad"
    assert page.files["my_transformer.py"] == OWN_FILE.replace("sqrt", "cbrt")


def test_a_file_whose_functions_make_no_piece_yet_is_not_called_empty(page):
    page.files = {"my_transformer.py": "def softmax(x):\n    return x\n"}
    [panel] = ask(page, "", do="start")["panels"]
    assert text(panel["lines"][0][1]).startswith(
        "The functions in my_transformer.py do not make a whole piece yet"
    )


def test_a_file_that_cannot_be_imported_replaces_no_code(page):
    page.files = {"my_transformer.py": "def embed(:\n"}
    answer = ask(page, "", do="start")
    assert answer["code"] == ""
    assert any("cannot be imported" in text(line) for _, line in answer["panels"][0]["lines"])
    assert page.files["my_transformer.py"] == "def embed(:\n"


# --- the page keeps the time ---

HANGS = """\
import numpy as np

CALLS = []


class Mine:
    vocab_size, context_length = 65, 32

    def logits(self, ids):
        CALLS.append(ids)
        if len(CALLS) == 3:
            print("it would hang here")
            {}
        return 3 * np.eye(65)[np.asarray(ids)]
"""


def late_before_output(page):
    """Returns the panel that the page would show if the code never came back from what it printed last."""
    last = max(i for i, told in enumerate(page.told) if told["says"] == "output")
    return [told["panel"] for told in page.told[:last] if told["says"] == "late"][-1]


@pytest.mark.parametrize("stage", ["model", ""])
def test_what_is_shown_if_the_page_stops_a_stage_is_what_a_notebook_shows(page, folder, monkeypatch, stage):
    monkeypatch.setattr(judging, "AT_A_TIME", 0.3)
    # the check ends there, as if the page had stopped it
    ask(page, HANGS.format("raise KeyboardInterrupt"), stage)
    late = late_before_output(page)
    monkeypatch.undo()  # threads, as in a notebook
    monkeypatch.chdir(folder)
    monkeypatch.setattr(judging, "AT_A_TIME", 0.3)
    code = HANGS.format("while True: pass")
    [notebook] = in_a_notebook(
        code, lambda mine: capstone.check(*([stage] if stage else []), mine, remember=True), monkeypatch
    )
    shown = [text(line) for _, line in late["lines"]]
    assert any("logits was still running after 0.3 s and was stopped." in line for line in shown)
    if stage:
        assert late == notebook
    else:  # the stages after it are not looked at
        assert late["lines"] == notebook["lines"][: len(late["lines"])]


def test_each_call_gets_its_own_time_and_a_stage_all_of_it(page, monkeypatch):
    ask(page, SOURCE, "attention")
    limits = [told["seconds"] for told in page.tells("begin")]
    assert limits[0] == 5.0  # of running the code
    assert {round(limit) for limit in limits[1:]} == {20, 200}  # a call that is watched may take longer
    begun = [told["says"] for told in page.told if told["says"] in ("begin", "end")]
    assert begun[-1] == "end"


class Slow(llama.Mine):
    def encode(self, text):
        began = time.thread_time()
        while time.thread_time() - began < 0.1:
            pass
        return super().encode(text)


def test_calls_that_are_short_end_a_stage_when_its_time_is_up(folder):  # without threads
    told = []
    with time_kept_by(lambda seconds: nullcontext()):
        verdict = judging.judge(Slow, "tokenizer", 0.5, if_late=told.append)
    assert verdict.message.startswith("your function was still running after 0.5 s and was stopped.")
    assert verdict.hung == ""
    assert told


def test_before_a_panel_for_a_stopped_check_come_the_files_as_they_are(page, monkeypatch):
    monkeypatch.setattr(commands, "STAGES", {name: STAGES[name] for name in ("tokenizer", "embedding")})
    ask(page, SOURCE)
    says = [told["says"] for told in page.told]
    first_done = next(
        i for i, told in enumerate(page.told) if told["says"] == "files" and "progress.json" in told["files"]
    )
    assert "capstone.tokenizer" in page.told[first_done]["files"]["progress.json"]
    assert says[first_done + 1] == "late"


def test_what_the_checker_tells_the_page_is_not_taken_for_the_readers_code(page):
    before = sys.getprofile(), sys.gettrace()
    [panel] = ask(page, SOURCE, "block")["panels"]
    assert panel["mood"] == "good"
    assert (sys.getprofile(), sys.gettrace()) == before
