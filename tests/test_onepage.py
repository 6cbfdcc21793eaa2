"""Tests that the one page fits on a page, imports nothing of ours, and equals the shipped model to five digits."""

import ast
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from close import SINGLE, assert_close

from glassformer import generate, onepage, shipped

LINE = "A horse! a horse! my kingdom for a horse!"
FOLDER = Path(onepage.__file__).parent / "assets" / "models" / "shakespeare"


@pytest.fixture(scope="module")
def page():
    return onepage.GPT(FOLDER)


@pytest.fixture(scope="module")
def book():
    return shipped.load()


def caches(page):
    return [[] for _ in range(page.config["n_layers"])]


def test_it_is_one_page():
    lines = Path(onepage.__file__).read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 100
    assert max(map(len, lines)) <= 82


def test_it_needs_nothing_but_numpy():
    imports = set()
    for node in ast.walk(ast.parse(Path(onepage.__file__).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imports |= {alias.name.partition(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imports.add(node.module.partition(".")[0])
    assert imports <= {"numpy", *sys.stdlib_module_names}


@pytest.mark.parametrize(
    "text", ["\n", LINE, (LINE + "\n") * 3 + "ab"], ids=["one", "a line", "a whole context"]
)
def test_its_logits_are_the_shipped_models(page, book, text):
    model, tokenizer = book
    ids = tokenizer.encode(text)
    assert len(ids) <= model.config.context_length
    assert "".join(page.alphabet) == tokenizer.characters
    assert_close(page(ids, caches(page)), model(ids), SINGLE)


@pytest.mark.parametrize("cuts", [(1, 2, 3), (20,), (40,)], ids=str)
def test_what_it_remembers_changes_nothing(page, cuts):
    ids = [page.alphabet.index(character) for character in LINE]
    whole, kept, pieces = page(ids, caches(page)), caches(page), np.split(np.array(ids), cuts)
    in_pieces = np.concatenate([page(piece, kept) for piece in pieces])
    assert_close(in_pieces, whole, SINGLE)


def test_the_likeliest_text_is_the_shipped_models(page, book):
    model, tokenizer = book
    n = model.config.context_length - len(LINE)
    [expected] = generate.generate(model, tokenizer.encode(LINE), n, temperature=0)
    assert "".join(page.write(LINE, n, temperature=0)) == tokenizer.decode(expected)[-n:]


def test_it_draws_from_the_likeliest_few_as_often_as_they_are_likely(page):
    logits = page([page.alphabet.index(c) for c in "To be, or not to b"], caches(page))[-1]
    best = np.argsort(-logits)[:3]
    p = np.exp(logits[best] / 2)
    p /= p.sum()
    drawn = [next(page.write("To be, or not to b", 1, temperature=2, top_k=3, seed=s)) for s in range(400)]
    shares = [drawn.count(page.alphabet[i]) / 400 for i in best]
    assert sum(shares) == pytest.approx(1)  # nothing but these three
    assert np.abs(shares - p).max() < 0.1  # four standard errors


def test_it_goes_on_past_its_context(page):
    room = page.config["context_length"]
    text = "".join(page.write(LINE, 2 * room, temperature=0))
    assert len(text) == 2 * room
    # Once full, it reads from its middle anew, and what follows is what a fresh start there gives.
    first = room - len(LINE) + 1
    again = (LINE + text[:first])[room // 2 :]
    assert "".join(page.write(again, 20, temperature=0)) == text[first : first + 20]


def test_the_same_seed_writes_the_same(page):
    def text(seed):
        return "".join(page.write("\n", 40, seed=seed))

    assert text(3) == text(3) != text(4)


def test_it_runs_from_the_command_line():
    ran = subprocess.run([sys.executable, onepage.__file__, LINE], capture_output=True, text=True, check=True)
    assert len(ran.stdout) == 500


def test_a_character_that_it_never_met_is_named(page):
    with pytest.raises(ValueError, match="'€' is not in list"):
        next(page.write("€", 1))
