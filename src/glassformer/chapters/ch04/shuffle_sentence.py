"""Words on cards that can be put in any order, and the output of attention for each order."""

import numpy as np
from jaxtyping import Float
from traitlets import Bool, Enum, Int, List, TraitError, Unicode, default, observe, validate

from glassformer.scratch.attention import causal_mask, scaled_dot_product_attention
from glassformer.scratch.positions import sinusoidal
from glassformer.widgets.engine.mulberry import mulberry32
from glassformer.widgets.kit.view import View

D_MODEL = 8
MAX_WORDS = 12
_UINT32 = 0xFFFFFFFF


def fnv1a(text: str) -> int:
    """The 32-bit FNV-1a hash of the text's UTF-8 bytes: one number that stands for the word."""
    value = 0x811C9DC5
    for byte in text.encode():
        value = ((value ^ byte) * 0x01000193) & _UINT32
    return value


def embed_word(word: str) -> Float[np.ndarray, " D"]:
    """Returns a vector (D,) for any word without a table: uniform with variance one, drawn from its characters."""
    uniform = mulberry32(fnv1a(word))
    return np.array([(2 * next(uniform) - 1) * np.sqrt(3) for _ in range(D_MODEL)])


class ShuffleSentence(View, module="shuffle_sentence"):
    """Put the words of a sentence in another order: whose vector does attention change?

    Each word is a card. Attention (one head, `d_model` 8) gives each card a vector; the view shows by how
    much that vector differs from the one that the same card got in the order as typed. Without positions and
    without a mask attention is permutation-equivariant and the difference is rounding: chapter 04 proves it.

    With two layers, the second reads the sum of the first layer's input and output, the residual stream. The
    view shows only the output of the last layer's attention, without the stream, so positions appear only
    through their effect on attention.

    Traits:
        words: the sentence, 1 to 12 words; the order as typed.
        order: which word lies on each place, a permutation of 0 … number of words − 1.
        positions: whether sinusoidal encodings are added to the words at the place where they lie.
        causal: whether a word may attend only to itself and to the words before it.
        layers: 1 or 2.
        weights: `W_q`, `W_k` and `W_v` (D, D) of each layer as lists, the same in every view. Read-only.

    Raises:
        TraitError: no word or too many, an order that is no permutation, another number of layers.
    """

    words = Unicode("the dog bites the man").tag(sync=True)
    order = List(Int()).tag(sync=True)
    positions = Bool(False).tag(sync=True)
    causal = Bool(False).tag(sync=True)
    layers = Enum([1, 2], 1).tag(sync=True)
    weights = List(read_only=True).tag(sync=True)

    def outputs(self) -> tuple[list[str], Float[np.ndarray, "T D"], Float[np.ndarray, " T"]]:
        """Computes what the view draws, with `glassformer.scratch`.

        Returns:
            the words in their present order; the vector (T, D) that attention gives to each; and the largest
            absolute change (T,) in each vector against the one that the same card got in the order as typed.
        """
        now = self._attend(self.order)
        as_typed = self._attend(list(range(len(self.order))))
        words = self.words.split()
        return [words[card] for card in self.order], now, np.abs(now - as_typed[self.order]).max(axis=-1)

    def _attend(self, order: list[int]) -> Float[np.ndarray, "T D"]:
        words = self.words.split()
        x = np.stack([embed_word(words[card]) for card in order])
        if self.positions:
            x = x + sinusoidal(np.arange(len(order)), D_MODEL)
        mask = causal_mask(len(order)) if self.causal else None
        given = x
        for layer in self.weights[: self.layers]:
            q, k, v = (x @ np.array(layer[name]) for name in ("W_q", "W_k", "W_v"))
            given, _ = scaled_dot_product_attention(q, k, v, mask=mask)
            x = x + given
        return given

    @default("order")
    def _default_order(self) -> list[int]:
        return list(range(len(self.words.split())))

    @default("weights")
    def _default_weights(self) -> list[dict[str, list[list[float]]]]:
        # Variance 1/D keeps scores and outputs near one; three decimals keep the stored notebook short. Any
        # seed tells the same story; this one's vectors have colours that show.
        rng = np.random.default_rng(3)
        drawn = rng.normal(0, D_MODEL**-0.5, (2, 3, D_MODEL, D_MODEL)).round(3).tolist()
        return [dict(zip(("W_q", "W_k", "W_v"), layer, strict=True)) for layer in drawn]

    @validate("words")
    def _validate_words(self, proposal: dict) -> str:
        words = proposal["value"].split()
        if not 1 <= len(words) <= MAX_WORDS:
            raise TraitError(
                f"words={proposal['value']!r} has {len(words)} words, must have 1 to {MAX_WORDS}"
            )
        return " ".join(words)

    @validate("order")
    def _validate_order(self, proposal: dict) -> list[int]:
        order, count = proposal["value"], len(self.words.split())
        if sorted(order) != list(range(count)):
            raise TraitError(f"order={order} must be a permutation of 0 … {count - 1}, one index per word")
        return order

    @observe("words")
    def _fit_order(self, change: dict) -> None:
        count = len(change["new"].split())
        if len(self.order) != count:
            self.order = list(range(count))
