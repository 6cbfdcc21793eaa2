"""Makes a model that comes with the book from its recipe, with its files and a card that describes it."""

from __future__ import annotations

import json
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from safetensors.numpy import load_file
from safetensors.numpy import save as bytes_of

from glassformer import nn, shipped, text
from glassformer.atomic_files import write_whole
from glassformer.checkpoints import MODEL, TOKENIZER, checksum_of, model_of, own_checksum_of
from glassformer.config import ModelConfig
from glassformer.train import Trainer, initialize
from glassformer.train.recipe import Recipe, special_ids, toml_of
from tools.models.measure import measured

ABOUT = Path(__file__).with_name("about.toml")


class Made(NamedTuple):
    """A model, its training data, and its training."""

    name: str
    recipe: Recipe
    tokenizer: Any
    task: Any
    config: ModelConfig
    weights: dict[str, np.ndarray]  # float16


def made(name: str, changes: list[str], place: Path | None = None) -> Made:
    """Returns the model that its recipe makes, or an existing one from the folder `place`."""
    recipe = Recipe.of_the_book(name, [*changes, "training.device=cpu"])
    tokenizer, task, config = recipe.made_for(text.corpus())
    weights = trained(recipe, task, config) if place is None else load_file(place / name / MODEL)
    return Made(name, recipe, tokenizer, task, config, weights)


def trained(recipe: Recipe, task: Any, config: ModelConfig) -> dict[str, np.ndarray]:
    """Returns the rounded weights after training. If there is a running average of them, it returns the average."""
    model = nn.Transformer(config, generator=torch.Generator().manual_seed(recipe.training.seed))
    initialize(model, recipe.training)
    trainer = Trainer(model, task, recipe.training)
    trainer.run()
    if trainer.was_interrupted:
        sys.exit("interrupted: nothing is written")
    weights = trainer.average or dict(model.named_parameters())
    return {name: weight.detach().numpy().astype(np.float16) for name, weight in weights.items()}


def about(name: str, recipe: Recipe) -> dict[str, Any]:
    """Returns the description of a model: its title, what it does, its training data, its limits."""
    words = tomllib.loads(ABOUT.read_text(encoding="utf-8"))
    return words[name] | {"data": words["learned_from"][recipe.data.pairs or "corpus"]}


def keep(one: Made, changes: list[str], place: Path) -> dict[str, Any]:
    """Measures a model, writes its folder within `place`, and returns its card."""
    said, config = about(one.name, one.recipe), one.config
    files = {
        MODEL: bytes_of(one.weights),
        shipped.CONFIG: f"{config.to_json()}\n".encode(),
        TOKENIZER: f"{one.tokenizer.to_json()}\n".encode(),
    }
    unit = "characters" if one.recipe.data.tokenizer == "characters" else "tokens"
    sizes = {unit: one.tokenizer.vocab_size, "context_length": config.context_length}
    ids = special_ids(config.family, one.tokenizer.vocab_size)
    model, count = model_of(config, one.weights, room="nn"), config.parameter_count()
    card = {
        "name": one.name,
        "title": said["title"],
        "what": said["what"],
        "family": config.family,
        "parameters": count.total,
        **({"active": count.active} if count.active < count.total else {}),
        **sizes,
        "ids": ids,
        "bytes": sum(map(len, files.values())),
        "data": said["data"],
        "recipe": tomllib.loads(toml_of(one.name)),
        "changes": changes,  # changes to the recipe; the book's models have none
        "averaged": one.recipe.training.ema is not None,
        **measured(model, one.tokenizer, one.task, ids),
        "limits": [limit.format(**sizes) for limit in said["limits"]],
        "made_with": {"torch": torch.__version__.split("+")[0], "numpy": np.__version__},
        "files": {file: checksum_of(content) for file, content in files.items()},
    }
    content = json.dumps(card | {"checksum": own_checksum_of(card)}, indent=1, ensure_ascii=False)
    files[shipped.CARD] = f"{content}\n".encode()
    for name, written in files.items():
        write_whole(place / one.name / name, written)
    return card
