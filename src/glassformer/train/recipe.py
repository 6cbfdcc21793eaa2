"""A recipe: what is trained and how, in a small file of three parts.

    [data]                      [model]                     [training]
    tokenizer = "characters"    d_model = 128               steps = 2000
    length = 64                 n_layers = 4                batch_size = 12
                                n_heads = 4                 learning_rate = 1e-3

The fields of [model] are those of `ModelConfig`, less the two sizes that follow from the data, and those of
[training] are `TrainingConfig`'s.
"""

import json
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

import numpy as np

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.tasks import MaskedToken, NextToken
from glassformer.text import BytePairTokenizer, CharTokenizer
from glassformer.train.config import TrainingConfig

TOKENIZERS = ("characters", "bytepairs")
FROM_THE_DATA = ("vocab_size", "context_length")


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """How a text becomes what a model reads.

    Raises:
        ValueError: a field is out of its range, or `vocab_size` is there without byte pairs, or missing with them.
        TypeError: a field holds the wrong kind of thing.
    """

    text: str | None = None  # a file; without it, the book's Shakespeare
    tokenizer: str = "characters"
    vocab_size: int | None = None  # of byte pairs; characters are as many as there are
    length: int = 64  # of a window, and the model's context
    validation: float = 0.1  # the share of the text, its end, that is not trained on

    def __post_init__(self) -> None:
        if self.text is not None:
            checks.instance("text", self.text, str)
        checks.one_of("tokenizer", self.tokenizer, TOKENIZERS)
        if (self.vocab_size is not None) != (self.tokenizer == "bytepairs"):
            raise ValueError(
                f'vocab_size={self.vocab_size} with tokenizer="{self.tokenizer}": byte pairs need the size of '
                "their vocabulary, and characters have one already"
            )
        checks.whole("length", self.length)
        checks.positive("validation", self.validation)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What to train and how, whatever the text: `made_for` a text, it gives tokenizer, task and configuration.

    Derived in chapter 10.
    """

    data: DataConfig
    model: Mapping[str, Any]  # fields of ModelConfig
    training: TrainingConfig

    @classmethod
    def from_toml(cls, text: str, changes: Sequence[str] = ()) -> "Recipe":
        """The recipe in a file, with `changes` such as "training.steps=500" made to it.

        Raises:
            ValueError: the text is not TOML, or a part, field or change is unknown or breaks a rule.
            TypeError: a field holds the wrong kind of thing.
        """
        try:
            given = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise ValueError(f"the recipe is not TOML: {error}") from None
        parts = [f.name for f in fields(cls)]
        for name, value in given.items():
            if name not in parts or not isinstance(value, dict):
                raise ValueError(f"[{name}] is not a part of a recipe; its parts are {', '.join(parts)}")
        parts_given = {part: dict(given.get(part, {})) for part in parts}
        for change in changes:
            part, field, value = _parsed(change, parts)
            parts_given[part][field] = value
        data, model, training = (parts_given[part] for part in parts)
        checks.fields("[data]", data, [f.name for f in fields(DataConfig)])
        known = [f for f in fields(ModelConfig) if f.name not in FROM_THE_DATA]
        required = [f.name for f in known if f.default is MISSING]
        checks.fields("[model]", model, [f.name for f in known], required)
        return cls(data=DataConfig(**data), model=model, training=TrainingConfig.from_fields(training))

    def to_toml(self) -> str:
        """The recipe as a file, every field of [data] and [training] with its value."""
        parts = {"data": asdict(self.data), "model": self.model, "training": asdict(self.training)}
        lines = []
        for part, values in parts.items():
            # For numbers, booleans, strings and lists of them, TOML's notation is JSON's; it has no None.
            given = {name: value for name, value in values.items() if value is not None}
            lines += [f"[{part}]", *(f"{name} = {json.dumps(value)}" for name, value in given.items()), ""]
        return "\n".join(lines)

    def made_for(
        self, text: str
    ) -> tuple[CharTokenizer | BytePairTokenizer, NextToken | MaskedToken, ModelConfig]:
        """The tokenizer of a text, the task of learning it, and the configuration of a model that can.

        A decoder learns which token is next, an encoder which was covered; the id that covers comes after the
        tokenizer's own.

        Raises:
            ValueError: the model is an encoder–decoder, for which a single text has no pairs; the text is too
                short; or the configuration breaks a rule.
        """
        family = self.model.get("family", "decoder")
        if family == "encoder-decoder":
            raise ValueError('family="encoder-decoder" learns from pairs of texts, and here is only one text')
        if self.data.tokenizer == "characters":
            tokenizer = CharTokenizer.from_text(text)
        else:
            tokenizer = BytePairTokenizer.from_text(text, self.data.vocab_size)
        ids, V = np.asarray(tokenizer.encode(text)), tokenizer.vocab_size
        given = (ids, self.data.length, self.training.batch_size, self.training.seed)
        if family == "encoder":
            task = MaskedToken(*given, mask_id=V, validation=self.data.validation)
            V += 1
        else:
            task = NextToken(*given, validation=self.data.validation)
        config = ModelConfig(**self.model | {"vocab_size": V, "context_length": self.data.length})
        return tokenizer, task, config


def _parsed(change: str, parts: Sequence[str]) -> tuple[str, str, Any]:
    """`training.steps=500` as a part, a field and a value: a number, true or false, or else a word."""
    name, equals, value = change.partition("=")
    part, dot, field = name.strip().partition(".")
    if not equals or not dot or part not in parts:
        raise ValueError(
            f"{change!r} is not a change: write PART.FIELD=VALUE, with the parts {', '.join(parts)}"
        )
    try:
        return part, field, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return part, field, value.strip()
