"""Judges "Why a strength of 2" (chapter 17): what tokens must write so that a state counts ones modulo 2.

Axes: K features of a key.
"""

from collections.abc import Callable, Sequence

import numpy as np

from glassformer.exercises.attempt import NotAttempted
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, as_numbers, expect, expect_parts, show
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


def _ask(parity_token: Callable, token: str) -> tuple:
    """Returns the four parts; if there are none, the message names the token."""
    try:
        return expect_parts(parity_token(token), parity.parts)
    except (NotAttempted, Wrong) as said:
        raise type(said)(f'{said} (This was for the token "{token}".)') from None


def _table(parity_token: Callable) -> dict[str, tuple[np.ndarray, ...]]:
    """Returns the query, key, value and strength of each token: a layer knows only the token.

    Raises:
        Wrong: they do not fit together, or no layer of a model would have them.
    """
    table = {}
    for token in ("start", "0", "1"):
        parts = _ask(parity_token, token)
        named = [f'{name} of "{token}"' for name in parity.parts]
        q, k, v, strength = (as_numbers(one, name) for one, name in zip(parts, named, strict=True))
        width = len(table["start"][1]) if table else k.size
        for one, name in ((q, named[0]), (k, named[1])):
            if one.shape != (width,):
                said = f"{name} should have shape (K,) = ({width},); yours has shape {one.shape}."
                raise Wrong(said, what=name, got=one)
        for one, name in ((v, named[2]), (strength, named[3])):
            if one.size != 1:
                raise Wrong(f"{name} should be a single number; yours has shape {one.shape}.")
            if not np.isfinite(one).all():
                raise Wrong(f"{name} should be a finite number; yours is {show(one.item())}.")
        expect(np.sqrt((k**2).sum()), 1.0, f'the length of the key of "{token}"')
        if not 0 <= strength.item() <= 2:
            said = f"{named[3]} should be between 0 and 2; yours is {show(strength.item())}."
            raise Wrong(said, what=named[3], got=strength)
        table[token] = q, k, v.item(), strength.item()
    for token in (*table, "1"):
        again = _ask(parity_token, token)
        if not all(
            np.array_equal(np.ravel(a), np.ravel(b)) for a, b in zip(table[token], again, strict=True)
        ):
            said = f'asked about "{token}" again, your function returned something else.'
            raise Wrong(f"{said} It must decide from the token alone.")
    return table


def _readings(table: dict, tokens: Sequence[str]) -> np.ndarray:
    """Runs the delta rule over the tokens, from an empty state; returns what each query reads."""
    state, read = np.zeros(len(table["start"][1])), []
    for q, k, v, strength in (table[token] for token in tokens):
        state = state + k * strength * (v - k @ state)
        read.append(q @ state)
    return np.array(read)


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
            tokens = ["start", *text]
            want = [(-1.0) ** text[:n].count("1") for n in range(len(tokens))]
            said = (
                ", ".join(map('"{}"'.format, tokens)) if len(tokens) <= 8 else f"start and {len(text)} bits"
            )
            try:
                expect(_readings(table, tokens), want, f"the readings at {said}")
            except Wrong as wrong:  # mistakes that read alike differ in what a 1 writes
                wrong.got = wrong.got, table["1"][2:] if "1" in text else ()
                raise
