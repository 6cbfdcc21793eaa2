"""Says in words what a model consists of: the text of `params` for a file that our code does not run."""

import tomllib
from collections import Counter
from collections.abc import Mapping
from functools import cache
from importlib import resources
from itertools import groupby
from typing import Any

from glassformer.anatomy.formulas import evaluate, parse
from glassformer.anatomy.reading import Anatomy, Scope

__all__ = ["describe", "lacking", "sentences"]
__dir__ = __all__.copy

LENGTHS = (1_000, 10_000, 100_000)


@cache
def _table(name: str) -> dict[str, Any]:
    path = resources.files("glassformer.anatomy") / f"{name}.toml"
    return tomllib.loads(path.read_text(encoding="utf-8"))


def lacking(anatomy: Anatomy) -> list[tuple[str, str]]:
    """Returns what the model has and our layers have not, each with the chapter that builds it."""
    found = {}
    for row in _table("lacking")["lacking"]:
        tree = parse(row["if"])
        if any(evaluate(tree, _named(anatomy.scope(kind), kind.parts)) for kind in anatomy.kinds):
            found[row["what"]] = row["chapter"]
    return list(found.items())


def _named(scope: Scope, parts: tuple[str, ...]) -> Any:
    scope.known["parts"] = list(parts)
    return scope


def sentences(given: Mapping[str, Any]) -> dict[str, tuple[str, str]]:
    """Returns for each key of a file that is explained its chapter, or "", and a sentence."""
    table = _table("fields")
    activation, programs = table["activation"], table["programs"]
    meanings = {key: row for keys, row in table.items() if isinstance(row, list) for key in keys.split()}
    meanings |= {key: ["", says] for keys, says in programs.items() for key in keys.split()}
    found = {}
    for key, value in given.items():
        if key in activation["keys"].split() and value in activation:
            found[key] = activation["chapter"], activation[value]
        elif key in meanings and value is not None:
            chapter, *says = meanings[key]
            found[key] = chapter, says[0 if value or len(says) == 1 else 1].replace("{}", _shown(value))
    return found


def _shown(value: Any) -> str:
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, list) and len(value) > 8:
        return ", ".join(f"{word} × {len(list(run))}" for word, run in groupby(value))
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return str(value)


def describe(anatomy: Anatomy) -> str:
    """Returns the layers, weights, cache and arithmetic of a model as text."""
    lines = [f"{anatomy.family}: {sum(len(kind.layers) for kind in anatomy.kinds)} layers"]
    if anatomy.beside:
        lines.append(f"the file also describes {', '.join(anatomy.beside)}, which is not counted here")
    for kind in anatomy.kinds:
        lines.append(f"  {len(kind.layers):3} × {kind.word}: {', '.join(kind.parts)}")
    return "\n".join([*lines, "", *_counted(anatomy), "", *_kept(anatomy)])


def _counted(anatomy: Anatomy) -> list[str]:
    total, used = _by_part(anatomy.weights()), _by_part(anatomy.weights(active=True))
    rows = [(part, f"{total[part]:,}", f"{used[part]:,}") for part in total]
    rows.append(("total", f"{sum(total.values()):,}", f"{sum(used.values()):,}"))
    if buffers := sum(anatomy.weights(groups=("buffers",)).values()):
        rows.append(("learned numbers that the library does not count", f"{buffers:,}", ""))
    head = ("weights", "all", "used by a token")
    return _aligned([head, *rows])


def _by_part(weights: Counter[tuple[str, str]]) -> Counter[str]:
    found: Counter[str] = Counter()
    for (part, name), n in weights.items():
        found[name if part == "model" else part] += n
    return Counter({part: n for part, n in found.items() if n})


def _kept(anatomy: Anatomy) -> list[str]:
    rows: list[tuple[str, ...]] = [("kept for one text", *(f"{n:,} positions" for n in LENGTHS))]
    kept = {n: anatomy.kept(n) for n in LENGTHS}
    for word in kept[LENGTHS[0]]:
        rows.append((f"{word}, bytes in bfloat16", *(f"{_bytes(kept[n][word]):,}" for n in LENGTHS)))
    rows.append(("multiply-adds of the next token", *(f"{anatomy.multiply_adds(n):,}" for n in LENGTHS)))
    return _aligned(rows)


def _bytes(kept: tuple[int, int]) -> int:
    """Returns the bytes of numbers in bfloat16, and of a state in float32."""
    return 2 * kept[0] + 4 * kept[1]


def _aligned(rows: list[tuple[str, ...]]) -> list[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(w) if k == 0 else cell.rjust(w)
            for k, (cell, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
