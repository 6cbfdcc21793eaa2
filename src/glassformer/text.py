"""Turns text into ids: the corpus, files, tokenizers, and the windows that a model trains on."""

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from glassformer import _checks as checks
from glassformer import tokenizer_files
from glassformer.decoding import IncrementalDecoder
from glassformer.shapes import Int64, Integer
from glassformer.untrusted_files import a_file, decoded, json_object, reading

__all__ = [
    "LONGEST_WORD",
    "BytePairTokenizer",
    "CharTokenizer",
    "as_library",
    "corpus",
    "inputs_and_targets",
    "library_errors",
    "library_tokenizer",
    "parts_of",
    "read_text",
    "split",
    "split_in_three",
    "tokenizer_from_json",
    "windows",
]
__dir__ = __all__.copy

LONGEST_WORD = 1000
"""Bytes of a word from which byte pairs are learned. The time that the library needs grows with its square."""


PART = 2**18
"""About so many bytes of a file are read at once."""


def corpus() -> str:
    """Returns the text that the book trains on: about a million characters of Shakespeare's plays.

    Source: Karpathy's "tinyshakespeare" (2015). Used from chapter 02 on.
    """
    return (resources.files("glassformer") / "assets" / "tinyshakespeare.txt").read_text(encoding="utf-8")


def read_text(path: str | os.PathLike) -> str:
    """Returns the text of a UTF-8 file. Every line ends with a line feed, whatever the line ends in the file are.

    Raises:
        FileNotFoundError: there is no such file.
        IsADirectoryError: it is a folder.
        ValueError: it is a pipe or a device, or the file is empty or is not text in UTF-8. The message names the
            file and, where there is one, the byte.
    """
    path = Path(path)
    a_file(path)
    with reading(path):
        checks.fits(str(path), path.stat().st_size)
    return "".join(parts_of(path))


def parts_of(path: str | os.PathLike) -> Iterator[str]:
    """Yields the text that `read_text` returns part by part, so that it does not have to fit into memory.

    Raises:
        FileNotFoundError, IsADirectoryError, ValueError: as `read_text`.
    """
    path = Path(path)
    a_file(path)
    with reading(path), path.open("rb") as file:
        begins, content = 0, file.read(PART)
        if not content:
            raise ValueError(f"{path} is empty")
        while content:
            more, end = file.read(PART), len(content)
            if more:  # the last character or line end may go on in it
                end -= 1
                while end and (content[end] & 0xC0 == 0x80 or content[end] == 0x0A):
                    end -= 1
            yield decoded(content[:end], path, begins).replace("\r\n", "\n").replace("\r", "\n")
            begins, content = begins + end, content[end:] + more


class CharTokenizer:
    """A tokenizer with one id for each character: its index in `characters`.

    Derived in chapter 02.

    Raises:
        ValueError: `characters` is empty or contains a character twice.
    """

    def __init__(self, characters: str) -> None:
        if not characters:
            raise ValueError("characters='' must have at least one character")
        self.characters = characters
        self._ids = {}
        for i, character in enumerate(characters):
            if character in self._ids:
                raise ValueError(f"characters has {character!r} twice, at {self._ids[character]} and {i}")
            self._ids[character] = i

    @classmethod
    def from_text(cls, text: str) -> "CharTokenizer":
        """Returns the tokenizer of all characters that occur in `text`, in Unicode order."""
        return cls("".join(sorted(set(text))))

    @property
    def vocab_size(self) -> int:
        """Returns V, the number of different characters."""
        return len(self.characters)

    def encode(self, text: str) -> Int64[np.ndarray, " T"]:
        """Returns the id of every character of `text`.

        Raises:
            ValueError: a character is not in the vocabulary (the message names the first).
        """
        try:
            ids = [self._ids[character] for character in text]
        except KeyError:
            first = next(i for i, c in enumerate(text) if c not in self._ids)
            raise ValueError(
                f"text[{first}]={text[first]!r} is not one of the "
                f"{self.vocab_size} characters of the vocabulary"
            ) from None
        return np.array(ids, dtype=np.int64)

    def decode(self, ids: Integer[np.ndarray, " T"] | Sequence[int]) -> str:
        """Returns the text that `ids` spell; undoes `encode`.

        Raises:
            ValueError: an id is outside 0..V-1 (the message names the first), or the ids do not have exactly
                one axis.
            TypeError: the ids are not integers.
        """
        return "".join(self.characters[i] for i in _checked_ids(ids, self.vocab_size))

    def incremental(self) -> IncrementalDecoder:
        """Returns a decoder that is given one id at a time."""
        return IncrementalDecoder(self.decode)

    def to_json(self) -> str:
        """Returns the tokenizer as text, for a file."""
        return json.dumps({"characters": self.characters}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "CharTokenizer":
        """Returns the tokenizer that `to_json` wrote.

        Raises:
            ValueError: `text` is not what `to_json` writes.
        """
        given = json_object(text, "text")
        if not isinstance(given.get("characters"), str):
            raise ValueError(f"text lacks the field 'characters', a string: it begins {text[:40]!r}")
        return cls(given["characters"])


class BytePairTokenizer:
    """A tokenizer with ids for pieces of text, from single bytes to whole words; it can encode any text.

    It starts with the 256 bytes and then repeatedly turns the most frequent pair of neighbours into a new
    piece. This class wraps the tokenizers library under our names.

    Source: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units"; on bytes: Radford
    et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.2. Derived in chapter 02.
    """

    def __init__(self, tokenizer: Any) -> None:
        self.tokenizer = tokenizer  # a tokenizers.Tokenizer

    @classmethod
    def from_text(
        cls, text: str | Iterable[str], vocab_size: int, special_tokens: Sequence[str] = ()
    ) -> "BytePairTokenizer":
        """Returns a tokenizer with `vocab_size` pieces, or fewer if `text` has no more pairs to join.

        A long text can be given in parts, such as an `own_files.OwnText`, which are read twice; memory is then needed
        for its different words only. Pairs are counted within words. A word of more than `LONGEST_WORD` bytes, such as
        a text without spaces, is cut into words of this length.

        The last pieces are the `special_tokens`, such as "<|endoftext|>" for the end of a document. Each is always one
        piece, and no pair is learned from it.

        Raises:
            ValueError: `vocab_size` is below 256 and one for each special token, `text` is empty, or a special token is
                empty or occurs twice.
            ImportError: the package tokenizers is not installed.
        """
        for i, token in enumerate(special_tokens):
            checks.instance(f"special_tokens[{i}]", token, str)
            if not token or token in special_tokens[:i]:
                raise ValueError(f"special_tokens[{i}]={token!r} {'occurs twice' if token else 'is empty'}")
        checks.whole("vocab_size", vocab_size, at_least=256 + len(special_tokens))
        parts = [text] if isinstance(text, str) else text
        n_bytes = sum(len(part.encode()) for part in parts)
        if not n_bytes:
            raise ValueError("text='' is empty: there is nothing to learn from")
        # The library allocates memory for all pieces at once. A text cannot yield more new pieces than it has
        # bytes.
        vocab_size = min(vocab_size - len(special_tokens), 256 + n_bytes)
        library = _tokenizers()
        byte_level = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer = library.Tokenizer(library.models.BPE())
        cut = library.pre_tokenizers.Split(library.Regex(rf"[\s\S]{{{LONGEST_WORD}}}"), "isolated")
        tokenizer.pre_tokenizer = library.pre_tokenizers.Sequence([byte_level, cut])
        tokenizer.decoder = library.decoders.ByteLevel()
        trainer = library.trainers.BpeTrainer(
            vocab_size=vocab_size, initial_alphabet=byte_level.alphabet(), show_progress=False
        )
        # Line by line; given as one piece, the library would hold several copies of the whole text.
        lines = (line for part in parts for line in part.splitlines(keepends=True))
        if special_tokens:
            special = re.compile("|".join(map(re.escape, special_tokens)))
            lines = (part for line in lines for part in special.split(line))
        tokenizer.train_from_iterator(lines, trainer)
        tokenizer.pre_tokenizer = byte_level
        tokenizer.add_special_tokens(list(special_tokens))
        return cls(tokenizer)

    @property
    def special_tokens(self) -> dict[str, int]:
        """Returns the id of each special token, such as "<|endoftext|>"; most tokenizers have none."""
        added = self.tokenizer.get_added_tokens_decoder()
        return {token.content: i for i, token in added.items() if token.special}

    @property
    def vocab_size(self) -> int:
        """Returns V, the number of different pieces."""
        return self.tokenizer.get_vocab_size()

    def encode(self, text: str) -> Int64[np.ndarray, " T"]:
        """Returns the ids of the pieces that `text` is split into.

        A special token that is written out in `text` becomes its one id, as in other libraries. So if a text comes from
        someone who must not write such tokens, look for them first.
        """
        return np.array(self.tokenizer.encode(text).ids, dtype=np.int64)

    def decode(self, ids: Integer[np.ndarray, " T"] | Sequence[int]) -> str:
        """Returns the text that `ids` spell; undoes `encode`. Bytes that do not form a character become U+FFFD.

        Raises:
            ValueError: an id is outside 0..V-1 (the message names the first), or the ids do not have exactly
                one axis.
            TypeError: the ids are not integers.
        """
        return self.tokenizer.decode(_checked_ids(ids, self.vocab_size).tolist(), skip_special_tokens=False)

    def incremental(self) -> IncrementalDecoder:
        """Returns a decoder that is given one id at a time, and shows no half characters."""
        return IncrementalDecoder(self.decode)

    def to_json(self) -> str:
        """Returns the tokenizer as text, for a file: the library's own tokenizer.json."""
        return self.tokenizer.to_str()

    @classmethod
    def from_json(cls, text: str) -> "BytePairTokenizer":
        """Returns the tokenizer that `to_json` wrote.

        The library's own files can hold much more, such as regular expressions that take minutes. This class
        supports byte pairs on bytes, cut into words as GPT-2 does: no normalizer, no ids around a text, no dropout,
        no marks at the parts or the end of a word. Added tokens are used, and padding and truncation are not: they
        are about batches, not about a text.

        Raises:
            ValueError: `text` is not a tokenizer of the library, or uses features that this class does not
                support. The message names the first.
            ImportError: the package tokenizers is not installed.
        """
        given = json_object(text, "text")
        try:
            tokenizer_files.check_byte_pairs(given)
        except ValueError as error:
            raise ValueError(f"text does not describe a tokenizer that this class wrote: {error}") from None
        tokenizer = library_tokenizer(text, "text")
        alphabet = sorted(_tokenizers().pre_tokenizers.ByteLevel.alphabet())
        if missing := [letter for letter in alphabet if tokenizer.token_to_id(letter) is None]:
            raise ValueError(
                f"text does not describe a tokenizer that this class wrote: its vocabulary lacks {missing[0]!r}, one "
                "of the 256 letters that stand for bytes"
            )
        return cls(tokenizer)


def _checked_ids(
    ids: Integer[np.ndarray, " T"] | Sequence[int], vocab_size: int
) -> Integer[np.ndarray, " T"]:
    """Returns the ids as an array, checked to be in the vocabulary; an empty list has no type of its own."""
    ids = np.asarray(ids) if len(ids) else np.empty(0, np.int64)
    checks.one_axis("ids", ids)
    checks.indices("ids", ids, "vocab_size", vocab_size)
    return ids


def tokenizer_from_json(text: str) -> CharTokenizer | BytePairTokenizer:
    """Returns the tokenizer that the `to_json` of either class wrote.

    Raises:
        ValueError: neither class wrote it.
        ImportError: it is for byte pairs, and the package tokenizers is not installed.
    """
    kind = CharTokenizer if "characters" in json_object(text, "text") else BytePairTokenizer
    return kind.from_json(text)


def as_library(tokenizer: CharTokenizer | BytePairTokenizer) -> Any:
    """Returns the `tokenizers.Tokenizer` that gives the same ids, for programs that know no other.

    For characters, it cuts a text into single ones and looks each up. It refuses a character that it does not have,
    and spells ids without spaces between them.

    Raises:
        ImportError: the package tokenizers is not installed.
    """
    if isinstance(tokenizer, BytePairTokenizer):
        return tokenizer.tokenizer
    library = _tokenizers()
    ids = {character: i for i, character in enumerate(tokenizer.characters)}
    found = library.Tokenizer(library.models.WordLevel(ids, unk_token=""))
    found.pre_tokenizer = library.pre_tokenizers.Split(library.Regex(r"[\s\S]"), "isolated")
    found.decoder = library.decoders.Fuse()
    return found


def library_tokenizer(text: str, name: str) -> Any:
    """Reads a `tokenizers.Tokenizer` from a text, which messages call `name`.

    What the file says of padding and truncation is dropped: it is about the batches of a training, and a prompt is
    read as it is.

    Raises:
        ValueError: the library cannot read it; a part or a setting is unknown; or its parts could make a text
            thousands of times as long. The message names the part.
        ImportError: the package tokenizers is not installed.
    """
    library = _tokenizers()
    given = json_object(text, name)
    try:
        tokenizer_files.check(given)
    except ValueError as error:
        raise ValueError(f"{name} is not a tokenizer that can be used here: {error}") from None
    with library_errors(f"{name} is not a tokenizer of the tokenizers library"):
        tokenizer = library.Tokenizer.from_str(text)
        tokenizer.no_padding()
        tokenizer.no_truncation()
    return tokenizer


@contextlib.contextmanager
def library_errors(begins: str) -> Iterator[None]:
    """Turns errors of the tokenizers library into a ValueError whose message starts with `begins`.

    The library has no error class of its own, and its Rust code may panic, for example when a regular
    expression has tried too many ways through a text. What it then writes to the terminal by itself is left out.
    """
    try:
        with _no_stderr():
            yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        raise ValueError(f"{begins}: {checks.shown(str(error), checks.MESSAGE)}") from error


@contextlib.contextmanager
def _no_stderr() -> Iterator[None]:
    """Discards what other languages write to the standard error in the meantime; Python's own stream comes after."""
    with contextlib.ExitStack() as ended:
        with contextlib.suppress(OSError):  # it is closed: there is nothing to discard
            kept = os.dup(2)
            ended.callback(os.close, kept)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, 2)
            os.close(nowhere)
            ended.callback(os.dup2, kept, 2)
        yield


def _tokenizers() -> Any:
    """Imports the tokenizers library, which only byte pairs and the hub's tokenizers need."""
    from glassformer._checks.extras import tokenizers

    return tokenizers


def split(
    ids: Integer[np.ndarray, " T"], validation: float = 0.1
) -> tuple[Integer[np.ndarray, " _"], Integer[np.ndarray, " _"]]:
    """Splits the text into a first part for training and a last part for validation: by default 90 % and 10 %.

    Raises:
        ValueError: `validation` is not between 0 and 1, or a part would be empty.
    """
    checks.positive("validation", validation)
    training, last, _ = split_in_three(ids, validation, 0.0)
    return training, last


def split_in_three(
    ids: Integer[np.ndarray, " T"], validation: float, test: float
) -> tuple[Integer[np.ndarray, " _"], Integer[np.ndarray, " _"], Integer[np.ndarray, " _"]]:
    """Splits the text into a first part for training, the next for validation and the last for the test.

    Choices are made on the validation part, while the test part is only for the reported result. The first
    part is the same as in `split`, whatever fraction of the held-out text is for the test; with `test=0`
    there is no test part, and with `validation=0` no validation part. Derived in chapter 10.

    Raises:
        ValueError: `validation` or `test` is negative, or a part that should not be empty would be.
    """
    checks.one_axis("ids", ids)
    checks.not_negative("validation", validation)
    checks.not_negative("test", test)
    share = validation + test
    n_training = int(len(ids) * (1 - share)) if share < 1 else 0
    n_test = round((len(ids) - n_training) * test / share) if n_training and test else 0
    n_validation = len(ids) - n_training - n_test
    if n_training == 0 or (validation > 0 and n_validation == 0) or (test > 0 and n_test == 0):
        given = f"validation={validation}" + (f" with test={test}" if test else "")
        raise ValueError(f"{given} leaves a part of the {len(ids)} ids empty")
    return ids[:n_training], ids[n_training : n_training + n_validation], ids[n_training + n_validation :]


def windows(
    ids: Integer[np.ndarray, " T"], length: int, count: int, generator: np.random.Generator
) -> Integer[np.ndarray, "{count} {length}+1"]:
    """Draws random windows of the text, (count, length + 1); all starting positions are equally likely.

    `inputs_and_targets` splits them into a model's inputs and targets.

    Raises:
        ValueError: `length` or `count` is below 1, or `ids` has fewer than `length` + 1 entries.
    """
    checks.one_axis("ids", ids)
    checks.whole("length", length)
    checks.whole("count", count)
    if len(ids) <= length:
        raise ValueError(f"length={length} needs windows of {length + 1} ids, but there are only {len(ids)}")
    starts = generator.integers(len(ids) - length, size=count)
    return ids[starts[:, None] + np.arange(length + 1)]


def inputs_and_targets(
    windows: Integer[np.ndarray, "*B _"],
) -> tuple[Integer[np.ndarray, "*B T"], Integer[np.ndarray, "*B T"]]:
    """Splits windows (..., T + 1) into a model's inputs (..., T) and its targets (..., T), the next ids.

    The targets are the inputs, shifted by one. Derived in chapter 09.

    Raises:
        ValueError: the windows have fewer than two ids, so there is nothing to predict.
        TypeError: `windows` are not integers.
    """
    checks.integers("windows", windows)
    checks.axes("windows", windows, "T+1")
    checks.whole("windows.shape[-1]", windows.shape[-1], at_least=2)
    return windows[..., :-1], windows[..., 1:]
