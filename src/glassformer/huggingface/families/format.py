"""What a family is: how it writes its config.json, and what it calls its weights."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.huggingface.keys import Rule, unsupported

Shape = tuple[int, ...]

# Their names for our activations; if there are several, the usual one comes first
ACTIVATION_WORDS = {
    "relu": "relu",
    "relu2": "relu2",
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
}
GATES = {
    "silu": "swiglu",
    "swish": "swiglu",
    "gelu": "geglu",
    "gelu_python": "geglu",
    "gelu_new": "geglu_tanh",
    "gelu_pytorch_tanh": "geglu_tanh",
}

NEEDED = "needed"
"""Takes the place of a default: the file must have this field."""

NOT_CAUSAL = ("is_causal", (True,), "every position sees itself and what comes before it")
NO_WINDOW: tuple[Rule, ...] = (
    ("sliding_window", (None,), "no layer of this family has a window"),
    ("use_sliding_window", (False, None), "no layer of this family has a window"),
    ("layer_types", ("full_attention", None), "no layer of this family has a window"),
)
ONE_STACK = ("is_encoder_decoder", (False, None), "this family has one stack of blocks")
NO_CROSS_ATTENTION = ("add_cross_attention", (False, None), "this family has no encoder to look at")


# Weights


@dataclass(frozen=True)
class Place:
    """The place of one of our weights in their files, and how it is stored there."""

    name: str
    transposed: bool = False  # torch's Linear stores its matrix as (out, in), ours as (in, out)
    third: int | None = None  # GPT-2 stores W_q, W_k and W_v side by side in one matrix

    def take(self, theirs: Any) -> Any:
        """Returns our weight as a view of theirs, without a copy."""
        if self.third is not None:
            width = theirs.shape[-1] // 3
            theirs = theirs[..., self.third * width : (self.third + 1) * width]
        return theirs.T if self.transposed else theirs

    def shape(self, ours: Shape) -> Shape:
        """Returns the shape of theirs, given that of ours."""
        if self.third is not None:
            ours = (*ours[:-1], 3 * ours[-1])
        return ours[::-1] if self.transposed else ours


def linear(name: str) -> Place:
    """A matrix that is stored transposed, as in torch's Linear."""
    return Place(name, transposed=True)


def third(number: int, name: str) -> Place:
    """The first, second or third part of a matrix that combines three."""
    return Place(name, third=number)


@dataclass(frozen=True)
class Layout:
    """The names that a family gives its weights.

    `names` has them by our name, with # for a block's number and without `weight` or `bias`; `gated` has other names,
    if feed-forwards have a gate. `prefix` begins all names but the head's; models without a head omit it. `copies` has
    weights that may occur twice, and the weight they belong to. `ignored` is a regular expression for entries of files
    that are no weights of these models.
    """

    names: Mapping[str, Place | str]
    gated: Mapping[str, Place | str] = field(default_factory=dict)
    prefix: str = ""
    copies: Mapping[str, str] = field(default_factory=dict)
    ignored: str = r"(?!)"


# Configurations


@dataclass(frozen=True, kw_only=True)
class Format:
    """Describes the files of a family, as far as tables can express it; two functions do the rest.

    `fields` maps each of our fields to theirs and its default when the file omits it. `always` holds what the
    family cannot choose. `must_be` lists those of their fields that change the computation, with the only
    values that these models support, and why. `activation` is their field, its default, and their names for
    ours. `said` has any other names of theirs that messages use. `also` lists the keys that a function reads,
    `aliases` other names of keys, and `without_effect` keys that change no number, and why.

    `architectures` are the names of its classes: first those with a head, starting with the usual one, then the one
    without. `read` returns what a file says beyond the tables, as fields of ours; the names of its weights, if there
    are any, may decide. `write` returns what a file has beyond the tables. Both get the format, too, since families
    can share them. `claims` tells which of our configurations are written as this family.
    """

    architectures: tuple[str, ...]
    fields: Mapping[str, tuple[str, Any]]
    always: Mapping[str, Any] = field(default_factory=dict)
    activation: tuple[str, str, Mapping[str, str]]
    must_be: tuple[Rule, ...]
    said: Mapping[str, str] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    without_effect: Mapping[str, str] = field(default_factory=dict)
    read: Callable[["Format", Mapping[str, Any], Any], dict[str, Any]]
    write: Callable[["Format", ModelConfig], dict[str, Any]]
    claims: Callable[[ModelConfig], bool]
    layout: Layout

    @property
    def keys(self) -> list[str]:
        """Returns the keys of this family's files that are accounted for, besides `COMMON`."""
        return [
            *(theirs for theirs, _ in self.fields.values()),
            *(self.activation[0], *self.also, *self.aliases),
            *(name for name, *_ in self.must_be),
            *self.without_effect,
        ]

    def architecture(self, given: Mapping[str, Any]) -> str:
        """Returns the architecture that the file names, or the usual one if it names none."""
        known = self.architectures
        names = given.get("architectures") or [known[0]]
        if not isinstance(names, list) or names[0] not in known:
            raise unsupported(
                given, "architectures", f"for this model_type it must be one of {', '.join(known)}"
            )
        return names[0]

    def head(self, given: Mapping[str, Any], *, tied: bool) -> str:
        """Returns "none", "tied" or "untied" by the architecture's name; uses `tied` if the file does not say."""
        if self.architecture(given) == self.architectures[-1]:
            return "none"
        return "tied" if flag(given, "tie_word_embeddings", tied) else "untied"

    def word(self, feedforward: str) -> str:
        """Returns their name for that feed-forward network; if none, any, because translating back shows the loss."""
        _, _, ours = self.activation
        return next((theirs for theirs in ours if ours[theirs] == feedforward), next(iter(ours)))


def needed(given: Mapping[str, Any], name: str) -> Any:
    """Returns the value of a required field."""
    if given.get(name) is None:
        raise ValueError(f"{name} is missing")
    return given[name]


def flag(given: Mapping[str, Any], name: str, default: bool) -> bool:
    """Returns a field that must be true or false."""
    value = given.get(name, default)
    checks.flag(name, value)
    return value
