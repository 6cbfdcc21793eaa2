"""Measures a forward and backward pass: multiply-adds, other operations, and what is saved, part by part.

Read off a run, not computed from formulas: an array counts what NumPy does with it, and every layer says when it is at
work.
"""

import copy
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from glassformer.scratch import Transformer, cross_entropy_backward
from glassformer.scratch.layer import Layer
from glassformer.shapes import Integer

PARTS = (
    "embedding",
    "norms",
    "attention: maps",
    "attention: scores and mix",
    "feed-forward: maps",
    "feed-forward: bend",
    "head",
)
_OF_KIND = {
    "TokenEmbedding": "embedding",
    "LayerNorm": "norms",
    "RMSNorm": "norms",
    "MultiHeadAttention": "attention: scores and mix",
    "FeedForward": "feed-forward: bend",
    "Unembedding": "head",
}


@dataclass
class Cost:
    """The cost of one part. A multiply-add of a product counts as one, and so does a number made by anything else."""

    products: Counter[str] = field(default_factory=Counter)  # by the way: "forward", "back"
    other: Counter[str] = field(default_factory=Counter)
    saved: int = 0  # bytes for the backward pass; what several parts keep counts for the first


def cost(model: Transformer, ids: Integer[np.ndarray, " T"]) -> dict[str, Cost]:
    """Returns what a decoder takes for one text, forward and back, by part of `PARTS`. Leaves the model as it was.

    Derived in chapter 09.
    """
    model, ids = copy.deepcopy(model), np.array(ids)  # a view would keep more than is read
    meter = _Meter()
    for path, layer in list(model.layers()):
        for name, value in list(vars(layer).items()):
            if isinstance(value, np.ndarray):
                setattr(layer, name, _counting(value, meter))
        part = _part_of(path, layer)
        if part:
            _watch(layer, part, meter)
    saved = _Keeping(meter)
    logits = model(ids[:-1], saved=saved)
    grad = cross_entropy_backward(np.asarray(logits), ids[1:])
    model.backward(_counting(grad, meter), saved)
    return {part: meter.by_part[part] for part in PARTS}


class _Meter:
    """Records which part is at work, and what each has done."""

    def __init__(self) -> None:
        self.by_part = {part: Cost() for part in (*PARTS, "elsewhere")}
        self.at_work: list[tuple[str, str]] = [("elsewhere", "forward")]

    def count(self, what: str, n: int) -> None:
        part, way = self.at_work[-1]
        getattr(self.by_part[part], what)[way] += n


class _Counting(np.ndarray):
    """An array that tells a meter what is done with it."""

    meter: _Meter | None = None

    def __array_finalize__(self, of: Any) -> None:
        self.meter = getattr(of, "meter", None)

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: tuple | None = None, **options: Any
    ) -> Any:
        meter = next(x.meter for x in (*inputs, *(out or ())) if isinstance(x, _Counting) and x.meter)
        inputs = tuple(map(_plain, inputs))
        if out is not None:
            options["out"] = tuple(map(_plain, out))
        y = getattr(ufunc, method)(*inputs, **options)
        if ufunc in (np.matmul, np.vecdot):
            meter.count("products", inputs[0].shape[-1] * np.size(y))
        elif method == "__call__":
            meter.count("other", np.size(y))
        else:  # a sum reads what it adds up, and so does add.at
            meter.count("other", np.size(inputs[-1 if method == "at" else 0]))
        if out is not None:
            return out[0]
        return _counting(y, meter) if isinstance(y, np.ndarray) else y


class _Keeping(list):
    """A list of what is saved for the backward pass, which tells the meter for which part."""

    def __init__(self, meter: _Meter) -> None:
        super().__init__()
        self.meter, self.met = meter, []

    def append(self, held: tuple) -> None:
        super().append(held)
        for x in held:
            while isinstance(getattr(x, "base", None), np.ndarray):
                x = x.base  # a view takes no memory of its own
            if isinstance(x, np.ndarray) and not any(x is other for other in self.met):
                self.met.append(x)
                self.meter.by_part[self.meter.at_work[-1][0]].saved += x.nbytes


def _plain(x: Any) -> Any:
    return np.asarray(x) if isinstance(x, _Counting) else x


def _counting(x: np.ndarray, meter: _Meter) -> _Counting:
    counting = np.asarray(x).view(_Counting)
    counting.meter = meter
    return counting


def _part_of(path: str, layer: Layer) -> str | None:
    kind = type(layer).__name__
    if kind == "Linear":
        return "attention: maps" if "attention" in path else "feed-forward: maps"
    return _OF_KIND.get(kind)


def _watch(layer: Layer, part: str, meter: _Meter) -> None:
    """Lets a layer say that it is at work, on either way."""

    def at_work(run: Callable[..., Any], way: str) -> Callable[..., Any]:
        def watched(*inputs: Any, **options: Any) -> Any:
            meter.at_work.append((part, way))
            y = run(*inputs, **options)
            meter.at_work.pop()
            return y

        return watched

    for name, way in (("forward", "forward"), ("backward", "back")):
        setattr(layer, name, at_work(getattr(layer, name), way))
