"""Judges "From ids to letters" (chapter 02): ids become text again, and an id without a character raises an error.

Axis: T tokens.
"""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect
from glassformer.shapes import Integer
from glassformer.text import CharTokenizer

from .encode import encode
from .vocabulary import LINE, vocabulary


def decode(ids: Integer[np.ndarray, " T"], characters: str) -> str:
    """Returns the text that the ids spell.

    Raises:
        ValueError: an id is below 0 or has no character.
    """
    for i in ids:
        if not 0 <= i < len(characters):
            raise ValueError(f"id {i} has no character")
    return "".join(characters[i] for i in ids)


to_text = exercise("tokens.decode", decode, built_on=(CharTokenizer.decode,))

to_text.case("an id is an index in `characters`", np.array([2, 0, 1]), "abc", want="cab")
to_text.case("spaces are characters as well", np.array([1, 0, 2, 0]), " xy", want="x y ")


@to_text.check("what was encoded comes back, letter by letter")
def _(decode):
    for text in (LINE, "horse\n\nKING:\n  a!"):
        characters = vocabulary(text)
        what = f"the line encoded and decoded, {text[:7]!r} …"
        expect(decode(encode(text, characters), characters), text, what)


to_text.refuses(
    "an id without a character raises ValueError, and the message names it",
    np.array([0, 2, 13]), "abc", names=(13,),
)  # fmt: skip
to_text.also_refuses(np.array([3]), "abc", names=(3,))
to_text.refuses(
    "a negative id raises ValueError as well, although Python would accept it",
    np.array([0, -1]), "abc", names=(-1,),
)  # fmt: skip

to_text.mistake("code points", lambda ids, characters: "".join(chr(97 + i) for i in ids))
to_text.mistake("from 1", lambda ids, characters: "".join(characters[i - 1] for i in ids))
to_text.mistake("wraps", lambda ids, characters: "".join(characters[i % len(characters)] for i in ids))
to_text.mistake(
    "left out", lambda ids, characters: "".join(characters[i] for i in ids if i < len(characters))
)
to_text.slip("from the end", "0 <= i <", "i <")
