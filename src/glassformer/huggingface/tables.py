"""Reads and writes a config.json by the tables of its family: keys, rotary positions, kinds of layers, and parts."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import MISSING, asdict, fields, replace
from itertools import groupby
from typing import Any

from glassformer import _checks as checks
from glassformer.config import Derived, ModelConfig
from glassformer.huggingface.families.format import Format, Kinds, PartOf, Sparse, few, flag, flat_kinds
from glassformer.huggingface.keys import NEEDED, Key, contradiction, unsupported
from glassformer.layers import PARTS, PLACES, Experts, Order

FLOATS = [f.name for f in fields(ModelConfig) if f.type in (float, float | None, Derived[float])]
FLOATS_OF_EXPERTS = [f.name for f in fields(Experts) if f.type in (float, float | None)]

OF_THE_HEAD = ("head_scale", "logit_cap")
"""Fields whose keys a file may have without a head, where they mean nothing."""


# Reading


def read(form: Format, given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments of the `ModelConfig` that a file describes, as far as tables say.

    Raises:
        ValueError: a key is missing, contradicts another, or has a value that these models do not support.
    """
    settings = dict(form.always) | {ours: value_of(key, form, given) for ours, key in form.fields.items()}
    settings["head"] = form.head(given)
    if settings["head"] == "none":
        settings = {ours: value for ours, value in settings.items() if ours not in OF_THE_HEAD}
    rope = {} if form.rope is None or form.layers is not None else form.rope.read(given)
    settings |= rope.pop("", {})
    kinds, order = {"every": {}}, ""
    if form.layers is not None:
        checks.whole(form.fields["n_layers"].name, settings["n_layers"])
        layers = form.layers(given, settings["n_layers"])
        kinds, order = dict(layers), _in_words(_runs([name for name, _ in layers]))
    elif form.kinds is not None:
        kinds, order = _kinds(form, form.kinds, given)
    kinds = {name: own | rope.get(name, {}) for name, own in kinds.items()}
    if form.sparse is not None:
        kinds, order = _with_experts(form, form.sparse, given, settings, kinds, order)
    flat = {key: value for key, value in next(iter(kinds.values())).items() if key not in PLACES}
    shared = {key: value for key, value in flat.items() if _all_have(key, value, kinds)}
    parts = {place: part for place, part_of in form.parts.items() if (part := _part(part_of, form, given))}
    if len(kinds) == 1:
        kinds, order = {"every": next(iter(kinds.values()))}, ""
    settings = _floats(settings | shared)
    if order or parts or any(key in PLACES for own in kinds.values() for key in own):
        own = {name: {key: own[key] for key in own if key not in shared} for name, own in kinds.items()}
        settings["kinds"] = {name: _floats(kind) | parts for name, kind in own.items()}
    return settings | ({"order": order} if order else {})


def _all_have(key: str, value: Any, kinds: Mapping[str, Mapping[str, Any]]) -> bool:
    return all(key in kind and kind[key] == value for kind in kinds.values())


def value_of(key: Key, form: Format, given: Mapping[str, Any]) -> Any:
    """Returns what a key says, as our value."""
    name = key.name
    if name.startswith("rope."):
        name = name.removeprefix("rope.")
        given = {} if form.rope is None else form.rope.settings(given)
    value = given.get(name, key.default)
    if key.default == NEEDED and value in (None, NEEDED):
        raise ValueError(f"{name} is missing")
    if key.words is not None and True in key.words:
        checks.flag(name, value)
        return key.words[value]
    if key.words is not None:
        if not isinstance(value, str) or value not in key.words:
            raise unsupported({name: value}, name, f"known are {', '.join(key.words)}")
        return key.words[value]
    if key.power != 1 and value is not None:
        checks.positive(name, value)
        return value**key.power
    return value


def _kinds(form: Format, kinds: Kinds, given: Mapping[str, Any]) -> tuple[dict[str, dict[str, Any]], str]:
    """Returns what each kind has of its own, for those that occur, and their order."""
    n_layers = value_of(form.fields["n_layers"], form, given)
    checks.whole(form.fields["n_layers"].name, n_layers)
    first, last = kinds.own
    off = _off(kinds, form, given)
    listed = given.get(kinds.key)
    if listed is not None:
        words = list(kinds.words)
        if not isinstance(listed, list) or not all(any(entry == word for word in words) for entry in listed):
            raise unsupported(given, kinds.key, f"known are {' and '.join(map(str, words))}")
        if len(listed) != n_layers:
            name = form.fields["n_layers"].name
            raise contradiction(name, n_layers, f"the length of {kinds.key}", len(listed))
        names = [kinds.words[entry] for entry in listed]
        n_first = names.count(first)
        if (off and n_first) or (kinds.alike and not off and n_first < n_layers):
            name, value = off or next((key.name, value_of(key, form, given)) for key in kinds.keys)
            raise contradiction(f"the number of {words[0]} in {kinds.key}", n_first, name, value)
        runs = _runs(names)
    elif off:
        runs = [(last, n_layers)]
    elif kinds.every is not None:
        every = _whole(kinds.every, form, given, 1)
        runs = [(first, every - 1), (last, 1)] if every <= n_layers else [(first, n_layers)]
        if kinds.until is not None:
            until = _whole(kinds.until, form, given, 0)
            runs = _runs([first if i < until and (i + 1) % every else last for i in few(n_layers)])
    elif kinds.first is not None:
        whole = min(_whole(kinds.first, form, given, 0), n_layers)
        runs = [(last, whole), (first, n_layers - whole)]
    else:
        runs = [(first, n_layers)]
    runs = [(name, times) for name, times in runs if times]
    own = {
        name: {
            ours: value_of(v, form, given) if isinstance(v, Key) else v for ours, v in kinds.own[name].items()
        }
        for name in kinds.own
        if name in dict(runs)
    }
    return own, _in_words(runs)


def _with_experts(
    form: Format,
    sparse: Sparse,
    given: Mapping[str, Any],
    settings: Mapping[str, Any],
    kinds: dict[str, dict[str, Any]],
    order: str,
) -> tuple[dict[str, dict[str, Any]], str]:
    """Returns kinds of layers and their order, after adding experts to those layers that have them."""
    found = {
        ours: value_of(value, form, given) if isinstance(value, Key) else value
        for ours, value in {**sparse.experts, **sparse.keys}.items()
    }
    if not found["n_experts"]:
        return kinds, order
    for ours, key in sparse.keys.items():
        if found[ours] is None and key.default is not None:
            raise ValueError(f"{key.name} is missing")
    n_layers, width = settings["n_layers"], found.pop("d_ff", settings.get("d_ff"))
    checks.whole(form.fields["n_layers"].name, n_layers)
    if sparse.n_shared is not None:
        checks.whole(sparse.n_shared.name, found["d_shared"], at_least=0)
        checks.whole((sparse.d_ff or form.fields["d_ff"]).name, width)
        found["d_shared"] *= width
    if not found.get("group_best", 1) or found.get("n_groups") in (None, 1):  # all experts are one group
        found |= {"n_groups": 1, "top_groups": 1, "group_best": 1}
    if not found.get("renormalize", True):
        found["sum_eps"] = 0.0
    experts = Experts(**_floats(found, FLOATS_OF_EXPERTS))
    own: dict[str, dict[str, Any]] = {"dense": {}, "sparse": {"d_ff": width, "experts": experts}}
    which, by_token = (where.read(given, n_layers) for where in (sparse.where, sparse.by_token))
    if by_token is not False:
        chosen = replace(experts, by_token=True, choice_bias=False)
        own["by_token"] = own["sparse"] | {"experts": chosen}
    n_words = 1 if isinstance(which, bool) and isinstance(by_token, bool) else n_layers
    has, chooses = ([one] * n_words if isinstance(one, bool) else one for one in (which, by_token))
    words = [("by_token" if chooses[i] else "sparse") if has[i] else "dense" for i in range(n_words)]
    if len(set(words)) == 1:
        return {name: kind | own[words[0]] for name, kind in kinds.items()}, order
    places = Order(order or next(iter(kinds)), kinds)
    pairs = [(places[i], words[i]) for i in range(n_layers)]
    names = {pair: pair[1] if len(kinds) == 1 else "_".join(pair) for pair in dict.fromkeys(pairs)}
    product = {name: kinds[kind] | own[word] for (kind, word), name in names.items()}
    return product, _in_words(_runs([names[pair] for pair in pairs]))


def _in_words(runs: Sequence[tuple[str, int]]) -> str:
    return " ".join(name if times == 1 else f"{name}*{times}" for name, times in runs)


def _off(kinds: Kinds, form: Format, given: Mapping[str, Any]) -> tuple[str, Any] | None:
    """Returns the key, and its value, that leaves no layer of the first kind, if there is one."""
    switch = kinds.switch
    if switch is not None and not flag(given, switch.name, switch.default):
        return switch.name, False
    for key in next(iter(kinds.own.values())).values():
        if isinstance(key, Key) and value_of(key, form, given) is None:
            return key.name, None
    return None


def _whole(key: Key | int, form: Format, given: Mapping[str, Any], least: int) -> int:
    value = value_of(key, form, given) if isinstance(key, Key) else key
    checks.whole(key.name if isinstance(key, Key) else "every", value, at_least=least)
    return value


def _runs(names: Sequence[str]) -> list[tuple[str, int]]:
    """Returns the shortest beginning of a list that repeats to the whole, as runs of equal entries."""
    # How many of the first entries are also the last, up to each entry (Knuth, Morris and Pratt 1977)
    borders = [0]
    for name in names[1:]:
        border = borders[-1]
        while border and names[border] != name:
            border = borders[border - 1]
        borders.append(border + (names[border] == name))
    return [(name, len(list(run))) for name, run in groupby(names[: len(names) - borders[-1]])]


def _part(part: PartOf, form: Format, given: Mapping[str, Any]) -> Any:
    """Returns a part of all layers; None if the file has none, or one that changes nothing."""
    arguments = {
        name: value_of(value, form, given) if isinstance(value, Key) else value
        for name, value in part.arguments.items()
    }
    if None in arguments.values():
        return None
    kind = PARTS[part.name]
    made = kind(**_floats(arguments, [f.name for f in fields(kind) if f.type is float]))
    return None if made == without_effect(part.name) else made


def without_effect(name: str) -> Any:
    """Returns the part of that name with its defaults, if these change nothing; otherwise None."""
    kind: Any = PARTS[name]
    if name in ("OutputGate", "Sinks"):
        return None
    return kind() if all(f.default is not MISSING for f in fields(kind)) else None


def _floats(settings: Mapping[str, Any], floats: Collection[str] = FLOATS) -> dict[str, Any]:
    return {name: _float(value) if name in floats else value for name, value in settings.items()}


def _float(value: Any) -> Any:
    """Returns 10000.0 for 10000, which JSON may contain for it."""
    return float(value) if type(value) is int and abs(value) < checks.LARGEST else value


# Writing


def write(form: Format, config: ModelConfig) -> dict[str, Any]:
    """Returns what a file of this family says of a model, as far as its tables can."""
    flat, parts = flat_kinds(config)
    first = config.kind(0)
    given: dict[str, Any] = {"architectures": [form.architectures[-1 if config.head == "none" else 0]]}
    for ours, key in form.fields.items():
        given.setdefault(key.name, _written(key, getattr(flat[first], ours)))
    tied = form.tied if config.head == "none" else config.head == "tied"
    given |= {"tie_word_embeddings": tied, **form.written}
    theirs = {"": flat[first]}
    if form.kinds is not None:
        of_theirs = {name: _name_of(form, form.kinds, flat[name]) for name in flat}
        theirs = {name: flat[ours] for ours, name in reversed(of_theirs.items())}
        theirs = {name: theirs.get(name, flat[first]) for name in form.kinds.own}
        names = [of_theirs[config.kind(i)] for i in range(config.n_layers)]
        given |= _written_kinds(form.kinds, names, theirs)
    if form.rope is not None and form.layers is None:
        given |= form.rope.write(theirs if form.rope.kinds else {"": flat[first]})
    if form.sparse is not None:
        given |= _written_experts(form, form.sparse, config)
    for place, part in form.parts.items():
        found = parts[first].get(place) or without_effect(part.name)
        for name, key in part.arguments.items():
            if isinstance(key, Key):
                value = getattr(found, name, None)
                inner = key.name.removeprefix("rope.")
                if inner == key.name:
                    given[inner] = _written(key, value)
                    continue
                for settings in (given["rope_parameters"], given["rope_scaling"]):
                    if settings is not None:
                        settings.setdefault(inner, _written(key, value))
    return given | (form.write(config) if form.write is not None else {})


def _name_of(form: Format, kinds: Kinds, flat: ModelConfig) -> str:
    """Returns the name that a family's table has for a kind of layer: the first one if it has what that one has."""
    first, last = kinds.own
    differ = {ours for own in kinds.own.values() for ours in own}
    usual = {f.name: f.default for f in fields(ModelConfig)} | dict(form.always)
    for ours in differ:
        value, own = getattr(flat, ours), kinds.own[first].get(ours, usual[ours])
        if value is None if isinstance(own, Key) else value != own:
            return last
    return first


def _written_kinds(kinds: Kinds, names: list[str], configs: Mapping[str, ModelConfig]) -> dict[str, Any]:
    first = next(iter(kinds.own))
    if kinds.switch is not None and first not in names:
        return {}
    given = {}
    for name, own in kinds.own.items():
        for ours, key in own.items():
            if isinstance(key, Key):
                given[key.name] = _written(key, getattr(configs[name], ours)) if name in names else None
    if kinds.switch is not None:
        given[kinds.switch.name] = True
    if kinds.first is not None:
        given[kinds.first.name] = [*names, first].index(first)
    if not kinds.alike:
        words = {name: word for word, name in kinds.words.items()}
        given[kinds.key] = [words[name] for name in names]
    return given


def _written_experts(form: Format, sparse: Sparse, config: ModelConfig) -> dict[str, Any]:
    each = [config.layer(i).feedforward for i in range(config.n_layers)]
    some = [(one.d_ff, one.experts) for one in each if one.experts is not None]
    given: dict[str, Any] = {}
    if "d_ff" in form.fields:
        given[form.fields["d_ff"].name] = next(
            (one.d_ff for one in each if one.experts is None), each[0].d_ff
        )
    where = sparse.where.write([one.experts is not None for one in each])
    if not some:
        return given | where | {sparse.experts["n_experts"].name: 0}
    width, experts = some[0]
    found: dict[str, Any] = asdict(experts) | {"d_ff": width}
    if sparse.n_shared is not None:
        found["d_shared"] //= width
    given |= {key.name: _written(key, found[ours]) for ours, key in sparse.keys.items()}
    by_token = [one.experts is not None and one.experts.by_token for one in each]
    return given | where | sparse.by_token.write(by_token)


def _written(key: Key, value: Any) -> Any:
    """Returns their value for ours; if they have none, any, because translating back shows the loss."""
    if key.words is not None:
        words = [word for word, ours in key.words.items() if ours == value]
        return key.default if key.default in words else next(iter([*words, *key.words]))
    if key.power != 1 and isinstance(value, int | float):
        exact = value ** (1 / key.power)
        return next(
            (near for near in (round(exact), round(exact, 6)) if near > 0 and near**key.power == value), exact
        )
    return value
