"""Judges "How the stream grows" (chapter 06).

How the variance of a stream grows with every network that adds to it.
"""

import math

from glassformer.exercises.catalogue import exercise


def stream_variance(n_blocks: int, d_ff: int, deviation: float) -> float:
    """The variance of a stream after so many networks with ReLU have added to it, at the beginning."""
    return 1 + n_blocks * d_ff * deviation**2 / 2


grown = exercise("feedforward.stream_variance", stream_variance)

grown.case("before any block: only the initial stream", 0, 256, 1 / 16, want=1.0)
grown.case("1/√d_ff: every block adds a half", 1, 256, 1 / 16, want=1.5)
grown.case("1/√D, with d_ff = 4 D: every block adds 2", 1, 256, 1 / 8, want=3.0)
grown.case("every block adds the same amount", 12, 256, 1 / 16, want=7.0)
grown.also(12, 256, 1 / 8, want=25.0)
grown.case("matrices of zeros add nothing", 5, 100, 0.0, want=1.0)
grown.also(3, 50, 0.1, want=1.75)

grown.slip("variance of ReLU", "/ 2", "* (0.5 - 1 / (2 * pi))", pi=math.pi)
