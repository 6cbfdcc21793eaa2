"""What one layer of a model consists of: parts, each a class of its own that knows its size, its work and its cache.

`ModelConfig.layer(i)` describes layer i so. `scratch` and `nn` build each part. A new part is a new class in one of the
places of `Layer`; no other part changes.

The axes are D d_model, H heads, G key/value heads, K d_head, F d_ff; T positions that are read, S positions that they
attend to.
"""

import math
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from glassformer import _checks as checks

__all__ = [
    "PARTS",
    "Attention",
    "CompressedAttention",
    "Experts",
    "FeedForward",
    "Indexer",
    "KeyValueSharing",
    "LatentAttention",
    "Layer",
    "LayerEmbeddings",
    "LinearAttention",
    "Mamba2",
    "Norm",
    "Order",
    "OutputGate",
    "PositionScale",
    "Residual",
    "Rotation",
    "Sinks",
    "SoftCap",
    "StreamScale",
    "Streams",
    "part_from_json",
    "part_to_json",
]
__dir__ = __all__.copy

GATED = ("swiglu", "geglu", "geglu_tanh")
NORM_PLACEMENTS = ("pre", "post")
QK_NORMS = ("width", "after", "plain")  # besides True and False
RESIDUAL_PLACEMENTS = (*NORM_PLACEMENTS, "output", "sandwich", "parallel")
NORM_WEIGHTS = {"rmsnorm": 1, "layernorm_gain": 1, "layernorm_plain": 0, "rmsnorm_plain": 0}
GATES = ("sigmoid", "softplus")
GATE_SHAPES = ("element", "head")
VALUES = ("own", "keys")
ROPE_LAYOUTS = ("half", "interleaved")
DECAYS = ("none", "head", "channel")
STATE_GATES = ("silu", "sigmoid")
EXPERT_SCORES = ("softmax", "sigmoid", "sqrt_softplus", "chosen")
WEIGHS = ("output", "input")
OF_VECTORS = ("gelu_tanh", "gelu", "relu", "relu2")  # activations beside layer embeddings


@dataclass(frozen=True, kw_only=True)
class Rotation:
    """Rotary positions (RoPE), with the arguments of `scratch.RotaryPositions`. Derived in chapters 04 and 13."""

    d_head: int
    base: float
    layout: str
    scaling: str
    interpolation: float
    original_context: int
    slow: float
    fast: float
    attention_factor: float
    share: float = 1.0
    proportional: bool = False
    truncate: bool = True


@dataclass(frozen=True, kw_only=True)
class OutputGate:
    """A gate on what the heads have mixed, with one number per "element" or per "head". Derived in chapter 16."""

    per: str = "element"
    function: str = "sigmoid"

    def __post_init__(self) -> None:
        checks.one_of("per", self.per, GATE_SHAPES)
        checks.one_of("function", self.function, GATES)

    @property
    def letters(self) -> str:
        """Returns the axes of what it multiplies, H·K or H."""
        return "HK" if self.per == "element" else "H"


@dataclass(frozen=True)
class Sinks:
    """A learned score for each head, for which nothing is read. Derived in chapter 16."""


@dataclass(frozen=True, kw_only=True)
class KeyValueSharing:
    """Keys and values that serve twice, as in Gemma 4. Derived in chapter 16.

    `values` "keys" are the keys before norm and rotation, so there is no W_v; `norm_values` is an RMSNorm without gain
    on each value. `borrows` names a kind of layer, and the keys and values are then those of the last layer of that
    kind: there is no W_k and no W_v, and nothing is cached.
    """

    values: str = "own"
    norm_values: bool = False
    borrows: str | None = None

    def __post_init__(self) -> None:
        checks.one_of("values", self.values, VALUES)
        checks.flag("norm_values", self.norm_values)
        if self.borrows is not None and (not isinstance(self.borrows, str) or self.values != "own"):
            raise ValueError(
                f"borrows={self.borrows!r} must name a kind of layer, whose keys and values are all used"
            )

    @property
    def n_maps(self) -> int:
        """Returns how many of W_k and W_v there are."""
        return 0 if self.borrows is not None else 1 if self.values == "keys" else 2


@dataclass(frozen=True, kw_only=True)
class Indexer:
    """A small attention of I heads that chooses the `top_k` positions to read. Derived in chapter 16."""

    n_heads: int
    d_head: int
    top_k: int
    layout: str = "half"

    def __post_init__(self) -> None:
        for name in ("n_heads", "d_head", "top_k"):
            checks.whole(name, getattr(self, name))
        checks.one_of("layout", self.layout, ROPE_LAYOUTS)

    @property
    def sizes(self) -> dict[str, int]:
        """Returns the sizes of its formula by their letters."""
        return {"I": self.n_heads, "J": self.d_head}

    def arguments(self, rotation: Rotation | None) -> dict[str, Any]:
        """Returns what it is built with; it rotates as many features as the attention does."""
        if rotation is not None:
            share = rotation.d_head / self.d_head
            rotation = replace(rotation, d_head=self.d_head, share=share, layout=self.layout)
        return {"n_heads": self.n_heads, "d_head": self.d_head, "top_k": self.top_k, "rotation": rotation}


@dataclass(frozen=True, kw_only=True)
class LatentAttention:
    """Keys and values that are made of a latent of R numbers, in place of W_k and W_v. Derived in chapter 16.

    The model's `d_head` is the whole width of a query and a key, of which the last P = `d_rotated` are rotated. U is
    `d_value`, and Q `d_query_latent`, if queries have a latent, too. A layer that `borrows_choice` reads what the last
    layer with an indexer has chosen.
    """

    d_latent: int
    d_rotated: int
    d_value: int
    d_query_latent: int | None = None
    latent_eps: float = 1e-6
    indexer: Indexer | None = None
    borrows_choice: bool = False

    def __post_init__(self) -> None:
        checks.latent(self.d_latent, self.d_rotated, self.d_value, self.d_query_latent)
        checks.positive("latent_eps", self.latent_eps)
        checks.flag("borrows_choice", self.borrows_choice)
        if self.indexer is not None and self.borrows_choice:
            raise ValueError(
                "borrows_choice=True leaves an indexer without work: a layer has one or the other"
            )

    def arguments(self, attention: "Attention", norm_eps: float) -> dict[str, Any]:
        """Returns what it is built with; of the indexer, what that is built with."""
        index = self.indexer and self.indexer.arguments(attention.rotation)
        return vars(self) | {"scale": attention.scale, "indexer": index}

    def check(self, attention: "Attention") -> None:
        """Checks that it suits the heads of the model."""
        checks.below("d_rotated", self.d_rotated, "d_head", attention.d_head)
        if attention.window is not None:
            raise ValueError(f"sliding_window={attention.window} is not built for latent attention")

    @property
    def sizes(self) -> dict[str, int]:
        """Returns the sizes of its formula by their letters."""
        found = {"R": self.d_latent, "P": self.d_rotated, "U": self.d_value}
        found |= {} if self.d_query_latent is None else {"Q": self.d_query_latent}
        return found if self.indexer is None else found | self.indexer.sizes

    def parameters(self) -> Counter[str]:
        """W_q (D, H·K), or through Q numbers; W_kv_down (D, R + P), W_kv_up, W_o (H·U, D), norms, and the indexer."""
        formula = Counter(DR=1, DP=1, R=1, NHR=1, HRU=1, DHU=1)
        formula += Counter(DHK=1) if self.d_query_latent is None else Counter(DQ=1, Q=1, HKQ=1)
        if self.indexer is not None:
            query = "D" if self.d_query_latent is None else "Q"
            formula += Counter({query + "IJ": 1}) + Counter(DJ=1, DI=1, J=2)
        return formula

    def seeing(self, attention: "Attention", n_read: int, n_past: int) -> int:
        """Scores and means over keys and values, or after cached positions over the latents; the indexer's scores."""
        each = 2 * self.d_latent + self.d_rotated if n_past else attention.d_head + self.d_value
        index = 0 if self.indexer is None else self.indexer.n_heads * self.indexer.d_head
        return (n_read + n_past) * (attention.n_heads * each + index)

    def cached(self, attention: "Attention", n_positions: int) -> int:
        """The latent and the rotated part of a key, and the indexer's key."""
        index = 0 if self.indexer is None else self.indexer.d_head
        return n_positions * (self.d_latent + self.d_rotated + index)


@dataclass(frozen=True, kw_only=True)
class CompressedAttention:
    """Attention to a window and to compressed tokens, with one array for keys and values. Derived in chapter 16.

    Queries come through a latent of Q = `d_query_latent` numbers; the last P = `d_rotated` features are rotated. The
    output matrix has `n_groups` groups of `d_group` numbers. Every `compress` positions make one token, of as many more
    if `overlapping`; an `indexer` chooses among them.
    """

    d_rotated: int
    d_query_latent: int
    n_groups: int
    d_group: int
    compress: int = 1
    overlapping: bool = False
    indexer: Indexer | None = None

    def __post_init__(self) -> None:
        for name in ("d_rotated", "d_query_latent", "n_groups", "d_group", "compress"):
            checks.whole(name, getattr(self, name))
        checks.compression(self.compress, self.overlapping, *self.index_sizes, True)

    @property
    def index_sizes(self) -> tuple[int | None, int | None, int | None]:
        """Returns the indexer's top_k, heads and width, or None for each."""
        index = self.indexer
        return (None, None, None) if index is None else (index.top_k, index.n_heads, index.d_head)

    def arguments(self, attention: "Attention", norm_eps: float) -> dict[str, Any]:
        """Returns what it is built with."""
        own = vars(self) | {"window": attention.window, "norm_eps": norm_eps}
        del own["indexer"]
        return own | dict(zip(("top_k", "index_heads", "d_index"), self.index_sizes, strict=True))

    def check(self, attention: "Attention") -> None:
        """Checks that it suits the heads of the model."""
        checks.divisible("n_heads", attention.n_heads, "n_groups", self.n_groups)
        checks.rotated("d_head", attention.d_head, self.d_rotated)
        if attention.window is None or attention.rotation is None:
            raise ValueError("compressed attention needs a sliding_window and positions='rope'")

    @property
    def sizes(self) -> dict[str, int]:
        """Returns the sizes of its formula by their letters."""
        found = {"Q": self.d_query_latent, "P": self.d_rotated, "O": self.d_group}
        return found if self.indexer is None else found | self.indexer.sizes

    def parameters(self) -> Counter[str]:
        """The queries' two matrices, W_kv (D, K), norms, sinks, the output's two, compressors and the indexer."""
        formula = Counter(DQ=1, Q=1, HKQ=1, DK=1, K=1, H=1, HKO=1, DO=self.n_groups)
        if self.compress > 1:
            formula += self._compressor("K")
        if self.indexer is not None:
            formula += Counter(IJQ=1, DI=1) + self._compressor("J")
        return formula

    def _compressor(self, wide: str) -> Counter[str]:
        times = 2 if self.overlapping else 1
        return Counter({"D" + wide: 2 * times, wide: times * self.compress + 1})

    def seeing(self, attention: "Attention", n_read: int, n_past: int) -> int:
        """Scores and means over the window and the compressed tokens; the indexer's scores."""
        n_tokens = (n_past + n_read) // self.compress if self.compress > 1 else 0
        n_seen = n_read + min(n_past, (attention.window or 1) - 1) + n_tokens
        index = 0 if self.indexer is None else self.indexer.n_heads * self.indexer.d_head
        return 2 * attention.n_heads * n_seen * attention.d_head + n_tokens * index

    def cached(self, attention: "Attention", n_positions: int) -> int:
        """The window's array, the compressed tokens, and what the unfinished blocks are made of."""
        kept = attention.d_head * min(n_positions, (attention.window or 1) - 1)
        if self.compress == 1:
            return kept
        times = 1 + self.overlapping
        waiting = 2 * times * min(n_positions, times * self.compress - 1)
        width = attention.d_head + (0 if self.indexer is None else self.indexer.d_head)
        return kept + width * (n_positions // self.compress + waiting)


@dataclass(frozen=True, kw_only=True)
class _State:
    """What layers have in common that keep a state of K × U numbers for each head. Derived in chapter 17."""

    n_heads: int
    n_key_heads: int
    d_key: int
    d_value: int
    taps: int = 4

    d_rotated = 0  # the order of the rows is all it knows of positions

    def check(self, attention: "Attention") -> None:
        """Checks that it suits the model."""
        if attention.window is not None:
            raise ValueError(f"sliding_window={attention.window} means nothing for a layer with a state")

    @property
    def sizes(self) -> dict[str, int]:
        """Returns the sizes of its formula by their letters."""
        return {"H": self.n_heads, "G": self.n_key_heads, "K": self.d_key, "U": self.d_value}

    def arguments(self, attention: "Attention", norm_eps: float) -> dict[str, Any]:
        """Returns what it is built with."""
        return dict(vars(self))

    @property
    def state(self) -> int:
        """Returns the numbers of the states of all heads."""
        return self.n_heads * self.d_key * self.d_value

    @property
    def _projections(self) -> Counter[str]:
        """W_q and W_k (D, G·K), W_v and W_o of H·U, and the convolutions after the first three."""
        return Counter(DGK=2, DHU=2, GK=2 * self.taps, HU=self.taps)

    def seeing(self, attention: "Attention", n_read: int, n_past: int) -> int:
        """A state is written and read, step by step; the delta rule first asks it what it returns for the key."""
        return (3 if getattr(self, "delta", False) else 2) * self.state

    def cached(self, attention: "Attention", n_positions: int) -> int:
        """The state of each head and the last inputs of the convolutions, for any number of positions."""
        convolved = 2 * self.n_key_heads * self.d_key + self.n_heads * self.d_value
        return self.state + (self.taps - 1) * convolved


@dataclass(frozen=True, kw_only=True)
class LinearAttention(_State):
    """A state that keys write into and queries read from, in place of a cache. Derived in chapter 17.

    `delta` first takes back what the state returns for a key. It decays by one number for each "head" or each "channel"
    of a key, or not at all. `rank` is R, if the maps to the gate and to a decay "channel" have two matrices.
    """

    delta: bool = True
    decay: str = "head"
    max_strength: float = 1.0
    gate: str = "silu"
    rank: int | None = None
    output_eps: float = 1e-6

    def __post_init__(self) -> None:
        sizes = {"d_key": self.d_key, "d_value": self.d_value, "rank": self.rank}
        checks.layer_with_a_state(self.n_heads, self.n_key_heads, self.taps, self.max_strength, **sizes)
        checks.flag("delta", self.delta)
        checks.one_of("decay", self.decay, DECAYS)
        checks.one_of("gate", self.gate, STATE_GATES)
        checks.positive("output_eps", self.output_eps)

    @property
    def sizes(self) -> dict[str, int]:
        """Returns the sizes of its formula by their letters."""
        return super().sizes | ({} if self.rank is None else {"R": self.rank})

    def parameters(self) -> Counter[str]:
        """Queries, keys, values and output; the gate and its norm; what says how much is written, and what decays."""
        low = self.rank is not None
        formula = self._projections + (Counter(DR=1, RHU=1) if low else Counter(DHU=1)) + Counter(U=1)
        if self.delta:
            formula += Counter(DH=1)
        if self.decay == "head":
            formula += Counter(DH=1, H=2)
        if self.decay == "channel":
            formula += (Counter(DR=1, RHK=1) if low else Counter(DHK=1)) + Counter(H=1, HK=1)
        return formula


@dataclass(frozen=True, kw_only=True)
class Mamba2(_State):
    """The state-space layer of Mamba-2: `n_key_heads` is its groups, `d_key` its state. Derived in chapter 17."""

    convolution_bias: bool = True
    output_eps: float = 1e-5

    def __post_init__(self) -> None:
        sizes = {"d_key": self.d_key, "d_value": self.d_value}
        checks.layer_with_a_state(self.n_heads, self.n_key_heads, self.taps, 1, **sizes)
        checks.flag("convolution_bias", self.convolution_bias)
        checks.positive("output_eps", self.output_eps)

    def parameters(self) -> Counter[str]:
        """As linear attention, with the map to the steps, three numbers for each head, and a gain."""
        formula = self._projections + Counter(DHU=1, DH=1, H=3, HU=1)
        return formula + Counter(GK=2, HU=1) if self.convolution_bias else formula


PER_HEAD = "GHKU"
"""What is as wide as heads alone is no matrix, but a convolution, a bias or a gain."""

FORMS = (LatentAttention, CompressedAttention, LinearAttention, Mamba2)
"""What can take the place of softmax attention with W_k and W_v."""


@dataclass(frozen=True, kw_only=True)
class Attention:
    """Softmax attention with H query heads and G heads of keys and values. Derived in chapter 03."""

    n_heads: int
    n_kv_heads: int
    d_head: int
    bias: str
    scale: float
    qk_norm: bool | str  # of each head's queries and keys; `scratch.MultiHeadAttention` has the words
    window: int | None  # positions that a query sees, itself included
    rotation: Rotation | None
    gate: OutputGate | None = None
    sinks: Sinks | None = None
    sharing: KeyValueSharing | None = None
    form: LatentAttention | CompressedAttention | LinearAttention | Mamba2 | None = None

    def __post_init__(self) -> None:
        if self.form is None:
            return
        name = type(self.form).__name__
        for other, value in {
            "bias": "none",
            "qk_norm": False,
            "gate": None,
            "sinks": None,
            "sharing": None,
        }.items():
            if getattr(self, other) != value:
                raise ValueError(
                    f"{other}={getattr(self, other)!r} is not built for {name}: it must be {value!r}"
                )
        self.form.check(self)

    @property
    def sizes(self) -> dict[str, int]:
        """Returns the sizes of its formula by their letters."""
        found = {"H": self.n_heads, "G": self.n_kv_heads, "K": self.d_head}
        if self.form is not None:
            found["N"] = self.d_head - self.form.d_rotated
            found |= self.form.sizes
        return found

    def arguments(self, norm_eps: float) -> dict[str, Any]:
        """Returns what only this form of attention is built with."""
        if self.form is not None:
            return self.form.arguments(self, norm_eps)
        names = ("n_kv_heads", "bias", "qk_norm", "scale")
        return {name: getattr(self, name) for name in names} | {"norm_eps": norm_eps}

    @property
    def has_state(self) -> bool:
        """Returns whether it keeps a state, and no position of its own."""
        return isinstance(self.form, _State)

    @property
    def state(self) -> int:
        """Returns how many of the numbers of its cache are a state, which is in float32 at least."""
        return self.form.state if isinstance(self.form, _State) else 0

    @property
    def shares(self) -> bool:
        """Returns whether it leaves something to later layers, or takes it from earlier ones."""
        indexes = isinstance(self.form, LatentAttention) and (self.form.indexer or self.form.borrows_choice)
        return self.sharing is not None or bool(indexes)

    def parameters(self, d_model: int) -> Counter[str]:
        """W_q and W_o (D, H·K), W_k and W_v (D, G·K), with their biases and the gains of QK-norm."""
        if self.form is not None:
            return self.form.parameters()
        queries = "D" if self.n_heads * self.d_head == d_model else "HK"
        keys = queries if self.n_kv_heads == self.n_heads else "K" if self.n_kv_heads == 1 else "GK"
        formula = Counter({"D" + queries: 2}) + Counter({"D" + keys: self.n_maps})
        if self.bias != "none":
            formula += Counter({queries: 1}) + Counter({keys: self.n_maps})
        if self.bias == "all":
            formula += Counter(D=1)
        if self.qk_norm and self.qk_norm != "plain":
            n_norms = 2 if self.n_maps else 1
            wide = Counter({queries: 1}) + Counter({keys: n_norms - 1})
            formula += wide if self.qk_norm == "width" else Counter(K=n_norms)
        if self.gate is not None:
            formula += Counter({"D" + self.gate.letters: 1})
            formula += Counter({self.gate.letters: 1}) if self.bias != "none" else Counter()
        return formula + Counter(H=1) if self.sinks is not None else formula

    @property
    def n_maps(self) -> int:
        """Returns how many of W_k and W_v there are."""
        return 2 if self.sharing is None else self.sharing.n_maps

    def multiply_adds(self, d_model: int, n_read: int, n_past: int) -> int:
        """Its matrices; scores and weighted means with what is cached, also what a mask hides."""
        if self.form is not None:
            sizes = self.sizes | {"D": d_model}
            matrices = (
                n * math.prod(sizes[letter] for letter in product)
                for product, n in self.form.parameters().items()
                if len(product) > 1 and not set(product) <= set(PER_HEAD)
            )
            return n_read * (sum(matrices) + self.form.seeing(self, n_read, n_past))
        widths = self.d_head * (2 * self.n_heads + self.n_maps * self.n_kv_heads)
        if self.gate is not None:
            widths += self.n_heads * (self.d_head if self.gate.per == "element" else 1)
        n_seen = n_read + (n_past if self.window is None else min(n_past, self.window - 1))
        return n_read * d_model * widths + 2 * self.n_heads * n_read * n_seen * self.d_head

    def cached(self, n_positions: int) -> int:
        """Returns how many numbers its cache keeps: of `n_positions`, or of those that a window can still see."""
        if self.form is not None:
            return self.form.cached(self, n_positions)
        if self.n_maps == 0:
            return 0
        if self.window is not None:
            n_positions = min(n_positions, self.window - 1)
        return 2 * self.n_kv_heads * self.d_head * n_positions


@dataclass(frozen=True, kw_only=True)
class Experts:
    """X feed-forward networks of `d_ff` neurons, of which a router chooses A = `top_k` for each token; a shared one.

    `scratch.Experts`, `Router` and `Expert` say what the choices mean; Y is `d_shared`. `choice_bias` has a number for
    each expert, and with `by_token` a table of experts for each id chooses. With `own_norms`, they have five norms in
    place of the one before them, and a factor for each expert, as in Gemma 4. Derived in chapter 18.
    """

    n_experts: int
    top_k: int
    scores: str = "softmax"
    renormalize: bool = True
    sum_eps: float = 0.0
    scale: float = 1.0
    choice_bias: bool = False
    bias_rate: float = 0.0
    n_groups: int = 1
    top_groups: int = 1
    group_best: int = 1
    router_bias: bool = False
    by_token: bool = False
    weighs: str = "output"
    d_shared: int = 0
    shared_gate: bool = False
    own_norms: bool = False
    limit: float | None = None
    offset: float = 0.0
    sharpness: float = 1.0
    balance: float = 0.0

    def __post_init__(self) -> None:
        checks.chosen_experts(self.n_experts, self.top_k, self.n_groups, self.top_groups, self.group_best)
        checks.one_of("scores", self.scores, EXPERT_SCORES)
        checks.one_of("weighs", self.weighs, WEIGHS)
        checks.whole("d_shared", self.d_shared, at_least=0)
        for name in ("renormalize", "choice_bias", "router_bias", "by_token", "shared_gate", "own_norms"):
            checks.flag(name, getattr(self, name))
        for name in ("sum_eps", "balance", "bias_rate"):
            checks.not_negative(name, getattr(self, name))
        checks.positive("scale", self.scale)
        checks.limited_gate(self.limit, self.offset, self.sharpness, True)
        if self.by_token and (self.choice_bias or self.n_groups > 1):
            raise ValueError("by_token=True leaves a choice_bias or groups without work: a table chooses")
        if self.bias_rate and not self.choice_bias:
            raise ValueError(f"bias_rate={self.bias_rate} moves a choice_bias, but choice_bias=False")
        for name in ("shared_gate", "own_norms"):
            if getattr(self, name) and not self.d_shared:
                raise ValueError(f"{name}=True needs a shared expert, but d_shared=0")

    def arguments(self, vocab_size: int, norm_eps: float) -> dict[str, Any]:
        """Returns what they are built with, in a model with that vocabulary and that ε of norms."""
        own = dict(vars(self))
        own |= {"vocab_size": vocab_size if own.pop("by_token") else None, "expert_scale": own["own_norms"]}
        return own | {"norm_eps": norm_eps}

    def parameters(self, network: Counter[str]) -> Counter[str]:
        """The experts, each a `network` in D and F, the shared one with Y neurons, and the router (D, X)."""
        return self._with(Counter({"X" + product: n for product, n in network.items()}), network)

    def active(self, network: Counter[str]) -> Counter[str]:
        """The same, with the experts that one token chooses."""
        return self._with(Counter({"A" + product: n for product, n in network.items()}), network)

    def _with(self, formula: Counter[str], network: Counter[str]) -> Counter[str]:
        formula += Counter(XD=1, X=self.router_bias + self.choice_bias + self.own_norms, VA=self.by_token)
        formula += Counter(D=4 * self.own_norms)  # one of the five is counted already, as that before them
        if self.d_shared:
            formula += Counter({product.replace("F", "Y"): n for product, n in network.items()})
        return formula + Counter(D=1) if self.shared_gate else formula


@dataclass(frozen=True, kw_only=True)
class FeedForward:
    """Two linear maps with an activation between them, or three with a gate. Derived in chapter 06.

    With the activation "none", a layer has no such network: attention is its only sublayer. With `experts`, it has
    many.
    """

    d_ff: int
    activation: str
    bias: bool
    experts: Experts | None = None

    def __post_init__(self) -> None:
        if self.experts is None:
            return
        if self.activation == "none":
            raise ValueError("experts need an activation, but feedforward='none'")
        if self.activation == "xielu":
            raise ValueError("experts are not built for feedforward='xielu', which learns")
        own = (self.experts.limit, self.experts.offset, self.experts.sharpness)
        checks.limited_gate(*own, self.activation if self.activation in GATED else None)

    @property
    def sizes(self) -> dict[str, int]:
        """Returns the sizes of its formula by their letters."""
        found = {"F": self.d_ff}
        if self.experts is not None:
            found |= {"X": self.experts.n_experts, "A": self.experts.top_k}
            found |= {"Y": self.experts.d_shared} if self.experts.d_shared else {}
        return found

    @property
    def _network(self) -> Counter[str]:
        n_into = 2 if self.activation in GATED else 1
        formula = Counter(DF=n_into + 1)
        formula += Counter({"": 2}) if self.activation == "xielu" else Counter()
        return formula + Counter(F=n_into, D=1) if self.bias else formula

    def parameters(self, d_model: int) -> Counter[str]:
        """W_up and, if there is one, W_gate (D, F), W_down (F, D), their biases, two of xIELU; or all experts'."""
        if self.activation == "none":
            return Counter()
        return self._network if self.experts is None else self.experts.parameters(self._network)

    def active(self, d_model: int) -> Counter[str]:
        """The same, without the experts that a token does not choose."""
        return self.parameters(d_model) if self.experts is None else self.experts.active(self._network)

    def multiply_adds(self, d_model: int, n_read: int) -> int:
        """Its two matrices, or three; with experts, of those that are chosen, and of the router."""
        if self.activation == "none":
            return 0
        n_maps, experts = 3 if self.activation in GATED else 2, self.experts
        if experts is None:
            return n_read * d_model * self.d_ff * n_maps
        neurons = experts.top_k * self.d_ff + experts.d_shared
        return n_read * d_model * (n_maps * neurons + experts.n_experts + experts.shared_gate)


@dataclass(frozen=True, kw_only=True)
class Norm:
    """A norm over d_model. Derived in chapter 05."""

    norm: str
    eps: float

    def parameters(self) -> Counter[str]:
        """A gain and, except for RMSNorm, a bias; some have only a gain, or nothing."""
        return +Counter(D=NORM_WEIGHTS.get(self.norm, 2))


@dataclass(frozen=True, kw_only=True)
class Residual:
    """How a sublayer f joins the stream, and where the norms are. Derived in chapters 05 and 07.

    "pre" is x + f(norm(x)); "post" norm(x + f(x)); "output" x + norm(f(x)); "sandwich" x + norm(f(norm(x))), with two
    norms; "parallel" x + attention(norm(x)) + feedforward(norm(x)), with one norm for both.
    `scale` multiplies what is added.
    """

    placement: str = "pre"
    scale: float = 1.0

    def __post_init__(self) -> None:
        checks.one_of("placement", self.placement, RESIDUAL_PLACEMENTS)
        checks.positive("scale", self.scale)

    @property
    def n_norms(self) -> int:
        """Returns how many norms each sublayer has."""
        return 2 if self.placement == "sandwich" else 1


@dataclass(frozen=True)
class SoftCap:
    """Scores of at most ±cap: cap · tanh(score / cap), as in Gemma 2."""

    cap: float

    def __post_init__(self) -> None:
        checks.positive("cap", self.cap)


@dataclass(frozen=True)
class PositionScale:
    """Scores of a query times 1 + β · ln(1 + ⌊position / original_context⌋), as in Llama 4 and Ministral 3."""

    beta: float
    original_context: int

    def __post_init__(self) -> None:
        checks.positive("beta", self.beta)
        checks.whole("original_context", self.original_context)


@dataclass(frozen=True)
class StreamScale:
    """A learned number that multiplies the stream at the end of a layer, as in Gemma 4."""


@dataclass(frozen=True, kw_only=True)
class Streams:
    """M residual streams in place of one, for a whole model. Derived in chapter 18.

    `scratch.HyperConnection` says what `steps` and `eps` are.
    """

    n_streams: int
    steps: int = 20
    eps: float = 1e-6

    def __post_init__(self) -> None:
        checks.whole("n_streams", self.n_streams)
        checks.whole("steps", self.steps)
        checks.not_negative("eps", self.eps)

    @property
    def sizes(self) -> dict[str, int]:
        """Returns the sizes of its formulas by their letters."""
        return {"M": self.n_streams}

    def connection(self) -> Counter[str]:
        """The matrix (M·D, 2M + M²) around a sublayer, its biases and three factors."""
        return Counter({"MMD": 2, "MMMD": 1, "M": 2, "MM": 1, "": 3})

    def parameters(self) -> Counter[str]:
        """The matrix (M·D, M) of the sum at the end, its biases and a factor."""
        return Counter({"MMD": 1, "M": 1, "": 1})

    def around(self, d_model: int, n_sublayers: int, n_read: int) -> int:
        """What is around as many sublayers: the matrix, and sums over all streams, one to read and M that mix them."""
        M = self.n_streams
        return n_sublayers * n_read * M * d_model * (2 * M + M * M + 1 + M)

    def multiply_adds(self, d_model: int, n_read: int) -> int:
        """The matrix of the sum at the end, and that sum."""
        return n_read * self.n_streams * d_model * (self.n_streams + 1)


@dataclass(frozen=True, kw_only=True)
class LayerEmbeddings:
    """A vector of Z = `d_layer` numbers for each token and each layer, for a whole model. Derived in chapter 18."""

    d_layer: int
    activation: str = "gelu_tanh"

    def __post_init__(self) -> None:
        checks.whole("d_layer", self.d_layer)
        checks.one_of("activation", self.activation, OF_VECTORS)

    @property
    def sizes(self) -> dict[str, int]:
        """Returns the sizes of its formulas by their letters."""
        return {"Z": self.d_layer}

    def sublayer(self) -> Counter[str]:
        """W_gate and W_down of each layer, (D, Z) and (Z, D); a norm comes after them."""
        return Counter(DZ=2)

    def parameters(self, n_layers: int) -> Counter[str]:
        """The table (V, Z) and the matrix (D, Z) of each layer, and one gain."""
        return Counter(VZ=n_layers, DZ=n_layers, Z=1)

    def multiply_adds(self, d_model: int, n_layers: int, n_read: int) -> int:
        """The three matrices of each layer; a table is only read."""
        return n_read * n_layers * 3 * d_model * self.d_layer


@dataclass(frozen=True, kw_only=True)
class Layer:
    """One layer of a model. `scores` changes the scores before the softmax; None leaves them as they are."""

    attention: Attention
    feedforward: FeedForward
    norm: Norm
    residual: Residual
    scores: Any = None
    stream_scale: StreamScale | None = None

    def __post_init__(self) -> None:
        if self.scores is not None and self.attention.sinks is not None:
            raise ValueError("sinks beside changed scores are not built: no published model has both")
        if self.scores is not None and self.attention.has_state:
            raise ValueError(
                f"scores={self.scores!r} means nothing for a layer with a state: it has no scores"
            )

    @property
    def n_sublayers(self) -> int:
        """Returns how many sublayers it has, besides cross-attention."""
        return 1 if self.feedforward.activation == "none" else 2

    @property
    def n_norms(self) -> int:
        """Returns how many norms they have."""
        return 1 if self.residual.placement == "parallel" else self.n_sublayers * self.residual.n_norms

    def with_parts(self, parts: Mapping[str, Any]) -> "Layer":
        """Returns this layer with other parts at some of the `PLACES`."""
        inner = {place: part for place, part in parts.items() if place in OF_ATTENTION}
        network = {place: part for place, part in parts.items() if place in OF_FEEDFORWARD}
        if (form := inner.get("form")) is not None and self.attention.rotation is not None:
            rotates = replace(self.attention.rotation, d_head=form.d_rotated or self.attention.d_head)
            inner["rotation"] = rotates if form.d_rotated else None
        outer = {place: part for place, part in parts.items() if place not in (*inner, *network)}
        return replace(
            self,
            attention=replace(self.attention, **inner),
            feedforward=replace(self.feedforward, **network),
            **outer,
        )


OF_ATTENTION: dict[str, tuple[type, ...]] = {
    "gate": (OutputGate,),
    "sinks": (Sinks,),
    "sharing": (KeyValueSharing,),
    "form": FORMS,
}
"""The places of `Attention` that a kind can fill, and the parts that can stand there."""

OF_FEEDFORWARD: dict[str, tuple[type, ...]] = {"experts": (Experts,)}
"""The same for those of `FeedForward`."""

PLACES = {
    "residual": (Residual,),
    "scores": (SoftCap, PositionScale),
    "stream_scale": (StreamScale,),
    **OF_ATTENTION,
    **OF_FEEDFORWARD,
}
"""The same for those of `Layer`, with those of its attention and feed-forward network."""

OF_A_MODEL: dict[str, tuple[type, ...]] = {"streams": (Streams,), "layer_embeddings": (LayerEmbeddings,)}
"""The same for a whole model: its layers cannot differ in them."""

PARTS = {part.__name__: part for parts in (PLACES | OF_A_MODEL).values() for part in parts}
"""These parts by the names that files have for them."""


def part_from_json(value: Any) -> Any:
    """Returns the part that `part_to_json` wrote, such as {"SoftCap": {"cap": 50.0}}; anything else as it is."""
    if isinstance(value, dict) and len(value) == 1 and (name := next(iter(value))) in PARTS:
        checks.fields(name, value[name], [f.name for f in fields(PARTS[name])], [])
        own = dict(value[name])
        if isinstance(own.get("indexer"), dict):
            checks.fields("indexer", own["indexer"], [f.name for f in fields(Indexer)], [])
            own["indexer"] = Indexer(**own["indexer"])
        return PARTS[name](**own)
    return value


def part_to_json(value: Any) -> Any:
    """Returns a part as its name and its numbers; anything else as it is."""
    name = type(value).__name__
    return {name: asdict(value)} if PARTS.get(name) is type(value) else value


class Order:
    """The order of the kinds of layers: "near*5 far" is five of near, one of far, and again from the start.

    Raises:
        ValueError: `order` is empty, names a kind that there is not, leaves one out, or has a number below 1.
        TypeError: `order` is not a string.
    """

    def __init__(self, order: str, kinds: Collection[str]) -> None:
        if not isinstance(order, str):
            raise TypeError(f"order must be a string such as 'near*5 far', not {type(order).__name__}")
        self.period: list[tuple[str, int]] = []
        for word in order.split():
            name, star, times = word.partition("*")
            if name not in kinds:
                raise ValueError(f"order={order!r} names {name!r}, but kinds has {', '.join(kinds)}")
            if star and not (times.isascii() and times.isdigit() and int(times) > 0):
                raise ValueError(f"order={order!r} has {word!r}: after the * must come a number of layers")
            self.period.append((name, int(times) if star else 1))
        if unused := [name for name in kinds if name not in dict(self.period)]:
            raise ValueError(f"order={order!r} never names {', '.join(unused)}, which kinds has")
        self.kinds = list(kinds)

    def __getitem__(self, index: int) -> str:
        """Returns the kind of layer `index`."""
        index %= self.length
        for name, times in self.period:
            if index < times:
                return name
            index -= times
        raise AssertionError

    @property
    def length(self) -> int:
        """Returns after how many layers it repeats."""
        return sum(times for _, times in self.period)

    def numbers(self, n_layers: int) -> dict[str, int]:
        """Returns how many of the first `n_layers` are of each kind; no list of them is made, as there may be many."""
        found = dict.fromkeys(self.kinds, 0)
        whole, left = divmod(n_layers, self.length)
        for name, times in self.period:
            found[name] += whole * times + min(times, left)
            left -= min(times, left)
        return found
