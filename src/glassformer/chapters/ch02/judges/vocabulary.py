"""Judges "The characters of a text" (chapter 02): the characters of a text, each once, in Unicode order."""

from collections import Counter

from glassformer.exercises.catalogue import exercise

LINE = "A horse! a horse! my kingdom for a horse!"
LETTERS = " !Aadefghikmnorsy"  # of the line, in Unicode order


def vocabulary(text: str) -> str:
    """Returns every character that occurs in the text, once, in Unicode order."""
    return "".join(sorted(set(text)))


kinds = exercise("tokens.vocabulary", vocabulary)

kinds.case("each character once", "banana", want="abn")
kinds.also("aaa", want="a")
kinds.case(
    "spaces, line breaks, punctuation and capitals are characters as well", "To be,\nor", want="\n ,Tbeor"
)
kinds.also("No more.\n", want="\n .Nemor")
kinds.case("the line of the horse", LINE, want=LETTERS)
kinds.case("any alphabet, in Unicode order", "éaz…Ω a", want=" azéΩ…")

kinds.mistake("twice", lambda text: "".join(sorted(text)))
kinds.mistake("as met", lambda text: "".join(dict.fromkeys(text)))
kinds.mistake("by frequency", lambda text: "".join(c for c, _ in Counter(text).most_common()))
kinds.mistake("small letters", lambda text: "".join(sorted(set(text.lower()))))
kinds.mistake("stripped", lambda text: "".join(sorted(set(text.strip()))))
kinds.mistake("a beside A", lambda text: "".join(sorted(sorted(set(text)), key=str.lower)))
kinds.mistake("no blanks", lambda text: "".join(sorted(set("".join(text.split())))))
kinds.mistake("letters alone", lambda text: "".join(sorted({c for c in text if c.isalpha()})))
kinds.mistake("backwards", lambda text: "".join(sorted(set(text), reverse=True)))
