"""Finds few rows of choices that contain every allowed pair of choices: a covering array of strength two.

The search is greedy, as in AETG (Cohen et al. 1997): each new row starts from a pair that no row has yet. Its other
choices are drawn, and then changed one by one as long as the row covers more of the missing pairs. Pairs of names with
many choices weigh more, because they determine the number of rows: two names with 6 choices each need 36.
"""

from itertools import combinations

import numpy as np

STARTS = 5  # rows that compete in each round


def pairs(row):
    """Returns every two (name, choice) of a row, in the order of the names."""
    return set(combinations(sorted(row.items(), key=lambda item: item[0]), 2))


def covering(options, wanted, is_allowed, seed=0):
    """Returns rows, dictionaries with a choice for each name, that together contain every pair in `wanted`.

    Args:
        options: the choices for each name.
        wanted: pairs ((name, choice), (name, choice)), each of which some allowed row contains.
        is_allowed: a function of a row.
        seed: the seed of the random choices. The same arguments give the same rows.
    """
    generator = np.random.default_rng(seed)
    items = [(name, choice) for name, choices in options.items() for choice in choices]
    place = {item: i for i, item in enumerate(items)}
    names = list(options)
    owner = np.array([names.index(name) for name, _ in items])
    missing = np.zeros((len(items), len(items)), dtype=int)  # a weight, 0 when covered; symmetric
    for one, other in wanted:
        weight = (len(options[one[0]]) * len(options[other[0]])) ** 2
        missing[place[one], place[other]] = missing[place[other], place[one]] = weight

    def row_of(chosen):
        return dict(items[i] for i in chosen)

    def climbed(chosen):
        """Makes the best single allowed change, again and again, until no change covers more pairs."""
        while True:
            scores = missing[:, chosen].sum(axis=1)  # of each item beside the others of the row
            gains = scores - scores[chosen][owner]
            for i in np.argsort(-gains, kind="stable"):
                if gains[i] <= 0:
                    return chosen
                changed = chosen.copy()
                changed[owner[i]] = i
                if is_allowed(row_of(changed)):
                    chosen = changed
                    break
            else:
                return chosen

    rows = []
    while missing.any():
        candidates = []
        while len(candidates) < STARTS:
            chosen = np.array(
                [place[name, choices[generator.integers(len(choices))]] for name, choices in options.items()]
            )
            for i in generator.choice(np.argwhere(missing)):
                chosen[owner[i]] = i
            if is_allowed(row_of(chosen)):
                candidates.append(climbed(chosen))
        best = max(candidates, key=lambda chosen: missing[np.ix_(chosen, chosen)].sum())
        missing[np.ix_(best, best)] = 0
        rows.append(row_of(best))
    return rows
