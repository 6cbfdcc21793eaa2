"""Tests what the page of chapter 08 builds: a GPT that keeps the numeric type of its weights."""

import ast

import numpy as np
import pytest

from glassformer import contents, scratch
from glassformer.published import published
from tools import notebooks
from tools.shared import chapter_facts

PAGES = {
    "08": ("gpt", {}),
    "12": ("gpt", {"n_layers": 2}),
}  # chapter: its whole model, and what else it takes


def functions(number):
    """Returns the functions that the cells of a chapter define."""
    cells = notebooks.read_text(chapter_facts.text_of(contents.chapter(number))).cells
    found = {"np": np, "scratch": scratch}
    exec("import math", found)
    for cell in cells:
        if cell.cell_type == "code" and "\ndef " in f"\n{cell.source}":
            defined = [node for node in ast.parse(cell.source).body if isinstance(node, ast.FunctionDef)]
            exec(compile(ast.Module(defined, []), f"chapter {number}", "exec"), found)
    return found


@pytest.mark.parametrize("number", PAGES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_gpt_keeps_the_type_of_its_weights(number, dtype):
    name, more = PAGES[number]
    config = published("gpt2").config.replace(
        vocab_size=9, context_length=7, d_model=8, n_layers=2, n_heads=2, attention_bias="none"
    )
    weights = scratch.Transformer(config, generator=np.random.default_rng(0), dtype=dtype).named_parameters()
    gpt = functions(number)[name]
    assert gpt(np.array([3, 1, 4, 1, 5]), weights, n_heads=2, **more).dtype == dtype


def test_gelu_keeps_float32():
    gelu = functions("08")["gelu"]
    x = np.linspace(-4, 4, 9, dtype=np.float32)
    assert gelu(x).dtype == np.float32
    assert np.allclose(gelu(x), scratch.gelu_tanh(x), atol=1e-6)
