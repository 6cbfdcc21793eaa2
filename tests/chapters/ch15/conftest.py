"""Gives the capstone's tests the fixtures of the exercises: a new reader for every test, and what was shown."""

import pytest
import torch

from tests.exercises.conftest import folder, progress_file, shown  # noqa: F401


@pytest.fixture(autouse=True)
def on_one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
