"""Judges "Leave some out" (chapter 07): numbers are dropped in training, and the rest is scaled up."""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, expect, expect_shape
from glassformer.shapes import Float


def dropout(
    x: Float[np.ndarray, "..."], rate: float, generator: np.random.Generator, training: bool = True
) -> Float[np.ndarray, "..."]:
    """Sets numbers to 0 with probability `rate` in training and divides the rest by 1 − rate; otherwise returns x."""
    if not training:
        return x
    return x * (generator.random(x.shape) >= rate) / (1 - rate)


dropping = exercise("block.dropout", dropout)


def _drawn(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


_x = 1 + np.arange(12.0).reshape(3, 4)
dropping.case("in evaluation, nothing is dropped", _x, 0.5, _drawn(), training=False, want=_x)
dropping.also(_x[0], 0.9, _drawn(), False, want=_x[0])
dropping.also(_x.reshape(2, 3, 2), 0.2, _drawn(), training=False, want=_x.reshape(2, 3, 2))
dropping.case("at a rate of 0, nothing is dropped", _x, 0.0, _drawn(), want=_x)
MANY = np.ones((60, 50))


@dropping.check("each number is dropped, or divided by 1 − rate")
def _(dropout):
    for rate, factor in ((0.2, 1.25), (0.75, 4.0)):
        got = dropout(3 * MANY, rate, _drawn())
        what = f"dropout(x, {rate}, generator)"
        expect_shape(got, (60, 50), what)
        values = np.unique(np.round(np.asarray(got), 5))
        expect(values, [0.0, 3 * factor], f"the values in {what}, where every entry of x is 3,")
    for shape in ((50,), (3, 40, 5)):
        expect_shape(dropout(np.ones(shape), 0.5, _drawn()), shape, f"dropout of x of shape {shape}")


def _near(what: str, got: np.ndarray, want: float, within: float) -> None:
    """Check that every fraction is near to the one that is wanted."""
    far = np.ravel(got)[np.abs(np.ravel(got) - want).argmax()]
    if abs(far - want) > within:
        raise Wrong(f"{what} should be near {want}; yours is {far:.2f}.", what=what, got=round(float(far), 1))


@dropping.check("the rate decides how many are dropped")
def _(dropout):
    for rate in (0.2, 0.75):
        gone = np.asarray(dropout(MANY, rate, _drawn())) == 0
        _near(f"the fraction that dropout(x, {rate}, generator) drops", gone.mean(), rate, within=0.05)


@dropping.check("each number of x is drawn separately")
def _(dropout):
    kept = np.asarray(dropout(MANY, 0.5, _drawn())) != 0
    for axis, name in ((1, "row"), (0, "column")):
        what = f"the fraction of a {name} of {kept.shape[axis]} numbers that is kept at rate 0.5"
        _near(what, kept.mean(axis=axis), 0.5, within=0.4)


@dropping.check("so are the texts of a batch, and adjacent numbers")
def _(dropout):
    kept = np.asarray(dropout(np.ones((8, 30, 20)), 0.5, _drawn())) != 0
    for axis, name in enumerate(("texts of a batch", "positions", "columns")):
        slices = np.moveaxis(kept, axis, 0)
        agree = (slices[1:] == slices[:-1]).mean(axis=(1, 2))
        what = f"the fraction of entries that share their fate in two neighbouring {name} at rate 0.5"
        _near(what, agree, 0.5, within=0.4)


@dropping.check(
    "the random numbers come from the generator: a seed always drops the same numbers, another seed drops others"
)
def _(dropout):
    one, again, other = (np.asarray(dropout(MANY, 0.5, _drawn(seed))) for seed in (1, 1, 2))
    for same, should, seeds in (
        (one == again, True, "the same seed"),
        (one == other, False, "different seeds"),
    ):
        if same.all() != should:
            what = f"two calls with {seeds}"
            others = ("different numbers", "the same numbers")
            said = f"{what} should drop {others[should]}; yours dropped {others[not should]}."
            raise Wrong(said, what=what, got=not should)
