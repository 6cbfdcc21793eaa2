"""Puts modules of the views into a page without a view, for the tests of what they export."""

import base64
import json

import numpy as np

from glassformer.widgets.kit.modules import needed, read

LINK = """async ([chains, loader]) => {
  const { link } = await import(URL.createObjectURL(new Blob([loader], { type: "text/javascript" })));
  window.js = Object.assign({}, ...(await Promise.all(chains.map(link))));
  // What a generator returns at its end.
  window.drained = (steps) => {
    for (;;) {
      const { done, value } = steps.next();
      if (done) return value;
    }
  };
  // The bytes of numbers as text, in base64, and back.
  window.textOf = ({ buffer, byteOffset, byteLength }) => {
    const bytes = new Uint8Array(buffer, byteOffset, byteLength);
    let text = "";
    for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
    return btoa(text);
  };
  window.bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  window.viewOf = (text) => new DataView(bytesOf(text).buffer);
  window.doublesOf = (numbers) => textOf(Float64Array.from(numbers));
  // Tensors, each with its numbers in double precision as such a text.
  const mapped = (all, of) => Object.fromEntries(Object.entries(all).map(([name, one]) => [name, of(one)]));
  window.packed = (tensors) => mapped(tensors, ({ shape, data }) => ({ shape, data: doublesOf(data) }));
  window.unpacked = (weights) => mapped(weights, (text) => ({ data: new Float64Array(bytesOf(text).buffer) }));
}"""


def link(page, *modules):
    """Gives a page all that these modules export, in its `js`, and what the tests need around it."""
    chains = [[{"name": name, "source": read(name)} for name in needed(module)] for module in modules]
    page.evaluate(LINK, [chains, read("loader")])
    return page


def opened(browser, *modules):
    """Opens a page with an address, which workers and checksums need, and gives it these modules."""
    page = browser.new_page()
    page.route(
        "http://localhost/", lambda route: route.fulfill(content_type="text/html", body="<!doctype html>")
    )
    page.goto("http://localhost/")
    return link(page, *modules)


def base64_of(content):
    """Returns bytes as the page gets them."""
    return base64.b64encode(content).decode()


def doubles_of(array):
    """Returns an array in double precision as text."""
    return base64_of(np.ascontiguousarray(array, np.float64).tobytes())


def array_of(text, shape=-1, dtype=np.float64):
    """Returns what `doubles_of`, or `textOf` in the page, has made a text of."""
    return np.frombuffer(base64.b64decode(text), dtype).reshape(shape)


def arrays_of(tensors):
    """Returns the arrays that the page has packed."""
    return {name: array_of(given["data"], given["shape"]) for name, given in tensors.items()}


def fields(config):
    """Returns a configuration as JavaScript gets it."""
    return json.loads(config.to_json())
