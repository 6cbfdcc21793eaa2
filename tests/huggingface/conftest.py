import pytest
import torch
from transformers.utils import logging

torch.set_num_threads(1)  # arrays this small only wait for the second thread
logging.set_verbosity_error()
logging.disable_progress_bar()


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """Prevents every test from reaching the hub."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
