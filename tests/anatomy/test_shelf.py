"""Tests that published files are counted as transformers builds them, and that every key of them is explained."""

import json
import re
from copy import deepcopy
from importlib import resources

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from glassformer.anatomy import keys_of, read, shelf
from glassformer.anatomy.reading import WRAPPED

from .small import n_weights

NAMES = [one["name"] for one in shelf()]

CLASSES = {"bert": AutoModelForMaskedLM, "t5": AutoModelForSeq2SeqLM}
"""How transformers builds what does not continue a text."""


def text_part(file):
    """Returns the part of a file that reads and writes text."""
    inner = next((file[key] for key in WRAPPED if isinstance(file.get(key), dict)), None)
    return (
        file if inner is None else {key: file[key] for key in ["tie_word_embeddings"] if key in file} | inner
    )


def built(file):
    """Returns the model that transformers builds from this file, without numbers."""
    given = {key: value for key, value in text_part(file).items() if key != "quantization_config"}
    config = CONFIG_MAPPING[given["model_type"]](**deepcopy(given))
    config._attn_implementation = config._experts_implementation = "eager"
    with torch.device("meta"):
        return CLASSES.get(given["model_type"], AutoModelForCausalLM).from_config(config)


@pytest.mark.parametrize("one", shelf(), ids=NAMES)
def test_the_weights_of_a_published_file_are_those_that_transformers_builds(one):
    assert sum(read(one["config"]).weights().values()) == n_weights(built(one["config"]))


def fits(figure, count):
    """Returns whether a figure such as "671 B" is a count that was rounded to its last digit other than 0."""
    number, unit = figure.split()
    unit = {"M": 10**6, "B": 10**9, "T": 10**12}[unit]
    digits, _, decimals = number.partition(".")
    zeros = 0 if decimals else len(re.search("0*$", digits)[0])
    return abs(float(number) * unit - count) <= unit * 10 ** (zeros - len(decimals)) / 2


@pytest.mark.parametrize("one", shelf(), ids=NAMES)
def test_a_figure_of_the_publisher_that_is_not_the_rounded_count_is_explained_and_no_other(one):
    anatomy = read(one["config"])
    counts = [
        (one[key], sum(anatomy.weights(active=key == "active").values())) for key in ("published", "active")
    ]
    assert all(fits(figure, n) for figure, n in counts if figure) == (not one["why"])


def test_figures_are_rounded_to_their_last_digit_that_is_not_0():
    for figure, count in [
        ("671 B", 671_026_404_352),
        ("230 B", 228_689_748_992),
        ("1.6 T", 1_572_997_179_491),
    ]:
        assert fits(figure, count), figure
    for figure, count in [("46.6 B", 46_702_792_704), ("16 B", 16_513_000_000), ("671 M", 671 * 10**9)]:
        assert not fits(figure, count), figure


def test_every_entry_is_whole_and_they_are_ordered_by_date():
    for one in shelf():
        assert list(one) == ["name", "by", "date", "source", "published", "active", "why", "config"]
        assert re.fullmatch(r"[\w.-]+/[\w.-]+, config\.json( as .+)?", one["source"]), one["name"]
        assert re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", one["date"]), one["name"]
        assert re.fullmatch(r"(.+\.)?", one["why"]), one["name"]
    assert [one["date"] for one in shelf()] == sorted(one["date"] for one in shelf())
    assert len(set(NAMES)) == len(NAMES)


@pytest.mark.parametrize("one", shelf(), ids=NAMES)
def test_every_key_of_these_files_has_a_sentence_and_a_chapter_or_is_known_to_have_no_effect(one):
    assert keys_of(one["config"])["unknown"] == []
    assert [key for key, *_, chapter in keys_of(one["config"])["said"] if not chapter] == []


def test_the_shelf_has_a_line_for_each_entry():
    text = (resources.files("glassformer.anatomy") / "shelf.json").read_text(encoding="utf-8")
    assert [json.loads(line.removesuffix(",")) for line in text.splitlines()[1:-1]] == shelf()
