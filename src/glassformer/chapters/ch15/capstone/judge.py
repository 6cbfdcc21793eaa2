"""Put a stage's checks to the reader's design, whatever that does."""

from dataclasses import dataclass, replace
from typing import Any

from glassformer.exercises.attempt import NotAttempted, altered, raised, too_long
from glassformer.exercises.expect import Wrong
from glassformer.exercises.surroundings import as_it_was, replaced, untouched_randomness
from glassformer.exercises.timelimit import OutOfTime, Stop, call_within

from .adapter import NUMBERS, Missing, Own
from .learning import BY_HEART, FROM_TEXT, loss, training, wake
from .reading import embedding, tokenizer
from .stage import Stage
from .thinking import attention, block, model
from .weights import shipped_model, weights
from .writing import cache, generation

STAGES: dict[str, Stage] = {
    stage.name: stage
    for stage in (
        tokenizer, embedding, attention, block, model, loss, training, generation, cache, weights, shipped_model,
    )
}  # fmt: skip
"""In the order in which a GPT is built. The last is the star."""

RIGHT, WRONG, OPEN, INTERRUPTED = "right", "wrong", "open", "interrupted"
SECONDS = 120.0  # for a stage: training takes the most, a few seconds for a model of a sensible size

# What has to be a little trained to be looked at, if it begins with zeros: a block that adds nothing yet, a head
# that says nothing.
OF_A_TEXT = (model.name, loss.name, training.name, generation.name)
AFTER_ZEROS = (block.name, model.name, generation.name, cache.name)


@dataclass(frozen=True)
class Verdict:
    """The outcome of a stage: one of the four words above, how many checks passed, what to say, whose idea it is."""

    stage: str
    status: str
    passed: int = 0
    message: str = ""
    chapter: str = ""
    mistake: str = ""
    aside: tuple[str, ...] = ()


@untouched_randomness()
def judge(adapter: Any, name: str, seconds: float = SECONDS) -> Verdict:
    """One stage. Raises nothing that the reader's code could cause."""
    stage = STAGES[name]
    verdict = Verdict(name, OPEN, chapter=stage.words.chapter)
    passed = 0

    def run() -> Verdict:
        nonlocal passed
        try:
            own = Own(adapter)
            lacks = [piece for piece in stage.words.needs if not own.has(piece)]
            if lacks:
                raise Missing(lacks[0])
            if name in OF_A_TEXT:
                own.context_length  # noqa: B018 - too short a one is told before any check
            if name in AFTER_ZEROS:
                wake(own, "block" if stage is block else "logits")
            for _, check in stage.checks:
                check(own)
                passed += 1
        except Stop:
            raise
        except Missing as missing:
            return replace(verdict, passed=passed, message=_lacking(str(missing)))
        except NotAttempted as stub:
            return replace(verdict, passed=passed, message=str(stub))
        except Wrong as wrong:
            return replace(
                verdict,
                status=WRONG,
                passed=passed,
                message=str(wrong),
                chapter=getattr(wrong, "chapter", verdict.chapter),
                mistake=getattr(wrong, "mistake", ""),
            )
        except BaseException as error:  # sys.exit() too: the notebook runs on
            return replace(verdict, status=WRONG, passed=passed, message=raised(error))
        return replace(verdict, status=RIGHT, passed=passed)

    before, changed = replaced(), []
    try:
        with as_it_was() as changed:
            found = call_within(seconds, run)
    except OutOfTime as late:
        found = replace(verdict, status=WRONG, passed=passed, message=_too_long(name, seconds, late.stopped))
    except KeyboardInterrupt:
        return replace(verdict, status=INTERRUPTED, passed=passed, message="you interrupted it.")
    if found.status == WRONG:
        found = replace(found, aside=tuple(altered(before, list(dict.fromkeys(changed)))))
    return found


def _too_long(name: str, seconds: float, stopped: bool) -> str:
    said = too_long(seconds, stopped)
    if name != training.name:
        return said
    steps = f"{BY_HEART + FROM_TEXT} steps of `learn`, at most, on a few short texts"
    return (
        f"{said} This stage takes {steps}: let the model be small, or give it more time with `seconds=600`."
    )


def _lacking(name: str) -> str:
    if name in NUMBERS or name == "d_model":
        says = {
            "vocab_size": "how many ids there are",
            "context_length": "how many ids it can read at once",
            "d_model": "how many numbers a vector of the stream has, since there is no `embed` to ask",
        }
        return f"your adapter has no `{name}`: {says[name]}."
    return f"your adapter has no `{name}` yet."
