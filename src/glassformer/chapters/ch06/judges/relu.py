"""Judges "The simplest activation" (chapter 06): negative numbers become 0."""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.material import numbers
from glassformer.scratch.feedforward import relu

cut = exercise("feedforward.relu", relu, axes="")

cut.case(
    "negative becomes 0, positive stays", np.array([-2.0, -0.5, 0.0, 0.5, 3.0]), want=[0, 0, 0, 0.5, 3.0]
)
_x = numbers(3, 4)
cut.case("each number of a table by itself", _x, want=[[max(0.0, n) for n in row] for row in _x])
_x = numbers(2, 3, 2, seed=1) - 5
cut.case("all of them negative: nothing but zeros", _x, want=np.zeros((2, 3, 2)))
