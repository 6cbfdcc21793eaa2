"""Says what each idea saves in the cache of a model, by counting the cache again without it.

    for row in savings(read(file), 100_000):
        print(row["what"], row["kept"])

`savings.toml` has the ideas. The page's twin of this is in widgets/engine/anatomy.js.
"""

import tomllib
from functools import cache
from importlib import resources
from typing import Any

from glassformer.anatomy.described import filled, pieces
from glassformer.anatomy.formulas import evaluate, parse
from glassformer.anatomy.reading import Anatomy

__all__ = ["ideas", "savings"]
__dir__ = __all__.copy


@cache
def ideas() -> list[dict[str, Any]]:
    """Returns the ideas that change what a cache keeps, in the order in which they are counted, with trees."""
    table = tomllib.loads(
        (resources.files("glassformer.anatomy") / "savings.toml").read_text(encoding="utf-8")
    )
    return [
        row
        | {"if": parse(row["if"]), "of": pieces(row["of"]), "becomes": parse(row.get("becomes", "''"))}
        | {"parts": row.get("parts", "").split()}
        | {"without": {name: parse(text) for name, text in row.get("without", {}).items()}}
        for row in table["ideas"]
    ]


def savings(anatomy: Anatomy, positions: int) -> list[dict[str, Any]]:
    """Returns rows of what the cache keeps for one text: the first without any idea, each other with one more.

    Without any, every query head keeps its own keys and values of the whole text in every layer; the last row is the
    model as it is. `kept` is how many numbers that are, and how many others in float32, or None if that is not known;
    `of` has (number of layers, words) of the layers with the idea `what`, which `chapter` builds.
    """
    scopes = [anatomy.scope(kind) for kind in anatomy.kinds]
    found: list[dict[str, Any]] = [{"what": "", "chapter": "", "of": []}]
    has = []
    for idea in ideas():
        of: dict[str, int] = {}
        for kind, scope in zip(anatomy.kinds, scopes, strict=True):
            if evaluate(idea["if"], scope):
                words = filled(idea["of"], scope)
                of[words] = of.get(words, 0) + len(kind.layers)
        if of:
            has.append(idea)
            rows = [[layers, words] for words, layers in of.items()]
            found.append({"what": idea["what"], "chapter": idea["chapter"], "of": rows})
    for n, row in enumerate(found):
        numbers = anatomy.kept(positions, without=has[n:]).values()
        row["kept"] = None if None in numbers else [sum(column) for column in zip(*numbers, strict=True)]
    return found
