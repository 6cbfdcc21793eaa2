"""Tests which device a run takes and what it says about it."""

import pytest
import torch

from glassformer.train.processes import choice_of


@pytest.mark.parametrize(
    ("name", "device", "said"),
    [
        ("auto", "cpu", 'device="auto" has chosen cpu'),
        ("auto", "cuda:1", 'device="auto" has chosen cuda'),
        ("auto", "mps", 'device="auto" has chosen mps. Apple\'s GPU rounds differently'),
    ],
)
def test_auto_names_what_it_has_chosen(name, device, said):
    words = choice_of(name, torch.device(device))
    assert words.startswith(said)
    assert ("losses may differ" in words) == (device == "mps")


def test_a_device_that_was_asked_for_is_not_named():
    assert choice_of("mps", torch.device("mps")) is None
