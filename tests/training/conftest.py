import jaxtyping
import pytest
import torch

from glassformer.train import Trainer

torch.set_num_threads(1)  # arrays this small only wait for the second thread


HELD = 2  # steps of a run: every function that a step calls is called by these


@pytest.fixture(autouse=True, scope="package")
def first_steps_are_held_to_annotations():
    """A `Trainer` makes its steps after the first two as readers run them, which takes half the time.

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


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Whatever started pytest, these tests are not one of several processes that train together."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
