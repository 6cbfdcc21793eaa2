"""Induction: heads that find what came after the same token before, and expect it again.

It takes two heads, one in a later block than the other. The first tells every position which token came before
it; the second then looks for the position whose predecessor is the token that it has: what stands there came next
the last time. A text that is repeated shows both.

The axes: B batch, N positions of a text, T = 2N of that text twice, L blocks, H heads.
"""

from typing import NamedTuple

import numpy as np

from glassformer import _checks as checks
from glassformer.inside.look import check_model, look
from glassformer.scratch import Transformer
from glassformer.scratch.loss import cross_entropy
from glassformer.shapes import Float, Integer


class Repetition(NamedTuple):
    """The mean loss, in nats, over the same tokens three times, each time after something else."""

    first: float  # the text for the first time: only it stands before them
    again: float  # for the second time
    after_another: float  # after another text of that length: what a longer past alone is worth


def previous_token_scores(model: Transformer, ids: Integer[np.ndarray, "*B T"]) -> Float[np.ndarray, "L H"]:
    """The mean attention that every head pays to the position just before; the first position has none.

    Source: Olsson et al. 2022, "In-context Learning and Induction Heads". Derived in chapter 03.

    Raises:
        ValueError: the text has fewer than two tokens; the model is no decoder, or in training with dropout.
        TypeError: it is not a NumPy Transformer, or the ids are not integers.
    """
    checks.integers("ids", ids)
    checks.axes("ids", ids, "T")
    checks.whole("ids.shape[-1]", ids.shape[-1], at_least=2)
    return _attention_to(model, ids, np.arange(1, ids.shape[-1]), -1)


def induction_scores(model: Transformer, text: Integer[np.ndarray, "B N"]) -> Float[np.ndarray, "L H"]:
    """Returns how much attention every head pays, when texts are repeated, to what came after the same token before.

    The prefix-matching score: of a token's second occurrence, N positions after its first, the attention to the
    position after that first one, in the mean over all. Take random tokens for a score that no knowledge of a
    language helps.

    Source: Olsson et al. 2022, "In-context Learning and Induction Heads". Derived in chapter 03.

    Raises:
        ValueError: a text has fewer than two tokens, or twice as many are too long; the model is no decoder, or in
            training with dropout.
        TypeError: it is not a NumPy Transformer, or the ids are not integers.
    """
    N = _check_text(text)
    return _attention_to(model, one_after_another(text, text), np.arange(N, 2 * N), 1 - N)


def repetition(model: Transformer, text: Integer[np.ndarray, "B N"]) -> Repetition:
    """The loss on texts, on their repetition, and on them after each other, from their second token on.

    Source: Olsson et al. 2022, "In-context Learning and Induction Heads". Derived in chapter 03.

    Raises:
        ValueError: there are fewer than two texts, one has fewer than two tokens, or twice as many are too long.
        TypeError: the model is not a NumPy Transformer, or the ids are not integers.
    """
    N = _check_text(text)
    checks.whole("len(text)", len(text), at_least=2)
    check_model(model)
    twice = model(one_after_another(text, text))
    after = model(one_after_another(np.roll(text, 1, axis=0), text))
    targets = text[:, 1:]
    return Repetition(
        float(cross_entropy(twice[:, : N - 1], targets)),
        float(cross_entropy(twice[:, N:-1], targets)),
        float(cross_entropy(after[:, N:-1], targets)),
    )


def _attention_to(
    model: Transformer, ids: Integer[np.ndarray, "*B T"], queries: np.ndarray, offset: int
) -> Float[np.ndarray, "L H"]:
    """The mean attention from the positions `queries` to those `offset` further on."""
    weights = look(model, ids).arrays("weights", "attention")  # L of them, (..., H, T, S)
    paid = np.stack([w[..., queries, queries + offset] for w in weights])  # (L, ..., H, queries)
    return np.moveaxis(paid, -2, 1).reshape(*paid.shape[:1], paid.shape[-2], -1).mean(axis=-1)


def one_after_another(
    one: Integer[np.ndarray, "B N"], other: Integer[np.ndarray, "B N"]
) -> Integer[np.ndarray, "B T"]:
    """Every text of the second batch behind one of the first."""
    return np.concatenate([one, other], axis=-1)


def _check_text(text: Integer[np.ndarray, "B N"]) -> int:
    checks.integers("text", text)
    checks.axes("text", text, "B, N")
    checks.whole("text.shape[-1]", text.shape[-1], at_least=2)
    return text.shape[-1]
