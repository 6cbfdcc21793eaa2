"""Tests every widget on every page, without a kernel: it starts, responds to keys, and shows what Python computes.

tests/widgets and tests/chapters check what each view draws in each state. Here, the same code comes from a stored
notebook and is run on the page by book/site/widget-host.js.
"""

import json
import re

import nbformat
import numpy as np
import pytest
from playwright.sync_api import expect

from glassformer import experiments, scratch, shipped, widgets
from glassformer.config import ModelConfig
from glassformer.generate import beam_search
from glassformer.inside import generation_work
from glassformer.inside.lens import logit_lens
from glassformer.published import published
from glassformer.text import BytePairTokenizer
from glassformer.trace import trace
from glassformer.widgets.kit.view import View
from glassformer.widgets.training_lab import landmarks
from tools import heights, notebooks


def stored_views():
    """Returns (page, place on the page, class, stored state) of every widget in a notebook."""
    for _, path in notebooks.pairs():
        if not path.exists():
            continue
        notebook = nbformat.read(path, as_version=4)
        models = notebook.metadata.get("widgets", {}).get(notebooks.WIDGET_STATE, {}).get("state", {})
        page = path.relative_to(notebooks.ROOT).with_suffix(".html").as_posix()
        views = [
            output.data[notebooks.WIDGET_VIEW]["model_id"]
            for cell in notebook.cells
            for output in cell.get("outputs", [])
            if notebooks.WIDGET_VIEW in output.get("data", {})
        ]
        for place, model in enumerate(views):
            state = models[model]["state"]
            yield page, place, state["_anywidget_id"].rpartition(".")[2], state


VIEWS = list(stored_views())
IDS = [f"{page}-{place}-{name}" for page, place, name, _ in VIEWS]


HOST, WAITING, MOUNTED = (
    f".widget-host{state}" for state in ("", "[data-state=waiting]", "[data-state=mounted]")
)


class Shown:
    """A widget on a page: what a reader can do with it, and what it then shows."""

    def __init__(self, visit, place):
        self.visit = visit
        self.root = visit.page.locator(HOST).nth(place)
        self.come_near()

    def come_near(self):
        self.root.scroll_into_view_if_needed()
        self.root.and_(self.visit.page.locator(MOUNTED)).wait_for()
        self.rest()

    def rest(self):
        self.visit.rest()

    def has_read(self):
        """Waits until the model has arrived and has read the text."""
        self.rest()
        expect(self.root.locator(".gf-says")).not_to_have_text(re.compile("Reading|Waiting for|Loading"))
        self.rest()

    def press(self, label, *keys):
        control = self.root.get_by_label(label, exact=True)
        control.focus()
        for key in keys:
            control.press(key)
        self.rest()

    @property
    def says(self):
        self.rest()
        return self.root.locator(".gf-says").inner_text()

    def seen(self):
        """Returns the drawing, its name and the sentence below, all of which should change."""
        drawing = self.root.locator(".gf-drawing")
        return drawing.inner_html(), drawing.get_attribute("aria-label"), self.says

    def table(self, number=0):
        details = self.root.locator("details.gf-details")
        if details.get_attribute("open") is None:
            details.locator("summary").press("Enter")
            self.root.locator(".gf-numbers table").first.wait_for()
        self.rest()
        read = "table => [...table.rows].slice(1).map(row => [...row.cells].map(cell => cell.textContent))"
        return self.root.locator(".gf-numbers table").nth(number).evaluate(read)


def number(text):
    return float(text.replace("−", "-").replace(",", "").replace("\N{THIN SPACE}", ""))


def column(table, index):
    return np.array([number(row[index]) for row in table])


# --- what each view must show after a few keys, computed in Python ---


def clock_hands(shown, state):
    for step in (1, 2, 3):
        shown.press("Position p", "ArrowRight")
        position = state["position"] + step
        expected = scratch.sinusoidal(np.array([position]), state["d_model"], base=state["base"])[0]
        assert shown.says.startswith(f"At position {position}, hand 0 has turned by {position:.2f} rad")
        np.testing.assert_allclose(column(shown.table(), 5), expected[0::2], atol=5.1e-5)
        np.testing.assert_allclose(column(shown.table(), 6), expected[1::2], atol=5.1e-5)


def position_heatmap(shown, state):
    for step in (1, 2):
        shown.press("Row", "ArrowRight")
        row = state["row"] + step
        expected = scratch.sinusoidal(np.array([row]), state["d_model"], base=state["base"])[0]
        assert re.search(rf"\b{row}\b", shown.says)
        np.testing.assert_allclose(column(shown.table(), 3), expected, atol=5.1e-5)


def rotation_plane(shown, state):
    def score(m, n):
        q, k = (
            state[f"{name}_length"]
            * np.array(
                [np.cos(np.radians(state[f"{name}_angle"])), np.sin(np.radians(state[f"{name}_angle"]))]
            )
            for name in ("query", "key")
        )
        turned = [
            scratch.rotate(vector[None], np.array([[position * state["theta"]]]))[0]
            for vector, position in ((q, m), (k, n))
        ]
        return turned[0] @ turned[1]

    m, n = state["query_position"], state["key_position"]
    for label, move in (
        ("Query’s position m", (1, 0)),
        ("Key’s position n", (0, 1)),
        ("Key’s position n", (0, 1)),
    ):
        shown.press(label, "ArrowRight")
        m, n = m + move[0], n + move[1]
        said = re.search(r"Query at (\d+), key at (\d+): distance (−?\d+).* Score (−?[\d.]+)\.", shown.says)
        assert [number(part) for part in said.groups()[:3]] == [m, n, m - n]
        assert number(said[4]) == pytest.approx(score(m, n), abs=5.1e-4)


def distance_bias(shown, state):
    if state["method"] == "t5":
        shown.press("Key", "ArrowLeft")
        relative = state["key"] - 1 - state["query"]
        bucket = scratch.t5_bucket(
            np.array([relative]),
            bidirectional=state["bidirectional"],
            n_buckets=state["n_buckets"],
            max_distance=state["max_distance"],
        )[0]
        assert f"bucket {bucket}" in shown.says
        return
    slopes = scratch.alibi_slopes(state["n_heads"])
    np.testing.assert_allclose(column(shown.table(), 2), slopes, atol=5.1e-7)
    for step in (1, 2):
        shown.press("Key", "ArrowLeft")
        back = state["query"] - state["key"] + step
        bias = -slopes[state["head"]] * back
        said = re.search(r"(\d+) positions before query (\d+)\. The bias of (−[\d.]+) ", shown.says)
        assert (int(said[1]), int(said[2])) == (back, state["query"])
        assert number(said[3]) == pytest.approx(bias, abs=5.1e-3)
    shown.press("Head", "ArrowRight")
    assert shown.says.startswith(f"Head {state['head'] + 1} (of heads 0 to {state['n_heads'] - 1}), slope")


def attention_calculator(shown, state):
    q = [list(row) for row in state["q"]]
    for mask, label in (("none", None), ("before", "−∞ before softmax"), ("after", "0 after softmax")):
        if label:
            shown.press(label, "Space")
        shown.press("query of horse, first number", "ArrowUp")
        q[4][0] = round(q[4][0] + 0.1, 2)
        expected = widgets.AttentionCalculator(q=q, mask=mask).computed()
        for place, (numbers, width) in enumerate(zip(expected, (5, 5, 2), strict=True)):
            seen = [
                [-np.inf if x == "−∞" else number(x) for x in row[1 : 1 + width]]
                for row in shown.table(place)
            ]
            np.testing.assert_allclose(seen, numbers, atol=5.1e-5)
        assert f"The query of “horse” is ({q[4][0]:.1f}, {q[4][1]:.1f})" in shown.says


def attention_explorer(shown, state):
    """Compares the stored picture, and then the one computed by the page's own model."""

    def weights(query, **traits):
        return widgets.AttentionExplorer(**traits).weights()[state["block"], state["head"], query]

    shown.root.locator(".gf-asks").press("ArrowLeft")
    shown.rest()
    query = state["query"] - 1
    seen = [0.0 if row[2] == "hidden" else number(row[2]) for row in shown.table()]
    np.testing.assert_allclose(seen, weights(query), atol=5.1e-3)
    text = "My horse,\nthe horse! and no kingdom for a horse"
    shown.root.get_by_label("Your text", exact=True).fill(text)
    shown.has_read()
    seen = [0.0 if row[2] == "hidden" else number(row[2]) for row in shown.table()]
    np.testing.assert_allclose(seen, weights(query, text=text), atol=6e-4)


def parameter_explorer(shown, state):
    shown.press("Blocks", "ArrowUp")
    fields = state["fields"] | {"n_layers": state["fields"]["n_layers"] + 1}
    count = ModelConfig(**fields).parameter_count()
    rows = shown.root.locator(".gf-part-row[data-part]:visible")
    told = {row.get_attribute("data-part"): row.locator(".gf-count-of").inner_text() for row in rows.all()}
    assert {part: number(text) for part, text in told.items()} == {
        part.name: part.count for part in count.parts
    }
    assert f"{count.total:,}" in shown.root.locator(".gf-sums").inner_text().replace("\N{THIN SPACE}", ",")
    assert f"{count[state['part']]:,}" in shown.says.replace("\N{THIN SPACE}", ",")


def shape_tracer(shown, state):
    shown.press("Heads H", "ArrowLeft")
    n_heads = int(shown.root.get_by_label("Heads H", exact=True).get_attribute("aria-valuetext"))
    config = ModelConfig(
        vocab_size=state["vocab_size"],
        context_length=state["length"],
        d_model=state["d_model"],
        n_layers=1,
        n_heads=n_heads,
        d_ff=state["d_ff"],
        feedforward="swiglu" if state["gated"] else "gelu",
    )
    with trace() as seen:
        scratch.Transformer(config, generator=None)(np.zeros(state["length"], dtype=int))
    assert n_heads < state["n_heads"]
    assert [row[2] for row in shown.table()] == [str(each.array.shape) for each in seen]
    assert [number(row[3]) for row in shown.table()] == [each.array.size for each in seen]
    assert str(seen[state["array"]].array.shape) in shown.says


def shuffle_sentence(shown, state):
    order = list(state["order"])
    settings = {name: state[name] for name in ("words", "positions", "causal", "layers")}
    for flip in (None, "Add sinusoidal positions", "Causal mask"):
        if flip:
            shown.press(flip, "Space")
            name = "causal" if flip == "Causal mask" else "positions"
            settings[name] = not settings[name]
        shown.root.locator("[aria-pressed]").first.press("ArrowRight")
        shown.rest()
        order[0], order[1] = order[1], order[0]
        words, vectors, change = widgets.ShuffleSentence(order=order, **settings).outputs()
        table = shown.table()
        assert [row[0] for row in table] == words
        np.testing.assert_allclose([[number(x) for x in row[1:-1]] for row in table], vectors, atol=5.1e-4)
        assert f"“{' '.join(words)}”" in shown.says or order == sorted(order)
        for row, moved in zip(table, change, strict=True):
            assert number(row[-1]) == pytest.approx(moved, abs=5.1e-3)


def glass_machine(shown, state):
    """After typing, the engine reads the text with weights that came from a script of the page."""
    model, tokenizer = shipped.load()
    text = "O Romeo, Rom"
    shown.root.get_by_label("Your text", exact=True).fill(text)
    shown.has_read()
    expected = scratch.softmax(logit_lens(model, tokenizer.encode(text)).astype(np.float64))[:, -1]
    np.testing.assert_allclose(column(shown.table(), 2), expected.max(axis=-1), atol=1.01e-4)
    shown.press("Position", "ArrowLeft")
    assert "position 10" in shown.says


def live_writer(shown, state):
    """Where readers prefer no motion, it waits for them; then it writes what was recorded, and reads their text."""
    for count in (1, 2):
        shown.root.get_by_role("button", name="One more", exact=True).press("Enter")
        shown.rest()
        paper = shown.root.locator(".gf-live-written")
        assert paper.text_content() == state["_stored"]["written"][:count]
    model, tokenizer = shipped.load()
    text = "O Romeo, Rom"
    shown.root.get_by_label("Your text", exact=True).fill(text)
    shown.has_read()
    assert paper.text_content() == ""
    shown.press("Temperature", "Home")
    expected = scratch.softmax(model(tokenizer.encode(text)[None])[0, -1].astype(np.float64))
    np.testing.assert_allclose(column(shown.table(), 1), np.sort(expected)[::-1], atol=1.01e-4)
    np.testing.assert_array_equal(column(shown.table(), 2), np.arange(len(expected)) == 0)


def beam_tree(shown, state):
    model, tokenizer = shipped.load()
    width = state["n_beams"] + 1
    shown.press("Beams", "ArrowRight")
    options = {"n_beams": width, "length_penalty": state["length_penalty"]}
    [(_, worth)] = beam_search(model, tokenizer.encode(state["text"]), state["n_new"], **options)
    told = re.match(rf"The search with {width} beams finds .+? \((−[\d.]+)", shown.says)[1]
    assert number(told) == pytest.approx(worth, abs=0.006)


def cache_movie(shown, state):
    step = state["step"] + 1
    shown.press("Pass", "ArrowRight")
    assert shown.says.startswith(f"Pass {step}: ")
    config = shipped.load()[0].config
    work = [generation_work(config, state["prompt"], step + 1, cache=cache) for cache in (False, True)]
    row = shown.table()[step]
    assert [number(cell) for cell in row[4:6]] == work
    read = state["prompt"] + step - 1  # the first number belongs to one position
    measured = [state["measured"][side][read] for side in ("without", "with")]
    assert [number(cell) for cell in row[7:]] == pytest.approx(measured, rel=0.005)


def fill_in(shown, state):
    """Uses the page's own two models: what both predict for a new line with one masked word."""
    text, word = "My lord, the king and his horse", range(13, 17)
    shown.root.get_by_role("button", name="Uncover all").press("Enter")
    shown.root.locator("textarea").fill(text)
    shown.root.locator(".gf-fill-letter").nth(word[0]).press(" ")
    shown.root.get_by_role("button", name="Cover a word").press("Enter")
    shown.root.locator(
        ".gf-says", has_text=re.compile(r"Of 4 covered .*, and the decoder, which sees")
    ).wait_for()
    shown.rest()
    encoder, tokenizer = shipped.load("masked")
    decoder, _ = shipped.load()
    ids = tokenizer.encode(text)
    covered = np.where(np.isin(np.arange(len(ids)), word), shipped.card("masked")["ids"]["mask"], ids)
    both = scratch.softmax(encoder(covered).astype(np.float64))
    left = scratch.softmax(decoder(tokenizer.encode("\n" + text)[:-1]).astype(np.float64))
    for side, p in ((6, both), (11, left)):
        expected = [-np.log(p[t, ids[t]]) for t in word]
        np.testing.assert_allclose(column(shown.table(), side), expected, atol=2e-3)


def sampling_lab(shown, state):
    model, tokenizer = shipped.load()
    shown.root.get_by_role("group", name="What is written; arrow keys choose a character").press("Home")
    shown.rest()
    p = scratch.softmax(model(tokenizer.encode(state["text"]))[-1].astype(np.float64))
    np.testing.assert_allclose(column(shown.table(), 1), np.sort(p)[::-1], rtol=0, atol=1e-3)


def parameter_bars(shown, state):
    shown.root.get_by_label("sizes", exact=True).press("Space")
    shown.rest()
    small, large = (published(state[name]) for name in ("model", "scale"))
    much = large.n_parameters / small.n_parameters
    assert f"{state['model']}: {much:,.0f} of it would fill the frame." in shown.says
    told = {row[0]: number(row[3]) for row in shown.table()}
    assert told.pop("total") == small.n_parameters
    assert told == {part.name: part.count for part in small.config.parameter_count().parts}


def config_reader(shown, state):
    shown.root.get_by_role("button", name="gpt2", exact=True).press("Enter")
    shown.rest()
    count = published("gpt2").config.parameter_count()
    told = {row[0]: number(row[4]) for row in shown.table(1)}
    assert told.pop("total") == count.total
    assert told == {part.name: part.count for part in count.parts}


def date_translator(shown, state):
    """Uses a date that is not stored and that the page's model gets wrong, and the attention of one character."""
    text, t = "2099, oct 15", state["position"]
    shown.root.get_by_label("A date", exact=True).fill(text)
    shown.root.locator(".gf-translator-verdict", has_text="2099-05-15").wait_for()
    shown.rest()
    wanted = widgets.DateTranslator(text=text).translation()
    weights = wanted.weights[state["block"], state["head"], t]
    np.testing.assert_allclose(column(shown.table(), 2), weights, atol=2e-3)
    likely = np.sort(wanted.probabilities[t])[::-1]
    np.testing.assert_allclose(column(shown.table(1), 1), likely, atol=2e-3)


def quiz(shown, state):
    for place, question in enumerate(state["questions"]):
        card = shown.root.locator("fieldset").nth(place)
        inputs, feedback = card.locator("input"), card.locator(".gf-feedback")
        assert feedback.inner_text().strip() == ""
        for choice, option in enumerate(question["options"]):
            inputs.nth(choice).press("Space")
            if question.get("multiple"):
                card.get_by_role("button").press("Enter")
            shown.rest()
            told = feedback.inner_text()
            plain = re.sub(r"[`*$\\{}]", "", option["why"])
            assert plain.split()[0] in told
            assert ("Right" in told) or ("No." in told)
            if not question.get("multiple"):
                assert ("Right" in told) == bool(option.get("correct"))
    shown.root.get_by_role("button", name="Start again").press("Enter")
    shown.root.get_by_role("button", name="Forget my answers").press("Enter")
    expect(shown.root.locator(".gf-feedback")).to_have_text([""] * len(state["questions"]))


def predict(shown, state):
    """Asks to be shown without an answer: the fold opens, and what came out is in the sentence or in the drawing."""
    fold = shown.visit.page.locator(f"details.fold[data-predict='{state['chapter']}/{state['name']}']")
    expect(fold).not_to_have_attribute("open", "")
    shown.root.get_by_role("button", name="Show", exact=True).press("Enter")
    expect(shown.root.locator(".gf-plea")).to_contain_text("A guess is enough")
    expect(fold).not_to_have_attribute("open", "")
    shown.root.get_by_role("button", name="Just show me").press("Enter")
    expect(shown.root.locator(".gf-says")).to_be_focused()
    expect(fold).to_have_attribute("open", "")
    if state["answer"]:
        expect(shown.root.locator(".gf-panel:not(.gf-away) .gf-came")).to_have_count(1)
    shown.root.get_by_role("button", name="Forget my answer").press("Enter")
    expect(fold).not_to_have_attribute("open", "")


def real_tokens(shown, state):
    """An example needs no file; a text of the reader's is cut with the vocabularies, which the page has."""
    shown.root.get_by_role("button", name="strawberry").press("Enter")
    shown.rest()
    assert "18 tokens for GPT-2 and 18 tokens for gpt-oss" in shown.says
    shown.root.get_by_label("Your text", exact=True).fill("Hello world")
    shown.rest()
    assert (
        shown.says == "Your text has 11 characters. That makes 2 tokens for GPT-2 and 2 tokens for gpt-oss."
    )
    assert [row[2] for row in shown.table(0)] == ["15496", "995"]
    assert [row[2] for row in shown.table(1)] == ["13225", "2375"]


def character_map(shown, state):
    model, tokenizer = shipped.load()
    rows = model.token_embedding.weight.astype(np.float64)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    place = tokenizer.characters.index(state["character"])
    for step in (1, 2):
        shown.press("Character", "ArrowDown")
        cosines = np.delete(rows @ rows[place + step], place + step)
        assert shown.says.startswith(
            f"In the embedding, the nearest to “{tokenizer.characters[place + step]}” is "
        )
        np.testing.assert_allclose(column(shown.table(), 2), [1, *sorted(cosines)[::-1]], atol=6e-4)


def byte_pair_stepper(shown, state):
    for merges in (1, 2, 3):
        shown.root.get_by_role("button", name="Merge").press("Enter")
        shown.rest()
        tokenizer = BytePairTokenizer.from_text(state[state["learn_from"]], 256 + merges)
        tokens = [tokenizer.decode([i]) for i in tokenizer.encode(state["text"]).tolist()]
        assert f"{len(tokens)} tokens" in shown.says
        assert shown.says.startswith(f"Merge {merges}: ")
        assert [row[1].replace("␣", " ") for row in shown.table(1)] == tokens
    shown.root.get_by_role("button", name="Back").press("Enter")
    shown.rest()
    assert shown.says.startswith("Merge 2: ")


def depth_explorer(shown, state):
    shown.press("Gain of the matrices", "ArrowRight", "ArrowRight")
    shown.press("Layers", "Home", "ArrowRight")
    gain = round(state["gain"] + 0.1, 2)
    assert shown.says.startswith(f"Through 3 layers at gain {gain:.2f}.")
    sizes = widgets.DepthExplorer(depth=3, gain=gain, seed=state["seed"]).computed()
    expected = [
        np.median(getattr(sizes[way], quantity), axis=0)
        for quantity in ("signal", "gradient")
        for way in ("plain", "residual", "norms")
    ]
    table = shown.table()
    np.testing.assert_allclose([column(table, i + 1) for i in range(6)], expected, rtol=6e-4)


def logit_lens_view(shown, state):
    """Compares the stored picture, and then the one computed by the page's own model."""
    model, tokenizer = shipped.load()

    def losses(text, position):
        ids = tokenizer.encode(text)
        views = scratch.softmax(logit_lens(model, ids).astype(np.float64))
        return -np.log(views[:, position, ids[position + 1]])

    position = state["position"] - 1
    shown.press("Position", "ArrowLeft")
    np.testing.assert_allclose(column(shown.table(), 11), losses(state["text"], position), atol=2e-3)
    text = "My lord, the king and his horse"
    shown.root.locator("textarea").fill(text)
    shown.has_read()
    np.testing.assert_allclose(column(shown.table(), 11), losses(text, position), atol=2e-3)


def norm_comparer(shown, state):
    shown.press("ε", "ArrowRight")
    shown.root.get_by_role("button", name="Nearly equal", exact=True).press("Enter")
    shown.rest()
    table = shown.table()
    vector = column(table, 1)
    assert np.ptp(vector) < 0.01
    expected = widgets.NormComparer(x=vector.tolist(), eps=10 * state["eps"]).computed()
    np.testing.assert_allclose([column(table, i + 2) for i in range(4)], [*expected.values()], atol=5.1e-6)


def norm_placement_explorer(shown, state):
    if state["view"] == "gradients":
        shown.press("Blocks, untrained", "Home")
        assert shown.says.startswith("2 blocks before any training,")
        found = [
            run.found["2"]["gradient"]
            for placement in ("pre", "post")
            for run in experiments.stored("norm_gradients", placement=placement, init=state["init"])
        ]
        np.testing.assert_allclose(
            [column(shown.table(), i + 1) for i in range(len(found))], found, rtol=6e-3
        )
        return
    shown.press("Blocks", "Home")
    shown.press("Learning rate", "End")
    assert shown.says.startswith("2 blocks, learning rate 0.01,")
    [row] = [row for row in shown.table() if row[:2] == ["2", "0.01"]]
    at = {"n_layers": 2, "learning_rate": 0.01, "warmup": 0}
    expected = [
        run.found["validation_loss"]
        for placement in ("pre", "post")
        for run in experiments.stored("norm_placement", placement=placement, **at)
    ]
    np.testing.assert_allclose([number(cell) for cell in row[2:]], expected, atol=6e-4)


def activation_explorer(shown, state):
    for step in (1, 2):
        shown.press("x", "ArrowRight")
        x = round(state["x"] + step * 0.05, 2)
        now = widgets.ActivationExplorer(x=x).activated()
        [row] = [row for row in shown.table() if abs(number(row[0]) - x) < 1e-9]
        names = ("relu", "gelu", "gelu_tanh", "silu")
        np.testing.assert_allclose(
            [number(cell) for cell in row[1::2]], [now.values[n] for n in names], atol=5.1e-6
        )
        np.testing.assert_allclose(
            [number(cell) for cell in row[2::2]], [now.slopes[n] for n in names], atol=5.1e-6
        )


def neuron_explorer(shown, state):
    """The table of all neurons and the model come from files next to the page."""
    neuron = state["neuron"] + 1
    shown.press("Neuron (0 to 343)", "ArrowUp")
    shown.has_read()
    assert shown.says.startswith(f"Block {state['block']}, neuron {neuron}: in a million characters")
    expected = widgets.NeuronExplorer(block=state["block"], neuron=neuron).values()
    np.testing.assert_allclose(column(shown.table(1), 2), expected, atol=6e-3)


def ablation_board(shown, state):
    """Parts are switched by keyboard; the weights come from a file next to the page."""
    off = ["block 0: head 1", "block 3: feed-forward"]
    for part in off:
        shown.root.locator(f".gf-board input[aria-label^='{part},']").press("Space")
    shown.rest()
    for result in shown.root.locator(".gf-result-of strong, .gf-written").all():
        expect(result).not_to_contain_text("…")
    shown.rest()
    board = widgets.AblationBoard()
    expected = [[board.losses(some)[text] for some in (off, [])] for text in ("validation", "text")]
    seen = [[number(cell) for cell in row[1:3]] for row in shown.table()]
    np.testing.assert_allclose(seen, expected, atol=2e-4)
    texts = shown.root.locator(".gf-written span:last-child").all_text_contents()
    assert texts == [board.writes(off), board.writes([])]


def nudge_explorer(shown, state):
    shown.press("Move this one by", "ArrowRight", "ArrowRight")
    shown.press("h of the finite difference", "ArrowRight")
    right = widgets.NudgeExplorer(by=round(state["by"] + 0.1, 2), h=state["h"] / 10).computed()
    rows = shown.root.locator(".gf-readout tr").evaluate_all(
        "rows => rows.map(row => [...row.cells].map(cell => cell.textContent))"
    )
    seen = {label: value for label, value in rows}
    names = {
        "loss now": right.moved,
        "slope, backward pass": right.slope,
        "slope, finite difference": right.measured,
        "fell by": right.dropped,
    }
    np.testing.assert_allclose([number(seen[name]) for name in names], list(names.values()), atol=5.1e-7)


def head_gradients(shown, state):
    """Tables come in pairs of values and gradients: those of queries are the second pair, of scores the fourth."""
    shown.press("Causal mask", "Space")
    shown.press("key of “horse”, number 1", "ArrowUp")
    k = [list(row) for row in state["k"]]
    k[2][1] = round(k[2][1] + 0.1, 2)
    right = widgets.HeadGradients(mask=not state["mask"], k=k).computed()
    for place, gradient in ((1, right.grad_q), (3, right.grad_scores)):
        seen = [[number(cell) for cell in row[1:]] for row in shown.table(place)]
        np.testing.assert_allclose(seen, gradient, atol=5.1e-5)


def loss_watcher(shown, state):
    """Looks back at the stored run, which is shown to its end, from its first step onwards."""
    assert shown.says.startswith(f"After {state['points'][-1][0]} steps, ")
    shown.press("Step", "Home", "ArrowRight", "ArrowRight")
    step, *_ = state["points"][2]
    mean = np.mean([loss for _, loss, *_ in state["points"][:3]])
    assert shown.says.startswith(
        f"After {step} steps, {step * state['per_step']:,} characters read: loss {mean:.2f}"
    )
    landmarks = sorted(state["landmarks"].values(), reverse=True)
    np.testing.assert_allclose(column(shown.table(), 1), landmarks, atol=5.1e-5)


def schedule_designer(shown, state):
    shown.press("Warm-up", "ArrowRight", "ArrowRight")
    shown.press("linear", "Space")
    given = {name: state[name] for name in ("peak", "final_share", "steps")}
    rates = widgets.ScheduleDesigner(**given, warmup=40, decay="linear").rates()
    rows = shown.table()
    right = [rates[int(number(row[0]))] for row in rows]
    np.testing.assert_allclose(column(rows, 2), right, rtol=6e-4)


def training_lab(shown, state):
    """It trains on the page itself, with the text from scripts, and pauses."""
    shown.root.get_by_role("button", name="Start training").press("Enter")
    step = shown.root.locator(".gf-lab-facts dd").first
    expect(step).to_have_text(re.compile(r"^[1-9]\d* of 1,500$"))
    shown.root.get_by_role("button", name="Pause").press("Enter")
    expect(shown.root.locator(".gf-says")).to_have_text(re.compile("^Paused after"))
    np.testing.assert_allclose(column(shown.table(), 1), list(landmarks().values()), atol=5.1e-5)


def wiring_switcher(shown, state):
    for family, label in (("encoder", "Encoder"), ("encoder-decoder", "Encoder–decoder")):
        shown.press(label, "Space")
        texts = {name: state[name] for name in ("text", "source", "prefix", "padding")}
        masks = widgets.WiringSwitcher(family=family, **texts).masks()
        table = shown.table()
        assert column(table, 3).tolist() == [mask.sum() for mask in masks.values()]
        assert column(table, 4).tolist() == [mask.size for mask in masks.values()]


def diagnose_it(shown, state):
    patients = [patient["bug"] for patient in state["_patients"]]
    order = shown.root.get_by_role("button", name=re.compile(r"cost \d: Change the last character"))
    order.press("Enter")
    shown.rest()
    [leak] = experiments.stored("clinic", bug=patients[0], seed=0)
    assert order.locator("xpath=..").locator(".gf-yes").count() == leak.found["passed"]["future"]
    shown.root.get_by_role("button", name="Next patient").press("Enter")
    shown.rest()
    assert shown.says.startswith(f"Patient 2 of {len(patients)}, not answered")
    for seed in (0, 1):
        [run] = experiments.stored("pitfalls", bug=patients[1], seed=seed)
        np.testing.assert_allclose(column(shown.table(), 1 + seed), run.found["loss"], rtol=0, atol=6e-4)


CHECKS = {
    "AblationBoard": ablation_board,
    "ActivationExplorer": activation_explorer,
    "AttentionCalculator": attention_calculator,
    "AttentionExplorer": attention_explorer,
    "BeamTree": beam_tree,
    "BytePairStepper": byte_pair_stepper,
    "CacheMovie": cache_movie,
    "CharacterMap": character_map,
    "ClockHands": clock_hands,
    "ConfigReader": config_reader,
    "DateTranslator": date_translator,
    "DepthExplorer": depth_explorer,
    "DiagnoseIt": diagnose_it,
    "DistanceBias": distance_bias,
    "FillIn": fill_in,
    "GlassMachine": glass_machine,
    "HeadGradients": head_gradients,
    "LiveWriter": live_writer,
    "LogitLens": logit_lens_view,
    "LossWatcher": loss_watcher,
    "NeuronExplorer": neuron_explorer,
    "NormComparer": norm_comparer,
    "NormPlacementExplorer": norm_placement_explorer,
    "NudgeExplorer": nudge_explorer,
    "ParameterBars": parameter_bars,
    "ParameterExplorer": parameter_explorer,
    "PositionHeatmap": position_heatmap,
    "Predict": predict,
    "Quiz": quiz,
    "RealTokens": real_tokens,
    "RotationPlane": rotation_plane,
    "SamplingLab": sampling_lab,
    "ScheduleDesigner": schedule_designer,
    "ShapeTracer": shape_tracer,
    "ShuffleSentence": shuffle_sentence,
    "TrainingLab": training_lab,
    "WiringSwitcher": wiring_switcher,
}


def test_every_widget_of_the_package_is_on_a_page_and_checked_here():
    exported = {name for name in widgets.__all__ if issubclass(getattr(widgets, name), View)}
    assert set(CHECKS) == exported, "add to CHECKS"
    assert {name for _, _, name, _ in VIEWS} == exported, "show it in a notebook"


# Opens the folds around a place, such as the one below a prediction.
UNFOLD = """host => {
  for (let fold = host; fold; fold = fold.parentElement) if (fold.tagName === "DETAILS") fold.open = true;
}"""


# Opened from disk, where less is allowed; over http every view is drawn in test_pages.py.
@pytest.mark.parametrize(("page", "place", "name", "state"), VIEWS, ids=IDS)
def test_it_answers_the_keyboard_with_what_python_computes(stay, page, place, name, state):
    arrived = stay(page, door="file")
    arrived.page.locator(HOST).nth(place).evaluate(UNFOLD)
    shown = Shown(arrived, place)
    expect(shown.root.locator(".gf-widget")).to_have_count(1)
    json.dumps(state)
    if name in ("Predict", "Quiz"):
        CHECKS[name](shown, state)
    else:
        before = shown.seen()
        CHECKS[name](shown, state)
        for part, (then, now) in enumerate(zip(before, shown.seen(), strict=True)):
            assert then != now, ("drawing", "aria-label", "sentence")[part]
    assert shown.visit.elsewhere() == []
    assert shown.visit.complaints == []


# --- when a view is drawn ---

PAGES = sorted({page for page, _, _, _ in VIEWS})
LONGEST = max(PAGES, key=lambda page: sum(1 for other, *_ in VIEWS if other == page))


def states(arrived):
    return arrived.page.locator(HOST).evaluate_all("hosts => hosts.map((host) => host.dataset.state)")


# The views' code is fetched when the page has nothing else to do.
KEEP_WHAT_IS_IDLE = """window.whenIdle = [];
window.requestIdleCallback = (act) => setTimeout(() => window.whenIdle.push(act()));"""


def prepared(visit):
    """The page, when the code of all views is there."""
    arrived = visit(LONGEST, script=KEEP_WHAT_IS_IDLE)
    arrived.page.wait_for_function("n => whenIdle.length >= n", arg=arrived.page.locator(HOST).count())
    arrived.page.evaluate("() => Promise.all(whenIdle)")
    arrived.page.wait_for_function(  # what can be seen is drawn first, and a moment later what may soon be seen
        """waiting => [...document.querySelectorAll(waiting)].every(
          (host) => host.getBoundingClientRect().top > 2 * innerHeight)""",
        arg=WAITING,
    )
    arrived.settle()
    return arrived


def test_a_view_is_drawn_when_it_comes_near_and_not_before(visit):
    arrived = prepared(visit)
    hosts = arrived.page.locator(HOST)
    screens = hosts.evaluate_all(
        "hosts => hosts.map((host) => host.getBoundingClientRect().top / innerHeight)"
    )
    assert states(arrived) == ["mounted" if away <= 2 else "waiting" for away in screens]
    assert "waiting" in states(arrived)
    assert arrived.page.locator(WAITING).evaluate_all("hosts => hosts.every((host) => !host.firstChild)")
    arrived.page.evaluate("y => scrollBy(0, (y - 1.9) * innerHeight)", screens[-1])
    hosts.last.and_(arrived.page.locator(MOUNTED)).wait_for()
    assert not 0 < hosts.last.evaluate("host => host.getBoundingClientRect().top / innerHeight") < 1


def test_a_link_leads_to_a_view_that_is_drawn(visit):
    arrived = visit(LONGEST)
    last = arrived.page.locator(HOST).last
    last.evaluate("host => (location.hash = host.closest('section[id]').id)")
    last.and_(arrived.page.locator(MOUNTED)).wait_for()


def test_a_view_in_a_fold_is_drawn_when_the_fold_is_opened(visit):
    arrived = visit(LONGEST)
    arrived.page.evaluate(
        """() => {
          const fold = document.createElement("details");
          fold.append([...document.querySelectorAll(".widget-host")].at(-1));
          document.querySelector("article h1").after(fold);
        }"""
    )
    arrived.settle()
    host = arrived.page.locator("article h1 + details > .widget-host")
    expect(host).to_have_attribute("data-state", "waiting")
    arrived.page.evaluate("() => (document.querySelector('article h1 + details').open = true)")
    host.and_(arrived.page.locator(MOUNTED)).wait_for()


def test_the_keyboard_arrives_at_a_view_however_far(visit):
    arrived = visit(LONGEST)
    last = arrived.page.locator(HOST).last
    last.focus()
    last.and_(arrived.page.locator(MOUNTED)).wait_for()
    expect(last).to_be_focused()
    arrived.page.keyboard.press("Tab")
    expect(last.locator(".gf-widget :focus")).to_have_count(1)


def test_what_is_printed_is_drawn(visit):
    arrived = prepared(visit)
    assert "waiting" in states(arrived)
    arrived.page.evaluate(
        """() => addEventListener("afterprint", () => {
          window.printed = document.querySelectorAll(".widget-host > .gf-widget").length;
        })"""
    )
    arrived.page.pdf()
    arrived.page.wait_for_function("window.printed !== undefined")
    assert arrived.page.evaluate("printed") == arrived.page.locator(HOST).count()


def test_where_nearness_cannot_be_observed_all_views_are_drawn_at_once(visit):
    arrived = visit(LONGEST, script="delete window.IntersectionObserver")
    arrived.page.wait_for_function(f"document.querySelector('{WAITING}') === null")
    assert set(states(arrived)) == {"mounted"}


@pytest.mark.parametrize("width", [1280, 390])
def test_the_height_reserved_for_a_view_is_the_one_measured_in_such_a_column(visit, width):
    arrived = visit(LONGEST, width=width)
    waiting = arrived.page.locator(WAITING).filter(has_not=arrived.page.locator("*")).all()
    called = [
        " ".join(filter(None, [name, state.get("chapter"), state.get("chapter") and state.get("name")]))
        for page, _, name, state in VIEWS
        if page == LONGEST
    ]
    reserved = [host.bounding_box()["height"] for host in waiting]
    size = arrived.page.evaluate("parseFloat(getComputedStyle(document.documentElement).fontSize)")
    arrived.open_everything()
    taken = arrived.page.locator(HOST).evaluate_all("hosts => hosts.map((host) => host.offsetHeight)")
    last = slice(-len(waiting), None)
    found = dict(zip(called[last], zip(reserved, taken[last], strict=True), strict=True))
    assert len(found) > 2
    known = heights.read()
    column = known.columns[str(size)].index(heights.COLUMNS[width])
    for name, (before, after) in found.items():
        assert before == known.views[name][str(size)][column], name
        assert before == pytest.approx(after, rel=0.08), name  # the page may show other settings
