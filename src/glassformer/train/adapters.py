"""Saves the adapters of a model without the model, and loads them onto the same model again.

```
adapters/
├── adapters.safetensors   A and B of every adapted layer
└── adapters.json          rank, alpha, names, and checksums of that file and of the model's own weights
```
"""

import hashlib
import json
import os
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save as bytes_of
from torch import nn

from glassformer import _checks as checks
from glassformer.atomic_files import write_whole
from glassformer.checkpoints import as_written, checked_bytes, checksum_of, own_checksum_of, weights_in
from glassformer.nn.adapters import adapted, add_adapters
from glassformer.untrusted_files import check_version, errors_about, no_address, read_json

__all__ = ["checksum_of_base", "load_adapters", "save_adapters"]
__dir__ = __all__.copy

FORMAT = "glassformer adapters 1"
DESCRIPTION, WEIGHTS = "adapters.json", "adapters.safetensors"
FIELDS = ("format", "rank", "alpha", "names", "base", "weights")


def save_adapters(model: nn.Module, folder: str | os.PathLike) -> None:
    """Writes the adapters of a model into a folder, and what they belong to, but not the model.

    Raises:
        ValueError: the model has no adapters.
        FileExistsError: the folder has adapters already.
        OSError: the folder cannot be written to.
    """
    layers = adapted(model)
    if not layers:
        raise ValueError("model has no adapters to save: add_adapters makes some")
    folder = Path(folder)
    if os.path.lexists(folder / DESCRIPTION):
        raise FileExistsError(f"folder={str(folder)!r} has adapters already: choose another")
    first = next(iter(layers.values()))
    content = bytes_of({name: _array(weight) for name, weight in _adapters(model).items()})
    described = {
        "format": FORMAT,
        "rank": first.rank,
        "alpha": first.alpha,
        "names": list(dict.fromkeys(name.rpartition(".")[2] for name in layers)),
        "base": checksum_of_base(model),
        "weights": checksum_of(content),
    }
    described |= {"checksum": own_checksum_of(described)}
    folder.mkdir(parents=True, exist_ok=True)
    write_whole(folder / WEIGHTS, content)
    # Last, because the folder has adapters as soon as it has this file
    write_whole(folder / DESCRIPTION, f"{json.dumps(described, indent=2)}\n".encode())


def load_adapters(model: nn.Module, folder: str | os.PathLike) -> int:
    """Adds the adapters in a folder to the model that they were trained with, and returns how many weights they have.

    Raises:
        FileNotFoundError: a file is missing.
        ValueError: a file is not what was written; the weights of the model are others than those that the adapters
            were trained with; or it has adapters already.
    """
    no_address(folder)
    folder = Path(folder)
    path = folder / DESCRIPTION
    described = read_json(path)
    check_version(path, described.get("format"), FORMAT)
    if described.get("format") != FORMAT:
        raise ValueError(f"{path} does not describe adapters: it lacks format={FORMAT!r}")
    described = as_written(path, described)
    checks.fields(str(path), described, FIELDS, FIELDS)
    arrays = weights_in(folder, {WEIGHTS: checked_bytes(folder / WEIGHTS, described["weights"])}, WEIGHTS)
    if not adapted(model) and described["base"] != checksum_of_base(model):
        raise ValueError(
            f"{folder} has adapters of another model: their model's weights had another checksum than those of this one"
        )
    n_trained = add_adapters(
        model, rank=described["rank"], alpha=described["alpha"], names=described["names"], generator=None
    )
    weights = _adapters(model)
    with errors_about(f"{folder / WEIGHTS}:"), torch.no_grad():
        checks.state_dict(
            {name: tuple(weight.shape) for name, weight in weights.items()},
            {name: array.shape for name, array in arrays.items()},
        )
        for name, weight in weights.items():
            weight.copy_(torch.tensor(arrays[name]))
    return n_trained


def checksum_of_base(model: nn.Module) -> str:
    """Returns a checksum of all weights of a model but its adapters. It is the same in float32 and in float64."""
    checksum = hashlib.sha256()
    own = _adapters(model)
    for name, weight in model.named_parameters():
        if name not in own:
            checksum.update(
                f"{name} {tuple(weight.shape)} ".encode() + _array(weight).astype(np.float64).tobytes()
            )
    return checksum.hexdigest()


def _adapters(model: nn.Module) -> dict[str, torch.Tensor]:
    return {f"{name}.{side}": getattr(layer, side) for name, layer in adapted(model).items() for side in "AB"}


def _array(weight: torch.Tensor) -> np.ndarray:
    return np.ascontiguousarray(weight.detach().cpu().numpy())
