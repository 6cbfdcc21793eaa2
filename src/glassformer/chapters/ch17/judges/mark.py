"""Judges "Back to a mark" (chapter 17): the state after the accepted tokens of a draft."""

import math
from collections.abc import Callable, Sequence
from typing import Any

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, describe, expect


def read_draft(state: Any, step: Callable, draft: Sequence[Any], accepted: Callable) -> Any:
    """Returns the state after the accepted tokens of a draft, all of which has to be read to know how many they are."""
    mark = state.copy()
    for token in draft:
        state = step(state, token)
    n = accepted()
    if n == len(draft):
        return state
    for token in draft[:n]:
        mark = step(mark, token)
    return mark


marked = exercise("state.mark", read_draft)


class _State:
    """A state of one number, and a list of all copies that were made of it."""

    def __init__(self, number: float, copies: list) -> None:
        self.number, self.copies = number, copies

    def copy(self, memo: Any = None) -> "_State":
        made = _State(self.number, self.copies)
        self.copies.append(made)
        return made

    __copy__ = __deepcopy__ = copy

    def __repr__(self) -> str:
        return f"a state of {self.number:g}"


def _reads(answer: Callable, n: int, draft: Sequence[float], *, in_place: bool) -> tuple[int, int]:
    """Checks the answer for a draft with n accepted tokens; returns how often it copied a state and called `step`.

    A step changes the state in place, or returns a new one and makes the old one useless.
    """
    copies: list[_State] = []
    read: list[float] = []

    def step(state: _State, token: float) -> _State:
        if not isinstance(state, _State):
            raise Wrong(
                f"`step` needs what state.copy() or `step` has returned; yours has {describe(state)}."
            )
        read.append(token)
        number = state.number / 2 + token
        state.number = number if in_place else math.nan
        return state if in_place else _State(number, copies)

    def accepted() -> int:
        if len(read) < len(draft):
            said = f"your function called accepted() after {len(read)} of {len(draft)} tokens."
            raise Wrong(said, what="too early", got=len(read))
        return n

    got = answer(_State(16.0, copies), step, list(draft), accepted)
    what = f"the state after a draft of {len(draft)} tokens, {n} of which are accepted,"
    if not isinstance(got, _State):
        raise Wrong(f"{what} should be a state; yours is {describe(got)}.")
    want = 16.0
    for token in draft[:n]:
        want = want / 2 + token
    own = len(copies) - 1  # the first is made of every argument
    try:
        expect(got.number, want, what)
    except Wrong as wrong:  # without a copy, the same number has another cause
        wrong.got = wrong.got, own > 0
        raise
    return own, len(read)


_DRAFT = (2.0, 8.0, 4.0, 1.0)  # from 16: 10, 13, 10.5, 6.25
for _title, _in_place, *_many in (
    ("the whole draft is accepted", True, 4),
    ("two tokens of four: as if the others had never been read", True, 2),
    ("one, three or none of them", True, 3, 1, 0),
    ("a step that returns a new state, and spoils the old one", False, 4, 3, 1, 0),
):

    @marked.check(_title)
    def _(read_draft, in_place=_in_place, many=_many):
        for n in many:
            _reads(read_draft, n, _DRAFT, in_place=in_place)


@marked.check("few copies, and no token is read without need")
def _(read_draft):
    for n, needed in ((8, 8), (5, 13), (0, 8)):
        copies, calls = _reads(read_draft, n, _DRAFT * 2, in_place=True)
        if copies > 2:
            said = (
                f"for a draft of 8 tokens, your function copied the state {copies} times. One copy is enough."
            )
            raise Wrong(said, what="copies", got=copies >= 8)
        if calls > needed:
            said = f"if {n} of 8 tokens are accepted, {needed} calls of `step` are enough; yours are {calls}."
            raise Wrong(said, what="calls", got=calls)


@marked.mistake("a copy for each token")
def _(state, step, draft, accepted):
    states = [state.copy()]
    for token in draft:
        states.append(step(states[-1].copy(), token))
    return states[accepted()]


@marked.mistake("asked first")
def _(state, step, draft, accepted):
    for token in draft[: accepted()]:
        state = step(state, token)
    return state
