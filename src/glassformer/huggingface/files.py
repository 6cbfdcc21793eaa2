"""Finds the files of a folder and reads their tensors one at a time."""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open

from glassformer import _checks as checks
from glassformer.untrusted_files import (
    BYTES,
    TENSORS,
    a_file,
    check_weights,
    decoded,
    json_object,
    read_json,
    reading,
    seems,
)

Shape = tuple[int, ...]

READ = CONFIG, GENERATION, WEIGHTS, INDEX, TOKENIZER = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "model.safetensors.index.json",  # which shard has which tensor, if one file would be too large
    "tokenizer.json",
)

# The number types in a file, as NumPy reads them. NumPy has no bfloat16: see below.
NUMBERS = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2"}

WHOLE = {"I64": "<i8", "I32": "<i4"}
"""The types of whole numbers, which only a router's table has."""

CODES = ("F8_E4M3", "F8_E8M0", "I8", "U8")
"""Types whose bytes are numbers only together with others: see `quantized`."""


class Weights(Mapping):
    """The tensors of a folder's safetensors files by name, each read from the file on demand.

    A tensor with a number that is infinite, NaN or larger than `LARGEST_WEIGHT` is refused when it is read.

    Source: the format, https://huggingface.co/docs/safetensors: 8 bytes with the length of the header, a JSON
    header with the place of each tensor, then the tensors.
    """

    def __init__(self, folder: Path) -> None:
        self._places: dict[str, tuple[Path, str, int]] = {}  # file, number type, offset
        self.shapes: dict[str, Shape] = {}
        self.types: dict[str, str] = {}
        self._usable: set[str] = set()  # files that were searched
        for path in _weight_files(folder):
            try:
                with safe_open(path, framework="np"):
                    pass  # the library checks that the file has everything its header lists
            except (SafetensorError, OSError) as error:
                if (what := seems(path)) not in ("", TENSORS):
                    raise ValueError(f"{path} is {what}") from error
                raise ValueError(
                    f"{path} is not a complete safetensors file: {checks.shown(str(error), checks.MESSAGE)}"
                ) from error
            with reading(path), open(path, "rb") as file:
                header_length = int.from_bytes(file.read(8), "little")
                if header_length > BYTES["JSON"]:
                    raise ValueError(
                        f"{path} has a header of {header_length:,} bytes, but at most {BYTES['JSON']:,} are allowed"
                    )
                header = json_object(decoded(file.read(header_length), path), f"the header of {path}")
            header.pop("__metadata__", None)
            for name, tensor in header.items():
                if name in self._places:
                    raise ValueError(
                        f"{checks.shown(name)} is in two files, {self._places[name][0].name} and {path.name}"
                    )
                begins = 8 + header_length + tensor["data_offsets"][0]
                self._places[name] = path, tensor["dtype"], begins
                self.shapes[name], self.types[name] = tuple(tensor["shape"]), tensor["dtype"]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:  # that of Mapping would read the tensor
        return name in self._places

    def __getitem__(self, name: str) -> np.ndarray:
        path, dtype, _ = self._places[name]
        if dtype not in NUMBERS | WHOLE:
            raise ValueError(
                f"{path}: {checks.shown(name)} has numbers of type {dtype}; the known types are {', '.join(NUMBERS)}"
            )
        if 0 in self.shapes[name]:  # it has no bytes in the file
            return np.zeros(self.shapes[name], np.float32)
        values = self.stored(name)
        if dtype == "BF16":  # the upper half of a float32
            values = (values.astype(np.uint32) << 16).view(np.float32)
        if name not in self._usable:
            check_weights(f"{path}: {checks.shown(name)}", values)
            self._usable.add(name)
        return values

    def stored(self, name: str) -> np.ndarray:
        """Returns a tensor as the file has it: one of `CODES` as bytes, and bfloat16 as whole numbers of 16 bits."""
        path, dtype, begins = self._places[name]
        # Maps the file as an array, so that unused parts are never read. "c": changes are never written to
        # it.
        form = (NUMBERS | WHOLE).get(dtype, "u1")
        return np.asarray(np.memmap(path, form, mode="c", offset=begins, shape=self.shapes[name]))


def _weight_files(folder: Path) -> list[Path]:
    """Returns the folder's single safetensors file, or all its shards."""
    for name in (WEIGHTS, INDEX):
        if os.path.lexists(folder / name):
            a_file(folder / name)  # or it is a pipe, a device, a folder, or a link to nothing
    if (folder / WEIGHTS).is_file():
        return [folder / WEIGHTS]
    if (folder / INDEX).is_file():
        names = read_json(folder / INDEX).get("weight_map")
        if not isinstance(names, dict) or not all(isinstance(name, str) for name in names.values()):
            raise ValueError(
                f"{folder / INDEX} lacks weight_map, which names the file that holds each weight"
            )
        for name in sorted(set(names.values())):
            if Path(name).name != name or not name.endswith(".safetensors"):
                raise ValueError(
                    f"{folder / INDEX} lists {checks.shown(repr(name))}, which is not a safetensors file of the folder"
                )
            if not (folder / name).is_file():
                raise FileNotFoundError(
                    f"{folder / checks.shown(name)} is missing, although {INDEX} lists it"
                )
        return [folder / name for name in sorted(set(names.values()))]
    pickles = sorted(
        path.name for path in folder.iterdir() if path.suffix in (".bin", ".pt", ".pth", ".ckpt")
    )
    if pickles:
        raise ValueError(
            f"{folder} has its weights in {pickles[0]}, a pickle, which can run any program when it is opened, so it "
            f"was not opened. Look for the model's {WEIGHTS}; or, if you trust the file, convert it with "
            "save_pretrained of transformers"
        )
    raise FileNotFoundError(f"{folder} has neither {WEIGHTS} nor {INDEX}{instead(folder)}")


INSTEAD = (
    ("adapter_config.json", "an adapter, which changes another model: merge it into that model first"),
    ("model_index.json", "an image generator of diffusers, not a language model"),
    ("modules.json", "a model of sentence-transformers, whose Transformer may be in a subfolder"),
    (".bin.index.json", f"weights in pickles, which are never opened: take the model with {WEIGHTS}"),
    (".gguf", "a model of llama.cpp: take the same model with safetensors"),
    (".onnx", "a model of ONNX: take the same model with safetensors"),
    (".h5", "a model of TensorFlow: take the same model with safetensors"),
    (".msgpack", "a model of Flax: take the same model with safetensors"),
    ("params.json", f"a model in Meta's own form: take the one with {CONFIG} and {WEIGHTS}"),
    (".safetensors", f"a file that is not named {WEIGHTS}, and no {INDEX} lists it"),
)
"""How the name of a file ends that a folder has instead of those that are read, and what it shows."""


def instead(folder: Path) -> str:
    """Returns what a folder is that lacks a model's file, by what it has, as the end of a message; or ""."""
    names = sorted(path.name for path in folder.iterdir())
    for name in names:
        if name not in READ and name.lower() in READ:
            return f"; its {checks.shown(name)} must be written {name.lower()}"
    has_weights = WEIGHTS in names or INDEX in names
    found = (
        (name, what)
        for ending, what in INSTEAD
        for name in names
        if name.endswith(ending) and not (has_weights and ending == ".safetensors")
    )
    if hint := next((f"; its {checks.shown(name)} shows {what}" for name, what in found), ""):
        return hint
    for pattern in (f"*/{CONFIG}", f"snapshots/*/{CONFIG}", f"*/snapshots/*/{CONFIG}"):
        if CONFIG not in names and (deeper := next(iter(sorted(folder.glob(pattern))), None)):
            return f"; a {CONFIG} is in {checks.shown(str(deeper.parent))}"
    return ""
