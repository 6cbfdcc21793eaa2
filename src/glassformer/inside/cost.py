"""Measures a forward and backward pass part by part: multiply-adds, other operations, and saved arrays.

The numbers come from a run, not from formulas: an array counts what NumPy does with it, and every layer
reports when it is active.
"""

import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from glassformer.inside.look import check_model, check_no_state, check_one_stream, of_either_room
from glassformer.inside.reporting import reporting
from glassformer.scratch import Transformer, cross_entropy_backward
from glassformer.scratch.layer import Layer
from glassformer.shapes import Integer

PARTS = (
    "embedding",
    "norms",
    "attention: maps",
    "attention: scores and mix",
    "feed-forward: maps",
    "feed-forward: activation",
    "head",
)
_OF_KIND = {
    "TokenEmbedding": "embedding",
    "LayerNorm": "norms",
    "RMSNorm": "norms",
    "MultiHeadAttention": "attention: scores and mix",
    "KeyValueSharing": "attention: scores and mix",
    "LatentAttention": "attention: scores and mix",
    "CompressedAttention": "attention: scores and mix",
    "FeedForward": "feed-forward: activation",
    "Router": "feed-forward: activation",
    "Expert": "feed-forward: activation",
    "Experts": "feed-forward: activation",
    "Unembedding": "head",
}


@dataclass
class Cost:
    """The cost of one part. A multiply-add of a product counts as one, and so does a number computed otherwise."""

    products: Counter[str] = field(default_factory=Counter)  #: by direction: "forward", "back"
    other: Counter[str] = field(default_factory=Counter)
    saved: int = 0  #: bytes saved for the backward pass; arrays saved by several parts count for the first


@of_either_room
def cost(model: Transformer, ids: Integer[np.ndarray, " T"]) -> dict[str, Cost]:
    """Returns a decoder's cost for one text, forward and back, by part of `PARTS`. Leaves the model unchanged.

    Derived in chapter 09.

    Raises:
        ValueError: as for `logit_lens`, or a layer has a state or vectors of its own.
        TypeError: the model is not a NumPy Transformer.
    """
    check_model(model)
    check_one_stream(model)
    if model.config.layer_embeddings is not None:
        raise ValueError("the model has layer_embeddings, which belong to none of the parts that are counted")
    check_no_state(model, "the systems of equations that it solves would not be counted")
    model, ids = copy.deepcopy(model), np.array(ids)  # a view would keep more memory than is read
    meter = _Meter()
    for path, layer in list(model.layers()):
        for name, value in list(vars(layer).items()):
            if isinstance(value, np.ndarray):
                setattr(layer, name, reporting(value, meter.count))
        part = _part_of(path, layer)
        if part:
            _watch(layer, part, meter)
    saved = _Saving(meter)
    logits = model(ids[:-1], saved=saved)
    grad = cross_entropy_backward(np.asarray(logits), ids[1:])
    model.backward(reporting(grad, meter.count), saved)
    return {part: meter.by_part[part] for part in PARTS}


class _Meter:
    """Records which part is active and what each part has done."""

    def __init__(self) -> None:
        self.by_part = {part: Cost() for part in (*PARTS, "elsewhere")}
        self.at_work: list[tuple[str, str]] = [("elsewhere", "forward")]

    def count(self, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], result: Any) -> None:
        """Counts an operation for the part that is at work."""
        part, way = self.at_work[-1]
        cost = self.by_part[part]
        if ufunc in (np.matmul, np.vecdot):
            cost.products[way] += inputs[0].shape[-1] * np.size(result)
        elif method == "__call__":
            cost.other[way] += np.size(result)
        else:  # sums and add.at read all their inputs
            cost.other[way] += np.size(inputs[-1 if method == "at" else 0])


class _Saving(list):
    """A list of arrays saved for the backward pass that reports to the meter which part saved them."""

    def __init__(self, meter: _Meter) -> None:
        super().__init__()
        self.meter, self.counted = meter, []

    def append(self, arrays: tuple) -> None:
        super().append(arrays)
        for x in arrays:
            while isinstance(getattr(x, "base", None), np.ndarray):
                x = x.base  # a view takes no extra memory
            if isinstance(x, np.ndarray) and not any(x is other for other in self.counted):
                self.counted.append(x)
                self.meter.by_part[self.meter.at_work[-1][0]].saved += x.nbytes


def _part_of(path: str, layer: Layer) -> str | None:
    kind = type(layer).__name__
    if kind == "Linear":
        return "attention: maps" if "attention" in path else "feed-forward: maps"
    return _OF_KIND.get(kind)


def _watch(layer: Layer, part: str, meter: _Meter) -> None:
    """Lets a layer report that it is active, in either direction."""

    def at_work(run: Callable[..., Any], way: str) -> Callable[..., Any]:
        def watched(*inputs: Any, **options: Any) -> Any:
            meter.at_work.append((part, way))
            y = run(*inputs, **options)
            meter.at_work.pop()
            return y

        return watched

    for name, way in (("forward", "forward"), ("backward", "back")):
        setattr(layer, name, at_work(getattr(layer, name), way))
