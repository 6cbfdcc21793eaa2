"""Tests the model that learns in a page: its loss and every gradient against `scratch`, in three kinds of memory.

With the WebAssembly kernel and in plain JavaScript, numbers have 32 bits. In plain JavaScript with 64 bits, the agreement
shows that nothing but rounding differs.
"""

import base64

import numpy as np
import pytest
from close import DOUBLE, SINGLE, assert_close

from glassformer.config import ModelConfig
from glassformer.scratch import Transformer, cross_entropy, cross_entropy_backward
from glassformer.widgets.engine.model import source_of
from glassformer.widgets.kit.modules import needed, read

PAGE = """async ([modules, loader]) => {
  const { link } = await import(URL.createObjectURL(new Blob([loader], { type: "text/javascript" })));
  const { Trainable, shapesOf, untrainable } = await link(modules);
  const drained = (steps) => {
    for (;;) {
      const { done, value } = steps.next();
      if (done) return value;
    }
  };
  const numbersOf = (text) => new Float64Array(Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer);
  const textOf = (array) => {
    const bytes = new Uint8Array(Float64Array.from(array).buffer);
    let text = "";
    for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
    return btoa(text);
  };
  window.why = untrainable;
  window.shapes = shapesOf;
  window.learned = ({ config, rows, weights, inputs, targets, kind, times }) => {
    const model = new Trainable(config, rows, kind);
    if (model.isFast !== !(kind.plain || kind.double)) throw new Error(`isFast=${model.isFast}`);
    model.load(Object.fromEntries(Object.entries(weights).map(([name, text]) => [name, { data: numbersOf(text) }])));
    let loss;
    for (let i = 0; i < times; i++) {
      loss = drained(model.loss({ inputs, targets }));
      drained(model.backward({ inputs, targets }));
    }
    const all = Object.entries(model.gradients()).map(([name, { shape, data }]) => [name, { shape, data: textOf(data) }]);
    return { loss, gradients: Object.fromEntries(all) };
  };
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
    page = browser.new_page()
    modules = [{"name": module, "source": read(module)} for module in needed("trainable")]
    page.evaluate(PAGE, [modules, read("loader")])
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
    found = page.evaluate(
        "(asked) => learned(asked)",
        {
            "config": fields(model.config),
            "rows": len(inputs),
            "weights": {
                name: base64.b64encode(np.ascontiguousarray(weight, np.float64).tobytes()).decode()
                for name, weight in model.named_parameters().items()
            },
            "inputs": inputs.ravel().tolist(),
            "targets": targets.ravel().tolist(),
            "kind": KINDS[kind] | {"causal": causal},
            "times": times,
        },
    )
    gradients = {
        name: np.frombuffer(base64.b64decode(given["data"])).reshape(given["shape"])
        for name, given in found["gradients"].items()
    }
    return found["loss"], gradients


def fields(config):
    import json

    return json.loads(config.to_json())


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
