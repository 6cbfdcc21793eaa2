"""Byte pairs, merge by merge: the most frequent pair of neighbours becomes one token."""

from functools import cache

from traitlets import Enum, Int

from glassformer.text import corpus
from glassformer.widgets.kit.view import Made, Text, View

LINE = "A horse! a horse! my kingdom for a horse!"
MOST_MERGES = 150
LONGEST = 200  # characters of the reader's own text
AROUND = 5600  # characters of the corpus around the line, before they are cut at speeches


@cache
def excerpt() -> str:
    """Returns some speeches of the corpus, from before the line about the horse to after it."""
    text = corpus()
    middle = text.index(LINE)
    start = text.index("\n\n", middle - AROUND // 2) + 2
    return text[start : text.rindex("\n\n", middle, middle + AROUND // 2) + 1]


class BytePairStepper(View, module="byte_pair_stepper"):
    """Press *merge*: the most frequent pair of neighbours becomes one token, and the text becomes shorter.

    Pairs are counted in an excerpt of the corpus or in the reader's own text, and never across word
    boundaries. If pairs are equally frequent, the one with the lower ids goes first. Both rules are those of
    the tokenizers library and GPT-2.

    Source: Sennrich et al. 2016, "Neural Machine Translation of Rare Words with Subword Units"; on bytes: Radford et
    al. 2019, "Language Models are Unsupervised Multitask Learners". Derived in chapter 02.

    Traits:
        text: what is cut into tokens, up to 200 characters.
        learn_from: where pairs are counted, "excerpt" or "text".
        merges: how many have been made, 0 to 150; those that a short text has no pairs for are not made.
        excerpt: some speeches of the corpus. Read-only.

    Raises:
        TraitError: a text that is too long, another source, or a number of merges outside its range.
    """

    text = Text(LINE, longest=LONGEST).tag(sync=True)
    learn_from = Enum(["excerpt", "text"], "excerpt").tag(sync=True)
    merges = Int(0, min=0, max=MOST_MERGES).tag(sync=True)
    excerpt = Made(lambda _: excerpt(), read_only=True).tag(sync=True)
