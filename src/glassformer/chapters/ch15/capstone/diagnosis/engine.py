"""Tries suspects: computes what each mistake would have returned, and compares it with what the reader's code did.

A suspect is a row of a table, whatever it is a mistake in. `formula` has those in attention, `losses` those in a loss,
`suspects` those in a model that was loaded.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from glassformer import scratch
from glassformer.bugs import BUGS, Edit, changed

from ..adapter import Told
from ..measures.comparing import CLOSE, close


@dataclass(frozen=True)
class Suspect:
    """A mistake, what it makes of the arguments of a check, and a sentence on which of its forms this is."""

    mistake: str
    value: Any | Callable[[], Any]
    detail: str = ""


def tell(got: Any, message: str, suspects: Iterable[Suspect], tolerance: float = CLOSE) -> None:
    """Raises `Told` with the first mistake that gives what the reader's code gave; returns if there is none."""
    with np.errstate(all="ignore"):
        for one in suspects:
            try:
                value = one.value() if callable(one.value) else one.value
            except Exception:  # this mistake is none that this model can have
                continue
            near = tolerance * min(1.0, float(np.abs(value).max()) or 1.0)
            if close(got, value, near) and close(value, got, near):
                raise Told(f"{message} {one.detail}".rstrip(), one.mistake)


@dataclass(frozen=True)
class Change:
    """A mistake in a model that was loaded: what it changes in the right one.

    Attributes:
        mistake: its name.
        detail: a sentence on which of its forms this is.
        edits: (function, what it has, what it has instead), as in the gallery of mistakes.
        config: fields of the configuration.
        weights: (name, weight, all weights) to the weight that is used.
        result: logits to what is returned.
        in_blocks: whether it is in the norms of the blocks alone, and not in the last.
    """

    mistake: str
    detail: str = ""
    edits: tuple[tuple[str, str, str], ...] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    weights: Callable[[str, np.ndarray, Mapping[str, np.ndarray]], np.ndarray] | None = None
    result: Callable[[np.ndarray], np.ndarray] = lambda logits: logits
    in_blocks: bool = False


def of_the_gallery(name: str) -> Change:
    """Returns a mistake of the gallery, which is made in the same lines."""
    edits = [edit for edit in BUGS[name].edits if edit.room == "scratch"]
    return Change(name, edits=tuple((edit.function, edit.right, edit.wrong) for edit in edits))


def logits_with(change: Change, model: scratch.Transformer, ids: np.ndarray) -> np.ndarray:
    """Computes what a model returns if it was loaded with this mistake."""
    its = model.named_parameters()
    other = with_weights(its, model.config.replace(**change.config, dropout=0.0), change.weights)
    decoder: Any = other.decoder
    norm, decoder.norm = decoder.norm, None if change.in_blocks else decoder.norm
    with changed([Edit(*edit) for edit in change.edits], change.mistake):
        found = other.hidden(ids) if change.in_blocks else other(ids)
    return change.result(other.head(norm(found)) if change.in_blocks else found)


def with_weights(own: Mapping[str, np.ndarray], config: Any, change: Any = None) -> scratch.Transformer:
    """Returns another configuration's model, with those of the weights that it has; biases that are new are 0."""
    model = scratch.Transformer(config, generator=None, dtype=own["token_embedding.weight"].dtype)
    for name, weight in model.named_parameters().items():
        its = own[name] if name in own or not name.endswith("bias") else 0.0 * weight
        weight[...] = its if change is None else change(name, its, own)
    return model
