"""Attention as a picture: queries down, keys across."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.image import AxesImage

from glassformer.figures.style import WEIGHTS


def attention_map(
    ax: Axes,
    weights: Float[np.ndarray, "T S"],
    labels: Sequence[str],
    title: str,
    *,
    highest: float = 1.0,
) -> AxesImage:
    """Draw attention weights, queries down and keys across.

    Args:
        ax: where to draw.
        weights: attention weights (T, S).
        labels: the tokens, one for each key; the last T of them are the queries.
        title: what distinguishes this map from its neighbours.
        highest: the weight that gets the brightest colour; use the same for maps that are compared.

    Returns:
        The image, for a colour bar that several maps share.
    """
    n_queries, n_keys = weights.shape
    if len(labels) != n_keys:
        raise ValueError(f"labels has {len(labels)} entries for {n_keys} keys; there must be one for each")
    image = ax.imshow(weights, cmap=WEIGHTS, vmin=0, vmax=highest)
    longest = max(map(len, labels), default=0)
    ax.set_xticks(range(n_keys), labels, rotation=90 if longest > 1 and n_keys * longest > 16 else 0)
    ax.set_yticks(range(n_queries), labels[n_keys - n_queries :])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    ax.set_title(title)
    return image
