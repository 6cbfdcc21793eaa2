"""Text becomes ids: the corpus, a tokenizer for characters, and the windows that a model trains on."""

from collections.abc import Sequence
from importlib import resources

import numpy as np
from jaxtyping import Int64, Integer

from glassformer import _checks as checks


def corpus() -> str:
    """The text that the book trains on: about a million characters of Shakespeare's plays.

    Source: Karpathy's "tinyshakespeare" (2015). Used from chapter 02 on.
    """
    return (resources.files("glassformer") / "assets" / "tinyshakespeare.txt").read_text(encoding="utf-8")


class CharTokenizer:
    """One id for each character: its place in `characters`.

    Derived in chapter 02.

    Raises:
        ValueError: `characters` is empty or has a character twice.
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
        """The tokenizer of every character that occurs in `text`, in Unicode order."""
        return cls("".join(sorted(set(text))))

    @property
    def vocab_size(self) -> int:
        """V, how many different characters there are."""
        return len(self.characters)

    def encode(self, text: str) -> Int64[np.ndarray, " T"]:
        """The id of every character of `text`.

        Raises:
            ValueError: a character is not in the vocabulary (the message names the first).
        """
        try:
            return np.array([self._ids[character] for character in text], dtype=np.int64)
        except KeyError:
            i, unknown = next((i, c) for i, c in enumerate(text) if c not in self._ids)
            raise ValueError(
                f"text[{i}]={unknown!r} is not one of the {self.vocab_size} characters of the vocabulary"
            ) from None

    def decode(self, ids: Integer[np.ndarray, " T"] | Sequence[int]) -> str:
        """The text that `ids` spell; undoes `encode`.

        Raises:
            ValueError: an id is outside 0..V-1 (the message names the first), or ids do not have one axis.
            TypeError: the ids are not integers.
        """
        ids = np.asarray(ids) if len(ids) else np.empty(0, np.int64)
        checks.one_axis("ids", ids)
        checks.indices("ids", ids, "vocab_size", self.vocab_size)
        return "".join(self.characters[i] for i in ids)


def split(
    ids: Integer[np.ndarray, " T"], validation: float = 0.1
) -> tuple[Integer[np.ndarray, " _"], Integer[np.ndarray, " _"]]:
    """The first part of the text to train on, and the last to validate on: by default 90 % and 10 %.

    Raises:
        ValueError: `validation` is not between 0 and 1, or a part would be empty.
    """
    checks.one_axis("ids", ids)
    checks.positive("validation", validation)
    n_training = int(len(ids) * (1 - validation))
    if not 0 < n_training < len(ids):
        raise ValueError(f"validation={validation} leaves a part of the {len(ids)} ids empty")
    return ids[:n_training], ids[n_training:]


def windows(
    ids: Integer[np.ndarray, " T"], length: int, count: int, generator: np.random.Generator
) -> Integer[np.ndarray, "{count} {length}+1"]:
    """Random stretches of the text, (count, length + 1), each as likely to start at one place as another.

    `inputs_and_targets` makes of them what a model reads and what it has to say.

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
    """Windows (..., T + 1) become what a model reads, (..., T), and what it has to say there, (..., T): what is next.

    The targets are the inputs, shifted by one. Derived in chapter 09.

    Raises:
        ValueError: the windows have fewer than two ids, which leaves nothing to predict.
        TypeError: `windows` are not integers.
    """
    checks.integers("windows", windows)
    checks.axes("windows", windows, "T+1")
    checks.whole("windows.shape[-1]", windows.shape[-1], at_least=2)
    return windows[..., :-1], windows[..., 1:]
