"""Dates in words, translated while you type, and the alignment: where the answer looks while it is written."""

from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Float
from traitlets import Dict, Int, default

from glassformer import dates
from glassformer.generate import generate
from glassformer.scratch import softmax
from glassformer.trace import trace
from glassformer.widgets.engine.model import ModelView
from glassformer.widgets.kit.view import Text, UpTo

MOST_WRITTEN = 16  # characters of an answer, the stop included; a date has eleven
EXAMPLE = "the twenty-third of November, 1984"
SCALES = [10**8, 10**4]  # probabilities and weights are stored as whole numbers of such parts


class Translation(NamedTuple):
    """A greedy translation: what the model writes for a source, and where it looks meanwhile.

    The axes: T characters of the answer, its stop included; S characters of the source; L blocks of the decoder.
    """

    text: str
    probabilities: Float[np.ndarray, "T V"]
    weights: Float[np.ndarray, "L H T S"]


class DateTranslator(ModelView, module="date_translator"):
    """A date in words, and the same date as the book's encoder–decoder writes it, updated while you type.

    Ribbons lead from every character of the answer to the characters of the source that its cross-attention
    looks at, in one head or averaged over a block's heads. If the source has one of the forms of
    `glassformer.dates`, the view knows the right answer and says whether the model's answer is right;
    otherwise it says that it does not know the form.

    Derived in chapter 12.

    Traits:
        model: an encoder–decoder that reads dates, "dates". Read-only.
        text: the source, at most as long as the context.
        block: of the decoder; from 0.
        head: of that block, from 0; −1 is the mean of all its heads.
        position: the character of the answer that is shown in detail, from 0; the stop is the last.

    Raises:
        TraitError: there is no such block or head, or the model cannot be shown.
    """

    text = Text(shortest=1, longest=lambda view: view._source.config.context_length).tag(sync=True)
    block = UpTo(lambda view: view._source.config.n_decoder_layers - 1).tag(sync=True)
    head = UpTo(lambda view: view._source.config.n_heads - 1, first=0, least=-1).tag(sync=True)
    position = Int(6, min=0).tag(sync=True)
    _marks = Dict().tag(sync=True)
    _ways = Dict().tag(sync=True)

    _families: ClassVar[tuple[str, ...]] = ("encoder-decoder",)
    _shortest = MOST_WRITTEN + 1

    def __init__(self, model: str = "dates", **traits: Any) -> None:
        super().__init__(model, **traits)

    def translation(self) -> Translation:
        """Computes what the view shows, with `glassformer.generate` and `glassformer.scratch`."""
        model, tokenizer = self._source.model, self._source.tokenizer
        start, stop = self._marks["start"], self._marks["stop"]
        source = tokenizer.encode(self.text)
        (ids,) = generate(
            model, None, MOST_WRITTEN, source=source, start_id=start, stop_ids=[stop], temperature=0
        )
        new = ids[1:]
        with trace() as seen:
            logits = model(ids[None, :-1], memory=model.encode(source[None]))[0]
        weights = np.concatenate(seen.arrays("weights", "cross-attention"))
        text = tokenizer.decode(new[:-1] if new[-1] == stop else new)
        return Translation(text, softmax(logits.astype(np.float64)), weights)

    @default("_marks")
    def _default_marks(self) -> dict[str, int]:
        """The ids that stand for no text: they come after those of the characters."""
        n = len(self._source.tokenizer.characters)
        return {"start": n, "stop": n + 1, "most": MOST_WRITTEN}

    @default("_ways")
    def _default_ways(self) -> dict[str, Any]:
        """Returns the forms in which a date may be written, and the words that they use for the numbers 1, 2, …."""
        numbers = range(1, 32)
        return {
            "forms": list(dates.FORMS),
            "words": {
                "month": dates.MONTHS,
                "month_roman": dates.ROMAN,
                "month_number": [str(i) for i in range(1, 13)],
                "day": [str(i) for i in numbers],
                "day_th": [
                    dates.write_date(_day(i), "{day_th} {month} {year}").source.split()[0] for i in numbers
                ],
                "day_word": dates.DAYS,
                "weekday": dates.WEEKDAYS,
            },
            "years": [dates.FIRST.year, dates.LAST.year],
        }

    @default("text")
    def _default_text(self) -> str:
        known = self._source.tokenizer.characters
        return "".join(c for c in EXAMPLE if c in known) or known[0]

    @default("_stored")
    def _default_stored(self) -> dict[str, Any]:
        found = self.translation()
        return {
            "text": self.text,
            "scales": SCALES,
            "probabilities": np.round(SCALES[0] * found.probabilities).astype(int).tolist(),
            "weights": np.round(SCALES[1] * found.weights).astype(int).tolist(),
        }


def _day(i: int) -> dates.date:
    return dates.date(2000, 1, i)
