"""Masked characters in the reader's own line, predicted from both sides and from the left side only."""

import inspect
import json
from typing import Any

import numpy as np
from jaxtyping import Float
from traitlets import Bool, Dict, Int, List, TraitError, default, validate

from glassformer.scratch import softmax
from glassformer.tasks import MaskedToken
from glassformer.widgets.engine.model import ModelView, Source, source_of
from glassformer.widgets.engine.mulberry import uniform
from glassformer.widgets.kit.view import Made, Text

OTHER = "shakespeare"  # the decoder that guesses from the left side only
BEFORE = "\n"  # what the decoder reads before the text, so that there is something to the left of its first character
SHOWN = 5  # how many of the likeliest characters have a bar
ONE_IN = 7  # characters are covered at random: about as many as training asks for
TINY = np.finfo(np.float64).tiny  # for a probability that is rounded to 0
LEARNED = inspect.signature(MaskedToken).parameters["share"].default


def at_random(length: int, seed: int) -> list[int]:
    """Returns one in seven positions of a text, at least one: those that get the smallest numbers."""
    count = max(1, round(length / ONE_IN))
    return sorted(np.argsort(uniform(seed, length), kind="stable")[:count].tolist())


def look(p: Float[np.ndarray, " V"], true: int, n_characters: int) -> dict[str, Any]:
    """Describes a guess: the likeliest characters, the entropy, and the loss and rank of the true one."""
    order = np.argsort(-p, kind="stable")
    best = [int(id) for id in order if id < n_characters][:SHOWN]
    some = p[p > 0]
    return {
        "best": [[id, round(float(p[id]), 5)] for id in best],
        "entropy": round(float(-(some * np.log(some)).sum()), 5),
        "loss": round(float(-np.log(max(p[true], TINY))), 5),
        "rank": int(np.flatnonzero(order == true)[0]) + 1,
    }


class FillIn(ModelView, module="fill_in"):
    """Mask characters of a line: an encoder predicts them from both sides, a decoder from the left side only.

    The encoder reads the whole text, with the mask id at every masked position. The decoder reads the
    original text up to the position in question, including earlier masked characters, with a newline before
    the first character. Masked positions can be filled in one after another: the surest of the remaining
    guesses is written down, and the whole text is read again.

    Source: Devlin et al. 2019, "BERT", section 3.1. Used in chapter 12.

    Traits, beside those of `ModelView`:
        covered: which positions are covered, in order; those beyond the text wait until it is longer.
        position: the position whose guesses are shown; beyond the end of the text, the last.
        steps: how many covered positions are filled in, the surest first; at most all of them.
        seed: of the last random cover.
        compared: whether the decoder's guesses are shown as well.

    Raises:
        TraitError: a position that no text has or that comes twice, or a text longer than the model's context.
    """

    text = Text(shortest=1, longest=lambda view: view._source.config.context_length).tag(sync=True)
    covered = List().tag(sync=True)
    position = Int(min=0).tag(sync=True)
    steps = Int(0, min=0).tag(sync=True)
    seed = Int(0, min=0).tag(sync=True)
    compared = Bool(True).tag(sync=True)
    _task = Made(lambda view: {"mask": view._n_characters, "share": LEARNED}).tag(sync=True)
    _other = Dict().tag(sync=True)

    _families = ("encoder",)

    def __init__(self, model: str = "masked", **traits: Any) -> None:
        super().__init__(model, **traits)

    @property
    def _left(self) -> Source | None:
        """The decoder, if it knows the same characters."""
        source = source_of(OTHER)
        return source if source.tokenizer.characters == self._source.tokenizer.characters else None

    def guesses(self) -> tuple[dict[int, Float[np.ndarray, " V"]], list[tuple[int, int]]]:
        """Computes the encoder's guesses at covered positions, and what it filled in, with `glassformer.scratch`.

        Returns:
            the probabilities by position: of one that was filled in, those that decided it; and [position, id] of
            these in order.
        """
        ids = self._source.tokenizer.encode(self.text)
        left = [t for t in self.covered if t < len(ids)]
        ids[left] = self._task["mask"]
        said, filled = {}, []
        for step in range(min(self.steps, len(left)) + 1):
            p = softmax(self._source.model(ids).astype(np.float64))
            said |= {t: p[t] for t in left}
            if step == self.steps or not left:
                break
            characters = p[left, : self._n_characters]
            surest = int(characters.max(axis=-1).argmax())
            filled.append((left.pop(surest), int(characters[surest].argmax())))
            ids[filled[-1][0]] = filled[-1][1]
        return said, filled

    def from_the_left(self) -> Float[np.ndarray, "T V"]:
        """Returns the decoder's prediction of every character from those before it."""
        decoder = source_of(OTHER)
        ids = decoder.tokenizer.encode(BEFORE + self.text)
        return softmax(decoder.model(ids[:-1]).astype(np.float64))

    @property
    def _n_characters(self) -> int:
        return len(self._source.tokenizer.characters)

    def _file(self, what: str) -> bytes | None:
        return source_of(OTHER).weights if what == f"weights of {OTHER}" else super()._file(what)

    @default("text")
    def _default_text(self) -> str:
        return super()._default_text()[: self._source.config.context_length]

    @default("covered")
    def _default_covered(self) -> list[int]:
        return at_random(len(self.text), self.seed)

    @validate("covered")
    def _validate_covered(self, proposal: dict) -> list[int]:
        covered, context = proposal["value"], self._source.config.context_length
        for t in covered:
            if type(t) is not int or not 0 <= t < context:
                raise TraitError(f"covered has {t!r}, which is not one of 0 … {context - 1}")
        if sorted(set(covered)) != covered:
            raise TraitError(f"covered={covered} must be in order, each position once")
        return covered

    @default("position")
    def _default_position(self) -> int:
        both, left = (dict(self._stored[name]) for name in ("looks", "left"))
        gained = [t for t in both if both[t]["rank"] == 1 and left.get(t, {}).get("rank", 1) > 1]
        return min(gained or both, default=0)  # where the right side tells, if there is such a place

    @default("_other")
    def _default_other(self) -> dict[str, Any]:
        left = self._left
        return {} if left is None else {"name": OTHER, "config": json.loads(left.config.to_json())}

    @default("_stored")
    def _default_stored(self) -> dict[str, Any]:
        ids, n = self._source.tokenizer.encode(self.text), self._n_characters
        said, filled = self.guesses()
        looks = {t: look(p, ids[t], n) for t, p in said.items()}
        left = {} if self._left is None else dict(enumerate(self.from_the_left()))
        return {
            "text": self.text,
            "covered": self.covered,
            "steps": self.steps,
            "filled": filled,
            "looks": list(looks.items()),
            "left": [[t, look(left[t], ids[t], n)] for t in sorted(looks) if left],
        }
