"""Judges "From letters to ids" (chapter 02): characters become ids, and an unknown character raises an error.

Axis: T tokens.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Int
from glassformer.text import CharTokenizer

from .vocabulary import LETTERS, LINE


def encode(text: str, characters: str) -> Int[np.ndarray, " T"]:
    """Returns the id of every character of the text: its index in `characters`.

    Raises:
        ValueError: the text contains an unknown character; the message says at which position.
    """
    index = {character: i for i, character in enumerate(characters)}
    for i, character in enumerate(text):
        if character not in index:
            raise ValueError(f"text[{i}]={character!r} is not in the vocabulary")
    return np.array([index[character] for character in text], dtype=int)


to_ids = exercise("tokens.encode", encode, built_on=(CharTokenizer.encode,), axes="T")

to_ids.case("an id is an index in `characters`", "cab", "abc", want=[2, 0, 1])
to_ids.case("in whatever order they are", "cab", "xcba", want=[1, 3, 2])
to_ids.also("cab", "abcdefgh", want=[2, 0, 1])
to_ids.case("the line of the horse", LINE, LETTERS, want=[LETTERS.index(c) for c in LINE])
to_ids.refuses(
    "an unknown character raises ValueError, and the message says at which position", "abba#ab", "ab", names=(4,),
    advice="Positions count from 0.",
)  # fmt: skip
to_ids.also_refuses("bbbbbbbbbbbbB", "ab", names=(12,), advice="Positions count from 0.")
to_ids.also_refuses("aXbYa", "ab", names=(1,), advice="That is the first of two; positions count from 0.")

to_ids.mistake("code points", lambda text, characters: np.array([ord(c) for c in text]))
to_ids.mistake("from 1", lambda text, characters: encode(text, characters) + 1)
to_ids.mistake(
    "left out", lambda text, characters: np.array([characters.index(c) for c in text if c in characters])
)
