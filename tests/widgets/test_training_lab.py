"""Tests the view in which a GPT learns: from a tiny model on a text of its own, in a worker and on the page."""

import re

import numpy as np
import pytest
from linking import link
from playwright.sync_api import expect
from safetensors import safe_open

from glassformer import model_files
from glassformer.checkpoints import model_of
from glassformer.experiments.recipes import rung
from glassformer.scratch import cross_entropy
from glassformer.text import corpus
from glassformer.train.recipe import Recipe
from glassformer.widgets import SamplingLab, TrainingLab
from glassformer.widgets.training_lab import BREAKS, RUNG, SMALL, landmarks
from tools.assets import training_lab
from tools.shared import chapter_facts, views

LINES = "\n".join(f"{n} bottles of {what} on the wall." for n in range(160) for what in ("milk", "ink"))
STEPS = 12
TINY = {"size": "own", "d_model": 32, "n_layers": 1, "steps": STEPS}
OWN = {**TINY, "source": "own", "text": LINES}
NUMBER = r"−?\d[\d,]*\.?\d*"
DONE = re.compile(r"^The loss over the whole held-out text is")


PASTE = """(field, text) => {
  field.select();
  const clipboardData = new DataTransfer();
  clipboardData.setData("text/plain", text);
  field.dispatchEvent(new ClipboardEvent("paste", { clipboardData, cancelable: true, bubbles: true }));
}"""


def number_of(said):
    """Returns the number that a reader sees, such as 1,500 or −1.25 × 10⁻³."""
    digits = str.maketrans("−⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "--0123456789", ",")
    return float(said.translate(digits).replace(" × 10", "e"))


class Lab:
    """The mounted view, by what its reader sees."""

    def __init__(self, view):
        self.view = view
        self.root = view.root

    def button(self, name):
        return self.root.get_by_role("button", name=name, exact=True)

    def start(self):
        self.button("Start training").press("Enter")

    @property
    def line(self):
        return self.root.locator(".gf-says")

    def paste(self, text):
        """Replaces the reader's text as from the clipboard."""
        self.view.control("Your text: paste it here").evaluate(PASTE, text)

    def ends(self):
        """Waits until the whole held-out text is judged."""
        expect(self.line).to_have_text(DONE)

    def nudge(self):
        self.button("Nudge it").press("Enter")
        expect(self.root.locator(".gf-weight-slopes tr")).to_have_count(5)

    def saved(self, folder):
        """Saves the model, and returns its suggested name and what Python reads of it."""
        with self.view.page.expect_download() as download:
            self.button("Save my model").press("Enter")
        download.value.save_as(folder / "mine.safetensors")
        return download.value.suggested_filename, model_files.load(folder / "mine.safetensors")

    def fact(self, name):
        return self.root.locator(f'.gf-lab-facts dt:text-is("{name}") + dd')

    def pauses_at(self, step):
        expect(self.fact("Step")).to_have_text(re.compile(f"^{step} of"))

    def begins_anew(self):
        """Discards a model that is not saved, which takes a second press."""
        self.button("New training").press("Enter")
        expect(self.line).to_contain_text("a new training discards it")
        self.button("Discard the model").press("Enter")

    def losses(self):
        """Returns the mean losses and those of the held-out text, at every checkpoint."""
        _, during, _ = self.view.tables()
        return [row[1:] for row in during[1:]]

    def nudged(self):
        cells = self.root.locator(".gf-weight-slopes tr").evaluate_all(
            "rows => rows.map((row) => [...row.cells].map((cell) => cell.textContent))"
        )
        return {label: number_of(number) for label, number in cells}


@pytest.fixture
def lab(mount):
    """Provides lab(**traits) -> Lab, or lab(trained=True): one that has learned the reader's text."""

    def lab(*, trained=False, **traits):
        shown = Lab(mount(TrainingLab(**(OWN if trained else {}) | traits)))
        if trained:
            shown.start()
            shown.ends()
        return shown

    return lab


# --- before ---


def test_it_is_there_before_anything_is_loaded(lab):
    shown = lab()
    assert shown.view.says.startswith("This GPT begins with random weights. At each step")
    names = shown.root.locator(".gf-curve-name").all_text_contents()
    assert names == [
        f"{name} {loss:.2f}"
        for name, loss in zip(
            ("knowing nothing", "character frequencies", "pairs of characters"),
            landmarks().values(),
            strict=True,
        )
    ]
    assert shown.view.page.evaluate("window.asked") is None
    assert "Nothing leaves it: neither the text nor the model." in shown.root.inner_text()


def test_the_landmarks_are_those_of_the_text_that_is_learned(browser):
    page = link(browser.new_page(), "learned_text")
    learned = (
        "(text) => drained(drained(js.LearnedText.of(text, { length: 64, rows: 12, seed: 0 })).landmarks())"
    )
    assert page.evaluate(learned, corpus()) == pytest.approx(landmarks(), abs=1e-9)
    page.close()


def test_the_runs_in_pytorch_are_those_of_the_same_recipe_and_size():
    assert rung(RUNG).training == Recipe.of_the_book("modern").training
    assert rung(RUNG).model == Recipe.of_the_book("modern").model
    assert len(TrainingLab()._pytorch) > 1


def test_a_guess_is_made_by_keyboard_and_by_pointer(lab):
    shown = lab()
    shown.view.press("I think the loss on the held-out text will end at", "ArrowLeft", "ArrowLeft")
    assert shown.view.saved()["guess"] == 4.45
    expect(shown.root.locator(".gf-curve-guess")).to_have_count(1)
    chart = shown.root.locator(".gf-curve")
    box = chart.bounding_box()
    chart.click(position={"x": box["width"] / 2, "y": box["height"] * 131 / 290})  # halfway between 1 and 5
    assert shown.view.get("guess") == 3
    expect(shown.root.locator(".gf-curve")).to_contain_text("your guess 3.00")


def test_a_text_that_is_too_short_is_asked_for_before_anything_begins(lab):
    shown = lab(**{**OWN, "text": ""})
    field = shown.view.control("Your text: paste it here")
    count = shown.root.locator(".gf-control .gf-hint")
    for length, begins in (
        (0, "The model needs at least 8,970, "),
        (8969, "8,969 characters so far; the model needs"),
    ):
        shown.paste(("ab" * length)[:length])
        expect(count).to_contain_text(begins)
        shown.start()
        expect(field).to_be_focused()
        assert shown.view.says.startswith("This GPT begins")
    shown.paste(LINES)
    expect(count).to_contain_text(f"{len(LINES):,} characters")
    assert shown.view.saved()["text"] == LINES


STRANGE = [
    ("é à la carte ".encode("latin-1"), "x.txt is not in UTF-8: byte 0 is 0xe9. If it is text in another"),
    (b"abc\xe2\x82", "x.txt is not in UTF-8: byte 3 is 0xe2."),  # half a character
    (b"abc\0def", "x.txt is not text: byte 3 is 0."),
    ("abc".encode("utf-16"), "x.txt is in UTF-16, as its first two bytes show: save it in UTF-8."),
]


def test_a_file_that_is_no_text_is_refused_and_the_text_stays(lab):
    shown = lab(**OWN)
    count = shown.root.locator(".gf-control .gf-hint")
    for content, words in STRANGE:
        shown.view.control("or open a file of plain text").set_input_files(
            {"name": "x.txt", "mimeType": "text/plain", "buffer": content}
        )
        expect(count).to_contain_text(words)
        expect(count).to_contain_text(f"Your text stays as it was: {len(LINES):,} characters")
        assert shown.view.control("Your text: paste it here").input_value() == LINES


def test_a_text_that_is_too_long_is_refused_before_it_is_read(lab):
    shown = lab(**{**OWN, "text": ""})
    count = shown.root.locator(".gf-control .gf-hint")
    choose = shown.view.control("or open a file of plain text")
    choose.evaluate("""(input) => {
      const file = new File([new Uint8Array(6_000_000)], "x.txt");
      file.arrayBuffer = () => { throw new Error("it is read") };
      Object.defineProperty(input, "files", { value: [file] });
      input.dispatchEvent(new Event("change"));
    }""")
    expect(count).to_have_text("x.txt has 5.7 MB, more than the 4.8 MB that this page opens.")
    field = shown.view.control("Your text: paste it here")
    field.evaluate(f"(field) => ({PASTE})(field, 'ab'.repeat(2_500_001))")
    expect(count).to_have_text(
        "That text has 5,000,002 characters, more than the 5,000,000 that this page learns from."
    )
    assert field.input_value() == ""
    field.fill("a")
    expect(count).to_contain_text("1 character so far; the model needs at least")


def test_halves_of_characters_are_replaced_before_a_training(lab, tmp_path):
    shown = lab(**{**OWN, "text": ""})
    shown.view.control("Your text: paste it here").evaluate("""(field) => {
      field.value = "a\\ud83db\\udc00 🎵".repeat(2000);
      field.dispatchEvent(new Event("input"));
    }""")
    expect(shown.root.locator(".gf-control .gf-hint")).to_have_text("12,000 characters, 5 different ones")
    shown.start()
    shown.ends()
    _, model = shown.saved(tmp_path)
    assert model.tokenizer.characters == " ab�🎵"


def test_a_text_that_cannot_be_learned_is_refused(lab):
    problem = "The text consists of a single character, so there is nothing to learn."
    shown = lab(**{**OWN, "text": "a" * 9000})
    shown.start()
    expect(shown.line).to_have_text(problem)
    expect(shown.button("Start training")).to_be_focused()
    shown.view.press("Seed", "ArrowRight")
    assert shown.view.says.startswith("This GPT begins")
    shown.start()
    expect(shown.line).to_have_text(problem)
    shown.paste(5 * LINES)  # too long to be stored, so no trait changes
    assert shown.view.says.startswith("This GPT begins")


def test_a_long_text_is_learned_but_not_stored(lab):
    shown = lab(**OWN)
    shown.view.control("or open a file of plain text").set_input_files(
        {"name": "long.txt", "mimeType": "text/plain", "buffer": (20 * LINES).encode()}
    )
    count = shown.root.locator(".gf-control .gf-hint")
    expect(count).to_contain_text(f"{20 * len(LINES):,} characters")
    assert shown.view.saved()["text"] == ""
    shown.start()
    shown.pauses_at(STEPS)


# --- training ---


def test_it_learns_and_says_how_it_ended(lab):
    shown = lab(**OWN, guess=2.0)
    shown.start()
    expect(shown.button("Pause")).to_be_focused()
    shown.ends()
    loss = float(re.search(NUMBER, shown.view.says)[0])
    assert f"You guessed 2.00: the model did worse than you thought, by {loss - 2:.2f}." in shown.view.says
    rows = shown.root.locator(".gf-lab-result tr").all_inner_texts()
    values = [float(row.split("\t")[1]) for row in rows]
    assert values == sorted(values, reverse=True)
    assert [row.split("\t")[0] for row in rows if row.startswith("your")] == ["your model", "your guess"]
    assert shown.losses()[0][0] == "–"
    means = [float(mean) for mean, _ in shown.losses()[1:]]
    assert means[-1] < np.log(len(set(LINES))) - 0.3  # it has learned something
    expect(shown.root.locator(".gf-lab-paper")).not_to_have_text("Nothing yet.")
    expect(shown.fact("Characters read")).to_have_text(f"{STEPS * 12 * 64:,}")
    for name in ("Go on", "One step"):
        expect(shown.button(name)).to_have_attribute("aria-disabled", "true")


def test_two_trainings_with_one_seed_are_the_same_and_another_seed_is_not(lab):
    found = []
    for seed in (0, 0, 1):
        shown = lab(**OWN, seed=seed)
        shown.start()
        shown.ends()
        found.append(shown.losses())
    assert found[0] == found[1] != found[2]


def test_it_pauses_steps_and_goes_back_to_the_same_losses(lab):
    shown = lab(**{**OWN, "steps": 260})  # a checkpoint is at step 250
    shown.start()
    shown.ends()
    once, mean = shown.losses(), shown.fact("Mean loss").inner_text()
    shown.view.control("Checkpoint of step").select_option("250")
    shown.button("Go back").press("Enter")
    expect(shown.line).to_contain_text(
        "You have not saved this model of 260 steps, and going back discards it."
    )
    shown.button("Discard the later steps").press("Enter")
    shown.pauses_at(250)
    expect(shown.line).to_have_text("Back at step 250: everything later is discarded. Go on from here.")
    expect(shown.button("Go back")).to_be_focused()
    assert shown.view.control("Checkpoint of step").input_value() == "250"
    assert shown.losses() == once[:-1]
    assert max(int(row[0]) for row in shown.view.tables()[2][1:]) == 250  # nothing that was written later
    for step in (251, 252):
        shown.button("One step").press("Enter")
        shown.pauses_at(step)
    shown.button("Go on").press("Enter")
    shown.ends()
    assert shown.losses() == once
    expect(shown.fact("Mean loss")).to_have_text(mean)
    shown.begins_anew()
    expect(shown.button("Start training")).to_be_focused()


def test_a_model_that_is_not_saved_is_discarded_only_when_asked_twice(lab):
    shown = lab(**{**OWN, "steps": 2000})
    shown.start()
    shown.pauses_at(r"[1-9]\d*")
    anew, line = shown.button("New training"), re.compile(r"^You have not saved this model of \d+ steps?, ")
    anew.press("Enter")
    expect(shown.line).to_have_text(line)
    expect(shown.button("Go on")).to_be_visible()  # it waits
    expect(shown.button("Discard the model")).to_be_focused()
    shown.button("One step").press("Enter")
    expect(shown.line).to_contain_text("Paused after")
    anew.press("Enter")
    expect(shown.line).to_have_text(line)
    with shown.view.page.expect_download():
        shown.button("Save my model").press("Enter")
    expect(shown.line).to_contain_text("Paused after")
    anew.press("Enter")
    expect(shown.button("Start training")).to_be_focused()
    assert shown.view.says.startswith("This GPT begins")


# What a screen reader may read aloud: the line, whenever it is written while its region is live and not busy.
LISTEN = """() => {
  window.heard = [];
  const line = document.querySelector(".gf-says");
  new MutationObserver(() => {
    const isLive = line.getAttribute("aria-live") === "polite" && !line.hasAttribute("aria-busy");
    if (isLive) window.heard.push(line.textContent);
  }).observe(line, { childList: true });
}"""


def test_pause_stops_it_and_only_a_new_sentence_is_read_aloud(lab):
    shown = lab(**{**OWN, "steps": 2000})
    shown.view.page.evaluate(LISTEN)
    shown.start()
    # The tables follow what is judged at step 250 and written now and then; the sentence stays.
    expect(shown.fact("Step")).to_have_text(re.compile(r"^(2[6-9]\d|[3-9]\d\d|1,\d{3}) of"))
    shown.button("Pause").press("Enter")
    expect(shown.line).to_have_text(re.compile("^Paused after"))
    nudge = shown.button("Nudge it")
    nudge.press("Enter")
    expect(shown.root.locator(".gf-weight-slopes tr")).to_have_count(5)  # after the step that was under way
    step = shown.fact("Step").inner_text()
    nudge.press("Enter")
    expect(nudge).not_to_have_attribute("aria-busy", "true")
    assert shown.fact("Step").inner_text() == step
    expect(shown.button("Go on")).to_be_visible()
    heard = shown.view.page.evaluate("window.heard")
    assert len(heard) == len(set(heard)) < 8, heard


# --- keeping the model ---


def test_what_is_saved_is_a_model_that_python_reads(lab, tmp_path):
    shown = lab(trained=True)
    name, (config, tokenizer, weights, _) = shown.saved(tmp_path)
    assert name == f"my-gpt-{STEPS}-steps.safetensors"
    with safe_open(tmp_path / "mine.safetensors", "np") as file:
        steps = file.metadata()["steps"]
    assert (config.d_model, config.n_layers, steps) == (32, 1, str(STEPS))
    model = model_of(config, weights)
    ids = tokenizer.encode(LINES)
    held_out = ids[round(len(ids) * 0.9) :]
    count = (len(held_out) - 1) // 64
    windows, targets = (held_out[at : at + 64 * count].reshape(count, 64) for at in (0, 1))
    loss = float(re.search(NUMBER, shown.view.says)[0])
    assert cross_entropy(model(windows), targets) == pytest.approx(loss, abs=0.006)


LEAVES = "() => dispatchEvent(new Event('beforeunload', { cancelable: true }))"


def test_what_the_browser_does_not_keep_is_asked_for_before_the_reader_leaves(served):
    page = served(TrainingLab(**OWN))
    page.evaluate(
        "() => { IDBFactory.prototype.open = () => { throw new DOMException('', 'SecurityError') } }"
    )
    page.get_by_role("button", name="Start training").press("Enter")
    expect(page.locator(".gf-says")).to_have_text(DONE)
    use = page.get_by_role("button", name="Use it in this book’s views")
    said = page.locator(".gf-lab-kept")
    use.press("Enter")
    expect(said).to_contain_text(
        "But your browser does not keep it for other pages: it gives this page no storage."
    )
    assert page.evaluate(LEAVES) is False  # the browser asks
    page.reload()
    page.evaluate("() => (document.documentElement.dataset.content_root = '../')")
    page.get_by_role("button", name="Start training").press("Enter")
    expect(page.locator(".gf-says")).to_have_text(DONE)
    use.press("Enter")
    expect(said).to_contain_text(
        "It is ready. You can choose it under the views of the first page and of chapters"
    )
    last = said.get_by_role("link", name="15", exact=True)
    expect(last).to_have_attribute("href", "../notebooks/15-your-own-gpt.html")
    assert page.evaluate(LEAVES) is True
    # As a tab does in which the reader has opened another model: now the browser keeps that one.
    page.evaluate("new BroadcastChannel('glassformer own model').postMessage('another')")
    page.wait_for_function(f"!({LEAVES})()")


def test_it_is_used_by_the_views_that_are_on_the_page_and_by_those_that_come(lab, mount):
    there = mount(SamplingLab())
    shown = lab(trained=True)
    shown.button("Use it in this book’s views").press("Enter")
    kept = shown.root.locator(".gf-lab-kept")
    expect(kept).to_contain_text("It is ready.")
    expect(kept).to_contain_text("The view on this page that runs a GPT now shows it.")
    for other in (there, mount(SamplingLab())):
        expect(other.root.locator(".gf-own summary")).to_have_text(f"Model: yours, my-gpt-{STEPS}-steps")
        expect(other.root.locator(".gf-own-said")).to_contain_text("1 block of 1 head")


def test_the_places_that_it_names_are_those_with_views_of_a_gpt():
    named = re.search(
        r'ELSEWHERE = "the first page and of chapters (.*)"', training_lab.read("training_lab")
    )[1]
    views = r"widgets\.(GlassMachine|AttentionExplorer|LogitLens|NeuronExplorer|AblationBoard|SamplingLab|BeamTree)\("
    texts = {path.name[:2]: path.read_text("utf-8") for path in chapter_facts.TEXTS.glob("[0-9]*.md")}
    there = {number for number, text in texts.items() if re.search(rf"^{views}", text, re.MULTILINE)}
    assert set(re.findall(r"\d\d", named)) == there


# --- one weight, one head ---


def test_the_two_slopes_of_a_weight_agree(lab):
    shown = lab(trained=True, weight=["decoder.blocks.5.attention.W_q.weight", 99, 99])  # which it has not
    assert shown.view.control("Matrix or vector").input_value() == "token_embedding.weight"
    assert shown.view.control("Column").input_value() == "31"
    for name, row, column in (("output head", 3, 2), ("block 0: W_up", 5, 40), ("last norm", 7, None)):
        shown.view.control("Matrix or vector").select_option(name)
        shown.view.control("Row").fill(str(row))
        shown.view.control("Row").press("Enter")
        if column is not None:
            shown.view.control("Column").fill(str(column))
            shown.view.control("Column").press("Enter")
        assert shown.view.get("weight")[1:] == [row, column or 0]
        expect(shown.root.locator(".gf-weight-slopes tr")).to_have_count(0)
        shown.nudge()
        found = shown.nudged()
        assert found["slope, backward pass"] == pytest.approx(found["slope, finite difference"], rel=1e-5)
        assert found["slope, backward pass"] != 0
        low, high = [loss for label, loss in found.items() if label.startswith("loss at")]
        assert (high - low) / 2e-4 == pytest.approx(found["slope, backward pass"], rel=1e-3, abs=1e-6)
        expect(shown.root.locator(".gf-weight-said")).to_contain_text("The two slopes agree in")


PIXELS = """(canvas) => {
  const { width, height } = canvas;
  const copy = Object.assign(document.createElement("canvas"), { width, height });
  const context = copy.getContext("2d", { willReadFrequently: true });
  context.drawImage(canvas, 0, 0);
  return { width, height, bytes: [...context.getImageData(0, 0, width, height).data] };
}"""


def test_a_matrix_is_a_picture_in_which_the_reader_points_at_a_weight(lab, tmp_path):
    shown = lab(trained=True)
    _, (_, _, weights, _) = shown.saved(tmp_path)
    picture = shown.root.locator(".gf-weight-picture")
    for title, name, (row, column) in (
        ("block 0: W_up", "decoder.blocks.0.feedforward.W_up.weight", (5, 40)),
        ("block 0: W_down", "decoder.blocks.0.feedforward.W_down.weight", (87, 0)),
        ("last norm", "decoder.norm.weight", (0, 31)),
    ):
        shown.view.control("Matrix or vector").select_option(title)
        expected = np.atleast_2d(weights[name])
        rows, columns = expected.shape
        expect(picture).to_have_attribute(
            "aria-label", re.compile(f"of {title} as colours, {rows} by {columns}$")
        )
        found = picture.evaluate(PIXELS)
        red, _, blue, opacity = np.reshape(found["bytes"], (found["height"], found["width"], 4)).transpose(
            2, 0, 1
        )
        colours = np.where(red > blue, 1, -1) * opacity / (0.6 * 255)
        whole = np.clip(expected / (3 * np.sqrt(np.mean(expected**2))), -1, 1)
        np.testing.assert_allclose(colours, whole, atol=1 / 127)
        box = picture.bounding_box()
        at = {"x": (column + 0.5) / columns * box["width"], "y": (row + 0.5) / rows * box["height"]}
        picture.click(position=at)
        place = [row, column] if weights[name].ndim == 2 else [column, 0]
        assert shown.view.get("weight") == [name, *place]
        assert [int(shown.view.control(one).input_value()) for one in ("Row", "Column")] == place
        shown.nudge()
        low, high = [
            float(re.search(NUMBER, one)[0].replace("−", "-"))
            for one in shown.nudged()
            if one.startswith("loss at")
        ]
        assert (low + high) / 2 == pytest.approx(expected[row, column], abs=1e-5)


def test_the_head_sees_no_character_that_comes_later(lab):
    shown = lab(trained=True)
    said = shown.root.locator(".gf-head-said")
    expect(said).to_have_text(re.compile("^At .*, position 20: "))
    shown.root.locator(".gf-character[tabindex='0']").focus()
    shown.view.page.keyboard.press("Home")
    expect(said).to_have_text(re.compile(r"position 0: 100 % to .* \(itself\)\.$"))
    assert shown.root.locator(".gf-character.gf-hidden").count() == 63


# --- breaks ---


def test_a_break_asks_for_a_curve_and_trains_the_small_model(lab):
    shown = lab(size="book", source="own", text=LINES)
    shown.view.control("No mask").check()
    for name in ("Small: about a minute", "Your own text"):
        expect(shown.view.control(name)).to_be_disabled()
    expect(shown.root.get_by_label("I think the loss on the held-out text will end at")).to_be_hidden()
    shown.view.control("It does not learn").check()
    assert shown.view.saved() == {"broken": "mask", "expected": "stuck"}
    shown.start()
    expect(shown.root.locator(".gf-lab-about")).to_contain_text("2 blocks, 64 wide")
    expect(shown.root.locator(".gf-lab-about")).to_contain_text("Shakespeare. The break: no mask.")
    shown.pauses_at(r"[1-9]\d*")
    shown.begins_anew()
    expect(shown.button("Start training")).to_be_visible()


def test_a_break_changes_one_thing(browser):
    page = browser.new_page()
    found = {broken: training_lab.trained(page, TrainingLab(broken=broken), steps=3)[0] for broken in BREAKS}
    own = {"size": "own", **SMALL, "rate": 10}
    tenfold, _ = training_lab.trained(page, TrainingLab(**own), steps=3)
    page.close()
    assert len({losses[0] for losses in found.values()}) == 1  # the same weights and the same text
    assert len({losses[2] for losses in found.values()}) == len(BREAKS)
    assert found["rate"] == tenfold


USUAL = [1.689, 1.705, 1.70]


@pytest.mark.parametrize(
    ("loss", "curve"),
    [(0.04, "zero"), (1.69, "same"), (1.71, "same"), (1.75, "worse"), (3.3, "stuck"), (None, "stuck")],
)
def test_the_curve_that_came_out(call, loss, curve):
    given = float("nan") if loss is None else loss
    assert call("training_lab", "outcome", given, USUAL, 3.35) == curve


@pytest.mark.parametrize(
    ("broken", "curve"), [("nothing", "same"), ("rate", "worse"), ("mask", "zero"), ("warmup", "same")]
)
def test_what_the_view_says_of_a_break_is_what_was_measured(call, broken, curve):
    measured = TrainingLab()._measured
    assert set(measured) == set(BREAKS)
    usual = [run["loss"] for run in measured["nothing"]]
    for run in measured[broken]:
        assert call("training_lab", "outcome", run["loss"], usual, landmarks()["unigram"]) == curve


def test_the_recorded_run_begins_like_a_new_one(browser):
    page = browser.new_page()
    losses, _ = training_lab.trained(page, TrainingLab(), steps=2 * training_lab.EACH)
    page.close()
    [recorded, *_] = TrainingLab()._measured["nothing"]
    np.testing.assert_allclose(training_lab.course(losses), recorded["course"][:2], atol=0.02)
    assert len(recorded["course"]) == SMALL["steps"] / training_lab.EACH


# --- when something goes wrong ---


def test_a_text_that_does_not_arrive(lab):
    shown = lab()
    shown.view.refuse()
    shown.start()
    expect(shown.line).to_have_text("The text could not be loaded. Not today.")
    expect(shown.button("Load the text again")).to_be_visible()
    expect(shown.button("Start training")).to_be_visible()


# The next training cannot take its first step: it finds no numbers.
BROKEN = """() => {
  const { fill } = Float32Array.prototype;
  Float32Array.prototype.fill = function (...given) {
    Float32Array.prototype.fill = fill;
    throw new Error("no memory is left");
  };
}"""


def test_a_training_that_fails_can_be_started_again(lab):
    shown = lab(**OWN)
    shown.view.page.evaluate(BROKEN)
    shown.start()
    expect(shown.line).to_have_text(
        "The training has stopped because of an error: no memory is left. You can start again."
    )
    shown.start()
    shown.ends()


# --- in a page with an address, where there are workers ---


@pytest.fixture
def served(browser):
    """Returns a page of views at an address, and its workers."""
    pages = []

    def open_with(view):
        page = browser.new_page()
        pages.append(page)
        html = views.page_of([view], "")
        page.route("http://localhost/", lambda route: route.fulfill(body=html, content_type="text/html"))
        page.goto("http://localhost/")
        page.locator(".gf-widget").wait_for()
        return page

    yield open_with
    for page in pages:
        page.close()


def test_on_a_page_with_an_address_a_worker_trains(served):
    page = served(TrainingLab(**OWN))
    page.get_by_role("button", name="Start training").press("Enter")
    expect(page.locator(".gf-says")).to_have_text(DONE)
    expect(page.locator(".gf-lab-about")).not_to_contain_text("no worker")
    [worker] = page.workers
    page.get_by_role("button", name="New training").press("Enter")
    with worker.expect_event("close"):
        page.get_by_role("button", name="Discard the model").press("Enter")
    expect(page.get_by_role("button", name="Start training")).to_be_visible()


@pytest.mark.weekly
def test_a_training_that_fails_leaves_no_worker(served):
    page = served(TrainingLab(**{**OWN, "text": "a" * 9000}))
    with page.expect_event("worker"):
        page.get_by_role("button", name="Start training").press("Enter")
    expect(page.locator(".gf-says")).to_contain_text("The text consists of a single character")
    expect(page.get_by_role("button", name="Start training")).to_be_visible()
    for _ in range(300):  # frames
        page.evaluate("new Promise(requestAnimationFrame)")
    assert page.workers == []


DISCARDS = """() => {
  const button = (name) => [...document.querySelectorAll("button")].find((one) => one.textContent === name);
  const anew = button("New training");
  for (const one of [button("Use it in this book’s views"), anew, anew]) one.click(); // before the worker can answer
}"""


def test_what_was_asked_of_a_run_that_has_ended_is_not_asked_of_the_next(served):
    page = served(TrainingLab(**OWN))
    start = page.get_by_role("button", name="Start training")
    start.press("Enter")
    expect(page.locator(".gf-says")).to_have_text(DONE)
    page.evaluate(DISCARDS)
    start.press("Enter")
    expect(page.locator(".gf-says")).to_have_text(DONE)
    with page.expect_download():
        page.get_by_role("button", name="Save my model").press("Enter")
    expect(page.locator(".gf-lab-kept")).to_contain_text("Your browser has saved my-gpt-")


GONE = """() => {
  const every = setInterval;
  setInterval = (act, delay) => every(act, delay === 10_000 ? 20 : delay);
  window.Worker = class extends Worker {
    constructor(...given) {
      super(...given);
      window.worker = this;
    }
  };
}"""


def test_a_worker_that_the_browser_has_ended_is_missed(served):
    page = served(TrainingLab(**{**OWN, "steps": 5000}))
    page.evaluate(GONE)
    page.get_by_role("button", name="Start training").press("Enter")
    step = page.locator('.gf-lab-facts dt:text-is("Step") + dd')
    expect(step).to_have_text(re.compile(r"^[1-9]"))
    page.evaluate("window.worker.terminate()")
    expect(page.locator(".gf-says")).to_contain_text("The training has not answered for a while.")
    page.get_by_role("button", name="Save my model").press("Enter")
    expect(page.locator(".gf-lab-kept")).to_have_text("Waiting for the model …")
    page.get_by_role("button", name="New training").press("Enter")
    page.get_by_role("button", name="Discard the model").press("Enter")
    expect(page.get_by_role("button", name="Start training")).to_be_visible()


def test_another_weight_begins_a_curve_of_its_own(served):
    page = served(TrainingLab(**{**OWN, "steps": 5000}, weight=["decoder.norm.weight", 3, 0]))  # near 1
    value = page.locator(".gf-weight-value")
    page.get_by_role("button", name="Start training").press("Enter")
    for name in 4 * ("block 0: W_o", "last norm"):
        page.get_by_label("Matrix or vector").select_option(name)
        expect(value).to_have_attribute("points", re.compile(r"^\S+ \S+ \S+"))  # three steps
        texts = value.locator("xpath=..").locator("text").all_text_contents()
        numbers = [abs(number_of(text)) for text in texts if text]
        assert (max(numbers) > 0.5) == (name == "last norm"), (name, numbers)


def test_a_reader_who_leaves_before_saving_is_asked(served):
    page = served(TrainingLab(**{**OWN, "steps": 300}))
    asked = []
    page.on("dialog", lambda dialog: (asked.append(dialog.type), dialog.accept()))
    page.goto("http://localhost/")
    page.get_by_role("button", name="Start training").press("Enter")
    expect(page.locator(".gf-says")).to_have_text(DONE)
    assert asked == []
    with page.expect_download():
        page.get_by_role("button", name="Save my model").press("Enter")
    page.goto("http://localhost/")
    assert asked == []
    page.get_by_role("button", name="Start training").press("Enter")
    expect(page.locator(".gf-says")).to_have_text(DONE)
    page.goto("http://localhost/")
    assert asked == ["beforeunload"]


# --- for everybody ---


def test_it_is_accessible_and_fits_a_phone(lab, shoot):
    shown = lab(**OWN, guess=2.0)
    assert shown.view.axe_violations() == []
    shown.start()
    shown.ends()
    shown.nudge()
    assert shown.view.axe_violations() == []
    shoot("training-lab")
    for width in (390, 360):
        shown.view.page.set_viewport_size({"width": width, "height": 900})
        shown.view.rest()
        assert shown.view.overflow() <= 0
        shoot(f"training-lab-{width}")


def test_the_short_form_has_less_to_choose(lab):
    shown = lab(name="short", broken="mask", size="own")
    for group in ("Model", "Text"):
        expect(shown.root.get_by_role("group", name=group, exact=True)).to_have_count(0)
    assert shown.view.says.startswith("This GPT begins with random weights. At each step")
    expect(shown.root.get_by_label("One head")).to_have_count(0)
    assert shown.view.axe_violations() == []
