"""Judges "Why a strength of 2" (chapter 17): what tokens must write so that a state counts ones modulo 2.

Axes: K features of a key.
"""

from collections.abc import Callable

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, as_numbers, expect, expect_parts, expect_shape, show
from glassformer.exercises.material import numbers
from glassformer.shapes import Float


def parity_token(
    token: str,
) -> tuple[Float[np.ndarray, " K"], Float[np.ndarray, " K"], float, float]:
    """Returns the query, key, value and strength of "start", "0" or "1": the sign of the entry is the parity."""
    q = k = np.array([1.0])
    if token == "start":
        return q, k, 1.0, 1.0
    return q, k, 0.0, 2.0 if token == "1" else 0.0


parity = exercise("state.parity", parity_token, parts=("q", "k", "v", "strength"))


def _table(parity_token: Callable) -> dict[str, tuple[np.ndarray, ...]]:
    """Returns the query, key, value and strength of each token: a layer knows only the token.

    Raises:
        Wrong: they do not fit together, or no layer of a model would have them.
    """
    table = {}
    for token in ("start", "0", "1"):
        named = [f'{name} of "{token}"' for name in parity.parts]
        parts = expect_parts(parity_token(token), parity.parts)
        q, k, v, strength = map(as_numbers, parts, named)
        width = len(table["start"][1]) if table else k.size
        expect_shape(q, (width,), named[0], axes="K,")
        expect_shape(k, (width,), named[1], axes="K,")
        for one, name in ((v, named[2]), (strength, named[3])):
            if one.size != 1:
                raise Wrong(f"{name} should be a single number; yours has shape {one.shape}.")
        expect(np.sqrt((k**2).sum()), 1.0, f'the length of the key of "{token}"')
        if not 0 <= strength.item() <= 2:
            raise Wrong(f"{named[3]} should be between 0 and 2; yours is {show(strength.item())}.")
        table[token] = q, k, v.item(), strength.item()
    return table


@parity.check("keys of length 1, and strengths between 0 and 2")
def _(parity_token):
    _table(parity_token)


_LONG = "".join("01"[bit] for bit in (numbers(200, seed=17) > 0).astype(int))
for _title, *_texts in (
    ("the start writes +1", ""),
    ("a 1 turns it into −1", "1"),
    ("and the next 1 turns it back", "11", "1111111"),
    ("a 0 changes nothing", "0", "100", "10010"),
    ("a text of two hundred bits", _LONG),
):

    @parity.check(_title)
    def _(parity_token, texts=_texts):
        table = _table(parity_token)
        for text in texts:
            state, read = np.zeros(len(table["start"][1])), []
            tokens = ["start", *text]
            for q, k, v, strength in map(table.__getitem__, tokens):
                state = state + k * strength * (v - k @ state)
                read.append(q @ state)
            want = [(-1.0) ** text[:n].count("1") for n in range(len(tokens))]
            said = ", ".join(map('"{}"'.format, tokens)) if len(text) < 8 else f"start and {len(text)} bits"
            try:
                expect(np.array(read), want, f"the readings at {said}")
            except Wrong as wrong:  # mistakes that read alike differ in what a 1 writes
                wrong.got = wrong.got, table["1"][2:] if "1" in text else ()
                raise
