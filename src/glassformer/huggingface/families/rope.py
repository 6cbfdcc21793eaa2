"""How files of LLaMA's relatives describe their rotary positions: a base, and a kind of stretching."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from glassformer import _checks as checks
from glassformer.config import ROPE_BASE, ModelConfig
from glassformer.huggingface.keys import NEEDED, ROPE_KEYS, contradiction, unsupported

PLACES = ("rope_scaling", "rope_parameters")
"""The objects that may have the settings. The first is older."""

ROPE = (*reversed(PLACES), "rope_theta", "original_max_position_embeddings")
"""The keys of every family that are read here."""

# How each kind of rotary positions names our fields, and its default for each
SCALINGS: dict[str, dict[str, tuple[str, Any]]] = {
    "default": {},
    "linear": {"rope_interpolation": ("factor", NEEDED)},
    "llama3": {
        "rope_interpolation": ("factor", NEEDED),
        "rope_slow": ("low_freq_factor", NEEDED),
        "rope_fast": ("high_freq_factor", NEEDED),
        "rope_original_context": ("original_max_position_embeddings", None),
    },
    "yarn": {
        "rope_interpolation": ("factor", NEEDED),
        "rope_slow": ("beta_slow", 1.0),
        "rope_fast": ("beta_fast", 32.0),
        "rope_original_context": ("original_max_position_embeddings", None),
        "rope_attention_factor": ("attention_factor", None),
    },
    "proportional": {"rope_interpolation": ("factor", 1.0)},
}
USUAL = ("default", "linear", "llama3", "yarn")
RAMP = {"rope_slow", "rope_fast", "rope_original_context"}


class OfKind(NamedTuple):
    """The rotary positions of a kind of layer: their word for it, the key outside with the base, and its default.

    Only if `stretched` is true, the kind is stretched by the `rope_scaling` of older files.
    """

    word: str
    outside: str | None
    base: float
    stretched: bool


@dataclass(frozen=True, kw_only=True)
class Rope:
    """The rotary positions of a family: of all layers, with one base, or of `kinds` of layers.

    `scalings` are the kinds of stretching that the family has, `default` the settings of a file without any, and `more`
    keys among the settings that others do not have. `share` is how much of a head rotates if the file does not say;
    without it, the file cannot say.
    """

    base: float = ROPE_BASE
    scalings: tuple[str, ...] = USUAL
    default: Mapping[str, Any] = field(default_factory=dict)
    more: tuple[str, ...] = ()
    share: float | None = None
    kinds: Mapping[str, OfKind] = field(default_factory=dict)

    @property
    def keys(self) -> list[str]:
        """Returns the keys of files that are read."""
        outside = [kind.outside for kind in self.kinds.values() if kind.outside is not None]
        share = [] if self.share is None else ["partial_rotary_factor"]
        return list(dict.fromkeys([*ROPE, *outside, *share]))

    def unknown(self, given: Mapping[str, Any]) -> Iterator[str]:
        """Yields the keys among the settings that are not known, such as "rope_scaling.new"."""
        words = [kind.word for kind in self.kinds.values()]
        for place in reversed(PLACES):
            settings = given.get(place)
            nested = (
                {f"{place}.{word}": settings.get(word) for word in words}
                if isinstance(settings, dict)
                else {}
            )
            for where, inner in {place: settings, **nested}.items():
                for key, value in inner.items() if isinstance(inner, dict) else ():
                    # An object that is not for a kind of layer is refused anyway.
                    if key not in (*ROPE_KEYS, *self.more, *words) and not isinstance(value, dict):
                        yield f"{where}.{key}"

    def settings(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns the settings that hold for all layers."""
        return next((given[place] for place in PLACES if given.get(place)), self.default)

    def read(self, given: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """Returns the base and how positions are stretched, by kind of layer; under "", what holds for all.

        Since transformers 5, everything is in rope_parameters; before, rope_scaling had the settings that are not
        standard. A file with both must say the same twice, or, if there are kinds, has rope_scaling for one of them.
        """
        if self.kinds:
            return {kind: self._of_kind(given, *of_kind) for kind, of_kind in self.kinds.items()}
        places = [place for place in PLACES if given.get(place)] or ["rope_parameters"]
        found = [
            self._fields(given, place, given.get(place) or self.default, "rope_theta", self.base)
            for place in places
        ]
        if found[0] != found[-1]:
            raise contradiction(*(each for place in places for each in (place, given[place])))
        return {"": found[0]}

    def _of_kind(
        self, given: Mapping[str, Any], word: str, outside: str | None, base: float, stretched: bool
    ) -> dict[str, Any]:
        by_word = given.get("rope_parameters") or self.default
        words = [kind.word for kind in self.kinds.values()]
        if not isinstance(by_word, dict) or any(
            key not in words or not isinstance(value, dict | None) for key, value in by_word.items()
        ):
            raise unsupported(
                given, "rope_parameters", f"it must have an object for each of {', '.join(words)}"
            )
        older = given.get("rope_scaling") or {}
        if not isinstance(older, dict):
            raise unsupported(given, "rope_scaling", "it must be an object")
        settings = (by_word.get(word) or {}) | (older if stretched else {})
        where = "rope_scaling" if stretched and older else "rope_parameters"
        return self._fields(given, where, settings, outside, base)

    def _fields(
        self, given: Mapping[str, Any], where: str, settings: Any, outside: str | None, base: float
    ) -> dict[str, Any]:
        if not isinstance(settings, dict) or any(isinstance(entry, dict) for entry in settings.values()):
            raise unsupported(given, where, "it must be one object, for all layers")
        kind = settings.get("rope_type", settings.get("type", "default"))
        if kind not in self.scalings:
            raise unsupported(given, where, f"known are {', '.join(self.scalings)}")
        if settings.get("type") not in (None, kind):
            raise contradiction("rope_type", kind, "type", settings["type"])
        if self.share is None and settings.get("partial_rotary_factor") not in (None, 1):
            raise unsupported(given, where, "every head is rotated as a whole")
        outer = {"rope_theta": outside}
        if self.share is not None:
            outer["partial_rotary_factor"] = "partial_rotary_factor"
        if kind in ("llama3", "yarn"):
            outer["original_max_position_embeddings"] = "original_max_position_embeddings"
        for name, key in outer.items():
            inner, other = settings.get(name), None if key is None else given.get(key)
            if inner is not None and other is not None and inner != other:
                raise contradiction(str(key), other, f"{where}.{name}", inner)
        usual = base if outside is None else given.get(outside, base)
        found = {"rope_base": settings.get("rope_theta", usual)}
        if kind not in ("default", "proportional"):
            found["rope_scaling"] = kind
        if self.share is not None:
            usual = given.get("partial_rotary_factor")
            usual = self.share if usual is None else usual
            found["rope_share"] = settings.get("partial_rotary_factor", usual)
        if kind == "proportional":
            found["rope_proportional"] = True
        for ours, (theirs, default) in SCALINGS[kind].items():
            value = settings.get(theirs)
            if value is None and default == NEEDED:
                raise unsupported(given, where, f"{kind} positions need a {theirs}, which is missing")
            found[ours] = default if value is None else value
        if "rope_original_context" in found and "original_max_position_embeddings" in given:
            found["rope_original_context"] = given["original_max_position_embeddings"]  # as in transformers
        if kind == "yarn":
            checks.flag("truncate", settings.get("truncate", True))
            if not settings.get("truncate", True):
                found["rope_truncate"] = False
            if found["rope_attention_factor"] is None:
                found["rope_attention_factor"] = _attention_factor(settings)
        return found

    def write(self, configs: Mapping[str, ModelConfig]) -> dict[str, Any]:
        """Returns the same in a file's words, where transformers 5 looks for it and where transformers 4 does.

        The configurations are flat: one for each kind of layer, or one under "".
        """
        if not self.kinds:
            rope = self.settings_of(configs[""])
            older = None if rope["rope_type"] == "default" else rope
            return {"rope_parameters": rope, "rope_theta": rope["rope_theta"], "rope_scaling": older}
        found: dict[str, Any] = {"rope_parameters": {}, "rope_scaling": None}
        for kind, (word, outside, _, stretched) in self.kinds.items():
            rope = self.settings_of(configs[kind])
            found["rope_parameters"][word] = rope
            if outside is not None:
                found[outside] = rope["rope_theta"]
            if stretched and rope["rope_type"] != "default":
                found["rope_scaling"] = rope
        return found

    def settings_of(self, config: ModelConfig) -> dict[str, Any]:
        """Returns the settings of layers of one kind."""
        scaling = config.rope_scaling
        if scaling == "linear" and config.rope_interpolation == 1:
            scaling = "default"
        if config.rope_proportional:
            scaling = "proportional"
        rope = {"rope_type": scaling, "rope_theta": config.rope_base}
        if config.rope_share != 1 or self.share is not None:
            rope["partial_rotary_factor"] = config.rope_share
        if not config.rope_truncate:
            rope["truncate"] = False
        return rope | {theirs: getattr(config, ours) for ours, (theirs, _) in SCALINGS[scaling].items()}


def _attention_factor(settings: Mapping[str, Any]) -> float | None:
    """Returns the factor that two other numbers give, as in DeepSeek's files; None: it is the usual one."""
    above, below = settings.get("mscale"), settings.get("mscale_all_dim")
    if not (above and below):
        return None
    for name, value in (("factor", settings["factor"]), ("mscale", above), ("mscale_all_dim", below)):
        checks.not_negative(name, value)
    longer = math.log(max(settings["factor"], 1))
    return (0.1 * above * longer + 1.0) / (0.1 * below * longer + 1.0)
