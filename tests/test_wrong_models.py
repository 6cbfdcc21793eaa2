"""Tests that what is no model, or not in the room that is needed, is refused with the way out."""

import numpy as np
import pytest
import torch

from glassformer import evaluation, huggingface, inside, nn, pretrained, train
from glassformer.generate import generate
from glassformer.nn.adapters import add_adapters
from glassformer.tasks import NextToken
from glassformer.text import BytePairTokenizer, CharTokenizer

IDS = np.arange(40) % 7


@pytest.fixture(scope="module")
def opened():
    return pretrained.load("shakespeare")


@pytest.mark.parametrize(
    "use",
    [
        lambda given: generate(given, [1], 2),
        lambda given: evaluation.evaluate(given, CharTokenizer("ab"), "abab"),
        lambda given: huggingface.save(given, "nowhere"),
    ],
    ids=["generate", "evaluate", "save"],
)
def test_what_load_returns_or_takes_is_no_model(use, opened):
    with pytest.raises(TypeError, match=r"must be a model, not .*: pass its \.model"):
        use(opened)
    with pytest.raises(TypeError, match=r"not 'shakespeare': pretrained.load\(…\).model is one"):
        use("shakespeare")


@pytest.mark.parametrize(
    "use",
    [
        lambda model: add_adapters(model, rank=1, generator=None),
        lambda model: train.validation_loss(model, NextToken(IDS, 4, 2, 0)),
        lambda model: train.Trainer(
            model, NextToken(IDS, 4, 2, 0), train.TrainingConfig(steps=1, batch_size=2)
        ),
    ],
    ids=["adapters", "validation", "trainer"],
)
def test_a_model_in_numpy_is_named_where_pytorch_is_needed(use, opened):
    with pytest.raises(TypeError, match=r"must be in PyTorch.*room='nn'"):
        use(opened.model)


def test_cost_takes_a_model_of_either_room(opened):
    ids = np.arange(5)
    copy = pretrained.load("shakespeare", room="nn").model
    assert inside.cost(copy, ids) == inside.cost(opened.model, ids)


def test_a_tokenizer_that_no_checkpoint_could_be_opened_with_is_refused_before_training(opened, tmp_path):
    model = nn.Transformer(opened.config.replace(n_layers=1), generator=torch.Generator().manual_seed(0))
    training = train.TrainingConfig(steps=1, batch_size=2)
    for tokenizer, error, said in (
        (
            BytePairTokenizer.from_text("ab", 300),
            ValueError,
            "tokenizer has 257 ids, but the model's vocab_size=",
        ),
        ("abc", TypeError, "tokenizer must be a CharTokenizer or a BytePairTokenizer"),
    ):
        with pytest.raises(error, match=said):
            train.Trainer(model, NextToken(IDS, 4, 2, 0), training, tmp_path / "run", tokenizer=tokenizer)
    assert not (tmp_path / "run").exists()


def test_an_option_that_generate_does_not_have_is_named(opened):
    with pytest.raises(TypeError, match=r"no option 'seed': generator=np.random.default_rng\(seed\)"):
        generate(opened.model, [1], 2, seed=1)
    with pytest.raises(TypeError, match=r"no option 'top_q': .*top_p"):
        generate(opened.model, [1], 2, top_q=0.5)
