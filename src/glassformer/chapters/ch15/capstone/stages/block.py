"""The stage *block*: it adds to the stream, and lets no position see a later one."""

import numpy as np

from ..adapter import GPT, Told
from ..measures.comparing import close, cut_short, differs, leaks, masked_sometimes
from ..measures.loud import also_loud, loud_weights
from ..measures.streams import alike, deaf, heard, stream, through
from ..words import remark
from .stage import Stage

block = Stage("block")


@block.check("the stream keeps its shape")
def _(gpt: GPT) -> None:
    through(gpt, stream(gpt))


@block.check("the same input gives the same output")
def _(gpt: GPT) -> None:
    x = stream(gpt)
    if not close(through(gpt, x), through(gpt, x)):
        raise Told("the same stream gave two different results.", "dropout-in-evaluation")


@block.check("no position depends on a later one")
def _(gpt: GPT) -> None:
    def check() -> None:
        x, other = stream(gpt), stream(gpt)
        other[5] = stream(gpt, 8)[0]
        leaks(differs(through(gpt, other), through(gpt, x)), 5, "position")
        for T in (2, 5):
            other = np.concatenate([x[: T - 1], -x[T - 1 : T]])
            with masked_sometimes(T, len(x)):
                leaks(differs(through(gpt, other), through(gpt, x[:T])), T - 1, "position")

    also_loud(gpt, lambda: through(gpt, stream(gpt)), check)


@block.check("later positions depend on earlier ones")
def _(gpt: GPT) -> None:
    seen, looked = heard(gpt), False
    if not seen:
        with loud_weights(gpt, lambda: through(gpt, stream(gpt))) as looked:
            seen = heard(gpt) if looked else []
    if not seen:
        message = "each earlier position was replaced in turn, and the last row of the result never changed."
        raise deaf(gpt, message, looked)
    if 0 not in seen:
        gpt.remark(remark("window", what="position", n=8, first=seen[0]))


@block.check("the block adds to its input")
def _(gpt: GPT) -> None:
    # A large stream, too: it shows that a block adds even if its first weights are far too large.
    x = stream(gpt, 3, 12)
    most = max(alike(size * x, through(gpt, size * x)) for size in (1.0, 1000.0))
    if most < 0.2:
        message = f"the output hardly resembles the input (average cosine {most:.2f})."
        raise Told(message, "residual-dropped")


@block.check("it makes no difference how many positions follow")
def _(gpt: GPT) -> None:
    x = stream(gpt)

    def check() -> None:
        whole = through(gpt, x)
        for n in (4, 1):
            if not close(through(gpt, x[:n]), whole[:n]):
                raise cut_short(n)

    also_loud(gpt, lambda: through(gpt, x), check)
    rows = through(gpt, np.tile(stream(gpt, 9, 1), (9, 1)))
    if len(differs(rows, np.broadcast_to(rows[-1], rows.shape))):
        gpt.remark(remark("values-by-position"))


block.your_own_code("block", lambda gpt: through(gpt, stream(gpt)))
