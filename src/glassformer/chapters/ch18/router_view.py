"""Which experts of a small mixture take which characters, and a test of the reader's guess at what an expert is for."""

import json
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from traitlets import Enum, Int, TraitError, default, validate

from glassformer.config import ModelConfig
from glassformer.scratch import softmax
from glassformer.shapes import Bool, Float, Integer
from glassformer.trace import trace
from glassformer.widgets.engine.model import ModelView
from glassformer.widgets.kit.view import Made, UpTo

SCENE = "KING RICHARD III:\nA horse! a horse! my kingdom for a horse!"
FACTS = Path(__file__).with_name("router_view.json")  # written by tools/assets/router.py
N_FREQUENT = 6  # characters of an expert that are listed


def fits(text: str) -> dict[str, Bool[np.ndarray, " T"]]:
    """Returns for each guess, "its characters are …", which characters of a text fit it."""
    c = np.array(list(text), "U1")
    letter, capital, space = (np.char.isalpha(c), np.char.isupper(c), c == " ")
    vowel, mark = np.isin(np.char.lower(c), list("aeiou")), ~np.char.isalnum(c) & ~np.char.isspace(c)

    def moved(found: np.ndarray, by: int) -> np.ndarray:
        """Whether that was found `by` characters before; beyond the ends, nothing is."""
        there = np.arange(len(c)) - by
        return (there >= 0) & (there < len(c)) & found[there % len(c)]

    return {
        "vowels": vowel,
        "consonants": letter & ~vowel,
        "capital letters": capital,
        "spaces": space,
        "punctuation marks": mark,
        "line breaks": c == "\n",
        "the first letter of a word": letter & ~moved(letter, 1),
        "inside a word": letter & moved(letter, 1) & moved(letter, -1),
        "the last letter of a word": letter & ~moved(letter, -1),
        "in a name in capitals": capital & (moved(capital, 1) | moved(capital, -1)),
        "right after a vowel": moved(vowel, 1),
        "right after a consonant": moved(letter & ~vowel, 1),
        "right after a space": moved(space, 1),
        "right after a punctuation mark": moved(mark, 1),
        "among the first five of a line": (c != "\n")
        & np.any([moved(c == "\n", i) for i in range(1, 6)], axis=0),
    }


RULES = tuple(fits("a"))


def choices(model: Any, ids: Integer[np.ndarray, " N"]) -> Integer[np.ndarray, "L N A"]:
    """Returns the experts that every layer of `model` chooses for ids (N), in windows of its context.

    What does not fill the last window is left out.
    """
    T = model.config.context_length
    windows = ids[: len(ids) // T * T].reshape(-1, T)
    with trace() as seen:
        for first in range(0, len(windows), 32):
            model(windows[first : first + 32])
    found, L = seen.arrays("chosen"), model.config.n_layers
    return np.stack(
        [np.concatenate([one.reshape(-1, one.shape[-1]) for one in found[i::L]]) for i in range(L)]
    )


def measure(model: Any, tokenizer: Any, ids: Integer[np.ndarray, " N"]) -> dict[str, Any]:
    """Counts the characters that each expert takes in each layer, the most frequent ones, and how many fit each guess.

    Derived in chapter 18.
    """
    chosen, text = choices(model, ids), tokenizer.decode(ids)
    N, X = chosen.shape[1], _experts_of(model.config)
    known = [fit[:N] for fit in fits(text).values()]

    def facts(taken: np.ndarray) -> dict[str, Any]:
        frequent = Counter(text[t] for t in np.flatnonzero(taken)).most_common(N_FREQUENT)
        of_rules = [int((taken & fit).sum()) for fit in known]
        return {"n": int(taken.sum()), "frequent": [list(each) for each in frequent], "fits": of_rules}

    experts = [[facts((layer == e).any(axis=-1)) for e in range(X)] for layer in chosen]
    return {"rules": list(RULES), "all": facts(np.ones(N, bool)), "experts": experts}


def _experts_of(config: ModelConfig) -> int:
    [kind] = (config.kinds or {}).values()
    return kind["experts"].n_experts


@cache
def stored_facts() -> dict[str, Any]:
    """Returns what `measure` has counted in the first held-out part, which is for validation."""
    return json.loads(FACTS.read_text("utf-8"))


class RouterView(ModelView, module="router_view"):
    """Shows which experts the router chooses for each character of a text, and tests a guess at what an expert is for.

    The test counts in held-out text: which share of the characters that an expert takes fits the guess, and which share
    of all characters does, as with a random expert. These counts are known of the book's model only.

    Source: Shazeer et al. 2017, "Outrageously Large Neural Networks". Derived in chapter 18.

    Traits, beside those of `ModelView`:
        block: the layer whose router is shown, from 0.
        position: the character whose probabilities are shown, from 0; beyond the end of the text, the last.
        expert: whose characters are shown, from 0; −1 for all experts.
        guess: what the reader thinks that they are, one of `RULES`, or "".

    Raises:
        TraitError: the model has no experts, no such block or no such expert, or a trait is outside its range.
    """

    block = UpTo(lambda view: view._source.config.n_layers - 1, first=0).tag(sync=True)
    position = Int(20, min=0).tag(sync=True)
    expert = Int(-1).tag(sync=True)
    guess = Enum(("", *RULES), "").tag(sync=True)
    _facts = Made(lambda view: None if view._source.own else stored_facts()).tag(sync=True)

    _families = ("decoder",)
    _experts = True

    def __init__(self, model: Any = "experts", **traits: Any) -> None:
        super().__init__(model, **traits)

    def probabilities(self) -> Float[np.ndarray, "L T X"]:
        """Computes the probabilities of all experts at each character, with `glassformer.scratch`."""
        model: Any = self._source.model
        ids = self._source.tokenizer.encode(self.text[: self._source.config.context_length])
        with trace() as seen:
            model(ids[None])
        streams = seen.arrays("stream")[1::2]  # after each layer's attention
        layers = zip(model.decoder.blocks, streams, strict=True)
        return np.stack([softmax(one.feedforward.router.W(one.norm_feedforward(x[0]))) for one, x in layers])

    @default("text")
    def _default_text(self) -> str:
        known = self._source.tokenizer.characters
        return "".join(c for c in SCENE if c in known) or known[0]

    @default("_stored")
    def _default_stored(self) -> dict[str, Any]:
        parts = np.round(10_000 * self.probabilities()).astype(int)
        return {"text": self.text, "probabilities": parts.swapaxes(0, 1).tolist()}

    @validate("expert")
    def _validate_expert(self, proposal: dict) -> int:
        expert, X = proposal["value"], _experts_of(self._source.config)
        if not -1 <= expert < X:
            raise TraitError(f"expert={expert} is not one of -1 … {X - 1}")
        return expert
