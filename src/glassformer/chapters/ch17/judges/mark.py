"""Judges "Back to a mark" (chapter 17): the state after the accepted tokens of a draft.

A state is one number here. `_Model` hands it out, and counts how often it was copied and how many tokens were read.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

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
    """A state that knows which model it belongs to. An answer gets it itself, and may copy it."""

    def __init__(self, number: float, model: "_Model") -> None:
        self.number, self.model, self.given = number, model, False

    def copy(self) -> "_State":
        made = _State(self.number, self.model)
        made.given = True
        self.model.copies += 1
        return made

    __copy__ = copy

    def __repr__(self) -> str:
        return f"a state of {self.number:g}"

    def __deepcopy__(self, memo: dict) -> "_State":
        if self.given:
            return self.copy()
        self.given = True  # the first copy is the one that every argument is
        return self


def _kind(value: Any) -> str:
    """Describes what an answer has in place of a state."""
    return "an array: copy a state with state.copy()" if isinstance(value, np.ndarray) else describe(value)


class _Model:
    """Reads tokens, changing a state in place or leaving a useless one; knows how many are accepted."""

    def __init__(self, *, in_place: bool) -> None:
        self.in_place, self.copies = in_place, 0
        self.draft, self.n, self.read = [], 0, []

    def __deepcopy__(self, memo: dict) -> "_Model":
        return self

    def step(self, state: _State, token: float) -> _State:
        if not isinstance(state, _State):
            raise Wrong(f"`step` needs a state and a token; yours has {_kind(state)}.")
        self.read.append(token)
        number = state.number / 2 + token
        if self.in_place:
            state.number = number
            return state
        state.number = math.nan
        made = _State(number, self)
        made.given = True
        return made

    def accepted(self) -> int:
        if len(self.read) < len(self.draft):
            said = f"your function called accepted() after {len(self.read)} of {len(self.draft)} tokens."
            raise Wrong(said, what="too early", got=len(self.read))
        return self.n

    def judge(self, answer: Callable, start: float, draft: Sequence[float], n: int) -> float:
        """Checks the answer for one draft, and returns the number of its state."""
        self.draft, self.n, self.read = list(draft), n, []
        got = answer(_State(start, self), self.step, list(draft), self.accepted)
        what = f"the state after a draft of {len(draft)} tokens, {n} of which are accepted,"
        if not isinstance(got, _State):
            raise Wrong(f"{what} should be a state; yours is {_kind(got)}.")
        want = start
        for token in draft[:n]:
            want = want / 2 + token
        try:
            expect(got.number, want, what)
        except Wrong as wrong:  # without a copy, the same number has another cause
            wrong.got = wrong.got, self.copies > 0
            raise
        return want


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
            _Model(in_place=in_place).judge(read_draft, 16.0, _DRAFT, n)


@marked.check("one draft after another")
def _(read_draft):
    model, number = _Model(in_place=True), 16.0
    for draft, n in (((2.0, 8.0, 4.0), 1), ((6.0, 3.0), 2), ((7.0,), 0), ((5.0, 9.0, 1.0, 2.0), 3)):
        number = model.judge(read_draft, number, draft, n)


@marked.check("few copies, and no token is read without need")
def _(read_draft):
    for n in (8, 5, 0):
        model = _Model(in_place=True)
        model.judge(read_draft, 16.0, _DRAFT * 2, n)
        if model.copies > 2:
            said = f"for a draft of 8 tokens, your function copied the state {model.copies} times."
            raise Wrong(
                f"{said} One copy is enough, and two are allowed.", what="copies", got=model.copies >= 8
            )
        needed = 8 if n == 8 else 8 + n
        if len(model.read) > needed:
            said = f"if {n} of 8 tokens are accepted, {needed} calls of `step` are enough; yours are"
            raise Wrong(f"{said} {len(model.read)}.", what="calls", got=len(model.read))


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
