"""The stage *block*: it adds to the stream, and lets no position see a later one."""

import numpy as np

from ..adapter import GPT, Told
from ..measures.comparing import close, differs
from ..measures.loud import also_loud
from ..measures.rows import of_block, stream, through
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
    rows = of_block(gpt)
    also_loud(gpt, lambda: through(gpt, stream(gpt)), lambda: rows.see_nothing_later(9, 5, (2, 5)))


@block.check("later positions depend on earlier ones")
def _(gpt: GPT) -> None:
    message = "each earlier position was replaced in turn, and the last row of the result never changed."
    of_block(gpt).told_if_deaf(9, message)


@block.check("the block adds to its input")
def _(gpt: GPT) -> None:
    def alike(x: np.ndarray, y: np.ndarray) -> float:
        """Returns the average cosine between their rows, each less its mean."""
        x, y = (one - one.mean(axis=1, keepdims=True) for one in (x, y))
        return float(((x * y).sum(1) / np.sqrt((x * x).sum(1) * (y * y).sum(1) + 1e-30)).mean())

    # A large stream, too: it shows that a block adds even if its first weights are far too large.
    x = stream(gpt, 12, 3)
    most = max(alike(size * x, through(gpt, size * x)) for size in (1.0, 1000.0))
    if most < 0.2:
        message = f"the output hardly resembles the input (average cosine {most:.2f})."
        raise Told(message, "residual-dropped")


@block.check("it makes no difference how many positions follow")
def _(gpt: GPT) -> None:
    x = stream(gpt)
    also_loud(gpt, lambda: through(gpt, x), lambda: of_block(gpt).end_alike(x))
    rows = through(gpt, np.tile(stream(gpt, 1, 9), (9, 1)))
    if len(differs(rows, np.broadcast_to(rows[-1], rows.shape))):
        gpt.remark(remark("values-by-position"))


block.your_own_code("block", lambda gpt: through(gpt, stream(gpt)))
