"""Runs a stage's checks on the reader's design, whatever the design does."""

import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Any

from glassformer.exercises.attempt import NotAttempted, altered, raised, too_long
from glassformer.exercises.expect import Wrong
from glassformer.exercises.session import as_it_was, replaced, untouched_randomness
from glassformer.exercises.timelimit import OutOfTime, Stop, call_within, keeper

from .adapter import GPT, Missing, NotLookedAt, Running
from .stages import STAGES
from .stages.training import BY_HEART, FROM_TEXT

RIGHT, WRONG, OPEN, INTERRUPTED = "right", "wrong", "open", "interrupted"
SECONDS = 120.0  # for a stage: training takes the most, a few seconds for a model of a sensible size
PATIENCE = 5.0  # times as long as it may compute: what it may take by the clock on the wall
AT_A_TIME = 20.0  # for a single call of the reader's code, so that an endless loop ends soon

OF_A_TEXT = ("model", "loss", "training", "generation")


@dataclass(frozen=True)
class Verdict:
    """The outcome of a stage."""

    stage: str
    status: str  # one of the four words above
    passed: int = 0  # checks
    message: str = ""
    chapter: str = ""  # which has the idea
    mistake: str = ""  # its name, if it is known
    aside: tuple[str, ...] = ()  # sentences about the session
    remarks: tuple[str, ...] = ()  # sentences about a design that is accepted
    hung: str = ""  # the piece that did not return, if one did not
    unseen: Mapping[str, str] = field(default_factory=dict)  # checks that had nothing to look at, and why


class _Limit:
    """The seconds that are left for a stage, and for the call of the reader's code that runs.

    `call_within` subtracts the time that passes, and asks whether more than 0 is left. On a busy machine most of that
    time goes to other programs, so only what the reader's thread has computed counts; but a thread that waits computes
    nothing, so it may not take more than `PATIENCE` times as long by the clock on the wall.
    """

    def __init__(self, of_stage: float, at_a_time: float, running: Running) -> None:
        self.of_stage, self.of_call, self.at_a_time = of_stage, at_a_time, at_a_time
        self.running, self.calls, self.worked = running, running.calls, 0.0
        self.then = time.monotonic()

    def __isub__(self, passed: float) -> "_Limit":
        worked = self.running.worked()
        if worked is not None:
            passed, self.worked = max(worked - self.worked, passed / PATIENCE), worked
        passed /= self.running.slowness
        self.of_stage -= passed
        self.of_call -= passed
        if self.running.calls != self.calls:
            self.calls, self.of_call = self.running.calls, self.at_a_time
        return self

    def __gt__(self, seconds: float) -> bool:
        return float(self) > seconds

    def __float__(self) -> float:
        return min(self.of_stage, self.of_call)

    def of_next_call(self) -> float:
        """Returns how many seconds the call that begins now may take, where nobody subtracts what has passed.

        Raises:
            Stop: no time is left for the stage.
        """
        before, self.then = self.then, time.monotonic()
        self -= self.then - before
        if self.of_stage <= 0:
            raise Stop
        return float(self) * self.running.slowness


@untouched_randomness()
def judge(
    adapter: Any,
    name: str,
    seconds: float = SECONDS,
    hung: Collection[str] = (),
    if_late: Callable[[Verdict], None] = lambda _: None,
) -> Verdict:
    """Judges one stage. Raises nothing that the reader's code could cause.

    Args:
        adapter: the reader's.
        name: of the stage.
        seconds: how long the stage may take. A single call may take `AT_A_TIME`, or more in proportion if that is
            more than `SECONDS`.
        hung: pieces that did not return in an earlier stage, and are not called again.
        if_late: where only a page can stop the reader's code, this gets the verdict if the call that begins does not
            return in time.
    """
    stage, running = STAGES[name], Running()
    verdict = Verdict(name, OPEN, chapter=stage.words.chapter)
    passed, unseen = 0, dict[str, str]()
    at_a_time = min(seconds, AT_A_TIME * max(1.0, seconds / SECONDS))
    limit: Any = _Limit(seconds, at_a_time, running)
    told: tuple[Any, ...] = ()

    def late(stopped: bool) -> Verdict:
        piece = running.piece if limit.of_call <= limit.of_stage else ""
        if piece:
            message = too_long(at_a_time, stopped).replace("your function", f"`{piece}`", 1)
            message += " If it only needs longer, allow more time with `seconds=600`."
        else:
            message = too_long(seconds, stopped)
            if name == "training":
                message += f" This stage takes at most {BY_HEART + FROM_TEXT} steps of `learn` on a few short texts: "
                message += "use a small model, or allow more time with `seconds=600`."
        return replace(verdict, status=WRONG, passed=passed, message=message, hung=piece, unseen=dict(unseen))

    def begin(piece: str) -> AbstractContextManager:
        nonlocal told
        keep = keeper()
        if keep is None:
            return nullcontext()
        left = limit.of_next_call()
        if told != (piece, passed):
            told = (piece, passed)
            with _unwatched():
                if_late(late(stopped=True))
        return _quietly(keep(left))

    def run() -> Verdict:
        nonlocal passed
        running.begin = begin
        running.begins()
        limit.worked = running.worked() or 0.0  # this may be no thread of its own, which has computed before
        try:
            gpt = GPT(adapter, running, hung)
            lacks = [piece for piece in stage.words.needs if not gpt.has(piece)]
            if lacks:
                raise Missing(lacks[0])
            if name in OF_A_TEXT:
                gpt.context_length  # noqa: B018 - if it is too short, this comes first
            for title, check in stage.checks:
                try:
                    check(gpt)
                except NotLookedAt as why:
                    unseen[title] = str(why)
                passed += 1
        except Stop:
            raise
        except NotAttempted as open_yet:
            return replace(verdict, passed=passed, message=str(open_yet))
        except Wrong as wrong:
            known = {name: getattr(wrong, name) for name in ("chapter", "mistake") if hasattr(wrong, name)}
            return replace(verdict, status=WRONG, passed=passed, message=str(wrong), **known)
        except BaseException as error:  # sys.exit() too: the notebook runs on
            return replace(verdict, status=WRONG, passed=passed, message=raised(error))
        return replace(verdict, status=RIGHT, passed=passed, remarks=tuple(gpt.remarks))

    before, changed = replaced(), []
    try:
        with as_it_was() as changed:
            outcome = call_within(limit, run)
    except OutOfTime as out:
        outcome = late(out.stopped)
    except KeyboardInterrupt:
        return replace(verdict, status=INTERRUPTED, passed=passed, message="it was interrupted.")
    aside = altered(before, list(dict.fromkeys(changed))) if outcome.status == WRONG else ()
    return replace(outcome, unseen=unseen, aside=tuple(aside))


@contextmanager
def _unwatched() -> Iterator[None]:
    """Hides what the checker itself does from those who watch the reader's code (`ownership`, `lines`)."""
    profile, trace = sys.getprofile(), sys.gettrace()
    sys.setprofile(None)
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(trace)
        sys.setprofile(profile)


@contextmanager
def _quietly(limit: AbstractContextManager) -> Iterator[None]:
    """Lets a time limit begin and end unwatched; what runs meanwhile is watched as before."""
    with _unwatched():
        limit.__enter__()
    try:
        yield
    finally:
        with _unwatched():
            limit.__exit__(None, None, None)
