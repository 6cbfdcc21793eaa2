"""Compares every backward function of the NumPy room with finite differences, in float64.

Along a random direction d, the loss changes at the rate ⟨gradient, d⟩. The rate is measured with the formula
(8·(f(h) − f(−h)) − (f(2h) − f(−2h))) / 12h. Its error is h⁴ times a fifth derivative, plus the rounding error of f,
at least 1e-16, divided by h. With h = 1e-4, at least nine digits are right.
"""

import re

import numpy as np
import pytest

from glassformer import scratch
from glassformer.scratch import feedforward, layer
from glassformer.scratch.embedding import add_at
from glassformer.scratch.norm import NORMS

from .grid import GRID, SYSTEMS
from .rooms import METHODS, SCRATCH
from .twins import build, draw, given, texts

STEP = 1e-4
ERROR = 1e-9  # relative to the size of the gradient, or to 1 where that is larger


def check(forward, inputs, gradients, rng):
    """Compares `gradients` of a loss, forward(), with finite differences, along a direction of all inputs at once.

    `forward()` reads the arrays of `inputs` anew at every call; they are changed in place. `gradients` and `inputs` are
    dicts. If something is wrong, each input is changed separately to find the culprit.
    """
    assert set(inputs) == set(gradients)

    def is_right(*names):
        kept = {name: inputs[name].copy() for name in names}
        directions = {name: rng.normal(size=inputs[name].shape) for name in names}
        length = np.sqrt(sum(np.vdot(d, d) for d in directions.values()))

        def at(steps):
            for name, start in kept.items():
                inputs[name][...] = start + steps * STEP / length * directions[name]
            return forward()

        measured = (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * STEP)
        at(0)
        claimed = sum(np.vdot(gradients[name], d) for name, d in directions.items()) / length
        size = np.sqrt(sum(np.vdot(gradients[name], gradients[name]) for name in names))
        return abs(measured - claimed) <= ERROR * max(1, size)

    assert {name: array.shape for name, array in inputs.items()} == {n: g.shape for n, g in gradients.items()}
    assert is_right(*inputs), [name for name in inputs if not is_right(name)]


def check_layer(model, call, inputs, *, seed=0, backward=None, back=None, silent=()):
    """Checks the gradients of all inputs and all weights of a layer.

    `call(saved)` runs the layer's forward on `inputs`; `backward` is the layer's own unless given. `back` names what
    `backward` returns: by default, one gradient for the only input. `silent` lists weights that do not affect the
    output.
    """
    rng = np.random.default_rng(seed)
    if model.named_parameters():
        model.load_state_dict(draw({n: w.shape for n, w in model.named_parameters().items()}, seed))
    backward = backward or model.backward
    grad = rng.normal(size=call(None).shape)
    handed_in = grad.copy()

    def gradients_of_inputs():
        saved = [below := ("below",)]  # what others have saved stays where it is
        call(saved)
        gave = backward(grad, saved)
        assert saved == [below]
        np.testing.assert_array_equal(grad, handed_in)  # the gradient that came in is the caller's
        return back(gave) if back else dict(zip(inputs, [gave], strict=True))

    model.zero_gradients()
    of_inputs, gradients = gradients_of_inputs(), model.gradients()
    weights = {n: w for n, w in model.named_parameters().items() if n not in silent}
    assert set(gradients) == set(weights)
    check(
        lambda: np.vdot(grad, call(None)),
        inputs | weights,
        of_inputs | gradients,
        rng,
    )
    gradients_of_inputs()  # once more: gradients add up
    for name, gradient in model.gradients().items():
        np.testing.assert_allclose(gradient, 2 * gradients[name], rtol=1e-12, atol=1e-14)


def normal(*shape, seed=1):
    return np.random.default_rng(seed).normal(size=shape)


def drawn():
    return SCRATCH.parameters()


# Functions


def check_function(function, backward, *inputs):
    """Checks that `backward(grad, *inputs)` gives the gradient of each input, in their order."""
    rng = np.random.default_rng(0)
    grad = rng.normal(size=function(*inputs).shape)
    gave = backward(grad, *inputs)
    names = [str(i) for i in range(len(inputs))]
    check(
        lambda: np.vdot(grad, function(*inputs)),
        dict(zip(names, inputs, strict=True)),
        dict(zip(names, gave, strict=True)),
        rng,
    )


@pytest.mark.parametrize(("function", "slope"), feedforward.SLOPES.items())
def test_slopes(function, slope):
    x = np.linspace(-6, 6, 250).reshape(2, 125)  # relu bends at 0, which is not among them
    for i, j in [(0, 0), (0, 62), (0, 124), (1, 0), (1, 30), (1, 124)]:
        h = np.zeros_like(x)
        h[i, j] = STEP
        near, far = function(x + h) - function(x - h), function(x + 2 * h) - function(x - 2 * h)
        assert abs((8 * near - far)[i, j] / (12 * STEP) - slope(x)[i, j]) <= ERROR
    check_function(function, lambda grad, x: [grad * slope(x)], x)


def test_relu_has_slope_0_at_0():
    np.testing.assert_array_equal(feedforward.relu_slope(np.array([-1.0, -0.0, 0.0, 1.0])), [0, 0, 0, 1])


@pytest.mark.parametrize("shape", [(5,), (3, 5), (2, 3, 1)], ids=str)
def test_softmax(shape):
    check_function(
        scratch.softmax, lambda grad, x: [scratch.softmax_backward(grad, scratch.softmax(x))], normal(*shape)
    )


def test_softmax_of_a_row_of_nothing_has_no_gradient():
    weights = scratch.softmax(np.array([[-np.inf, -np.inf], [-np.inf, 2.0]]))
    np.testing.assert_array_equal(scratch.softmax_backward(normal(2, 2), weights), np.zeros((2, 2)))


MASKS = {
    "none": None,
    "causal": np.tri(3, 4, 1, dtype=bool),
    "a query without keys": np.array([[0, 0, 0, 0], [1, 0, 0, 0], [1, 1, 0, 1]], bool),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("scale", [None, 0.3])
def test_scaled_dot_product_attention(mask, scale):
    q, k, v, bias = normal(2, 3, 5), normal(2, 4, 5, seed=2), normal(2, 4, 5, seed=3), normal(2, 3, 4, seed=4)
    given = {"mask": MASKS[mask], "scale": scale}

    def attend(q, k, v, bias):
        return scratch.scaled_dot_product_attention(q, k, v, score_bias=bias, **given)

    check_function(
        lambda *inputs: attend(*inputs)[0],
        lambda grad, *inputs: scratch.scaled_dot_product_attention_backward(
            grad, *inputs[:3], attend(*inputs)[1], scale=scale
        ),
        q,
        k,
        v,
        bias,
    )


@pytest.mark.parametrize("ignored", [0, 1, 5])
def test_cross_entropy(ignored):
    logits, targets = normal(2, 3, 5), np.array([[0, 4, 1], [3, 3, 2]])
    targets.reshape(-1)[:ignored] = -100
    check_function(
        lambda logits: scratch.cross_entropy(logits, targets),
        lambda grad, logits: [grad * scratch.cross_entropy_backward(logits, targets)],
        logits,
    )
    assert not scratch.cross_entropy_backward(logits, targets)[targets == -100].any()


def test_the_gradient_of_the_loss_does_not_depend_on_how_the_logits_lie_in_memory():
    logits, targets = normal(4, 3, 5), np.arange(12).reshape(4, 3) % 5
    expected = scratch.cross_entropy_backward(logits, targets)
    for lying in (np.asfortranarray(logits), logits.swapaxes(0, 1).copy().swapaxes(0, 1)):
        np.testing.assert_array_equal(scratch.cross_entropy_backward(lying, targets), expected)


def test_adding_at_rows_adds_every_use():
    table = add_at((3, 2), np.array([[2, 0], [2, 2]]), np.arange(8.0).reshape(2, 2, 2))
    np.testing.assert_array_equal(table, [[2, 3], [0, 0], [0 + 4 + 6, 1 + 5 + 7]])


@pytest.mark.parametrize("shape", [(4,), (3, 4), (1, 4), (3, 1), (2, 3, 4), (2, 1, 1), (1, 3, 4)], ids=str)
def test_sum_to_undoes_broadcasting(shape):
    small = normal(*shape)
    check_function(
        lambda small: np.broadcast_to(small, (2, 3, 4)),
        lambda grad, small: [layer.sum_to(grad, shape)],
        small,
    )


# Layers


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)], ids=str)
def test_linear(bias, shape):
    linear, x = scratch.Linear(4, 3, bias=bias, **drawn()), normal(*shape)
    check_layer(linear, lambda saved: linear(x, saved), {"x": x})


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("shape", [(4,), (3, 4), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("eps", [1e-5, 0.5])
def test_norms(norm, shape, eps):
    norm, x = NORMS[norm](4, eps=eps, dtype=np.float64), normal(*shape)
    check_layer(norm, lambda saved: norm(x, saved), {"x": x})


@pytest.mark.parametrize("norm", ["LayerNorm", "RMSNorm"])
def test_norms_of_a_vector_of_equal_features(norm):
    norm, x = getattr(scratch, norm)(4, eps=0.5, dtype=np.float64), np.array([[2.0] * 4, [0.0] * 4])
    check_layer(norm, lambda saved: norm(x, saved), {"x": x})


@pytest.mark.parametrize("activation", feedforward.ACTIVATIONS)
@pytest.mark.parametrize("bias", [True, False])
def test_feedforward(activation, bias):
    network = scratch.FeedForward(4, 5, activation=activation, bias=bias, **drawn())
    x = normal(2, 3, 4)
    check_layer(network, lambda saved: network(x, saved), {"x": x})


def test_token_embedding():
    embedding, ids = scratch.TokenEmbedding(5, 3, **drawn()), np.array([[1, 4, 1], [0, 1, 2]])
    check_layer(embedding, lambda saved: embedding(ids, saved), {}, back=lambda gave: {})


PLACES = {"from 0": None, "alike": np.array([3, 0, 7]), "by row": np.array([[0, 1, 2], [5, 5, 0]])}


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("way", ["embed", "rotate"])
def test_what_adds_to_the_input_and_what_rotates(method, places, way):
    D, H = 12, 3
    method = METHODS[method](SCRATCH, D, H)
    x = normal(2, 3, D) if way == "embed" else normal(2, H, 3, D // H)
    opened, backward = getattr(method, way), getattr(method, f"{way}_backward")
    silent = set(method.named_parameters())
    if isinstance(method, scratch.LearnedPositions) and way == "embed":
        silent = set()
    check_layer(
        method, lambda saved: opened(x, PLACES[places], saved), {"x": x}, backward=backward, silent=silent
    )


@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("by_row", [True, False])
def test_score_bias(bidirectional, by_row):
    method = scratch.T5Positions(
        2, bidirectional=bidirectional, n_buckets=8, max_distance=9, dtype=np.float64, generator=None
    )
    queries, keys = np.array([[0, 4, 2], [9, 30, 1]]), np.array([[0, 1, 2, 3], [7, 7, 8, 0]])
    if not by_row:
        queries, keys = queries[0], keys[0]

    check_layer(
        method,
        lambda saved: method.score_bias(queries, keys, saved),
        {},
        backward=method.score_bias_backward,
        back=lambda gave: {},
    )


ATTENTIONS = {
    "plain": {},
    "causal": {"causal": True},
    "grouped": {"n_heads": 4, "n_kv_heads": 2, "d_head": 2},
    "multi-query": {"n_heads": 4, "n_kv_heads": 1, "d_head": 3, "causal": True},
    "biased": {"bias": "all"},
    "qkv biased": {"bias": "qkv", "scale": 1.0},
    "qk-norm": {"qk_norm": True, "norm_eps": 1e-3, "causal": True},
    "qk-norm last": {"qk_norm": "after", "causal": True},
    "qk-norm without gains": {"qk_norm": "plain", "n_heads": 4, "n_kv_heads": 2, "d_head": 2},
    "grouped qk-norm": {"qk_norm": True, "n_heads": 4, "n_kv_heads": 2, "d_head": 2, "bias": "all"},
}


def self_and_bias(gave):
    x, memory, bias = gave
    assert memory is None
    return {"x": x} if bias is None else {"x": x, "score_bias": bias}


@pytest.mark.parametrize("variant", ATTENTIONS)
@pytest.mark.parametrize("extra", ["nothing", "mask", "bias"])
def test_attention(variant, extra):
    attention = scratch.MultiHeadAttention(6, **{"n_heads": 2, **ATTENTIONS[variant], **drawn()})
    inputs, options = {"x": normal(2, 3, 6)}, {}
    if extra == "mask":
        options["mask"] = np.array([[[[0, 0, 1]]], [[[1, 1, 0]]]], bool)  # causal, two queries see no key
    if extra == "bias":
        inputs["score_bias"] = normal(attention.n_heads, 3, 3, seed=5)
        options["score_bias"] = inputs["score_bias"]
    check_layer(
        attention, lambda saved: attention(inputs["x"], **options, saved=saved), inputs, back=self_and_bias
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("places", PLACES)
def test_attention_with_positions(method, places):
    D, H = 12, 3
    method = METHODS[method](SCRATCH, D, H)
    attention = scratch.MultiHeadAttention(D, H, position_encoding=method, causal=True, **drawn())
    x, bias = normal(2, 3, D), normal(3, 3, seed=5)
    silent = {"position_encoding.weight"} if isinstance(method, scratch.LearnedPositions) else ()
    check_layer(
        attention,
        lambda saved: attention(x, position_ids=PLACES[places], score_bias=bias, saved=saved),
        {"x": x, "score_bias": bias},
        back=self_and_bias,
        silent=silent,
    )


def stream_memory_and_bias(gave):
    return dict(zip(("x", "memory", "score_bias"), gave, strict=True))


@pytest.mark.parametrize("variant", [n for n, v in ATTENTIONS.items() if "causal" not in v])
@pytest.mark.parametrize("masked", [False, True])
def test_cross_attention(variant, masked):
    attention = scratch.MultiHeadAttention(6, **{"n_heads": 2, **ATTENTIONS[variant], **drawn()})
    x, memory, bias = normal(2, 3, 6), normal(2, 4, 6, seed=2), normal(2, 1, 3, 4, seed=5)
    mask = np.array([[[[0, 0, 0, 0]]], [[[1, 1, 0, 1]]]], bool) if masked else None
    check_layer(
        attention,
        lambda saved: attention(x, memory=memory, score_bias=bias, mask=mask, saved=saved),
        {"x": x, "memory": memory, "score_bias": bias},
        back=stream_memory_and_bias,
    )


HEADS = {
    "tied": {},
    "untied": {"head": "untied"},
    "tied, all": {"head_bias": True, "head_transform": True, "head_scale": 0.3},
    "untied, all": {"head": "untied", "head_bias": True, "head_transform": True, "norm": "rmsnorm"},
}


class Head(scratch.Layer):
    """The unembedding and the embedding that shares its weight, as one layer."""

    def __init__(self, config):
        self.embedding = scratch.TokenEmbedding(config.vocab_size, config.d_model, **drawn())
        self.unembedding = scratch.Unembedding(config, **drawn())

    def forward(self, x, saved):
        return self.unembedding(x, self.embedding, saved)

    def backward(self, grad, saved):
        return self.unembedding.backward(grad, saved)


@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("shape", [(8,), (2, 3, 8)], ids=str)
def test_unembedding(kind, shape):
    head, x = Head(SYSTEMS["GPT-2"].replace(**HEADS[kind])), normal(*shape)
    silent = {"embedding.weight"} if "untied" in kind else ()
    check_layer(head, lambda saved: head(x, saved), {"x": x}, silent=silent)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4)], ids=str)
def test_pooler(shape):
    pooler, x = scratch.Pooler(4, **drawn()), normal(*shape)
    check_layer(pooler, lambda saved: pooler(x, saved), {"x": x})


def test_dropout():
    """With a generator that starts anew at each call, the same numbers are dropped, so dropout is a linear map."""
    dropout, x = scratch.Dropout(0.4, generator=None), normal(3, 50)

    def call(saved):
        dropout.generator = np.random.default_rng(3)
        return dropout(x, saved)

    check_layer(dropout, call, {"x": x})


@pytest.mark.parametrize("system", SYSTEMS)
def test_model(system):
    model = build(SCRATCH, GRID[system])
    read = given(SCRATCH, texts(GRID[system], "padded"))
    without = re.compile(r"^pooler|\.indexer\.|\.choice_bias$|\.table$")
    silent = {name for name in model.named_parameters() if without.search(name)}
    check_layer(
        model,
        lambda saved: model(**read, saved=saved),
        {},
        back=lambda gave: {},
        silent=silent,
    )


def test_a_model_with_dropout():
    config = SYSTEMS["2017"].replace(dropout=0.3)
    model = scratch.Transformer(config, generator=None, dtype=np.float64)
    read = texts(config)
    dropouts = [part for _, part in model.layers() if isinstance(part, scratch.Dropout)]
    # each stack's embeddings, and every sublayer of two blocks each
    assert len(dropouts) == 2 + 2 * 2 + 2 * 3

    def call(saved):
        rng = np.random.default_rng(3)
        for part in dropouts:
            part.generator = rng
        return model(**read, saved=saved)

    check_layer(model, call, {}, back=lambda gave: {})


def test_a_model_that_kept_nothing_says_so():
    model = scratch.Transformer(SYSTEMS["GPT-2"], generator=np.random.default_rng(0))
    y = model(np.array([0, 1]))
    with pytest.raises(ValueError, match="saved is empty: pass the list that forward has filled"):
        model.backward(y, [])


def test_no_gradient_leads_through_a_cache():
    model = scratch.Transformer(SYSTEMS["GPT-2"], generator=np.random.default_rng(0))
    ids, cache, saved = np.array([[0, 1]]), model.new_cache(1, 4), []
    with pytest.raises(ValueError, match="no gradient flows through a cache"):
        model(ids, cache=cache, saved=saved)
    assert saved == []
    np.testing.assert_array_equal(model(ids, cache=cache), model(ids))  # the cache is as it was
    with pytest.raises(ValueError, match="no gradient flows through a cache"):
        model.decoder.blocks[0](np.zeros((1, 2, 8), np.float32), cache=cache.blocks[0], saved=[])
