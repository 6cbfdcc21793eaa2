"""Tests the model that learns in a page: its loss and every gradient against `scratch`, in three kinds of memory.

With the WebAssembly kernel and in plain JavaScript, numbers have 32 bits. In plain JavaScript with 64 bits, the
agreement shows that nothing but rounding differs.
"""

import dataclasses

import numpy as np
import pytest
from close import DOUBLE, SINGLE, assert_close
from linking import arrays_of, doubles_of, fields, opened

from glassformer import shipped
from glassformer.config import ModelConfig
from glassformer.scratch import Transformer, cross_entropy, cross_entropy_backward
from glassformer.text import corpus

LEARN = """({ config, rows, weights, inputs, targets, kind, times }) => {
  const model = new js.Trainable(config, rows, kind);
  if (model.isFast !== !(kind.plain || kind.double)) throw new Error(`isFast=${model.isFast}`);
  model.load(unpacked(weights));
  let loss;
  for (let i = 0; i < times; i++) {
    loss = drained(model.loss({ inputs, targets }));
    drained(model.backward({ inputs, targets }));
  }
  return { loss, gradients: packed(model.gradients()) };
}"""

KINDS = {"kernel": {}, "plain": {"plain": True}, "double": {"double": True}}
LEARNED = {
    "positions": "rope",
    "norm": "rmsnorm",
    "feedforward": "swiglu",
    "attention_bias": "none",
    "feedforward_bias": False,
    "qk_norm": True,
    "embedding_norm": True,
    "head": "untied",
}
SIZES = {
    "one head": {"vocab_size": 5, "context_length": 4, "d_model": 16, "n_layers": 1, "n_heads": 1, "d_ff": 16},
    "two heads": {"vocab_size": 18, "context_length": 7, "d_model": 32, "n_layers": 2, "n_heads": 2, "d_ff": 41},
    "a wide layer": {"vocab_size": 65, "context_length": 18, "d_model": 48, "n_layers": 3, "n_heads": 3, "d_ff": 130},
    "its own scale": {
        "vocab_size": 33,
        "context_length": 5,
        "d_model": 32,
        "n_layers": 1,
        "n_heads": 1,
        "d_ff": 64,
        "attention_scale": 0.4243,
        "rope_base": 500.0,
        "norm_eps": 1e-3,
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def learning(browser):
    page = opened(browser, "trainable", "transformer")
    yield page
    page.close()


def drawn(sizes, *, rows, seed=0):
    """Returns a model in float64 whose gains are not 1, and a batch for it."""
    random = np.random.default_rng(seed)
    config = ModelConfig(**LEARNED, **sizes)
    model = Transformer(config, generator=None, dtype=np.float64)
    for weight in model.named_parameters().values():
        if weight.ndim == 1:
            weight[:] = random.uniform(0.5, 1.5, weight.shape)
        else:
            weight[:] = random.normal(size=weight.shape) / np.sqrt(weight.shape[0])
    V, T = config.vocab_size, config.context_length
    return model, random.integers(0, V, (rows, T)), random.integers(0, V, (rows, T))


def ours(model, inputs, targets):
    """Returns the loss and the gradients of `scratch`."""
    saved = []
    logits = model(inputs, saved=saved)
    model.zero_gradients()
    model.backward(cross_entropy_backward(logits, targets), saved)
    return float(cross_entropy(logits, targets)), model.gradients()


def theirs(page, model, inputs, targets, kind, *, times=1, causal=True):
    """Returns the loss and the gradients of the page, which reads the batch `times` times."""
    asked = {
        "config": fields(model.config),
        "rows": len(inputs),
        "weights": {name: doubles_of(weight) for name, weight in model.named_parameters().items()},
        "inputs": inputs.ravel().tolist(),
        "targets": targets.ravel().tolist(),
        "kind": KINDS[kind] | {"causal": causal},
        "times": times,
    }
    found = page.evaluate(LEARN, asked)
    return found["loss"], arrays_of(found["gradients"])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", SIZES)
def test_every_gradient_is_that_of_scratch(learning, sizes, kind):
    model, inputs, targets = drawn(SIZES[sizes], rows=3)
    loss, expected = ours(model, inputs, targets)
    # Twice, so that whatever the first time left behind would show.
    found_loss, found = theirs(learning, model, inputs, targets, kind, times=2)
    within = DOUBLE if kind == "double" else SINGLE
    assert found_loss == pytest.approx(loss, rel=within)
    assert list(found) == list(model.named_parameters())
    for name, gradient in expected.items():
        assert_close(found[name], gradient, within, what=name)


@pytest.mark.parametrize("kind", ["kernel", "double"])
def test_so_is_that_of_the_books_model(learning, kind):
    shown, tokenizer = shipped.load()
    config = dataclasses.replace(shown.config, context_length=64, dropout=0.0)
    model = Transformer(config, generator=None, dtype=np.float64)
    for name, weight in shown.named_parameters().items():
        model.named_parameters()[name][:] = weight
    ids = np.array(tokenizer.encode(corpus()[: 2 * 64 + 1]))
    inputs, targets = ids[:-1].reshape(2, 64), ids[1:].reshape(2, 64)
    loss, expected = ours(model, inputs, targets)
    found_loss, found = theirs(learning, model, inputs, targets, kind)
    within = DOUBLE if kind == "double" else SINGLE
    assert found_loss == pytest.approx(loss, rel=within)
    for name, gradient in expected.items():
        assert_close(found[name], gradient, within, what=name)


def test_without_the_mask_the_gradients_are_those_of_scratch_without_it(learning):
    model, inputs, targets = drawn(SIZES["two heads"], rows=3)
    with_mask, _ = ours(model, inputs, targets)
    for block in model.decoder.blocks:
        block.attention.causal = False
    loss, expected = ours(model, inputs, targets)
    assert loss != pytest.approx(with_mask, rel=1e-6)
    found_loss, found = theirs(learning, model, inputs, targets, "double", causal=False)
    assert found_loss == pytest.approx(loss, rel=DOUBLE)
    for name, gradient in expected.items():
        assert_close(found[name], gradient, DOUBLE, what=name)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"d_model": 24, "n_heads": 1}, "d_model=24 is not a multiple of 16"),
        ({"d_model": 32, "n_heads": 4}, "d_head=8 is not a multiple of 16"),
        ({"qk_norm": False}, "qk_norm=false is not true"),
        ({"norm": "layernorm"}, 'norm="layernorm" is not "rmsnorm"'),
        ({"n_heads": 2, "n_kv_heads": 1}, "n_kv_heads=1 is not n_heads=2"),
        ({"family": "encoder"}, 'family="encoder" is not "decoder"'),
    ],
)
def test_other_models_are_refused_by_name(learning, change, why):
    config = ModelConfig(**{**LEARNED, **SIZES["two heads"], **change})
    assert learning.evaluate("(config) => js.untrainable(config)", fields(config)) == why


def test_the_names_are_those_of_a_checkpoint(learning):
    model, _ = shipped.load()
    found = learning.evaluate("(config) => [...js.weightsOf(config)]", fields(model.config))
    assert found == [[name, list(weight.shape)] for name, weight in model.named_parameters().items()]
