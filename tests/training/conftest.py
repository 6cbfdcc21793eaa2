import jaxtyping
import pytest
import torch

from glassformer.train import Trainer

torch.set_num_threads(1)  # arrays this small only wait for the second thread


HELD = 2  # steps of a run: every function that a step calls is called by these


@pytest.fixture(autouse=True, scope="package")
def first_steps_are_held_to_annotations():
    """Enforces annotations only for the first two steps of a `Trainer`, which halves the time.

    All steps of a run call the same functions with the same shapes. Outside the steps, annotations stay enforced.
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
    """Removes the settings of torchrun, so that these tests do not look like one of several processes."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
