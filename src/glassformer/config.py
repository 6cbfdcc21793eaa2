"""Describes a Transformer as a list of named choices. Every model in the book, and every published one, is such a list.

The axes are D d_model, H heads, G key/value heads, K d_head, F d_ff, V vocabulary.
"""

import json
import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Any, Generic, Optional, TypeVar

from glassformer import _checks as checks
from glassformer.layers import (
    GATED,
    NORM_PLACEMENTS,
    OF_A_MODEL,
    OF_ATTENTION,
    PLACES,
    ROPE_LAYOUTS,
    Attention,
    FeedForward,
    Layer,
    LayerEmbeddings,
    Norm,
    Order,
    Residual,
    Rotation,
    Streams,
    part_from_json,
    part_to_json,
)
from glassformer.parameters import LETTERS, ParameterCount, Part, evaluate, of_layers
from glassformer.untrusted_files import json_object

__all__ = ["CHOICES", "FAMILIES", "POSITIONS", "ROPE_BASE", "ModelConfig", "has_gate"]
__dir__ = __all__.copy

FAMILIES = ("decoder", "encoder", "encoder-decoder")
POSITIONS = ("learned", "none", "sinusoidal", "rope", "alibi", "t5")
ROPE_SCALINGS = ("linear", "llama3", "yarn")
ROPE_BASE = 10_000.0  # also the base of the sinusoids
NORMS = ("layernorm", "layernorm_sigma", "rmsnorm", "layernorm_gain", "layernorm_plain", "rmsnorm_plain")
FEEDFORWARDS = ("gelu_tanh", "gelu", "relu", "relu2", *GATED, "xielu", "none")
ATTENTION_BIASES = ("all", "qkv", "none")
HEADS = ("tied", "untied", "none")

CHOICES = {
    "family": FAMILIES,
    "positions": POSITIONS,
    "rope_layout": ROPE_LAYOUTS,
    "rope_scaling": ROPE_SCALINGS,
    "norm": NORMS,
    "norm_placement": NORM_PLACEMENTS,
    "feedforward": FEEDFORWARDS,
    "attention_bias": ATTENTION_BIASES,
    "head": HEADS,
}

OF_ONE_FAMILY = (
    ("n_decoder_layers", "encoder-decoder", "with a single stack, n_layers is its depth"),
    ("sliding_window", "decoder", "a window covers the positions just before a query"),
    ("n_segments", "encoder", "generated text belongs to no segment"),
    ("pooler", "encoder", "the first position of a causal stack sees only itself"),
)
"""Fields that only one family may have, and why."""

LATER = (
    *("rope_share", "rope_proportional", "rope_truncate", "logit_cap", "kinds", "order"),
    *OF_A_MODEL,
)
"""Fields that files of earlier versions do not have; a file has them only if they are set."""

OF_A_LAYER = (
    *(
        "n_heads",
        "n_kv_heads",
        "d_head",
        "d_ff",
        "positions",
        "rope_base",
        "rope_layout",
        "rope_interpolation",
    ),
    *(
        "rope_scaling",
        "rope_original_context",
        "rope_slow",
        "rope_fast",
        "rope_attention_factor",
        "norm_placement",
    ),
    *("rope_share", "rope_proportional", "rope_truncate"),
    *("attention_bias", "attention_scale", "sliding_window", "qk_norm", "feedforward", "feedforward_bias"),
)
"""Fields that can differ from layer to layer."""

if TYPE_CHECKING:
    T = TypeVar("T")

    class Derived(Generic[T]):
        """A field that can be given as None, but is a number once the config exists."""

        def __get__(self, config: object, kind: type) -> T: ...
        def __set__(self, config: object, given: T | None) -> None: ...

else:
    Derived = Optional

FROM_OTHERS: Any = None  # the default of fields that are derived from others


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """Describes a Transformer. Five sizes are the minimum; the defaults of the rest are GPT-2's choices.

    A size left at None is derived from the others, so after construction it is always a number: `config.d_ff`
    is an int. A config never changes; `replace` makes another one.

    Source: the options are those of the models in `published.py`. Derived in chapters 02 to 08 and 13.

    Attributes:
        vocab_size: The number of different ids that the model reads.
        context_length: The longest input. Learned positions have one row for each of its positions.
        d_model: The width of the residual stream.
        n_layers: The number of blocks; in an encoder–decoder, of the encoder's blocks.
        n_heads: The number of query heads of an attention layer.
        family: "decoder", "encoder" or "encoder-decoder".
        n_decoder_layers: The number of the decoder's blocks, which only an encoder–decoder has. None: `n_layers`.
        n_kv_heads: The number of key/value heads. None: `n_heads` (MHA); 1: MQA; in between: GQA.
        d_head: The width of a head. None: `d_model / n_heads`.
        d_ff: The width of the feed-forward network. None: 4 · `d_model`.
        positions: "learned", "sinusoidal", "rope", "alibi", "t5" (learned biases) or "none".
        rope_base: The base of RoPE's angles; a larger one makes the pairs rotate more slowly.
        rope_layout: "half" pairs a head's features i and i + `d_head`/2, "interleaved" pairs 2i and 2i + 1.
        rope_interpolation: A divisor of RoPE's positions; `rope_scaling` says for which pairs.
        rope_scaling: "linear" divides for all pairs; "llama3" and "yarn" for the slow ones, with a ramp to the fast.
        rope_original_context: The context length before it was stretched. None: `context_length`.
        rope_slow: Pairs with fewer rotations than this in the original context are divided in full.
        rope_fast: Pairs with more rotations are left alone. None: 4 for "llama3", otherwise 32.
        rope_attention_factor: A factor on rotated queries and keys.
            None: 0.1 · ln(`rope_interpolation`) + 1 for "yarn", otherwise 1.
        rope_share: The share of each head's features that rotates, the first ones; the others stay as they are.
        rope_proportional: True: the pairs lie as in the whole head, and it is the slower ones that stay.
        rope_truncate: Whether the ramp of "yarn" begins and ends at a whole pair.
        t5_n_buckets: The number of buckets that relative positions fall into; each has one bias per head.
        t5_max_distance: From this distance on, all share the last bucket.
        norm: "layernorm" divides by √(σ² + ε), "layernorm_sigma" by σ + ε, "rmsnorm" by the root mean square.
            "layernorm_gain" has no bias, and "layernorm_plain" and "rmsnorm_plain" have no weights at all.
        norm_eps: The ε that keeps a norm from dividing by 0.
        norm_placement: "pre" normalizes before every sublayer and after the last block, "post" after every sublayer.
        attention_bias: "all" has biases after the four products, "qkv" has none after W_o, "none" has none at all.
        attention_scale: A factor on q·k. None: 1/√`d_head`.
        sliding_window: The number of positions that a query sees, itself included. None: its whole past.
        qk_norm: True: an RMSNorm over each head's queries, and one over its keys; "width": over those of all heads
            at once; "after": as True, but after the rotation; "plain": after it, and without a gain.
        feedforward: The nonlinearity: "relu", "relu2" (squared), "gelu", "gelu_tanh" (GPT-2's approximation), or
            with a gate "swiglu", "geglu" and "geglu_tanh"; "xielu" learns two numbers. "none": layers have no such
            network, as in Mamba-2.
        feedforward_bias: Whether the feed-forward network has biases.
        embedding_scale: A factor on the token vectors; in the 2017 paper √`d_model`.
        embedding_norm: A norm right after the embeddings, as in BERT and BLOOM.
        n_segments: The number of segments, each with a vector of its own; BERT has 2, one for each sentence.
        head: "tied" reuses the token embedding, "untied" has weights of its own, "none" returns hidden states.
        head_bias: Whether each logit has a bias.
        head_transform: A linear layer, activation and norm before the head, as in BERT.
        head_scale: A factor on the head's input; in T5 1/√`d_model`.
        pooler: A linear layer and tanh on the first position, as in BERT.
        logit_cap: A soft cap keeps logits between −`logit_cap` and `logit_cap`, as in Gemma 2. None: no cap.
        dropout: The fraction of numbers that training sets to 0 in the sum of the embeddings and in the output of
            each sublayer.
        kinds: What each kind of layer has instead of the fields above, by the kind's name. None: all layers are alike.
            For example, `kinds={"near": {"sliding_window": 512}, "far": {"rope_base": 1e6}}, order="near*5 far"`.
        order: The kinds in the order of the layers, repeated until there are enough. None: all are of the only kind.
        streams: `layers.Streams`, if there are several residual streams. None: there is one.
        layer_embeddings: `layers.LayerEmbeddings`, if each layer has vectors of its own for the tokens. None: they
            have not.

    Raises:
        ValueError: a size, number or choice is outside its range, or two of them contradict each other. The
            message names the field, its value and the rule.
        TypeError: a field holds the wrong kind of thing.
    """

    # Sizes
    vocab_size: int
    context_length: int
    d_model: int
    n_layers: int
    n_heads: int
    family: str = "decoder"
    n_decoder_layers: int | None = None
    n_kv_heads: Derived[int] = FROM_OTHERS
    d_head: Derived[int] = FROM_OTHERS
    d_ff: Derived[int] = FROM_OTHERS

    # Positions
    positions: str = "learned"
    rope_base: float = ROPE_BASE
    rope_layout: str = "half"
    rope_interpolation: float = 1.0
    rope_scaling: str = "linear"
    rope_original_context: Derived[int] = FROM_OTHERS
    rope_slow: float = 1.0
    rope_fast: Derived[float] = FROM_OTHERS
    rope_attention_factor: Derived[float] = FROM_OTHERS
    rope_share: float = 1.0
    rope_proportional: bool = False
    rope_truncate: bool = True
    t5_n_buckets: int = 32
    t5_max_distance: int = 128

    # Norms
    norm: str = "layernorm"
    norm_eps: float = 1e-5
    norm_placement: str = "pre"

    # Attention
    attention_bias: str = "all"
    attention_scale: Derived[float] = FROM_OTHERS
    sliding_window: int | None = None
    qk_norm: bool | str = False

    # Feed-forward
    feedforward: str = "gelu_tanh"
    feedforward_bias: bool = True

    # Embeddings
    embedding_scale: float = 1.0
    embedding_norm: bool = False
    n_segments: int = 0

    # From the last hidden state to the output
    head: str = "tied"
    head_bias: bool = False
    head_transform: bool = False
    head_scale: float = 1.0
    pooler: bool = False
    logit_cap: float | None = None

    # Training
    dropout: float = 0.0

    # Layers that differ
    kinds: Mapping[str, Mapping[str, Any]] | None = field(default=None, hash=False)
    order: str | None = None

    # Parts of the whole model
    streams: Streams | None = None
    layer_embeddings: LayerEmbeddings | None = None

    def __post_init__(self) -> None:
        # Remember which fields were left at None, so that `replace` can derive them again.
        self._derived: frozenset[str]
        self._set("_derived", frozenset(f.name for f in fields(self) if getattr(self, f.name) is None))
        self._check_choices()
        self._check_and_derive_sizes()
        self._check_numbers()
        self._check_positions()
        self._check_and_derive_scaling()
        self._check_what_families_have()
        self._check_parts()
        self._check_and_make_layers()

    # Checking

    def _check_choices(self) -> None:
        for f in fields(self):
            if f.name in CHOICES:
                checks.one_of(f.name, getattr(self, f.name), CHOICES[f.name])
            if f.type is bool:
                checks.flag(f.name, getattr(self, f.name))
        checks.qk_norm(self.qk_norm)
        for name in ("feedforward_bias", "head_transform"):
            if self.feedforward == "none" and getattr(self, name):
                raise ValueError(f"{name}=True needs an activation, but feedforward='none'")
        if self.feedforward == "xielu" and self.head_transform:
            raise ValueError("head_transform=True is not built for feedforward='xielu', which learns")

    def _check_and_derive_sizes(self) -> None:
        for name in ("vocab_size", "context_length", "d_model", "n_layers", "n_heads"):
            self._whole(name)
        if self.family == "encoder-decoder":
            self._derive("n_decoder_layers", self.n_layers)
            self._whole("n_decoder_layers")
        self._derive("n_kv_heads", self.n_heads)
        self._whole("n_kv_heads")
        checks.divisible("n_heads", self.n_heads, "n_kv_heads", self.n_kv_heads)
        if self.d_head is None:
            checks.divisible("d_model", self.d_model, "n_heads", self.n_heads)
        self._derive("d_head", self.d_model // self.n_heads)
        self._whole("d_head")
        self._derive("d_ff", 4 * self.d_model)
        self._whole("d_ff")
        self._whole("n_segments", at_least=0)

    def _check_numbers(self) -> None:
        self._derive("attention_scale", 1 / math.sqrt(self.d_head))
        own = [f.name for f in fields(self) if f.type is float and f.name != "dropout"]
        for name in ("attention_scale", *own):
            checks.positive(name, getattr(self, name))
            self._set(name, float(getattr(self, name)))
        if self.logit_cap is not None:
            checks.positive("logit_cap", self.logit_cap)
            self._set("logit_cap", float(self.logit_cap))
        checks.rate("dropout", self.dropout)
        self._set("dropout", float(self.dropout))

    def _check_positions(self) -> None:
        self._whole("t5_n_buckets")
        self._whole("t5_max_distance")
        if self.positions == "sinusoidal":
            checks.even("d_model", self.d_model)
        if self.positions == "rope":
            checks.even("d_head", self.d_head)
            checks.rotated_share("rope_share", self.rope_share, self.d_head)
        if self.positions == "t5":
            if self.family != "decoder":  # an encoder looks in both directions
                checks.t5_buckets(True, self.t5_n_buckets, self.t5_max_distance, prefix="t5_")
            if self.family != "encoder":  # a decoder only looks back
                checks.t5_buckets(False, self.t5_n_buckets, self.t5_max_distance, prefix="t5_")

    def _check_and_derive_scaling(self) -> None:
        """Follows the definitions of Llama 3.1 and of YaRN for what a configuration leaves open."""
        is_yarn = self.rope_scaling == "yarn"
        self._derive("rope_original_context", self.context_length)
        self._whole("rope_original_context")
        self._derive("rope_fast", 4.0 if self.rope_scaling == "llama3" else 32.0)
        longer = max(self.rope_interpolation, 1.0) if is_yarn else 1.0
        self._derive("rope_attention_factor", 0.1 * math.log(longer) + 1.0)
        for name in ("rope_fast", "rope_attention_factor"):
            checks.positive(name, getattr(self, name))
            self._set(name, float(getattr(self, name)))
        checks.rope_scaling(self.rope_scaling, self.rope_base, self.rope_slow, self.rope_fast, prefix="rope_")

    def _check_what_families_have(self) -> None:
        if self.sliding_window is not None:
            self._whole("sliding_window")
        for name, family, why in OF_ONE_FAMILY:
            value = getattr(self, name)
            if value != self.__dataclass_fields__[name].default and self.family != family:
                raise ValueError(f'{name}={value} needs family="{family}", not {self.family!r}: {why}')
        if self.head == "none":
            for name in ("head_bias", "head_transform", "head_scale", "logit_cap"):
                if getattr(self, name) != self.__dataclass_fields__[name].default:
                    raise ValueError(f'{name}={getattr(self, name)} needs a head, but head="none"')

    def _check_parts(self) -> None:
        """Checks the parts of the whole model."""
        for name, can in OF_A_MODEL.items():
            if (part := getattr(self, name)) is None:
                continue
            if not isinstance(part, can):
                raise TypeError(f"{name}={part!r} must be a {' or '.join(one.__name__ for one in can)}")
            if self.family == "encoder-decoder":
                raise ValueError(f"a model of two stacks cannot have {name}")
        if self.streams is not None and self.layer_embeddings is not None:
            raise ValueError("streams beside layer_embeddings are not built: no published model has both")

    def _check_and_make_layers(self) -> None:
        """Makes the description of each kind of layer, and the order of the kinds."""
        self._layers: dict[str, Layer]
        self._order: Order
        self._given_kinds: Mapping[str, Mapping[str, Any]] | None
        self._set("_given_kinds", None)
        if self.kinds is None:
            if self.order is not None:
                raise ValueError(f"order={self.order!r} needs kinds, which it names")
            self._set("_layers", {"all": self._only_layer()})
            self._check_streams(self._layers["all"])
            self._set("_order", Order("all", ["all"]))
            return
        if not isinstance(self.kinds, Mapping) or not self.kinds:
            raise TypeError(f"kinds={self.kinds!r} must have at least one kind of layer by its name")
        self._set("_given_kinds", self.kinds)
        found = {name: self._kind(name, kind) for name, kind in self.kinds.items()}
        self._set("_layers", {name: layer for name, (layer, _) in found.items()})
        self._set("kinds", {name: whole for name, (_, whole) in found.items()})
        if self.order is None and len(self.kinds) > 1:
            raise ValueError(f"order is missing: in which order do {', '.join(self.kinds)} come?")
        order = next(iter(self.kinds)) if self.order is None else self.order
        self._set("_order", Order(order, self.kinds))
        self._check_borrowing()

    def _check_borrowing(self) -> None:
        """Checks that whoever borrows keys and values comes after a lender whose keys and values suit it."""
        for name, layer in self._layers.items():
            sharing = layer.attention.sharing
            if sharing is None or sharing.borrows is None:
                continue
            lender = self._layers.get(sharing.borrows)
            if lender is None or (lender.attention.sharing or sharing).borrows is not None:
                raise ValueError(
                    f"kinds[{name!r}] borrows from {sharing.borrows!r}, which is no kind with keys of its own that "
                    "are shared: it needs sharing=KeyValueSharing()"
                )
            for size in ("n_kv_heads", "d_head", "window"):
                theirs, ours = getattr(lender.attention, size), getattr(layer.attention, size)
                if theirs != ours:
                    raise ValueError(
                        f"kinds[{name!r}] has {size}={ours}, but borrows from {sharing.borrows!r} with {size}={theirs}"
                    )
            kinds = [self.kind(i) for i in range(self._order.length)]
            if kinds.index(name) < kinds.index(sharing.borrows):
                raise ValueError(
                    f"order={self.order!r} has {name!r} before {sharing.borrows!r}, from which it borrows"
                )

    def _kind(self, name: str, kind: Mapping[str, Any]) -> tuple[Layer, dict[str, Any]]:
        """Returns the description of a kind of layer, and what it has of its own, with derived fields as numbers."""
        if not name or not str(name).isidentifier():
            raise ValueError(f"kinds has the name {name!r}, which must be a word such as 'near'")
        if not isinstance(kind, Mapping):
            raise TypeError(f"kinds[{name!r}]={kind!r} must be a dictionary")
        known = (*OF_A_LAYER, *PLACES)
        if unknown := [key for key in kind if key not in known]:
            raise ValueError(
                f"kinds[{name!r}] has {unknown[0]!r}; a kind of layer can have {', '.join(known)}"
            )
        parts = {key: value for key, value in _with_parts(kind).items() if key in PLACES}
        for key, part in parts.items():
            if part is not None and not isinstance(part, PLACES[key]):
                can = " or ".join(one.__name__ for one in PLACES[key])
                raise TypeError(f"kinds[{name!r}]: {key}={part!r} must be a {can}")
        own = {key: value for key, value in kind.items() if key not in PLACES}
        inner = [key for key in OF_ATTENTION if parts.get(key) is not None]
        if inner and self.family == "encoder-decoder":
            raise ValueError(f"kinds[{name!r}] has {inner[0]}, which a model of two stacks cannot have")
        if parts.get("form") is not None and self.positions in ("alibi", "t5"):
            raise ValueError(f"kinds[{name!r}] has form, which cannot have positions={self.positions!r}")
        if {self.positions, own.get("positions", self.positions)} - {"rope", "none"} and "positions" in own:
            raise ValueError(
                f"kinds[{name!r}]: positions={own['positions']!r} cannot differ from layer to layer, except between "
                f"'rope' and 'none'; the model has {self.positions!r}"
            )
        if self.positions in ("alibi", "t5") and own.get("n_heads", self.n_heads) != self.n_heads:
            raise ValueError(
                f"kinds[{name!r}]: n_heads={own['n_heads']} differs from the model's {self.n_heads}, but with "
                f"positions={self.positions!r} all layers share one bias for each head"
            )
        try:
            flat = self.replace(kinds=None, order=None, **own)
        except (TypeError, ValueError) as error:
            raise type(error)(f"kinds[{name!r}]: {error}") from None
        for key in flat._derived & set(OF_A_LAYER):
            if key in own or getattr(flat, key) != getattr(self, key):
                own[key] = getattr(flat, key)
        own = {key: own[key] for key in OF_A_LAYER if key in own}
        try:
            layer = flat._only_layer().with_parts(parts)
            flat._check_streams(layer)
            if layer.attention.has_state and self.family != "decoder":
                raise ValueError(f"a state only looks back, which family={self.family!r} does not")
            return layer, own | parts
        except ValueError as error:
            raise ValueError(f"kinds[{name!r}]: {error}") from None

    def _check_streams(self, layer: Layer) -> None:
        """Checks that a layer can stand among several streams."""
        if self.streams is None:
            return
        if layer.residual.placement == "post":
            raise ValueError("streams are not normed after a sum: norm_placement must not be 'post'")
        if layer.stream_scale is not None:
            raise ValueError("stream_scale beside streams is not built: no published model has both")

    def _only_layer(self) -> Layer:
        """Describes a layer as the flat fields do."""
        rotation = None
        if self.positions == "rope":
            own = {f.name: getattr(self, f"rope_{f.name}") for f in fields(Rotation) if f.name != "d_head"}
            rotation = Rotation(d_head=self.d_head, **own)
        return Layer(
            attention=Attention(
                n_heads=self.n_heads,
                n_kv_heads=self.n_kv_heads,
                d_head=self.d_head,
                bias=self.attention_bias,
                scale=self.attention_scale,
                qk_norm=self.qk_norm,
                window=self.sliding_window,
                rotation=rotation,
            ),
            feedforward=FeedForward(d_ff=self.d_ff, activation=self.feedforward, bias=self.feedforward_bias),
            norm=Norm(norm=self.norm, eps=self.norm_eps),
            residual=Residual(placement=self.norm_placement),
        )

    def _whole(self, name: str, *, at_least: int = 1) -> None:
        checks.whole(name, getattr(self, name), at_least=at_least)
        self._set(name, int(getattr(self, name)))  # NumPy's integers become Python's, which JSON knows

    def _derive(self, name: str, value: Any) -> None:
        """Sets a field to `value` if it was given as None."""
        if getattr(self, name) is None:
            self._set(name, value)

    def _set(self, name: str, value: Any) -> None:
        """Sets a field of the frozen dataclass; only used during construction."""
        object.__setattr__(self, name, value)

    # Properties that follow from the choices

    def kind(self, index: int) -> str:
        """Returns the name of the kind of layer `index`, counted from 0 in its stack; "all" if layers do not differ."""
        return self._order[index]

    def layer(self, index: int) -> Layer:
        """Describes layer `index`, counted from 0 in its stack."""
        return self._layers[self.kind(index)]

    def layers(self, n_layers: int) -> dict[str, tuple[Layer, int]]:
        """Describes each kind of layer, and says how many of the first `n_layers` of a stack are of that kind."""
        return {name: (self._layers[name], n) for name, n in self._order.numbers(n_layers).items()}

    @property
    def compresses(self) -> bool:
        """Returns whether a layer makes tokens of blocks of positions; then texts are padded on the right only."""
        forms = [layer.attention.form for layer in self._layers.values()]
        return any(getattr(form, "compress", 1) > 1 for form in forms)

    @property
    def gated(self) -> bool:
        """Returns whether the feed-forward network has a gate, W_gate next to W_up."""
        return has_gate(self.feedforward)

    def position_arguments(self, causal: bool, **init_kwargs: Any) -> dict[str, Any]:
        """Returns what both rooms build the position encoding with; `init_kwargs` are for those that draw weights."""
        match self.positions:
            case "sinusoidal":
                return {"d_model": self.d_model}
            case "learned":
                return {"context_length": self.context_length, "d_model": self.d_model, **init_kwargs}
            case "alibi":
                return {"n_heads": self.n_heads}
            case "t5":
                buckets = {"n_buckets": self.t5_n_buckets, "max_distance": self.t5_max_distance}
                return {"n_heads": self.n_heads, "bidirectional": not causal, **buckets, **init_kwargs}
            case _:
                return {}

    def parameter_count(self) -> ParameterCount:
        """Counts the numbers that the model learns, part by part, by formula; a built model has exactly as many.

        Shared weights count once, so a tied head adds nothing. Derived in chapters 07, 08 and 13.
        """
        sizes = {letter: getattr(self, name) for letter, name in LETTERS.items()}
        streams, vectors = self.streams, self.layer_embeddings
        for of_model in (streams, vectors):
            sizes |= {} if of_model is None else of_model.sizes

        def part(name: str, times: int, formula: Counter[str], note: str = "") -> Part:
            return Part(name, times, formula, evaluate(formula, sizes), note)

        D, two_stacks = self.d_model, self.family == "encoder-decoder"
        n_stacks = 2 if two_stacks else 1
        n_crossing = self.n_decoder_layers or 0  # blocks that also attend to the encoder
        norm = self.layer(0).norm.parameters()
        one_stack, crossing = self.layers(self.n_layers), self.layers(n_crossing)
        layers = {kind: (layer, n + crossing[kind][1]) for kind, (layer, n) in one_stack.items()}
        parts = [part("token embedding", 1, Counter(VD=1))]
        match self.positions:
            case "learned":
                parts.append(part("positions", n_stacks, Counter(TD=1)))
            case "t5":  # one number for each bucket and head, shared by all blocks of a stack
                parts.append(part("positions", n_stacks, Counter(H=self.t5_n_buckets)))
            case _:
                note = "none" if self.positions == "none" else f"{self.positions}: computed, not learned"
                parts.append(part("positions", 1, Counter(), note))
        if self.n_segments:
            parts.append(part("segments", 1, Counter(D=self.n_segments)))
        if self.embedding_norm:
            parts.append(part("embedding norm", n_stacks, norm, "none"))
        parts += of_layers("attention", "attention", layers, D, sizes)
        if two_stacks:
            parts += of_layers("cross-attention", "attention", crossing, D, sizes)
        parts += of_layers("feed-forward", "feedforward", layers, D, sizes)
        n_norms = sum(layer.n_norms * n for layer, n in layers.values())
        n_norms += sum(layer.residual.n_norms * n for layer, n in crossing.values())
        parts.append(part("norms", n_norms, norm, "none"))
        if streams is not None:
            n_sublayers = sum(layer.n_sublayers * n for layer, n in layers.values())
            parts.append(part("hyper-connections", n_sublayers, streams.connection()))
            parts.append(part("sum of the streams", 1, streams.parameters()))
        if vectors is not None:
            parts.append(part("layer embeddings", 1, vectors.parameters(self.n_layers)))
            parts.append(part("their sublayers", self.n_layers, vectors.sublayer() + norm))
        if n_scales := sum(n for layer, n in layers.values() if layer.stream_scale is not None):
            parts.append(part("stream scales", n_scales, Counter({"": 1})))
        if self.norm_placement == "pre":
            parts.append(part("final norm", n_stacks, norm, "none"))
        if self.pooler:
            parts.append(part("pooler", 1, Counter(DD=1, D=1)))
        if self.head != "none":
            parts.append(part("head", 1, self._head(norm), "tied to the token embedding"))

        idle = 0  # weights of experts that a token does not choose
        for layer, n in layers.values():
            network, own = layer.feedforward, sizes | layer.feedforward.sizes
            idle += n * (evaluate(network.parameters(D), own) - evaluate(network.active(D), own))
        blocks, own_sizes = {}, {}
        for kind, (layer, _) in one_stack.items():
            attention, feedforward = layer.attention.parameters(D), layer.feedforward.parameters(D)
            within = Counter({letters: n * layer.n_norms for letters, n in norm.items()})
            if streams is not None:
                within += Counter({key: n * layer.n_sublayers for key, n in streams.connection().items()})
            if vectors is not None:
                within += vectors.sublayer() + norm
            if layer.stream_scale is not None:
                within += Counter({"": 1})
            which = "" if self.kinds is None else f"{kind} "
            found = {f"{which}{'encoder' if two_stacks else self.family}": attention + feedforward + within}
            if two_stacks:
                norms = Counter({letters: n * layer.residual.n_norms for letters, n in norm.items()})
                found[f"{which}decoder"] = found[f"{which}encoder"] + attention + norms
            blocks |= found
            own_sizes |= dict.fromkeys(found, sizes | layer.attention.sizes | layer.feedforward.sizes)
        return ParameterCount(sizes, tuple(parts), blocks, own_sizes, idle)

    def _head(self, norm: Counter[str]) -> Counter[str]:
        """The unembedding (D, V) if it is not tied, its bias, and the transform before it."""
        formula = Counter(VD=1) if self.head == "untied" else Counter()
        if self.head_bias:
            formula += Counter(V=1)
        if self.head_transform:
            formula += Counter(DD=1, D=1) + norm
        return formula

    # Other configs

    def replace(self, **changes: Any) -> "ModelConfig":
        """Returns this config with some fields changed. Derived fields are derived again: `d_ff` follows `d_model`.

        Raises:
            ValueError: the result breaks a rule of `ModelConfig`.
            TypeError: a name is not a field, or a value is of the wrong kind.
        """
        given: dict[str, Any] = {
            f.name: None if f.name in self._derived else getattr(self, f.name) for f in fields(self)
        }
        given["kinds"] = self._given_kinds
        return type(self)(**given | changes)

    def to_json(self) -> str:
        """Returns every field in order, with derived fields as numbers; those of `LATER` only if they are set."""
        return json.dumps(self.to_fields(), indent=2)

    def to_fields(self) -> dict[str, Any]:
        """Returns what `to_json` writes, as a dictionary."""
        found = {
            f.name: getattr(self, f.name)
            for f in fields(self)
            if f.name not in LATER
            or (getattr(self, f.name) != f.default and f.name not in ("kinds", "order"))
        }
        found |= {name: part_to_json(found[name]) for name in OF_A_MODEL if name in found}
        if self.kinds is not None:
            found["kinds"] = {
                name: {key: part_to_json(value) for key, value in kind.items()}
                for name, kind in self.kinds.items()
            }
            found["order"] = self.order
        return found

    @classmethod
    def from_json(cls, text: str) -> "ModelConfig":
        """Returns the config that `to_json` wrote; fields that have a default may be missing.

        Fields in the text count as given, so `replace` does not derive them again.

        Raises:
            ValueError: `text` is not JSON or not a JSON object, or a field is unknown, missing or breaks a
                rule.
            TypeError: `text` is not a string, or a field holds the wrong kind of thing.
        """
        if not isinstance(text, str):
            raise TypeError(f"text must be a string of JSON, not {type(text).__name__}")
        given = json_object(text, "text")
        required = [f.name for f in fields(cls) if f.default is MISSING]
        checks.fields("ModelConfig", given, [f.name for f in fields(cls)], required)
        given |= {name: part_from_json(given[name]) for name in OF_A_MODEL if name in given}
        return cls(**given)


def _with_parts(kind: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a copy of what a kind has of its own, with parts that come from a file as objects."""
    return {key: part_from_json(value) if key in PLACES else value for key, value in kind.items()}


def has_gate(feedforward: str) -> bool:
    """Returns whether a feed-forward network of that name has a gate."""
    return feedforward in GATED
