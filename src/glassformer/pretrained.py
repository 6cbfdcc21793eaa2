"""Opens a model that exists already, by its name, file or folder: the book's, a reader's own, or Hugging Face's.

`load` decides who reads it, for every command and view:

- `shipped`: the models that come with the book;
- `model_files`: a single file, as a page of the book saves it;
- `checkpoints`: the folder of a run;
- `huggingface`: any other folder, and a name on the hub. Only these can have another vocabulary than ours.
"""

import os
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any, NamedTuple

from glassformer import checkpoints, model_files, shipped
from glassformer.checkpoints import StoredModel
from glassformer.protocols import AnyTransformer
from glassformer.text import library_errors, tokenizer_from_json
from glassformer.untrusted_files import errors_about


class Pretrained(NamedTuple):
    """A model, the functions that turn text into its ids and back, and the ids that begin and end its texts."""

    model: AnyTransformer
    encode: Callable[[str], Any]
    decode: Callable[[list[int]], str]
    start_id: int
    stop_ids: list[int]


def load(name: str, *, room: str = "scratch", ignore: Collection[str] = ()) -> Pretrained:
    """Loads the model of that name or at that place, in evaluation.

    The book's own names come first: ./dates is a folder.

    Args:
        name: one of `shipped.NAMES`, a .safetensors file, a folder, or a name on the hub.
        room: "scratch" or "nn".
        ignore: keys of Hugging Face's files to leave out, as in `huggingface.load`.

    Raises:
        OSError: there is no such file, folder or model (FileNotFoundError), or a download failed.
        ValueError: a file is not what it should be; the message names it.
        ImportError: a package is not installed.
    """
    from glassformer.huggingface.files import CONFIG

    is_folder = Path(name).is_dir()
    own_folder = is_folder and not os.path.lexists(Path(name) / CONFIG)  # the file may be a link to nothing
    own_file = name.endswith(model_files.ENDING) and not is_folder
    if name in shipped.NAMES or own_file or own_folder:
        return _ours(name, room)
    if name.lower() in shipped.NAMES and not os.path.lexists(name):
        raise ValueError(
            f"{name} is neither a folder nor a model of the book; did you mean {name.lower()!r}?"
        )
    return _of_hugging_face(name, room, ignore)


def stored(name: str) -> StoredModel:
    """Returns what is stored of one of our own models: a shipped one, or that of a file or of a run's last checkpoint.

    Raises:
        FileNotFoundError: there is no such model, no such file and no such folder.
        ValueError: it has no tokenizer, or a file is not what was written.
    """
    from glassformer.huggingface.files import instead

    if name in shipped.NAMES:
        return shipped.stored(name)
    if name.endswith(model_files.ENDING) and not Path(name).is_dir():
        return model_files.load(name)
    if not Path(name).is_dir():
        raise FileNotFoundError(f"{name} is neither a folder nor one of {', '.join(shipped.NAMES)}")
    try:
        checkpoint = checkpoints.load(name)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{error}{instead(Path(name))}") from error
    if checkpoint.tokenizer is None:
        raise ValueError(f"{name} has no tokenizer: it was trained without one")
    with errors_about(f"{name}, {checkpoints.TOKENIZER}:"):
        tokenizer = tokenizer_from_json(checkpoint.tokenizer)
    return StoredModel(checkpoint.model_config, tokenizer, checkpoint.best)


def _ours(name: str, room: str) -> Pretrained:
    """Loads one of our models; its tokenizer does not know the special ids, which stand for no text."""
    from glassformer.train.recipe import special_ids

    config, tokenizer, weights = stored(name)
    with errors_about(f"{name}:"):
        model = checkpoints.model_of(config, weights, room=room)
    n = tokenizer.vocab_size
    if n > config.vocab_size:
        raise ValueError(
            f"the tokenizer has {n} ids, but the model's vocab_size={config.vocab_size}: "
            "they come from different runs"
        )
    special = special_ids(config.family, n)

    def decode(ids: list[int]) -> str:
        return tokenizer.decode([i for i in ids if i < n])

    stop_ids = [special["stop"]] if "stop" in special else []
    return Pretrained(model, tokenizer.encode, decode, special.get("start", 0), stop_ids)


def _of_hugging_face(name: str, room: str, ignore: Collection[str]) -> Pretrained:
    from glassformer import huggingface
    from glassformer.huggingface.files import TOKENIZER

    model = huggingface.load(name, room=room, ignore=ignore)
    tokenizer = huggingface.tokenizer(name)
    stop_ids = huggingface.stop_ids(name, ignore=ignore)
    start_id = huggingface.start_id(name, ignore=ignore) if model.config.family == "encoder-decoder" else 0

    def encode(text: str) -> list[int]:
        with library_errors(f"{name}, {TOKENIZER}"):
            return tokenizer.encode(text).ids

    def decode(ids: list[int]) -> str:
        with library_errors(f"{name}, {TOKENIZER}"):
            return tokenizer.decode(ids)

    return Pretrained(model, encode, decode, start_id, stop_ids)
