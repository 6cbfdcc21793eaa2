"""Defines an exercise: the question in words, the book's own answer, the checks, and the classic mistakes."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np

from .expect import expect, expect_error, expect_parts, expect_row, expect_shape, show
from .material import quiet
from .slip import Slip
from .source import plain

Step = Callable[[Callable[..., Any]], None]


@dataclass(frozen=True)
class Prose:
    """The text of an exercise, as in ``chapters/chNN/exercises.toml``.

    Attributes:
        name: what the learner passes to `check`, for example ``positions.sinusoidal``.
        chapter: the number of its chapter, for example "04".
        title: its heading in the practice notebook.
        source: where the idea comes from, in the Markdown of the practice notebook.
        difficulty: 1 (a line or two), 2 (needs the chapter) or 3 (needs paper).
        minutes: how long a first-time reader needs.
        why: one line that says why the reference works.
        hints: three hints, each giving away more than the one before.
        mistakes: a sentence for each classic mistake, under the mistake's name.
        builds_on: exercises whose functions this one uses; the practice notebook gets them with `mine`.
        slips: for mistakes that are the answer with pieces of its code replaced, one or several ways to make each: a
            piece, what stands in its place, then perhaps another pair.
    """

    name: str
    chapter: str
    title: str
    source: str
    difficulty: int
    minutes: int
    why: str
    hints: Sequence[str]
    mistakes: Mapping[str, str]
    builds_on: Sequence[str] = ()
    slips: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)

    @property
    def stars(self) -> str:
        """Returns the difficulty as one, two or three stars."""
        return "★" * self.difficulty


@dataclass(frozen=True)
class Check:
    """One mechanism of an exercise. Each step calls the learner's function and raises `Wrong` if the result is wrong.

    `title` says in a few words what must hold; the learner reads it next to a ✓ or a ✗.
    """

    title: str
    steps: list[Step] = field(default_factory=list)


@dataclass(frozen=True)
class Mistake:
    """A classic mistake: its name, what a learner who made it reads, and a function that makes it."""

    name: str
    says: str
    function: Callable[..., Any]


@dataclass(frozen=True)
class Exercise:
    """One exercise: its prose, and everything that judges an answer.

    A judge declares what is right with `case`, `also`, `refuses` and `shape`, usually one line per check. If one call
    and one value are not enough, it uses `check`. Expected values must not come from the reference. A classic mistake
    that is the answer with short pieces of its code replaced stands in the prose. The judge declares the others, which
    come after these: with `slip` if names are replaced or the pieces are long, or else with `mistake`. When an answer
    fails a check, the mistakes run the same check, and the first one with the same wrong value is named. So list the
    likelier of two first.

    Attributes:
        prose: the text of the exercise.
        reference: the book's answer; `check` returns it until the learner's own is right.
        short: what a reader may write instead, if the reference is the library's own function.
        built_on: what `reveal` shows besides: a judge's functions, above the answer, because the reference calls them;
            the package's, below it, because that is how the library does it.
        parts: the names of what the answer returns, if it returns several things.
        axes: the letters of the answer's axes, as in "T D"; if there are several parts, one string for each.
        needs: libraries other than NumPy that the exercise is about, as in ("torch",).
        loads: the shipped models that its checks load, as in ("shakespeare",).
        checks: the checks, in teaching order.
        mistakes: the classic mistakes, in the order in which they are recognised.
    """

    prose: Prose
    reference: Callable[..., Any]
    short: Callable[..., Any] | None = None
    built_on: tuple[Callable[..., Any], ...] = ()
    parts: tuple[str, ...] = ()
    axes: str | tuple[str, ...] = ""
    needs: tuple[str, ...] = ()
    loads: tuple[str, ...] = ()
    checks: list[Check] = field(default_factory=list)
    mistakes: list[Mistake] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Makes the mistakes that stand in the prose."""
        for name, ways in self.prose.slips.items():
            for edits in ways:
                self.slip(name, *edits)

    @property
    def name(self) -> str:
        """Returns the name that the learner passes to `check`."""
        return self.prose.name

    @cached_property
    def answer(self) -> str:
        """Returns the code that a reader may write: the reference's, or a short one if that is the library's own."""
        above = [plain(one, one.__name__) for one in self.built_on if one not in self.library]
        return "\n\n\n".join([*above, plain(self.short or self.reference, self.reference.__name__)])

    @property
    def library(self) -> list[Callable[..., Any]]:
        """Returns the package's own functions for the same, with all that they cover; there may be none."""
        parts = [self.reference, *self.built_on]
        return [part for part in parts if not part.__module__.startswith("glassformer.chapters.")]

    @property
    def letters(self) -> str:
        """Returns the letters of the axes, if the answer is a single array."""
        return self.axes if isinstance(self.axes, str) else ""

    def check(self, title: str) -> Callable[[Step], Step]:
        """Make the decorated function, which takes the learner's function, the next check of this exercise."""

        def add(step: Step) -> Step:
            self.checks.append(Check(title, [step]))
            return step

        return add

    def case(self, title: str, *args: Any, **case: Any) -> None:
        """Add a check: called with these arguments, the learner's function returns the expected value.

        Args:
            title: the title of the check; without one, it is one more call in the previous check, as with `also`.
            *args: the arguments.
            **case: keyword arguments for the learner's function, and the options of `also`.
        """
        if title:
            self.checks.append(Check(title))
        self.also(*args, **case)

    def also(
        self,
        *args: Any,
        want: Any,
        row: int | None = None,
        part: str = "",
        what: str = "",
        being: str = "",
        advice: str = "",
        axes: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Add one more call to the previous check: with these arguments, the learner's function returns `want`.

        Args:
            *args: the arguments; each answer gets fresh copies.
            want: the expected value, or a function that computes it from the same arguments in another way; one value
                per part if the exercise has parts and `part` chooses none.
            row: compare only this row.
            part: compare only this part.
            what: a name for the value, if the call itself does not describe it well.
            being: what the right value is, in words: "cos 2".
            advice: a sentence for an answer whose mistake is not recognised.
            axes: the letters of the value's axes, if they differ from the exercise's own.
            **kwargs: keyword arguments for the learner's function.
        """
        call = what or self._call(args, kwargs)
        wanted = cache(lambda: want(*args, **kwargs) if callable(want) else want)

        def step(learner: Callable[..., Any]) -> None:
            got, right = learner(*args, **kwargs), wanted()
            said = {"being": being, "advice": advice}
            if self.parts:
                letters = (self.axes if axes is None else axes) or [""] * len(self.parts)
                rights = right if not part else [right if name == part else None for name in self.parts]
                values = expect_parts(got, self.parts)
                for name, value, one, letter in zip(self.parts, values, rights, letters, strict=True):
                    if one is not None:
                        expect(value, one, f"{name} of {call}", axes=letter, **said)
            elif row is not None:
                expect_row(got, row, right, call, axes=self.letters if axes is None else axes, **said)
            else:
                expect(got, right, call, axes=self.letters if axes is None else axes, **said)

        self.checks[-1].steps.append(step)

    def shape(self, title: str, *args: Any, want: tuple[int, ...], **kwargs: Any) -> None:
        """Add a check: the result has this shape."""
        call = self._call(args, kwargs)
        self.check(title)(
            lambda learner: expect_shape(learner(*args, **kwargs), want, call, axes=self.letters)
        )

    def refuses(
        self,
        title: str,
        *args: Any,
        what: str = "",
        names: Sequence[int] = (),
        advice: str = "",
        **kwargs: Any,
    ) -> None:
        """Add a check: these arguments raise ValueError, whose message contains `names`; else give `advice`."""
        self.checks.append(Check(title))
        self.also_refuses(*args, what=what, names=names, advice=advice, **kwargs)

    def also_refuses(
        self, *args: Any, what: str = "", names: Sequence[int] = (), advice: str = "", **kwargs: Any
    ) -> None:
        """Add one more call to the previous check: these arguments raise ValueError, too."""
        call = what or self._call(args, kwargs)

        def step(learner: Callable[..., Any]) -> None:
            expect_error(lambda: learner(*args, **kwargs), call, names=names, advice=advice)

        self.checks[-1].steps.append(step)

    def mistake(self, name: str, function: Callable[..., Any] | None = None, **letters: str) -> Any:
        """Add a classic mistake. Its sentence is in the prose; `letters` fill its braces. Also a decorator.

        What NumPy warns of in a mistake is not shown: it would puzzle whoever made another.
        """
        if function is None:
            return lambda function: self.mistake(name, function, **letters)
        says = self.prose.mistakes[name]
        self.mistakes.append(Mistake(name, says.format(**letters) if letters else says, quiet(function)))
        return function

    def slip(self, name: str, *edits: str, **names: Any) -> None:
        """Add a classic mistake: the code that `reveal` shows, with a piece of it replaced.

        Args:
            name: the name of the mistake.
            *edits: a piece of the code, and what stands in its place, wherever it occurs; then perhaps another pair.
            **names: values that the code finds under these names, in place of those in the judge.
        """
        code, near = self.answer, self.short or self.reference
        self.mistake(name, Slip(code, self.reference.__name__, near, edits, names))

    def wrong(self, name: str) -> Callable[..., Any]:
        """Returns the first function that makes the classic mistake of this name."""
        return next(one.function for one in self.mistakes if one.name == name)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Returns the call as text: numbers and small arrays of whole numbers in full, anything else by name."""
        bound = inspect.signature(self.reference).bind(*args, **kwargs)
        names = [name for name, _ in zip(bound.arguments, args, strict=False)]
        said = [_said(name, value) for name, value in zip(names, args, strict=True)]
        said += [f"{name}={_said(name, value)}" for name, value in kwargs.items()]
        return f"{self.reference.__name__}({', '.join(said)})"


def _said(name: str, value: Any) -> str:
    if isinstance(value, bool | int | float):
        return show(value)
    if isinstance(value, str) and len(value) <= 40:
        return repr(value)
    small = isinstance(value, np.ndarray) and value.size <= 8 and np.array_equal(value, np.round(value))
    return "[" + ", ".join(map(show, value)) + "]" if small and value.ndim == 1 else name
