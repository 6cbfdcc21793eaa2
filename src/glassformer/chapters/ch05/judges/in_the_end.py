"""Judges "How large, and how much is left?" (chapter 05).

How large a stream becomes, and what fraction of its first vector remains.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise


def in_the_end(n_writes: int, size: float) -> tuple[float, float, float]:
    """Size of a pre-norm stream after independent writes of `size`; share of x_0 in it, and in a post-norm stream."""
    mean_square = 1 + n_writes * size**2
    return np.sqrt(mean_square), 1 / np.sqrt(mean_square), (1 + size**2) ** (-n_writes / 2)


END = ("size", "share_pre", "share_post")
depth = exercise("stream.in_the_end", in_the_end, parts=END)

depth.case("before any write: size 1, and all of it is x₀", 0, 1.0, want=(1.0, 1.0, 1.0))
depth.case("one write of size 2: mean squares add up", 1, 2.0, want=(5**0.5, 0.2**0.5, 0.2**0.5))
depth.case("two writes of size 2", 2, 2.0, want=(3.0, 1 / 3, 0.2))
depth.case("three writes of size 1", 3, 1.0, want=(2.0, 0.5, 0.5**1.5))
depth.case("15 writes of size ¼", 15, 0.25, want=((31 / 16) ** 0.5, (16 / 31) ** 0.5, (16 / 17) ** 7.5))
depth.case("40 writes of size 1, as in 20 blocks", 40, 1.0, want=(41**0.5, 41**-0.5, 2.0**-20))
