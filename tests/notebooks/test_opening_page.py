"""Tests book/opening.md: the page is current, its command opens a folder and writes, and its sizes are right."""

import math
from pathlib import Path

import pytest
import transformers
from tokenizers import Tokenizer, models
from typer.testing import CliRunner

from glassformer.anatomy import shelf
from glassformer.cli import app
from glassformer.huggingface import config_from_hf
from glassformer.huggingface.families import FORMATS
from tools.book_pages import opening

BOOK = Path(__file__).parents[2] / "book"
PAGE = (BOOK / "opening.md").read_text(encoding="utf-8")


def test_the_page_is_current():
    assert opening.page(BOOK / "opening.toml") == PAGE


def cells(name):
    line = next(line for line in PAGE.splitlines() if line.startswith(f"| `{name}`"))
    return [cell.strip() for cell in line.strip("| ").split("|")]


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        # by hand: 0.596 billion numbers; 28 layers keep 2 · 8 · 128 numbers of 4,096 positions
        ("qwen3-0.6b", (2 * 0.596, 4 * (0.596 + 0.235), 2 * (0.596 + 0.235))),
        # 24 layers with 32 experts of 3 · 2880 · 2880 numbers are 19.1 of 20.9 billion; 12 layers keep 128 positions
        ("gpt-oss-20b", (2 * 1.804 + 19.11 * 17 / 32, 4 * (20.915 + 0.052), 2 * (20.915 + 0.052))),
    ],
)
def test_sizes_by_hand(name, sizes):
    assert all(math.isclose(float(found), size, abs_tol=0.06) for found, size in zip(cells(name)[2:5], sizes))


def test_no_family_is_both_opened_and_refused():
    opened, refused = PAGE.split("## Families")[1].split("| --- | --- |")
    opened, refused = set(opened.split("`")[3::2]), set(refused.split("`")[1::2])
    assert set(FORMATS) <= opened
    assert refused and not opened & refused
    assert refused <= set(transformers.models.auto.configuration_auto.CONFIG_MAPPING_NAMES)


def test_all_files_of_the_shelf_but_six_are_read():
    def is_read(given):
        try:
            return config_from_hf(given).parameter_count().total > 0
        except ValueError as error:
            assert "is not one of" in str(error)  # nothing else is missing
            return False

    refused = [one["name"] for one in shelf() if not is_read(one["config"])]
    assert {name.split()[0] for name in refused} == {"Pythia", "Jamba", "Llama", "Nemotron", "LFM2.5-VL"}
    assert len(refused) == 6


def test_the_command_opens_a_folder_and_writes(tmp_path):
    config = transformers.SmolLM3Config(
        vocab_size=4, hidden_size=16, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, bos_token_id=None, eos_token_id=None, pad_token_id=None,
    )  # fmt: skip
    transformers.SmolLM3ForCausalLM(config).save_pretrained(tmp_path)
    Tokenizer(models.WordLevel({"The": 0, "old": 1, "house": 2, "?": 3}, unk_token="?")).save(
        str(tmp_path / "tokenizer.json")
    )
    command = next(line for line in PAGE.splitlines() if line.startswith("python -m glassformer generate"))
    options = command.split("generate models/SmolLM3-3B ")[1].replace('"The old house"', "old").split()
    result = CliRunner().invoke(app, ["generate", str(tmp_path), *options, "--n-new", "3", "--temperature", "0"])
    assert result.exit_code == 0, result.output
    assert result.output.startswith("old")
    refused = CliRunner().invoke(app, ["generate", "shakespeare", "--dtype", "bfloat16"])
    assert refused.exit_code == 2 and "dtype='bfloat16'" in refused.stderr
