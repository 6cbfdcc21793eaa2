"""widgets/transformer.js is glassformer.scratch in JavaScript: logits, every array of the trace, every strategy."""

import base64
import json

import numpy as np
import pytest

from glassformer import shipped
from glassformer.generate.strategies import distribution
from glassformer.trace import trace
from glassformer.widgets.model import LINE, source_of
from glassformer.widgets.modules import needed, read

RUN = """async ([modules, loader, config, weights, ids, source]) => {
  const { link } = await import(URL.createObjectURL(new Blob([loader], { type: "text/javascript" })));
  const { Transformer, readTensors } = await link(modules);
  const file = new DataView(Uint8Array.from(atob(weights), (c) => c.charCodeAt(0)).buffer);
  const model = new Transformer(config, readTensors(file));
  const seen = [];
  const see = ({ array, ...one }) => seen.push({ ...one, array: Array.from(array) });
  const memory = source && model.encode(source, see);
  const logits = model.forward(ids, { memory, see });
  return { logits: Array.from(logits), seen };
}"""


@pytest.fixture(scope="module")
def run(browser):
    page = browser.new_page()

    def run(name, ids, source=None):
        found = source_of(name)
        modules = [{"name": module, "source": read(module)} for module in needed("transformer")]
        weights = base64.b64encode(found.weights).decode()
        config = json.loads(found.config.to_json())
        return page.evaluate(RUN, [modules, read("loader"), config, weights, ids, source])

    yield run
    page.close()


TEXTS = {
    "one character": ("shakespeare", "A", None),
    "the line": ("shakespeare", LINE, None),
    "an encoder": ("masked", "To be, or not to be", None),
    "an encoder–decoder": ("dates", "1984-1", "23 November 1984"),
}


@pytest.mark.parametrize("case", TEXTS)
def test_every_array_is_that_of_scratch(run, case):
    name, text, source = TEXTS[case]
    model, tokenizer = shipped.load(name)
    ids = tokenizer.encode(text)
    inputs = {} if source is None else {"source": tokenizer.encode(source)[None]}
    with trace() as expected:
        logits = model(ids[None], **inputs)[0]
    found = run(name, ids.tolist(), None if source is None else tokenizer.encode(source).tolist())
    np.testing.assert_allclose(np.reshape(found["logits"], logits.shape), logits, rtol=0, atol=1e-4)
    assert [(one["part"], one["sublayer"], one["name"]) for one in found["seen"]] == [
        (one.part, one.sublayer, one.name) for one in expected
    ]
    for here, there in zip(found["seen"], expected, strict=True):
        array = there.array[0]
        assert tuple(here["shape"]) == array.shape
        largest = np.abs(array[np.isfinite(array)]).max()
        np.testing.assert_allclose(
            np.reshape(here["array"], array.shape), array, rtol=0, atol=1e-4 * largest, err_msg=str(there[:3])
        )


@pytest.mark.parametrize(
    "strategy",
    [{}, {"temperature": 0}, {"temperature": 0.7}, {"top_k": 3}, {"top_p": 0.8}, {"min_p": 0.2}],
    ids=str,
)
def test_the_distribution_is_that_of_generate(call, strategy):
    logits = np.random.default_rng(1).normal(size=65) * 3
    found = call("transformer", "distribution", logits.tolist(), strategy)
    np.testing.assert_allclose(found, distribution(logits[None], **strategy)[0], rtol=0, atol=1e-6)
