"""Judges "Two thirds of what?" (chapter 06).

The fraction of a GPT-2's parameters that is in its feed-forward networks.
"""

from glassformer.exercises.catalogue import exercise


def share(d_model: int, n_layers: int, vocab_size: int, context_length: int) -> float:
    """Returns the fraction of all parameters of such a GPT-2 that is in its feed-forward networks."""
    D, L = d_model, n_layers
    feedforward = L * (8 * D * D + 5 * D)
    attention, norms = L * (4 * D * D + 4 * D), L * 4 * D
    return feedforward / (vocab_size * D + context_length * D + attention + feedforward + norms + 2 * D)


part = exercise("feedforward.share", share)

part.case(
    "one block of width 1, with 11 tokens and 7 positions: 13 of 11 + 7 + 8 + 13 + 4 + 2",
    1, 1, 11, 7, want=13 / 45, being="13/45",
)  # fmt: skip
part.case("two blocks of width 2", 2, 2, 19, 9, want=84 / (38 + 18 + 48 + 84 + 16 + 4), being="84/208")
part.case(
    "GPT-2 small: less than half",
    768, 12, 50_257, 1024, want=56_669_184 / 124_439_808, being="56,669,184 of 124,439,808",
)  # fmt: skip
part.case("GPT-2 XL", 1600, 48, 50_257, 1024, want=983_424_000 / 1_557_611_200)


def _pieces(D, L, V, T):
    return {
        "tokens": V * D,
        "places": T * D,
        "attention": L * (4 * D * D + 4 * D),
        "own": L * (8 * D * D + 5 * D),
        "norms": L * 4 * D,
        "last norm": 2 * D,
    }


def _without(*names):
    def wrong(D, L, V, T):
        pieces = _pieces(D, L, V, T)
        return pieces["own"] / sum(n for name, n in pieces.items() if name not in names)

    return wrong


@part.mistake("head untied")
def _(D, L, V, T):
    pieces = _pieces(D, L, V, T)
    return pieces["own"] / (sum(pieces.values()) + V * D)


part.mistake("of a block", _without("tokens", "places", "last norm"))
part.mistake("of the matrices", _without("tokens", "places", "norms", "last norm"))
part.mistake("no tokens", _without("tokens"))
part.mistake("no places", _without("places"))
part.mistake("one block", lambda D, L, V, T: share(D, L, V, T) / L)
part.mistake("of the rest", lambda D, L, V, T: share(D, L, V, T) / (1 - share(D, L, V, T)))
part.mistake("per cent", lambda D, L, V, T: 100 * share(D, L, V, T))
part.mistake("the count", lambda D, L, V, T: _pieces(D, L, V, T)["own"])


def _counted(own=5, attention=4, norms=4, last=2):
    """Counts so many widths of biases and norms."""

    def wrong(D, L, V, T):
        network = L * (8 * D * D + own * D)
        return network / (D * (V + T) + L * (4 * D * D + (attention + norms) * D) + network + last * D)

    return wrong


part.mistake("biases of the network", _counted(own=0))
part.mistake("biases of attention", _counted(attention=0))
part.mistake("all biases", _counted(own=0, attention=0))
part.mistake("two of D", _counted(own=2))
part.mistake("both of F", _counted(own=8))
part.mistake("one norm", _counted(norms=2))
part.mistake("last norm", _counted(last=0))
part.mistake("norms", _counted(norms=0, last=0))
part.mistake("two thirds", lambda D, L, V, T: 2 / 3)
