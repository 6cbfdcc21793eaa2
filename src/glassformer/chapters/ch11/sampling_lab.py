"""Shows the distribution behind every character that the model writes, and how a strategy changes it."""

from typing import Any, ClassVar

import numpy as np
from jaxtyping import Float
from traitlets import Bool, Int, List, TraitError, default, validate

from glassformer.generate import distribution
from glassformer.widgets.engine.model import ModelView
from glassformer.widgets.engine.writer import written
from glassformer.widgets.kit.view import Number, UpTo

MAX_WRITTEN = 400  # characters beyond the prompt
AT_FIRST = 60  # that are there before the reader writes any
MAX_STORED = 110  # characters whose logits are stored: a trait weighs 60 kB at most
STRATEGY = ("temperature", "top_k", "top_p", "min_p")


class SamplingLab(ModelView, module="sampling_lab"):
    """The sampling lab: every character that the model writes, and the distribution that it was drawn from.

    The text depends only on the traits. Character `i` after the prompt is drawn with number `i` of mulberry32
    from `seed`, unless the reader has picked it by hand. So the same settings always write the same text, and
    another temperature writes another text with the same random numbers. A second column, if `compared`, uses
    the same numbers with its own strategy. At first, every cut is off. If a text is longer than the context, the model
    sees its end, from a multiple of half the context on (`past_context="half"` of `generate`).

    Derived in chapter 11.

    Traits, beside those of `ModelView`, whose `text` is the prompt:
        temperature, top_k, top_p, min_p: as in `glassformer.generate.distribution`; temperature 1, as many as there are
            characters, 1 and 0 change nothing.
        other_temperature, other_top_k, other_top_p, other_min_p: those of the second column.
        compared: whether there is a second column.
        seed: of the numbers, 0 to 99.
        length: how many characters are written, up to 400.
        position: the character whose distribution is shown, from 0; `length` is the one that would be drawn
            next.
        picked, other_picked: [position, character] of those that were chosen by hand, in either column.
        branches: texts that were left when the reader picked another character, as the traits that write them.

    Raises:
        TraitError: a value outside its range, or a picked character that the model does not know.
    """

    temperature = Number(1.0, min=0, max=2).tag(sync=True)
    top_k = UpTo(lambda view: view._source.config.vocab_size, least=1).tag(sync=True)
    top_p = Number(1.0, min=0.01, max=1).tag(sync=True)
    min_p = Number(0.0, min=0, max=1).tag(sync=True)
    other_temperature = Number(0.0, min=0, max=2).tag(sync=True)
    other_top_k = UpTo(lambda view: view._source.config.vocab_size, least=1).tag(sync=True)
    other_top_p = Number(1.0, min=0.01, max=1).tag(sync=True)
    other_min_p = Number(0.0, min=0, max=1).tag(sync=True)
    compared = Bool(False).tag(sync=True)
    seed = Int(7, min=0, max=99).tag(sync=True)
    length = Int(AT_FIRST, min=0, max=MAX_WRITTEN).tag(sync=True)
    position = Int(min=0).tag(sync=True)
    picked = List().tag(sync=True)
    other_picked = List().tag(sync=True)
    branches = List().tag(sync=True)

    _families: ClassVar[tuple[str, ...]] = ("decoder",)

    def strategy(self, *, other: bool = False) -> dict[str, Any]:
        """Returns the keywords for `glassformer.generate.distribution`, for the first or the other column."""
        return {name: getattr(self, f"other_{name}" if other else name) for name in STRATEGY}

    def written(self, *, other: bool = False) -> tuple[str, Float[np.ndarray, "N V"]]:
        """Computes what the view shows, with `glassformer.generate` and `glassformer.scratch`.

        Returns:
            the characters beyond the prompt; and the logits that each was drawn from, with those of the next, so
            that there is one row more than there are characters.
        """
        return written(
            self._source,
            self.text,
            self.seed,
            self.length,
            strategy=self.strategy(other=other),
            picked=dict(self.other_picked if other else self.picked),
        )

    @default("_stored")
    def _default_stored(self) -> dict[str, Any]:
        columns = [self.written(other=other) for other in (False, True)[: 1 + self.compared]]
        most = MAX_STORED // len(columns)
        return {
            "text": self.text,
            "columns": [
                {"written": text[: most - 1], "logits": logits[:most].tolist()} for text, logits in columns
            ],
        }

    @default("position")
    def _default_position(self) -> int:
        """Returns an instructive position: not the likeliest character was drawn, but one of the next five."""
        first = self._stored["columns"][0]
        logits, drawn = np.array(first["logits"]), self._source.tokenizer.encode(first["written"])
        left = distribution(logits, **self.strategy())
        ranks = [(row > row[id]).sum() for row, id in zip(left, drawn, strict=False)]
        found = [1 <= rank <= 5 for rank in ranks]
        return found.index(True) if True in found else self.length

    @validate("picked", "other_picked")
    def _validate_picked(self, proposal: dict) -> list:
        known = self._source.tokenizer.characters
        for pick in proposal["value"]:
            match pick:
                case [int(place), str(character)] if (
                    place >= 0 and len(character) == 1 and character in known
                ):
                    continue
            raise TraitError(
                f"{proposal['trait'].name} has {pick!r}, which is not a [position, character] of the model"
            )
        return proposal["value"]
