"""Tests the drawing of a recorded computation graph."""

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.text import Annotation

from glassformer.figures import ROLES
from glassformer.figures.computation_graph import computation_graph
from glassformer.figures.style import drawing


class Recorded(SimpleNamespace):
    """A recorded value."""

    __hash__ = object.__hash__


x = Recorded(name="x", array=np.zeros((3, 4)), inputs=())
A = Recorded(name="A", array=np.zeros((4, 5)), inputs=())
y = Recorded(name="@", array=np.zeros((3, 5)), inputs=(x, A))
loss = Recorded(name="loss", array=np.float64(1), inputs=(y, np.array([1, 2])))
AT = {x: (0, 0), A: (0, 1), y: (1, 0), loss: (2, 0)}


def drawn(at, paths):
    with drawing() as (_, ax):
        computation_graph(ax, at, paths)
        words = [one.get_text() for one in ax.texts if not isinstance(one, Annotation)]
        arrows = [(one.xyann, one.xy, one.arrow_patch) for one in ax.texts if isinstance(one, Annotation)]
        legend = ax.get_legend()
        return words, arrows, [one.get_text() for one in legend.get_texts()] if legend else []


def test_values_have_their_shapes_and_constants_are_left_out():
    words, arrows, _ = drawn(AT, {})
    assert words == ["x\n3 × 4", "A\n4 × 5", "@\n3 × 5", "loss\n1"]
    assert [(start, end) for start, end, _ in arrows] == [
        ((0, 0), (1, 0)),
        ((0, 1), (1, 0)),
        ((1, 0), (2, 0)),
    ]


def test_paths_lead_back_in_the_colour_of_their_role():
    _, arrows, legend = drawn(AT, {"to A": ("norm", [loss, y, A])})
    assert legend == ["to A"]
    back = [(start, end) for start, end, patch in arrows if patch.get_linewidth() > 2]
    assert back == [((2, 0), (1, 0)), ((1, 0), (0, 1))]
    assert ROLES["norm"] == "#{:02x}{:02x}{:02x}".format(
        *(round(255 * c) for c in arrows[-1][2].get_edgecolor()[:3])
    )


def test_what_was_not_recorded_is_refused():
    with pytest.raises(ValueError, match="'back' leads from 'loss' to 'x', which is no input of it"):
        drawn(AT, {"back": ("norm", [loss, x])})
    with pytest.raises(ValueError, match="'A' is an input of '@', but `at` has no point for it"):
        drawn({x: (0, 0), y: (1, 0)}, {})
