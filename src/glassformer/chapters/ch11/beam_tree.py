"""Beam search as a tree: which texts continue at every step, which are dropped, and what is found."""

from typing import Any

import numpy as np
from traitlets import Enum, Int, List, TraitError, default, validate

from glassformer.generate import beam_search, generate
from glassformer.scratch import Transformer
from glassformer.scratch.loss import cross_entropy
from glassformer.trace import trace
from glassformer.widgets.engine.model import ModelView
from glassformer.widgets.kit.view import Number, Text

LONGEST = 100  # characters of a prompt
MOST_BEAMS, MOST_NEW = 6, 12
ENDS = ("", ".", "\n")


class BeamTree(ModelView, module="beam_tree"):
    """Every candidate of a beam search, column by column: those that continue, those that are dropped, and the best.

    The search is `generate.beam_search`, and the greedy text is that of `generate`. The notebook stores the
    results of all beam widths for the initial text.

    Derived in chapter 11.

    Traits:
        model: a decoder, in any form that `ModelView` takes. Read-only.
        text: the prompt, up to 100 characters.
        n_beams: how many texts continue, up to 6.
        n_new: how many characters are written, up to 12.
        end: a character with which a text also ends, "." or a line break; "" is none.
        length_penalty: a text is worth its log-probability / length^length_penalty.
        step: how many steps are shown; beyond the last one, all.
        node: the candidate that the sentence is about, [step from 0, place in its column].

    Raises:
        TraitError: a trait is outside its range, or the model cannot be shown.
    """

    _families = ("decoder",)
    _shortest = MOST_NEW + 1

    text = Text(shortest=1, longest=LONGEST).tag(sync=True)
    n_beams = Int(3, min=1, max=MOST_BEAMS).tag(sync=True)
    n_new = Int(8, min=1, max=MOST_NEW).tag(sync=True)
    end = Enum(ENDS, "").tag(sync=True)
    length_penalty = Number(0.0, min=0.0, max=2.0).tag(sync=True)
    step = Int(MOST_NEW, min=0, max=MOST_NEW).tag(sync=True)
    node = List(Int(min=0), [5, 2], minlen=2, maxlen=2).tag(sync=True)

    def found(self, n_return: int = 1) -> list[tuple[str, float]]:
        """Returns the texts that the search finds, best first: the new characters and their score."""
        prompt, stop_ids = self._inputs()
        results = beam_search(
            self._source.model,
            prompt,
            self.n_new,
            n_beams=self.n_beams,
            n_return=n_return,
            length_penalty=self.length_penalty,
            stop_ids=stop_ids,
        )
        return [(self._source.tokenizer.decode(ids[len(prompt) :]), worth) for ids, worth in results]

    def greedy(self) -> tuple[str, list[float]]:
        """Returns the text of greedy decoding, and the log-probability after each character."""
        ids, totals = self._greedy(self._source.model)
        return self._source.tokenizer.decode(ids), totals

    def _inputs(self) -> tuple[np.ndarray, list[int]]:
        encode = self._source.tokenizer.encode
        room = self._source.config.context_length - MOST_NEW
        return encode(self.text)[-room:], encode(self.end).tolist() if self.end else []

    def _greedy(self, model: Transformer) -> tuple[np.ndarray, list[float]]:
        prompt, stop_ids = self._inputs()
        (ids,) = generate(model, prompt, self.n_new, temperature=0, stop_ids=stop_ids)
        new = ids[len(prompt) :]
        logits = model(ids[:-1])[-len(new) :].astype(np.float64)
        losses = [
            cross_entropy(row, target) for row, target in zip(logits[:, None], new[:, None], strict=True)
        ]
        return new, (-np.cumsum(losses)).tolist()

    @default("text")
    def _default_text(self) -> str:
        return super()._default_text()[:17]

    @default("_stored")
    def _default_stored(self) -> dict[str, Any]:
        model = self._source.model
        prompt, stop_ids = self._inputs()
        searches = []
        for n_beams in range(1, MOST_BEAMS + 1):
            with trace() as seen:
                beam_search(
                    model,
                    prompt,
                    self.n_new,
                    n_beams=n_beams,
                    length_penalty=self.length_penalty,
                    stop_ids=stop_ids,
                )
            searches.append([_rounded(step) for step in seen.arrays("candidates")])
        ids, totals = self._greedy(model)
        return {
            "of": [self.text, self.n_new, self.end, self.length_penalty],
            "searches": searches,
            "greedy": [[i, round(total, 5)] for i, total in zip(ids.tolist(), totals, strict=True)],
        }

    @validate("end")
    def _validate_end(self, proposal: dict) -> str:
        if proposal["value"] not in self._source.tokenizer.characters:  # "" is in every text
            raise TraitError(f"end={proposal['value']!r} is not a character that the model knows")
        return proposal["value"]


def _rounded(candidates: np.ndarray) -> list[list[int | float]]:
    return [[int(beam), int(token), round(score, 5)] for beam, token, score in candidates.tolist()]
