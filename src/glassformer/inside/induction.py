"""Induction heads find what followed an earlier occurrence of the same token and predict it again.

This takes two heads, the second in a later block than the first. The first head gives every position
information about the token before it. The second looks for the position whose predecessor is the current
token; the token there is what came next the last time. A repeated text shows both heads at work.

The axes: B batch, N positions of a text, T = 2N positions of the text repeated, L blocks, H heads.
"""

from typing import NamedTuple

import numpy as np

from glassformer import _checks as checks
from glassformer.inside.look import check_model, check_no_state, look, of_either_room
from glassformer.scratch import Transformer
from glassformer.scratch.loss import cross_entropy
from glassformer.shapes import Float, Integer


class Repetition(NamedTuple):
    """The mean loss, in nats, over the same tokens in three contexts."""

    first: float  #: the first time, with only the same text before them
    again: float  #: the second time
    after_another: float  #: after another text of that length: the effect of a longer past alone


@of_either_room
def previous_token_scores(model: Transformer, ids: Integer[np.ndarray, "*B T"]) -> Float[np.ndarray, "L H"]:
    """Returns every head's mean attention to the previous position; the first position has none.

    Source: Olsson et al. 2022, "In-context Learning and Induction Heads". Derived in chapter 03.

    Raises:
        ValueError: the text has fewer than two tokens; or the model is not a decoder or is in training with
            dropout.
        TypeError: it is not a NumPy Transformer, or the ids are not integers.
    """
    checks.integers("ids", ids)
    checks.axes("ids", ids, "T")
    checks.whole("ids.shape[-1]", ids.shape[-1], at_least=2)
    return _attention_to(model, ids, np.arange(1, ids.shape[-1]), -1)


@of_either_room
def induction_scores(model: Transformer, text: Integer[np.ndarray, "B N"]) -> Float[np.ndarray, "L H"]:
    """Returns, on repeated texts, every head's attention to what followed the same token the first time.

    This is the prefix-matching score. A token's second occurrence is N positions after its first; the score
    is its attention to the position right after the first occurrence, averaged over all tokens. Use random
    tokens for a score that does not benefit from knowledge of a language.

    Source: Olsson et al. 2022, "In-context Learning and Induction Heads". Derived in chapter 03.

    Raises:
        ValueError: a text has fewer than two tokens or is too long when doubled; or the model is not a
            decoder or is in training with dropout.
        TypeError: it is not a NumPy Transformer, or the ids are not integers.
    """
    N = _check_text(text)
    return _attention_to(model, np.hstack([text, text]), np.arange(N, 2 * N), 1 - N)


@of_either_room
def repetition(model: Transformer, text: Integer[np.ndarray, "B N"]) -> Repetition:
    """Returns the loss on texts, on their repetition, and on each after another text, from the second token on.

    Source: Olsson et al. 2022, "In-context Learning and Induction Heads". Derived in chapter 03.

    Raises:
        ValueError: there are fewer than two texts, or one has fewer than two tokens or is too long when
            doubled.
        TypeError: the model is not a NumPy Transformer, or the ids are not integers.
    """
    N = _check_text(text)
    checks.whole("len(text)", len(text), at_least=2)
    check_model(model)
    twice = model(np.hstack([text, text]))
    after = model(np.hstack([np.roll(text, 1, axis=0), text]))
    targets = text[:, 1:]
    return Repetition(
        float(cross_entropy(twice[:, : N - 1], targets)),
        float(cross_entropy(twice[:, N:-1], targets)),
        float(cross_entropy(after[:, N:-1], targets)),
    )


def _attention_to(
    model: Transformer, ids: Integer[np.ndarray, "*B T"], queries: np.ndarray, offset: int
) -> Float[np.ndarray, "L H"]:
    """Returns the mean attention from the positions `queries` to those `offset` further on."""
    check_model(model)
    check_no_state(model, "it has no attention weights")
    weights = look(model, ids).arrays("weights", "attention")  # L of them, (..., H, T, S)
    attention_paid = np.stack([w[..., queries, queries + offset] for w in weights])  # (L, ..., H, queries)
    return (
        np.moveaxis(attention_paid, -2, 1)
        .reshape(*attention_paid.shape[:1], attention_paid.shape[-2], -1)
        .mean(axis=-1)
    )


def _check_text(text: Integer[np.ndarray, "B N"]) -> int:
    checks.integers("text", text)
    checks.axes("text", text, "B, N")
    checks.whole("text.shape[-1]", text.shape[-1], at_least=2)
    return text.shape[-1]
