"""Models that readers had before layers could differ still open, and give the logits that they gave then.

The page saves float32 and computes in it: its file is held to the last digit here, and its own logits as closely as
float32 allows.
"""

import json

import numpy as np
import pytest
from close import DOUBLE, SINGLE, assert_close
from safetensors.numpy import load_file

from glassformer import checkpoints, huggingface, model_files

from . import write_models
from .write_models import MODELS

THEN = load_file(write_models.MEANT)
FIELDS = json.loads(write_models.FIELDS.read_text())
IN_BOTH_ROOMS = pytest.mark.parametrize("room", ["scratch", "nn"])


def weights_of(name):
    return checkpoints.load(write_models.STORED / name).weights


def assert_as_then(model, name, within=DOUBLE):
    for what, found in write_models.outputs(model).items():
        # The same logits whether a text is read at once or bit by bit
        wanted = THEN[f"{name}/{what.replace('cached', 'whole')}"]
        assert_close(found, wanted, within, what=f"{name}, {what}")


@IN_BOTH_ROOMS
@pytest.mark.parametrize("name", MODELS)
def test_a_checkpoint_gives_the_same_logits(name, room):
    assert_as_then(checkpoints.load_model(write_models.STORED / name, room=room), name)


@IN_BOTH_ROOMS
@pytest.mark.parametrize("name", MODELS)
def test_a_configuration_in_a_readers_notebook_means_the_same(name, room):
    """It leaves most fields to their defaults, which a checkpoint stores."""
    assert_as_then(checkpoints.model_of(write_models.config_of(name), weights_of(name), room=room), name)


@IN_BOTH_ROOMS
@pytest.mark.parametrize("name", write_models.SAVED_FOR_THE_HUB)
def test_a_folder_saved_for_the_hub_gives_the_same_logits(name, room):
    assert_as_then(huggingface.load(write_models.HUB / name, room=room, dtype="float64"), name)


@IN_BOTH_ROOMS
def test_a_model_saved_in_the_page_gives_the_same_logits(room):
    config, tokenizer, weights, _ = model_files.load(write_models.PAGE)
    assert tokenizer.characters == write_models.CHARACTERS
    assert_as_then(checkpoints.model_of(config, weights, room=room), "page", SINGLE)
    exact = {name: values.astype(np.float64) for name, values in weights.items()}
    assert_as_then(checkpoints.model_of(config, exact, room=room), "page")


# --- what is stored is enough ---


def stored(name):
    """Returns the fields of a configuration as they are in the file."""
    (path,) = (write_models.STORED / name).glob("*/training.json")
    return json.loads(path.read_text())["model"]


def test_every_choice_and_every_field_of_then_is_stored():
    """What a later version adds did not exist then."""
    configs = [stored(name) for name in MODELS]
    assert all(config.keys() == FIELDS["defaults"].keys() for config in configs)
    missing = {
        (field, choice)
        for field, choices in FIELDS["choices"].items()
        for choice in choices
        if choice not in [config[field] for config in configs]
    }
    assert not missing
    given = [write_models.SIZES | own for own in MODELS.values()]
    for field, default in FIELDS["defaults"].items():
        assert any(own.get(field, default) != default for own in given), field


@pytest.mark.parametrize("name", MODELS)
def test_every_field_that_is_given_matters(name):
    """Without it, the weights do not fit or the logits are others; so a field that is ignored is noticed."""
    config, weights = write_models.config_of(name), weights_of(name)
    without = FIELDS["defaults"] | write_models.SIZES
    given = {field for field, value in MODELS[name].items() if value != without[field]}
    for field in given - {"dropout"}:  # which changes nothing but training
        try:
            other = checkpoints.model_of(config.replace(**{field: without[field]}), weights)
        except ValueError:
            continue
        found = write_models.outputs(other)
        moved = [np.abs(found[what] - THEN[f"{name}/{what}"]).max() for what in found if what != "cached"]
        assert max(moved) > 1e-6, field
    assert checkpoints.load(write_models.STORED / name).model_config.dropout == MODELS[name].get("dropout", 0)
