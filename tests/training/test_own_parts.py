"""Tests models with parts of one's own: trained, stored, opened again, and refused if they lack something."""

import re

import numpy as np
import pytest
import torch
from own_models import CHARACTERS, SIZES, TOKENIZER, small
from traitlets import TraitError

from glassformer import checkpoints, model_files, nn, pretrained, scratch, widgets
from glassformer.config import ModelConfig
from glassformer.nn.adapters import adapted, add_adapters, merge_adapters
from glassformer.protocols import OF_POSITIONS
from glassformer.tasks import NextToken
from glassformer.text import CharTokenizer
from glassformer.train import Trainer, TrainingConfig, initialize

IDS = np.arange(300) * 7 % len(CHARACTERS)
INPUT = torch.from_numpy(IDS[:12])[None]
TRAINING = TrainingConfig(steps=4, batch_size=2, evaluate_every=0, save_every=2, device="cpu", ema=0.5)
CONFIG = ModelConfig(**SIZES)


def generator():
    return torch.Generator().manual_seed(0)


class Squares(torch.nn.Module):
    """A feed-forward network of one's own: `n` last matrices, of any name, after one that all share."""

    def __init__(self, last="W_down", n=1):
        super().__init__()
        self.W_up = nn.Linear(16, 8, generator=generator())
        self.last = torch.nn.ModuleList(
            torch.nn.ModuleDict({last: nn.Linear(8, 16, generator=generator())}) for _ in range(n)
        )

    def forward(self, x):
        return sum(layer(self.W_up(x) ** 2) for net in self.last for layer in net.values())


def with_squares(*given, **changes):
    made = nn.Transformer(CONFIG.replace(**changes), generator=generator())
    for block in made.decoder.blocks:
        block.feedforward = Squares(*given)
    return made


class Own(torch.nn.Module):
    """A model of one's own, with no more than it needs. Two of its names are one weight."""

    def __init__(self):
        super().__init__()
        self.config = CONFIG
        self.table = torch.nn.Embedding(CONFIG.vocab_size, 16)
        self.out = torch.nn.Linear(16, CONFIG.vocab_size)
        self.out.weight = self.table.weight
        torch.nn.init.normal_(self.out.weight, generator=generator())
        torch.nn.init.zeros_(self.out.bias)
        self.register_buffer("ones", torch.ones(16), persistent=False)

    def forward(self, ids):
        return self.out(self.table(ids) * self.ones)


def with_adapters():
    made = nn.Transformer(CONFIG, generator=generator())
    add_adapters(made, rank=2, generator=generator())
    return made


def fit(made, folder=None, training=TRAINING, **options):
    task = NextToken(IDS, 8, 2, 0)
    return Trainer(made, task, training, folder, tokenizer=TOKENIZER, progress=False, **options)


@pytest.mark.parametrize("make", [with_squares, Own, with_adapters])
def test_it_is_trained_goes_on_and_is_opened_as_the_model_that_is_given(tmp_path, make):
    fit(make(), tmp_path / "whole", TRAINING.replace(steps=6, decay="none")).run()
    fit(make(), tmp_path / "run", TRAINING.replace(decay="none")).run()
    again = fit(make(), tmp_path / "run", TRAINING.replace(steps=6, decay="none"), resume=True)
    again.run()
    mine = make()
    opened = pretrained.load(tmp_path / "run", model=mine)
    assert opened.model is mine
    assert not mine.training
    assert opened.decode(opened.encode("abba")) == "abba"
    whole = checkpoints.load_model(tmp_path / "whole", model=make())
    assert torch.equal(mine(INPUT), whole(INPUT))
    for name, weight in mine.named_parameters():
        assert torch.equal(weight, again.average[name])
    assert not torch.equal(mine(INPUT), make().eval()(INPUT))


@pytest.mark.parametrize("room", ["scratch", "nn"])
def test_without_that_model_the_message_says_what_to_do(tmp_path, room):
    fit(with_squares(), tmp_path).run()
    said = r"feedforward\.last\.0\.W_down\.bias is not a weight .* not those that the configuration makes.* model=mine"
    with pytest.raises(ValueError, match=said):
        pretrained.load(tmp_path, room=room)
    n = sum(weight.numel() for weight in with_squares().parameters())
    with pytest.raises(ValueError, match=f"has {n:,} weights, but its configuration describes"):
        pretrained.configuration(tmp_path)
    with pytest.raises(TraitError, match=r"cannot run in a page: .* not those that the configuration makes"):
        widgets.AttentionExplorer(str(tmp_path))


def with_config_of_another_kind():
    made = Own()
    made.config = Squares()
    return made


# What is given as the model: how the message goes
WRONG_MODELS = {
    "with_squares('W_out')": "last.0.W_out.weight is missing; ",
    "with_squares('W_down', 2)": "last.1.W_down.weight is missing",
    "nn.Transformer(CONFIG, generator=None)": "last.0.W_down.weight is not a weight of this layer",
    "with_squares(n_heads=4, d_head=8)": "model is not the one that was stored: n_heads was 2 and is now 4",
    "torch.nn.Linear(2, 2)": "model, a Linear, lacks config",
    "with_config_of_another_kind()": "model.config must be a ModelConfig of glassformer.config",
}


@pytest.mark.parametrize("given", WRONG_MODELS)
def test_a_model_that_does_not_fit_stays_as_it_is(tmp_path, given):
    fit(with_squares(), tmp_path).run()
    made = eval(given)
    before = {name: weight.detach().clone() for name, weight in made.named_parameters()}
    with pytest.raises((ValueError, TypeError)) as raised:
        checkpoints.load_model(tmp_path, model=made)
    assert WRONG_MODELS[given] in str(raised.value)
    assert all(torch.equal(weight, before[name]) for name, weight in made.named_parameters())


def test_a_numpy_model_gets_the_weights_too_and_a_hub_folder_none(tmp_path):
    fit(nn.Transformer(CONFIG, generator=generator()), tmp_path / "run").run()
    mine = scratch.Transformer(CONFIG, generator=None, dtype=np.float64)
    assert pretrained.load(tmp_path / "run", model=mine).model is mine
    theirs = pretrained.load(tmp_path / "run").model
    np.testing.assert_allclose(mine(IDS[:9]), theirs(IDS[:9]), rtol=0, atol=1e-5)
    (tmp_path / "config.json").touch()
    with pytest.raises(ValueError, match="model= is not for files of Hugging Face"):
        pretrained.load(tmp_path, model=mine)


# What a model lacks: said before anything is written


def without_config():
    made = Own()
    del made.config
    return made


def with_buffer():
    made = Own()
    made.register_buffer("mean", torch.ones(2))
    return made


class NoForward(torch.nn.Module):
    config = CONFIG


class OtherNames(NoForward):
    def forward(self, x): ...


LACKING = {
    "without_config()": "model, a Own, lacks config: protocols.AnyModel says what it needs",
    "NoForward()": "model, a NoForward, lacks forward(ids, …): protocols.AnyModel",
    "OtherNames()": "model, a OtherNames, lacks forward(ids, …): protocols.AnyModel",
    "with_buffer()": "model has mean, which a checkpoint leaves out because it is no Parameter",
    "Own()": 'optimizer="muon" moves the matrices in blocks, but the model has none: protocols.AnyModel',
}


@pytest.mark.parametrize("given", LACKING)
def test_what_it_lacks_is_named_before_anything_is_written(tmp_path, given):
    with pytest.raises((TypeError, ValueError), match=re.escape(LACKING[given])):
        fit(eval(given), tmp_path / "run", TRAINING.replace(optimizer="muon"))
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("missing", OF_POSITIONS)
def test_what_a_position_encoding_lacks_is_named(missing):
    methods = {name: getattr(nn.NoPositions, name) for name in OF_POSITIONS}
    whole, lacking = (
        type(
            "Mine", (torch.nn.Module,), {name: methods[name] for name in OF_POSITIONS if name not in left_out}
        )
        for left_out in ((), (missing,))
    )
    for place, name in (
        ("positions", "positions"),
        ("blocks.0.attention.position_encoding", "position_encoding"),
    ):
        made = nn.Transformer(CONFIG, generator=generator())
        made.decoder.set_submodule(place, whole())
        assert made(INPUT).isfinite().all()
        made.decoder.set_submodule(place, lacking())
        with pytest.raises(TypeError, match=f"{name}, a Mine, lacks {missing}: protocols.AnyPositions says"):
            made(INPUT)


class Turning(nn.NoPositions):
    """Says nothing of where it acts."""

    def rotate(self, x, position_ids=None):
        return -x


class Elsewhere(nn.NoPositions):
    acts_on = "rotation"


class Waves(nn.SinusoidalPositions):
    """Acts on the input, as its base does."""


@pytest.mark.parametrize("place", ["positions", "blocks.1.attention.position_encoding"])
def test_a_position_encoding_is_refused_where_it_would_not_be_asked(place):
    rotary, sinusoids = nn.RotaryPositions(8), Waves(16)
    misplaced, there = (rotary, "queries and keys") if place == "positions" else (sinusoids, "input")
    for encoding, its in ((misplaced, there), (Turning(), None), (Elsewhere(), "rotation")):
        made = nn.Transformer(CONFIG, generator=generator())
        made.decoder.set_submodule(place, encoding)
        said = (
            f"{place.rpartition('.')[2]}, a {type(encoding).__name__}, has acts_on={its!r}, but must act on"
        )
        with pytest.raises(ValueError, match=said):
            made(INPUT)


# How its weights begin


def test_initialize_finds_the_last_matrices_by_name_or_refuses():
    """Several last matrices of one sublayer are drawn like one, since their sum or one of them is written."""
    drawn = []
    for n in (1, 3):
        made = with_squares("W_down", n)
        initialize(made, TRAINING.replace(init="gpt2"))
        drawn.append(made.decoder.blocks[0].attention.W_o.weight.detach())
    assert torch.equal(*drawn)
    initialize(made, TRAINING.replace(zero_init=True))
    assert not any(
        made.get_parameter(f"decoder.blocks.1.feedforward.last.{i}.W_down.weight").any() for i in range(3)
    )
    initialize(with_squares("W_out"), TRAINING.replace(init="ours", zero_init=False))
    for other, said in (
        (with_squares("W_out"), "decoder.blocks.0.feedforward"),
        (Own(), "a model without blocks"),
    ):
        before = {name: weight.detach().clone() for name, weight in other.named_parameters()}
        for changes in ({"init": "gpt2"}, {"zero_init": True}):
            with pytest.raises(ValueError, match=f"no matrix of {re.escape(said)}.* is called W_o or W_down"):
                initialize(other, TRAINING.replace(**changes))
        assert all(torch.equal(weight, before[name]) for name, weight in other.named_parameters())


# A file that everything opens


def test_a_model_file_is_written_by_either_room_and_opened_by_all(tmp_path, tmp_path_factory):
    made = with_adapters().eval()
    for layer in adapted(made).values():
        torch.nn.init.normal_(layer.B, generator=generator())
    folder = tmp_path_factory.mktemp("run")
    fit(with_adapters(), folder).run()
    for opens in (
        lambda: model_files.save(tmp_path / "a.safetensors", made, TOKENIZER),
        lambda: scratch.in_numpy(made),
        lambda: pretrained.load(folder),
        lambda: pretrained.configuration(folder),
    ):
        with pytest.raises(ValueError, match=r"the model has adapters, which merge_adapters\(model\)"):
            opens()
    with pytest.raises(ValueError, match="the model has parts that its configuration does not make"):
        scratch.in_numpy(with_squares())
    merge_adapters(made)
    model = made  # and then the same in NumPy
    for name in "ab":
        path = tmp_path / f"{name}.safetensors"
        model_files.save(path, model, TOKENIZER)
        model = pretrained.load(path).model
        opened = pretrained.load(path, room="nn")
        assert torch.equal(opened.model(INPUT), made(INPUT))
        assert opened.tokenizer.to_json() == TOKENIZER.to_json()
        assert widgets.LogitLens(str(path)).model == str(path)
    with pytest.raises(FileExistsError, match=r"a\.safetensors exists already"):
        model_files.save(tmp_path / "a.safetensors", made, TOKENIZER)
    for path, model, tokenizer, error, said in (
        ("c.bin", small(), TOKENIZER, ValueError, "must end in .safetensors"),
        ("c.safetensors", small(), None, TypeError, "tokenizer=None must be a CharTokenizer or a BytePair"),
        ("c.safetensors", small(), CharTokenizer("ab"), ValueError, "the tokenizer has 2 ids"),
        ("c.safetensors", made.double(), TOKENIZER, ValueError, "has dtype F64, but it must be F16 or F32"),
        ("c.safetensors", with_squares(), TOKENIZER, ValueError, "only what the configuration makes"),
    ):
        with pytest.raises(error, match=said):
            model_files.save(tmp_path / path, model, tokenizer)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.safetensors", "b.safetensors"]
