"""Tests that every view of the book's decoder takes a model of the reader's own, and gives the book's model back."""

import base64
import json
import re
from pathlib import Path

import numpy as np
import pytest
from linking import fields, link
from mounting import BLANK, MOUNT
from own_models import CHARACTERS, TOKENIZER, in_a_file, small, trained
from playwright.sync_api import expect
from safetensors import safe_open

from glassformer import checkpoints, inside, model_files, widgets
from glassformer.generate.reader import window_start
from glassformer.scratch import softmax
from glassformer.text import CharTokenizer, inputs_and_targets
from glassformer.trace import trace

TAKE = (
    "GlassMachine",
    "LiveWriter",
    "AttentionExplorer",
    "LogitLens",
    "NeuronExplorer",
    "AblationBoard",
    "SamplingLab",
    "BeamTree",
)
DO_NOT = ("FillIn", "DateTranslator")  # of other families


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return in_a_file(tmp_path_factory.mktemp("own"), small())


BOTH = "Model: the book’s; yours is here, too"


def line(w):
    return w.root.locator("details.gf-own")


def summary(w):
    return line(w).locator("summary")


def said(w):
    return line(w).locator(".gf-own-said")


def choose_file(w, *files):
    """Chooses files in the view's own dialog."""
    line(w).locator("input[type=file]").first.set_input_files(list(files))


def forget(line):
    line.get_by_role("button", name="Forget my model").click()
    line.get_by_role("button", name="Forget it for good").click()


def opened(w, *files):
    choose_file(w, *files)
    expect(said(w)).to_contain_text("This view shows")
    w.rest()


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", TAKE)
def test_every_view_shows_the_readers_model_and_then_the_books_again(mount, file, name):
    w = mount(getattr(widgets, name)())
    w.rest()
    before = w.root.locator(".gf-drawing").inner_text(), w.says
    traits = {trait: w.now(trait) for trait in w.widget.keys}
    expect(summary(w)).to_have_text("Model: the book’s")
    opened(w, file)
    expect(summary(w)).to_have_text("Model: yours, my-gpt")
    numbers = f"{small().config.parameter_count().total:,}"
    expect(said(w)).to_have_text(
        f"This view shows my-gpt: 2 blocks of 2 heads, 30 characters, {numbers} parameters."
    )
    assert w.says
    assert (w.root.locator(".gf-drawing").inner_text(), w.says) != before
    assert w.axe_violations() == []
    w.control("the book’s model").check()
    w.rest()
    expect(summary(w)).to_have_text(BOTH)
    if name != "LiveWriter":  # which goes on writing
        assert {trait: w.now(trait) for trait in w.widget.keys} == traits
        assert (w.root.locator(".gf-drawing").inner_text(), w.says) == before


@pytest.mark.parametrize("name", DO_NOT)
def test_views_of_other_families_do_not(mount, name):
    w = mount(getattr(widgets, name)())
    w.rest()
    expect(line(w)).to_have_count(0)


OF_ONES_OWN = {name: small() for name in TAKE} | {
    "FillIn": small(family="encoder", vocab_size=len(CHARACTERS) + 1),
    "DateTranslator": small(family="encoder-decoder", vocab_size=len(CHARACTERS) + 2),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", OF_ONES_OWN)
def test_every_view_shows_a_model_that_python_gives_it_and_says_whose_it_is(mount, name):
    w = mount(getattr(widgets, name)(OF_ONES_OWN[name], tokenizer=TOKENIZER))
    w.rest()
    first = w.root.locator(".gf-drawing").inner_text()
    w.root.locator("textarea, input[type=text]").first.fill("Abide, my ill")
    w.rest()
    assert w.root.locator(".gf-drawing").inner_text() != first
    for wrong in ("stopped because of an error", "NaN", "was never trained"):
        assert wrong not in w.root.inner_text()
    if name in TAKE:
        expect(summary(w)).to_have_text("Model: yours")
        expect(line(w)).not_to_contain_text("the book’s model")


def test_a_run_that_python_shows_and_a_model_of_the_page_are_told_apart(mount, file, tmp_path):
    folder = str(trained(tmp_path / "first"))
    w = mount(widgets.AblationBoard(folder))
    w.rest()
    expect(summary(w)).to_have_text(f"Model: yours, {folder}")
    assert w.page.evaluate("window.asked ?? 0") == 0  # Python has measured it
    before = w.says
    opened(w, file)
    expect(summary(w)).to_have_text("Model: yours, my-gpt")
    w.control(folder).check()
    w.rest()
    expect(summary(w)).to_have_text(f"Model: yours, {folder}; the one that you opened is here, too")
    assert w.says == before


# --- what it shows ---


def test_the_lab_shows_what_scratch_computes(mount, file):
    w = mount(widgets.SamplingLab())
    opened(w, file)
    w.root.get_by_role("button", name="Start again").click()
    w.rest()
    text = "".join(character for character in w.widget.text if character in CHARACTERS)
    model, tokenizer = small(), CharTokenizer(CHARACTERS)
    start = window_start(len(text), model.config.context_length)
    expected = softmax(model(tokenizer.encode(text[start:]))[-1].astype(np.float64))
    shown = {row[0]: float(row[1]) for row in w.tables()[0][1:]}
    assert len(shown) == len(CHARACTERS)
    for character, p in zip(CHARACTERS, expected, strict=True):
        name = {" ": "␣", "\n": "⏎"}.get(character, character)
        assert shown[name] == pytest.approx(p, abs=1e-4)


def test_the_heads_show_what_scratch_computes(mount, file):
    w = mount(widgets.AttentionExplorer())
    opened(w, file)
    text = w.root.locator("textarea").input_value()[:40]
    with trace() as seen:
        small()(CharTokenizer(CHARACTERS).encode(text)[None])
    weights = np.concatenate(seen.arrays("weights"))  # (L, H, T, T)
    shown = [float(row[2]) for row in w.tables()[0][1:] if row[2] != "hidden"]
    np.testing.assert_allclose(shown, weights[1, 1, -1], atol=6e-4)  # three digits are shown


def test_the_machine_shows_what_scratch_computes_and_writes(mount, file):
    w = mount(widgets.GlassMachine())
    opened(w, file)
    expect(w.root.get_by_label("words", exact=True)).to_be_hidden()  # the book's other model
    text = w.root.locator("textarea").input_value()
    p = softmax(small()(CharTokenizer(CHARACTERS).encode(text))[-1].astype(np.float64))
    last = w.tables()[0][-1]
    best = CHARACTERS[int(p.argmax())]
    assert last[1] == {" ": "␣", "\n": "⏎"}.get(best, best)
    assert float(last[2]) == pytest.approx(p.max(), abs=1e-4)
    w.root.get_by_role("button", name="One character").click()
    w.rest()
    assert len(w.root.locator("textarea").input_value()) == len(text) + 1
    w.root.get_by_role("button", name="Take the tour").click()
    w.rest()
    assert w.root.locator(".gf-tour-count").inner_text() == "Tour: step 1 of 6"


def test_the_board_measures_the_readers_model(mount, file):
    w = mount(widgets.AblationBoard())
    opened(w, file)
    expect(w.root.locator(".gf-worth-number", has_text="…")).to_have_count(0)
    rows = {row[0]: row for row in w.tables()[1][1:]}
    assert len(rows) == 8  # two blocks: attention, two heads, feed-forward
    text = w.root.locator("textarea").input_value()[:40]
    inputs, targets = inputs_and_targets(CharTokenizer(CHARACTERS).encode(text)[None])
    shown = float(w.tables()[0][2][2])
    assert shown == pytest.approx(float(inside.mean_loss(small(), [({"ids": inputs}, targets)])), abs=2e-4)


# --- choosing ---


def test_all_views_of_a_page_show_the_same_model(mount, file, tmp_path):
    first, second = mount(widgets.LogitLens()), mount(widgets.AttentionExplorer())
    opened(first, file)
    late = mount(widgets.NeuronExplorer())  # drawn when its reader comes near
    for w in (first, second, late):
        expect(summary(w)).to_have_text("Model: yours, my-gpt")
        w.rest()
    summary(second).click()
    second.control("the book’s model").check()
    for w in (first, second, late):
        expect(summary(w)).to_have_text(BOTH)
        w.rest()
    second.control("my-gpt").check()
    expect(summary(first)).to_have_text("Model: yours, my-gpt")
    first.rest()
    first.root.get_by_role("button", name="Forget my model").click()
    expect(line(first)).to_contain_text("It cannot be brought back. Save a copy first")
    first.root.get_by_role("button", name="Save a copy of my model").focus()
    expect(line(first)).not_to_contain_text("It cannot be brought back.")
    expect(summary(first)).to_have_text("Model: yours, my-gpt")
    forget(first.root)
    for w in (first, second, late):
        expect(summary(w)).to_have_text("Model: the book’s")
        expect(line(w).get_by_role("radio", include_hidden=True).first).not_to_be_visible()
        assert "my-gpt" not in line(w).inner_text()
    expect(said(first)).to_have_text("This browser no longer keeps your model.")


def test_a_view_that_cannot_show_the_model_says_why_and_stays(mount, tmp_path):
    beams, lens = mount(widgets.BeamTree()), mount(widgets.LogitLens())
    path = in_a_file(tmp_path, small(context_length=5))
    beams.root.locator("textarea").fill("My horse")
    beams.rest()
    opened(lens, path)
    expect(said(beams)).to_have_text("This view writes up to 12 characters, but context_length=5.")
    expect(summary(beams)).to_have_text(BOTH)
    assert beams.root.locator("textarea").input_value() == "My horse"


def test_the_folder_of_a_run_is_opened(mount, tmp_path):
    folder = trained(tmp_path / "my-run")
    w = mount(widgets.LogitLens())
    line(w).locator("input[webkitdirectory]").set_input_files(str(folder))
    expect(summary(w)).to_have_text("Model: yours, my-run")
    text = w.root.locator("textarea").input_value()
    text = text[window_start(len(text), 40) :]
    w.rest()
    p = softmax(checkpoints.load_model(folder)(CharTokenizer(CHARACTERS).encode(text))[-1].astype(np.float64))
    assert float(w.tables()[0][-1][2]) == pytest.approx(p.max(), abs=1e-3)


def test_what_the_reader_does_with_it_does_not_reach_the_notebook(mount, file):
    w = mount(widgets.AttentionExplorer())
    opened(w, file)
    w.root.locator("textarea").fill("my own text")
    w.rest()
    w.control("Causal mask").uncheck()
    w.rest()
    assert w.saved() == {}
    assert w.now("masked") is True
    w.control("the book’s model").check()
    w.rest()
    assert w.root.locator("textarea").input_value() == w.widget.text


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("notes.txt", b"hello", "None of these files is a model: choose a .safetensors file"),
        ("my.safetensors", b"hello", "my.safetensors is not a safetensors file: it is too short."),
    ],
)
def test_what_is_no_model_is_refused_in_a_sentence_and_the_view_stays(mount, tmp_path, name, content, words):
    w = mount(widgets.LogitLens())
    before = w.says
    path = tmp_path / name
    path.write_bytes(content)
    choose_file(w, str(path))
    expect(said(w)).to_contain_text(words)
    expect(line(w)).to_have_attribute("open", "")
    expect(summary(w)).to_have_text("Model: the book’s")
    assert w.says == before


def test_a_damaged_model_leaves_the_one_that_is_shown(mount, file, tmp_path):
    w = mount(widgets.LogitLens())
    opened(w, file)
    bad = tmp_path / "bad.safetensors"
    bad.write_bytes(Path(file).read_bytes()[:-4])
    choose_file(w, str(bad))
    expect(said(w)).to_contain_text("bad.safetensors is not a safetensors file")
    expect(summary(w)).to_have_text("Model: yours, my-gpt")


def test_it_is_opened_and_chosen_by_keyboard_alone(mount, page, file):
    # The browser hands the choice of files over from now on; expect_file_chooser alone would not wait for that.
    page.on("filechooser", lambda _: None)
    w = mount(widgets.LogitLens(), width=390)
    summary(w).focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")
    expect(line(w).get_by_role("button", name="Open your own model …")).to_be_focused()
    with page.expect_file_chooser() as chosen:
        page.keyboard.press("Enter")
    chosen.value.set_files(file)
    expect(summary(w)).to_have_text("Model: yours, my-gpt")
    expect(line(w).get_by_role("button", name="Open your own model …")).to_be_focused()
    page.keyboard.press("Shift+Tab")
    expect(w.control("my-gpt")).to_be_focused()
    page.keyboard.press("ArrowLeft")
    expect(summary(w)).to_have_text(BOTH)
    expect(w.control("the book’s model")).to_be_focused()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


# How many models this browser keeps; the answer comes after whatever the page has asked before.
KEPT = """() => new Promise((resolve) => {
  const asked = indexedDB.open("glassformer");
  asked.onsuccess = () => {
    const counted = asked.result.transaction("own model").objectStore("own model").count();
    counted.onsuccess = () => resolve(counted.result);
  };
})"""

DROP = """async ([name, text]) => {
  const data = new DataTransfer();
  data.items.add(new File([Uint8Array.from(atob(text), (c) => c.charCodeAt(0))], name));
  const options = { dataTransfer: data, bubbles: true, cancelable: true };
  const drawing = document.querySelector(".gf-drawing");
  drawing.dispatchEvent(new DragEvent("dragover", options));
  const isMarked = document.querySelector(".gf-widget").classList.contains("gf-own-over");
  const isTaken = !drawing.dispatchEvent(new DragEvent("drop", options));
  return [isMarked, isTaken, document.querySelector(".gf-widget").classList.contains("gf-own-over")];
}"""


def test_it_may_be_dropped_on_the_view(mount, page, file):
    w = mount(widgets.LogitLens())
    content = base64.b64encode(Path(file).read_bytes()).decode()
    assert page.evaluate(DROP, ["dropped.safetensors", content]) == [True, True, False]
    expect(summary(w)).to_have_text("Model: yours, dropped")


def test_a_copy_is_saved_that_python_reads(mount, page, file, tmp_path):
    w = mount(widgets.LogitLens())
    opened(w, file)
    with page.expect_download() as saving:
        w.root.get_by_role("button", name="Save a copy of my model").click()
    assert saving.value.suggested_filename == "my-gpt.safetensors"
    saving.value.save_as(tmp_path / "copy.safetensors")
    copy = model_files.load(tmp_path / "copy.safetensors")
    for name, values in small().named_parameters().items():
        np.testing.assert_array_equal(copy.weights[name], values)
    with safe_open(tmp_path / "copy.safetensors", "np") as saved:
        assert saved.metadata()["steps"] == "5"


OFFER = """(given) => {
  const asTensor = ([name, shape, data]) => [name, { shape, data: Float32Array.from(data) }];
  js.offer({ ...given, tensors: Object.fromEntries(given.tensors.map(asTensor)) });
}"""


def test_another_view_of_the_page_may_offer_a_model(mount, page):
    """As the view does that trains one."""
    w = mount(widgets.LogitLens())
    summary(w).click()
    expect(line(w).get_by_role("radio")).to_have_count(0)
    model = small()
    tensors = [[name, list(x.shape), x.ravel().tolist()] for name, x in model.named_parameters().items()]
    given = {"name": "trained", "config": fields(model.config), "characters": CHARACTERS, "tensors": tensors}
    link(page, "own_model").evaluate(OFFER, given)
    expect(summary(w)).to_have_text("Model: yours, trained")
    expect(said(w)).to_contain_text("This view shows trained: 2 blocks")
    w.rest()


# --- what the browser keeps ---


@pytest.fixture
def site(browser):
    """Returns visit(tab, path) -> the line under a view, on a page with an address, which may store something."""
    widget = widgets.LogitLens()
    state = {name: value for name, value in widget.get_state().items() if name != "layout"}
    modules = {f"anywidget:{module.model_id}": module.get_state() for module in widget._modules}
    context = browser.new_context()
    context.route("https://book.test/*", lambda route: route.fulfill(body=BLANK, content_type="text/html"))

    def visit(tab, path):
        tab.goto(f"https://book.test/{path}")
        tab.evaluate(MOUNT, json.dumps([state, modules]))
        own = tab.locator("details.gf-own")
        own.locator("summary").click()
        return own

    visit.tab = context.new_page
    yield visit
    context.close()


def offers(own, *files):
    own.locator("input[type=file]").first.set_input_files(list(files))
    expect(own.locator(".gf-own-said")).to_contain_text("This view shows")


def has_kept(tab):
    """Waits until the browser has stored a model, which it does after the view has shown it."""
    tab.wait_for_function(f"async () => (await ({KEPT})()) === 1")


def test_it_is_there_on_the_next_page_until_it_is_forgotten(site, file):
    tab, sent = site.tab(), []
    tab.on("request", lambda request: sent.append(request.url))
    offers(site(tab, "one"), file)
    has_kept(tab)
    own = site(tab, "two")
    expect(own.locator("summary")).to_have_text(BOTH)
    own.get_by_label("my-gpt").check()
    expect(own.locator(".gf-own-said")).to_contain_text("This view shows my-gpt")
    forget(own)
    expect(own.locator("summary")).to_have_text("Model: the book’s")
    expect(own.locator(".gf-own-said")).to_have_text("This browser no longer keeps your model.")
    own = site(tab, "three")
    expect(own.get_by_role("button", name="Open your own model …")).to_be_visible()
    assert tab.evaluate(KEPT) == 0
    expect(own.get_by_role("radio")).to_have_count(0)
    assert {address for address in sent if not address.startswith("blob:")} == {
        f"https://book.test/{name}" for name in ("one", "two", "three")
    }


NOT_KEPT = {
    "it gives this page no storage": """
        IDBFactory.prototype.open = () => { throw new DOMException("", "SecurityError") };""",
    "its storage is full": """
        const { put } = IDBObjectStore.prototype;
        IDBObjectStore.prototype.put = function (...given) {
          const request = put.apply(this, given);
          Object.defineProperty(this.transaction, "error", { value: new DOMException("", "QuotaExceededError") });
          request.addEventListener("success", () => this.transaction.abort());
          return request;
        };""",
    "its storage does not answer": """
        IDBFactory.prototype.open = () => new EventTarget();
        const wait = setTimeout;
        setTimeout = (act, delay) => wait(act, delay === 10_000 ? 0 : delay);""",
}


@pytest.mark.parametrize("why", NOT_KEPT)
def test_what_the_browser_does_not_keep_is_not_said_to_be_kept(site, file, why):
    tab = site.tab()
    tab.add_init_script(NOT_KEPT[why])
    own = site(tab, "one")
    offers(own, file)
    expect(own).to_contain_text(f"Your browser does not keep it for other pages: {why}.")
    forget(own)
    expect(own.locator("summary")).to_have_text("Model: the book’s")
    expect(site(tab, "two").locator("summary")).to_have_text("Model: the book’s")


def test_a_database_that_another_version_of_the_book_has_made_is_used(site, file):
    tab = site.tab()
    tab.goto("https://book.test/before")
    tab.evaluate(
        """() => new Promise((resolve) => {
          const asked = indexedDB.open("glassformer", 7);
          asked.onupgradeneeded = () => asked.result.createObjectStore("something else");
          asked.onsuccess = () => resolve(asked.result.close());
        })"""
    )
    own = site(tab, "one")
    offers(own, file)
    has_kept(tab)
    expect(own).not_to_contain_text("does not keep it")
    expect(site(tab, "two").locator("summary")).to_have_text(BOTH)


def test_a_tab_forgets_only_its_own_model(site, file, tmp_path):
    first, second = site.tab(), site.tab()
    ours = site(first, "one")
    offers(ours, file)
    has_kept(first)
    offers(site(second, "two"), in_a_file(tmp_path, small(1), "another.safetensors"))
    forget(ours)
    expect(ours.locator(".gf-own-said")).to_have_text(
        "This page has forgotten it. Your browser still keeps another, which you have opened in another tab."
    )
    expect(site(second, "three").get_by_label("another")).to_be_visible()


def test_the_name_of_a_file_cannot_disturb_a_sentence(mount, tmp_path):
    w = mount(widgets.LogitLens())
    name = f"{'a' * 120}\u202e\u05d0"
    opened(w, in_a_file(tmp_path, small(), f"{name}.SAFETENSORS"))
    expect(said(w)).to_contain_text(f"This view shows {'a' * 50} … {'a' * 48}�\u05d0: 2 blocks")
    assert said(w).locator("bdi").inner_text() == summary(w).locator("bdi").inner_text()
    opened(w, in_a_file(tmp_path, small(), ".safetensors"))
    expect(summary(w)).to_have_text("Model: yours")


# --- models of any size ---


FEW = ["a", "ab", "abcdefgh", "abcdefghi", "🎵🎶a", "абвгдежзик"]


@pytest.fixture(scope="module")
def strange(tmp_path_factory):
    """Provides strange(name), a file: of FEW characters, of a tiny context, or of logits that are not finite."""
    sizes = {"n_layers": 1, "n_heads": 1, "qk_norm": False, "embedding_norm": False}
    models = {few: (small(vocab_size=len(few), **sizes), few) for few in FEW}
    models |= {f"{n} positions": (small(context_length=n), CHARACTERS) for n in (2, 13)}
    models["infinite"] = small(attention_scale=1e308), CHARACTERS
    folder = tmp_path_factory.mktemp("strange")
    return {
        name: in_a_file(folder, model, f"{name}.safetensors", characters=characters)
        for name, (model, characters) in models.items()
    }.get


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", TAKE)
def test_a_strange_model_is_shown_or_refused_in_a_sentence(mount, strange, name):
    w = mount(getattr(widgets, name)())
    for characters in FEW:  # of the text nothing is left, so it starts from the model's own first character
        choose_file(w, strange(characters))
        expect(summary(w)).to_have_text(f"Model: yours, {characters}")
        w.root.locator("textarea").fill(3 * characters[0])
        w.rest()
        if (more := w.root.get_by_role("button", name=re.compile("^One (more|character)$"))).count():
            for _ in range(6):
                more.click()
                w.rest()
        if name == "LiveWriter":
            assert re.fullmatch(f"[{characters}]{{6}}", w.root.locator(".gf-live-written").text_content())
        shown = f"{w.root.inner_text()} {w.tables()} {w.label}"
        assert not re.findall(
            r"undefined|NaN|Infinity|(?<![\d,.])1 (?:characters|blocks|heads|others|tokens)\b", shown
        )
    for n in (13, 2):
        choose_file(w, strange(f"{n} positions"))
        refused = name == "BeamTree" and n < 13
        words = (
            f"This view writes up to 12 characters, but context_length={n}." if refused else "This view shows"
        )
        expect(said(w)).to_contain_text(words)
        expect(summary(w)).to_have_text(BOTH if refused else f"Model: yours, {n} positions")
        w.rest()
    choose_file(w, strange("infinite"))
    expect(summary(w)).to_have_text("Model: yours, infinite")
    if name == "LiveWriter":
        w.root.get_by_role("button", name="One more").click()
    expect(w.root.locator(".gf-says")).to_have_text(
        re.compile("the model’s logits are not all finite numbers")
    )
    assert "NaN" not in w.root.inner_text()
