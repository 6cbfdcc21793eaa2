"""Tests that widgets/engine/transformer.js agrees with `scratch`: logits, every traced array, every strategy.

Every model is read twice: with the WebAssembly kernel and in plain JavaScript.
"""

import itertools

import numpy as np
import pytest
from close import ENGINE, SINGLE, assert_close
from linking import array_of, base64_of, fields, link
from safetensors.numpy import save

from glassformer import checkpoints, text
from glassformer.chapters.ch11.sampling_lab import STRATEGY
from glassformer.checkpoints import Checkpoint
from glassformer.config import ModelConfig
from glassformer.generate import distribution, draw, generate
from glassformer.layers import Experts
from glassformer.scratch import Transformer
from glassformer.trace import trace
from glassformer.widgets.engine.model import LINE, source_of

# What the tests ask of the engine. Arrays go to Python as the bytes of their numbers, all of a reading in one text.
PAGE = """(plain) => {
  const models = {};
  const singlesOf = (arrays) => textOf(Float32Array.from(arrays.flatMap((array) => [...array])));
  const likeliest = (logits, V) => {
    const last = Array.from(logits.subarray(-V));
    return last.indexOf(Math.max(...last));
  };
  window.asked = {
    load(name, config, weights) {
      models[name] = new js.Transformer(config, js.readTensors(viewOf(weights)), { plain });
      if (models[name].isFast === plain) throw new Error(`plain=${plain} gives isFast=${plain}`);
    },
    tensors(weights) {
      const tensors = Object.entries(js.readTensors(viewOf(weights)));
      return tensors.map(([name, { shape, data }]) => ({ name, shape, numbers: singlesOf([data]) }));
    },
    // Read pieces one after another, with a cache or without, and give all that was seen.
    read(name, pieces, { source, cached, rewind }) {
      const [places, arrays] = [[], []];
      const see = ({ array, ...place }) => (places.push(place), arrays.push(array));
      const memory = source && models[name].encode(source, see);
      const cache = cached ? models[name].newCache() : undefined;
      for (const [ids, length] of rewind ?? []) {
        models[name].forward(ids, { cache, memory });
        cache.length = length;
      }
      for (const ids of pieces) {
        const logits = models[name].forward(ids, { cache, memory, see });
        if (logits !== arrays.at(-1)) throw new Error("what is given is not what was seen");
      }
      return { places, numbers: singlesOf(arrays) };
    },
    lens: (name, stream) => singlesOf([models[name].lens(Float32Array.from(stream))]),
    // Greedy: ids, the last of them drawn. Past the context the last of them are read again, as "slide" does.
    write(name, prompt, n, withCache) {
      const { context_length: context, vocab_size: V } = models[name].config;
      const ids = [...prompt];
      const cache = models[name].newCache();
      while (ids.length < prompt.length + n) {
        if (!withCache || ids.length > context) cache.length = 0;
        ids.push(likeliest(models[name].forward(ids.slice(-context).slice(cache.length), { cache }), V));
      }
      return ids;
    },
    likeliest(name, ids) {
      const [logits, V] = [models[name].forward(ids), models[name].config.vocab_size];
      return ids.map((_, t) => likeliest(logits.subarray(0, (t + 1) * V), V));
    },
    // How often a new model pauses when it first reads ids, and again, and whether it finds what others find.
    pauses(name, ids, source) {
      const { config, tensors, isFast } = models[name];
      const model = new js.Transformer(config, tensors, { plain: !isFast });
      const expected = singlesOf([models[name].forward(ids, { memory: source && models[name].encode(source) })]);
      const memory = source && model.encode(source);
      const counted = () => {
        const steps = model.steps(ids, { memory });
        for (let pauses = 0; ; pauses++) {
          const { done, value } = steps.next();
          if (done) return [pauses, singlesOf([value]) === expected];
        }
      };
      return [counted(), counted()];
    },
    // Two readings of one model that take turns, as those of two views do: do they find what each finds alone?
    takingTurns(name, texts, cached) {
      const inputs = () => (cached ? { cache: models[name].newCache() } : {});
      const readings = texts.map((ids) => models[name].steps(ids, inputs()));
      const found = texts.map(() => null);
      while (found.includes(null)) {
        readings.forEach((steps, i) => {
          const { done, value } = found[i] ? { done: true, value: found[i] } : steps.next();
          if (done) found[i] = value;
        });
      }
      return found.map((logits, i) => singlesOf([logits]) === singlesOf([models[name].forward(texts[i])]));
    },
    complaint(name, ids, inputs) {
      try {
        models[name].forward(ids, inputs);
      } catch ({ message }) {
        return message;
      }
    },
  };
}"""

# Sizes that are no multiple of four, heads that are together wider than the stream, two stacks of different depths.
ODD = {
    "vocab_size": 7,
    "context_length": 9,
    "d_model": 18,
    "n_layers": 2,
    "n_heads": 3,
    "d_head": 10,
    "d_ff": 27,
    "positions": "rope",
    "rope_base": 30.0,
    "norm": "rmsnorm",
    "norm_eps": 0.01,
    "attention_bias": "none",
    "feedforward": "swiglu",
    "feedforward_bias": False,
    "head": "untied",
}
MIXTURE = Experts(n_experts=5, top_k=3, renormalize=False, scale=1.5)
DRAWN = {
    "an odd decoder": {"qk_norm": True, "embedding_norm": True, "attention_scale": 0.2},
    "an odd encoder": {"family": "encoder", "embedding_norm": True},
    "an odd encoder–decoder": {"family": "encoder-decoder", "n_decoder_layers": 1, "qk_norm": True},
    "an odd mixture": {"kinds": {"sparse": {"d_ff": 21, "experts": MIXTURE}}},
}


def in_double(source):
    """Returns a model that rounds so little that what differs from it is the page's rounding."""
    model = Transformer(source.config, generator=None, dtype=np.float64)
    model.load_state_dict(
        {name: array.astype(float) for name, array in source.model.named_parameters().items()}
    )
    return model.eval()


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Returns name -> Source: a model of the book, or one of DRAWN, whose random weights are saved like a run's."""
    found = {name: source_of(name) for name in ("shakespeare", "experts", "masked", "dates")}
    generator = np.random.default_rng(1)
    for name, more in DRAWN.items():
        config = ModelConfig(**ODD | more)
        shapes = Transformer(config, generator=None).named_parameters()
        weights = {
            key: generator.normal(size=weight.shape).astype(np.float32) for key, weight in shapes.items()
        }
        folder = tmp_path_factory.mktemp("run")
        tokenizer = text.CharTokenizer("abcdefg").to_json()
        checkpoints.save(folder, Checkpoint(1, config, {}, 0, weights, {}, tokenizer=tokenizer))
        found[name] = source_of(str(folder))
    return found


class Engine:
    """A page with transformer.js, where every model is loaded once, and the same models in NumPy."""

    def __init__(self, page, sources, plain):
        self.page, self.sources = page, sources
        self.loaded = {}
        link(page, "transformer").evaluate(PAGE, plain)

    def load(self, name):
        """Returns the NumPy model with the weights that the page has, in float64."""
        if name not in self.loaded:
            found = self.sources[name]
            self.ask("load", name, fields(found.config), base64_of(found.weights))
            self.loaded[name] = in_double(found)
        return self.loaded[name]

    def ask(self, what, *given):
        return self.page.evaluate(f"([...given]) => asked.{what}(...given)", list(given))

    def read(self, name, pieces, **options):
        """Returns [(part, sublayer, name, array), …] of everything that was traced."""
        found = self.ask("read", name, pieces, options)
        numbers, at, seen = array_of(found["numbers"], dtype=np.float32), 0, []
        for place in found["places"]:
            size = np.prod(place["shape"], dtype=int)
            array = numbers[at : at + size].reshape(place["shape"])
            seen.append((place["part"], place["sublayer"], place["name"], array))
            at += size
        assert at == len(numbers)
        return seen


@pytest.fixture(scope="module", params=[False, True], ids=["kernel", "plain"])
def engine(request, browser, sources):
    page = browser.new_page()
    yield Engine(page, sources, request.param)
    page.close()


PLAY = text.corpus()
DATE = "23 November 1984"
READINGS = {
    "one character": ("shakespeare", ["A"], None),
    "the line": ("shakespeare", [LINE], None),
    "the whole context": ("shakespeare", [PLAY[:128]], None),
    "experts": ("experts", [PLAY[:128]], None),
    "experts, a cache, chunks": ("experts", [LINE[:20], LINE[20], LINE[21:]], None),
    "odd sizes, experts": ("an odd mixture", ["abcdefgab"], None),
    "odd sizes, experts, a cache": ("an odd mixture", ["ab", "c", "defgab"], None),
    "an encoder": ("masked", ["To be, or not to be"], None),
    "an encoder, one character": ("masked", ["T"], None),
    "an encoder, the whole context": ("masked", [PLAY[:64]], None),
    "an encoder–decoder": ("dates", ["1984-1"], DATE),
    "an encoder–decoder, one character each": ("dates", ["1"], "2"),
    "an encoder–decoder, the whole context": ("dates", [DATE * 4], DATE * 4),
    "odd sizes, a decoder": ("an odd decoder", ["abcdefgab"], None),
    "odd sizes, an encoder": ("an odd encoder", ["gfedca"], None),
    "odd sizes, an encoder–decoder": ("an odd encoder–decoder", ["gfed"], "abcabca"),
    "a cache, chunks": ("shakespeare", [LINE[:20], LINE[20], LINE[21:]], None),
    "a cache, one by one": ("shakespeare", list(LINE[:16]), None),
    "a cache, the whole context": ("shakespeare", [PLAY[:100], PLAY[100:128]], None),
    "a cache, an encoder–decoder, chunks": ("dates", ["1984", "-", "11-2"], DATE),
    "a cache, an encoder–decoder, one by one": ("dates", list("1984-11"), DATE),
    "a cache, odd sizes": ("an odd decoder", ["ab", "c", "defgab"], None),
    "a cache, odd sizes, an encoder–decoder": ("an odd encoder–decoder", ["gf", "e", "dcb"], "abcab"),
}


def in_numpy(model, pieces, source=None, cached=False):
    """Returns the same, computed and traced by `scratch`."""
    cache = {"cache": model.new_cache(1, model.config.context_length)} if cached else {}
    with trace() as seen:
        memory = {} if source is None else {"memory": model.encode(source[None])}
        for ids in pieces:
            model(ids[None], **memory, **cache)
    return seen


def assert_same(found, expected):
    """Asserts that all arrays of a trace are there. Only the page shows the probabilities of all experts."""
    shares = [array for *_, name, array in found if name == "shares"]
    router = [array for *_, name, array in found if name == "probabilities"]
    for p, weights in zip(router, shares, strict=True):
        best = -np.sort(-p, axis=-1)[:, : weights.shape[-1]]
        ratio = weights / best
        assert_close(p.sum(axis=-1), np.ones(len(p)), SINGLE)
        assert_close(ratio, np.broadcast_to(ratio[:, :1], ratio.shape), SINGLE)
    found = [one for one in found if one[2] != "probabilities"]
    assert [one[:3] for one in found] == [one[:3] for one in expected]
    for (*place, here), there in zip(found, expected, strict=True):
        array = there.array[0]
        assert_close(here, array, SINGLE if place[-1] == "logits" else ENGINE, what=place)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", READINGS)
def test_every_array_is_that_of_scratch(engine, case):
    name, pieces, source = READINGS[case]
    model, tokenizer = engine.load(name), engine.sources[name].tokenizer
    pieces = [tokenizer.encode(piece) for piece in pieces]
    source = None if source is None else tokenizer.encode(source)
    cached = "cache" in case
    found = engine.read(
        name,
        [ids.tolist() for ids in pieces],
        source=None if source is None else source.tolist(),
        cached=cached,
    )
    assert_same(found, in_numpy(model, pieces, source, cached))


def test_a_cache_that_was_rewound_is_a_fresh_one(engine):
    model, encode = engine.load("shakespeare"), engine.sources["shakespeare"].tokenizer.encode
    rewind = [[encode("Another text").tolist(), 7], [encode("and a third one.").tolist(), 0]]
    pieces = [encode("A horse!"), encode(" a horse!")]
    found = engine.read("shakespeare", [ids.tolist() for ids in pieces], cached=True, rewind=rewind)
    assert_same(found, in_numpy(model, pieces, cached=True))


@pytest.mark.parametrize("name", ["shakespeare", "an odd decoder", "an odd encoder"])
def test_the_lens_reads_a_stream_as_the_last_one_is_read(engine, name):
    model = engine.load(name)
    ids = np.array([2, 0, 3, 6, 4])
    stack = model.decoder or model.encoder
    with trace() as seen:
        model(ids[None])
    for stream in seen.arrays("stream")[:3]:
        found = array_of(engine.ask("lens", name, stream.ravel().tolist()), (5, -1), np.float32)
        assert_close(found, model.head(stack.norm(stream))[0], SINGLE)


@pytest.mark.parametrize(
    ("name", "source", "sublayers"),
    [
        ("an odd decoder", None, 4),
        ("an odd mixture", None, 4),
        ("an odd encoder", None, 4),
        ("an odd encoder–decoder", [1, 2], 3),
    ],
)
def test_in_steps_it_pauses_after_every_sublayer(engine, name, source, sublayers):
    model = engine.load(name)
    stack = model.encoder if model.config.family == "encoder" else model.decoder
    matrices = sum(array.ndim == 2 for block in stack.blocks for array in block.named_parameters().values())
    first, again = engine.ask("pauses", name, [3, 0, 5], source)
    assert first == [sublayers + matrices, True]  # each matrix is laid out only once
    assert again == [sublayers, True]


@pytest.mark.parametrize(
    ("name", "cached"), [("shakespeare", False), ("shakespeare", True), ("masked", False)]
)
def test_two_readings_of_one_model_may_take_turns(engine, name, cached):
    engine.load(name)
    encode = engine.sources[name].tokenizer.encode
    texts = [encode(PLAY[:60]).tolist(), encode("To be, or not to be").tolist()]
    assert engine.ask("takingTurns", name, texts, cached) == [True, True]


# --- writing ---


@pytest.mark.parametrize("prompt", ["KING RICHARD III:\nA horse! ", "First "])
def test_a_hundred_characters_are_the_same_with_a_cache_and_without(engine, prompt):
    """Without a cache, the text is read at once, and each character must be the likeliest after those before it."""
    model, encode = engine.load("shakespeare"), engine.sources["shakespeare"].tokenizer.encode
    ids = encode(prompt)
    written = engine.ask("write", "shakespeare", ids.tolist(), 100, True)
    assert written == generate(model, ids, 100, temperature=0)[0].tolist()
    assert engine.ask("likeliest", "shakespeare", written)[len(ids) - 1 : -1] == written[len(ids) :]
    assert engine.ask("write", "shakespeare", ids.tolist(), 8, False) == written[: len(ids) + 8]


def test_past_the_context_the_window_slides(engine):
    model, encode = engine.load("shakespeare"), engine.sources["shakespeare"].tokenizer.encode
    ids = encode(PLAY[:126])
    expected = generate(model, ids, 5, temperature=0, past_context="slide")[0]
    assert engine.ask("write", "shakespeare", ids.tolist(), 5, True) == expected.tolist()


# --- what it refuses ---

ONE_OF = "is not one of 0 … 64"
REFUSED = {
    "an id above": ("shakespeare", [3, 65], {}, f"ids[1]=65 {ONE_OF}"),
    "an id below": ("shakespeare", [-1], {}, f"ids[0]=-1 {ONE_OF}"),
    "half an id": ("shakespeare", [0, 1, 2.5], {}, f"ids[2]=2.5 {ONE_OF}"),
    "no id": ("shakespeare", [None], {}, f"ids[0]=null {ONE_OF}"),
    "nothing": ("shakespeare", [], {}, "0 ids do not fit a context of 1 … 128"),
    "too much": ("shakespeare", [0] * 129, {}, "129 ids do not fit a context of 1 … 128"),
    "too much for an encoder": ("masked", [0] * 65, {}, "65 ids do not fit a context of 1 … 64"),
    "nothing after what is cached": (
        "an odd decoder",
        [],
        {"cache": {"length": 3}},
        "0 ids after 3 in the cache do not fit a context of 1 … 9",
    ),
    "too much after what is cached": (
        "an odd decoder",
        [0] * 3,
        {"cache": {"length": 7}},
        "3 ids after 7 in the cache do not fit a context of 1 … 9",
    ),
    "no memory": ("dates", [1], {}, "memory is missing: pass what encode returns for a source"),
    "a memory for one that has no use for it": (
        "shakespeare",
        [1],
        {"memory": [0.0] * 128},
        "family=decoder takes no memory",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_it_says_in_words_what_it_cannot_read(engine, case):
    name, ids, inputs, words = REFUSED[case]
    engine.load(name)
    assert engine.ask("complaint", name, ids, inputs) == words


def test_it_says_in_words_which_weights_are_missing(engine):
    source = engine.sources["an odd decoder"]
    weights = checkpoints.arrays_from(source.weights)
    del weights["decoder.blocks.1.attention.W_k.weight"]
    engine.ask("load", "incomplete", fields(source.config), base64_of(save(weights)))
    assert engine.ask("complaint", "incomplete", [0], {}) == (
        "the weights lack decoder.blocks.1.attention.W_k.weight"
    )


# --- weights ---


def test_every_half_is_read_as_numpy_reads_it(engine):
    halves = np.arange(2**16, dtype=np.uint16).view(np.float16)
    singles = np.array([[1.5, -0.0, 3e38], [1e-45, np.inf, -2.0]], np.float32)
    weights = save({"halves": halves, "singles": singles}, {"note": "no tensor"})
    found = engine.ask("tensors", base64_of(weights))
    assert {one["name"]: one["shape"] for one in found} == {"halves": [2**16], "singles": [2, 3]}
    arrays = {one["name"]: array_of(one["numbers"], one["shape"], np.float32) for one in found}
    np.testing.assert_array_equal(arrays["halves"], halves.astype(np.float32))
    np.testing.assert_array_equal(np.signbit(arrays["halves"][: 2**15]), False)
    np.testing.assert_array_equal(arrays["singles"], singles)
    assert np.signbit(arrays["singles"][0, 1])


def test_another_number_type_is_refused_in_words(engine):
    weights = base64_of(save({"a.weight": np.ones(2)}))
    with pytest.raises(Exception, match=r"a\.weight has dtype F64, but it must be F16 or F32"):
        engine.ask("tensors", weights)


# --- strategies ---

LOGITS = (
    np.round(np.random.default_rng(1).normal(size=(3, 65)) * 3 * 2) / 2
)  # in halves, so that many are equal
LOGITS[1] = 0
LOGITS[2, 5:] = -30
ALONE = [
    {},
    *({"temperature": t} for t in (0, 1e-310, 0.1, 0.7, 3)),
    *({"top_k": k} for k in (1, 3, 20, 64, 65, 100)),
    *({"top_p": p} for p in (1e-9, 0.3, 0.8, 0.999, 1)),
    *({"min_p": p} for p in (0, 0.02, 0.2, 1)),
]
TOGETHER = [
    dict(zip(("temperature", "top_k", "top_p", "min_p"), values, strict=True))
    for values in itertools.product((0, 0.5, 2), (1, 6, 40), (0.4, 0.9, 1), (0, 0.1, 1))
]


def test_every_strategy_of_a_page_occurs():
    for given, name in ((ALONE, "ALONE"), (TOGETHER, "TOGETHER")):
        assert {strategy for one in given for strategy in one} == set(STRATEGY), f"add to {name}"


def test_every_distribution_is_that_of_generate(call):
    cases = [(row, strategy) for row in LOGITS for strategy in (*ALONE, *TOGETHER)]
    found = call.each("transformer", "distribution", [[row.tolist(), strategy] for row, strategy in cases])
    for (row, strategy), here in zip(cases, found, strict=True):
        there = distribution(row[None], **strategy)[0]
        np.testing.assert_allclose(here, there, rtol=0, atol=1e-6, err_msg=str(strategy))
        np.testing.assert_array_equal(np.array(here) == 0, there == 0, err_msg=str(strategy))


def test_softmax_holds_for_large_numbers(call):
    found = call("transformer", "softmax", [1000, 1000, 0, -1e9])
    np.testing.assert_allclose(found, [0.5, 0.5, 0, 0], rtol=0, atol=1e-12)


ROWS = np.array(
    [[0.25, 0.25, 0.25, 0.25], [0, 0.5, 0, 0.5], [0, 0, 1, 0], [0.1, 0.2, 0.3, 0.4], [0.7, 0.3, 0, 0]]
)


def test_an_id_is_drawn_as_generate_draws_it(call):
    uniforms = [0, 2.0**-1074, 0.1, 0.25, 0.3, 0.5, 0.6, 0.7, 0.75, 1 - 2.0**-53]
    uniforms += np.random.default_rng(2).random(20).tolist()
    cases = [(row, uniform) for row in (*ROWS, *(ROWS * 0.999)) for uniform in uniforms]
    found = call.each("transformer", "draw", [[row.tolist(), uniform] for row, uniform in cases])
    expected = draw(np.array([row for row, _ in cases]), np.array([uniform for _, uniform in cases]))
    assert found == expected.tolist()
    assert call("transformer", "draw", [0.7, 0.3, 0], 1) == 1  # 1 is no number in [0, 1), and yet draws an id
