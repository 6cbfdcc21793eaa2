"""The models that come with the book: small, trained, and quickly loaded without PyTorch.

    model, tokenizer = shipped.load()
    model, tokenizer = shipped.load("dates", room="nn")

```
assets/models/shakespeare/
├── model.safetensors   the weights, in float16
├── config.json         the configuration
├── tokenizer.json
└── card.json           what it is, what it learned from and how well; what it cannot do; a checksum of every file
```

`make models` retrains each from its recipe.
"""

import shlex
from importlib import resources
from pathlib import Path
from typing import Any

from glassformer import _checks as checks
from glassformer.checkpoints import (
    MODEL,
    ROOMS,
    TOKENIZER,
    StoredModel,
    arrays_in,
    as_written,
    checked_bytes,
    model_of,
)
from glassformer.config import ModelConfig
from glassformer.text import BytePairTokenizer, CharTokenizer, tokenizer_from_json
from glassformer.untrusted_files import read_json

__all__ = ["NAMES", "as_typed", "card", "configuration", "load", "stored"]
__dir__ = __all__.copy

NAMES = ("shakespeare", "words", "experts", "masked", "dates")
"""Three decoders, over characters, over byte pairs and with experts; an encoder and an encoder–decoder."""

CONFIG, CARD = "config.json", "card.json"
PLACE = resources.files("glassformer") / "assets" / "models"


def load(
    name: str = "shakespeare", *, room: str = "scratch"
) -> tuple[Any, CharTokenizer | BytePairTokenizer]:
    """Loads the model of that name as a `Transformer` of either room, in evaluation, and its tokenizer.

    The weights become float32. `card(name)["ids"]` lists ids that stand for no text, such as the mask id.

    Used from chapter 00 on.

    Raises:
        ValueError: there is no such model; `room` is neither "scratch" nor "nn"; a file has changed since it
            was written.
        FileNotFoundError: a file is missing.
    """
    checks.one_of("room", room, ROOMS)
    config, tokenizer, weights, _ = stored(name)
    return model_of(config, weights, room=room), tokenizer


def configuration(name: str = "shakespeare") -> ModelConfig:
    """Returns the configuration of the model of that name, without reading its weights.

    Raises:
        ValueError, FileNotFoundError: as `load`.
    """
    return ModelConfig.from_json(checked_bytes(PLACE / name / CONFIG, card(name)["files"][CONFIG]).decode())


def stored(name: str) -> StoredModel:
    """Returns what is stored of the model of that name.

    Raises:
        ValueError, FileNotFoundError: as `load`.
    """
    folder, files = PLACE / name, card(name)["files"]
    content = {file: checked_bytes(folder / file, checksum) for file, checksum in files.items()}
    config = ModelConfig.from_json(content[CONFIG].decode())
    tokenizer = tokenizer_from_json(content[TOKENIZER].decode())
    return StoredModel(config, tokenizer, arrays_in(folder, content, MODEL))


def card(name: str = "shakespeare") -> dict[str, Any]:
    """Returns a model's card, which the page "The models of this book" shows.

    Raises:
        ValueError: there is no such model, or its card does not match its checksum.
        FileNotFoundError: its card is missing.
    """
    checks.one_of("name", name, NAMES)
    path = PLACE / name / CARD
    return as_written(path, read_json(path))


def as_typed(folder: Path) -> str:
    """Returns a folder as one types it in a shell: not an option, and not the name of one of these models."""
    name = folder.as_posix()  # with slashes on Windows, too: its shells do not need them quoted
    return shlex.quote(f"./{name}" if name in NAMES or name.startswith("-") else name)
