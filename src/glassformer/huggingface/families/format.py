"""What a family is: tables of what its config.json says, and of what it calls its weights.

`tables` reads and writes files by them.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from dataclasses import fields as dataclass_fields
from typing import Any, NamedTuple

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.huggingface.families.rope import Rope
from glassformer.huggingface.keys import Key, Rule, contradiction, unsupported, with_default
from glassformer.layers import PLACES

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

# Weights


@dataclass(frozen=True)
class Place:
    """The place of one of our weights in their files, and how it is stored there.

    The weights of all experts of a layer can lie one after the other in one of theirs: `expert` is the number of this
    one. `transposed` is a matrix stored as torch's Linear has it, (out, in); ours are (in, out). Several of our weights
    can lie side by side in one of theirs: `part` is the number of this one. Or they take turns, so many columns of each
    (`turns` of a model; `widths` are then these numbers). `grouped` is a matrix (n_groups, in, out) whose groups are
    stored one below the other. `convolution` is one (taps, channels) that is stored as (channels, 1, taps).
    `axes` are those of numbers that are stored with more axes, such as (1, 1, -1, 1). `swapped` has the halves of each
    head, whose width is `turns`, in the other order. `added` is what ours has more than theirs: Gemma stores a gain
    without its 1.
    """

    name: str
    transposed: bool = False
    part: int = 0
    added: float = 0.0
    turns: Callable[[ModelConfig], tuple[int, ...]] | None = None
    widths: tuple[int, ...] = ()
    grouped: bool = False
    convolution: bool = False
    swapped: bool = False
    axes: tuple[int, ...] = ()
    expert: int | None = None

    def stored(self, shape: Shape) -> Shape:
        """Returns the shape in which they store a weight of ours, or several side by side; of one expert, if it is."""
        if self.convolution:
            return (shape[1], 1, shape[0])
        if self.grouped:
            return (shape[0] * shape[2], shape[1])
        if self.axes:
            return tuple(shape[0] if axis < 0 else axis for axis in self.axes)
        return shape[::-1] if self.transposed else shape

    def take(self, theirs: Any, columns: slice, shape: Shape) -> Any:
        """Returns our weight of this shape, which is these columns of theirs: a view, unless it lies otherwise."""
        if self.expert is not None:
            theirs = theirs[self.expert]
        if self.grouped:
            n_groups, n_in, n_out = shape
            return theirs.reshape(n_groups, n_out, n_in).swapaxes(1, 2)
        if self.axes:
            return theirs.reshape(shape)
        wide = theirs[:, 0].T if self.convolution else theirs.T if self.transposed else theirs
        if self.swapped:
            return self._swap(wide)
        if self.widths:
            begin = sum(self.widths[: self.part])
            own = slice(begin, begin + self.widths[self.part])
            return wide.reshape(*shape[:-1], -1, sum(self.widths))[..., own].reshape(shape)
        ours = wide[..., columns]
        return ours + self.added if self.added else ours

    def give(self, ours: Any) -> Any:
        """Returns what they store of our weight, before it is transposed."""
        if self.grouped:
            return ours.swapaxes(1, 2).reshape(-1, ours.shape[1])
        if self.axes:
            return ours.reshape(self.axes)
        if self.swapped:
            return self._swap(ours)
        return ours - self.added if self.added else ours

    def _swap(self, heads: Any) -> Any:
        return heads.reshape(*heads.shape[:-1], -1, 2, *self.widths)[..., [1, 0], :].reshape(heads.shape)


def linear(name: str, part: int = 0) -> Place:
    """A matrix that is stored transposed, as in torch's Linear."""
    return Place(name, transposed=True, part=part)


@dataclass(frozen=True)
class Layout:
    """The names that a family gives its weights.

    `names` has them by our name, with # for a block's number, @ for an expert's, and without `weight` or `bias`, unless
    theirs ends otherwise; if theirs has no @, all experts of a block are in one. `packed` has other names, of files
    that have such ones for all experts; `gated` has other names, if feed-forwards have a gate, and `states` in layers
    that keep a state, which `has_state` tells of a model. `prefix` begins all names but the head's; models without a
    head omit it. `copies` has weights that may occur twice, and the weight they belong to. `pieces` has weights that
    files store in pieces, with their names; `others` has pieces of names, and what takes their place if a weight has no
    place under its own. `ignored` is a regular expression for entries of files that are no weights of these models.
    `drafts` is one for the beginning of a name that only a layer for drafts has: it predicts the token after the next
    one (multi-token prediction), is no part of these models, and is passed over. `constants` are numbers
    that files have beside the weight whose name ends so.
    """

    names: Mapping[str, Place | str]
    packed: Mapping[str, Place | str] = field(default_factory=dict)
    gated: Mapping[str, Place | str] = field(default_factory=dict)
    states: Mapping[str, Place | str] = field(default_factory=dict)
    has_state: Callable[[int], bool] = lambda _: False
    prefix: str = ""
    copies: Mapping[str, str] = field(default_factory=dict)
    pieces: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    others: tuple[tuple[str, str], ...] = ()
    ignored: str = r"(?!)"
    drafts: str = r"(?!)"
    constants: Mapping[str, Mapping[str, float]] = field(default_factory=dict)


LAYOUT = {one.name for one in dataclass_fields(Layout)}
NOTHING: Mapping[str, Any] = {}


def _changed(table: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a table with other entries, and without those that are None."""
    return {name: entry for name, entry in {**table, **changes}.items() if entry is not None}


# Configurations

MANY = 10_000  # layers; published models have at most 126

NOT_CAUSAL = ("is_causal", (True,), "every position sees itself and what comes before it")
NO_WINDOW: tuple[Rule, ...] = (
    ("sliding_window", (None,), "no layer of this family has a window"),
    ("use_sliding_window", (False, None), "no layer of this family has a window"),
    ("layer_types", ("full_attention", None), "no layer of this family has a window"),
)
ONE_STACK = ("is_encoder_decoder", (False, None), "this family has one stack of blocks")
NO_CROSS_ATTENTION = ("add_cross_attention", (False, None), "this family has no encoder to look at")


def claims_none(config: ModelConfig) -> bool:
    """Claims no model: whole models of the family are refused."""
    return False


@dataclass(frozen=True, kw_only=True)
class Kinds:
    """Which layers are of which of two kinds, and what each kind has instead of the model's fields.

    `key` is a list with a word for each layer, and `words` has our kinds by these words. Without a list, every n-th
    layer is of the second kind (`every`, and `until` a layer that has a key, after which all are), or the first n are
    (`first`), or none is. If the first kind has a key that is null, or `switch` is false, all layers are of the second
    kind. If they are `alike`, a list can only repeat that.
    """

    key: str
    words: Mapping[Any, str]
    own: dict[str, dict[str, Any]]
    every: Key | int | None = None
    until: Key | None = None
    first: Key | None = None
    switch: Key | None = None
    alike: bool = False

    @property
    def keys(self) -> list[Key]:
        """Returns the keys besides the list."""
        own = [value for kind in self.own.values() for value in kind.values()]
        return [
            key for key in (*own, self.every, self.until, self.first, self.switch) if isinstance(key, Key)
        ]


class PartOf(NamedTuple):
    """A part of every layer: the name of its class in `layers.PARTS`, and its arguments, some of which are keys.

    If a key is null, the layers do not have the part.
    """

    name: str
    arguments: Mapping[str, Any]


class Where(NamedTuple):
    """How a file says which layers have experts: its keys, what reads them, and what writes them.

    `read` returns whether each layer has experts, or whether all have; `write` takes a list.
    """

    keys: tuple[str, ...]
    read: Callable[[Mapping[str, Any], int], list[bool] | bool]
    write: Callable[[list[bool]], dict[str, Any]]


EVERYWHERE = Where((), lambda _, __: True, lambda _: {})
NOWHERE = Where((), lambda _, __: False, lambda _: {})


@dataclass(frozen=True, kw_only=True)
class Sparse:
    """The experts that layers of a family have, as arguments of `layers.Experts`, some of which are keys.

    `where` tells which layers have them; if a file has none (`n_experts` is 0), no layer does. `d_ff` is the width of
    an expert, if it is not that of a layer without experts, and `n_shared` counts experts as wide that every token
    uses. In layers that `by_token` tells, a table chooses experts by the token's id.
    """

    experts: Mapping[str, Any]
    d_ff: Key | None = None
    n_shared: Key | None = None
    where: Where = EVERYWHERE
    by_token: Where = NOWHERE

    @property
    def keys(self) -> dict[str, Key]:
        """Returns its keys, by the arguments that they are."""
        found = {"d_ff": self.d_ff, "d_shared": self.n_shared, **self.experts}
        return {ours: key for ours, key in found.items() if isinstance(key, Key)}


@dataclass(frozen=True, kw_only=True)
class Format:
    """Describes the files of a family by tables; two functions do what tables cannot express.

    `fields` maps each of our fields to their key. `always` holds what the family cannot choose. `rope`, `kinds` and
    `parts` are rotary positions, kinds of layers and parts that layers have, by their place in `layers.Layer`. `sparse`
    are experts that some layers have, or all. `must_be` lists those of their keys that change the computation, with the
    only values that these models support, and why. `layers` returns for each layer the name of its kind and what
    is its own, its rotation among it; it replaces `kinds`. `said` has any other names of theirs that messages use.
    `also` lists the keys that a function reads, `aliases` other names of keys, and `without_effect` keys that change no
    number, and why. `written` has keys that a file of ours states besides. `tied` is whether the head is
    the embedding if the file does not say.

    `architectures` are the names of its classes: first those with a head, starting with the usual one, then the one
    without. `read` returns what a file says beyond the tables, as fields of ours; the names of its weights, if there
    are any, may decide. `write` returns what a file has beyond the tables. `claims` tells which of our configurations
    can be written as this family, as far as the tables do not tell.
    """

    model_type: str
    architectures: tuple[str, ...]
    fields: dict[str, Key]
    always: Mapping[str, Any] = field(default_factory=dict)
    rope: Rope | None = None
    kinds: Kinds | None = None
    parts: dict[str, PartOf] = field(default_factory=dict)
    sparse: Sparse | None = None
    must_be: tuple[Rule, ...]
    layers: Callable[[Mapping[str, Any], int], list[tuple[str, dict[str, Any]]]] | None = None
    said: Mapping[str, str] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    without_effect: Mapping[str, str] = field(default_factory=dict)
    written: Mapping[str, Any] = field(default_factory=dict)
    tied: bool = False
    read: Callable[["Format", Mapping[str, Any], Any], dict[str, Any]] | None = None
    write: Callable[[ModelConfig], dict[str, Any]] | None = None
    claims: Callable[[ModelConfig], bool] | None = None
    layout: Layout

    def derive(
        self,
        *,
        fields: Mapping[str, Any] = NOTHING,
        always: Mapping[str, Any] = NOTHING,
        names: Mapping[str, Place | str | None] = NOTHING,
        without_effect: Mapping[str, str | None] = NOTHING,
        **others: Any,
    ) -> "Format":
        """Returns a family that differs from this one.

        Entries of `fields`, `always`, `names` and `without_effect` are added to these tables, or take the place of
        those with the same name; None removes one. A number among the fields is another default of the same key. What
        a family always has is no longer a field, and the reverse. All `others` replace what this family or its layout
        has.
        """
        keys = {ours: with_default(self.fields.get(ours, key), key) for ours, key in fields.items()}
        layout = {name: others.pop(name) for name in LAYOUT & others.keys()}
        layout["names"] = _changed(self.layout.names, names)
        return replace(
            self,
            fields=_changed({ours: self.fields[ours] for ours in self.fields if ours not in always}, keys),
            always=_changed({ours: self.always[ours] for ours in self.always if ours not in fields}, always),
            layout=replace(self.layout, **layout),
            without_effect=_changed(self.without_effect, without_effect),
            **others,
        )

    @property
    def part_keys(self) -> dict[str, Key]:
        """Returns the keys of its parts, by the arguments that they are."""
        return ({} if self.sparse is None else self.sparse.keys) | {
            name: value
            for part in self.parts.values()
            for name, value in part.arguments.items()
            if isinstance(value, Key)
        }

    @property
    def keys(self) -> list[str]:
        """Returns the keys of this family's files that are accounted for, besides `COMMON`."""
        kinds = [] if self.kinds is None else [self.kinds.key, *(key.name for key in self.kinds.keys)]
        parts = [key.name for key in self.part_keys.values() if not key.name.startswith("rope.")]
        return [
            *(key.name for key in self.fields.values()),
            *(() if self.sparse is None else (*self.sparse.where.keys, *self.sparse.by_token.keys)),
            *(() if self.rope is None else self.rope.keys),
            *("tie_word_embeddings", *kinds, *parts, *self.also, *self.aliases),
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

    def head(self, given: Mapping[str, Any]) -> str:
        """Returns "none", "tied" or "untied" by the architecture's name, and by what the file says."""
        if self.architecture(given) == self.architectures[-1]:
            return "none"
        said = self.tied if given.get("tie_word_embeddings") is None else given["tie_word_embeddings"]
        checks.flag("tie_word_embeddings", said)
        return "tied" if said else "untied"


def needed(given: Mapping[str, Any], name: str) -> Any:
    """Returns the value of a required key."""
    if given.get(name) is None:
        raise ValueError(f"{name} is missing")
    return given[name]


def flag(given: Mapping[str, Any], name: str, default: bool) -> bool:
    """Returns a key that must be true or false."""
    value = given.get(name, default)
    checks.flag(name, value)
    return value


def few(n_layers: int) -> range:
    """Returns the numbers of layers that differ, if there are not too many to list."""
    if n_layers > MANY:
        raise ValueError(
            f"num_hidden_layers={n_layers:,} is more than {MANY:,}, for which layers must be alike"
        )
    return range(n_layers)


def words_of_layers(
    given: Mapping[str, Any], n_layers: int, name: str, words: Collection[Any], usual: Callable[[int], Any]
) -> list[Any]:
    """Returns a list with one of these words for each layer; without it, the usual one of each.

    Raises:
        ValueError: the list has another length, or another word, or there are too many layers to list.
    """
    listed = given.get(name)
    if listed is None:
        if n_layers > MANY:
            raise ValueError(
                f"num_hidden_layers={n_layers:,} is more than {MANY:,}, for which {name} is needed"
            )
        return [usual(i) for i in range(n_layers)]
    if not isinstance(listed, list) or not all(any(entry == word for word in words) for entry in listed):
        raise unsupported(given, name, f"known are {', '.join(map(str, words))}")
    if len(listed) != n_layers:
        raise contradiction("num_hidden_layers", n_layers, f"the length of {name}", len(listed))
    return list(listed)


def flat_kinds(config: ModelConfig) -> tuple[dict[str, ModelConfig], dict[str, Mapping[str, Any]]]:
    """Returns for each kind of layer the configuration of a model in which all are of that kind, and its parts."""
    flat, parts = {}, {}
    for name, kind in (config.kinds or {config.kind(0): {}}).items():
        own = {key: value for key, value in kind.items() if key not in PLACES}
        flat[name] = config if config.kinds is None else config.replace(kinds=None, order=None, **own)
        parts[name] = {key: value for key, value in kind.items() if key in PLACES}
    return flat, parts
