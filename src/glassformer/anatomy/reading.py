"""Reads what a model consists of from its config.json, also where our code does not run it.

    seen = read(json.loads(Path("config.json").read_text()))
    seen.kinds, seen.weights(), seen.kept(100_000), seen.multiply_adds(100_000)

`families.toml` says for each model_type how a file describes its layers, `parts.toml` what each part of a layer has.
"""

import json
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from glassformer import _checks as checks
from glassformer.anatomy.formulas import evaluate, names_in, parse

__all__ = ["Anatomy", "Kind", "Scope", "classes", "families", "known_keys", "read", "tables"]
__dir__ = __all__.copy

MOST_LAYERS = 10_000

WEIGHTS = ("matrices", "vectors")

TELL_APART = ("n_norms", "window", "rotates", "placement", "gate", "shares_kv", "keys_are_values")
"""Names in which layers of one word with the same weights may differ."""

WRAPPED = ("thinker_config", "text_config", "language_config", "llm_config")
"""Keys under which a file of several parts has the part that reads and writes text; one may be within another."""


@cache
def families() -> dict[str, Any]:
    """Returns the lines of each family, with formulas as trees; `like` names the family that has the others."""
    return {name: _trees(lines, but="like") for name, lines in _table("families.toml").items()}


@cache
def tables() -> dict[str, Any]:
    """Returns the tables of parts and families, with formulas as trees; a family has the lines of what it is like."""
    whole: dict[str, dict[str, Any]] = {}
    for name, lines in families().items():
        whole[name] = whole.get(lines.get("like", ""), {}) | {k: v for k, v in lines.items() if k != "like"}
    return {"parts": _trees(_table("parts.toml")), "families": whole}


@cache
def classes() -> dict[str, Any]:
    """Returns what the library's class of each family takes for keys that a file lacks, and its other names of keys."""
    return json.loads((resources.files("glassformer.anatomy") / "classes.json").read_text(encoding="utf-8"))


def _table(name: str) -> dict[str, Any]:
    return tomllib.loads((resources.files("glassformer.anatomy") / name).read_text(encoding="utf-8"))


def _trees(table: Mapping[str, Any], *, but: str = "") -> dict[str, Any]:
    return {
        name: one if name == but else parse(one) if isinstance(one, str) else _trees(one)
        for name, one in table.items()
    }


class Scope:
    """The values of names for a model or one of its layers: what its family's lines say, or keys of the file.

    `known` has names that neither has: `i`, the number of the layer, and `positions`, those that were read before.
    """

    def __init__(self, family: str, given: Mapping[str, Any], **known: Any) -> None:
        self.lines, self.given = tables()["families"][family], given
        self.absent = classes()[family]["defaults"]
        self.known, self._within = known, set[str]()

    def __call__(self, name: str) -> Any:
        """Returns the value of a name; None if the file does not have it."""
        if name in self.known:
            return self.known[name]
        if name in self.lines and name not in self._within:
            self._within.add(name)
            self.known[name] = evaluate(self.lines[name], self)
            self._within.remove(name)
            return self.known[name]
        return self.given[name] if name in self.given else self.absent.get(name)

    def key(self, name: str, value: Any) -> str:
        """Returns what the file calls a name that has this value: the key from which it is."""
        keys = [key for key in self._keys(name) if self.given.get(key) == value]
        return keys[0] if keys else name

    def _keys(self, name: str, among: tuple[str, ...] = ()) -> list[str]:
        inner = names_in(self.lines[name]) if name in self.lines and name not in among else [name]
        return [key for one in inner for key in ([one] if one == name else self._keys(one, (*among, name)))]

    def of(self, part: str, group: str) -> dict[str, int | None]:
        """Returns the numbers of a group of a part, such as its matrices."""
        return {name: evaluate(tree, self) for name, tree in tables()["parts"][part].get(group, {}).items()}

    def check(self, part: str) -> None:
        """Checks that the sizes of a part are whole numbers, at least 1."""
        for tree in tables()["parts"][part].get("sizes", ["list"])[1:]:
            value = evaluate(tree, self)
            if value is not None:
                checks.whole(self.key(tree, value), value)

    def number(self, part: str, name: str) -> int | None:
        """Returns one number of a part, such as `kept`; 0 if it has none, and None if it is not known."""
        return evaluate(tables()["parts"][part].get(name, 0), self)


@dataclass(frozen=True)
class Kind:
    """Layers that are alike: their word in the file, the parts of each, and their numbers from 0."""

    word: str
    parts: tuple[str, ...]
    layers: tuple[int, ...]


@dataclass(frozen=True)
class Anatomy:
    """What a config.json says of a model. `family` is its model_type, and `beside` what else the file describes."""

    family: str
    given: Mapping[str, Any]
    kinds: tuple[Kind, ...]
    beside: tuple[str, ...] = ()

    def scope(self, kind: Kind | None = None, positions: int | None = None, **other: Any) -> Scope:
        """Returns the values of names for the layers of a kind, or for the model; `other` has values of some."""
        known = ({} if kind is None else {"i": kind.layers[0]}) | other
        given = self.given if kind is None else _of_layer(self.given, kind.layers[0])
        return Scope(self.family, given, **known, **({} if positions is None else {"positions": positions}))

    def weights(
        self, *, active: bool = False, groups: Collection[str] = WEIGHTS
    ) -> Counter[tuple[str, str]] | None:
        """Returns the numbers of weights by (part, name): of all, or of those that one token uses.

        Of experts, a token uses those that the router chooses, and of a table of embeddings one row; a head that is
        the same table counts as a whole. `groups` are "matrices", "vectors"; "buffers": learned numbers that files
        hold, and that transformers does not count as weights; and "dropped": what files hold and transformers leaves
        out, such as layers that predict several tokens. None if one of the numbers is not known.
        """
        count: Counter[tuple[str, str]] = Counter()
        for kind in (None, *self.kinds):
            scope = self.scope(kind)
            times = 1 if kind is None else len(kind.layers)
            for part in ("model",) if kind is None else kind.parts:
                used = scope.of(part, "active") if active else {}
                for group in groups:
                    for name, n in scope.of(part, group).items():
                        if (n := used.get(name, n)) is None:
                            return None
                        count[part, name] += times * n
            if kind is not None and "vectors" in groups:
                count["norms", "norms"] += times * scope("n_norms") * scope("gain") * scope("d_model")
        if "dropped" in groups:
            if (n := self._more_layers()) is None:
                return None
            count["model", "more_layers"] = n
        return count

    def _more_layers(self) -> int | None:
        """Returns the weights of layers that predict several tokens: each is like the last, with a matrix and norms."""
        scope = self.scope()
        if not (n := scope("n_more_layers")):
            return n
        kind = next(kind for kind in self.kinds if scope("n_layers") - 1 in kind.layers)
        alone = Anatomy(self.family, self.given, (Kind(kind.word, kind.parts, kind.layers[-1:]),))
        layer = alone.weights(groups=(*WEIGHTS, "buffers"))
        each = self.scope(kind)("more_layer")
        if layer is None or each is None:
            return None
        return n * (each + sum(n for (part, _), n in layer.items() if part != "model"))

    def kept(
        self, positions: int, without: Sequence[Mapping[str, Any]] = ()
    ) -> dict[str, tuple[int, int] | None]:
        """Returns for each kind how many numbers its layers keep for one text, and how many others in float32.

        A kind of which that is not known has None. `without` are ideas that the model does not have (savings.py).
        """
        found: dict[str, tuple[int, int] | None] = {}
        for kind in self.kinds:
            parts, scope = self._without(kind, positions, without)
            before, times = found.get(kind.word, (0, 0)), len(kind.layers)
            kept, state = (_sum(scope.number(part, name) for part in parts) for name in ("kept", "state"))
            unknown = before is None or kept is None or state is None
            found[kind.word] = None if unknown else (before[0] + times * kept, before[1] + times * state)
        return found

    def _without(
        self, kind: Kind, positions: int, ideas: Sequence[Mapping[str, Any]]
    ) -> tuple[list[str], Scope]:
        """Returns the parts of layers of a kind that do not have some ideas, and the values of names for them."""
        scope, parts, other = self.scope(kind, positions), list(kind.parts), dict[str, Any]()
        for idea in reversed(ideas):
            if evaluate(idea["if"], scope):
                parts = [evaluate(idea["becomes"], scope) if p in idea["parts"] else p for p in parts]
                other |= {name: evaluate(tree, scope) for name, tree in idea["without"].items()}
        return [part for part in parts if part], self.scope(kind, positions, **other)

    def multiply_adds(self, positions: int) -> int | None:
        """Returns how many multiply-adds the next token takes after so many positions: matrices, and other products.

        None if that is not known, or if the model writes no text.
        """
        if (matrices := self.weights(active=True, groups=("matrices",))) is None:
            return None
        found = sum(matrices.values())
        for kind in (None, *self.kinds):
            scope = self.scope(kind, positions)
            for part in ("model",) if kind is None else kind.parts:
                idle, products = (scope.number(part, name) for name in ("idle", "products"))
                if idle is None or products is None:
                    return None
                found += (1 if kind is None else len(kind.layers)) * (products - idle)
        return found


def _sum(numbers: Iterable[int | None]) -> int | None:
    """Returns the sum, or None if one of the numbers is not known."""
    found = list(numbers)
    return None if None in found else sum(n for n in found if n is not None)


def read(file: Mapping[str, Any]) -> Anatomy:
    """Returns the anatomy of the model that a config.json describes.

    Raises:
        TypeError: the number of layers is not a whole number.
        ValueError: its model_type is not known, or a key is missing or has a value that its family does not have.
    """
    given, beside = file, ()
    for key in WRAPPED:
        if isinstance(given.get(key), Mapping):
            beside += tuple(
                name
                for name, one in given.items()
                if name.endswith("_config") and name != key and isinstance(one, Mapping)
            )
            whole = {name: given[name] for name in ("tie_word_embeddings", "model_type") if name in given}
            given = whole | dict(given[key])
    family = given.get("model_type")
    if family is None:
        raise ValueError("model_type is missing")
    if not isinstance(family, str) or (family := _family(family)) is None:
        raise ValueError(f"model_type={given.get('model_type')!r} is not known here")
    aliases = classes()[family]["aliases"]
    given = {
        aliases.get(key, key) if aliases.get(key) not in given else key: value for key, value in given.items()
    }
    n_layers = Scope(family, given)("n_layers")
    if n_layers is None:
        raise ValueError("the number of layers is missing")
    checks.whole("the number of layers", n_layers)
    if n_layers > MOST_LAYERS:
        raise ValueError(f"the number of layers={n_layers} must be at most {MOST_LAYERS:,}")
    kinds: dict[Any, tuple[str, tuple[str, ...], list[int]]] = {}
    for i in range(n_layers):
        scope = Scope(family, _of_layer(given, i), i=i)
        if scope("layer_type") not in scope("words"):
            raise ValueError(
                f"layer {i} is of the kind {scope('layer_type')!r}, but {family} has {', '.join(scope('words'))}"
            )
        parts = tuple(scope("parts"))
        for part in ("model", *parts):
            scope.check(part)
        values = (
            *(repr(scope(name)) for name in TELL_APART),
            *(tuple(scope.of(part, group).values()) for part in parts for group in WEIGHTS),
        )
        word = str(scope("layer_type"))
        kinds.setdefault((word, parts, values), (word, parts, []))[2].append(i)
    return Anatomy(family, given, tuple(Kind(w, p, tuple(layers)) for w, p, layers in kinds.values()), beside)


def _family(model_type: str) -> str | None:
    """Returns the family of a file: its model_type, or that of the text part of such a file."""
    if model_type in classes():
        return model_type
    return next((name for name, one in classes().items() if model_type in one.get("files", [])), None)


def _of_layer(given: Mapping[str, Any], i: int) -> Mapping[str, Any]:
    """Returns the file as it is for one layer, some of whose keys may be its own."""
    own = given.get("per_layer_config")
    if not isinstance(own, Mapping):
        return given
    mine = own.get(str(i)) or own.get(f"{i:02}") or {}
    if not isinstance(mine, Mapping):
        raise ValueError(
            f"per_layer_config={checks.shown(repr(mine))} of layer {i} must be an object of keys"
        )
    return {**given, **mine}


def known_keys(family: str) -> set[str]:
    """Returns the keys of files that the formulas of a family name."""
    lines = tables()["families"][family]
    names = {
        name for line, tree in lines.items() for name in names_in(tree) if name not in lines or name == line
    }
    return names - {"i", "positions"}
