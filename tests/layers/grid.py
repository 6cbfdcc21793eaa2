"""Defines tiny models of every kind: each choice of each field, each allowed pair of choices, and whole systems.

`COVERING` is computed: few configurations that contain every allowed pair of choices, so a new choice is in the grid
as soon as `OPTIONS` has it. `SYSTEMS` are well-known models, and those of other tutorials.
"""

from itertools import combinations, product

from glassformer.config import CHOICES, ModelConfig
from glassformer.layers import (
    QK_NORMS,
    CompressedAttention,
    Experts,
    Indexer,
    KeyValueSharing,
    LatentAttention,
    LayerEmbeddings,
    LinearAttention,
    Mamba2,
    OutputGate,
    PositionScale,
    Residual,
    Sinks,
    SoftCap,
    Streams,
    StreamScale,
)

from .covering import covering

SIZES = {"vocab_size": 11, "context_length": 12, "d_model": 8, "n_layers": 2, "n_heads": 2}

# The fields that meet in pairs: every choice, and the numbers that switch something on
OPTIONS = CHOICES | {
    "heads": ("MHA", "GQA", "MQA", "wide"),  # see HEADS
    "feedforward_bias": (True, False),
    "sliding_window": (None, 3),
    "qk_norm": (False, True, *QK_NORMS),
    "embedding_norm": (False, True),
    "head_bias": (False, True),
    "head_transform": (False, True),
    "scales": ("derived", "given", "shrunk"),  # see SCALES
    "n_segments": (0, 2),
    "pooler": (False, True),
    "logit_cap": (None, 0.5),
    "kinds": (
        "one",
        "windows",
        "sizes",
        "turns",
        "joins",
        "beside",
        "bends",
        "gates",
        "shares",
        "partly",
        "scaled",
    ),  # see KINDS
    "streams": (None, Streams(n_streams=3, steps=4, eps=0.02)),
    "layer_embeddings": (None, LayerEmbeddings(d_layer=8)),
}
KINDS = {
    "one": {},
    "windows": {"near": {"sliding_window": 2}, "far": {"sliding_window": None}},
    "sizes": {"wide": {"d_ff": 12, "n_kv_heads": 1}, "narrow": {"d_ff": 3, "feedforward": "swiglu"}},
    "turns": {"turned": {"positions": "rope", "rope_base": 7.0}, "free": {"positions": "none"}},
    "joins": {
        "after": {"residual": Residual(placement="output", scale=0.5)},
        "around": {"residual": Residual(placement="sandwich")},
    },
    "beside": {"beside": {"residual": Residual(placement="parallel")}},
    "gates": {
        "per_head": {"gate": OutputGate(per="head", function="softplus"), "sinks": Sinks()},
        "per_element": {"gate": OutputGate()},
    },
    "shares": {
        "lender": {"sharing": KeyValueSharing(values="keys", norm_values=True)},
        "borrower": {"sharing": KeyValueSharing(borrows="lender")},
    },
    "partly": {
        "first": {"rope_share": 0.5},
        "slow": {"rope_share": 0.5, "rope_proportional": True, "rope_truncate": False},
    },
    "scaled": {"scaled": {"stream_scale": StreamScale()}, "not": {}},
    "bends": {"capped": {"scores": SoftCap(0.5)}, "sharper": {"scores": PositionScale(0.5, 2)}},
}
HEADS = {
    "MHA": {},
    "GQA": {"n_heads": 4, "n_kv_heads": 2},
    "MQA": {"n_heads": 4, "n_kv_heads": 1, "d_ff": 6},
    "wide": {"n_heads": 3, "d_head": 4},  # H·K is not D
}
SCALES = {
    "derived": {},
    "given": {"attention_scale": 0.7, "embedding_scale": 8**0.5, "head_scale": 8**-0.5, "norm_eps": 1e-3},
    "shrunk": {"embedding_scale": 0.5},
}
BUCKETS = {"t5_n_buckets": 8, "t5_max_distance": 9}  # so few that five positions reach the shared ones
# So that every pair of dimensions rotates visibly, and one of them lies on the ramp of llama3 and one on that of yarn
ROPE = {
    "rope_base": 50.0,
    "rope_interpolation": 1.5,
    "rope_slow": 0.2,
    "rope_fast": 2.5,
    "rope_original_context": 9,
}

GPT2 = ModelConfig(**SIZES)
SYSTEMS = {
    "GPT-2": GPT2,
    "the modern one": GPT2.replace(
        n_heads=4,
        n_kv_heads=2,
        d_head=6,
        d_ff=10,
        positions="rope",
        rope_base=500.0,
        norm="rmsnorm",
        norm_eps=1e-6,
        feedforward="swiglu",
        feedforward_bias=False,
        attention_bias="none",
        qk_norm=True,
        head="untied",
    ),
    "2017": GPT2.replace(
        family="encoder-decoder",
        positions="sinusoidal",
        norm_placement="post",
        feedforward="relu",
        embedding_scale=8**0.5,
    ),
    "T5": GPT2.replace(
        family="encoder-decoder",
        n_decoder_layers=3,
        d_head=3,
        positions="t5",
        **BUCKETS,
        norm="rmsnorm",
        norm_eps=1e-6,
        feedforward="relu",
        feedforward_bias=False,
        attention_bias="none",
        attention_scale=1.0,
        head_scale=8**-0.5,
    ),
    "BERT": GPT2.replace(
        family="encoder",
        norm_eps=1e-12,
        norm_placement="post",
        feedforward="gelu",
        embedding_norm=True,
        n_segments=2,
        head_bias=True,
        head_transform=True,
        pooler=True,
    ),
    "BLOOM": GPT2.replace(n_heads=4, positions="alibi", embedding_norm=True),
    "near and far": GPT2.replace(
        n_layers=5,
        positions="rope",
        rope_share=0.5,
        rope_proportional=True,
        rope_scaling="yarn",
        rope_interpolation=1.5,
        rope_original_context=9,
        rope_slow=0.2,
        rope_fast=2.5,
        rope_truncate=False,
        norm="rmsnorm",
        logit_cap=3.0,
        kinds={
            "near": {"sliding_window": 3, "rope_base": 50.0, "scores": SoftCap(2.0)},
            "far": {"n_kv_heads": 1, "d_head": 8, "d_ff": 10, "residual": Residual(placement="sandwich")},
        },
        order="near*2 far",
    ),
    "latents and a borrowed choice": GPT2.replace(
        n_layers=3,
        positions="rope",
        rope_base=50.0,
        rope_layout="interleaved",
        norm="rmsnorm",
        attention_bias="none",
        d_head=6,
        kinds={
            "indexed": {
                "form": LatentAttention(
                    d_latent=5,
                    d_rotated=2,
                    d_value=3,
                    d_query_latent=7,
                    indexer=Indexer(n_heads=16, d_head=4, top_k=2),
                )
            },
            "borrowing": {
                "form": LatentAttention(d_latent=4, d_rotated=4, d_value=8, borrows_choice=True),
                "residual": Residual(placement="output"),
            },
        },
        order="indexed borrowing*2",
    ),
    "a window and compressed tokens": GPT2.replace(
        n_layers=3,
        positions="rope",
        rope_base=50.0,
        rope_layout="interleaved",
        norm="rmsnorm",
        attention_bias="none",
        d_head=6,
        sliding_window=2,
        kinds={
            "near": {"form": CompressedAttention(d_rotated=2, d_query_latent=3, n_groups=1, d_group=2)},
            "chosen": {
                "form": CompressedAttention(
                    d_rotated=2,
                    d_query_latent=7,
                    n_groups=2,
                    d_group=5,
                    compress=2,
                    overlapping=True,
                    indexer=Indexer(n_heads=16, d_head=4, top_k=1),
                )
            },
            "all": {
                "form": CompressedAttention(d_rotated=4, d_query_latent=3, n_groups=1, d_group=2, compress=3)
            },
        },
        order="near chosen all",
    ),
    "states and attention": GPT2.replace(
        n_layers=4,
        positions="rope",
        rope_base=50.0,
        norm="rmsnorm",
        attention_bias="none",
        kinds={
            "gated": {"form": LinearAttention(n_heads=4, n_key_heads=2, d_key=3, d_value=2)},
            "channels": {
                "form": LinearAttention(
                    n_heads=2,
                    n_key_heads=2,
                    d_key=4,
                    d_value=3,
                    decay="channel",
                    rank=3,
                    gate="sigmoid",
                    taps=2,
                ),
                "residual": Residual(placement="sandwich", scale=0.5),
            },
            "near": {"sliding_window": 3, "n_kv_heads": 1},
            "plain": {
                "form": LinearAttention(
                    n_heads=1, n_key_heads=1, d_key=2, d_value=5, delta=False, decay="none", taps=1
                ),
                "feedforward": "none",
                "feedforward_bias": False,
            },
        },
        order="gated channels near plain",
    ),
    "Mamba-2": GPT2.replace(
        positions="none",
        norm="rmsnorm",
        attention_bias="none",
        feedforward="none",
        feedforward_bias=False,
        kinds={"mamba": {"form": Mamba2(n_heads=4, n_key_heads=2, d_key=3, d_value=5)}},
        order="mamba",
    ),
    "four streams": GPT2.replace(
        n_layers=4,
        norm="rmsnorm",
        attention_bias="none",
        feedforward_bias=False,
        positions="none",
        streams=Streams(n_streams=4),
        kinds={
            "near": {"sliding_window": 3, "residual": Residual(placement="sandwich", scale=0.5)},
            "gated": {"feedforward": "swiglu", "gate": OutputGate()},
            "state": {
                "form": Mamba2(n_heads=4, n_key_heads=2, d_key=3, d_value=5),
                "feedforward": "none",
            },
        },
        order="near gated state",
    ),
    "vectors of each layer": GPT2.replace(
        n_layers=4,
        n_kv_heads=1,
        positions="rope",
        norm="rmsnorm",
        norm_eps=1e-6,
        feedforward="geglu_tanh",
        feedforward_bias=False,
        attention_bias="none",
        qk_norm=True,
        embedding_scale=8**0.5,
        layer_embeddings=LayerEmbeddings(d_layer=5, activation="gelu"),
        kinds={
            "lender": {
                "sharing": KeyValueSharing(norm_values=True),
                "residual": Residual(placement="sandwich"),
                "stream_scale": StreamScale(),
            },
            "borrower": {
                "sharing": KeyValueSharing(borrows="lender"),
                "residual": Residual(placement="sandwich"),
                "d_ff": 20,
            },
        },
        order="lender*2 borrower*2",
    ),
    "experts": GPT2.replace(
        n_layers=4,
        norm="rmsnorm",
        attention_bias="none",
        feedforward="swiglu",
        feedforward_bias=False,
        kinds={
            "dense": {"d_ff": 7},
            "sparse": {"d_ff": 5, "experts": Experts(n_experts=4, top_k=2, balance=0.1)},
            "first": {
                "d_ff": 3,
                "feedforward": "relu",
                "experts": Experts(n_experts=3, top_k=1, scores="sigmoid", renormalize=False, weighs="input"),
            },
            "listed": {
                "d_ff": 3,
                "experts": Experts(
                    n_experts=5, top_k=2, scores="sqrt_softplus", sum_eps=0.1, by_token=True, limit=0.5
                ),
            },
        },
        order="dense sparse first listed",
    ),
    "experts with groups and a shared one": GPT2.replace(
        positions="rope",
        rope_base=50.0,
        norm="rmsnorm",
        attention_bias="none",
        feedforward="swiglu",
        feedforward_bias=False,
        kinds={
            "sparse": {
                "d_ff": 3,
                "experts": Experts(
                    n_experts=6,
                    top_k=3,
                    scores="sigmoid",
                    choice_bias=True,
                    bias_rate=0.1,
                    n_groups=3,
                    top_groups=2,
                    group_best=2,
                    scale=1.5,
                    d_shared=5,
                    shared_gate=True,
                    own_norms=True,
                ),
                "residual": Residual(placement="sandwich", scale=0.5),
            }
        },
    ),
    "gpt-oss's experts": GPT2.replace(
        n_heads=4,
        n_kv_heads=2,
        positions="rope",
        norm="rmsnorm",
        feedforward="swiglu",
        kinds={
            "near": {
                "d_ff": 6,
                "sliding_window": 3,
                "sinks": Sinks(),
                "experts": Experts(
                    n_experts=4,
                    top_k=2,
                    scores="chosen",
                    router_bias=True,
                    limit=0.5,
                    offset=1.0,
                    sharpness=1.702,
                    balance=0.1,
                ),
            }
        },
    ),
    "a GPT in NumPy": GPT2.replace(positions="sinusoidal", attention_bias="none", feedforward="gelu_tanh"),
    "a GPT of 736": GPT2.replace(
        vocab_size=4, context_length=64, d_model=4, attention_bias="none", feedforward="gelu"
    ),
    "an encoder with σ + ε": GPT2.replace(
        family="encoder",
        positions="sinusoidal",
        norm="layernorm_sigma",
        norm_eps=1e-6,
        norm_placement="post",
        feedforward="relu",
        attention_bias="none",
        head="untied",
    ),
}


def build(choices):
    """Returns the configuration of one row of the table: a value for each of OPTIONS."""
    fields = {**SIZES, **choices}
    fields |= HEADS[fields.pop("heads")] | SCALES[fields.pop("scales")]
    fields |= BUCKETS if fields["positions"] == "t5" else ROPE if fields["positions"] == "rope" else {}
    if kinds := KINDS[fields.pop("kinds")]:
        fields |= {"kinds": kinds, "order": " ".join(kinds)}
    if fields["head"] == "none":
        fields["head_scale"] = 1.0
    if fields["family"] == "encoder-decoder":
        fields["n_decoder_layers"] = 1
    return ModelConfig(**fields)


def is_allowed(choices):
    """Returns whether the fields fit together; a missing field counts as its first option."""
    full = {name: choices.get(name, options[0]) for name, options in OPTIONS.items()}
    try:
        build(full)
    except ValueError:
        return False
    return True


def allowed_pairs():
    """Returns every pair of choices that some model can have."""
    every = set()
    for (one, ones), (other, others) in combinations(sorted(OPTIONS.items()), 2):
        for a, b in product(ones, others):
            families = CHOICES["family"] if "family" not in (one, other) else (None,)
            choices = {one: a, other: b}
            if any(is_allowed(choices | ({"family": family} if family else {})) for family in families):
                every.add(((one, a), (other, b)))
    return every


def name_of(config):
    """Returns a few words that tell a failing model from the others."""
    return "-".join((config.family, config.positions, config.norm, config.feedforward, config.head))


COVERING = covering(OPTIONS, allowed_pairs(), is_allowed)
GRID = SYSTEMS | {f"{i}-{name_of(config)}": config for i, config in enumerate(build(row) for row in COVERING)}
