import pytest
import torch
from first_steps import only_the_first_are_held_to_annotations


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    """As the runs that are kept were made: sums come out the same, and arrays this small gain nothing by a second."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(autouse=True, scope="package")
def first_steps_are_held_to_annotations():
    with only_the_first_are_held_to_annotations():
        yield
