"""Answers for chapter 02: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import itertools
import math

import numpy as np
import torch

from tests.exercises.answers import Answers

ANSWERS = Answers()
right, wrong, slip = ANSWERS.right, ANSWERS.wrong, ANSWERS.slip


@right("tokens.vocabulary")
def vocabulary_by_loop(text):
    found = ""
    for code in range(max(map(ord, text)) + 1):
        if chr(code) in text:
            found += chr(code)
    return found


@right("tokens.encode")
def ids_by_index(text, characters):
    for i, c in enumerate(text):
        if c not in characters:
            raise ValueError(f"{c!r} at place {i} is unknown")
    return [characters.index(c) for c in text]


@right("tokens.decode")
def text_by_loop(ids, characters):
    text = ""
    for i in ids:
        if i not in range(len(characters)):
            raise ValueError(f"there is no id {i}")
        text += characters[i]
    return text


@right("tokens.one_hot")
def hot_by_comparison(ids, vocab_size):
    return (ids[:, None] == np.arange(vocab_size)).astype(float)


@right("tokens.embed")
def rows_by_product(ids, table):
    hot = ids[..., None] == np.arange(len(table))
    if not hot.any(axis=-1).all():
        raise ValueError(f"not all of {ids.tolist()} have a row")
    return hot @ table


@right("tokens.best_pair")
def pair_by_matrix(ids):
    n = int(ids.max()) + 1
    counts = np.zeros((n, n), int)
    np.add.at(counts, (ids[:-1], ids[1:]), 1)
    return tuple(int(i) for i in np.unravel_index(counts.argmax(), counts.shape))


@right("tokens.merge")
def merge_as_text(ids, pair, new_id):
    text = "".join(chr(i) for i in ids).replace(chr(pair[0]) + chr(pair[1]), chr(new_id))
    return [ord(c) for c in text]


@right("tokens.learn")
def learn_as_text(ids, n_merges, first_new=256):
    text, merges = "".join(chr(i) for i in ids), []
    for k in range(n_merges):
        counts: dict = {}
        for a, b in itertools.pairwise(text):
            counts[a, b] = counts.get((a, b), 0) + 1
        a, b = min(counts, key=lambda pair: (-counts[pair], pair))
        merges.append((ord(a), ord(b)))
        text = text.replace(a + b, chr(first_new + k))
    return merges


@right("tokens.encode_pairs")
def lowest_rank_first(ids, merges, first_new=256):
    ids, ranks = ids.tolist(), {tuple(pair): k for k, pair in enumerate(merges.tolist())}
    while len(ids) > 1:
        rank, i = min((ranks.get((ids[i], ids[i + 1]), math.inf), i) for i in range(len(ids) - 1))
        if rank == math.inf:
            break
        ids[i : i + 2] = [first_new + rank]
    return ids


@right("tokens.bits_per_byte")
def bits_by_log2(nats_per_token, n_tokens, n_bytes):
    return math.log2(math.exp(nats_per_token)) * (n_tokens / n_bytes)


@right("tokens.surprise")
def surprise_by_torch(logits, targets):
    return torch.nn.functional.cross_entropy(torch.as_tensor(logits), torch.as_tensor(targets))


@right("tokens.nearest")
def nearest_by_loop(table, row):
    def cosine(i):
        return float(table[i] @ table[row]) / (math.hypot(*table[i]) * math.hypot(*table[row]))

    return sorted((i for i in range(len(table)) if i != row), key=cosine, reverse=True)


# Wrong in one place

slip("tokens.vocabulary", 'Join the pieces with "".join(…)', '"".join(', "(")
slip("tokens.encode", "That is the first of two", "in enumerate(text)", "in [*enumerate(text)][::-1]")
slip("tokens.encode", "Positions count from 0.", "text[{i}]", "text[{i + 1}]")
slip("tokens.encode", "should raise ValueError; yours raised KeyError", "character not in index", "False")
slip("tokens.decode", "yours raised IndexError", "if not 0 <= i < len(characters)", "if False")
slip("tokens.embed", "embed([6], table) should raise ValueError; yours raised IndexError", ">= len", "> len")
slip("tokens.embed", "the error message should mention -1", "{bad[0]}", "{max(bad[0], 0)}")
slip("tokens.embed", "Check the index before you use it.", "if bad.size", "if False")
slip(
    "tokens.best_pair", "Return the pair alone.",
    "np.array(min(counts, key=lambda pair: (-counts[pair], pair)))", "max(counts.items(), key=lambda one: one[1])",
)  # fmt: skip
slip(
    "tokens.nearest", "The cosine also divides by the length of each row",
    "axis=1, keepdims=True", "axis=0", "directions[row]", "table[row]",
)  # fmt: skip
