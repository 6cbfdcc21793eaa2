import pytest
import torch

torch.set_num_threads(1)  # arrays this small only wait for the second thread


@pytest.fixture(autouse=True)
def alone(monkeypatch):
    """Whatever started pytest, these tests are not one of several processes that train together."""
    for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
