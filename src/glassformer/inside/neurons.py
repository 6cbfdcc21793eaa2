"""The feed-forward network as a memory: contexts match a neuron's key, and the neuron then writes its value.

The axes: T positions, D d_model, F d_ff, V vocabulary.
"""

from typing import NamedTuple

import numpy as np

from glassformer import _checks as checks
from glassformer.inside.attribution import linear_part
from glassformer.inside.look import (
    check_network,
    check_stream_is_a_sum,
    decoder_of,
    entering,
    final_norm_of,
    look,
    of_either_room,
)
from glassformer.scratch import Transformer
from glassformer.shapes import Float, Integer

AT_A_TIME = 2048  # about how many tokens' neuron values are examined at a time


class Memory(NamedTuple):
    """One neuron in one direction: the contexts that activate it most, and the tokens that it then makes likelier.

    A gated neuron can be positive or negative and writes its row of W_down with that sign, so it is two
    memories.
    """

    block: int
    neuron: int
    sign: int  #: 1 or −1
    excitement: np.ndarray  #: its values in the contexts, strongest first
    places: np.ndarray  #: where the contexts end: each is the ids up to and including ids[place]
    promoted: np.ndarray  #: the ids that the value promotes most, strongest first
    agreement: float  #: fraction of these contexts that are followed by one of these ids
    chance: float  #: fraction of all positions that are followed by one of them


@of_either_room
def promoted_logits(model: Transformer, block: int) -> Float[np.ndarray, "F V"]:
    """Returns what one unit of each neuron adds to every logit: W_down read by the head, up to the final norm's scale.

    Source: Geva et al. 2022, "Transformer Feed-Forward Layers Build Predictions by Promoting Concepts in the
    Vocabulary Space", section 3. Derived in chapter 06.

    Raises:
        ValueError: there is no such block, or the model is not a pre-norm decoder with a linear head.
        TypeError: it is not a NumPy Transformer.
    """
    check_stream_is_a_sum(model)
    blocks = decoder_of(model).blocks
    checks.indices("block", np.asarray(block), "n_layers", len(blocks))
    check_network(model, block)
    return read_out(model, blocks[block].feedforward.W_down.weight)


def read_out(model: Transformer, rows: Float[np.ndarray, "F D"]) -> Float[np.ndarray, "F V"]:
    """Returns what these rows, added to the stream, add to every logit, up to the final norm's scale."""
    read = linear_part(final_norm_of(model))(rows)
    return model.head(read) - model.head(np.zeros_like(read))  # minus the head's bias


@of_either_room
def memories(
    model: Transformer, ids: Integer[np.ndarray, " N"], *, n_contexts: int = 20, n_promoted: int = 5
) -> list[Memory]:
    """Returns every memory of a model as found in the text `ids`, with the best matches of contexts and tokens first.

    They are ordered by `agreement` − `chance`: how much more often the promoted tokens follow these contexts
    than they follow elsewhere. The text is read in windows of the model's context length.

    Source: Geva et al. 2021, "Transformer Feed-Forward Layers Are Key-Value Memories", sections 3 and 4, where the
    measure is the same for one context and one token. Derived in chapter 06.

    Raises:
        ValueError: the model is not a pre-norm decoder with a linear head; a number is below 1; or the text
            is shorter than one window plus one id, or has fewer positions than `n_contexts`.
        TypeError: the model is not a NumPy Transformer, or the ids are not integers.
    """
    check_stream_is_a_sum(model)
    checks.one_axis("ids", ids)
    checks.integers("ids", ids)
    checks.whole("n_contexts", n_contexts)
    checks.whole("n_promoted", n_promoted)
    T, V = model.config.context_length, model.config.vocab_size
    n_windows = (len(ids) - 1) // T
    checks.whole("the number of whole windows in ids", n_windows)
    checks.whole("the number of places in ids", n_windows * T, at_least=n_contexts)
    for i in range(model.config.n_layers):
        if model.config.layer(i).n_sublayers == 2:
            check_network(model, i)
    follows = np.bincount(ids[1 : n_windows * T + 1], minlength=V) / (n_windows * T)

    found = []
    windows = ids[: n_windows * T].reshape(n_windows, T)
    for (i, sign), (values, places) in _strongest(model, windows, n_contexts).items():
        promoted = np.argsort(-sign * promoted_logits(model, i), axis=1)[:, :n_promoted]  # (F, n_promoted)
        did_follow = (ids[places + 1][:, :, None] == promoted[:, None]).any(axis=-1)  # (F, n_contexts)
        agreement, chance = did_follow.mean(axis=1), follows[promoted].sum(axis=1)
        for f in range(len(promoted)):
            numbers = float(agreement[f]), float(chance[f])
            found.append(Memory(i, f, sign, values[f], places[f], promoted[f], *numbers))
    return sorted(found, key=lambda memory: memory.chance - memory.agreement)


def _strongest(
    model: Transformer, windows: Integer[np.ndarray, "_ T"], n: int
) -> dict[tuple[int, int], tuple[Float[np.ndarray, "F n"], Integer[np.ndarray, "F n"]]]:
    """Returns, for each block and sign, the n most extreme values of every neuron and their positions."""
    T, F = windows.shape[1], model.config.d_ff
    signs = (1, -1) if model.config.gated else (1,)
    # The strongest values so far, times the sign; nothing at first
    kept = {
        (i, sign): (np.full((F, n), -np.inf), np.zeros((F, n), np.int64))
        for i in range(model.config.n_layers)
        if model.config.layer(i).n_sublayers == 2
        for sign in signs
    }
    step = max(1, AT_A_TIME // T)
    for first in range(0, len(windows), step):
        seen = look(model, windows[first : first + step])
        for (i, sign), (values, places) in kept.items():
            new = sign * entering(seen, i, "feed-forward").reshape(-1, F).T  # (F, places)
            new_places = np.broadcast_to(first * T + np.arange(new.shape[1]), new.shape)
            values, places = np.hstack([values, new]), np.hstack([places, new_places])
            best = np.argpartition(-values, n - 1, axis=1)[:, :n]
            kept[i, sign] = np.take_along_axis(values, best, 1), np.take_along_axis(places, best, 1)
    strongest = {}
    for (i, sign), (values, places) in kept.items():
        order = np.argsort(-values, axis=1)
        values, places = np.take_along_axis(values, order, 1), np.take_along_axis(places, order, 1)
        strongest[i, sign] = sign * values, places
    return strongest
