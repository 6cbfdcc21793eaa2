"""Tests ShapeTracer: its arrays are those of a real run, and its operation counts are those of PyTorch."""

import numpy as np
import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from glassformer import nn, scratch
from glassformer.chapters.ch01.shape_tracer import sizes_of
from glassformer.config import ModelConfig
from glassformer.published import published
from glassformer.trace import trace
from glassformer.widgets import ShapeTracer

SIZES = ("length", "d_model", "n_heads", "n_layers", "d_ff", "vocab_size", "gated")

STATES = [
    {},
    {"length": 1, "d_model": 4, "n_heads": 1, "n_layers": 1, "d_ff": 4, "vocab_size": 4},
    {"length": 13, "d_model": 48, "n_heads": 6, "n_layers": 3, "d_ff": 64, "vocab_size": 16, "gated": False},
    {"length": 64, "d_model": 96, "n_heads": 12, "n_layers": 2, "d_ff": 256, "vocab_size": 256},
    {"length": 96, "d_model": 32, "n_heads": 2, "n_layers": 5, "d_ff": 32, "vocab_size": 65, "gated": False},
]


def sizes(w):
    return {name: getattr(w, name) for name in SIZES}


def config(w):
    return ModelConfig(
        vocab_size=w.vocab_size,
        context_length=w.length,
        d_model=w.d_model,
        n_layers=w.n_layers,
        n_heads=w.n_heads,
        d_ff=w.d_ff,
        positions="none",
        feedforward="swiglu" if w.gated else "gelu",
        attention_bias="none",
        feedforward_bias=False,
        head="untied",
    )


def run(w):
    """Returns what a run of such a model shows: the input, all blocks and the output."""
    model = scratch.Transformer(config(w), generator=None)
    with trace() as seen:
        model(np.zeros(w.length, dtype=int))
    return seen


def counted(w):
    """Returns the number of operations in all matrix products of one run, as PyTorch counts them."""
    model = nn.Transformer(config(w), generator=None)
    with FlopCounterMode(display=False) as counter, trace(), torch.no_grad():
        model(torch.zeros(w.length, dtype=torch.long))
    return counter.get_total_flops()


@pytest.mark.parametrize("state", STATES, ids=str)
def test_the_arrays_are_those_of_a_run_in_their_order(call, state):
    w = ShapeTracer(**state)
    said = call("shape_tracer", "arrays", sizes(w))
    first, *blocks, normed, logits = run(w)
    one = len(blocks) // w.n_layers
    assert len(blocks) == one * w.n_layers
    assert len(said) == 1 + one + 2
    for i in range(w.n_layers):  # what is said of one block holds for each
        seen = [first, *blocks[i * one : (i + 1) * one], normed, logits]
        for array, real in zip(said, seen, strict=True):
            assert array["name"] == real.name
            assert array["shape"] == list(real.array.shape)
            assert array["part"] in (real.sublayer, "in", "out")
            assert array["times"] == (w.n_layers if "block" in real.part else 1)


@pytest.mark.parametrize("state", STATES, ids=str)
def test_the_totals_are_those_of_a_run(call, state):
    w = ShapeTracer(**state)
    totals = call("shape_tracer", "totals", call("shape_tracer", "arrays", sizes(w)))
    assert sum(kind["numbers"] for kind in totals) == sum(seen.array.size for seen in run(w))
    assert sum(kind["operations"] for kind in totals) == counted(w)


def test_the_work_of_a_part_is_what_is_counted_less_without_it(call):
    """Twice as many heads change nothing; a doubled vocabulary adds one head; the work of all pairs grows with T²."""
    w = ShapeTracer(**STATES[2])

    def work(kind, **changes):
        totals = call("shape_tracer", "totals", call("shape_tracer", "arrays", sizes(w) | changes))
        return next(one["operations"] for one in totals if one["kind"] == kind)

    wider = ShapeTracer(**STATES[2] | {"vocab_size": 32})
    assert counted(wider) - counted(w) == work("head", vocab_size=32) - work("head") > 0
    broader = ShapeTracer(**STATES[2] | {"d_ff": 128})
    assert counted(broader) - counted(w) == work("feedforward", d_ff=128) - work("feedforward") > 0
    longer = ShapeTracer(**STATES[2] | {"length": 26})
    assert work("pairs", length=26) == 4 * work("pairs")
    assert work("projections", length=26) == 2 * work("projections")
    assert counted(longer) - 2 * counted(w) == 2 * work("pairs")


def test_models_to_choose_are_the_books_and_the_published_ones():
    line, gpt2, gpt3 = (traits for _, traits in ShapeTracer()._presets)
    assert line == sizes(ShapeTracer())
    assert gpt2 == sizes_of(published("gpt2").config, 1024)
    assert (gpt3["d_model"], gpt3["n_layers"], gpt3["n_heads"]) == (12_288, 96, 96)
    for traits in (line, gpt2, gpt3):
        w = ShapeTracer(**traits)
        for name, values in w._choices.items():
            assert getattr(w, name) in values


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0"),
        (999_999, "999,999"),
        (1_000_000, "1.00 million"),
        (68_900_000, "68.9 million"),
        (291_648_307_200, "292 billion"),
        (1.5e12, "1.50 trillion"),
    ],
)
def test_how_many(call, n, text):
    assert call("shape_tracer", "many", n) == text


@pytest.mark.parametrize(
    ("n", "text"), [(4, "4 bytes"), (26_896, "26.3 KiB"), (1024**2, "1.00 MiB"), (3 * 1024**3, "3.00 GiB")]
)
def test_bytes(call, n, text):
    assert call("shape_tracer", "bytes", n) == text


@pytest.mark.parametrize("state", STATES, ids=str)
def test_the_table(mount, state):
    w = ShapeTracer(**state)
    header, *rows = mount(w).table()
    assert header[2:6] == ["Shape", "Numbers", "float32", "Operations"]
    seen = run(w)
    every = [*seen[:11], *seen[-2:]]
    total = counted(w)
    for row, (part, _, name, array) in zip(rows, every, strict=True):
        assert row[0].split()[0] == name
        letters = {"T": w.length, "D": w.d_model, "H": w.n_heads, "F": w.d_ff, "V": w.vocab_size}
        letters["K"] = w.d_model // w.n_heads
        assert tuple(letters[letter] for letter in row[1].strip("()").split(", ")) == array.shape
        assert row[2] == str(array.shape)
        assert row[3] == f"{array.size:,}"
        size = array.nbytes if row[4].endswith("bytes") else array.nbytes / 1024
        assert float(row[4].split()[0].replace(",", "")) == pytest.approx(size, rel=0.005)
        assert row[6] == str(w.n_layers if "block" in part else 1)
        share = int(row[5].replace(",", "")) * int(row[6]) / total
        if "below" not in row[7]:
            assert float(row[7].removesuffix(" %")) == pytest.approx(100 * share, abs=0.0501)
    assert sum(int(row[5].replace(",", "")) * int(row[6]) for row in rows) == total


def test_the_drawing_is_to_scale(mount):
    w = ShapeTracer(**STATES[3])
    view = mount(w)
    drawn = view.root.locator(".gf-array").evaluate_all(
        "all => all.map((box) => [+box.getAttribute('width'), +box.getAttribute('height')])"
    )
    seen = run(w)
    arrays = [one.array for one in [*seen[:11], *seen[-2:]]]
    areas = np.array([width * height for width, height in drawn])
    np.testing.assert_allclose(areas / areas[0], [a.size / arrays[0].size for a in arrays], rtol=2e-3)
    assert len({height for _, height in drawn}) == 1  # a row for each token


def test_what_it_says(mount):
    view = mount(ShapeTracer())
    assert view.says == (
        "scores of attention, in each of 4 blocks: (H, T, T) = (4, 41, 41), 6,724 numbers, 26.3 KiB in float32. "
        "Computing it takes 430,336 operations; in all 4 blocks together, that is 2.5 % of the work."
    )
    view.set(array=5)
    assert view.says.endswith("It is not the result of a matrix product, so it counts as no work here.")
    assert view.label.startswith(
        "The arrays of a decoder with 4 blocks, drawn to scale: stream (41, 128), q of"
    )


def test_a_guess_is_told_what_is_wrong_with_it(call):
    scores, stream = {"shape": [4, 41, 41]}, {"shape": [41, 128]}

    def told(guess, array):
        verdict = call("shape_tracer", "judge", guess, array)
        return verdict and (verdict["right"], verdict["words"])

    assert told("", scores) is None
    assert told("none", scores) is None
    assert told(" (4, 41, 41)", scores) == (True, "Right.")
    assert told("4x41x41", scores)[0]
    assert told("41 41 4", scores) == (False, "(41, 41, 4)? Not yet. These are its axes, in another order.")
    assert told("164, 41", scores)[1].endswith(
        "It has that many numbers, but three axes, and the first counts heads."
    )
    assert told("41", stream)[1].endswith("It has two axes, and the first counts tokens.")
    assert told("41, 65", stream)[1].endswith("The first is right.")
    assert told("4, 41, 32", scores)[1].endswith("The first and the second are right.")
    assert told("1, 2", stream)[1].endswith("The number of axes is right, but none has the right length.")


def test_shapes_are_hidden_until_they_are_guessed_or_asked_for(mount):
    view = mount(ShapeTracer())
    view.press("Hide the shapes: guess first", "Space")
    assert "what is its shape? T = 41, D = 128, H = 4, K = D / H = 32" in view.says
    assert "(4, 41" not in view.root.inner_text()
    assert "(4, 41" not in view.label
    assert all(row[2] == "?" for row in view.table()[1:])
    assert not view.root.locator(".gf-shares").is_visible()

    view.control("Its shape").fill("41, 41")
    view.press("Its shape", "Enter")
    assert view.says.startswith("(41, 41)? Not yet. It has three axes")
    view.control("Its shape").fill("4, 41, 41")
    view.root.get_by_role("button", name="Check").press("Enter")
    assert view.says.startswith("Right. scores of attention, in each of 4 blocks: (H, T, T) = (4, 41, 41)")
    assert view.get("seen") == [4]
    assert view.table()[5][2] == "(4, 41, 41)"
    assert view.table()[6][2] == "?"

    view.press("Array", "ArrowDown")
    assert view.get("array") == 5
    assert view.get("guess") == ""
    assert "what is its shape?" in view.says
    view.root.get_by_role("button", name="Show it").press("Enter")
    assert "(4, 41, 41)" in view.says
    view.press("Tokens T", "ArrowRight")
    assert view.get("seen") == []
    assert "what is its shape? T = 48" in view.says


def test_sliders_go_from_choice_to_choice_and_heads_keep_dividing(mount):
    view = mount(ShapeTracer(d_model=96, n_heads=12))
    view.press("Heads H", "ArrowLeft")
    assert view.get("n_heads") == 8
    view.press("Heads H", "End")
    assert view.get("n_heads") == 96
    view.press("Width D", "ArrowRight")
    assert (view.get("d_model"), view.get("n_heads")) == (128, 64)
    view.press("Width D", "Home")
    assert (view.get("d_model"), view.get("n_heads")) == (4, 4)
    view.saved()
    assert (view.widget.d_model, view.widget.n_heads) == (4, 4)


def test_a_model_can_be_chosen(mount):
    view = mount(ShapeTracer())
    view.root.get_by_role("button", name="GPT-2 small").press("Enter")
    view.saved()
    assert sizes(view.widget) == sizes_of(published("gpt2").config, 1024)
    assert "(12, 1024, 1024), 12,582,912 numbers, 48.0 MiB" in view.says
    assert "292 billion multiplications and additions" in view.root.locator(".gf-shares").inner_text()


def test_pointing_shows_another_array_and_clicking_keeps_it(mount):
    view = mount(ShapeTracer())
    cells = view.root.locator(".gf-cell")
    cells.nth(8).hover()
    assert view.says.startswith("neurons of feed-forward, in each of 4 blocks: (T, F) = (41, 344)")
    assert view.get("array") == 4
    cells.nth(12).click()
    view.page.mouse.move(2, 2)
    assert view.says.startswith("logits, after the last block: (T, V) = (41, 65)")
    assert view.get("array") == 12


def test_in_python_too_heads_keep_dividing_the_width():
    w = ShapeTracer(d_model=96, n_heads=12)
    w.d_model = 64
    assert w.n_heads == 8
