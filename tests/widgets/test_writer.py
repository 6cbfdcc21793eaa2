"""Tests writing in a page: beyond the context C, where generate, the one page and the page follow one rule.

When a text is longer than C, the model reads from the first multiple of C/2 that leaves at most C characters in view.
"""

import numpy as np
import pytest
from close import SINGLE, assert_close
from linking import base64_of, fields, link

from glassformer import onepage, shipped, text
from glassformer.generate import generate
from glassformer.generate.reader import window_start
from glassformer.widgets.engine.model import source_of

STARTS = {  # by hand: (length, C) -> the first position that is read
    (1, 128): 0,
    (128, 128): 0,
    (129, 128): 64,
    (192, 128): 64,
    (193, 128): 128,
    (300, 128): 192,
    (320, 128): 192,
    (321, 128): 256,
    (9, 9): 0,  # half of 9 is 4
    (10, 9): 4,
    (13, 9): 4,
    (14, 9): 8,
    (1, 1): 0,
    (7, 1): 6,
    (3, 2): 1,
}


def test_the_rule_in_python():
    assert {place: int(window_start(*place)) for place in STARTS} == STARTS
    lengths = np.arange(1, 400)
    starts = window_start(lengths, 128)
    assert ((lengths - starts <= 128) & (starts % 64 == 0)).all()
    assert ((starts == 0) | (lengths - (starts - 64) > 128)).all()  # no earlier multiple would do


def test_the_rule_in_the_page(call):
    assert call.each("transformer", "windowStart", [[*place] for place in STARTS]) == [*STARTS.values()]


class Reader(onepage.GPT):
    """A page whose model notes how much of the text it has in view instead of reading it."""

    def __init__(self, context):
        self.config = {"context_length": context, "n_layers": 1}
        self.alphabet, self.views = ["a"], []

    def __call__(self, ids, caches):
        seen = (caches[0][0].shape[1] if caches[0] else 0) + len(ids)
        caches[0][:] = np.zeros((2, 1, seen, 1))
        self.views.append(seen)
        return np.zeros((len(ids), 1))


@pytest.mark.parametrize(("length", "context"), [place for place in STARTS if place[1] > 1])
def test_the_rule_on_the_one_page(length, context):
    for prompt in {1, length}:  # written up to there, or read at once
        page = Reader(context)
        list(page.write("a" * prompt, length + 1 - prompt))
        assert page.views[-1] == length - STARTS[length, context]


# --- the same text in all three ---

WRITE = """([config, weights]) => {
  const model = new js.Transformer(config, js.readTensors(viewOf(weights)));
  const writers = {};
  window.write = (name, prompt, runs) => {
    const writer = (writers[name] ??= new js.Writer(config.context_length, { prompt, ids: [], logits: [] }));
    for (const { length, picked } of runs) {
      writer.fit({ prompt, length, seed: 1, strategy: { temperature: 0 }, picked: new Map(picked) });
      while (!writer.isDone) for (const _ of writer.next(model));
    }
    return { ids: writer.ids, logits: writer.steps.map(({ logits }) => [...logits]) };
  };
}"""

PLAY = text.corpus()
MODEL, TOKENIZER = shipped.load()
C = MODEL.config.context_length


@pytest.fixture(scope="module")
def write(browser):
    page, source = link(browser.new_page(), "transformer", "writer"), source_of("shakespeare")
    page.evaluate(WRITE, [fields(source.config), base64_of(source.weights)])
    yield lambda *given: page.evaluate("(given) => write(...given)", list(given))
    page.close()


def runs(*lengths, picked=()):
    return [{"length": length, "picked": list(picked)} for length in lengths]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("begun", [120, 128, 129, 300], ids=str)
def test_beyond_the_window_all_three_write_the_same(write, begun):
    prompt = TOKENIZER.encode(PLAY[:begun])
    found = write(f"from {begun}", prompt.tolist(), runs(80))
    expected = generate(MODEL, prompt, 80, temperature=0, past_context="half")[0]
    assert found["ids"] == expected[begun:].tolist()
    page = onepage.GPT(shipped.PLACE / "shakespeare")
    assert "".join(page.write(PLAY[:begun], 80, temperature=0)) == TOKENIZER.decode(expected[begun:])
    # What each was drawn from is what the model says of the window alone.
    for place in (0, 1, 8, 9, 10, 63, 64, 65, 72, 73, 80):
        length = begun + place
        alone = MODEL(expected[window_start(length, C) : length])[-1]
        assert_close(found["logits"][place], alone, SINGLE, what=place)


def test_a_picked_character_beyond_the_window_changes_only_what_follows(write):
    prompt = TOKENIZER.encode(PLAY[:126]).tolist()
    free = write("picks", prompt, runs(0, 1, 30, 90))
    [z] = TOKENIZER.encode("Z").tolist()
    found = write("picks", prompt, runs(90, picked=[[20, z]]))
    assert found["ids"][:20] == free["ids"][:20]
    assert found["ids"][20] == z != free["ids"][20]
    assert found == write("picks, fresh", prompt, runs(90, picked=[[20, z]]))
    assert free == write("picks", prompt, runs(90))
