"""Shows a whole trained model at once while it reads the reader's text, in letters or in words."""

import json
import re
from typing import Any

import numpy as np
from jaxtyping import Float
from traitlets import Bool, Dict, Enum, Int, TraitError, Unicode, default, validate

from glassformer import shipped
from glassformer.generate.reader import window_start
from glassformer.inside.lens import logit_lens
from glassformer.scratch import softmax
from glassformer.trace import trace
from glassformer.widgets.engine.model import LINE, ModelView, Source, packed, source_of
from glassformer.widgets.kit.view import Number

SHOWN = 4  # how many candidates for the next character the drawing names
FULL = {"stream": 4.0, "neurons": 8.0}  # times the vector's typical size: the strongest colour
BINS = {"stream": 32, "neurons": 43}  # the height of a vector's picture, in pixels
STEPS = 6  # of the tour, which engine/tour.js describes
READS = ("letters", "words")
LETTERS, WORDS = "shakespeare", "words"  # the book's models that the view switches between
# The first text for each: what the model writes next can be seen, as a line break cannot. A token begins with its
# space, so a text for words does not end with one.
OPENING = LINE.removesuffix("horse!")
OPENINGS = {"letters": OPENING, "words": OPENING.rstrip()}
_PART = re.compile(r"text|stream \d+|guess \d+|feedforward \d+|head \d+ \d+")


def picture(vectors: Float[np.ndarray, "*B N"], kind: str) -> Float[np.ndarray, "*B P"]:
    """Turns each vector (..., N) into colours (..., P) from −1 to 1, one for each run of adjacent features.

    A run is represented by its strongest number, as a fraction of `FULL` times the vector's root mean square.
    """
    size = np.sqrt((vectors**2).mean(axis=-1, keepdims=True)) * FULL[kind]
    colours = np.clip(vectors / size, -1, 1)
    each = -(-vectors.shape[-1] // BINS[kind])
    padded = np.zeros((*vectors.shape[:-1], -(-vectors.shape[-1] // each) * each))
    padded[..., : vectors.shape[-1]] = colours
    runs = padded.reshape(*vectors.shape[:-1], -1, each)
    return np.take_along_axis(runs, np.abs(runs).argmax(axis=-1, keepdims=True), axis=-1)[..., 0]


class GlassMachine(ModelView, module="glass_machine"):
    """The whole machine at once: tokens, streams, all heads, all feed-forward networks, and the guess as it forms.

    Read it from top to bottom. Under the text is the stream, a vector for each token, and under each vector is the
    token that the model would write next if it stopped there. (The final norm and the head
    read the stream early, as in the logit lens.) Each block then adds the output of its heads and its
    feed-forward network to the stream. Pointing at a part explains it in a panel that stays in view, with its
    numbers, and highlights whatever it depends on. A tour of six steps leads from the first vector to the guess.

    The reader can switch between two of the book's models: "shakespeare", in which a token is a character, and
    "words", in which it is a word or a piece of one. The text stays the same, and so do the characters that count as
    known: those of the text that both have learned from. The second model is loaded when the reader first wants it.

    A place in the book opens it with a task of its own, for example at a head: `GlassMachine(part="head 2 2",
    position=14, tour=False)`, or in words: `GlassMachine(reads="words", text="My lord, I")`.

    Source of the lens: nostalgebraist 2020, "interpreting GPT: the logit lens". Chapter 01 reads the machine.

    Traits, beside those of `ModelView`:
        reads: "letters" or "words", which only `model="shakespeare"` offers.
        position: the position whose vectors are shown, in characters or in tokens, from 0; beyond the end of the
            text, the last.
        part: what is explained: "text", "stream 2" and "guess 2" (after two blocks), "head 0 3" (of the first
            block, its last head), or "feedforward 0".
        temperature: of the tokens that *Write* draws, 0 to 2; it acts on the bars of the last guess.
        drawn: how many tokens were drawn; each draw has another random number, the same in every visit.
        tour: whether the view offers the tour. It does not start by itself.
        step: the step of the tour that is shown, 1 to 6; 0 is none.

    Raises:
        TraitError: a value outside its range, a part that the model does not have, or words with another model.
    """

    reads = Enum(READS, "letters").tag(sync=True)
    position = Int(min=0).tag(sync=True)
    part = Unicode().tag(sync=True)
    temperature = Number(0.8, min=0, max=2).tag(sync=True)
    drawn = Int(0, min=0).tag(sync=True)
    tour = Bool(True).tag(sync=True)
    step = Int(0, min=0, max=STEPS).tag(sync=True)

    _words = Dict().tag(sync=True)  # the configuration of the model that reads words; empty if there is none
    _families = ("decoder",)

    @default("_words")
    def _default_words(self) -> dict[str, Any]:
        if self._source.own:
            return {}
        return json.loads(shipped.configuration(WORDS).to_json())

    @validate("reads")
    def _validate_reads(self, proposal: dict) -> str:
        reads = proposal["value"]
        if reads == "words" and self._source.own:
            raise TraitError(f"reads='words' needs model={LETTERS!r}, but the model is {self.model!r}")
        return reads

    @property
    def _reader(self) -> Source:
        """Returns the model that reads now."""
        return self._source if self.reads == "letters" else source_of(WORDS)

    @default("text")
    def _default_text(self) -> str:
        text = super()._default_text()
        return OPENINGS[self.reads] if text == LINE else text

    @default("position")
    def _default_position(self) -> int:
        if self.reads == "letters" and self.text in (LINE, OPENING):
            return 14  # its guess changes from block to block
        if self.reads == "words" and self.text == OPENINGS["words"]:
            return 4  # the same word
        return len(self._reader.tokenizer.encode(self.text)) - 1

    @default("part")
    def _default_part(self) -> str:
        return f"guess {self._source.config.n_layers}"

    @validate("part")
    def _validate_part(self, proposal: dict) -> str:
        part = proposal["value"]
        config = self._source.config
        limits = {"stream": config.n_layers + 1, "guess": config.n_layers + 1}
        kind, *numbers = part.split() if _PART.fullmatch(part) else ["", ""]
        within = [limits.get(kind, config.n_layers), config.n_heads]
        if not kind or any(int(number) >= limit for number, limit in zip(numbers, within, strict=False)):
            raise TraitError(
                f"part={part!r} is not text, stream or guess 0 to {config.n_layers}, feedforward or head 0 to "
                f"{config.n_layers - 1}, and for a head which of {config.n_heads}"
            )
        return part

    @default("_stored")
    def _default_stored(self) -> dict[str, Any]:
        """Returns the data for the first drawing's pictures; the numbers come later, with the weights."""
        source = self._reader
        whole = source.tokenizer.encode(self.text)
        hidden = int(window_start(len(whole), source.config.context_length))
        ids, model = whole[hidden:], source.model
        with trace() as seen:
            model(ids[None])
        streams = {
            part: array[0] for part, _, name, array in seen if name == "stream"
        }  # the last of each part
        past = np.tril_indices(len(ids))
        weights = np.stack([array[0][:, *past] for array in seen.arrays("weights")])  # (L, H, T (T + 1) / 2)
        probabilities = softmax(logit_lens(model, ids).astype(np.float64))  # (L + 1, T, V)
        best = np.argsort(-probabilities, axis=-1, kind="stable")[..., :SHOWN]
        opened = min(max(self.position - hidden, 0), len(ids) - 1)
        rows = np.stack([array[0][:, opened, : opened + 1] for array in seen.arrays("weights")])  # (L, H, S)
        # Of words, the whole vocabulary would be long: only what is shown is spelled, and the temperature waits for
        # the weights.
        in_letters = self.reads == "letters"
        shown = () if in_letters else sorted({*ids.tolist(), *best.flatten().tolist()})
        tempered = (opened, len(ids) - 1) if in_letters else ()
        return {
            "reads": self.reads,
            "text": self.text,
            "hidden": hidden,
            "ids": ids.tolist(),
            "spelled": {str(i): source.tokenizer.decode([i]) for i in shown},
            "streams": packed(picture(np.stack(list(streams.values())), "stream")),
            "neurons": packed(picture(np.stack([array[0] for array in seen.arrays("neurons")]), "neurons")),
            "weights": packed(np.sqrt(weights)),  # the square root, so that small weights stay visible
            "guesses": best.tolist(),
            # Where the temperature can act before the weights are here: at the position that is open, and at the end
            "finals": {str(t): [float(f"{p:.4g}") for p in probabilities[-1, t]] for t in tempered},
            # Exact enough for the percentages that are shown of the heads at that position
            "looks": {str(opened): rows.astype(np.float64).round(4).tolist()},
            "probabilities": np.take_along_axis(probabilities, best, axis=-1).round(4).tolist(),
        }

    def _file(self, what: str) -> bytes | None:
        """Returns the weights, or what the model that reads words needs when the reader first switches to it."""
        if not self._source.own and what == f"weights of {WORDS}":
            return source_of(WORDS).weights
        if not self._source.own and what == f"vocabulary of {WORDS}":
            return (shipped.PLACE / WORDS / shipped.TOKENIZER).read_bytes()
        return super()._file(what)
