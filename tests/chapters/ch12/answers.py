"""Answers for chapter 12: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import numpy as np
import torch
from torch.nn import functional

from tests.chapters.ch09.answers import whole_model
from tests.exercises.answers import Answers

ANSWERS = Answers()
right, slip = ANSWERS.right, ANSWERS.slip


@right("families.cells")
def cells_one_by_one(T, P, S):
    square = np.arange(T)[:, None] >= np.arange(T)
    prefix = square.copy()
    prefix[:P, :P] = True
    return T**2, int(square.sum()), int(prefix.sum()), S * T


@right("families.padding_mask")
def padding_text_by_text(lengths, S):
    return [[[[s < n for s in range(S)]]] for n in lengths]


@right("families.encoder")
def encoder_in_torch(ids, weights, n_heads):
    return whole_model(ids, {name: torch.tensor(w) for name, w in weights.items()}, n_heads, "encoder")


@right("families.cover")
def cover_one_by_one(ids, chosen, fate, other, mask_id):
    read, asked = ids.copy(), np.full_like(ids, -100)
    for place in np.ndindex(ids.shape):
        if chosen[place]:
            asked[place] = ids[place]
            if fate[place] < 0.8:
                read[place] = mask_id
            elif fate[place] < 0.9:
                read[place] = other[place]
    return read, asked


@right("families.loss")
def loss_of_torch(logits, targets):
    logits, targets = torch.as_tensor(logits), torch.as_tensor(targets)
    return functional.cross_entropy(logits.flatten(0, -2), targets.flatten())


@right("families.look_across")
def look_across_head_by_head(x, memory, W_q, W_k, W_v, W_o, n_heads, real):
    K, heads = len(W_q) // n_heads, []
    memory = memory[real]  # who is not there cannot be seen
    for h in range(n_heads):
        own = slice(h * K, (h + 1) * K)
        scores = x @ W_q[:, own] @ (memory @ W_k[:, own]).T / K**0.5
        powers = np.exp(scores - scores.max(axis=-1, keepdims=True))
        heads.append(powers / powers.sum(axis=-1, keepdims=True) @ memory @ W_v[:, own])
    return np.concatenate(heads, axis=-1) @ W_o


@right("families.shifted")
def shifted_row_by_row(answers, start_id, stop_id, pad_id):
    longest = max(len(answer) for answer in answers)
    left = [longest - len(answer) for answer in answers]
    ids = [[start_id, *answer, *[pad_id] * n] for answer, n in zip(answers, left, strict=True)]
    return ids, [[*answer, stop_id, *[-100] * n] for answer, n in zip(answers, left, strict=True)]


@right("families.translate")
def translate_and_call_itself(next_logits, start_id, stop_id, n_most):
    def after(ids):
        new = int(next_logits(np.array(ids)).argmax()) if len(ids) <= n_most else stop_id
        return ids[1:] if new == stop_id else after([*ids, new])

    return after([start_id])


@right("families.compared")
def compared_by_formula(d_model, d_ff, n_blocks, T, S):
    D, half = d_model, n_blocks // 2
    block = 2 * D * (2 * D + d_ff + 1)
    whole = np.tri(S + T, dtype=bool).sum()
    parameters = [n_blocks * block, n_blocks * block, n_blocks * block + half * D * (4 * D + 1)]
    return parameters, [n_blocks * int(whole), n_blocks * S**2, half * (S**2 + T * (T + 1) // 2 + T * S)]


# The book's answers with a slip
slip("families.cells", "both of cells(3, 2, 5)", "return T * T", "return T")
slip(
    "families.padding_mask", "should have shape (B, 1, 1, S) = (3, 1, 1, 5)",
    "[:, None, None, :]", "[None].repeat(len(lengths), axis=0)",
)  # fmt: skip
slip("families.encoder", "should have shape (T, V)", "return x @ table.T", "return x")
slip("families.look_across", "should have shape (T, D) = (2, 6)", "return ", "return memory  # ")
slip("families.compared", "parameters of compared(2, 4, 2, 3, 5) should be", "block = ", "block = d_ff + ")
