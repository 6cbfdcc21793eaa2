"""Translates configurations field by field, from a config.json to a `ModelConfig` and back."""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from glassformer import _checks as checks
from glassformer.config import ROPE_BASE, Derived, ModelConfig
from glassformer.huggingface.files import CONFIG, Weights
from glassformer.huggingface.weights import check_sizes, has_own_head

# Their names for our activations; if there are several, the usual one comes first
ACTIVATION_WORDS = {
    "relu": "relu",
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
# T5 has both kinds in one field, and its "gated-gelu" uses the tanh.
T5_ACTIVATION_WORDS = (
    ACTIVATION_WORDS
    | {f"gated-{name}": gated for name, gated in GATES.items()}
    | {"gated-gelu": "geglu_tanh"}
)

NEEDED = "needed"
"""Takes the place of a default: the file must have this field."""


@dataclass(frozen=True)
class Format:
    """Describes how a family writes its config.json, as far as tables can express it; two functions do the rest.

    `fields` maps each of our fields to theirs and its default when the file omits it. `always` holds what the
    family cannot choose. `must_be` lists those of their fields that change the computation, with the only
    values that these models support, and why. `activation` is their field, its default, and their names for
    ours. `said` has any other names of theirs that messages use.
    """

    fields: Mapping[str, tuple[str, Any]]
    always: Mapping[str, Any]
    activation: tuple[str, str, Mapping[str, str]]
    must_be: tuple[tuple[str, Any, str], ...] = ()
    said: Mapping[str, str] = field(default_factory=dict)


GPT2 = Format(
    fields={
        "vocab_size": ("vocab_size", NEEDED),
        "context_length": ("n_positions", NEEDED),
        "d_model": ("n_embd", NEEDED),
        "n_layers": ("n_layer", NEEDED),
        "n_heads": ("n_head", NEEDED),
        "d_ff": ("n_inner", None),
        "norm_eps": ("layer_norm_epsilon", 1e-5),
        "dropout": ("resid_pdrop", 0.1),
    },
    always={},
    activation=("activation_function", "gelu_new", ACTIVATION_WORDS),
    must_be=(
        ("scale_attn_by_inverse_layer_idx", False, "every layer scales its scores alike here"),
        ("add_cross_attention", False, "a GPT-2 has no encoder to look at"),
    ),
)
BERT = Format(
    fields={
        "vocab_size": ("vocab_size", NEEDED),
        "context_length": ("max_position_embeddings", NEEDED),
        "d_model": ("hidden_size", NEEDED),
        "n_layers": ("num_hidden_layers", NEEDED),
        "n_heads": ("num_attention_heads", NEEDED),
        "d_ff": ("intermediate_size", NEEDED),
        "n_segments": ("type_vocab_size", 2),
        "norm_eps": ("layer_norm_eps", 1e-12),
        "dropout": ("hidden_dropout_prob", 0.1),
    },
    always={"family": "encoder", "embedding_norm": True, "norm_placement": "post"},
    activation=("hidden_act", "gelu", ACTIVATION_WORDS),
    must_be=(
        ("is_decoder", False, "a BERT sees both ways here"),
        ("add_cross_attention", False, "a BERT has no other encoder to look at"),
        ("position_embedding_type", "absolute", "a BERT has one learned vector for each position"),
        ("tie_word_embeddings", True, "a BERT predicts a token with its own embedding"),
    ),
)
T5 = Format(
    fields={
        "vocab_size": ("vocab_size", NEEDED),
        "context_length": ("n_positions", 512),  # the length it was trained on: there is no longest input
        "d_model": ("d_model", NEEDED),
        "n_layers": ("num_layers", NEEDED),
        "n_decoder_layers": ("num_decoder_layers", None),
        "n_heads": ("num_heads", NEEDED),
        "d_head": ("d_kv", NEEDED),
        "d_ff": ("d_ff", NEEDED),
        "t5_n_buckets": ("relative_attention_num_buckets", 32),
        "t5_max_distance": ("relative_attention_max_distance", 128),
        "norm_eps": ("layer_norm_epsilon", 1e-6),
        "dropout": ("dropout_rate", 0.1),
    },
    always={
        "family": "encoder-decoder",
        "positions": "t5",
        "norm": "rmsnorm",
        "attention_bias": "none",
        "attention_scale": 1.0,
        "feedforward_bias": False,
    },
    activation=("feed_forward_proj", "relu", T5_ACTIVATION_WORDS),
    must_be=(("is_encoder_decoder", True, "a T5 has both stacks here"),),
)
LLAMA = Format(
    fields={
        "vocab_size": ("vocab_size", NEEDED),
        "context_length": ("max_position_embeddings", NEEDED),
        "d_model": ("hidden_size", NEEDED),
        "n_layers": ("num_hidden_layers", NEEDED),
        "n_heads": ("num_attention_heads", NEEDED),
        "n_kv_heads": ("num_key_value_heads", None),
        "d_head": ("head_dim", None),
        "d_ff": ("intermediate_size", NEEDED),
        "norm_eps": ("rms_norm_eps", 1e-6),
    },
    always={"positions": "rope", "norm": "rmsnorm"},
    activation=("hidden_act", "silu", GATES),
    said={
        "rope_base": "rope_theta",
        "feedforward_bias": "mlp_bias",
    },
)
FORMATS = {
    "gpt2": GPT2,
    "bert": BERT,
    "t5": T5,
    "llama": LLAMA,
    "mistral": LLAMA,
    "qwen2": LLAMA,
    "qwen3": LLAMA,
}

# The names of architectures: first those with a head, starting with the usual one, then the one without
ARCHITECTURES = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Model"),
    "bert": ("BertModel", "BertForMaskedLM", "BertForPreTraining"),
    "t5": ("T5ForConditionalGeneration", "T5WithLMHeadModel", "T5Model"),
    **{
        kind: (f"{name}ForCausalLM", f"{name}Model")
        for kind, name in {"llama": "Llama", "mistral": "Mistral", "qwen2": "Qwen2", "qwen3": "Qwen3"}.items()
    },
}
WINDOW = 4096  # default for a Mistral; "sliding_window": null means none

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
}
FLOATS = [f.name for f in fields(ModelConfig) if f.type in (float, Derived[float])]
RAMP = {"rope_slow", "rope_fast", "rope_original_context"}


def config_from_hf(given: Mapping[str, Any], state: Mapping[str, Any] | None = None) -> ModelConfig:
    """Returns the model configuration that a config.json describes; the argument is its dictionary.

    The file does not say everything. If the weights are given, as `state` by Hugging Face's names, they
    decide whether a BERT has a pooler or a head, and whether a head that the file calls tied has its own
    weights after all.

    Dropout has a single rate here. Dropout inside attention, which the book's models lack, is left out; it
    matters only in training.

    Raises:
        ValueError: a field is missing or asks for something that these models do not support; the message
        names it.
    """
    return with_own_head(described(given, state), state)


def described(given: Mapping[str, Any], state: Mapping[str, Any] | None = None) -> ModelConfig:
    """Returns the result of `config_from_hf`, except that a head that the file calls tied stays tied."""
    kind: Any = given.get("model_type")
    checks.one_of("model_type", kind, tuple(READERS))
    if given.get("quantization_config") is not None:
        raise _unsupported(given, "quantization_config", "the weights must be floating-point numbers")
    settings: dict[str, Any] = {}
    try:
        settings = _as_tables_say(given) | READERS[kind](given, () if state is None else state)
        for name in FLOATS:
            value = settings.get(name)
            if type(value) is int and abs(value) < checks.LARGEST:
                settings[name] = float(value)  # JSON may contain 10000 for 10000.0
        config = ModelConfig(**settings)
        if isinstance(state, Weights):  # their shapes are known before any is read
            check_sizes(config, state.shapes)
    except (ValueError, TypeError) as error:  # in a file, it is the value that is wrong
        scaling = SCALINGS.get(settings.get("rope_scaling", "default"), {})
        raise ValueError(_in_their_words(str(error), FORMATS[kind], scaling)) from None
    return config


def with_own_head(config: ModelConfig, state: Mapping[str, Any] | None) -> ModelConfig:
    """Returns the config, changed to an untied head if the weights have their own."""
    if config.head == "tied" and state is not None and has_own_head(config, state):
        config = config.replace(head="untied")
    return config


def config_to_hf(config: ModelConfig) -> dict[str, Any]:
    """Returns a config.json, as a dictionary, that `config_from_hf` and the library transformers understand.

    Raises:
        ValueError: no family has such a model; the message names the fields that prevent it.
        TypeError: `config` is not a ModelConfig.
    """
    checks.instance("config", config, ModelConfig)
    match config.family:
        case "encoder":
            given = _to_bert(config)
        case "encoder-decoder":
            given = _to_t5(config)
        case _:
            given = _to_llama(config) if config.positions == "rope" else _to_gpt2(config)
    # Translate back to see whether anything was lost. LLaMAs have no dropout, and a pooler shows in its
    # weights. Without a ramp between slow and fast pairs, its ends mean nothing.
    back = config_from_hf(given)
    silent = {"dropout", "pooler"} | (RAMP if config.rope_scaling == "linear" else set())
    lost = [
        f"{f.name}={getattr(config, f.name)!r} (it has {getattr(back, f.name)!r})"
        for f in fields(ModelConfig)
        if f.name not in silent and getattr(back, f.name) != getattr(config, f.name)
    ]
    if lost:
        raise ValueError(f"{given['model_type']} of transformers has no {', '.join(lost)}")
    return given


def _in_their_words(message: str, form: Format, scaling: Mapping[str, tuple[str, Any]]) -> str:
    """Replaces our field names in a message by the file's names for them."""
    tables = (*form.fields.items(), *scaling.items())
    for ours, theirs in [*((ours, theirs) for ours, (theirs, _) in tables), *form.said.items()]:
        message = re.sub(rf"\b{ours}=", f"{theirs}=", message)
    return message


def _as_tables_say(given: Mapping[str, Any]) -> dict[str, Any]:
    """Reads the fields that `FORMATS` describes."""
    form = FORMATS[given["model_type"]]
    for theirs, value, why in form.must_be:
        if given.get(theirs, value) != value:
            raise _unsupported(given, theirs, why)
    settings = dict(form.always)
    for ours, (theirs, default) in form.fields.items():
        settings[ours] = needed(given, theirs) if default == NEEDED else given.get(theirs, default)
    theirs, default, words = form.activation
    name = given.get(theirs, default)
    if not isinstance(name, str) or name not in words:
        raise _unsupported(given, theirs, f"known are {', '.join(words)}")
    return settings | {"feedforward": words[name]}


def _from_gpt2(given: Mapping[str, Any], names: Any) -> dict[str, Any]:
    return {
        "attention_scale": None if _flag(given, "scale_attn_weights", True) else 1.0,
        "head": _head(given, tied=True),
    }


def _to_gpt2(config: ModelConfig) -> dict[str, Any]:
    return {
        "architectures": ["GPT2Model" if config.head == "none" else "GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": config.vocab_size,
        "n_positions": config.context_length,
        "n_embd": config.d_model,
        "n_layer": config.n_layers,
        "n_head": config.n_heads,
        "n_inner": config.d_ff,
        "scale_attn_weights": config.attention_scale != 1.0,
        "activation_function": _word(ACTIVATION_WORDS, config.feedforward),
        "layer_norm_epsilon": config.norm_eps,
        "tie_word_embeddings": config.head != "untied",
        "resid_pdrop": config.dropout,
        "embd_pdrop": config.dropout,
        "attn_pdrop": 0.0,
        "bos_token_id": None,
        "eos_token_id": None,
    }


def _from_bert(given: Mapping[str, Any], names: Any) -> dict[str, Any]:
    architecture = _architecture(given)
    head, pooler = architecture != "BertModel", architecture != "BertForMaskedLM"
    if names:
        head = any(name.startswith("cls.predictions.") for name in names)
        pooler = any(re.match(r"(bert\.)?pooler\.", name) for name in names)
    return {
        "head": "tied" if head else "none",
        "head_transform": head,
        "head_bias": head,
        "pooler": pooler,
    }


def _to_bert(config: ModelConfig) -> dict[str, Any]:
    if config.head == "none":
        architecture = "BertModel"
    else:
        architecture = "BertForPreTraining" if config.pooler else "BertForMaskedLM"
    return {
        "architectures": [architecture],
        "model_type": "bert",
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.context_length,
        "hidden_size": config.d_model,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "intermediate_size": config.d_ff,
        "type_vocab_size": config.n_segments,
        "layer_norm_eps": config.norm_eps,
        "hidden_act": _word(ACTIVATION_WORDS, config.feedforward),
        "hidden_dropout_prob": config.dropout,
        "attention_probs_dropout_prob": 0.0,
        "pad_token_id": None,
    }


def _from_t5(given: Mapping[str, Any], names: Any) -> dict[str, Any]:
    checks.whole("d_model", given["d_model"])
    head = _head(given, tied=True)
    # The first T5 models tie their head and scale its input; version 1.1 does neither. Older files state the
    # former, newer ones the latter.
    scaled = _flag(given, "scale_decoder_outputs", _flag(given, "tie_word_embeddings", True))
    return {
        "head": head,
        "head_scale": given["d_model"] ** -0.5 if scaled and head != "none" else 1.0,
    }


def _to_t5(config: ModelConfig) -> dict[str, Any]:
    return {
        "architectures": ["T5Model" if config.head == "none" else "T5ForConditionalGeneration"],
        "model_type": "t5",
        "is_encoder_decoder": True,
        "vocab_size": config.vocab_size,
        "n_positions": config.context_length,
        "d_model": config.d_model,
        "num_layers": config.n_layers,
        "num_decoder_layers": config.n_decoder_layers,
        "num_heads": config.n_heads,
        "d_kv": config.d_head,
        "d_ff": config.d_ff,
        "relative_attention_num_buckets": config.t5_n_buckets,
        "relative_attention_max_distance": config.t5_max_distance,
        "layer_norm_epsilon": config.norm_eps,
        "feed_forward_proj": _word(T5_ACTIVATION_WORDS, config.feedforward),
        "tie_word_embeddings": config.head != "untied",
        "scale_decoder_outputs": config.head_scale != 1.0,
        "dropout_rate": config.dropout,
        "pad_token_id": 0,  # T5's decoder starts with the padding id
        "decoder_start_token_id": 0,
        "eos_token_id": None,
    }


def _from_llama(given: Mapping[str, Any], names: Any) -> dict[str, Any]:
    """LLaMA, Mistral, Qwen2 and Qwen3: one layout with a few different choices."""
    kind = given["model_type"]
    window = _window(given)
    all_biased = kind in ("llama", "qwen3") and _flag(given, "attention_bias", False)
    return _rope(given) | {
        "sliding_window": window,
        "attention_bias": "all" if all_biased else "qkv" if kind == "qwen2" else "none",
        "qk_norm": kind == "qwen3",
        "feedforward_bias": kind == "llama" and _flag(given, "mlp_bias", False),
        "head": _head(given, tied=False),
    }


def _to_llama(config: ModelConfig) -> dict[str, Any]:
    if config.qk_norm:
        kind, name = "qwen3", "Qwen3"
    elif config.attention_bias == "qkv":
        kind, name = "qwen2", "Qwen2"
    elif config.sliding_window is not None or config.d_model % config.n_heads:
        kind, name = "mistral", "Mistral"  # transformers wants a LLaMA's width to be divisible by its heads
    else:
        kind, name = "llama", "Llama"
    scaling = config.rope_scaling
    if scaling == "linear" and config.rope_interpolation == 1:
        scaling = "default"
    rope = {"rope_type": scaling, "rope_theta": config.rope_base}
    rope |= {theirs: getattr(config, ours) for ours, (theirs, _) in SCALINGS[scaling].items()}
    window = {"sliding_window": config.sliding_window} if kind == "mistral" else {}
    return {
        "architectures": [f"{name}Model" if config.head == "none" else f"{name}ForCausalLM"],
        "model_type": kind,
        "vocab_size": config.vocab_size,
        "max_position_embeddings": config.context_length,
        "hidden_size": config.d_model,
        "num_hidden_layers": config.n_layers,
        "num_attention_heads": config.n_heads,
        "num_key_value_heads": config.n_kv_heads,
        "head_dim": config.d_head,
        "intermediate_size": config.d_ff,
        "rope_parameters": rope,
        "rope_theta": config.rope_base,  # where transformers 4 looks for both
        "rope_scaling": None if scaling == "default" else rope,
        "rms_norm_eps": config.norm_eps,
        "attention_bias": config.attention_bias == "all",
        "mlp_bias": config.feedforward_bias,
        "hidden_act": _word(GATES, config.feedforward),
        "tie_word_embeddings": config.head == "tied",
        "bos_token_id": None,
        "eos_token_id": None,
    } | window


READERS: dict[str, Callable[[Mapping[str, Any], Any], dict[str, Any]]] = {
    "gpt2": _from_gpt2,
    "bert": _from_bert,
    "t5": _from_t5,
    "llama": _from_llama,
    "mistral": _from_llama,
    "qwen2": _from_llama,
    "qwen3": _from_llama,
}


def _rope(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the base of the rotary positions and how they are stretched."""
    # Since transformers 5, everything is in rope_parameters; before, rope_scaling had the settings that are
    # not standard. If a file has both, only the older one counts.
    where = "rope_scaling" if given.get("rope_scaling") else "rope_parameters"
    rope = given.get(where) or {}
    if not isinstance(rope, dict) or any(isinstance(entry, dict) for entry in rope.values()):
        raise _unsupported(given, where, "it must be one object, for all layers")
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind not in tuple(SCALINGS):
        raise _unsupported(given, where, f"known are {', '.join(SCALINGS)}")
    for settings, name in ((rope, where), (given, "")):
        if settings.get("partial_rotary_factor", 1.0) != 1:
            raise _unsupported(given, name or "partial_rotary_factor", "every head is rotated as a whole")
    found = {"rope_base": rope.get("rope_theta", given.get("rope_theta", ROPE_BASE))}
    if kind != "default":
        found["rope_scaling"] = kind
    for ours, (theirs, default) in SCALINGS[kind].items():
        value = rope.get(theirs)
        if value is None and default == NEEDED:
            raise _unsupported(given, where, f"{kind} positions need a {theirs}, which is missing")
        found[ours] = default if value is None else value
    if "rope_original_context" in found and "original_max_position_embeddings" in given:
        found["rope_original_context"] = given["original_max_position_embeddings"]  # as in transformers
    if kind == "yarn":
        if rope.get("truncate", True) is not True:
            raise _unsupported(given, where, "the ramp begins and ends at a whole pair")
        if found["rope_attention_factor"] is None:
            found["rope_attention_factor"] = _attention_factor(rope)
    return found


def _attention_factor(rope: Mapping[str, Any]) -> float | None:
    """Returns the factor that two other numbers give, as in DeepSeek's files; None: it is the usual one."""
    above, below = rope.get("mscale"), rope.get("mscale_all_dim")
    if not (above and below):
        return None
    for name, value in (("factor", rope["factor"]), ("mscale", above), ("mscale_all_dim", below)):
        checks.not_negative(name, value)
    longer = math.log(max(rope["factor"], 1))
    return (0.1 * above * longer + 1.0) / (0.1 * below * longer + 1.0)


def _window(given: Mapping[str, Any]) -> int | None:
    """Returns how many positions a query of a Mistral sees, or None.

    A Qwen uses its window only in some layers; it is refused unless the window covers the context.
    """
    context_length = given["max_position_embeddings"]
    checks.whole("max_position_embeddings", context_length)
    is_mistral = given["model_type"] == "mistral"
    slides = is_mistral or _flag(given, "use_sliding_window", False)
    window = given.get("sliding_window", WINDOW) if slides else None
    if window is None:
        return None
    checks.whole("sliding_window", window)
    if is_mistral:
        return window
    if window < context_length:
        raise _unsupported(
            given,
            "sliding_window",
            f"it would apply to some layers only. Setting max_position_embeddings to {window} instead of "
            f"{context_length} in {CONFIG} makes the model correct for texts up to that length",
        )
    return None


def _head(given: Mapping[str, Any], *, tied: bool) -> str:
    """Returns "none", "tied" or "untied" by the architecture's name; uses `tied` if the file does not say."""
    if _architecture(given) == ARCHITECTURES[given["model_type"]][-1]:
        return "none"
    return "tied" if _flag(given, "tie_word_embeddings", tied) else "untied"


def _architecture(given: Mapping[str, Any]) -> str:
    """Returns the architecture that the file names, or the usual one if it names none."""
    known = ARCHITECTURES[given["model_type"]]
    names = given.get("architectures") or [known[0]]
    if not isinstance(names, list) or names[0] not in known:
        raise _unsupported(
            given, "architectures", f"for this model_type it must be one of {', '.join(known)}"
        )
    return names[0]


def _word(ours: Mapping[str, str], feedforward: str) -> str:
    """Returns their name for that feed-forward network; if none, any, because translating back shows the loss."""
    return next((theirs for theirs in ours if ours[theirs] == feedforward), next(iter(ours)))


def needed(given: Mapping[str, Any], name: str) -> Any:
    """Returns the value of a required field."""
    if given.get(name) is None:
        raise ValueError(f"{name} is missing")
    return given[name]


def _flag(given: Mapping[str, Any], name: str, default: bool) -> bool:
    """Returns a field that must be true or false."""
    value = given.get(name, default)
    checks.flag(name, value)
    return value


def _unsupported(given: Mapping[str, Any], name: str, why: str) -> ValueError:
    return ValueError(f"{name}={given.get(name)!r} is not supported: {why}")
