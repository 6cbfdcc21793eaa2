"""Tests CacheMovie: each pass computes what a model computes, and work and memory equal those of `inside`."""

import itertools

import numpy as np
import pytest
from close import SINGLE, assert_close
from playwright.sync_api import expect

from glassformer import shipped
from glassformer.chapters.ch11.cache_movie import MODELS, CacheMovie, config_of, lengths, measure, sizes_of
from glassformer.inside import cache_bytes, generation_work, multiply_adds
from glassformer.trace import trace

PASSES = [(1, 0), (9, 0), (9, 1), (9, 7), (1, 4)]


# --- the numbers ------------------------------------------------------------------------------------------


def test_both_languages_count_alike(call):
    for name in MODELS:
        own = config_of(name)
        for G in (1, own.n_heads // 2, own.n_heads):
            config, sizes = own.replace(n_kv_heads=G), sizes_of(name) | {"G": G}
            work = call.each("cache_movie", "multiplyAdds", [[sizes, 7, 0], [sizes, 1, 40]])
            assert work == [multiply_adds(config, 7), multiply_adds(config, 1, 40)]
            totals = call.each(
                "cache_movie", "totalWork", [[sizes, 9, 8, cached] for cached in (False, True)]
            )
            assert totals == [generation_work(config, 9, 8, cache=cached) for cached in (False, True)]
            sizes_in_bytes = call.each("cache_movie", "cacheBytes", [[sizes, 100, 2], [sizes, 1, 4]])
            assert sizes_in_bytes == [cache_bytes(config, 100, bytes_per_number=2), cache_bytes(config, 1)]


@pytest.mark.parametrize("name", MODELS)
def test_bytes_and_times_follow_from_weights_cache_and_work(call, name):
    own, sizes = config_of(name), sizes_of(name)
    for G, read, past, size in ((1, 7, 0, 2), (own.n_heads, 1, 40, 4), (own.n_kv_heads, 900, 0, 2)):
        config = own.replace(n_kv_heads=G)
        fetched = size * config.parameter_count().total
        if past:
            fetched += cache_bytes(config, past, bytes_per_number=size)
        work = multiply_adds(config, read, past)
        seconds = max(fetched / 2e12, work / (156e12 if size == 2 else 78e12))
        found = call("cache_movie", "leastCost", sizes | {"G": G}, read, past, size, own.n_kv_heads)
        assert found["fetched"] == fetched
        assert found["milliseconds"] == pytest.approx(1000 * seconds)


# Made up, and all different: a pass without a cache takes 2 ms and 0.1 ms for each position, and one with a cache 1 ms
# and 0.01 ms for each that is cached.
MEASURED = {
    "without": [2 + t / 10 for t in range(1, 24)],
    "with": [1 + t / 100 for t in range(23)],
    "on": "a tortoise",
}


def test_a_pass_takes_what_was_measured_for_its_positions(call):
    asked = [[MEASURED, 9, step, cached] for cached in (False, True) for step in (0, 1, 14)]
    assert call.each("cache_movie", "measuredTime", asked) == [2.9, 3, 4.3, 2.9, 1.09, 1.22]


def test_times_are_stored_and_can_be_measured_anew():
    stored = CacheMovie().measured
    anew = CacheMovie(measured=measure(repeats=1)).measured  # raises unless it has all times
    assert anew.keys() == stored.keys()
    assert "processor" in stored["on"]
    assert "this computer" in anew["on"]


@pytest.fixture(scope="module")
def book():
    return shipped.load()


def passes(model, ids, prompt, step, cached):
    """Returns the queries, keys and scores of the first head that a pass computes, in the order of the rows."""
    cache = model.new_cache(1, len(ids)) if cached else None
    for n in range(step + 1):
        begin = prompt + n - 1 if cached and n else 0
        with trace() as seen:
            model.hidden(ids[None, begin : prompt + n], cache=cache)
    return [seen.arrays(name)[0][0, 0] for name in ("q", "k", "scores")]


@pytest.mark.parametrize(("prompt", "step"), PASSES)
def test_the_states_are_what_a_real_pass_does(call, book, prompt, step):
    model, tokenizer = book
    ids = tokenizer.encode("A horse! a horse!")
    T = prompt + step
    for cached in (False, True):
        drawn = call("cache_movie", "states", prompt, step, cached)
        q, k, scores = passes(model, ids, prompt, step, cached)
        computed = [state in ("new", "again") for state in drawn["q"]]
        assert sum(computed) == len(q)
        assert computed[T - len(q) :] == [True] * len(q)
        assert len(drawn["k"]) == len(drawn["v"]) == len(k) == T
        hidden = np.isneginf(scores)
        states = np.array(drawn["scores"])[T - len(q) :]
        np.testing.assert_array_equal(states == "masked", hidden)
        assert not (np.array(drawn["scores"])[: T - len(q)] != "gone").any()
        if step:
            before_q, before_k, before = passes(model, ids, prompt, step - 1, cached)
            assert drawn["k"][:-1] == drawn["v"][:-1] == ["kept" if cached else "again"] * (T - 1)
            assert_close(k[:-1], before_k, SINGLE)
            if not cached:
                again = np.array(drawn["scores"])[:-1, :-1] == "again"
                assert_close(q[:-1], before_q, SINGLE)
                assert_close(scores[:-1, :-1][again], before[again], SINGLE)
                assert again.sum() == T * (T - 1) / 2


def test_grouped_heads_are_divisors_and_have_names(call):
    assert call("cache_movie", "divisors", 12) == [1, 2, 3, 4, 6, 12]
    names = call.each("cache_movie", "kindOf", [[12, 12], [4, 12], [1, 12], [1, 1]])
    assert names == ["MHA", "GQA", "MQA", "MHA"]


# --- what is seen -----------------------------------------------------------------------------------------


def number(text):
    return int(text.replace(",", ""))


def check(w):
    """Checks the rows of the table, the running counts and the bars."""
    widget, table = w.widget, w.tables()[0]
    n_prompt = min(widget.prompt, len(widget.text) - 1)
    assert len(table) - 1 == len(widget.text) - n_prompt
    for step, row in enumerate(table[1:]):
        numbers = [number(cell) for cell in row[:7]]
        without, cached = (
            [generation_work(widget.config, n_prompt, n, cache=cache) for n in range(1, step + 2)]
            for cache in (False, True)
        )
        each = [work[-1] - (work[-2] if step else 0) for work in (without, cached)]
        kept = cache_bytes(widget.config, n_prompt + step, bytes_per_number=widget.bytes_per_number)
        assert numbers == [step, n_prompt + step, *each, without[-1], cached[-1], kept]
    step = min(widget.step, len(table) - 2)
    counts = widget.counts()
    assert (counts.without_cache, counts.with_cache, counts.kept) == tuple(map(number, table[step + 1][4:7]))
    ratio = counts.without_cache / counts.with_cache
    shown = w.root.locator(".gf-movie-counts .gf-panel-title").first.inner_text()
    assert float(shown.rsplit(": ", 1)[1].removesuffix(" to 1")) == pytest.approx(ratio, abs=0.051)


def test_passes_by_keyboard_and_by_buttons(mount):
    w = mount(CacheMovie())
    check(w)
    assert w.says.startswith("Pass 3: “h” is new. Without a cache, the model reads 12 positions")
    w.press("Pass", "ArrowRight", "End", "ArrowLeft")
    assert w.saved()["step"] == 6
    for name, step in (("Back", 5), ("Forward", 6), ("Forward", 7)):
        w.root.get_by_role("button", name=name).press("Enter")
        w.settle()
        assert w.saved()["step"] == step
    assert w.root.get_by_role("button", name="Forward").is_disabled()
    check(w)
    assert "“!”" in w.says
    w.press("Pass", "Home")
    w.saved()
    assert w.says.startswith("Pass 0, the prefill: both read the whole prompt, 9 characters at once.")
    assert "Of 81 scores, 36 are masked." in w.says
    check(w)
    w.press("Characters of the prompt", "Home")
    w.control("What is written (2 to 24 characters)").fill("to be")
    w.press("Pass", "ArrowRight")
    assert w.saved() == {"step": 1, "prompt": 1, "text": "to be"}
    assert w.says.startswith("Pass 1: “o” is new. Without a cache, the model reads 2 positions")
    check(w)
    w.control("What is written (2 to 24 characters)").fill("t")
    w.settle()
    assert w.get("text") == "to be"


def test_models_heads_lengths_and_numbers(mount):
    w = mount(CacheMovie())
    w.control("Count for").select_option(label="LLaMA-2 70B")
    w.control("float16").check()
    w.settle()
    saved = w.saved()
    assert saved == {"model": "llama-2-70b", "n_kv_heads": 8, "length": 4096, "bytes_per_number": 2}
    check(w)
    exact = cache_bytes(w.widget.config, 4096, bytes_per_number=2)
    assert exact == 1_342_177_280
    said = "At 4,096 positions the cache of LLaMA-2 70B, with 8 heads of keys and values, takes 1.34 GB"
    assert said in w.says
    assert "its weights take 138 GB." in w.says
    bars = w.root.locator(".gf-movie-counts .gf-panel-cell").nth(1).locator(".gf-movie-bar").all_inner_texts()
    assert [text.split("\n")[0] for text in bars] == [
        "MHA 64", "GQA 32", "GQA 16", "GQA 8", "GQA 4", "GQA 2", "MQA 1",
    ]  # fmt: skip
    assert w.root.locator(".gf-movie-chosen").inner_text().split("\n")[0] == "GQA 8"
    w.press("Heads of keys and values", "Home")
    w.press("Length of a text", "ArrowLeft")
    w.saved()
    assert (w.widget.n_kv_heads, w.widget.length) == (1, 2048)
    said = "At 2,048 positions the cache of LLaMA-2 70B, with 1 head of keys and values, takes 83.9 MB."
    assert said in w.says
    check(w)
    row = w.tables()[1][-1]
    assert row[:2] == ["4,096", f"{cache_bytes(w.widget.config, 4096, bytes_per_number=2):,}"]
    without, cached = (generation_work(w.widget.config, 1, 4095, cache=cache) for cache in (False, True))
    assert number(row[4].split(".")[0]) == int(without / cached)


def test_the_books_model_shows_what_was_measured_and_all_others_what_is_least(mount):
    w = mount(CacheMovie(measured=MEASURED))
    check(w)
    without = [2 + (9 + step) / 10 for step in range(8)]
    cached = [without[0], *(1 + (8 + step) / 100 for step in range(1, 8))]
    table = w.tables()[0]
    assert [row[7:] for row in table[1:]] == [
        [f"{a:.3g}", f"{b:.3g}"] for a, b in zip(without, cached, strict=True)
    ]
    lanes, counts = w.root.locator(".gf-movie-lanes").all()
    assert "fetched, 3.2 ms." in lanes.inner_text()
    assert "fetched, 1.1 ms." in lanes.inner_text()
    assert f"Time so far: {sum(without[:4]) / sum(cached[:4]):.2f} to 1" in counts.inner_text()
    assert "and it has taken 2.0 times as long." in w.says
    assumed = w.root.locator("p.gf-movie-now").last
    expect(assumed).to_contain_text("The times were measured with NumPy on a tortoise.")
    for change in ({"n_kv_heads": 2}, {"n_kv_heads": 4, "bytes_per_number": 2}, {"model": "gpt2"}):
        w.set(**change)
        assert "at least" in lanes.inner_text()
        assert "Least time so far" in counts.inner_text()
        assert "long" not in w.says
        expect(assumed).to_contain_text("The times are estimates.")
        check(w)
    least = [float(cell) for cell in w.tables()[0][4][7:]]  # pass 3, at which 12 positions have been read
    own = 2 * w.widget.config.parameter_count().total
    kept = cache_bytes(w.widget.config, 11, bytes_per_number=2)
    assert least == pytest.approx([own / 2e9, (own + kept) / 2e9], rel=0.005)


def test_it_plays_only_when_it_is_asked_to(mount):
    w = mount(CacheMovie(step=6))
    w.hold_beats()
    assert not w.beat()
    assert w.get("step") == 6
    play = w.root.get_by_role("button", name="Play")
    play.press("Enter")
    assert w.beat()
    assert w.get("step") == 7
    expect(play).to_have_count(1)  # the end
    assert not w.beat()
    play.press("Enter")
    assert w.get("step") == 0
    assert w.beat()
    assert w.beat()
    assert w.get("step") == 2
    w.root.get_by_role("button", name="Pause").press("Enter")
    assert not w.beat()
    assert w.get("step") == 2
    play.press("Enter")
    w.page.evaluate("window.mounted[0].cleanup()")
    assert not w.beat()
    assert w.get("step") == 2


# --- traits -----------------------------------------------------------------------------------------------


def test_another_model_begins_with_what_fits():
    widget = CacheMovie(model="gpt2", n_kv_heads=3)
    widget.model = "llama-3-8b"
    assert (widget.n_kv_heads, widget.length) == (8, 1024)
    widget.model = "shakespeare"
    assert (widget.n_kv_heads, widget.length) == (4, 128)
    assert lengths("shakespeare") == [16, 32, 64, 128]
    for name, step in itertools.product(MODELS, (0, 22)):
        assert CacheMovie(model=name, step=step).counts().kept > 0
