"""Shows what activates each neuron of the book's model, what it then adds, and how it acts on the reader's text."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float
from safetensors.numpy import load as arrays_from
from traitlets import Bool, Int, List, default

from glassformer.inside import promoted_logits
from glassformer.text import corpus
from glassformer.trace import trace
from glassformer.widgets.engine.model import ModelView, packed, source_of
from glassformer.widgets.kit.view import UpTo

PLACE = Path(__file__).parent / "neurons"  # written by tools/assets/neurons.py
N_READ = 1_000_000  # characters of the training text that the neurons were shown
N_CONTEXTS = 4  # of each neuron, excited either way
BEFORE = 18  # characters of a context that are shown, the one that excites included
N_PROMOTED = 5


def known() -> list[str]:
    """The models whose neurons have been examined."""
    return sorted(path.name.removesuffix(".safetensors") for path in PLACE.iterdir())


def beginning(place: int, context_length: int) -> int:
    """Returns where a context ending at `place` begins; it shows only what the model saw in its window."""
    return place + 1 - min(BEFORE, place % context_length + 1)


@cache
def table(name: str) -> list[list[list[list[Any]]]]:
    """Returns, for each block and neuron, positive and negative: [contexts, values, promoted, adds].

    A context is a text whose last character is the one that came next, the one before it the one that excites;
    `values` are the neuron's. `promoted` are the characters that it makes likelier when it is excited that way, and
    `adds` what a unit of it adds to their logits, but for the final norm's scale.
    """
    source = source_of(name)
    text, characters = corpus(), source.tokenizer.characters  # a character, an id
    excited = arrays_from((PLACE / f"{name}.safetensors").read_bytes())
    T = source.config.context_length

    def memory(places: np.ndarray, values: np.ndarray, adds: np.ndarray) -> list[Any]:
        places, values = places[places >= 0], values[places >= 0]
        contexts = [text[beginning(place, T) : place + 2] for place in places.tolist()]
        promoted = np.argsort(-adds)[:N_PROMOTED]
        return [contexts, _short(values), "".join(characters[i] for i in promoted), _short(adds[promoted])]

    blocks = []
    for i in range(source.config.n_layers):
        adds = promoted_logits(source.model, i)
        blocks.append(
            [
                [
                    memory(excited["places"][i, s, f], excited["values"][i, s, f], sign * adds[f])
                    for s, sign in enumerate((1, -1))
                ]
                for f in range(source.config.d_ff)
            ]
        )
    return blocks


def file(name: str) -> bytes:
    """The table as the page gets it."""
    return json.dumps(table(name), ensure_ascii=False, separators=(",", ":")).encode()


def _short(numbers: np.ndarray) -> list[float]:
    return [float(f"{x:.3g}") for x in numbers]


class NeuronExplorer(ModelView, module="neuron_explorer"):
    """A neuron: the contexts among a million characters that activate it most, and the characters it makes likelier.

    The hidden number of a gated neuron can be positive or negative, and it writes its row of W_down with that
    sign. So it responds to two kinds of contexts and makes different characters likelier in each. What it
    promotes stays hidden until the reader asks for it. Below that, the view shows its value at each character
    of the reader's own text. Of a reader's own model, it shows these values alone: the contexts are known of the
    book's model only.

    Source: Geva et al. 2021, "Transformer Feed-Forward Layers Are Key-Value Memories". Derived in chapter 06.

    Traits:
        text: what the model reads, as far as its context reaches.
        block, neuron: which one; both count from 0.
        position: the character of the text for which the value is shown.
        guess: cover what a neuron promotes whenever another one is chosen.
        opened: show what this neuron promotes.
        drawn: how many neurons were drawn at random.

    Raises:
        TraitError: there is no such block or neuron, or a number is below 0.
    """

    block = UpTo(lambda view: view._source.config.n_layers - 1, first=3).tag(sync=True)
    neuron = UpTo(lambda view: view._source.config.d_ff - 1, first=88).tag(sync=True)
    position = Int(24, min=0).tag(sync=True)
    guess = Bool(True).tag(sync=True)
    opened = Bool(False).tag(sync=True)
    drawn = Int(0, min=0).tag(sync=True)
    _missed = List().tag(sync=True)

    _families = ("decoder",)

    def values(self) -> Float[np.ndarray, " T"]:
        """Computes the neuron's value at each character of the text, with `glassformer.scratch`."""
        ids = self._source.tokenizer.encode(self.text[: self._source.config.context_length])
        with trace() as seen:
            self._source.model(ids[None])
        return seen.arrays("neurons", "feed-forward")[self.block][0, :, self.neuron]

    @default("_stored")
    def _default_stored(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "block": self.block,
            "neuron": self.neuron,
            "values": packed(self.values()),
            "memory": None if self._source.own else table(self.model)[self.block][self.neuron],
        }

    @default("_missed")
    def _default_missed(self) -> list[list[int]]:
        """Returns neurons that are missed most: without them, the loss right after their contexts rises most."""
        if self._source.own:
            return []
        # Imported here so that notebooks with other views do not become stale when an experiment changes
        from glassformer.experiments import stored

        [run] = stored("inside", part="memories")
        return [
            [i, memory["neuron"]]
            for i, block in enumerate(run.found["blocks"])
            for memory in block["missed most"]
        ]

    def _file(self, what: str) -> bytes | None:
        return file(self.model) if what == "neurons" and not self._source.own else super()._file(what)
