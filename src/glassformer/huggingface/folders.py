"""Handles Hugging Face folders and names on its hub: loads and saves models, and finds tokenizers."""

import difflib
import json
import os
import re
from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from glassformer import _checks as checks
from glassformer.atomic_files import replacing
from glassformer.config import ModelConfig
from glassformer.huggingface.configs import config_to_hf, described, layout_of, of_text, with_own_head
from glassformer.huggingface.families import FORMATS
from glassformer.huggingface.families.format import needed
from glassformer.huggingface.files import CONFIG, GENERATION, INDEX, TOKENIZER, WEIGHTS, Weights, instead
from glassformer.huggingface.keys import (
    GENERATION_HARMLESS,
    GENERATION_KEYS,
    check_known,
    harmless,
    type_is_missing,
    without,
)
from glassformer.huggingface.methods import block_size
from glassformer.huggingface.quantized import Decoded
from glassformer.huggingface.states import state_to_hf
from glassformer.huggingface.weights import translated
from glassformer.protocols import AnyTransformer
from glassformer.text import BytePairTokenizer, CharTokenizer, as_library, library_tokenizer
from glassformer.untrusted_files import no_address, read_json, seems, text_in

TOKENIZER_CONFIG = "tokenizer_config.json"
TOKENIZER_BYTES = 128 * 1024**2  # four times the largest on the hub

OTHER_TOKENIZERS = (
    "tokenizer.model",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "tokenizer_config.json",
    TOKENIZER,
)
"""Files of tokenizers that a folder may have, perhaps in other capitals, without the one that is read."""

PARAGRAPH = 1000  # characters

OF_FILES = (".json", ".safetensors", ".toml", ".txt")
"""Endings of names that are taken for files, and never asked for on the hub."""

OF_WINDOWS = r"^[A-Za-z]:|\\"
"""How a path of Windows is told from a name on the hub."""

LARGEST_HALF = 65504.0
"""The largest number in float16."""

DTYPES = {"scratch": ("float32", "float64"), "nn": ("float32", "float64", "float16", "bfloat16")}


def load(
    path_or_name: str | os.PathLike,
    *,
    room: str = "scratch",
    dtype: str = "float32",
    ignore: Collection[str] = (),
) -> Any:
    """Loads the model of a folder, or of a name on the Hugging Face hub, as a `Transformer` in evaluation.

    A folder has config.json and model.safetensors, or model.safetensors.index.json and the shards that it
    lists. A name, such as "openai-community/gpt2", is downloaded first, which needs the package
    huggingface_hub. If there is a folder of the owner's name, such as "runs" in "runs/first", only that folder is
    searched; a name that ends like a file, such as "params.json", is refused. `room` is "scratch" or "nn"; `dtype` is
    "float32" or "float64", or in "nn" also "float16" or "bfloat16". A T5 is not computed in float16, which its
    feed-forward networks overflow.

    Every key of config.json is read or known to have no effect, or the file is refused; the keys in `ignore` count
    as if the file did not have them, and "all" stands for those that are not known here.

    Weights are read one at a time, straight into the model, so they are in memory only once. Those in FP8 or MXFP4 are
    decoded; files that are quantized in another way are refused. Pickles such as
    pytorch_model.bin are never opened: unpickling runs whatever program the file contains.

    Derived in chapter 13.

    Raises:
        ValueError: an argument, a setting in config.json, a file, or the name or shape of a weight is wrong; or a
            number does not fit into float16. The message names it.
        TypeError: `ignore` is not a list of names.
        OSError: there is no such folder or file (FileNotFoundError), or the download failed.
        ImportError: a name was given, and huggingface_hub is not installed.
    """
    checks.one_of("room", room, DTYPES)
    checks.one_of("dtype", dtype, DTYPES[room])
    folder = folder_of(path_or_name)
    given = None
    if os.path.lexists(folder / CONFIG):
        given = without(_text_part(folder / CONFIG), ignore)
    if given is not None and given.get("model_type") is None:
        raise ValueError(f"{folder / CONFIG}: {type_is_missing(given, tuple(FORMATS))}")
    stored = Weights(folder)
    if given is None:
        raise FileNotFoundError(f"{folder / CONFIG} is missing{instead(folder)}")
    with _said_of(folder / CONFIG):
        block = block_size(given)
    with _said_of(folder):
        weights = Decoded(stored, block)
    with _said_of(folder / CONFIG):
        config = described(given, weights, ignore)
        if dtype == "float16" and config.positions == "t5":
            raise ValueError(
                "dtype='float16' is too narrow for a T5, whose feed-forward networks write numbers above "
                f"{LARGEST_HALF:,.0f}: 'bfloat16' needs no more memory"
            )
    layout = layout_of(config, given["model_type"])
    with _said_of(folder):
        config = with_own_head(config, weights, layout)
    if room == "scratch":
        from glassformer.scratch import Transformer

        model = Transformer(config, generator=None, dtype=np.dtype(dtype))
        parameters: dict[str, Any] = model.named_parameters()
        to_room = np.asarray
    else:
        from glassformer._checks.extras import torch
        from glassformer.nn import Transformer

        model = Transformer(config, generator=None, dtype=getattr(torch, dtype))
        # A tensor that shares its parameter's memory but has no gradient
        parameters = {name: weight.detach() for name, weight in model.named_parameters()}
        to_room = torch.from_numpy

    shapes = {name: tuple(weight.shape) for name, weight in parameters.items()}
    with _said_of(folder):
        for name, values in translated(shapes, weights, weights.shapes, layout):
            if dtype == "float16" and values.size and not np.abs(values).max() <= LARGEST_HALF:
                raise ValueError(
                    f"dtype='float16' cannot hold a number of {name}, which is above {LARGEST_HALF:,.0f}"
                )
            parameters[name][...] = to_room(values)
    return model.eval()


def save(
    model: AnyTransformer,
    folder: str | os.PathLike,
    *,
    tokenizer: CharTokenizer | BytePairTokenizer | None = None,
    stop_ids: Sequence[int] | None = None,
) -> None:
    """Writes config.json and model.safetensors, which `load` and the library transformers can open.

    With a `tokenizer`, also tokenizer.json and tokenizer_config.json: `AutoTokenizer` of transformers then gives the
    same ids, and `generate` finds it. `stop_ids` end a text, and `eos_token_id` in config.json says so; by default, the
    tokenizer's special token does if it has exactly one.

    All are first written under other names and renamed when they are complete, so an interrupted program
    leaves the old files or the new ones, never half a file. Saving takes as much memory again as the model if
    matrices are transposed in the file.

    Raises:
        ValueError: no family has a model with this config, and the message names the reason; the tokenizer has more
            ids than the model; or one of `stop_ids` is none of the model's.
        TypeError: `tokenizer` is none of ours.
        OSError: the folder cannot be made or written to.
    """
    checks.model(model)
    config = model.config
    special = getattr(tokenizer, "special_tokens", {})
    stops = list(special.values() if len(special) == 1 else ()) if stop_ids is None else list(stop_ids)
    if stops:
        checks.indices("stop_ids", np.array(stops), "vocab_size", config.vocab_size)
    texts = {} if tokenizer is None else _of_tokenizer(tokenizer, config, stops)
    weights = dict(model.named_parameters())
    dtype = str(next(iter(weights.values())).dtype).removeprefix("torch.")
    settings = config_to_hf(config) | {"dtype": dtype}
    if stops:
        settings["eos_token_id"] = stops if len(stops) > 1 else stops[0]
    if isinstance(next(iter(weights.values())), np.ndarray):
        from safetensors.numpy import save_file

        state: dict[str, Any] = {
            name: np.asarray(x, order="C") for name, x in state_to_hf(config, weights).items()
        }
    else:
        from safetensors.torch import save_file

        weights = {name: x.detach() for name, x in weights.items()}
        state = {name: x.contiguous() for name, x in state_to_hf(config, weights).items()}

    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    texts[CONFIG] = json.dumps(settings, indent=2) + "\n"
    with ExitStack() as done:
        for name, text in texts.items():
            done.enter_context(replacing(folder / name)).write_text(text, encoding="utf-8")
        # "pt" gives the orientation of matrices
        save_file(state, done.enter_context(replacing(folder / WEIGHTS)), metadata={"format": "pt"})


def _of_tokenizer(tokenizer: Any, config: ModelConfig, stops: Sequence[int]) -> dict[str, str]:
    """Returns the files that describe a tokenizer to the tokenizers library and to transformers, by their names."""
    if not isinstance(tokenizer, CharTokenizer | BytePairTokenizer):
        raise TypeError(
            f"tokenizer must be a CharTokenizer or a BytePairTokenizer, not {type(tokenizer).__name__}: "
            "the files of any other are written by its own library"
        )
    if tokenizer.vocab_size > config.vocab_size:
        raise ValueError(
            f"tokenizer has {tokenizer.vocab_size} ids, but the model's vocab_size={config.vocab_size}: "
            "they come from different runs"
        )
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": config.context_length,
        "clean_up_tokenization_spaces": False,
    }
    ends = [token for token, i in getattr(tokenizer, "special_tokens", {}).items() if i in stops]
    settings |= {"eos_token": ends[0]} if ends else {}
    return {
        TOKENIZER: as_library(tokenizer).to_str(pretty=True) + "\n",
        TOKENIZER_CONFIG: json.dumps(settings, indent=2) + "\n",
    }


def tokenizer(path_or_name: str | os.PathLike) -> Any:
    """Returns the `tokenizers.Tokenizer` of a folder or of a name on the hub: `.encode(text).ids`, `.decode(ids)`.

    Raises:
        OSError: there is no such folder, it has no tokenizer.json (FileNotFoundError), or the download
            failed.
        ValueError: tokenizer.json is too large, or the library tokenizers cannot read it.
        ImportError: the package tokenizers is not installed; or a name was given, and huggingface_hub is not
            installed.
    """
    folder = folder_of(path_or_name)
    path = folder / TOKENIZER
    if not os.path.lexists(path):
        others = [each.name for each in folder.iterdir() if each.name.lower() in OTHER_TOKENIZERS]
        hint = f", and its {checks.shown(min(others))} is not read here" if others else ""
        raise FileNotFoundError(f"{path} is missing{hint}")
    return library_tokenizer(text_in(path, TOKENIZER_BYTES), str(path))


def stop_ids(path_or_name: str | os.PathLike, *, ignore: Collection[str] = ()) -> list[int]:
    """Returns the ids that end a text (none, one or several) from a folder or a name on the hub, for `generate`.

    If there is a generation_config.json, only that file counts, as in transformers. Ids outside the
    vocabulary, which no text can contain, are left out. Its other keys are arguments of `generate`, or are known to
    change no text, or the file is refused; the keys in `ignore` count as if it did not have them.

    Raises:
        OSError: there is no such folder or no config.json (FileNotFoundError), or the download failed.
        ValueError: a file is not JSON, `eos_token_id` is neither an id nor a list of ids, or generation_config.json
            asks for something that `generate` does not do.
    """
    path, given, vocab_size = _of_generation(folder_of(path_or_name), ignore)
    with _said_of(path):
        return [i for i in _ids(given, "eos_token_id") if 0 <= i < vocab_size]


def start_id(path_or_name: str | os.PathLike, *, ignore: Collection[str] = ()) -> int:
    """Returns the id with which an encoder–decoder's decoder starts, from a folder or a name, for `generate`.

    It is `decoder_start_token_id`, or otherwise `bos_token_id`, from generation_config.json if that file
    exists and from config.json if not, as in transformers. `ignore` is as in `stop_ids`.

    Raises:
        OSError: there is no such folder or no config.json (FileNotFoundError), or the download failed.
        ValueError: a file is not JSON; neither field exists; or its value is not a single id of the
            vocabulary.
    """
    path, given, vocab_size = _of_generation(folder_of(path_or_name), ignore)
    with _said_of(path):
        for field in ("decoder_start_token_id", "bos_token_id"):
            if ids := _ids(given, field):
                if len(ids) > 1 or not 0 <= ids[0] < vocab_size:
                    raise ValueError(
                        f"{field}={given[field]} must be one id, at least 0 and below {vocab_size}"
                    )
                return ids[0]
        raise ValueError("decoder_start_token_id is missing: the decoder needs an id to start from")


def _of_generation(folder: Path, ignore: Collection[str]) -> tuple[Path, dict[str, Any], int]:
    """Returns the file that lists the ids that begin and end a text, its contents, and V."""
    config = folder / CONFIG
    given = without(_text_part(config), ignore)
    with _said_of(config):
        vocab_size = needed(given, "vocab_size")
        checks.whole("vocab_size", vocab_size)
    path = folder / GENERATION
    if not os.path.lexists(path):  # a link to nothing is there, and refused
        return config, given, vocab_size
    given = without(read_json(path), ignore)
    unknown = [
        key
        for key, value in given.items()
        if key not in GENERATION_KEYS and not harmless(value, GENERATION_HARMLESS.get(key, ()))
    ]
    with _said_of(path):
        check_known(given, unknown, ignore, "text is written")
    return path, given, vocab_size


def _text_part(path: Path) -> dict[str, Any]:
    """Returns what a config.json says of the part that reads text."""
    given = read_json(path)
    with _said_of(path):
        return dict(of_text(given))


def _ids(given: dict[str, Any], field: str) -> list[int]:
    """Returns a list of no, one or several ids."""
    ids = given.get(field)
    ids = [] if ids is None else ids if isinstance(ids, list) else [ids]
    if not all(type(i) is int for i in ids):
        raise ValueError(f"{field}={given[field]!r} must be an id, which is a whole number, or a list of ids")
    return ids


@contextmanager
def _said_of(path: Path) -> Iterator[None]:
    """Makes errors name that file or folder, in a message no longer than a paragraph."""
    try:
        yield
    except (ValueError, TypeError) as error:
        said = str(error)
        said = said if said.startswith(str(path)) else f"{path}: {said}"
        raise ValueError(checks.shown(said, PARAGRAPH)) from error


def check_name(path_or_name: str | os.PathLike) -> None:
    """Checks that what is no folder here may be a name on the hub.

    Raises:
        FileNotFoundError: it is a file, or a path or an address rather than such a name. The message says which.
    """
    path, name = Path(path_or_name), str(path_or_name)
    if path.is_file():
        what = seems(path)
        raise FileNotFoundError(
            f"path_or_name={name!r} is a file{f', {what}' if what else ''}: name the folder with {CONFIG} and {WEIGHTS}"
        )
    no_address(
        name,
        f"the folder with {CONFIG} and {WEIGHTS} on this machine, or the model's name on the hub, owner/name",
    )
    if re.search(OF_WINDOWS, name):
        raise FileNotFoundError(f"path_or_name={name!r} is a path as Windows writes it, and nothing is there")
    if name.lower().endswith(OF_FILES) or not re.fullmatch(r"[\w-][\w.-]*(/[\w-][\w.-]*)?", name):
        raise FileNotFoundError(f"path_or_name={name!r} is neither a folder nor a possible name on the hub")
    if len(path.parts) == 2 and path.parent.is_dir():  # runs/frist, where there is a folder runs
        near = difflib.get_close_matches(path.name, sorted(each.name for each in path.parent.iterdir()), n=1)
        hint = f"; did you mean {path.parent.name}/{near[0]}?" if near else ""
        raise FileNotFoundError(f"path_or_name={name!r}: the folder {path.parent} has no {path.name}{hint}")


def folder_of(path_or_name: str | os.PathLike) -> Path:
    """Returns the folder of that path, or the one to which the hub's files of that name are downloaded.

    Raises:
        OSError: there is no such folder (FileNotFoundError), or the download failed.
        ImportError: a name was given, and huggingface_hub is not installed.
    """
    path = Path(path_or_name)
    if path.is_dir():
        return path
    check_name(path_or_name)
    name = str(path_or_name)
    try:
        from huggingface_hub import snapshot_download
    except ImportError:
        raise ImportError(
            f"path_or_name={name!r} is not a folder here; to fetch it from the hub, pip install huggingface_hub"
        ) from None
    try:  # no pickles, and no safetensors of other programs, which are in subfolders
        wanted = [CONFIG, GENERATION, INDEX, "model*.safetensors", TOKENIZER]
        return Path(snapshot_download(name, allow_patterns=wanted))
    except (OSError, ValueError) as error:
        raise OSError(
            f"path_or_name={name!r} is not a folder here, and fetching it from the hub failed: {error}"
        ) from error
