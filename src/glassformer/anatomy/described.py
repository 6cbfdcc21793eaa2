"""Says what a config.json describes: its layers, its numbers and each of its keys.

`report` is data, and the page's twin of it is in widgets/engine/anatomy.js; `describe` is the same as text.
"""

import json
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from decimal import Decimal
from functools import cache
from importlib import resources
from itertools import groupby
from typing import Any

from glassformer.anatomy.formulas import evaluate, parse
from glassformer.anatomy.reading import WRAPPED, Anatomy, Scope, read
from glassformer.huggingface.families import FORMATS, OF_SEVERAL_PARTS
from glassformer.huggingface.keys import WITHOUT_EFFECT
from glassformer.huggingface.methods import METHODS

__all__ = ["describe", "fold", "keys_of", "lacking", "report", "words"]
__dir__ = __all__.copy

AHEAD = 128  # compressed tokens come every few positions, so what a token adds to them is a mean over so many

LONGEST_UNIT = 64  # layers that repeat, as in: 5 with a window and 1 without

A_SIZE = re.compile("size|dim|rank|num|head|expert|layer|group|latent|width")

SHORT_LIST = 8  # entries that are all written out

LONGEST_VALUE = 60  # characters of a value beside its sentence


@cache
def words() -> dict[str, Any]:
    """Returns the tables of what is said of layers, of what our code lacks, and of keys, with formulas as trees.

    Of the families in "wrapped", our code leaves out what a file has beside the part that reads text.
    """
    room = resources.files("glassformer.anatomy")
    boxes, missing, keys = (
        tomllib.loads((room / f"{name}.toml").read_text(encoding="utf-8"))
        for name in ("boxes", "lacking", "fields")
    )
    activation, programs = keys.pop("activation"), keys.pop("programs")
    reasons = {key: why for several, why in programs.items() for key in several.split()}
    return {
        "labels": [_row(row, "if label group words") for row in boxes["labels"]],
        "boxes": [_row(row, "if title role line new chapter") for row in boxes["boxes"]],
        "titles": boxes["titles"],
        "lacking": [_row([_with_lists(row[0]), *row[1:]], "if what chapter") for row in missing["lacking"]],
        "keys": {key: row for several, row in keys.items() for key in several.split()},
        "activation": activation | {"keys": activation["keys"].split()},
        "programs": [*reasons, *WITHOUT_EFFECT],
        "wrapped": sorted({kind for kinds in OF_SEVERAL_PARTS.values() for kind in kinds}),
    }


def _with_lists(formula: str) -> str:
    """Writes out the lists that a formula of lacking.toml names: what our code reads, such as families."""
    classes = sorted({name for form in FORMATS.values() for name in form.architectures})
    parts = sorted(name for name, form in FORMATS.items() if form.rope and form.rope.share is not None)
    sparse = {name: form.sparse.experts for name, form in FORMATS.items() if form.sparse}
    limited = [name for name, experts in sparse.items() if "limit" in experts]
    lists = {"FAMILIES": list(FORMATS), "CLASSES": classes, "TURN_PARTS": parts, "METHODS": list(METHODS)}
    for name, known in (lists | {"ROUTING": list(sparse), "LIMITED": limited}).items():
        formula = formula.replace(name, str(known))
    return formula


def _row(row: list[Any], names: str) -> dict[str, Any]:
    """Returns a row of a table by the names of its columns, with formulas as trees."""
    found = dict(zip(names.split(), row, strict=True))
    texts = {name: pieces(found[name]) for name in ("title", "line") if name in found}
    return found | texts | {"if": parse(found["if"])}


def pieces(text: str) -> list[Any]:
    """Returns a text whose every second piece is the tree of a formula, which was in braces."""
    return [parse(piece) if i % 2 else piece for i, piece in enumerate(re.split(r"[{}]", text))]


def lacking(anatomy: Anatomy) -> list[tuple[str, str]]:
    """Returns what the model has and our layers have not, each with the chapter that builds it, or ""."""
    scopes = [anatomy.scope(kind) for kind in anatomy.kinds]
    rows = words()["lacking"]
    found = [(row["what"], row["chapter"]) for row in rows if any(evaluate(row["if"], one) for one in scopes)]
    beside = () if anatomy.family in words()["wrapped"] else anatomy.beside  # our code leaves these parts out
    other = [what for name, what in OTHER_PARTS.items() if any(name in part for part in beside)]
    return [*found, *((what, "") for what in other)]


OTHER_PARTS = {"vision": "the part that reads images", "audio": "the part that reads sound"}


# --- keys ---------------------------------------------------------------------------------------------------


def _entries(file: Mapping[str, Any], named: Collection[str]) -> Iterator[tuple[str, str, Any]]:
    """Yields (key, name, value): the key of an entry within an object as a.b.c, whose name is a.c if that is named."""
    inside = {name.split(".")[0] for name in named if "." in name}
    for key, value in file.items():
        yield key, key, value
        for inner, one in value.items() if key in inside and isinstance(value, Mapping) else ():
            if isinstance(one, Mapping) and any(f"{key}.{last}" in named for last in one):
                yield from ((f"{key}.{inner}.{last}", f"{key}.{last}", each) for last, each in one.items())
            else:
                yield f"{key}.{inner}", f"{key}.{inner}", one
    for key in WRAPPED:
        if isinstance(file.get(key), Mapping):
            yield from _entries(file[key], named)


def keys_of(file: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Returns the keys of a file: "said", rows of (key, value, sentence, chapter), and the names of the others.

    These are "programs", which change no logit, "unset", which are null or empty, "unknown", and "sizes", those of the
    unknown ones that may be sizes.
    """
    table = words()
    named = {*table["keys"], *table["programs"]}
    inside = {name.split(".")[0] for name in named if "." in name}
    found: dict[str, Any] = {"said": {}, "programs": {}, "unset": {}, "unknown": {}, "sizes": {}}
    for key, name, value in _entries(file, named):
        row = _sentence(name, value, table)
        if row is not None:
            opened = isinstance(value, Mapping) and (key in inside or key.endswith("_config"))
            found["said"].setdefault((key, "{…}" if opened else _short(value)), row)
        else:
            is_unset = value is None or value == {} or value == []
            where = "programs" if name in table["programs"] else "unset" if is_unset else "unknown"
            found[where].setdefault(key)
            if where == "unknown" and type(value) is int and value > 1 and A_SIZE.search(key):
                found["sizes"].setdefault(key)
    said = [[key, value, says, chapter] for (key, value), (says, chapter) in found.pop("said").items()]
    return {"said": said, **{where: list(names) for where, names in found.items()}}


def _sentence(name: str, value: Any, table: Mapping[str, Any]) -> tuple[str, str] | None:
    activation = table["activation"]
    if name in activation["keys"] and isinstance(value, str) and value in activation:
        return activation[value], activation["chapter"]
    if name not in table["keys"] or value is None:
        return None
    chapter, *says = table["keys"][name]
    return says[0 if value or len(says) == 1 else 1].replace("{}", shown(value)), chapter


def shown(value: Any) -> str:
    """Returns a value as a sentence has it: numbers with commas, and a list with what repeats folded."""
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, int | float):
        return f"{Decimal(repr(value)).normalize():,f}".replace("Infinity", "∞")
    if isinstance(value, list) and len(value) <= SHORT_LIST:
        return ", ".join(map(shown, value))
    if isinstance(value, list):
        return ", ".join(
            _times(times, [_times(n, [shown(one)]) for n, one in unit]) for times, unit in fold(value)
        )
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key}: {shown(one)}' for key, one in value.items())}}}"
    return value


def _times(n: int, what: list[str]) -> str:
    several = ", ".join(what)
    return several if n == 1 else f"{n} × ({several})" if len(what) > 1 else f"{n} × {several}"


def _short(value: Any) -> str:
    text = shown(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"


def fold(items: list[Any]) -> list[list[Any]]:
    """Returns what a list repeats: [times, unit] for each piece, whose unit is [[n, item], …] of equal neighbours."""
    found, at = [], 0
    while at < len(items):
        times, length = 1, 1
        for size in range(1, min(LONGEST_UNIT, (len(items) - at) // 2) + 1):
            unit, n = items[at : at + size], 1
            while items[at + n * size : at + (n + 1) * size] == unit:
                n += 1
            if n > 1 and n * size > times * length:
                times, length = n, size
        unit = [[len(list(run)), item] for item, run in groupby(items[at : at + length])]
        found.append([times, unit] if length > 1 else [1, [[times, items[at]]]])
        at += times * length
    return found


# --- layers and numbers -------------------------------------------------------------------------------------


def report(file: Mapping[str, Any], positions: int) -> dict[str, Any]:
    """Returns what is said of a file: its keys, and what it has been possible to count after so many positions.

    Without a reason in "trouble", it has kinds of layers, their order, weights, what the cache keeps, multiply-adds.
    If its family is known, "lacking" says what our code lacks; if that is nothing, our code runs the model, perhaps
    without the unknown keys.
    """
    keys = keys_of(file)
    try:
        anatomy = read(file)
        keys["lacking"] = [list(row) for row in lacking(anatomy)]
        if keys["sizes"]:
            raise ValueError(
                f"{', '.join(keys['sizes'])} may be sizes, and are not known here in {anatomy.family}"
            )
        return keys | _counted(anatomy, positions)
    except (TypeError, ValueError) as error:
        return keys | {"trouble": str(error)}


def _counted(anatomy: Anatomy, positions: int) -> dict[str, Any]:
    table = words()
    kind_of = {i: k for k, kind in enumerate(anatomy.kinds) for i in kind.layers}
    weights, used = _by_part(anatomy.weights()), _by_part(anatomy.weights(active=True))
    files = {group: anatomy.weights(groups=(group,)) for group in ("dropped", "buffers")}
    now, following, later = (anatomy.kept(positions + n) for n in (0, 1, AHEAD))
    cached: list[list[Any]] = []
    for word, kept in now.items():
        is_compressed = any("compressed" in kind.parts for kind in anatomy.kinds if kind.word == word)
        ahead, after = (AHEAD, later) if is_compressed else (1, following)
        adds = kept and [(n - m) / ahead for n, m in zip(after[word] or (), kept, strict=True)]
        cached.append([word, kept and list(kept), adds])
    return {
        "family": anatomy.family,
        "beside": list(anatomy.beside),
        "kinds": [
            {
                "word": kind.word,
                "labels": [
                    [row["label"], row["group"], row["words"]]
                    for row in table["labels"]
                    if evaluate(row["if"], scope)
                ],
                "layers": len(kind.layers),
                "boxes": [
                    {name: row[name] for name in ("role", "new", "chapter")}
                    | {name: filled(row[name], scope) for name in ("title", "line")}
                    for row in table["boxes"]
                    if evaluate(row["if"], scope)
                ],
            }
            for kind in anatomy.kinds
            for scope in [anatomy.scope(kind)]
        ],
        "order": fold([kind_of[i] for i in sorted(kind_of)]),
        "weights": weights
        and [[table["titles"].get(part, part), n, used and used[part]] for part, n in weights.items()],
        "files": {group: n if n is None else sum(n.values()) for group, n in files.items()},
        "cached": cached,
        "multiply_adds": anatomy.multiply_adds(positions),
    }


def _by_part(weights: Mapping[tuple[str, str], int] | None) -> dict[str, int] | None:
    if weights is None:
        return None
    found: dict[str, int] = {}
    for (part, name), n in weights.items():
        if n:
            where = name if part == "model" else part
            found[where] = found.get(where, 0) + n
    return found


def filled(pieces: list[Any], scope: Scope) -> str:
    return "".join(shown(evaluate(piece, scope)) if i % 2 else piece for i, piece in enumerate(pieces))


# --- as text ------------------------------------------------------------------------------------------------


def describe(*reports: dict[str, Any], positions: int) -> str:
    """Returns a report of `positions` as text, or of two reports what differs between them."""
    seen = [{(part, label): values for part, label, *values in _rows(one, positions)} for one in reports]
    parts: dict[str, list[tuple[str, list[str]]]] = {}
    for part, label in dict.fromkeys(key for rows in seen for key in rows):
        values = [rows.get((part, label), ["–"]) for rows in seen]
        if len(values) == 1:
            parts.setdefault(part, []).append((label, values[0]))
        elif values[0][0] != values[1][0]:
            parts.setdefault(part, []).append((label, [value[0] or "yes" for value in values]))
    width = max((len(label) for rows in parts.values() for label, (value, *_) in rows if value), default=0)
    return "\n\n".join(
        "\n".join(
            [part, *(f"  {label.ljust(width)}  {'  '.join(values)}".rstrip() for label, values in rows)]
        )
        for part, rows in parts.items()
    )


def _rows(one: dict[str, Any], positions: int) -> Iterator[tuple[str, ...]]:
    """Yields (section, label, value, what is said of it)."""
    if "trouble" in one:
        yield "Not counted", one["trouble"], ""
    else:
        yield from _numbers(one, positions)
    for what, _ in one.get("lacking", ()):
        yield "What our code lacks", what, ""
    for key, value, says, _ in one["said"]:
        yield "Keys", key, value, says
    for title, where in (
        ("Keys that change no logit", "programs"),
        ("Keys that are null or empty, as if they were not there", "unset"),
        ("Keys that are not explained here", "unknown"),
    ):
        yield from ((title, key, "") for key in one[where])


def _numbers(one: dict[str, Any], positions: int) -> Iterator[tuple[str, ...]]:
    n_layers = sum(kind["layers"] for kind in one["kinds"])
    for part in one["beside"]:
        yield "Layers", f"{part}, not counted here", ""
    for kind in one["kinds"]:
        what = ", ".join(words for *_, words in kind["labels"])
        yield "Layers", f"{kind['word']}: {what}", f"{kind['layers']} of {n_layers}"
    title = "Weights, and those that a token uses"
    rows = one["weights"] or []
    whole: list[Any] = ["all", _sum(rows, 1), _sum(rows, 2)]
    for part, total, used in [*rows, whole]:
        yield title, part, _number(total) if used == total else f"{_number(total)} ({_number(used)})", ""
    for group, what in FILES.items():
        if (n := one["files"][group]) != 0:
            yield title, f"{what}, not among all", _number(n), ""
    title = f"Bytes kept for one text of {positions:,} positions"
    for word, kept, adds in one["cached"]:
        for each, what in ((2, "bfloat16"), (1, "8 bits")):
            more = f"{_number(_bytes(adds, each))} for the next position"
            yield title, f"{word}, in {what}", _number(_bytes(kept, each)), more
    yield (
        "Arithmetic",
        f"multiply-adds of the next token after {positions:,}",
        _number(one["multiply_adds"]),
        "",
    )


FILES = {
    "dropped": "layers that predict further tokens",
    "buffers": "learned biases of the router",
}
"""Numbers that files hold beside the weights of the library."""


def _sum(rows: list[list[Any]], i: int) -> int | None:
    return None if not rows or rows[0][i] is None else sum(row[i] for row in rows)


def _number(n: int | None) -> str:
    return "not known here" if n is None else f"{n:,}"


def _bytes(kept: list[Any] | None, each: int) -> int | None:
    """Returns the bytes of numbers of so many bytes each, and of states, which stay in float32."""
    return None if kept is None else round(each * kept[0] + 4 * kept[1])
