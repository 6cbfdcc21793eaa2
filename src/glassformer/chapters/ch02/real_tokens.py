"""Cuts the reader's own text into the tokens of two real vocabularies."""

import json
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from traitlets import Bool

from glassformer.widgets.kit.view import FileView, Made, Text

LINE = "A horse! a horse! my kingdom for a horse!"
LONGEST = 1000  # characters of the reader's own text
CUTS = Path(__file__).with_name("real_tokens.json")  # written by tools/assets/token_examples.py
LIBRARY = Path(__file__).parents[2] / "assets" / "vendor" / "gpt-tokenizer"  # version 3.4.0, unchanged


class Vocabulary(NamedTuple):
    """A vocabulary, and the file of the library gpt-tokenizer that holds it."""

    name: str
    title: str
    size: str
    file: str


VOCABULARIES = (
    Vocabulary("GPT-2", "GPT-2 (2019)", "a vocabulary of 50,257 tokens", "r50k_base"),
    Vocabulary("gpt-oss", "gpt-oss (2025)", "a vocabulary of 201,088 tokens", "o200k_harmony"),
)


class Example(NamedTuple):
    """A text that a reader can choose instead of typing one."""

    label: str
    text: str
    special: bool = False


EXAMPLES = (
    Example("The book's line", LINE),
    Example("strawberry", "How many r's are in strawberry? Strawberry, STRAWBERRY, straw-berry"),
    Example("Numbers", "7 77 777 7777 77777 = 77,777 and 3.14159265"),
    Example("Other languages", "Guten Morgen, schöne Welt! おはよう世界 صباح الخير"),
    Example("Emoji", "I love 🍕 and 👩‍🚀 in a café"),
    Example("Code", "def square(x):\n    return x ** 2\n"),
    Example("A chat", "<|start|>user<|message|>Hello!<|end|><|start|>assistant", special=True),
    Example("Two documents", "The end.<|endoftext|>Once upon a time", special=True),
)


def module(file: str) -> bytes:
    """Returns a JavaScript module whose default export is one tokenizer: { encode, decode, … }.

    The library's file is a script for several kinds of hosts. In the module it finds the kind with `module.exports`,
    whatever else the page has.
    """
    script = (LIBRARY / f"{file}.js").read_bytes()
    before = b"const module = { exports: {} }, { exports } = module, define = undefined;\n"
    return before + script + b"\nexport default module.exports;\n"


@cache
def examples() -> list[dict[str, Any]]:
    """Returns the examples with their tokens in each vocabulary: [id, number of bytes, 1 if it is special].

    Raises:
        ValueError: an example has no stored tokens, because it is new or has changed.
    """
    cuts = json.loads(CUTS.read_text("utf-8"))
    if missing := [example.label for example in EXAMPLES if example.text not in cuts]:
        raise ValueError(
            f"{CUTS.name} lacks the examples {', '.join(missing)}: run tools/assets/token_examples.py"
        )
    return [{**example._asdict(), "cuts": cuts[example.text]} for example in EXAMPLES]


class RealTokens(FileView, module="real_tokens"):
    """Type a text, and see which tokens GPT-2 and gpt-oss make of it, with their ids and their bytes.

    The library gpt-tokenizer computes them in the reader's browser; it comes with both vocabularies. The view asks
    for these files, as other views ask for a model's weights, when the reader's text is not one of the examples.

    Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.2, and OpenAI 2025,
    "gpt-oss-120b & gpt-oss-20b Model Card". Byte pairs are derived in chapter 02.

    Traits:
        text: what is cut into tokens, up to 1,000 characters.
        special: whether strings such as <|endoftext|> are the special tokens of that name, or ordinary text.

    Raises:
        TraitError: a text that is too long.
    """

    text = Text(LINE, longest=LONGEST).tag(sync=True)
    special = Bool(False).tag(sync=True)
    _vocabularies = Made(lambda _: [vocabulary._asdict() for vocabulary in VOCABULARIES]).tag(sync=True)
    _examples = Made(lambda _: examples()).tag(sync=True)

    def _file(self, what: str) -> bytes | None:
        """Returns the vocabulary that the view asks for by "tokenizer" and the name of its file, or None."""
        files = {f"tokenizer {vocabulary.file}": vocabulary.file for vocabulary in VOCABULARIES}
        return module(files[what]) if what in files else None
