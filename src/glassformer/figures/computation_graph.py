"""Draws a computation graph that was recorded during a forward pass, and paths on which slopes come back."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import numpy as np
from matplotlib.axes import Axes

from glassformer.figures.style import INK, ROLES

_GAP = 22  # from the middle of a label to an arrow, in points


@runtime_checkable
class Node(Protocol):
    """A recorded value: what it is called, its array, and what it was computed from, constants included."""

    name: str
    array: Any
    inputs: Iterable[Any]


def computation_graph(
    ax: Axes, at: Mapping[Node, tuple[float, float]], paths: Mapping[str, tuple[str, Sequence[Node]]]
) -> None:
    """Draw each value with its shape, a thin arrow to whatever was computed from it, and thick arrows back.

    Derived in chapter 09.

    Args:
        ax: where to draw.
        at: a point for every value of the graph: x and y, one unit apart.
        paths: for each label of the legend, a role, and values on the way back, each an input of the one before it.

    Raises:
        ValueError: a value has no point, or a path takes a step that was not recorded.
    """
    for node in at:
        for one in node.inputs:
            if isinstance(one, Node) and one not in at:
                raise ValueError(f"{one.name!r} is an input of {node.name!r}, but `at` has no point for it")

    def arrow(start: Node, end: Node, **look: Any) -> None:
        ax.annotate("", at[end], at[start], arrowprops={"shrinkA": _GAP, "shrinkB": _GAP, **look})

    for node, (x, y) in at.items():
        shape = " × ".join(map(str, np.shape(node.array))) or "1"
        ax.text(x, y, f"{node.name}\n{shape}", ha="center", va="center")
        for one in node.inputs:
            if isinstance(one, Node):
                arrow(one, node, arrowstyle="->", color=INK, alpha=0.6)
    for number, (label, (role, path)) in enumerate(paths.items(), start=1):
        for start, end in pairwise(path):
            if not any(one is end for one in start.inputs):
                raise ValueError(
                    f"{label!r} leads from {start.name!r} to {end.name!r}, which is no input of it"
                )
            bent = f"arc3,rad={-0.13 * number}"
            arrow(start, end, arrowstyle="-|>", color=ROLES[role], lw=2.2, connectionstyle=bent)
        ax.plot([], [], color=ROLES[role], label=label)
    across, up = np.array(list(at.values())).T
    ax.set(xlim=(across.min() - 0.4, across.max() + 0.4), ylim=(up.min() - 0.45, up.max() + 0.3))
    if paths:
        ax.legend(loc="upper center", bbox_to_anchor=(0.5, 0), ncols=len(paths))
    ax.axis("off")
