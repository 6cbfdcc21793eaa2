"""Tests DiagnoseIt: patients match the experiments, tests appear when ordered, and options and review give feedback."""

import re
from itertools import pairwise

import numpy as np
import pytest

from glassformer import contents, shipped
from glassformer.bugs import BUGS, put_in
from glassformer.chapters.ch14.diagnose_it import clinic, landmarks
from glassformer.experiments import stored
from glassformer.text import CharTokenizer, corpus
from glassformer.trace import trace
from glassformer.widgets import DiagnoseIt, Quiz
from tools.shared import chapter_facts

NAMES = [entry["bug"] for entry in clinic()["patient"]]
TESTS = {test["name"]: test for test in clinic()["test"]}


@pytest.fixture(scope="module")
def all_patients():
    return DiagnoseIt()


def right_one(name):
    (entry,) = (entry for entry in clinic()["patient"] if entry["bug"] == name)
    (right,) = (i for i, option in enumerate(entry["option"]) if option.get("correct"))
    return right


def order(w, name):
    test = TESTS[name]
    label = f"{test['name']}, cost {test['cost']}: {test['text']}"
    w.root.get_by_role("button", name=label, exact=True).press("Enter")
    w.settle()


def fails(patient):
    return [name for name in TESTS if not patient["results"].get(name, {}).get("passed", True)]


def choose(w, option):
    w.root.locator("input[type=radio]").nth(option).press(" ")
    w.settle()


def result(w, name):
    """Returns what the view says a test found, or "" if the test was not ordered."""
    w.settle()
    row = w.root.locator("li", has_text=TESTS[name]["text"])
    return " ".join(row.locator(".gf-clinic-result").inner_text().split())


# --- in Python --------------------------------------------------------------------------------------------


def test_every_text_is_a_question_with_one_answer_about_a_mistake_of_the_gallery(all_patients):
    Quiz([{"text": entry["bug"], "options": entry["option"]} for entry in clinic()["patient"]])
    assert len(NAMES) == len(set(NAMES)) == 12
    assert set(NAMES) <= set(BUGS)
    assert {len(entry["option"]) for entry in clinic()["patient"]} <= {4, 5}
    costs = [test["cost"] for test in clinic()["test"]]
    assert costs == sorted(costs)
    for patient in all_patients._patients:
        assert set(patient["results"]) <= set(TESTS)
        assert len(set(TESTS) - set(patient["results"])) <= 1, patient["bug"]


def test_what_a_patient_shows_is_what_was_measured(all_patients):
    for patient in all_patients._patients:
        name = patient["bug"]
        right = all_patients._right[patient["right"]]
        if name == "post-norm":
            same = {"n_layers": 8, "warmup": 0, "learning_rate": 1e-3}
            runs = [
                [
                    run.found
                    for run in stored("norm_placement", placement=placement, **same)
                    if not {"zero_init", "steps"} & set(run.settings) and run.settings["seed"] < 2
                ]
                for placement in ("post", "pre")
            ]
        else:
            model = patient["right"]
            runs = [[run.found for run in stored("pitfalls", bug=bug, model=model)] for bug in (name, "none")]
        for found, curves, reported in (
            (runs[0], patient["sick"], patient["reported"]),
            (runs[1], right["curves"], right["reported"]),
        ):
            assert len(found) == len(curves) == 2
            np.testing.assert_allclose([c["loss"] for c in curves], [f["loss"] for f in found], atol=6e-4)
            gradients = [f.get("gradient", f.get("gradient_norm")) for f in found]
            np.testing.assert_allclose([c["gradient"] for c in curves], gradients, atol=6e-3)
            own = [f.get("reported", f.get("validation_loss")) for f in found]
            np.testing.assert_allclose(reported, own, atol=6e-4)
        if "right" in patient["results"]:
            np.testing.assert_allclose(
                patient["results"]["right"]["found"], [f["validation"] for f in runs[0]], atol=6e-4
            )
            assert patient["sample"] == runs[0][0]["samples"][0]
        (tested,) = (run.found for run in stored("clinic", bug=name, seed=0))
        results = patient["results"]
        assert {test: results[test]["passed"] for test in tested["passed"]} == tested["passed"]
        for test in ("overfit", "noise"):
            assert results[test]["loss"] == pytest.approx(tested[test], abs=6e-4)


def test_landmarks_are_those_of_counting():
    text = corpus()
    V = CharTokenizer.from_text(text).vocab_size
    assert landmarks()["ln V"] == pytest.approx(np.log(V), abs=6e-4)
    counts = {}
    for a, b in pairwise(text[:20_001]):  # the order of things, on a part of the text
        counts.setdefault(a, {}).setdefault(b, 0)
        counts[a][b] += 1
    bigram = -sum(n * np.log(n / sum(of.values())) for of in counts.values() for n in of.values()) / 20_000
    assert bigram < landmarks()["bigram"] < landmarks()["unigram"] < landmarks()["ln V"]
    letters = np.array([text.count(c) for c in set(text)]) / len(text)
    assert landmarks()["unigram"] == pytest.approx(-(letters * np.log(letters)).sum(), abs=1e-3)


def test_maps_are_those_of_the_code_with_the_mistake_in(all_patients):
    model, tokenizer = shipped.load()
    found = {p["bug"]: p["results"]["map"] for p in all_patients._patients if "map" in p["results"]}
    assert set(NAMES) - set(found) == {"dropout-in-evaluation"}
    with put_in("mask-after-softmax"), trace() as seen:
        model(tokenizer.encode("A horse! a horse!")[None])
    weights = seen.arrays("weights", "attention")[0][0, 1]
    sums = weights.sum(axis=-1)
    assert found["mask-after-softmax"]["sick"]["rows"] == pytest.approx([sums.min(), sums.max()], abs=6e-3)
    # What the reasons say of them
    assert found["mask-transposed"]["sick"]["ahead"] > 0.5
    assert found["mask-transposed"]["sick"]["rows"] == [1, 1]
    assert found["softmax-axis"]["sick"]["columns"] == [1, 1]
    assert found["softmax-axis"]["sick"]["ahead"] == found["mask-after-softmax"]["sick"]["ahead"] == 0
    assert found["softmax-axis"]["sick"]["rows"][1] > 1
    assert found["mask-after-softmax"]["sick"]["rows"][1] <= 1
    right = "labels-unshifted labels-shifted-twice heads-not-swapped cache-off-by-one tied-reshaped"
    assert {name for name in found if found[name]["isRight"]} == set(right.split())


def test_what_the_reasons_claim_of_results_is_so(all_patients):
    results = {patient["bug"]: patient["results"] for patient in all_patients._patients}

    def passes(name, *tests):
        return all(results[name][test]["passed"] for test in tests)

    assert passes("labels-unshifted", "future")
    assert passes("labels-shifted-twice", "future", "cache", "order")
    assert passes("no-positions", "future")
    assert not passes("no-positions", "order")
    assert not passes("heads-not-swapped", "future")
    assert not passes("heads-not-swapped", "cache")
    assert not passes("cache-off-by-one", "cache")
    assert not passes("dropout-in-evaluation", "again")
    assert passes("tied-reshaped", "again")
    assert passes("rope-layout", "order")
    assert not passes("rope-layout", "parity")
    ln_v = landmarks()["ln V"]
    tied, rope = (results[name]["right"]["found"] for name in ("tied-reshaped", "rope-layout"))
    assert min(tied) > ln_v > max(rope)
    by_name = {patient["bug"]: patient for patient in all_patients._patients}
    for name in ("cache-off-by-one", "dropout-in-evaluation"):  # the correct model's own curve
        assert by_name[name]["sick"] == all_patients._right[by_name[name]["right"]]["curves"]
    assert results["dropout-in-evaluation"]["right"]["found"] == all_patients._right["dropout"]["reported"]


def test_what_the_reasons_claim_of_curves_is_so(all_patients):
    by_name = {patient["bug"]: patient for patient in all_patients._patients}
    known = landmarks()

    def ends(name, what="loss"):
        return [run[what][-1] for run in by_name[name]["sick"]]

    assert max(ends("labels-unshifted")) < 0.01
    assert max(by_name["labels-unshifted"]["reported"]) < 0.01
    for name in ("mask-transposed", "softmax-axis", "mask-after-softmax"):
        assert 0.01 < min(ends(name)) <= max(ends(name)) < 0.5
        assert by_name[name]["reported"] == pytest.approx(ends(name), abs=0.1)
    for name in ("no-positions", "heads-not-swapped"):
        assert ends(name) == pytest.approx([known["bigram"]] * 2, abs=0.1)
    assert min(ends("labels-shifted-twice")) > known["bigram"] + 0.1
    assert ends("post-norm") == pytest.approx([known["unigram"]] * 2, abs=0.06)
    right = all_patients._right["deep"]["curves"]
    shorter = [
        0.1 < a < 0.6 * b["gradient"][-1] for a, b in zip(ends("post-norm", "gradient"), right, strict=True)
    ]
    assert shorter == [True, True]
    for name in ("tied-reshaped", "rope-layout"):
        right = [run["loss"][-1] for run in all_patients._right["rope"]["curves"]]
        assert ends(name) == pytest.approx(right, abs=0.05)
        test = by_name[name]["results"]["right"]
        assert all(found > own + 0.3 for found, own in zip(test["found"], test["reported"], strict=True))


# --- what is seen -----------------------------------------------------------------------------------------


def test_tests_cost_options_answer_and_the_review_says_it_all(mount, shoot):
    three = ["softmax-axis", "dropout-in-evaluation", "labels-shifted-twice"]
    w = mount(DiagnoseIt(three))
    first, second, third = w.widget._patients
    assert w.says.startswith("Patient 1 of 3, not answered: the loss ends at 0.049 and 0.151, ")
    assert all(option["why"] not in w.root.inner_text() for option in first["options"])
    assert w.root.locator(".gf-clinic-name").inner_text() == ""
    curves = w.tables()[0]
    np.testing.assert_allclose([float(row[1]) for row in curves[1:]], first["sick"][0]["loss"])
    np.testing.assert_allclose(
        [float(row[8]) for row in curves[1:]], w.widget._right["rope"]["curves"][1]["gradient"]
    )

    assert result(w, "future") == result(w, "map") == ""
    order(w, "future")
    order(w, "map")
    order(w, "map")  # once is enough
    assert result(w, "future") == "✗ It fails."
    assert "columns to 1.00. No weight is on later characters." in result(w, "map")
    assert w.root.locator(".gf-clinic-map").count() == 2
    assert "All tests so far cost 2." in w.says

    wrong = (right_one(three[0]) + 1) % 5
    choose(w, wrong)
    assert first["options"][wrong]["why"] in w.root.locator(".gf-feedback").inner_text()
    assert w.root.locator(".gf-clinic-name").inner_text() == ""
    choose(w, right_one(three[0]))
    named = w.root.locator(".gf-clinic-name").inner_text()
    assert named.startswith(f"{BUGS[three[0]].title}. ")
    assert named.endswith(f"{', '.join(fails(first))}.")
    assert "diagnosed at try 2" in w.says

    w.root.get_by_role("button", name="Next patient").press("Enter")
    w.settle()
    assert result(w, "again") == ""
    assert TESTS["map"]["text"] not in w.root.inner_text()
    order(w, "right")
    found = " and ".join(f"{x:.3f}" for x in second["results"]["right"]["found"])
    assert result(w, "right").endswith(f"the correct code finds {found}.")
    choose(w, right_one(three[1]))
    w.root.get_by_role("button", name="Next patient").press("Enter")
    w.settle()
    assert w.root.locator(".gf-clinic-paper").first.inner_text().replace("⏎\n", "\n") == third["sample"]
    w.root.get_by_role("button", name="Review").press("Enter")
    assert w.says == "2 of 3 right, 1 at the first try. All tests so far cost 5."
    assert w.saved() == {
        "patient": 3,
        "ordered": [["future", "map"], ["right"], []],
        "answers": [[wrong, right_one(three[0])], [right_one(three[1])], []],
    }
    rows = w.root.locator(".gf-drawing table tr").evaluate_all(
        "all => all.map((r) => [...r.cells].map((c) => c.innerText))"
    )
    assert rows[1:] == [
        ["1", BUGS[three[0]].title, "diagnosed at try 2", "2", ", ".join(fails(first))],
        ["2", BUGS[three[1]].title, "diagnosed at try 1", "3", ", ".join(fails(second))],
        ["3", "–", "not answered", "0", "–"],
    ]
    shoot("diagnose-review")
    before = w.saved()
    w.root.get_by_role("button", name="Start again").press("Enter")
    w.settle()
    assert w.saved() == before
    w.root.get_by_role("button", name="Forget all tests and answers").press("Enter")
    w.settle()
    assert w.saved() == {"patient": 0, "ordered": [[]] * 3, "answers": [[]] * 3}
    assert result(w, "future") == ""


def test_all_patients_on_a_phone(mount, all_patients, shoot):
    w = mount(all_patients, width=360)
    for p in range(12):
        w.set(patient=p)
        w.settle()
        assert f"Patient {p + 1} of 12" in w.says
        paths = w.root.locator(".gf-clinic-line.gf-clinic-sick").evaluate_all(
            "all => all.filter((e) => e.tagName === 'path').map((e) => e.getAttribute('d').split('L').length)"
        )
        assert paths == [40] * 4
        assert w.overflow() == 0
    w.set(patient=2, ordered=[[], [], list(TESTS), *[[]] * 9], answers=[[], [], [0], *[[]] * 9])
    assert w.root.locator(".gf-clinic-map").count() == 2
    w.tables()
    assert w.overflow() == 0
    assert w.axe_violations() == []
    shoot("diagnose-360")


def test_which_tests_fail_and_what_they_cost(call):
    tests = [{"name": name, "cost": cost} for name, cost in {"a": 3, "b": 1, "c": 1, "map": 0}.items()]
    results = {"a": {"passed": False}, "b": {"passed": True}, "c": {"passed": False}, "map": {"sick": {}}}
    assert call("diagnose_it", "failed", tests, results) == ["c", "a"]
    assert call("diagnose_it", "failed", tests, {"a": {"passed": True}}) == []
    assert call("diagnose_it", "costOf", tests, ["a", "c"]) == 4


def test_no_heading_below_the_clinic_tells_of_a_patient_and_old_addresses_work():
    text = chapter_facts.text_of(contents.chapter("14")).read_text(encoding="utf-8")
    cases = text[text.index("## Your turn in the clinic") : text.index("\n## A checklist")]
    headings = [line.lstrip("# ") for line in cases.splitlines() if re.match("#{2,3} ", line)]
    neutral = r"Your turn in the clinic|Cases? \d+( to \d+|, continued)?|Halfway"
    assert all(re.fullmatch(neutral, one) for one in headings)
    for old in ("too-good-to-be-true", "never-good-enough", "a-normal-loss", "case-4-with-another-optimizer"):
        assert f'<span id="{old}"></span>' in text
