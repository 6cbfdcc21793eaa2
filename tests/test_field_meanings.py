"""Tests that the help of a configuration says what each field means."""

import re
from dataclasses import fields

import pytest

from glassformer.config import CHOICES, ModelConfig
from glassformer.train.config import TRAINING_CHOICES, TrainingConfig
from glassformer.train.recipe import TOKENIZERS, DataConfig, Recipe

CHOICES_OF = {
    ModelConfig: CHOICES,
    TrainingConfig: TRAINING_CHOICES,
    DataConfig: {"tokenizer": TOKENIZERS},
    Recipe: {},
}


@pytest.mark.parametrize("config", CHOICES_OF)
def test_every_field_has_a_line_that_names_its_choices_and_what_none_means(config):
    listed = re.split(r"\n\s*\n", config.__doc__.split("    Attributes:\n")[1])[0]
    meanings = dict(re.findall(r"^ {8}(\w+): (.+(?:\n {12}.+)*)", listed, re.M))
    assert list(meanings) == [field.name for field in fields(config)]
    assert [name for name, meaning in meanings.items() if not meaning.endswith(".")] == []
    assert [
        (name, choice)
        for name, choices in CHOICES_OF[config].items()
        for choice in choices
        if f'"{choice}"' not in meanings[name]
    ] == []
    assert [f.name for f in fields(config) if f.default is None and "None: " not in meanings[f.name]] == []
