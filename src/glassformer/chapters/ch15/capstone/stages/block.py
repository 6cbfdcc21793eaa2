"""The stage *block*: it adds to the stream, and lets no position see a later one."""

import numpy as np

from ..adapter import Own, Told
from ..measures.comparing import close, cut_short, differs, leaks, masked_sometimes
from ..measures.loud import also_loud, loud_weights
from ..measures.streams import alike, deaf, heard, stream, through
from ..words import remark
from .stage import Stage

block = Stage("block")


@block.check("the stream keeps its shape")
def _(own: Own) -> None:
    through(own, stream(own))


@block.check("the same input gives the same output")
def _(own: Own) -> None:
    x = stream(own)
    if not close(through(own, x), through(own, x)):
        raise Told("the same stream gave two different results.", "dropout-in-evaluation")


@block.check("no position depends on a later one")
def _(own: Own) -> None:
    def check() -> None:
        x, other = stream(own), stream(own)
        other[5] = stream(own, 8)[0]
        leaks(differs(through(own, other), through(own, x)), 5, "position")
        for T in (2, 5):
            other = np.concatenate([x[: T - 1], -x[T - 1 : T]])
            with masked_sometimes(T, len(x)):
                leaks(differs(through(own, other), through(own, x[:T])), T - 1, "position")

    also_loud(own, lambda: through(own, stream(own)), check)


@block.check("later positions depend on earlier ones")
def _(own: Own) -> None:
    seen, looked = heard(own), False
    if not seen:
        with loud_weights(own, lambda: through(own, stream(own))) as looked:
            seen = heard(own) if looked else []
    if not seen:
        message = "each earlier position was replaced in turn, and the last row of the result never changed."
        raise deaf(own, message, looked)
    if 0 not in seen:
        own.remark(remark("window", what="position", n=8, first=seen[0]))


@block.check("the block adds to its input")
def _(own: Own) -> None:
    # A large stream, too: it shows that a block adds even if its first weights are far too large.
    x = stream(own, 3, 12)
    most = max(alike(size * x, through(own, size * x)) for size in (1.0, 1000.0))
    if most < 0.2:
        message = f"the output hardly resembles the input (average cosine {most:.2f})."
        raise Told(message, "residual-dropped")


@block.check("it makes no difference how many positions follow")
def _(own: Own) -> None:
    x = stream(own)

    def check() -> None:
        whole = through(own, x)
        for n in (4, 1):
            if not close(through(own, x[:n]), whole[:n]):
                raise cut_short(n)

    also_loud(own, lambda: through(own, x), check)
    rows = through(own, np.tile(stream(own, 9, 1), (9, 1)))
    if len(differs(rows, np.broadcast_to(rows[-1], rows.shape))):
        own.remark(remark("values-by-position"))


block.your_own_code("block", lambda own: through(own, stream(own)))
