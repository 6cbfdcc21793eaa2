"""Answers for chapter 12: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import itertools

import numpy as np
import torch
from torch.nn import functional

from tests.exercises.answers import Answers

ANSWERS = Answers()
right, wrong = ANSWERS.right, ANSWERS.wrong


# 1 · families.cells


@right("families.cells")
def cells_one_by_one(T, P, S):
    square = np.arange(T)[:, None] >= np.arange(T)
    prefix = square.copy()
    prefix[:P, :P] = True
    return T**2, int(square.sum()), int(prefix.sum()), S * T


@wrong("families.cells", "4 things")
def cells_of_three(T, P, S):
    return T * T, T * (T + 1) // 2, T * S


@wrong("families.cells", "both of cells(3, 2, 5)")
def cells_to_a_neighbour(T, P, S):
    return T, T * (T + 1) // 2, T * (T + 1) // 2, T * S


# 2 · families.padding_mask


@right("families.padding_mask")
def padding_text_by_text(lengths, S):
    return [[[[s < n for s in range(S)]]] for n in lengths]


@right("families.padding_mask")
def padding_in_torch(lengths, S):
    return (torch.arange(S) < torch.as_tensor(lengths)[:, None]).unsqueeze(1).unsqueeze(1)


@wrong("families.padding_mask", "should have shape (B, 1, 1, S) = (3, 1, 1, 5)")
def padding_written_out(lengths, S):
    return np.broadcast_to(np.arange(S) < lengths[:, None], (len(lengths), len(lengths), S)).copy()


# 3 · families.encoder


@right("families.encoder")
def encoder_in_torch(ids, weights, n_heads):
    w = {name: torch.tensor(value) for name, value in weights.items()}
    D = w["token_embedding.weight"].shape[1]
    x = w["token_embedding.weight"][ids] + w["encoder.positions.weight"][: len(ids)]

    def normed(x, name):
        return functional.layer_norm(x, (D,), w[f"{name}.weight"], w[f"{name}.bias"], 1e-5)

    for i in itertools.count():
        own = f"encoder.blocks.{i}."
        if f"{own}attention.W_q.weight" not in w:
            break
        y = normed(x, f"{own}norm_attention")
        q, k, v = (
            (y @ w[f"{own}attention.W_{name}.weight"]).unflatten(-1, (n_heads, -1)).transpose(0, 1)
            for name in "qkv"
        )
        mixed = functional.scaled_dot_product_attention(q, k, v).transpose(0, 1).flatten(1)
        x = x + mixed @ w[f"{own}attention.W_o.weight"]
        y = normed(x, f"{own}norm_feedforward")
        y = functional.gelu(y @ w[f"{own}feedforward.W_up.weight"] + w[f"{own}feedforward.W_up.bias"])
        x = x + y @ w[f"{own}feedforward.W_down.weight"] + w[f"{own}feedforward.W_down.bias"]
    return normed(x, "encoder.norm") @ w["token_embedding.weight"].T


@wrong("families.encoder", "should have shape (T, V)")
def encoder_without_head(ids, weights, n_heads):
    return weights["token_embedding.weight"][ids]


# 4 · families.cover


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


@right("families.cover")
def cover_in_torch(ids, chosen, fate, other, mask_id):
    ids, chosen, fate, other = map(torch.as_tensor, (ids, chosen, fate, other))
    read = ids.masked_fill(chosen & (fate < 0.8), mask_id)
    read = torch.where(chosen & (fate >= 0.8) & (fate < 0.9), other, read)
    return read, ids.masked_fill(~chosen, -100)


@wrong("families.cover", "should be [10, 3, 8, 10, 6]; yours is [5, 3, 8, 1, 6]")
def cover_nothing(ids, chosen, fate, other, mask_id):
    return ids + 0, np.where(chosen, ids, -100)


@wrong("families.cover", "A fate of exactly 0.8 means another id")
def cover_up_to_and_with(ids, chosen, fate, other, mask_id):
    changed = np.where(fate <= 0.8, mask_id, np.where(fate <= 0.9, other, ids))
    return np.where(chosen, changed, ids), np.where(chosen, ids, -100)


# 5 · families.loss


@right("families.loss")
def loss_of_torch(logits, targets):
    logits, targets = torch.as_tensor(logits), torch.as_tensor(targets)
    return functional.cross_entropy(logits.flatten(0, -2), targets.flatten())


@right("families.loss")
def loss_one_by_one(logits, targets):
    found = []
    for place in np.ndindex(targets.shape):
        if targets[place] >= 0:
            found.append(np.logaddexp.reduce(logits[place]) - logits[place][targets[place]])
    return sum(found) / len(found)


@wrong("families.loss", "should be a single number")
def loss_of_each(logits, targets):
    return np.zeros(targets.shape)


@wrong("families.loss", "became 0, and its log is −∞")
def loss_as_the_log_of_a_safe_softmax(logits, targets):
    rows, wanted = logits[targets != -100], targets[targets != -100]
    p = np.exp(rows - rows.max(axis=-1, keepdims=True))
    p /= p.sum(axis=-1, keepdims=True)
    with np.errstate(divide="ignore"):
        return -np.log(p[np.arange(len(wanted)), wanted]).mean()


@wrong("families.loss", "Id 0 is a target like any other")
def loss_of_ids_above_0(logits, targets):
    rows, wanted = logits[targets > 0], targets[targets > 0]
    return np.mean([np.logaddexp.reduce(row) - row[one] for row, one in zip(rows, wanted, strict=True)])


# 6 · families.look_across


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


@wrong("families.look_across", "should have shape (T, D) = (2, 6)")
def look_across_the_wrong_length(x, memory, W_q, W_k, W_v, W_o, n_heads, real):
    return memory


# 7 · families.shifted


@right("families.shifted")
def shifted_row_by_row(answers, start_id, stop_id, pad_id):
    longest = max(len(answer) for answer in answers)
    left = [longest - len(answer) for answer in answers]
    ids = [[start_id, *answer, *[pad_id] * n] for answer, n in zip(answers, left, strict=True)]
    return ids, [[*answer, stop_id, *[-100] * n] for answer, n in zip(answers, left, strict=True)]


@wrong("families.shifted", "2 things")
def shifted_ids_alone(answers, start_id, stop_id, pad_id):
    return [[start_id, *answers[0]]]


@wrong("families.shifted", "in the wrong order")
def shifted_the_other_way_round(answers, start_id, stop_id, pad_id):
    return shifted_row_by_row(answers, start_id, stop_id, pad_id)[::-1]


# 8 · families.translate


@right("families.translate")
def translate_in_torch(next_logits, start_id, stop_id, n_most):
    ids = torch.tensor([start_id])
    for _ in range(n_most):
        new = torch.as_tensor(next_logits(ids.numpy())).argmax().reshape(1)
        if new.item() == stop_id:
            break
        ids = torch.cat([ids, new])
    return ids[1:]


@right("families.translate")
def translate_and_call_itself(next_logits, start_id, stop_id, n_most):
    def after(ids):
        new = int(next_logits(np.array(ids)).argmax()) if len(ids) <= n_most else stop_id
        return ids[1:] if new == stop_id else after([*ids, new])

    return after([start_id])


@wrong("families.translate", "should be [4, 2, 7]")
def translate_to_zeros(next_logits, start_id, stop_id, n_most):
    first = int(next_logits(np.array([start_id])).argmax())
    return [first] if n_most == 1 else [0, 0, 0]


@wrong("families.translate", "a single row, so it needs no `[-1]`")
def translate_as_if_there_were_rows(next_logits, start_id, stop_id, n_most):
    ids = [start_id]
    while ids[-1] != stop_id and len(ids) <= n_most:
        ids.append(int(next_logits(np.array(ids))[-1].argmax()))
    return ids[1:]


@wrong("families.translate", "Only the first one is the start")
def translate_without_either_anywhere(next_logits, start_id, stop_id, n_most):
    ids = [start_id]
    while ids[-1] != stop_id and len(ids) <= n_most:
        ids.append(int(next_logits(np.array(ids)).argmax()))
    return [one for one in ids if one not in (start_id, stop_id)]


# 9 · families.compared


@right("families.compared")
def compared_by_formula(d_model, d_ff, n_blocks, T, S):
    D, half = d_model, n_blocks // 2
    block = 2 * D * (2 * D + d_ff + 1)
    whole = np.tri(S + T, dtype=bool).sum()
    parameters = [n_blocks * block, n_blocks * block, n_blocks * block + half * D * (4 * D + 1)]
    return parameters, [n_blocks * int(whole), n_blocks * S**2, half * (S**2 + T * (T + 1) // 2 + T * S)]


@wrong("families.compared", "parameters of compared(2, 4, 2, 3, 5) should be")
def compared_with_biases(d_model, d_ff, n_blocks, T, S):
    parameters, cells = compared_by_formula(d_model, d_ff, n_blocks, T, S)
    return [one + n_blocks * d_ff for one in parameters], cells
