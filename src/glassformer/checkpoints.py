"""Checkpoints: one folder per saved step, with everything needed to resume a training run or use the model.

```
run/
├── step-00000100/
└── step-00000200/
    ├── model.safetensors       the weights
    ├── optimizer.safetensors   what the optimizer remembers of each
    ├── average.safetensors     their running average, if there is one
    ├── tokenizer.json          if there is one
    └── training.json           the configurations, the step, and a checksum of every file
```

A folder is written under another name, flushed to disk, and only then renamed, so under its own name it is
always complete. No random state has to be saved, because each step draws its numbers from the seed and the
step number. Nothing is pickled, because unpickling would run code from the file.
"""

import contextlib
import hashlib
import json
import os
import platform
import shutil
from dataclasses import dataclass, fields
from importlib import metadata
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load as arrays_from
from safetensors.numpy import save as bytes_of

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.protocols import is_table
from glassformer.untrusted_files import (
    bytes_in,
    check_version,
    check_weights,
    decoded,
    errors_about,
    no_address,
    read_json,
)

__all__ = [
    "ROOMS",
    "Checkpoint",
    "StoredModel",
    "arrays_in",
    "as_written",
    "check_place",
    "checked_bytes",
    "checked_special_ids",
    "checksum_of",
    "differences",
    "latest",
    "load",
    "load_model",
    "model_of",
    "own_checksum_of",
    "save",
    "weights_in",
]
__dir__ = __all__.copy

FORMAT = "glassformer checkpoint 1"
DESCRIPTION, TOKENIZER = "training.json", "tokenizer.json"
MODEL, OPTIMIZER, AVERAGE = "model.safetensors", "optimizer.safetensors", "average.safetensors"
FILES = (MODEL, OPTIMIZER, AVERAGE, TOKENIZER)
FIELDS = {"step": int, "tokens": int, "model": dict, "training": dict, "files": dict}  # of training.json
KINDS = {int: "a whole number", dict: "an object of fields"}
STEP, UNFINISHED = "step-", ".unfinished-"
ROOMS = ("scratch", "nn")

Arrays = dict[str, np.ndarray]


class StoredModel(NamedTuple):
    """What is stored of a model, wherever it is stored; with a tokenizer, it can read and write texts."""

    config: ModelConfig
    tokenizer: Any  #: a CharTokenizer or a BytePairTokenizer; None if it was trained without one
    weights: Arrays
    special_ids: dict[str, int] | None = None  #: by name; None: those of `train.recipe.special_ids`


@dataclass(frozen=True)
class Checkpoint:
    """Everything that is saved after a step."""

    step: int  #: how many steps were done
    model_config: ModelConfig
    training: dict[str, Any]  #: the fields of the TrainingConfig
    tokens: int  #: how many tokens the model has read
    weights: Arrays
    optimizer: Arrays  #: by "weight/what"
    average: Arrays | None = None
    tokenizer: str | None = None  #: its JSON
    task: str | None = None  #: the checksum of the training data
    special_ids: dict[str, int] | None = None  #: the ids that stand for no text, by name; None: as usual

    @property
    def best(self) -> Arrays:
        """Returns the running average of the weights, if there is one."""
        return self.weights if self.average is None else self.average


def save(folder: str | os.PathLike, checkpoint: Checkpoint, *, keep: int = 2) -> Path:
    """Writes a checkpoint to its own folder within `folder` and returns that path. Only the last `keep` are kept.

    Whatever happens in the meantime, `load` finds either this checkpoint or the previous one, complete.

    Raises:
        FileExistsError: there is already a checkpoint of this step.
        ValueError: `keep` is below 1.
        OSError: the folder cannot be written to.
    """
    checks.whole("keep", keep)
    folder = Path(folder)
    place = folder / f"{STEP}{checkpoint.step:08d}"
    if place.exists():
        raise FileExistsError(f"{place} exists already")
    folder.mkdir(parents=True, exist_ok=True)
    _clear(folder)

    files = {MODEL: bytes_of(checkpoint.weights), OPTIMIZER: bytes_of(checkpoint.optimizer)}
    if checkpoint.average is not None:
        files[AVERAGE] = bytes_of(checkpoint.average)
    if checkpoint.tokenizer is not None:
        files[TOKENIZER] = checkpoint.tokenizer.encode()
    files[DESCRIPTION] = _described(checkpoint, files).encode()

    unfinished = folder / f"{UNFINISHED}{place.name}"
    unfinished.mkdir()
    for name, content in files.items():
        with open(unfinished / name, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())  # flushed to the disk itself
    _sync(unfinished)
    os.replace(unfinished, place)  # the whole folder appears at once
    _sync(folder)

    for _, old in _steps(folder)[:-keep]:
        # Renamed first, so that an incomplete folder never has its final name
        doomed = folder / f"{UNFINISHED}{old.name}"
        os.replace(old, doomed)
        shutil.rmtree(doomed)
    return place


def latest(folder: str | os.PathLike) -> Path | None:
    """Returns the folder of the last checkpoint within `folder`, or None if there is none."""
    steps = _steps(Path(folder))
    return steps[-1][1] if steps else None


def load(folder: str | os.PathLike) -> Checkpoint:
    """Loads the checkpoint in `folder`, or the last one within it.

    Every file is compared with its checksum before it is used.

    Raises:
        FileNotFoundError: there is no checkpoint, or one of its files is missing.
        ValueError: a file does not match its checksum, or is not a checkpoint of Glassformer. The message
            names it and the last intact checkpoint before it in `folder`, if there is one.
    """
    no_address(folder)
    folder = Path(folder)
    if (folder / DESCRIPTION).exists():
        return _loaded(folder)
    if not (steps := _steps(folder)):
        raise FileNotFoundError(f"{folder} is not a checkpoint and contains none: there is no {DESCRIPTION}")
    (_, last), before = steps[-1], steps[-2::-1]
    try:
        found = _loaded(last)
    except (OSError, ValueError) as error:
        good = next((place for _, place in before if _is_whole(place)), None)
        if good is None:
            raise
        raise type(error)(
            f"{error}. An earlier checkpoint, {good}, is intact; to use it, move {last.name} out of the folder"
        ) from error
    _check_one_run(last, before)
    return found


def _check_one_run(last: Path, others: list[tuple[int, Path]]) -> None:
    """Checks that the checkpoints beside the last one are of its run; damaged ones are left out."""
    mine = _of_run(last)
    for _, place in others:
        with contextlib.suppress(OSError, ValueError):
            if any(
                a != b for a, b in zip(mine, _of_run(place), strict=True) if a is not None and b is not None
            ):
                break
    else:
        return
    raise ValueError(
        f"{last.parent} has checkpoints of two runs, {place.name} and {last.name}, with different data or different "
        "models: name one of the two folders, or move one away"
    )


def _of_run(place: Path) -> tuple[ModelConfig, str | None]:
    """Returns what all checkpoints of a run have in common; the data were not noted from the beginning."""
    described = _description(place / DESCRIPTION)
    return _model_config(place / DESCRIPTION, described["model"]), described.get("task")


def _is_whole(place: Path) -> bool:
    try:
        _loaded(place)
    except (OSError, ValueError):
        return False
    return True


def _loaded(place: Path) -> Checkpoint:
    """Loads the checkpoint in this folder itself."""
    described = _description(place / DESCRIPTION)
    config = _model_config(place / DESCRIPTION, described["model"])
    with errors_about(f"{place / DESCRIPTION}:"):
        special_ids = checked_special_ids("special_ids", described.get("special_ids"), config)
    files = {name: checked_bytes(place / name, checksum) for name, checksum in described["files"].items()}
    return Checkpoint(
        step=described["step"],
        model_config=config,
        training=described["training"],
        tokens=described["tokens"],
        task=described.get("task"),
        special_ids=special_ids,
        weights=weights_in(place, files, MODEL),
        optimizer=arrays_in(place, files, OPTIMIZER),
        average=weights_in(place, files, AVERAGE) if AVERAGE in files else None,
        tokenizer=decoded(files[TOKENIZER], place / TOKENIZER) if TOKENIZER in files else None,
    )


def load_model(folder: str | os.PathLike, *, room: str = "scratch", model: Any = None) -> Any:
    """Loads the model of a checkpoint, in evaluation, as `model_of` makes it: the average, if there is one.

    Raises:
        FileNotFoundError: there is no checkpoint, or one of its files is missing.
        ValueError: `room` is neither "scratch" nor "nn"; a file does not match its checksum; or the weights
            are not those of the model.
        TypeError: `model` has no configuration.
    """
    checkpoint = load(folder)
    return model_of(checkpoint.model_config, checkpoint.best, room=room, model=model)


def model_of(config: ModelConfig, weights: Arrays, *, room: str = "scratch", model: Any = None) -> Any:
    """Builds a `Transformer` of either room with these weights, in evaluation. It computes at least in float32.

    A configuration cannot describe parts of your own, such as a layer or adapters. So build a model with them, of
    either room, and pass it as `model`: it gets the weights, in its own dtype, and is returned; `room` is then of no
    importance. If anything does not fit, nothing is changed.

    Raises:
        ValueError: `room` is neither "scratch" nor "nn"; the weights are not those of such a model; or `model` has
            another configuration.
        TypeError: `model` has no configuration.
    """
    checks.one_of("room", room, ROOMS)
    if model is not None:
        checks.offers("model", model, ("config", "named_parameters"), "AnyModel")
        checks.instance("model.config", model.config, ModelConfig)
        if others := differences(config, model.config):
            raise ValueError(f"model is not the one that was stored: {'; '.join(others)}")
        return _filled(model, weights)
    try:
        return _filled(_built(config, weights, room), weights)
    except ValueError as error:
        raise ValueError(
            f"{error}. So the weights are not those that the configuration makes: {checks.own_parts(weights)}. Build "
            "it as it was, and open the weights with pretrained.load(…, model=mine)"
        ) from error


def differences(before: ModelConfig, now: ModelConfig) -> list[str]:
    """Returns in words in which fields two configurations differ."""
    pairs = [(f.name, getattr(before, f.name), getattr(now, f.name)) for f in fields(before)]
    return [f"{name} was {was!r} and is now {value!r}" for name, was, value in pairs if was != value]


def _built(config: ModelConfig, weights: Arrays, room: str) -> Any:
    """Returns the model that the configuration describes, without its weights."""
    # Checked before the model is built, because a file can name any size. Other mismatches are reported by
    # name.
    mine, its = config.parameter_count().total, sum(weight.size for weight in weights.values())
    if mine > 2 * its + checks.SLACK:
        raise ValueError(
            f"the state does not fit: it has {its:,} numbers, but the model's sizes need {mine:,}"
        )
    dtype = np.result_type(np.float32, *(array for name, array in weights.items() if not is_table(name)))
    if room == "scratch":
        from glassformer.scratch import Transformer

        return Transformer(config, generator=None, dtype=dtype)
    from glassformer._checks.extras import torch
    from glassformer.nn import Transformer

    return Transformer(config, generator=None, dtype=getattr(torch, dtype.name))


def _filled(model: Any, weights: Arrays) -> Any:
    """Gives a model of either room the weights, all or none, and returns it in evaluation."""
    its = dict(model.named_parameters())
    shapes = {name: tuple(weight.shape) for name, weight in its.items()}
    checks.state_dict(shapes, {name: weight.shape for name, weight in weights.items()})
    for name, weight in its.items():
        if isinstance(weight, np.ndarray):
            weight[...] = weights[name]
        else:
            weight.data.copy_(weight.new_tensor(weights[name]))
    return model.eval()


# training.json


def _described(checkpoint: Checkpoint, files: dict[str, bytes]) -> str:
    """Returns the text of training.json."""
    described = {
        "format": FORMAT,
        "step": checkpoint.step,
        "tokens": checkpoint.tokens,
        "task": checkpoint.task,
        "special_ids": checkpoint.special_ids,
        "model": checkpoint.model_config.to_fields(),
        "training": checkpoint.training,
        "versions": {"python": platform.python_version()}
        | {
            package: metadata.version(package) for package in ("glassformer", "numpy", "torch", "safetensors")
        },
        "files": {name: checksum_of(content) for name, content in files.items()},
    }
    return json.dumps(described | {"checksum": own_checksum_of(described)}, indent=2) + "\n"


def _description(path: Path) -> dict[str, Any]:
    """Returns the contents of training.json after checking its format and checksum."""
    described = read_json(path)
    written = described.get("format")
    check_version(path, written, FORMAT)
    if written != FORMAT:
        raise ValueError(f"{path} was not written by this version of Glassformer: it lacks format={FORMAT!r}")
    described = as_written(path, described)
    for name, kind in FIELDS.items():
        if name not in described:
            raise ValueError(f"{path} lacks {name!r}")
        if type(described[name]) is not kind:
            raise ValueError(f"{path}: {name}={described[name]!r:.40} must be {KINDS[kind]}")
    for name in described["files"]:
        if name not in FILES:
            raise ValueError(f"{path} lists {name!r}, which is not a file of a checkpoint")
    for name in (MODEL, OPTIMIZER):
        if name not in described["files"]:
            raise ValueError(f"{path} lacks {name!r} among its files")
    return described


def _model_config(path: Path, fields: dict[str, Any]) -> ModelConfig:
    with errors_about(f"{path}: the model's"):
        return ModelConfig.from_json(json.dumps(fields))


# Files, also those of the book's own models


def as_written(path: Traversable, described: dict[str, Any]) -> dict[str, Any]:
    """Returns a description from a file without its field "checksum", after checking it."""
    if described.pop("checksum", None) != own_checksum_of(described):
        raise ValueError(f"{path} does not contain what was written: its checksum differs")
    return described


def own_checksum_of(described: dict[str, Any]) -> str:
    """Computes the value that the field "checksum" of a description must have."""
    return checksum_of(json.dumps(described, sort_keys=True).encode())


def checksum_of(content: bytes) -> str:
    """Returns the SHA-256 hash in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def checked_bytes(path: Traversable, checksum: str) -> bytes:
    """Returns the bytes of a file after comparing them with the checksum."""
    content = bytes_in(path)
    if checksum_of(content) != checksum:
        raise ValueError(
            f"{path} does not contain what was written: the checksum of its {len(content)} bytes differs, "
            "so it is truncated, damaged or from another checkpoint"
        )
    return content


def arrays_in(place: Traversable, files: dict[str, bytes], name: str) -> Arrays:
    """Returns the arrays of one of the files of `place`."""
    try:
        return arrays_from(files[name])
    except (SafetensorError, KeyError) as error:  # KeyError: a number type that NumPy does not have
        raise ValueError(f"{place / name} is not a safetensors file: {error}") from error


def weights_in(place: Traversable, files: dict[str, bytes], name: str) -> Arrays:
    """Returns the arrays of one of the files of `place`, whose numbers are weights: floats of a usable size."""
    arrays = arrays_in(place, files, name)
    for weight, values in arrays.items():
        said = f"{place / name}: {checks.shown(weight)}"
        if values.dtype.kind != ("i" if is_table(weight) else "f"):
            rule = (
                "a table of experts must be whole" if is_table(weight) else "weights must be floating-point"
            )
            raise ValueError(f"{said} has dtype {values.dtype}, but {rule} numbers")
        check_weights(said, values)
    return arrays


def checked_special_ids(name: str, given: Any, config: ModelConfig) -> dict[str, int] | None:
    """Returns the ids that stand for no text, by name, of a task or a checkpoint; None if it does not say them.

    Raises:
        ValueError: one is outside the vocabulary, or an encoder–decoder has no "start".
        TypeError: it is no dictionary of whole numbers.
    """
    if given is None:
        return None
    checks.instance(name, given, dict)
    for special, i in given.items():
        said = f"{name}[{checks.shown(repr(special))}]"
        checks.whole(said, i, at_least=0)
        if i >= config.vocab_size:
            raise ValueError(f"{said}={i} must be below vocab_size={config.vocab_size}")
    if config.family == "encoder-decoder" and "start" not in given:
        raise ValueError(f"{name} lacks 'start', the id with which the decoder begins")
    return {str(special): int(i) for special, i in given.items()}


def check_place(folder: str | os.PathLike) -> None:
    """Checks that nothing in a run's folder is in the way of its checkpoints.

    Raises:
        ValueError: something has the name of a checkpoint, or of one that is being written, but is not a folder.
        FileNotFoundError: it is a web address.
    """
    no_address(folder)
    for start in (STEP, UNFINISHED):
        for path in sorted(Path(folder).glob(f"{start}*")):
            named = start == UNFINISHED or path.name.removeprefix(start).isdecimal()
            if named and (not path.is_dir() or path.is_symlink()):
                raise ValueError(
                    f"{path} is in the way of checkpoints, whose folders have such names: move it away"
                )


def _steps(folder: Path) -> list[tuple[int, Path]]:
    """Returns the checkpoints within a folder, in order."""
    numbers = [(path.name.removeprefix(STEP), path) for path in folder.glob(f"{STEP}*") if path.is_dir()]
    return sorted((int(number), path) for number, path in numbers if number.isdecimal())


def _clear(folder: Path) -> None:
    """Removes what an interrupted program has left behind."""
    for path in folder.glob(f"{UNFINISHED}*"):
        shutil.rmtree(path)


def _sync(folder: Path) -> None:
    """Flushes a folder's file names to disk where this has to be requested; Windows does it by itself."""
    if os.name == "posix":
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
