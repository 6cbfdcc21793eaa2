"""Judges "The characters of a text" (chapter 02): the characters of a text, each once, in Unicode order."""

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

kinds.mistake("backwards", lambda text: "".join(sorted(set(text), reverse=True)))
