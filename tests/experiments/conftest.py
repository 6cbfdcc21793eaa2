import pytest
import torch


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    """As the runs that are kept were made: sums come out the same, and arrays this small gain nothing by a second."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
