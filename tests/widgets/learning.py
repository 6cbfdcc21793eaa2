"""Runs the engine that learns in a page, for the tests of its parts."""

import base64
import json

import numpy as np

from glassformer.widgets.kit.modules import needed, read

PAGE = """async ([chains, loader]) => {
  const { link } = await import(URL.createObjectURL(new Blob([loader], { type: "text/javascript" })));
  const engine = Object.assign({}, ...(await Promise.all(chains.map(link))));
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
  const packed = (tensors) =>
    Object.fromEntries(Object.entries(tensors).map(([name, { shape, data }]) => [name, { shape, data: textOf(data) }]));
  const unpacked = (weights) =>
    Object.fromEntries(Object.entries(weights).map(([name, text]) => [name, { data: numbersOf(text) }]));
  Object.assign(window, { engine, drained, textOf, packed, unpacked });
}"""


def opened(browser, *modules):
    """Opens a page whose `engine` has everything that these modules export."""
    page = browser.new_page()
    page.route(
        "http://book.test/", lambda route: route.fulfill(content_type="text/html", body="<!doctype html>")
    )
    page.goto("http://book.test/")  # a worker needs an origin
    chains = [[{"name": name, "source": read(name)} for name in needed(module)] for module in modules]
    page.evaluate(PAGE, [chains, read("loader")])
    return page


def bytes_of(array):
    """Returns an array in double precision as text."""
    return base64.b64encode(np.ascontiguousarray(array, np.float64).tobytes()).decode()


def array_of(text, shape=-1):
    """Returns what `bytes_of`, or `textOf` in the page, has made a text of."""
    return np.frombuffer(base64.b64decode(text)).reshape(shape)


def arrays_of(tensors):
    """Returns the arrays that the page has packed."""
    return {name: array_of(given["data"], given["shape"]) for name, given in tensors.items()}


def fields(config):
    """Returns a configuration as JavaScript gets it."""
    return json.loads(config.to_json())
