import pytest
import torch
from first_steps import only_the_first_are_held_to_annotations

torch.set_num_threads(1)  # arrays this small only wait for the second thread


@pytest.fixture(autouse=True, scope="package")
def first_steps_are_held_to_annotations():
    with only_the_first_are_held_to_annotations():
        yield


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Whatever started pytest, these tests are not one of several processes that train together."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
