"""Translates configurations field by field, from a config.json to a `ModelConfig` and back."""

import math
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from glassformer import _checks as checks
from glassformer.config import ROPE_BASE, Derived, ModelConfig
from glassformer.huggingface.files import CONFIG, Weights
from glassformer.huggingface.keys import (
    ALL,
    ROPE_KEYS,
    RULES,
    WITHOUT_EFFECT,
    Rule,
    check_known,
    check_rules,
    contradiction,
    type_is_missing,
    unsupported,
    without,
)
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
    ours. `said` has any other names of theirs that messages use. `also` lists the keys that a function reads,
    `aliases` other names of keys, and `without_effect` keys that change no number, and why.
    """

    fields: Mapping[str, tuple[str, Any]]
    always: Mapping[str, Any]
    activation: tuple[str, str, Mapping[str, str]]
    must_be: tuple[Rule, ...] = ()
    said: Mapping[str, str] = field(default_factory=dict)
    also: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)
    without_effect: Mapping[str, str] = field(default_factory=dict)

    @property
    def keys(self) -> list[str]:
        """Returns the keys of this family's files that are accounted for, besides `COMMON`."""
        return [
            *(theirs for theirs, _ in self.fields.values()),
            *(self.activation[0], *self.also, *self.aliases),
            *(name for name, *_ in self.must_be),
            *self.without_effect,
        ]


COMMON = ("model_type", "architectures", *(name for name, *_ in RULES), *WITHOUT_EFFECT)
"""The keys that are accounted for in the files of every family."""


NOT_CAUSAL = ("is_causal", (True,), "every position sees itself and what comes before it")
NO_WINDOW: tuple[Rule, ...] = (
    ("sliding_window", (None,), "no layer of this family has a window"),
    ("use_sliding_window", (False, None), "no layer of this family has a window"),
    ("layer_types", ("full_attention", None), "no layer of this family has a window"),
)
ONE_STACK = ("is_encoder_decoder", (False, None), "this family has one stack of blocks")
NO_CROSS_ATTENTION = ("add_cross_attention", (False, None), "this family has no encoder to look at")


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
        ("scale_attn_by_inverse_layer_idx", (False,), "every layer scales its scores alike here"),
        NO_CROSS_ATTENTION,
        NOT_CAUSAL,
        ("n_special", (0, None), "there are no tokens beyond the vocabulary"),
        *NO_WINDOW,
        ONE_STACK,
    ),
    also=("scale_attn_weights", "tie_word_embeddings"),
    aliases={
        "hidden_size": "n_embd",
        "max_position_embeddings": "n_positions",
        "num_attention_heads": "n_head",
        "num_hidden_layers": "n_layer",
        "n_ctx": "n_positions",
        "embedding_size": "n_embd",
        "emb_size": "n_embd",
    },
    without_effect={"is_decoder": "a GPT-2 is always a decoder"}
    | dict.fromkeys(
        (
            "summary_activation",
            "summary_first_dropout",
            "summary_proj_to_labels",
            "summary_type",
            "summary_use_proj",
        ),
        "concerns a head for classes, which these models do not have",
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
        ("is_decoder", (False, None), "a BERT sees both ways here"),
        ("is_causal", (False, None), "a BERT sees both ways here"),
        NO_CROSS_ATTENTION,
        ("position_embedding_type", ("absolute", None), "a BERT has one learned vector for each position"),
        ("tie_word_embeddings", (True,), "a BERT predicts a token with its own embedding"),
        *NO_WINDOW,
        ONE_STACK,
    ),
    aliases={"embedding_size": "hidden_size", "emb_size": "hidden_size"},
    without_effect=dict.fromkeys(
        (
            "directionality",
            "pooler_fc_size",
            "pooler_num_attention_heads",
            "pooler_num_fc_layers",
            "pooler_size_per_head",
            "pooler_type",
        ),
        "is left over from the files of TensorFlow",
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
    must_be=(("is_encoder_decoder", (True,), "a T5 has both stacks here"), NOT_CAUSAL, *NO_WINDOW),
    also=("tie_word_embeddings", "scale_decoder_outputs", "dense_act_fn", "is_gated_act"),
    aliases={
        "hidden_size": "d_model",
        "num_attention_heads": "num_heads",
        "num_hidden_layers": "num_layers",
        "head_dim": "d_kv",
        "embedding_size": "d_model",
        "emb_size": "d_model",
    },
    without_effect={
        "is_decoder": "only one of the two stacks is a decoder, whatever the file says",
        "add_cross_attention": "a T5's decoder always has it",
    },
)
LLAMAS: tuple[Rule, ...] = (NOT_CAUSAL, ONE_STACK, NO_CROSS_ATTENTION)
NO_BIASES = ("attention_bias", (False, None), "no matrix of attention has biases in this family")
NO_FEEDFORWARD_BIASES = ("mlp_bias", (False, None), "no feed-forward matrix has biases in this family")
SCALES = {"attention_multiplier": -0.5, "query_pre_attn_scalar": 1.0}
"""Keys that set the scale of scores in other families: the power of a head's width that changes nothing here."""

WINDOWS = ("sliding_window", "use_sliding_window", "max_window_layers", "layer_types")
ROPE = ("rope_parameters", "rope_scaling", "rope_theta", "original_max_position_embeddings")
ALL_LLAMAS_READ = ("tie_word_embeddings", *ROPE, *SCALES)
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
    must_be=(*LLAMAS, *NO_WINDOW),
    aliases={"embedding_size": "hidden_size", "emb_size": "hidden_size"},
    also=(*ALL_LLAMAS_READ, "attention_bias", "mlp_bias"),
    without_effect={
        "is_decoder": "these models are always decoders",
        "max_window_layers": "there is no window whose layers it could choose",
    },
)
MISTRAL = replace(
    LLAMA,
    fields={**LLAMA.fields, "n_kv_heads": ("num_key_value_heads", 8)},
    must_be=(*LLAMAS, NO_BIASES, NO_FEEDFORWARD_BIASES),
    also=(*ALL_LLAMAS_READ, "sliding_window", "layer_types"),
    without_effect={"is_decoder": "these models are always decoders"},
)
QWEN2 = replace(
    LLAMA,
    fields={**LLAMA.fields, "n_kv_heads": ("num_key_value_heads", 32)},
    must_be=(*LLAMAS, NO_FEEDFORWARD_BIASES),
    also=(*ALL_LLAMAS_READ, *WINDOWS),
    without_effect={
        "is_decoder": "these models are always decoders",
        "attention_bias": "queries, keys and values of a Qwen2 always have biases, and its output never",
    },
)
QWEN3 = replace(
    QWEN2,
    fields={**QWEN2.fields, "d_head": ("head_dim", 128)},
    also=(*QWEN2.also, "attention_bias"),
    without_effect={"is_decoder": "these models are always decoders"},
)
FORMATS = {
    "gpt2": GPT2,
    "bert": BERT,
    "t5": T5,
    "llama": LLAMA,
    "mistral": MISTRAL,
    "qwen2": QWEN2,
    "qwen3": QWEN3,
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
WINDOW = 4096  # default for a Mistral and a Qwen; "sliding_window": null means none
WHOLE_LAYERS = 28  # default of max_window_layers for a Qwen: layers without a window

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


def config_from_hf(
    given: Mapping[str, Any], state: Mapping[str, Any] | None = None, *, ignore: Collection[str] = ()
) -> ModelConfig:
    """Returns the model configuration that a config.json describes; the argument is its dictionary.

    The file does not say everything. If the weights are given, as `state` by Hugging Face's names, they
    decide whether a BERT has a pooler or a head, and whether a head that the file calls tied has its own
    weights after all. The keys in `ignore` count as if the file did not have them, and "all" stands for those that
    are not known here, which `unknown_keys` tells.

    Dropout has a single rate here. Dropout inside attention, which the book's models lack, is left out; it
    matters only in training.

    Raises:
        ValueError: a key is missing, unknown, contradicts another, or asks for something that these models do
            not support; the message names it.
        TypeError: `ignore` is not a list of names.
    """
    return with_own_head(described(given, state, ignore), state)


def unknown_keys(given: Mapping[str, Any]) -> list[str]:
    """Returns the keys of a config.json that are on no list of its family; one in an object as "rope_scaling.new"."""
    kind = given.get("model_type")
    if not isinstance(kind, str) or kind not in FORMATS:
        return []
    known = {*COMMON, *FORMATS[kind].keys}
    inner = [
        f"{where}.{key}"
        for where in ("rope_parameters", "rope_scaling")
        if where in known and isinstance(given.get(where), dict)
        for key, value in given[where].items()
        if key not in ROPE_KEYS
        and not isinstance(value, dict)  # an object for each kind of layer is refused anyway
    ]
    return [key for key in given if key not in known] + inner


def described(
    given: Mapping[str, Any], state: Mapping[str, Any] | None = None, ignore: Collection[str] = ()
) -> ModelConfig:
    """Returns the result of `config_from_hf`, except that a head that the file calls tied stays tied."""
    given = without(given, ignore)
    if ALL in ignore:
        given = without(given, unknown_keys(given))
    kind: Any = given.get("model_type")
    if kind not in tuple(READERS):
        raise ValueError(type_is_missing(given, tuple(READERS)))
    given = _one_name_each(given, FORMATS[kind])
    check_rules(given, (*RULES, *FORMATS[kind].must_be, *_scales(given)))
    unknown = unknown_keys(given)
    settings: dict[str, Any] = {}
    config = None
    try:
        settings = _as_tables_say(given) | READERS[kind](given, () if state is None else state)
        for name in FLOATS:
            value = settings.get(name)
            if type(value) is int and abs(value) < checks.LARGEST:
                settings[name] = float(value)  # JSON may contain 10000 for 10000.0
        if not unknown:  # otherwise, they are a better reason than what follows from their absence
            config = ModelConfig(**settings)
            if isinstance(state, Weights):  # their shapes are known before any is read
                check_sizes(config, state.shapes)
    except (ValueError, TypeError) as error:  # in a file, it is the value that is wrong
        scaling = SCALINGS.get(settings.get("rope_scaling", "default"), {})
        raise ValueError(_in_their_words(str(error), FORMATS[kind], scaling)) from None
    check_known(given, unknown, ignore)
    assert config is not None  # a file with unknown keys has just been refused
    return config


def _one_name_each(given: Mapping[str, Any], form: Format) -> dict[str, Any]:
    """Returns the file with its usual names for keys that have several, after checking that they agree."""
    found = dict(given)
    for alias, name in form.aliases.items():
        value, other = found.get(alias), found.get(name)
        if value is not None and other is not None and value != other:
            raise contradiction(name, other, alias, value)
        if other is None and value is not None:
            found[name] = value
    return found


def _scales(given: Mapping[str, Any]) -> list[Rule]:
    """Returns the rules for keys that set the scale of scores: only 1/√K, for heads of K numbers, is computed."""
    width = given.get("head_dim", FORMATS[given["model_type"]].fields.get("d_head", ("", None))[1])
    size, heads = given.get("hidden_size"), given.get("num_attention_heads")
    if width is None and type(size) is int and type(heads) is int and heads > 0:
        width = size // heads
    return [
        (name, (None,), "scores are divided by the square root of a head's width")
        for name, power in SCALES.items()
        if name in FORMATS[given["model_type"]].also
        and not (type(width) is int and width > 0 and _close(given.get(name), width**power))
    ]


def _close(value: Any, other: float) -> bool:
    return type(value) in (int, float) and abs(value / other - 1) <= 1e-6


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
    kind = _family_of(config)
    form = FORMATS[kind]
    theirs, _, words = form.activation
    given = {
        "architectures": [ARCHITECTURES[kind][-1 if config.head == "none" else 0]],
        "model_type": kind,
        **{name: getattr(config, ours) for ours, (name, _) in form.fields.items()},
        theirs: _word(words, config.feedforward),
        **WRITERS[kind](config),
    }
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
        raise ValueError(f"{kind} of transformers has no {', '.join(lost)}")
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
    settings = dict(form.always)
    for ours, (theirs, default) in form.fields.items():
        settings[ours] = needed(given, theirs) if default == NEEDED else given.get(theirs, default)
    theirs, default, words = form.activation
    name = given.get(theirs, default)
    if not isinstance(name, str) or name not in words:
        raise unsupported(given, theirs, f"known are {', '.join(words)}")
    return settings | {"feedforward": words[name]}


def _from_gpt2(given: Mapping[str, Any], names: Any) -> dict[str, Any]:
    return {
        "attention_scale": None if _flag(given, "scale_attn_weights", True) else 1.0,
        "head": _head(given, tied=True),
    }


def _to_gpt2(config: ModelConfig) -> dict[str, Any]:
    return {
        "scale_attn_weights": config.attention_scale != 1.0,
        "tie_word_embeddings": config.head != "untied",
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
    headed = "BertForPreTraining" if config.pooler else "BertForMaskedLM"
    return {
        "architectures": ["BertModel" if config.head == "none" else headed],
        "attention_probs_dropout_prob": 0.0,
        "pad_token_id": None,
    }


def _from_t5(given: Mapping[str, Any], names: Any) -> dict[str, Any]:
    checks.whole("d_model", given["d_model"])
    if given.get("tie_word_embeddings") is None:  # null is as if it were absent
        given = without(given, ["tie_word_embeddings"])
    head = _head(given, tied=True)
    _check_activation_of_t5(given)
    # The first T5 models tie their head and scale its input; version 1.1 does neither. Older files state the
    # former, newer ones the latter.
    scaled = _flag(given, "scale_decoder_outputs", _flag(given, "tie_word_embeddings", True))
    return {
        "head": head,
        "head_scale": given["d_model"] ** -0.5 if scaled and head != "none" else 1.0,
    }


def _check_activation_of_t5(given: Mapping[str, Any]) -> None:
    """Checks that the two keys that transformers derives from `feed_forward_proj`, and lets overrule it, agree."""
    name, default, _ = T5.activation
    word = given.get(name, default)
    usual = "gelu_new" if word == "gated-gelu" else word.removeprefix("gated-")
    for derived, value in (("is_gated_act", word.startswith("gated-")), ("dense_act_fn", usual)):
        if given.get(derived) not in (None, value):
            raise contradiction(name, word, derived, given[derived])


def _to_t5(config: ModelConfig) -> dict[str, Any]:
    return {
        "is_encoder_decoder": True,
        "tie_word_embeddings": config.head != "untied",
        "scale_decoder_outputs": config.head_scale != 1.0,
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
    kind = _family_of(config)
    scaling = config.rope_scaling
    if scaling == "linear" and config.rope_interpolation == 1:
        scaling = "default"
    rope = {"rope_type": scaling, "rope_theta": config.rope_base}
    rope |= {theirs: getattr(config, ours) for ours, (theirs, _) in SCALINGS[scaling].items()}
    window: dict[str, Any] = {"sliding_window": config.sliding_window} if kind == "mistral" else {}
    if kind.startswith("qwen") and config.sliding_window is not None:
        window = {"sliding_window": config.sliding_window, "use_sliding_window": True, "max_window_layers": 0}
    return {
        "rope_parameters": rope,
        "rope_theta": config.rope_base,  # where transformers 4 looks for both
        "rope_scaling": None if scaling == "default" else rope,
        "attention_bias": config.attention_bias == "all" and kind in ("llama", "qwen3"),
        "mlp_bias": config.feedforward_bias and kind == "llama",
        "tie_word_embeddings": config.head == "tied",
        "bos_token_id": None,
        "eos_token_id": None,
    } | window


LLAMA_LIKE = ("llama", "mistral", "qwen2", "qwen3")
READERS: dict[str, Callable[[Mapping[str, Any], Any], dict[str, Any]]] = {
    "gpt2": _from_gpt2,
    "bert": _from_bert,
    "t5": _from_t5,
    **dict.fromkeys(LLAMA_LIKE, _from_llama),
}
"""What each family's file says beyond the tables, as fields of ours; the weights may decide."""

WRITERS: dict[str, Callable[[ModelConfig], dict[str, Any]]] = {
    "gpt2": _to_gpt2,
    "bert": _to_bert,
    "t5": _to_t5,
    **dict.fromkeys(LLAMA_LIKE, _to_llama),
}
"""What each family's file has beyond the tables."""


def _family_of(config: ModelConfig) -> str:
    """Returns the family whose file can describe a model, if any can."""
    if config.family != "decoder":
        return {"encoder": "bert", "encoder-decoder": "t5"}[config.family]
    if config.positions != "rope":
        return "gpt2"
    if config.qk_norm:
        return "qwen3"
    if config.attention_bias == "qkv":
        return "qwen2"
    # transformers wants a LLaMA's width to be divisible by its heads
    return "mistral" if config.sliding_window is not None or config.d_model % config.n_heads else "llama"


def _rope(given: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the base of the rotary positions and how they are stretched.

    Since transformers 5, everything is in rope_parameters; before, rope_scaling had the settings that are not
    standard. A file with both must say the same twice.
    """
    places = [name for name in ("rope_scaling", "rope_parameters") if given.get(name)] or ["rope_parameters"]
    found = [_rope_in(given, place) for place in places]
    if found[0] != found[-1]:
        raise contradiction(*(each for place in places for each in (place, given[place])))
    return found[0]


def _rope_in(given: Mapping[str, Any], where: str) -> dict[str, Any]:
    rope = given.get(where) or {}
    if not isinstance(rope, dict) or any(isinstance(entry, dict) for entry in rope.values()):
        raise unsupported(given, where, "it must be one object, for all layers")
    kind = rope.get("rope_type", rope.get("type", "default"))
    if kind not in tuple(SCALINGS):
        raise unsupported(given, where, f"known are {', '.join(SCALINGS)}")
    if rope.get("type") not in (None, kind):
        raise contradiction("rope_type", kind, "type", rope["type"])
    if rope.get("partial_rotary_factor") not in (None, 1):
        raise unsupported(given, where, "every head is rotated as a whole")
    outside = ["rope_theta"] + (["original_max_position_embeddings"] if kind in ("llama3", "yarn") else [])
    for name in outside:
        inner, outer = rope.get(name), given.get(name)
        if inner is not None and outer is not None and inner != outer:
            raise contradiction(name, outer, f"{where}.{name}", inner)
    found = {"rope_base": rope.get("rope_theta", given.get("rope_theta", ROPE_BASE))}
    if kind != "default":
        found["rope_scaling"] = kind
    for ours, (theirs, default) in SCALINGS[kind].items():
        value = rope.get(theirs)
        if value is None and default == NEEDED:
            raise unsupported(given, where, f"{kind} positions need a {theirs}, which is missing")
        found[ours] = default if value is None else value
    if "rope_original_context" in found and "original_max_position_embeddings" in given:
        found["rope_original_context"] = given["original_max_position_embeddings"]  # as in transformers
    if kind == "yarn":
        if rope.get("truncate", True) is not True:
            raise unsupported(given, where, "the ramp begins and ends at a whole pair")
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
    """Returns how many positions a query sees in every layer, or None.

    All layers of a Mistral have a window or none has. Of a Qwen, those from `max_window_layers` on have one, or
    those that `layer_types` lists. If some have one, the window must cover the context, so that it changes nothing.
    """
    context_length = given["max_position_embeddings"]
    checks.whole("max_position_embeddings", context_length)
    n_layers = given["num_hidden_layers"]
    checks.whole("num_hidden_layers", n_layers)
    kind = given["model_type"]
    slides = kind == "mistral" or (kind != "llama" and _flag(given, "use_sliding_window", False))
    window = given.get("sliding_window", WINDOW) if slides else None
    n_whole = n_layers if window is None else 0
    if window is not None:
        checks.whole("sliding_window", window)
        if kind != "mistral":
            n_whole = given.get("max_window_layers", WHOLE_LAYERS)
            checks.whole("max_window_layers", n_whole, at_least=0)
    types = given.get("layer_types")
    if types is not None:
        if not isinstance(types, list) or any(
            kind_of_layer not in ("full_attention", "sliding_attention") for kind_of_layer in types
        ):
            raise unsupported(given, "layer_types", "known are full_attention and sliding_attention")
        if len(types) != n_layers:
            raise contradiction("num_hidden_layers", n_layers, "the length of layer_types", len(types))
        n_windows = types.count("sliding_attention")
        if (n_windows and window is None) or (
            kind == "mistral" and window is not None and n_windows < n_layers
        ):
            raise contradiction("the number of windows in layer_types", n_windows, "sliding_window", window)
    else:
        n_windows = max(n_layers - n_whole, 0)
    if n_windows == 0 or n_windows == n_layers:
        return window if n_windows else None
    if window < context_length:
        raise unsupported(
            given,
            "sliding_window",
            f"it applies to {n_windows} of the {n_layers} layers, but here all have a window or none has. Setting "
            f"max_position_embeddings to {window} instead of {context_length} in {CONFIG} makes the model correct for "
            "texts up to that length",
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
        raise unsupported(given, "architectures", f"for this model_type it must be one of {', '.join(known)}")
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
