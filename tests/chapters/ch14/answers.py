"""Answers for chapter 14: right ones that differ from the book's, and wrong ones that are not classic mistakes."""

import numpy as np

from tests.exercises.answers import Answers

ANSWERS = Answers()
right, slip = ANSWERS.right, ANSWERS.slip


@right("clinic.knows_nothing")
def knows_nothing_as_a_perplexity(logits, targets):
    V, real = logits.shape[-1], targets != -100
    p = np.exp(logits[real]) / np.exp(logits[real]).sum(axis=-1, keepdims=True)
    perplexity = np.exp(-np.log(p[np.arange(len(p)), targets[real]]).mean())
    return np.exp(-0.1) < perplexity / V < np.exp(0.1)


@right("clinic.says_the_same")
def says_the_same_to_the_last_digit(model, ids):
    first = model(ids)
    return all((model(ids) == first).all() for _ in range(3))


@right("clinic.order_matters")
def order_matters_sorted(model, ids):
    """Sorts in both directions: a text whose past is not a single character differs from at least one of them."""
    past = sorted(ids[:-1])
    one, other = ([*past, ids[-1]], [*past[::-1], ids[-1]])
    return not np.allclose(model(np.array(one))[-1], model(np.array(other))[-1], rtol=0, atol=1e-5)


@right("clinic.padding_is_unseen")
def padding_is_unseen_by_other_padding(model, ids, pad):
    """Uses that a position which nothing attends to may hold any id."""
    real = np.append(np.ones(len(ids), bool), [False] * 2)
    rows = [model(np.append(ids, [one] * 2), real)[: len(ids)] for one in range(5)]
    alone = model(ids, real[:-2])
    return bool(max(np.abs(row - alone).max() for row in rows) < 1e-4)


@right("clinic.read_map")
def read_map_by_loop(weights):
    T = len(weights)
    for row in weights:
        if abs(sum(row) - 1) > 1e-3:
            columns = [sum(weights[i][j] for i in range(T)) for j in range(T)]
            return "axis" if all(abs(column - 1) < 1e-3 for column in columns) else "late"
    ahead = [weights[i][j] for i in range(T) for j in range(i + 1, T)]
    return "future" if max(ahead) > 1e-6 else "fine"


@right("clinic.first_difference")
def first_difference_by_argmax(mine, theirs):
    off = ~np.array([np.max(np.abs(a - b)) <= 1e-4 for a, b in zip(mine, theirs, strict=True)])
    return off.argmax() if off.any() else -1


@right("clinic.attend")
def attend_with_a_large_negative_number(q, k, v):
    T, K = q.shape[-2:]
    scores = np.einsum("...tk,...sk->...ts", q, k) * K**-0.5 + np.triu(np.full((T, T), -1e30), 1)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights @ v / weights.sum(-1, keepdims=True)


@right("clinic.cover")
def cover_of_sets(caught):
    tests = [set(np.flatnonzero(row)) for row in caught]
    left, chosen = set().union(*tests), []
    while left:
        best = max(range(len(tests)), key=lambda i: len(tests[i] & left))
        chosen.append(best)
        left -= tests[best]
    return chosen


@right("clinic.diagnose")
def diagnose_in_another_order(model, ids):
    """Uses three calls with one text to detect noise, then a bag of words, then the future."""
    calls = [model(ids) for _ in range(3)]
    if max(np.abs(call - calls[0]).max() for call in calls) > 1e-4:
        return "dropout"
    ahead = max(np.abs(model(ids[:t])[-1] - calls[0][t - 1]).max() for t in range(1, len(ids)))
    if ahead > 1e-4:
        return "future"
    shuffled = np.append(np.roll(ids[:-1], 2), ids[-1])
    return "fine" if np.abs(model(shuffled)[-1] - calls[0][-1]).max() > 1e-4 else "order"


# The book's answers with a slip
slip("clinic.says_the_same", "a sum or a mean", "np.abs(", "abs(np.mean(", ".max()", ")")
slip("clinic.padding_is_unseen", "mask should be (T,)", "np.arange(T + 3) < T", "np.ones(T, bool)")
slip("clinic.attend", "should have shape (T, K) = (1, 4)", "return ", "return v[..., -1, :]  # ")
