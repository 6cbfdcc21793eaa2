"""Shows a small Transformer that writes, one character at a time, and how likely each next character was."""

from typing import Any, ClassVar

from traitlets import Int, TraitError, Unicode, default, validate

from glassformer.widgets.engine.model import ModelView
from glassformer.widgets.engine.writer import packed_logits, written
from glassformer.widgets.kit.view import Number

PROMPT = "To be, or not to be: that is the "  # from Hamlet, which is not among the plays in the book's text
ORIGIN = "A line from Hamlet. Type a text of your own!"
FEWEST, MOST = 80, 100  # characters that the view writes at a time: at least, and at most, to finish a word
LONGEST = 800  # characters that it writes in all, until the reader starts over


def is_enough(text: str) -> bool:
    """Returns whether the view stops after these new characters: after `FEWEST`, at the end of a word."""
    return len(text) >= MOST or (len(text) >= FEWEST and not (text[-1].isalpha() or text[-1] == "'"))


class LiveWriter(ModelView, module="live_writer"):
    """A Transformer that writes in front of the reader: the text, the likeliest next characters, the temperature.

    It starts by itself when the reader first sees it, unless they prefer reduced motion, and stops after about
    80 characters. It takes up a text of the reader's a moment after the last key. Until the weights have
    arrived, it shows a recording: what the same model wrote with the same seed, with the logits behind every
    character, so that the temperature moves the bars from the start. Then it goes on live, character `i` drawn
    with number `i` of mulberry32 from `seed`.

    The reader's own text stays as it is; what the model wrote is shown below it. The bars are in the model's
    order, the likeliest first, which no temperature changes.

    Traits, beside those of `ModelView`, whose `text` is what the model goes on from:
        temperature: of the characters still to be drawn, 0 to 2.
        seed: of the random numbers, 0 to 9,999. Starting over takes the next one.
        written: what the model has written after `text`.
        pace: milliseconds per character; the first few take longer.

    Raises:
        TraitError: a value outside its range, or `written` has a character that the model does not know.
    """

    temperature = Number(0.8, min=0, max=2).tag(sync=True)
    seed = Int(0, min=0, max=9999).tag(sync=True)
    written = Unicode("").tag(sync=True)
    pace = Int(150, min=20, max=10_000).tag(sync=True)

    _families: ClassVar[tuple[str, ...]] = ("decoder",)

    @default("text")
    def _default_text(self) -> str:
        known = self._source.tokenizer.characters
        return "".join(c for c in PROMPT if c in known) or known[0]

    @validate("written")
    def _validate_written(self, proposal: dict) -> str:
        text, known = proposal["value"], self._source.tokenizer.characters
        if strange := next((c for c in text if c not in known), None):
            raise TraitError(
                f"written has {strange!r}, which is not one of the model's {len(known)} characters"
            )
        if len(text) > LONGEST:
            raise TraitError(f"written has {len(text)} characters, but must have at most {LONGEST}")
        return text

    @default("_stored")
    def _default_stored(self) -> dict[str, Any]:
        """Returns the recording: what this model writes first, and the logits behind each character."""
        text, logits = written(
            self._source,
            self.text,
            self.seed,
            MOST,
            strategy={"temperature": self.temperature},
            is_done=is_enough,
        )
        return {
            "text": self.text,
            "origin": ORIGIN if self.text == PROMPT else "",
            "written": text,
            "logits": packed_logits(logits),
        }
