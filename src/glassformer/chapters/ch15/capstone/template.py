"""An adapter as text, for the reader to fill in: empty, or with the functions of their own file."""

import textwrap
from collections.abc import Collection

from glassformer.exercises.source import MODULE

from .words import pieces, words_under

WIDTH = 82


def adapter_source(names: Collection[str]) -> str:
    """The code of a cell: the class ``Mine``, each piece filled in whose functions are all among `names`."""
    filled = {name for name, piece in pieces().items() if set(piece.uses) <= set(names)}
    used = sorted({function for name in filled for function in pieces()[name].uses})
    lines = []
    if filled:
        listed = textwrap.fill(", ".join(used), WIDTH - 8, initial_indent="    ", subsequent_indent="    ")
        lines += ["import numpy as np", "", "from glassformer.text import corpus", f"from {MODULE} import ("]
        lines += [f"{listed},", ")", words_under("template")["from_mine"], ""]
    lines += ["class Mine:"]
    if filled:
        lines += ["    vocab_size, context_length = len(CHARACTERS), 64"]
    else:
        lines += ["    vocab_size, context_length = 65, 64", "    tensors = batched = False"]
    if any("self.w" in pieces()[name].from_mine for name in filled):
        lines += ["", words_under("template")["init"].strip("\n")]
    for name, piece in pieces().items():
        body = textwrap.indent(piece.from_mine.strip(), " " * 8) if name in filled else "        ..."
        doc = textwrap.fill(f'"""{piece.says}"""', WIDTH, initial_indent=" " * 8, subsequent_indent=" " * 8)
        lines += ["", f"    def {piece.call}:", doc, body]
    return "\n".join(lines) + "\n"
