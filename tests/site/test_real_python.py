"""Tests practice in the page with real Python, which `make python-for-the-page` downloads.

All known answers are judged in Chromium and in Firefox, by the program that judges them in `test_numpy_alone`. Both
browsers also check code that goes wrong in the ways in which a reader's might.
"""

import hashlib
import io
import json
import os
import re
import tarfile
from pathlib import Path

import pytest
from playwright.sync_api import expect
from test_practice import CHANGED, PAGE, code, edit, first, instead, press, small, visit  # noqa: F401

from tests.exercises.test_numpy_alone import AT_RANDOM, LIBRARIES, ROOT, judging, unpack
from tools.assets import pyodide
from tools.extensions import browser_package
from tools.shared import firefox

pytestmark = pytest.mark.weekly

TESTS = ("tests/exercises/*.py", "tests/chapters/ch*/*.py")
ANSWERS = "answers"  # what the archive with these is called

# Asks a worker of the page for one thing, without a time limit.
ASK = """(message) => new Promise((resolve, reject) => {
  const beside = (name) => new URL(`/_static/${name}`, location).href;
  const worker = new Worker(beside("practice/worker.mjs"), { type: "module" });
  const told = [];
  worker.onerror = ({ message }) => reject(new Error(message));
  worker.onmessage = ({ data }) => {
    if (data.says === "ready") worker.postMessage(message);
    else if (data.says === "broken") reject(new Error(data.text));
    else if (data.told?.says === "error") reject(new Error(data.told.text));
    else if (data.answer) resolve(data.answer.files["verdicts.json"]);
  };
  const page = { chapter: "03", setup: "" };
  worker.postMessage({ do: "start", python: beside("python/"), package: beside("practice/glassformer.tgz"), ...page });
})"""

JUDGE = f"""
import contextlib, importlib, runpy, sys

from glassformer.exercises import desk

desk.MOST_BYTES = 10**9
importlib.invalidate_caches()
sys.argv = ["judged", "1", *{LIBRARIES}]
with open("verdicts.json", "w") as file, contextlib.redirect_stdout(file):
    runpy.run_module("tests.exercises.judged", run_name="__main__")
"""

# Types code into the first field, presses Check, and waits for the answer; a second one, to be right, comes after it.
CHECK = """async ({ codes }) => {
  const place = document.querySelector(".practice");
  const field = place.querySelector("textarea");
  const part = (name) => place.querySelector(`.practice-${name}`);
  const answers = [];
  for (const code of codes) {
    field.value = code;
    field.dispatchEvent(new Event("input"));
    place.querySelector("[data-do=check]").click();
    while (!part("panel") || !part("work").hidden) await new Promise((then) => setTimeout(then, 20));
    const [output, answer] = [part("output").innerText, part("answer").innerText];
    const kept = JSON.parse(localStorage["glassformer.code: attention.scores"]).code;
    answers.push({ output, answer, isKept: kept === code && field.value === code });
  }
  return JSON.stringify(answers);
}"""


@pytest.fixture(scope="module")
def real():
    """Returns the files of real Python by the addresses at which the site has them."""
    folder = Path(os.environ.get("GLASSFORMER_PYTHON") or pyodide.FOLDER)
    if not folder.is_dir():
        pytest.fail("there is no Python for the page here: `make python-for-the-page` downloads it")
    names = [
        r"pyodide\.mjs",
        r"pyodide\.asm\.\w+",
        r"python_stdlib\.zip",
        r"pyodide-lock\.json",
        r"numpy-.*\.whl",
    ]
    served = {
        path.name: path.read_bytes() for path in folder.iterdir() if re.fullmatch("|".join(names), path.name)
    }
    wheel = next(name for name in served if name.endswith(".whl"))
    files = [
        {"name": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in served.items()
    ]
    served["files.json"] = json.dumps({"version": "0", "numpy": wheel, "files": files}).encode()
    return {f"/_static/python/{name}": data for name, data in served.items()}


@pytest.fixture(scope="module", params=["Chromium", "Firefox"])
def anywhere(request, real, instead, tmp_path_factory):  # noqa: F811
    """Returns a window of each browser, at the practice page with real Python."""
    address, answers = instead
    answers.clear()
    answers.update(real)
    if request.param == "Chromium":
        window = request.getfixturevalue("browser").new_page()
    elif (path := firefox.find()) is None:
        pytest.fail("there is no Firefox here")
    else:
        window = firefox.Firefox(path, tmp_path_factory.mktemp("firefox"))
    window.goto(f"{address}{PAGE}.html")
    yield window
    window.close()


# --- all known answers ---


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    """Returns the verdicts of a desk in this Python."""
    folder = tmp_path_factory.mktemp("packed")
    unpack(folder)
    output, _ = judging(1, LIBRARIES, folder, folder).communicate()
    return json.loads(output)


def all_tests():
    """Returns the archive of what `judged.py` needs to know all answers."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for path in (path for pattern in TESTS for path in sorted(ROOT.glob(pattern))):
            archive.add(path, path.relative_to(ROOT).as_posix())
    return data.getvalue()


RESIDUE = re.compile(r"yours is \[((?:-?[\d.]+(?:e-\d+)?(?:, )?)+)\]")


def _as_zeros(found):
    return (
        "yours is all zeros" if all(abs(float(each)) < 1e-14 for each in found[1].split(", ")) else found[0]
    )


def like(page, here):
    """Returns whether a page says the same as this Python, but for what differs between builds of NumPy.

    Whole numbers have 32 bits in WebAssembly, where addresses do. And terms that cancel may leave something of the
    size of a rounding error, or nothing: in which order they are added differs.
    """
    page = json.dumps(page).replace("int32", "int64")
    return RESIDUE.sub(_as_zeros, page) == RESIDUE.sub(_as_zeros, json.dumps(here))


@pytest.mark.timeout(3600)  # two to four minutes in each browser, on a machine that is not busy
def test_every_known_answer_gets_the_same_verdict_in_a_browser_word_for_word(anywhere, expected, instead):  # noqa: F811
    instead[1][f"/_static/practice/{ANSWERS}.tgz"] = all_tests()
    request = {"do": "try", "exercise": "attention.scores", "code": JUDGE, "earlier": {}, "files": {}}
    loads = [*sorted(browser_package.loads()), ANSWERS]
    found = json.loads(anywhere.evaluate(ASK, {"id": 1, "loads": loads, "request": request}))
    assert found["exercises"] == expected["exercises"]
    here, there = expected["verdicts"], found["verdicts"]
    assert there.keys() == here.keys()
    assert len(there) > 2000
    fixed = {label for label in here if label.split()[-1] not in AT_RANDOM}
    assert {
        label: (there[label], here[label]) for label in fixed if not like(there[label], here[label])
    } == {}


# --- code that goes wrong, in each browser ---

HEAD = "def scores(query, keys):\n"
RIGHT = f"{HEAD}    print('here')\n    return keys @ query / np.sqrt(len(query))\n"
NOTHING = "attention.scores: your code raised an error, so there is nothing to check yet"
ENDED = "Python stopped unexpectedly. Your code is safe, and Python starts again with your next try."
LATE = "your function was still running after 5 s and was stopped. Is there a loop whose condition never becomes false?"
GOES_WRONG = {  # what the answer and the output should contain
    "an endless loop": (f"{HEAD}    while True:\n        pass\n", LATE, ""),
    "an endless loop at the top": (
        "while True:\n    pass\n",
        "attention.scores: your code was still running after 5 s and was stopped",
        "",
    ),
    "a list that fits nowhere": (f"{HEAD}    return [0] * 10**9\n", "your function raised MemoryError", ""),
    "an array that fits nowhere": (
        f"{HEAD}    return [np.empty(10**8 * 2) for _ in range(3)]\n",
        "Unable to allocate 1.49 GiB for an array",
        "",
    ),
    "an array beyond every address": (
        f"{HEAD}    return np.ones((10**5, 10**5))\n",
        "array is too big",
        "",
    ),
    "recursion without an end": (
        f"{HEAD}    return scores(query, keys)\n",
        "your function raised RecursionError",
        "",
    ),
    "recursion at the top": ("def f():\n    f()\n\n\nf()\n", NOTHING, "RecursionError"),
    "no Python": ("def scores(query, keys:\n", NOTHING, "SyntaxError: '(' was never closed"),
    "exit()": ("exit()\n", NOTHING, "SystemExit"),
    "sys.exit()": (f"import sys\n{HEAD}    sys.exit()\n", "your function raised SystemExit", ""),
    "the end of the process": (f"import os\n{HEAD}    os._exit(0)\n", ENDED, ""),
    "input()": (f"{HEAD}    return input()\n", "input() does not work on this page.", ""),
    "input() at the top": ("n = input()\n", NOTHING, "input() does not work on this page."),
    "an argument changed": (
        f"{HEAD}    keys *= 2\n    return keys @ query / np.sqrt(len(query)) / 2\n",
        "your function changed its argument keys in place. Work on a copy.",
        "",
    ),
    "NumPy's functions replaced": (
        f"np.sum = np.sqrt = None\n{HEAD}    return keys @ query\n",
        "Your code changed np.sqrt, np.sum; they have been restored.",
        "",
    ),
    "a function replaced during the check": (
        f"{HEAD}    np.sum = None\n    return keys @ query\n",
        "Your function changed np.sum; it has been restored.",
        "",
    ),
    "a million lines": (
        "for i in range(1_000_000):\n    print(i)\n",
        "your code should define a function scores, but it does not",
        "(the rest of the output is not shown)",
    ),
}


@pytest.mark.parametrize("what", GOES_WRONG)
def test_code_that_goes_wrong_is_named_and_the_next_check_works(anywhere, what):
    wrong, says, prints = GOES_WRONG[what]
    one, next_one = json.loads(anywhere.evaluate(CHECK, {"codes": [wrong, RIGHT]}))
    assert says in one["answer"]
    assert prints in one["output"]
    assert len(one["output"]) < 25_000
    assert "attention.scores: right, all 4 checks pass" in next_one["answer"]
    assert next_one["output"].split() == ["here"] * len(next_one["output"].split())
    assert one["isKept"]
    assert next_one["isKept"]


def test_after_code_that_is_nested_too_deep_for_the_browser_the_next_check_works(anywhere):
    codes = [f"x = {'-' * 20_000}1\n", RIGHT]
    one, next_one = json.loads(anywhere.evaluate(CHECK, {"codes": codes}))
    assert ENDED in one["answer"] or (NOTHING in one["answer"] and "too complex" in one["output"])
    assert "attention.scores: right, all 4 checks pass" in next_one["answer"]
    assert one["isKept"]


# --- as a reader works ---


def panel(place):
    return place.locator(".practice-panel").first


def test_real_python_answers_in_the_page(real, visit):  # noqa: F811
    page = visit(real)
    place = first(page)
    edit(place, RIGHT.replace(" / np.sqrt(len(query))", ""))
    press(place, "Check")
    expect(panel(place)).to_contain_text("attention.scores: not yet, 1 of 4 checks pass")
    expect(panel(place)).to_contain_text("The division by √d_head is missing.")
    expect(place.locator(".practice-output")).to_contain_text("here")
    edit(place, RIGHT)
    press(place, "Check")
    expect(panel(place)).to_contain_text("attention.scores: right, all 4 checks pass")

    # The browser has kept the large files.
    page.asked.clear()
    page.reload()
    press(place, "Check")
    expect(panel(place)).to_contain_text("attention.scores: right, all 4 checks pass")
    assert not [url for url in page.asked if url.endswith((".wasm", ".whl", "stdlib.zip"))]


def test_a_damaged_file_is_not_used(real, visit):  # noqa: F811
    damaged = "/_static/python/python_stdlib.zip"
    page = visit(real | {damaged: real[damaged][:-1] + b"?"})
    press(first(page), "Check")
    expect(panel(first(page))).to_contain_text("The file python_stdlib.zip arrived damaged.")


def test_what_is_written_survives_a_reload_in_the_middle_of_a_check(real, visit):  # noqa: F811
    page = visit(real)
    place = first(page)
    endless = f"{HEAD}    print('begun', flush=True)\n    while True: ...\n"
    edit(place, endless)
    press(place, "Check")
    expect(place.locator(".practice-output")).to_contain_text("begun")
    page.reload()
    expect(place.locator("textarea")).to_have_value(endless)
    expect(place.locator(".practice-answer")).to_be_empty()
    edit(place, RIGHT)
    press(place, "Check")
    expect(panel(place)).to_contain_text("attention.scores: right, all 4 checks pass")


def test_python_can_be_stopped_while_it_loads_and_starts_again(real, visit):  # noqa: F811
    page = visit(real)
    place = first(page)
    held = []
    page.context.route("**/*.whl", lambda route: held.append(route))
    edit(place, RIGHT)
    press(place, "Check")
    expect(place.locator(".practice-work")).to_contain_text("MB")
    press(place, "Stop")
    expect(place.locator(".practice-answer")).to_have_text("Stopped. Your code is safe.")
    page.context.unroute("**/*.whl")
    press(place, "Check")
    expect(panel(place)).to_contain_text("attention.scores: right, all 4 checks pass")
    press(place, "Check")  # and while it runs
    expect(panel(place)).to_contain_text("right, all 4")
    edit(place, f"{HEAD}    while True: ...\n")
    press(place, "Check")
    press(place, "Stop")
    expect(place.locator(".practice-answer")).to_have_text("Stopped. Your code is safe.")
    edit(place, RIGHT)
    press(place, "Check")
    expect(panel(place)).to_contain_text("attention.scores: right, all 4 checks pass")


def test_an_old_answer_to_an_exercise_that_has_changed_is_judged_as_it_was_left(real, visit):  # noqa: F811
    old = json.dumps(RIGHT)[1:-1]
    page = visit(real, script=CHANGED.replace("CODE", old))
    place = first(page)
    expect(place.locator(".practice-note")).to_contain_text("This exercise has changed")
    press(place, "Check")
    expect(panel(place)).to_contain_text("attention.scores: right, all 4 checks pass")
    press(place, "Keep my code")
    expect(place.locator(".practice-note")).to_be_empty()
    page.reload()
    expect(place.locator("textarea")).to_have_value(RIGHT)


SOFTMAX = """\
def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


scores(np.ones(4), np.ones((1, 4)))
"""


def test_an_accepted_answer_is_used_below_it_kept_and_can_be_downloaded(real, visit):  # noqa: F811
    page = visit(real)
    scores, softmax = page.locator(".practice[data-exercise]").all()
    edit(scores, RIGHT)
    press(scores, "Check")
    expect(panel(scores)).to_contain_text("attention.scores: right, all 4 checks pass")
    edit(softmax, SOFTMAX)
    press(softmax, "Check")
    expect(panel(softmax)).to_contain_text("attention.softmax: right")
    expect(softmax.locator(".practice-output pre")).to_have_text(["here\n", "array([2.])"])
    expect(softmax.locator(".practice-panel").nth(1)).to_contain_text("softmax is now in my_transformer.py")
    page.reload()
    expect(softmax).to_contain_text("You have solved this exercise.")
    with page.expect_download() as download:
        press(page.locator(".practice-page"), "Download my_transformer.py")
    mine = Path(download.value.path()).read_text("utf-8")
    assert "import numpy as np" in mine
    assert SOFTMAX.partition("\n\n\n")[0] in mine
    press(softmax, "Check")
    already = "my_transformer.py already has this softmax"
    expect(softmax.locator(".practice-panel").nth(1)).to_contain_text(already)
