from pathlib import Path

import ledger
import pytest
import torch
from transformers.utils import logging

torch.set_num_threads(1)  # arrays this small only wait for the second thread
logging.set_verbosity_error()
logging.disable_progress_bar()

FAMILIES = """
seed_oss arcee ernie4_5 ernie4_5_moe olmo olmoe cohere cohere2 exaone4 exaone4-full granite granite4 granite4-rope
granite4-moe granitemoe granitemoeshared apertus hunyuan nanochat helium glm glm4 glm4_moe_lite glm_moe_dsa deepseek_v2
solar_open dots1 hy_v3 qwen2_moe laguna laguna-headless
"""
WEEKLY = FAMILIES.split()
"""Cases of families that no chapter loads. Every run makes one comparison of each, and `make test-all` makes all."""


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is marked
def pytest_collection_modifyitems(items):
    here = [item for item in items if item.path.parent == Path(__file__).parent and hasattr(item, "callspec")]
    for item in here:
        always = item.originalname == "test_float64" and item.callspec.params.get("padded") is False
        if item.callspec.params.get("case") in WEEKLY and not always:
            item.add_marker(pytest.mark.weekly)


@pytest.fixture(autouse=True)
def notes_say_what_is_weekly(request, monkeypatch):
    monkeypatch.setattr(ledger, "weekly", request.node.get_closest_marker("weekly") is not None)


@pytest.fixture(autouse=True)
def offline(monkeypatch):
    """Prevents every test from reaching the hub."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
