"""Models that come with the book: small, trained, and loaded in a moment, without PyTorch.

    model, tokenizer = shipped.load()
    model, tokenizer = shipped.load("dates", room="nn")

```
assets/models/shakespeare/
├── model.safetensors   the weights, in float16
├── config.json         the configuration
├── tokenizer.json
└── card.json           what it is, what it learned from and how well; what it cannot do; a checksum of every file
```

`make models` trains them again, each from its recipe.
"""

from importlib import resources
from typing import Any

from glassformer import _checks as checks
from glassformer.checkpoints import (
    MODEL,
    ROOMS,
    TOKENIZER,
    arrays_in,
    as_written,
    checked_bytes,
    model_of,
)
from glassformer.config import ModelConfig
from glassformer.documents import read_json
from glassformer.text import BytePairTokenizer, CharTokenizer, tokenizer_from_json

NAMES = ("shakespeare", "masked", "dates")
"""A decoder, an encoder and an encoder–decoder."""

CONFIG, CARD = "config.json", "card.json"
PLACE = resources.files("glassformer") / "assets" / "models"


def load(
    name: str = "shakespeare", *, room: str = "scratch"
) -> tuple[Any, CharTokenizer | BytePairTokenizer]:
    """The model of that name as a `Transformer` of either room, in evaluation, and its tokenizer.

    The weights become float32. Ids that stand for no text, such as the one that covers a character, are
    `card(name)["ids"]`.

    Used from chapter 00 on.

    Raises:
        ValueError: there is no such model; `room` is neither "scratch" nor "nn"; a file is not what was written.
        FileNotFoundError: a file is missing.
    """
    checks.one_of("room", room, ROOMS)
    folder, files = PLACE / name, card(name)["files"]
    content = {file: checked_bytes(folder / file, checksum) for file, checksum in files.items()}
    config = ModelConfig.from_json(content[CONFIG].decode())
    model = model_of(config, arrays_in(folder, content, MODEL), room=room)
    return model, tokenizer_from_json(content[TOKENIZER].decode())


def card(name: str = "shakespeare") -> dict[str, Any]:
    """Returns what is known about a model, as the page "The models of this book" shows it.

    Raises:
        ValueError: there is no such model, or its card is not what was written.
        FileNotFoundError: its card is missing.
    """
    checks.one_of("name", name, NAMES)
    path = PLACE / name / CARD
    return as_written(path, read_json(path))
