"""Opens a model that exists already, by its name or its place: `load`, for every command, view and notebook.

    opened = pretrained.load("runs/first", room="nn")
    opened.model, opened.tokenizer, opened.config

What a name stands for is decided once, by `find`. The first line that holds counts:

| what is there | it is | read by |
| --- | --- | --- |
| one of `shipped.NAMES`; a folder of that name is ./dates or `Path("dates")` | "shipped" | `shipped` |
| a folder with step-…/training.json | "run" | `checkpoints`, the last one |
| a folder with config.json | "hub" | `huggingface` |
| a folder with training.json or step-… | "run" | `checkpoints` |
| a file that ends in .safetensors, as a page of the book saves it | "file" | `model_files` |
| a file that ends in .json | "json" | `configuration`; it has no weights |
| nothing: a text may be a name | "name" | `huggingface`, from its hub; `published`, for a configuration |
"""

import difflib
import os
import warnings
from collections.abc import Callable, Collection, Iterable
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from glassformer import _checks as checks
from glassformer import checkpoints, model_files, shipped
from glassformer.checkpoints import DESCRIPTION, STEP, StoredModel
from glassformer.config import ModelConfig
from glassformer.protocols import AnyTransformer
from glassformer.published import published
from glassformer.text import library_errors, tokenizer_from_json
from glassformer.untrusted_files import BYTES, a_file, errors_about, json_object, no_address, seems, text_in

__all__ = ["Pretrained", "config_file", "configuration", "find", "load", "stored"]
__dir__ = __all__.copy

Name = str | os.PathLike

ENDINGS = {model_files.ENDING: "file", ".json": "json"}

NO_TOKENIZER = "has no tokenizer: it was trained without one"

BEGUN = ("recipe.toml", "log.jsonl")
"""What the folder of a run has before its first checkpoint."""


class Pretrained(NamedTuple):
    """A model, its tokenizer, the functions that turn text into ids and back, and the ids that stand for no text."""

    model: AnyTransformer
    tokenizer: Any  #: ours or a `tokenizers.Tokenizer`; or None, and the next two raise an error
    encode: Callable[[str], Any]
    decode: Callable[[Iterable[int]], str]  #: of one text; ids that the model has, but no text, are left out
    special_ids: dict[str, int]  # by name, as in `protocols.AnyTask`

    @property
    def config(self) -> ModelConfig:
        """Returns the model's configuration."""
        return self.model.config

    @property
    def start_id(self) -> int:
        """Returns the id with which an encoder–decoder's decoder begins; 0 for other families, which need none."""
        return self.special_ids.get("start", 0)

    @property
    def stop_ids(self) -> list[int]:
        """Returns the ids that end a text."""
        return [i for name, i in self.special_ids.items() if name.startswith("stop")]


def find(name: Name) -> str:
    """Returns what is there by that name, as the table above calls it.

    Raises:
        FileNotFoundError: nothing is there, and it is no possible name; or a folder has nothing that is read.
        ValueError: it is a file of another kind, or nearly the name of a model of the book.
    """
    if name in shipped.NAMES:
        return "shipped"
    if name == "":
        raise FileNotFoundError("name='' is empty: give a path or a name (a dot is the current folder)")
    path = Path(name)
    if path.is_dir():
        return _kind_of_folder(path)
    if path.suffix in ENDINGS and path.is_file():
        return ENDINGS[path.suffix]
    no_address(name, "a file or folder on this machine, or a model's name")
    if os.path.lexists(path) or path.suffix in ENDINGS or not isinstance(name, str):
        a_file(path)
        raise ValueError(
            f"{name} is {seems(path) or 'a file of another kind'}: name the model's folder, a .safetensors file "
            "that a page of the book has saved, or, for its sizes alone, a .json file with its configuration"
        )
    from glassformer.huggingface.folders import check_name

    check_name(name)
    if near := difflib.get_close_matches(name.lower(), shipped.NAMES, n=1):
        raise ValueError(f"{_nowhere(name)}; did you mean {near[0]!r}?")
    return "name"


def _kind_of_folder(path: Path) -> str:
    from glassformer.huggingface.files import CONFIG, instead

    if any(path.glob(f"{STEP}*/{DESCRIPTION}")):
        return "run"
    if os.path.lexists(path / CONFIG):  # the file may be a link to nothing
        return "hub"
    if os.path.lexists(path / DESCRIPTION) or checkpoints.latest(path) is not None:
        return "run"
    if any((path / file).is_file() for file in BEGUN):
        raise FileNotFoundError(
            f"{path} is a run without a checkpoint yet: `train` writes one when it ends or is interrupted, and every "
            "training.save_every steps"
        )
    raise FileNotFoundError(
        f"{path} has neither a run's checkpoint ({STEP}…/{DESCRIPTION}) nor Hugging Face's {CONFIG}{instead(path)}"
    )


def load(
    name: Name,
    *,
    room: str = "scratch",
    dtype: str = "float32",
    ignore: Collection[str] = (),
    model: Any = None,
) -> Pretrained:
    """Loads the model of that name or at that place, in evaluation; it may be downloaded from the hub.

    Args:
        name: anything in the table above that has weights.
        room: "scratch" or "nn".
        dtype: the type that a model of Hugging Face is computed in, as in `huggingface.load`; others have "float32".
        ignore: keys of Hugging Face's files to leave out, as in `huggingface.load`.
        model: a model that gets the weights, built by you because it has parts that a configuration cannot describe:
            see `checkpoints.model_of`. It decides the room. Files of Hugging Face are opened without it.

    Raises:
        OSError: there is no such file, folder or model (FileNotFoundError), or a download failed.
        ValueError: `room` is neither, or a file is not what it should be; the message names it.
        ImportError: a package is not installed.
    """
    checks.one_of("room", room, checkpoints.ROOMS)
    kind = find(name)
    if kind in ("hub", "name"):
        if model is not None:
            raise ValueError(
                f"{name}: model= is not for files of Hugging Face, whose weights have other names: open them without "
                "it, and then change parts of the model"
            )
        return _of_hugging_face(name, room, dtype, ignore)
    checks.one_of("dtype", dtype, ("float32",))
    return _ours(name, kind, room, model)


def stored(name: Name, kind: str | None = None) -> StoredModel:
    """Returns what is stored of one of our own models: a shipped one, or that of a file or of a run's last checkpoint.

    `kind` is what `find` says of the name. A run that was trained without a tokenizer has none.

    Raises:
        FileNotFoundError: there is no such model, no such file and no such folder.
        ValueError: it is Hugging Face's, or has no weights, or a file is not what was written.
    """
    kind = kind or find(name)
    if kind == "shipped":
        return shipped.stored(str(name))
    if kind == "file":
        return model_files.load(name)
    if kind == "json":
        raise ValueError(f"{name} is a configuration without weights: name the folder that has both")
    if kind == "hub":
        raise ValueError(
            f"{name} is a folder of Hugging Face, whose tokens a page does not know: name a model of the book, the "
            "folder of a run, or a .safetensors file that a page has saved"
        )
    if kind == "name":
        raise FileNotFoundError(_nowhere(name))
    checkpoint, tokenizer = checkpoints.load(name), None
    if checkpoint.tokenizer is not None:
        with errors_about(f"{name}, {checkpoints.TOKENIZER}:"):
            tokenizer = tokenizer_from_json(checkpoint.tokenizer)
    return StoredModel(checkpoint.model_config, tokenizer, checkpoint.best, checkpoint.special_ids)


def configuration(
    name: Name, *, ignore: Collection[str] = (), warn: Callable[[str], object] = warnings.warn
) -> ModelConfig:
    """Returns the configuration of what `load` opens, of a published model, or in a .json file; downloads nothing.

    A JSON file is a `ModelConfig` or a config.json of Hugging Face. `warn` is told which keys of the latter are not
    known, and not in `ignore`.

    Raises:
        OSError: there is no such file, folder or model (FileNotFoundError), or it cannot be read.
        ValueError: a file is not what it should be; the message names it.
    """
    kind = find(name)
    if kind == "shipped":
        return shipped.configuration(str(name))
    if kind in ("run", "file"):
        config, _, weights, _ = stored(name, kind)
        described, has = config.parameter_count().total, sum(weight.size for weight in weights.values())
        if described != has:
            raise ValueError(
                f"{name} has {has:,} weights, but its configuration describes {described:,}: "
                f"{checks.own_parts(weights)}"
            )
        return config
    if kind == "name":
        with errors_about(f"{_nowhere(name)}:"):
            return published(str(name)).config
    from glassformer.huggingface import config_from_hf, unknown_keys
    from glassformer.huggingface.files import CONFIG
    from glassformer.huggingface.keys import ALL, said, without

    path = Path(name) / CONFIG if kind == "hub" else Path(name)
    text = text_in(path, BYTES["JSON"])
    with errors_about(f"{path}:"):
        given = json_object(text, "the file")
        ours = "context_length" in given or given.keys() <= {field.name for field in fields(ModelConfig)}
        if "model_type" not in given and ours:
            return ModelConfig.from_json(text)
        given = without(given, ignore)
        unknown = unknown_keys(given)
        config = config_from_hf(given, ignore=unknown)
    if unknown and ALL not in ignore:
        many = len(unknown) > 1
        warn(
            f"{checks.shown(str(path))}: {said(given, unknown)} {'are' if many else 'is'} not known here "
            f"and may change what the model computes; the model is taken without {'them' if many else 'it'}"
        )
    return config


def config_file(name: Name) -> dict[str, Any] | None:
    """Returns what a config.json of Hugging Face has, whether or not our code runs it; None for anything else.

    Raises:
        OSError: there is no such file, folder or model (FileNotFoundError), or it cannot be read.
        ValueError: the file is not JSON, or no object.
    """
    from glassformer.huggingface.files import CONFIG

    kind = find(name)
    if kind not in ("hub", "json"):
        return None
    path = Path(name) / CONFIG if kind == "hub" else Path(name)
    text = text_in(path, BYTES["JSON"])
    with errors_about(f"{path}:"):
        given = json_object(text, "the file")
    parts = [given, *(part for part in given.values() if isinstance(part, dict))]
    return given if any("model_type" in part for part in parts) else None


def _ours(name: Name, kind: str, room: str, model: Any) -> Pretrained:
    """Loads one of our models. Decoding leaves its special ids out, which stand for no text."""
    from glassformer.train.recipe import special_ids

    config, tokenizer, weights, special = stored(name, kind)
    with errors_about(f"{name}:"):
        model = checkpoints.model_of(config, weights, room=room, model=model)
    if tokenizer is None:
        refuse = partial(_raise, ValueError(f"{name} {NO_TOKENIZER}"))
        return Pretrained(model, None, refuse, refuse, special or {})
    n = tokenizer.vocab_size
    if n > config.vocab_size:
        raise ValueError(
            f"{name}: the tokenizer has {n} ids, but the model's vocab_size={config.vocab_size}: "
            "they come from different runs"
        )
    special = special_ids(config.family, n) if special is None else special
    silent = set(special.values())

    def decode(ids: Iterable[int]) -> str:
        ids = _of_one_text(ids, config.vocab_size)
        return tokenizer.decode([i for i in ids if i < n and i not in silent])

    return Pretrained(model, tokenizer, tokenizer.encode, decode, special)


def _of_hugging_face(name: Name, room: str, dtype: str, ignore: Collection[str]) -> Pretrained:
    from glassformer import huggingface
    from glassformer.huggingface.files import TOKENIZER
    from glassformer.huggingface.folders import folder_of

    try:
        folder = folder_of(name)
    except (OSError, ImportError) as error:
        raise type(error)(f"{_nowhere(name)}: {error}") from error
    model = huggingface.load(folder, room=room, dtype=dtype, ignore=ignore)
    stop_ids = huggingface.stop_ids(folder, ignore=ignore)
    special = {f"stop {i}" if i > 1 else "stop": stop_id for i, stop_id in enumerate(stop_ids, start=1)}
    if model.config.family == "encoder-decoder":
        special["start"] = huggingface.start_id(folder, ignore=ignore)
    try:
        tokenizer = huggingface.tokenizer(folder)
    except FileNotFoundError as error:
        refuse = partial(_raise, error)
        return Pretrained(model, None, refuse, refuse, special)

    n = max(model.config.vocab_size, tokenizer.get_vocab_size())

    def encode(text: str) -> list[int]:
        with library_errors(f"{name}, {TOKENIZER}"):
            return tokenizer.encode(text).ids

    def decode(ids: Iterable[int]) -> str:
        with library_errors(f"{name}, {TOKENIZER}"):
            return tokenizer.decode(_of_one_text(ids, n))

    return Pretrained(model, tokenizer, encode, decode, special)


def _of_one_text(ids: Any, vocab_size: int) -> list[int]:
    """Returns the ids of one text as numbers, each of which is in the vocabulary."""
    found = list(ids)
    if any(np.ndim(i) for i in found):
        raise ValueError(
            "ids has several texts, as `generate` returns them, but decode takes one: [decode(text) for text in ids]"
        )
    if found:
        checks.indices("ids", np.asarray(found), "vocab_size", vocab_size)
    return [int(i) for i in found]


def _raise(error: Exception, _: object) -> NoReturn:
    raise error


def _nowhere(name: Name) -> str:
    return f"{name} is neither a file or folder here nor one of {', '.join(shipped.NAMES)}"
