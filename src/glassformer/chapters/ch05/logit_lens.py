"""The guess after every block, and how much each part contributed to it, for a text of the reader's own."""

import re
from typing import Any

import numpy as np
from jaxtyping import Float
from traitlets import Int, default

from glassformer.generate.reader import window_start
from glassformer.inside.attribution import logit_attribution
from glassformer.inside.lens import logit_lens
from glassformer.scratch import softmax
from glassformer.widgets.engine.model import LINE, ModelView
from glassformer.widgets.kit.view import UpTo

SHOWN = 5  # of the characters that could come next: those that have a bar


class LogitLens(ModelView, module="logit_lens"):
    """Shows under every character of a text the guess at the next one: from the embedding alone, then after each block.

    The final norm and the head read the stream early, as in the logit lens. Next to the likeliest characters
    at one position, the view shows how much each part of the model adds to the logit of the actual next
    character: direct attribution, with the final norm held at its scale there. After the last character
    nothing follows, so there it uses the logit of the model's own guess.

    Source: nostalgebraist 2020, "interpreting GPT: the logit lens"; Elhage et al. 2021, "A Mathematical Framework
    for Transformer Circuits". Derived in chapter 05.

    Traits, beside those of `ModelView`:
        position: the position whose guesses are shown, from 0; beyond the end of the text, the last.
        depth: how many blocks have written: 0 is the embedding alone.

    Raises:
        TraitError: `position` is below 0, or the model does not have so many blocks.
    """

    position = Int(min=0).tag(sync=True)
    depth = UpTo(lambda view: view._source.config.n_layers).tag(sync=True)

    _families = ("decoder",)

    def added(self) -> Float[np.ndarray, "P T"]:
        """Computes what each part adds to the actual next character's logit, with `glassformer.inside`.

        The parts are the embedding, then of every block its attention and its feed-forward network.
        """
        ids, model = self._ids(), self._source.model
        last = model(ids)[-1].argmax()
        shares = logit_attribution(model, ids, np.append(ids[1:], last))
        parts: dict[str, np.ndarray] = {}
        for name, share in shares.items():
            part = re.sub(r"head \d+", "attention", name)
            parts[part] = parts.get(part, 0) + share
        parts.pop("biases")  # the page runs models without any
        return np.stack(list(parts.values()))

    def _ids(self) -> np.ndarray:
        """Returns the ids that the model sees: of a long text, those from `window_start` on."""
        start = window_start(len(self.text), self._source.config.context_length)
        return self._source.tokenizer.encode(self.text[start:])

    @default("_stored")
    def _default_stored(self) -> dict[str, Any]:
        ids = self._ids()
        probabilities = softmax(logit_lens(self._source.model, ids).astype(np.float64))  # (L + 1, T, V)
        order = np.argsort(-probabilities, axis=-1, kind="stable")
        best = order[..., :SHOWN]
        comes = ids[1:, None]
        right = np.take_along_axis(probabilities[:, :-1], comes[None], axis=-1)[..., 0]
        return {
            "text": self.text[-len(ids) :],
            "guesses": best.tolist(),
            "probabilities": np.take_along_axis(probabilities, best, axis=-1).round(4).tolist(),
            "losses": (-np.log(np.maximum(right, np.finfo(right.dtype).tiny))).round(4).tolist(),
            "ranks": ((order[:, :-1] == comes).argmax(axis=-1) + 1).tolist(),
            "added": self.added().round(3).tolist(),
        }

    @default("position")
    def _default_position(self) -> int:
        return 14 if self.text == LINE else len(self.text) - 1  # there, the last block alone finds what comes

    @default("depth")
    def _default_depth(self) -> int:
        return self._source.config.n_layers - 1
