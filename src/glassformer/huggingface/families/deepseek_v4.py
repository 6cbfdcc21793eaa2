"""DeepSeek-V4: several streams, attention to a window and to compressed tokens, and experts that a token can name.

The names of weights are those of a model in memory, except for experts one by one; files have others. A layer with a
compressor has a base and a stretching of its own.
"""

from collections.abc import Mapping
from typing import Any

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.huggingface.families.deepseek import CHOICE_BIAS, MLP, OF_EXPERTS, PACKED, ROUTING
from glassformer.huggingface.families.experts import TRAINING, named
from glassformer.huggingface.families.format import (
    Format,
    Place,
    Sparse,
    Where,
    flat_kinds,
    linear,
    needed,
    words_of_layers,
)
from glassformer.huggingface.families.llama import LLAMA, NO_BIASES, NO_FEEDFORWARD_BIASES, RULES
from glassformer.huggingface.families.rope import OfKind, Rope
from glassformer.huggingface.keys import Key, contradiction, unsupported
from glassformer.layers import CompressedAttention, Indexer, Streams

WINDOW, CHOSEN, ALL = "sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"
NAMES = {WINDOW: "window", CHOSEN: "chosen", ALL: "all"}
RATIOS = {0: WINDOW, 4: CHOSEN, 128: ALL}
RATES = {CHOSEN: ("compress_rate_csa", 4), ALL: ("compress_rate_hca", 128)}
ROPE = Rope(
    kinds={
        "main": OfKind("main", "rope_theta", 10_000.0, False),
        "compress": OfKind("compress", "compress_rope_theta", 160_000.0, True),
    }
)
SIZES = {
    "d_query_latent": ("q_lora_rank", 1024),
    "n_groups": ("o_groups", 8),
    "d_group": ("o_lora_rank", 1024),
}
OF_INDEXER = {
    "n_heads": ("index_n_heads", 64),
    "d_head": ("index_head_dim", 128),
    "top_k": ("index_topk", 512),
}
OF_STREAMS = {"n_streams": ("hc_mult", 4), "steps": ("hc_sinkhorn_iters", 20), "eps": ("hc_eps", 1e-6)}
BY_TOKEN, BY_SCORE = "hash_moe", "moe"


def _value(given: Mapping[str, Any], name: str, default: Any) -> Any:
    return needed({name: default, **given}, name)


def layers(given: Mapping[str, Any], n_layers: int) -> list[tuple[str, dict[str, Any]]]:
    """Returns the kind of each layer and what it has."""
    words, ratios = list(NAMES), given.get("compress_ratios")
    if ratios is not None and given.get("layer_types") is None:
        if (
            not isinstance(ratios, list)
            or len(ratios) < n_layers
            or any(ratio not in RATIOS for ratio in ratios)
        ):
            raise unsupported(given, "compress_ratios", "it must have 0, 4 or 128 for each layer")
        given = {**given, "layer_types": [RATIOS[ratio] for ratio in ratios[:n_layers]]}
    listed = words_of_layers(
        given, n_layers, "layer_types", words, lambda i: CHOSEN if i > 1 and i % 2 else ALL
    )
    rates = {word: usual for word, (_, usual) in RATES.items()} if given.get("compress_rates") is None else {}
    rates |= given.get("compress_rates") or {}
    rates |= {word: given[key] for word, (key, _) in RATES.items() if given.get(key) is not None}
    if set(rates) != set(RATES):
        raise unsupported(given, "compress_rates", f"it must have {CHOSEN} and {ALL}")
    sizes = {ours: _value(given, *key) for ours, key in SIZES.items()} | {"d_rotated": _rotated(given)}
    index = Indexer(**{ours: _value(given, *key) for ours, key in OF_INDEXER.items()}, layout="interleaved")
    window, rope = {"sliding_window": _value(given, "sliding_window", 128)}, ROPE.read(_in_kinds(given))
    compressed = window | rope["compress"]
    own: dict[str, dict[str, Any]] = {
        WINDOW: window | rope["main"] | {"form": CompressedAttention(**sizes)},
        CHOSEN: compressed
        | {"form": CompressedAttention(**sizes, compress=rates[CHOSEN], overlapping=True, indexer=index)},
        ALL: compressed | {"form": CompressedAttention(**sizes, compress=rates[ALL])},
    }
    return [(NAMES[word], own[word]) for word in listed]


def _read_choices(given: Mapping[str, Any], n_layers: int) -> list[bool] | bool:
    first = _value(given, "num_hash_layers", 3)
    checks.whole("num_hash_layers", first, at_least=0)
    words = words_of_layers(
        given,
        n_layers,
        "mlp_layer_types",
        (BY_TOKEN, BY_SCORE),
        lambda i: BY_TOKEN if i < first else BY_SCORE,
    )
    return [word == BY_TOKEN for word in words]


BY_TABLE = Where(
    ("mlp_layer_types", "num_hash_layers"),
    _read_choices,
    lambda each: {"mlp_layer_types": [BY_TOKEN if by_token else BY_SCORE for by_token in each]},
)


def _rotated(given: Mapping[str, Any]) -> int:
    """Returns how many features of a head are rotated."""
    width, share = given.get("head_dim", 512), given.get("partial_rotary_factor")
    checks.whole("head_dim", width)
    wide = given.get("qk_rope_head_dim")
    if share is None:
        return int(width / 8) if wide is None else wide
    checks.positive("partial_rotary_factor", share)
    return int(width * share)  # transformers then does not read the other key


def _in_kinds(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the file with settings for both kinds: if there is one object, it is that of layers with a compressor."""
    settings = given.get("rope_scaling") or given.get("rope_parameters") or {}
    nested = isinstance(settings, dict) and "main" in settings
    if not isinstance(settings, dict):
        raise unsupported(given, "rope_parameters", "it must be an object")
    each = settings if nested else {"compress": {k: v for k, v in settings.items() if k != "rope_theta"}}
    for own in each.values():
        share = own.get("partial_rotary_factor") if isinstance(own, dict) else None
        if share is not None:
            checks.positive("partial_rotary_factor", share)
            if int(given.get("head_dim", 512) * share) != _rotated(given):
                raise contradiction(
                    "partial_rotary_factor", share, "the rotated part of a head", _rotated(given)
                )
    each = {
        word: {k: v for k, v in own.items() if k != "partial_rotary_factor"} if isinstance(own, dict) else own
        for word, own in each.items()
    }
    if not nested and each["compress"].get("rope_type", each["compress"].get("type")) == "yarn":
        each["compress"].setdefault("attention_factor", 1.0)
    outside = {"partial_rotary_factor", "rope_scaling"}
    if nested:  # then transformers does not read the bases outside
        outside |= {
            str(kind.outside)
            for kind in ROPE.kinds.values()
            if isinstance(each.get(kind.word), dict) and each[kind.word].get("rope_theta") is not None
        }
    return {k: v for k, v in given.items() if k not in outside} | {"rope_parameters": each}


def read(form: Format, given: Mapping[str, Any], names: Any) -> dict[str, Any]:
    """Returns the streams."""
    return {"streams": Streams(**{ours: _value(given, *key) for ours, key in OF_STREAMS.items()})}


def is_v4(config: ModelConfig) -> bool:
    """Claims models with several streams, all of whose layers have this form of attention."""
    layers = [layer for layer, _ in config.layers(config.n_layers).values()]
    return config.streams is not None and all(
        isinstance(layer.attention.form, CompressedAttention) for layer in layers
    )


def write(config: ModelConfig) -> dict[str, Any]:
    """Returns what a file has beyond the tables."""
    forms: list[Any] = [config.layer(i).attention.form for i in range(config.n_layers)]
    words = [CHOSEN if form.indexer else ALL if form.compress > 1 else WINDOW for form in forms]
    first, indexer = forms[0], next((form.indexer for form in forms if form.indexer), None)
    rates = {word: usual for word, (_, usual) in RATES.items()}
    rates |= {word: form.compress for word, form in zip(words, forms, strict=True) if word in RATES}
    flat, share = flat_kinds(config)[0], first.d_rotated / config.d_head
    rope: dict[str, Any] = {
        name: {"rope_type": "default", "rope_theta": kind.base} for name, kind in ROPE.kinds.items()
    }
    for i, word in enumerate(words):
        rope["main" if word == WINDOW else "compress"] = ROPE.settings_of(flat[config.kind(i)])
    given = {theirs: getattr(config.streams, ours) for ours, (theirs, _) in OF_STREAMS.items()}
    for part, names in ((first, SIZES), (indexer, OF_INDEXER)):
        given |= {} if part is None else {theirs: getattr(part, ours) for ours, (theirs, _) in names.items()}
    return given | {
        "layer_types": words,
        "compress_rates": rates,
        "sliding_window": config.layer(0).attention.window,
        "partial_rotary_factor": share,
        "qk_rope_head_dim": first.d_rotated,
        "rope_theta": rope["main"]["rope_theta"],
        "compress_rope_theta": rope["compress"]["rope_theta"],
        "rope_parameters": {name: own | {"partial_rotary_factor": share} for name, own in rope.items()},
    }


def _numbers(ours: str, theirs: str) -> dict[str, Place | str]:
    """Returns the names of what makes numbers of the streams."""
    return {
        f"{ours}.numbers.W.weight": linear(f"{theirs}fn"),
        f"{ours}.numbers.scale": f"{theirs}scale",
        f"{ours}.numbers.bias": f"{theirs}base",
    }


def _compressor(ours: str, theirs: str) -> dict[str, Place | str]:
    return {
        f"{ours}.W_kv": linear(f"{theirs}.kv_proj"),
        f"{ours}.W_gate": linear(f"{theirs}.gate_proj"),
        ours: theirs,  # position_bias
        f"{ours}.norm": f"{theirs}.kv_norm",
    }


OURS, THEIRS = "decoder.blocks.#.attention", "model.layers.#.self_attn"
IN_FILES = (
    *(
        ("model.embed.", "model.embed_tokens."),
        ("model.head.", "lm_head."),
        ("model.hc_head_", "model.hc_head.hc_"),
    ),
    *((".attn.", ".self_attn."), (".ffn.", ".mlp."), (".attn_norm.", ".input_layernorm.")),
    *((".ffn_norm.", ".post_attention_layernorm."), (".hc_attn_", ".attn_hc."), (".hc_ffn_", ".ffn_hc.")),
    *(
        (".indexer.compressor.", ".compressor.indexer."),
        (".self_attn.indexer.", ".self_attn.compressor.indexer."),
    ),
    *(
        (".indexer.weights_proj.", ".indexer.scorer.weights_proj."),
        (".attn_sink", ".sinks"),
        (".ape", ".position_bias"),
    ),
    *((f".{inside}.norm.", f".{inside}.kv_norm.") for inside in ("self_attn", "compressor", "indexer")),
    *((".wq_a.", ".q_a_proj."), (".wq_b.", ".q_b_proj."), (".q_norm.", ".q_a_norm."), (".wkv.", ".kv_proj.")),
    *((".wgate.", ".gate_proj."), (".wo_a.", ".o_a_proj."), (".wo_b.", ".o_b_proj.")),
    *(
        (f".shared_experts.w{i}.", f".shared_experts.{of}_proj.")
        for i, of in ((1, "gate"), (2, "down"), (3, "up"))
    ),
    (".gate.bias", ".gate.e_score_correction_bias"),
)
"""Pieces of names in files, one after the other, and what takes their place in memory."""
DEEPSEEK_V4 = LLAMA.derive(
    model_type="deepseek_v4",
    architectures=("DeepseekV4ForCausalLM", "DeepseekV4Model"),
    fields={"n_kv_heads": 1, "d_head": 512, "d_ff": Key("moe_intermediate_size", 2048)},
    always={"rope_layout": "interleaved", "attention_bias": "none", "feedforward_bias": False},
    rope=ROPE,
    layers=layers,
    sparse=Sparse(
        experts={
            "n_experts": Key("n_routed_experts", 256),
            "top_k": Key("num_experts_per_tok", 6),
            "scores": "sqrt_softplus",
            "choice_bias": True,
            "sum_eps": 1e-20,
            "scale": Key("routed_scaling_factor", 1.5),
            "limit": Key("swiglu_limit", 10.0),
        },
        n_shared=Key("n_shared_experts", 1),
        by_token=BY_TABLE,
    ),
    must_be=(
        *RULES,
        NO_BIASES,
        NO_FEEDFORWARD_BIASES,
        (
            "num_key_value_heads",
            (1,),
            "all heads of this family read the same keys, which are also the values",
        ),
        ROUTING[1],
        ("scoring_func", ("sqrtsoftplus", None), "the root of a softplus makes the weights of experts"),
        ("norm_topk_prob", (True, None), "weights of experts are divided by their sum"),
        ("n_shared_experts", (1, None), "one expert more is for all tokens, as wide as the others"),
    ),
    read=read,
    write=write,
    said={ours: key for ours, (key, _) in OF_STREAMS.items()},
    also=(
        *("layer_types", "compress_ratios", "compress_rates", "compress_rate_csa", "compress_rate_hca"),
        *(name for of in (SIZES, OF_INDEXER, OF_STREAMS) for name, _ in of.values()),
        *(
            "sliding_window",
            "qk_rope_head_dim",
            "partial_rotary_factor",
            "mlp_layer_types",
            "num_hash_layers",
        ),
    ),
    aliases={"num_local_experts": "n_routed_experts", "intermediate_size": "moe_intermediate_size"},
    without_effect={
        **TRAINING,
        "expert_dtype": "says how the weights of experts were stored: names and types show it",
        "num_nextn_predict_layers": "belongs to layers that predict several tokens, which are left out",
    },
    claims=is_v4,
    names={
        **{name: None for name in LLAMA.layout.names if ".attention." in name},
        OURS: THEIRS,  # sinks
        f"{OURS}.W_q_down": linear(f"{THEIRS}.q_a_proj"),
        f"{OURS}.norm_q": f"{THEIRS}.q_a_norm",
        f"{OURS}.W_q_up": linear(f"{THEIRS}.q_b_proj"),
        f"{OURS}.W_kv": linear(f"{THEIRS}.kv_proj"),
        f"{OURS}.norm_kv": f"{THEIRS}.kv_norm",
        f"{OURS}.W_o_down": Place(f"{THEIRS}.o_a_proj", grouped=True),
        f"{OURS}.W_o_up": linear(f"{THEIRS}.o_b_proj"),
        f"{OURS}.indexer.W_q": linear(f"{THEIRS}.compressor.indexer.q_b_proj"),
        f"{OURS}.indexer.W_w": linear(f"{THEIRS}.compressor.indexer.scorer.weights_proj"),
        **_compressor(f"{OURS}.compressor", f"{THEIRS}.compressor"),
        **_compressor(f"{OURS}.indexer.compressor", f"{THEIRS}.compressor.indexer"),
        **_numbers("decoder.blocks.#.streams_attention", "model.layers.#.attn_hc."),
        **_numbers("decoder.blocks.#.streams_feedforward", "model.layers.#.ffn_hc."),
        **_numbers("decoder.streams", "model.hc_head.hc_"),
        **OF_EXPERTS,
        **named(MLP, W_gate="w1", W_up="w3", W_down="w2", shared="shared_experts"),
        CHOICE_BIAS.replace("choice_bias", "table"): f"{MLP}.gate.tid2eid",
    },
    packed=PACKED,
    others=IN_FILES,
    ignored=LLAMA.layout.ignored + r"|^(model\.)?mtp\.",
)
