"""Files that were written before names in the package changed still open, and mean the same."""

from pathlib import Path

import numpy as np
import pytest
import torch

from glassformer import checkpoints

BEFORE = Path(__file__).parent / "before"
IDS = np.array([0, 3, 1, 4])


@pytest.mark.parametrize("room", ["scratch", "nn"])
def test_a_checkpoint_written_before_gives_the_same_logits(room):
    model = checkpoints.load_model(BEFORE / "run" / "checkpoints", room=room)
    with torch.no_grad():
        logits = np.asarray(model(torch.tensor(IDS) if room == "nn" else IDS))
    np.testing.assert_allclose(logits, np.load(BEFORE / "logits.npy"), rtol=1e-4)


def test_weights_are_stored_under_the_names_that_readers_functions_use():
    """The functions in `my_transformer.py` read `weights["decoder.positions.weight"]`."""
    saved = checkpoints.load(BEFORE / "run" / "checkpoints").weights
    assert "decoder.positions.weight" in saved
    assert set(checkpoints.load_model(BEFORE / "run" / "checkpoints").state_dict()) == set(saved)
