"""Tests recipes: a small file becomes a run."""

import numpy as np
import pytest
import torch

from glassformer import nn
from glassformer.checkpoints import StoredModel
from glassformer.config import ModelConfig
from glassformer.dates import date_pairs
from glassformer.tasks import MaskedToken, NextToken, Pairs
from glassformer.text import CharTokenizer
from glassformer.train import TrainingConfig, initialize
from glassformer.train.recipe import DRAWN_AT, NAMES, PAIRS, DataConfig, Recipe, doubts, special_ids

SMALL = """
[data]
length = 8
[model]
d_model = 8
n_layers = 1
n_heads = 2
[training]
steps = 3
batch_size = 2
"""
TEXT = "to be, or not to be: that is the question. " * 20


@pytest.mark.parametrize("name", ["baseline", "modern", "portable"])
def test_the_books_recipes_are_of_the_same_size(name):
    recipe = Recipe.of_the_book(name)
    _, task, config = recipe.made_for(TEXT + "".join(map(chr, range(33, 80))) * 2)
    assert config.replace(vocab_size=65).parameter_count().total <= 810_000
    assert recipe.training.steps * recipe.training.batch_size * task.length == 1_536_000


def test_a_file_and_changes_make_a_run():
    recipe = Recipe.from_toml(SMALL, ["model.d_ff=12", "training.optimizer=muon", "training.ema = 0.5"])
    tokenizer, task, config = recipe.made_for(TEXT)
    assert isinstance(task, NextToken)
    assert (task.length, task.batch_size) == (8, 2)
    assert config == ModelConfig(
        vocab_size=len(set(TEXT)), context_length=8, d_model=8, n_layers=1, n_heads=2, d_ff=12
    )
    assert tokenizer.decode(task.ids) == TEXT[: len(task.ids)]
    assert (recipe.training.optimizer, recipe.training.ema, recipe.training.steps) == ("muon", 0.5, 3)
    assert Recipe.from_toml(recipe.to_toml()) == recipe


def test_an_entry_can_be_taken_out():
    text = SMALL.replace("[training]", "d_ff = 12\n[training]\nwarmup = 2")
    recipe = Recipe.from_toml(text, ["model.d_ff=", "training.warmup= ", "model.norm_eps="])
    assert recipe == Recipe.from_toml(SMALL)
    assert Recipe.from_toml(text, ["model.d_ff=", "model.d_ff=14"]).model["d_ff"] == 14


def test_the_last_two_twentieths_are_for_choosing_and_for_the_report():
    changes = ["data.validation=0.05", "data.test=0.05"]
    two, three = Recipe.from_toml(SMALL, ["data.validation=0.1"]), Recipe.from_toml(SMALL, changes)
    (tokenizer, before, _), (_, now, _) = two.made_for(TEXT), three.made_for(TEXT)
    assert tokenizer.decode(now.ids) + tokenizer.decode(now.held_out) + tokenizer.decode(now.for_test) == TEXT
    assert len(now.held_out) == len(now.for_test) == len(before.held_out) / 2
    # A recipe kept by a run from before there was a test part goes on with the tenth that it had.
    assert np.array_equal(now.ids, before.ids)
    assert len(before.for_test) == 0


@pytest.mark.parametrize("name", NAMES)
def test_every_recipe_of_the_book_keeps_a_test_part(name):
    data = Recipe.of_the_book(name).data
    assert (data.validation, data.test) == (0.05, 0.05)  # together the tenth that all else holds out


def test_an_encoder_has_an_id_that_covers():
    recipe = Recipe.from_toml(SMALL, ["model.family=encoder"])
    tokenizer, task, config = recipe.made_for(TEXT)
    assert isinstance(task, MaskedToken)
    assert task.mask_id == tokenizer.vocab_size == config.vocab_size - 1


def test_an_encoder_decoder_learns_pairs(as_readers_run_it, monkeypatch):
    few = date_pairs()[::50]  # all 73,049 are those of the recipe "dates", below
    monkeypatch.setitem(PAIRS, "dates", lambda: few)
    recipe = Recipe.from_toml(SMALL, ["model.family=encoder-decoder", "data.pairs=dates", "data.length=50"])
    tokenizer, task, config = recipe.made_for(TEXT)
    assert isinstance(task, Pairs)
    assert len(task.sources) == len(few)
    for i in (0, 1400):
        assert tokenizer.decode(task.sources[i]) == few[i].source
        assert tokenizer.decode(task.targets[i]) == few[i].target
    # The decoder's own two ids come after the characters, and start and stop a text.
    V = tokenizer.vocab_size
    inputs, targets = task.batch(0)
    assert set(inputs["ids"][:, 0]) == {V}
    assert set(targets[:, -1]) == {V + 1}
    assert (config.vocab_size, config.context_length) == (V + 2, 50)
    assert len(task.held_out) == 147
    assert Recipe.from_toml(recipe.to_toml()) == recipe


def test_the_ids_that_stand_for_no_text():
    assert special_ids("decoder", 65) == {}
    assert special_ids("encoder", 65) == {"mask": 65}
    assert special_ids("encoder-decoder", 50) == {"start": 50, "stop": 51}
    with pytest.raises(ValueError, match="family='gpt' is not one of"):
        special_ids("gpt", 3)


@pytest.mark.parametrize(
    ("changes", "end", "i"),
    [(["data.tokenizer=bytepairs", "data.vocab_size=260"], "<e>", 259), ([], "§", 16)],
)
def test_the_end_of_a_document_is_one_id(changes, end, i):
    recipe = Recipe.from_toml(SMALL, [f"data.document_end={end}", *changes])
    tokenizer, task, config = recipe.made_for(f"q{end}{TEXT}")
    assert tokenizer.decode(task.ids[:2]) == f"q{end}"
    assert task.special_ids == {"stop": task.ids[1]} == {"stop": i}
    assert recipe.made_for(TEXT)[2] == config  # a single document
    further = Recipe.from_toml(FURTHER, [f"data.document_end={end}"])
    for special in ({}, task.special_ids):
        base = StoredModel(config, tokenizer, {}, special)
        assert further.made_for(TEXT, base)[1].special_ids == {"stop": i}
    assert Recipe.from_toml(FURTHER).made_for(TEXT, base)[1].special_ids == {"stop": i}
    with pytest.raises(ValueError, match="document_end='y' is not one of the "):
        Recipe.from_toml(FURTHER, ["data.document_end=y"]).made_for(TEXT, base)


def test_byte_pairs():
    recipe = Recipe.from_toml(SMALL, ["data.tokenizer=bytepairs", "data.vocab_size=260"])
    tokenizer, task, config = recipe.made_for(TEXT)
    assert tokenizer.vocab_size == config.vocab_size == 260
    assert TEXT.startswith(tokenizer.decode(task.ids))


@pytest.mark.usefixtures("as_readers_run_it")
@pytest.mark.parametrize(
    ("text", "changes", "message"),
    [
        ("[data", [], "the recipe is not TOML"),
        ("[date]\n", [], r"\[date\] is not a part of a recipe; its parts are data, model, training"),
        ("steps = 3", [], r"\[steps\] is not a part"),
        (SMALL, ["steps=3"], "'steps=3' is not a change: write PART.FIELD=VALUE"),
        (SMALL, ["training.steps"], "is not a change"),
        (SMALL, ["training.step=3"], "TrainingConfig has no field 'step'; did you mean 'steps'"),
        (SMALL, ["model.n_layer=3"], r"\[model\] has no field 'n_layer'; did you mean 'n_layers'"),
        (SMALL, ["model.vocab_size=3"], r"\[model\] has no field 'vocab_size'"),
        (SMALL, ["model.n_layer="], r"\[model\] has no field 'n_layer'; did you mean 'n_layers'"),
        (SMALL, ["training.step="], r"\[training\] has no field 'step'; did you mean 'steps'"),
        (SMALL, ["data.lenght="], r"\[data\] has no field 'lenght'; did you mean 'length'"),
        (SMALL, ["model.d_model="], r"\[model\] needs the field 'd_model'"),
        (SMALL, ["training.steps="], "TrainingConfig needs the field 'steps'"),
        (SMALL, ["data.lenght=3"], r"\[data\] has no field 'lenght'; did you mean 'length'"),
        (SMALL, ["data.length=0"], "length=0 must be at least 1"),
        (SMALL, ["training.learning_rate=inf"], "learning_rate=inf must be positive and finite"),
        (SMALL, ["training.learning_rate=1e999"], "learning_rate=inf must be positive and finite"),
        (SMALL, ["training.learning_rate=nan"], "learning_rate=nan must be positive and finite"),
        (SMALL, ["data.tokenizer=words"], "tokenizer='words' is not one of 'characters', 'bytepairs'"),
        (SMALL, ["data.tokenizer=bytepairs"], "byte pairs need the size of their vocabulary"),
        (SMALL, ["data.vocab_size=300"], "for characters it follows from the text"),
        (
            SMALL,
            ["data.document_end=<e>"],
            "document_end='<e>' must be one character with tokenizer=\"characters\"",
        ),
        (SMALL, ["data.document_end=''"], "document_end='' must be one character"),
        (
            SMALL,
            ["data.pairs=dates", "data.document_end=x"],
            "document_end='x' does not go with pairs='dates'",
        ),
        (SMALL, ["data.pairs=numbers"], "pairs='numbers' is not one of 'dates', 'a file that ends in .tsv'"),
        (
            SMALL,
            ["data.pairs=dates", "data.text=mine.txt"],
            r"text='mine\.txt' does not go with pairs='dates'",
        ),
        (
            SMALL,
            ["data.pairs=dates", "data.tokenizer=bytepairs", "data.vocab_size=300"],
            "tokenizer='bytepairs' does not go with pairs='dates'",
        ),
        (SMALL.replace("d_model = 8", ""), [], r"\[model\] needs the field 'd_model'"),
        (SMALL.replace("steps = 3", ""), [], "TrainingConfig needs the field 'steps'"),
    ],
)
def test_what_is_wrong_is_named(text, changes, message):
    with pytest.raises(ValueError, match=message):
        Recipe.from_toml(text, changes)


@pytest.mark.usefixtures("as_readers_run_it")
@pytest.mark.parametrize(
    ("changes", "text", "message"),
    [
        (
            ["model.family=encoder-decoder"],
            TEXT,
            "learns from pairs .* --set data.pairs=dates the book's dates",
        ),
        (["data.pairs=dates"], TEXT, "pairs='dates' needs family=\"encoder-decoder\", not 'decoder'"),
        (["model.n_heads=3"], TEXT, "d_model=8 is not divisible by n_heads=3"),
        ([], "short", "length=8 needs at least"),
    ],
)
def test_what_does_not_fit_the_text_is_named(changes, text, message):
    with pytest.raises(ValueError, match=message):
        Recipe.from_toml(SMALL, changes).made_for(text)


def test_the_shares_that_are_held_out_are_not_negative():
    with pytest.raises(ValueError, match=r"validation=-0\.1 must be zero or more"):
        DataConfig(validation=-0.1)
    with pytest.raises(ValueError, match=r"test=-0\.1 must be zero or more"):
        DataConfig(test=-0.1)


def test_a_recipe_that_the_book_has_not_is_refused():
    with pytest.raises(ValueError, match=r"name='moderne' is not one of 'modern', 'baseline'"):
        Recipe.of_the_book("moderne")


@pytest.mark.parametrize(
    ("changes", "doubted"),
    [
        ({"positions": "sinusoidal"}, True),
        ({"positions": "sinusoidal", "embedding_scale": 3.5}, True),
        ({"positions": "sinusoidal", "embedding_scale": 3.6}, False),
        ({"positions": "sinusoidal", "embedding_scale": 8.0}, False),
        ({"positions": "learned"}, False),
        ({"positions": "rope"}, False),
        ({"positions": "none"}, False),
    ],
)
def test_sinusoids_that_drown_the_token_vectors_are_doubted(changes, doubted):
    config = ModelConfig(vocab_size=11, context_length=8, d_model=64, n_layers=1, n_heads=2, **changes)
    assert len(doubts(config)) == doubted


@pytest.mark.parametrize("d_model", [2, 64, 768])
def test_the_factor_that_a_doubt_names_makes_both_equally_large(d_model):
    """Whatever the width: √d_model is the right factor only where embeddings are drawn at 1/√d_model."""
    config = ModelConfig(
        vocab_size=11, context_length=8, d_model=d_model, n_layers=1, n_heads=1, positions="sinusoidal"
    )
    [doubt] = doubts(config)
    assert doubt.startswith("embedding_scale=1 makes token vectors of size 0.02")
    factor = float(doubt.partition("larger model.embedding_scale (")[2].split()[0])
    assert factor * DRAWN_AT == pytest.approx(0.5**0.5, rel=0.005)
    assert doubts(config.replace(embedding_scale=factor)) == []


def test_a_scale_of_attention_for_another_width_of_heads_is_doubted():
    [doubt] = doubts(Recipe.of_the_book("modern", ["model.d_model=256", "model.d_ff=688"]).made_for(TEXT)[2])
    assert doubt.startswith("attention_scale=0.4243 is 3.4/√d_head with d_head=64")
    change = doubt.rpartition("--set ")[2]
    assert doubts(Recipe.of_the_book("modern", ["model.d_model=256", change]).made_for(TEXT)[2]) == []
    assert (
        doubts(
            Recipe.of_the_book("modern", ["model.d_model=256", "model.attention_scale="]).made_for(TEXT)[2]
        )
        == []
    )


@pytest.mark.parametrize("init", ["ours", "gpt2"])
def test_new_token_vectors_are_of_the_size_that_doubts_are_about(init):
    config = ModelConfig(vocab_size=200, context_length=8, d_model=64, n_layers=1, n_heads=2)
    model = nn.Transformer(config, generator=torch.Generator().manual_seed(0))
    initialize(model, TrainingConfig(steps=1, batch_size=1, init=init))
    assert model.token_embedding.weight.std().item() == pytest.approx(DRAWN_AT, rel=0.03)


@pytest.mark.parametrize("name", NAMES)
def test_no_recipe_of_the_book_is_doubted(name):
    model = Recipe.of_the_book(name).model
    assert doubts(ModelConfig(vocab_size=11, context_length=8, **model)) == []


FURTHER = """
[data]
length = 4
[model]
from = "mine"
[training]
steps = 3
batch_size = 2
"""


def kept(family="decoder", **changes):
    """Returns what is stored of a model whose tokenizer knows more characters than the text has."""
    tokenizer = CharTokenizer.from_text(f"{TEXT}\nxyz")
    V = tokenizer.vocab_size + len(special_ids(family, 0))
    sizes = {"vocab_size": V, "context_length": 8, "d_model": 8, "n_layers": 1, "n_heads": 2}
    return StoredModel(ModelConfig(family=family, **sizes | changes), tokenizer, {})


@pytest.mark.parametrize(("family", "kind"), [("decoder", NextToken), ("encoder", MaskedToken)])
def test_a_recipe_with_from_keeps_configuration_and_tokenizer(family, kind):
    base, recipe = kept(family, dropout=0.1), Recipe.from_toml(FURTHER, ["model.dropout=0.1"])
    tokenizer, task, config = recipe.made_for(TEXT, base)
    assert (tokenizer, config) == (base.tokenizer, base.config)
    assert (type(task), task.length) == (kind, 4)
    assert tokenizer.decode(task.ids) == TEXT[: len(task.ids)]
    assert Recipe.from_toml(recipe.to_toml()) == recipe


def test_a_recipe_with_from_keeps_the_special_ids(tmp_path):
    (tmp_path / "a.tsv").write_text("to\tbe\n" * 20, encoding="utf-8")
    base = kept("encoder-decoder")._replace(special_ids={"start": 1, "stop": 0})
    recipe = Recipe.from_toml(FURTHER, [f"data.pairs={tmp_path / 'a.tsv'}"])
    assert recipe.made_for("", base)[1].special_ids == {"start": 1, "stop": 0}


@pytest.mark.parametrize(
    ("base", "changes", "text", "said"),
    [
        (
            kept(),
            [],
            f"{TEXT}\nxy2\x1b",
            r"'2' \(line 2, character 3 of the text\) is not one of the 20 characters .* it lacks 2: '\\x1b' '2';",
        ),
        (kept(), ["model.d_ff=9"], TEXT, "model.d_ff=9, but mine has 32: a run keeps"),
        (kept(), ["data.length=9"], TEXT, "data.length=9 must be at most context_length=8 of mine"),
        (kept(vocab_size=18), [], TEXT, "the tokenizer of mine has 20 ids, but its vocab_size=18"),
        (
            kept("encoder", vocab_size=20),
            [],
            TEXT,
            "20 ids, and needs one more for each of mask, but its vocab_size=20",
        ),
        (kept()._replace(tokenizer=None), [], TEXT, "from='mine': it has no tokenizer"),
        (None, [], TEXT, "from='mine', and begins_with is missing"),
    ],
)
def test_what_does_not_fit_the_model_to_begin_with_is_said(base, changes, text, said):
    with pytest.raises(ValueError, match=said):
        Recipe.from_toml(FURTHER, changes).made_for(text, base)
