"""Models in single files: weights, configuration and tokenizer together, as the book's pages save them too.

It is a safetensors file with numbers in float32 or float16, whose `__metadata__` has texts:

```
format      "glassformer model 1"
config      the JSON of a ModelConfig
tokenizer   the JSON of a tokenizer
```

Others, such as the number of steps, are facts about the model. `widgets/engine/model_file.js` writes such files, and
reads them by the same rules: whatever does not fit is refused before a model is built.
"""

import os
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save as bytes_of

from glassformer import _checks as checks
from glassformer.atomic_files import write_whole
from glassformer.checkpoints import Arrays, StoredModel, arrays_in
from glassformer.config import ModelConfig
from glassformer.protocols import is_table
from glassformer.scratch import Transformer
from glassformer.text import BytePairTokenizer, CharTokenizer, tokenizer_from_json
from glassformer.untrusted_files import (
    BYTES,
    TENSORS,
    bytes_in,
    check_version,
    check_weights,
    decoded,
    errors_about,
    json_object,
    named,
)

__all__ = ["ENDING", "load", "save"]
__dir__ = __all__.copy

ENDING = ".safetensors"
FORMAT = "glassformer model 1"
NUMBERS, TABLE = ("F16", "F32"), ("I64",)


def save(path: str | os.PathLike, model: Any, tokenizer: Any) -> None:
    """Writes a model of either room and its tokenizer to a file, which commands, views and `pretrained.load` open.

    Raises:
        FileExistsError: there is such a file already.
        ValueError: the name does not end in ".safetensors", or `load` would refuse the file: the model has parts that
            its configuration does not make, such as adapters that are not merged, or numbers in float64.
        TypeError: `tokenizer` is not one of `text`.
        OSError: it cannot be written.
    """
    path = Path(path)
    if path.suffix != ENDING:
        raise ValueError(f"path={str(path)!r} must end in {ENDING}")
    if os.path.lexists(path):
        raise FileExistsError(f"{path} exists already")
    if not isinstance(tokenizer, CharTokenizer | BytePairTokenizer):
        raise TypeError(f"tokenizer={tokenizer!r:.40} must be a CharTokenizer or a BytePairTokenizer")
    texts = {"format": FORMAT, "config": model.config.to_json(), "tokenizer": tokenizer.to_json()}
    arrays = {}
    with errors_about("a file can have only what the configuration makes, and merged adapters:"):
        for name, weight in dict(model.named_parameters()).items():
            array = weight if isinstance(weight, np.ndarray) else weight.detach().cpu()
            arrays[name] = np.ascontiguousarray(array)
        content = bytes_of(arrays, metadata=texts)
        _read(path, content)
    write_whole(path, content)


def load(path: str | os.PathLike) -> StoredModel:
    """Reads a model from a single file.

    Raises:
        FileNotFoundError: there is no such file.
        OSError: it cannot be opened.
        ValueError: it is not a safetensors file, has weights alone or numbers of another type, or its weights are
            infinite or too large, or not those of its configuration, or its tokenizer has another size. The message
            names the file.
    """
    return _read(Path(path), bytes_in(Path(path)))


def _read(path: Path, content: bytes) -> StoredModel:
    """Returns the model in the content of a file."""
    length = int.from_bytes(content[:8], "little")
    if length > len(content) and (what := named(content[:64])) not in ("", TENSORS):
        raise ValueError(f"{path} is {what}")
    if BYTES["JSON"] < length <= len(content):
        raise ValueError(
            f"{path} is not a safetensors file: its header has {length} bytes, but at most {BYTES['JSON']} are allowed"
        )
    if content[8:9] not in (b"{", b""):
        raise ValueError(f"{path} is not a safetensors file: its header does not begin with {{")
    weights = arrays_in(path.parent, {path.name: content}, path.name)
    header = json_object(decoded(content[8 : 8 + length], path), f"the header of {path}")
    facts = header.pop("__metadata__", None) or {}  # the format allows null
    written = facts.get("format")
    check_version(path, written, FORMAT)
    if written != FORMAT:
        raise ValueError(
            f"{path} has weights alone: without format={FORMAT!r} in its metadata, nothing says what model they are of"
        )
    for name in ("config", "tokenizer"):
        if name not in facts:
            raise ValueError(f"{path} lacks the {name} in its metadata")
    with errors_about(f"{path}: the model's"):
        config = ModelConfig.from_json(facts["config"])
    with errors_about(f"{path}: the tokenizer's"):
        tokenizer = tokenizer_from_json(facts["tokenizer"])
    # An encoder and an encoder–decoder have special ids, which stand for no text, beyond those of the tokenizer.
    special = config.family != "decoder" and tokenizer.vocab_size < config.vocab_size
    if tokenizer.vocab_size != config.vocab_size and not special:
        raise ValueError(
            f"{path}: the tokenizer has {tokenizer.vocab_size} ids, but the model's vocab_size={config.vocab_size}"
        )
    for name, tensor in header.items():
        numbers = TABLE if is_table(name) else NUMBERS
        if tensor["dtype"] not in numbers:
            raise ValueError(
                f"{path}: {checks.shown(name)} has dtype {tensor['dtype']}, but it must be {' or '.join(numbers)}"
            )
    _check_fit(path, config, weights)
    for name, values in weights.items():
        check_weights(f"{path}: {checks.shown(name)}", values)
    return StoredModel(config, tokenizer, weights)


def _check_fit(path: Path, config: ModelConfig, weights: Arrays) -> None:
    """Checks that the weights are those of the configuration, whose sizes may be any number before that."""
    needs, has = config.parameter_count().total, sum(values.size for values in weights.values())
    if needs != has:
        more = f": {checks.own_parts(weights)}" if has > needs else ""
        raise ValueError(f"{path} has {has} numbers, but the model's sizes need {needs}{more}")
    wanted = Transformer(config, generator=None).named_parameters()
    with errors_about(f"{path}:"):
        checks.state_dict(
            {name: weight.shape for name, weight in wanted.items()},
            {name: values.shape for name, values in weights.items()},
        )
