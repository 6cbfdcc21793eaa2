"""Judges "A sublayer among streams" (chapter 18): how a sublayer reads several streams, and writes to them.

Axes: T positions, M streams, D d_model.
"""

import math
from collections.abc import Callable

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong
from glassformer.exercises.material import numbers
from glassformer.scratch.hyper_connections import HyperConnection
from glassformer.shapes import Float


def stream_sublayer(
    streams: Float[np.ndarray, "T M D"],
    reading: Float[np.ndarray, "T M"],
    writing: Float[np.ndarray, "T M"],
    mix: Float[np.ndarray, "T M M"],
    sublayer: Callable,
    eps: float,
) -> Float[np.ndarray, "T M D"]:
    """Returns the streams after a sublayer that reads a sum of them, writes to each, and lets them mix."""
    pre = 1 / (1 + np.exp(-reading)) + eps
    post = 2 / (1 + np.exp(-writing))
    x = (pre[:, :, None] * streams).sum(axis=1)
    y = sublayer(x)
    return np.swapaxes(mix, 1, 2) @ streams + post[:, :, None] * y[:, None, :]


_LIBRARY = HyperConnection.forward, HyperConnection.write
among = exercise("streams.sublayer", stream_sublayer, built_on=_LIBRARY, axes="T M D")


def _number_by_number(streams, reading, writing, mix, sublayer, eps):
    T, M, D = streams.shape
    pre, post = ((1 + np.tanh(one / 2)) / 2 for one in (reading, writing))
    x = [[sum((pre[t, m] + eps) * streams[t, m, d] for m in range(M)) for d in range(D)] for t in range(T)]
    y, after = sublayer(np.array(x)), np.zeros((T, M, D))
    for t, m, d in np.ndindex(T, M, D):
        stays = math.fsum(mix[t, i, m] * streams[t, i, d] for i in range(M))
        after[t, m, d] = stays + 2 * post[t, m] * y[t, d]
    return after


def _times(factor):
    return lambda x: factor * x


def _of_the_past(x):
    """Adds up all positions so far, as attention might, and squares each sum."""
    return x.cumsum(0) ** 2


_three = math.log(3)  # σ(log 3) = ¾ and σ(−log 3) = ¼
_streams = np.array([[[8.0, 0, 4], [0.0, 16, 4]]])
_reading, _writing = np.array([[_three, -_three]]), np.array([[-_three, _three]])
_still, _half = np.eye(2)[None], np.array([[[0.75, 0.25], [0.0, 1.0]]])
among.case(
    "nothing is written or mixed: all streams go on",
    _streams, _reading, _writing, _still, _times(0), 0.0, want=_streams, what="two streams",
)  # fmt: skip
among.case(
    "mix[m, n] says how much of stream m goes on in stream n",
    _streams, _reading, _writing, _half, _times(0), 0.0,
    want=[[[6.0, 0, 3], [2.0, 16, 5]]], what="two streams, ¼ of stream 0 going to stream 1,",
)  # fmt: skip
among.case(
    "the sublayer reads ¾ and ¼ of the streams, and writes ½ and 3/2 of what it returns",
    _streams, _reading, _writing, _still, _times(10), 0.0,
    want=[[[38.0, 20, 24], [90.0, 76, 64]]], what="two streams and ten times what is read",
)  # fmt: skip
among.case(
    "eps is added to what is read, 1 and ½, and not to what is written",
    _streams, _reading, _writing, _still, _times(10), 0.25,
    want=[[[48.0, 40, 34], [120.0, 136, 94]]], what="the same with eps = ¼",
)  # fmt: skip
for _title, _T, _M, _D, _function in (
    ("all at once, for every position by its own numbers", 5, 4, 3, _times(10)),
    ("a sublayer that looks at other positions", 4, 3, 6, _of_the_past),
    ("", 6, 5, 2, _of_the_past),
    ("", 3, 1, 4, _of_the_past),
):
    among.case(
        _title, numbers(_T, _M, _D), numbers(_T, _M, seed=1), numbers(_T, _M, seed=2),
        abs(numbers(_T, _M, _M, seed=3)), _function, 0.1, want=_number_by_number,
        what=f"T = {_T}, M = {_M} and D = {_D}",
    )  # fmt: skip


@among.check("the sublayer is called only once")
def _(stream_sublayer):
    calls: list[int] = []
    stream_sublayer(_streams, _reading, _writing, _half, lambda x: calls.append(1) or 10 * x, 0.0)
    if len(calls) > 1:
        advice = "Once is enough: all streams use the same y."
        raise Wrong(f"you called the sublayer {len(calls)} times.", advice=advice, what="calls", got=calls)
