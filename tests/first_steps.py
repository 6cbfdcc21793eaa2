"""Long runs in tests: their first steps are held to the annotations, those after them only run."""

from collections.abc import Iterator
from contextlib import contextmanager

import jaxtyping
import pytest

from glassformer.train import Trainer

HELD = 2  # steps of a run: every function that a step calls is called by these


@contextmanager
def only_the_first_are_held_to_annotations() -> Iterator[None]:
    """Within, a `Trainer` makes its steps after the first two as readers run them, which takes half the time.

    The steps of a run call the same functions with the same shapes; all that is beside the steps is held as ever.
    """
    train_step = Trainer._train_step

    def step_of(trainer: Trainer) -> dict:
        before = jaxtyping.config.jaxtyping_disable
        jaxtyping.config.update("jaxtyping_disable", before or trainer.step >= HELD)
        try:
            return train_step(trainer)
        finally:
            jaxtyping.config.update("jaxtyping_disable", before)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trainer, "_train_step", step_of)
        yield
