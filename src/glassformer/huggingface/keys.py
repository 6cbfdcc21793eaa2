"""Accounts for every key of a file: what is read, what has no effect and why, and what must not be otherwise.

The files in `families` list the keys of each family; what all families share is listed here. A key on none of these
lists may change what a model computes, so it is never passed over in silence.
"""

import shlex
from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from glassformer import _checks as checks

Rule = tuple[str, tuple[Any, ...], str]
"""A key, the values with which it changes nothing (a list of them changes nothing either), and why no other is run."""

NEEDED = "needed"
"""Takes the place of a default: the file must have this key."""


class Key(NamedTuple):
    """A key of a file, what it is if the file does not have it, and how its value becomes ours.

    A file may also have null, which is None. Numbers are raised to `power`: -0.5 for a width whose square root
    divides. `words` has our values by theirs. Names inside of the object for rotary positions begin with "rope.".
    """

    name: str
    default: Any = NEEDED
    power: float = 1.0
    words: Mapping[Any, Any] | None = None


def with_default(key: Any, default: Any) -> Any:
    """Returns a key with this default; a whole key, or None, takes its place."""
    return default if default is None or isinstance(default, Key) else key._replace(default=default)


ELSEWHERE = "; chapter 15 draws where some of today's models differ"

SHOWN = 8  # how many unknown keys a message names at most

ALL = "all"
"""In `ignore`, it stands for every key that is not known."""

LONGEST_WAY_ON = 400  # characters, or the middle of the message would be left out


def each_of(value: Any, keys: str) -> dict[str, Any]:
    """Returns all these keys with that value, such as the reason why they have no effect."""
    return dict.fromkeys(keys.split(), value)


DRAWING = each_of(
    "says how to draw a text, as the arguments of `generate` do",
    "do_sample early_stopping length_penalty max_length max_new_tokens max_time min_p num_beams num_beam_groups "
    "num_return_sequences repetition_penalty temperature top_k top_p diversity_penalty",
)
TOKENS = each_of(
    "names a token, which `stop_ids` and `start_id` return if it ends or begins a text",
    "bos_token_id eos_token_id pad_token_id sep_token_id decoder_start_token_id eos_token_ids",
)
OUTPUT = each_of(
    "says what else transformers returns",
    "output_attentions output_hidden_states output_past output_scores output_logits return_dict "
    "return_dict_in_generate tie_last_hidden_states torchscript use_cache",
)

WITHOUT_EFFECT = (
    each_of(
        "says where the file comes from",
        "_name_or_path name_or_path _commit_hash transformers_version transformers.js_config tokenizer_class "
        "is_llama_config unsloth_fixed unsloth_version max_sequence_length",
    )
    | each_of(
        "says how the weights were stored: `load` is told what to compute in",
        "dtype torch_dtype use_bfloat16",
    )
    | each_of(
        "says how transformers computes the same numbers",
        "attn_implementation _attn_implementation _attn_implementation_autoset _attn_implementation_internal "
        "_experts_implementation_internal _flash_attn_2_enabled chunk_size_feed_forward gradient_checkpointing "
        "pretraining_tp reorder_and_upcast_attn tf_legacy_loss xla_device",
    )
    | each_of(
        "concerns training only",
        "attention_dropout attention_probs_dropout_prob attn_pdrop embd_pdrop initializer_factor initializer_range",
    )
    | each_of(
        "concerns heads and tasks that these models do not have",
        "classifier_dropout cross_attention_hidden_size finetuning_task id2label label2id num_labels _num_labels "
        "prefix predict_special_tokens problem_type task_specific_params tie_encoder_decoder",
    )
    | TOKENS
    | OUTPUT
    | DRAWING
    | each_of(
        "says how to draw a text, and transformers no longer reads it from here",
        "bad_words_ids begin_suppress_tokens encoder_no_repeat_ngram_size encoder_repetition_penalty epsilon_cutoff "
        "eta_cutoff exponential_decay_length_penalty forced_bos_token_id forced_eos_token_id min_length "
        "no_repeat_ngram_size remove_invalid_values suppress_tokens typical_p "
        "assistant_confidence_threshold assistant_lookbehind num_assistant_tokens num_assistant_tokens_schedule "
        "target_lookbehind",
    )
)
"""Keys of config.json that change no number of any family, and why."""

_NO_EXPERTS = "every block has one feed-forward network, not several experts"
_NO_FACTOR = "a model of this family has no such factor"
_WHOLE_HEADS = "every head is rotated as a whole"
_NOT_EACH = "no single layer has settings of its own here"
_NO_CAP = "a model of this family has no cap on scores or logits"
_POSITIONS = "no layer of this family is without positions"
_SIDE_BY_SIDE = "attention and the feed-forward network follow each other here"
RULES: tuple[Rule, ...] = (
    ("quantization", (None,), "these are integers of a few bits, as MLX stores them"),
    ("num_experts", (0, None), _NO_EXPERTS),
    ("num_local_experts", (0, None), _NO_EXPERTS),
    ("n_routed_experts", (0, None), _NO_EXPERTS),
    ("moe_num_experts", (0, None), _NO_EXPERTS),
    ("kv_lora_rank", (0, None), "keys and values are computed from the stream itself here"),
    ("embedding_multiplier", (1, None), _NO_FACTOR),
    ("residual_multiplier", (1, None), _NO_FACTOR),
    ("logits_scaling", (1, None), _NO_FACTOR),
    ("logit_scale", (1, None), _NO_FACTOR),
    ("attn_logit_softcapping", (None,), _NO_CAP),
    ("final_logit_softcapping", (None,), _NO_CAP),
    ("parallel_attn", (False, None), _SIDE_BY_SIDE),
    ("use_parallel_residual", (False, None), _SIDE_BY_SIDE),
    ("partial_rotary_factor", (1, None), _WHOLE_HEADS),
    ("rotary_pct", (1, None), _WHOLE_HEADS),
    ("rope_interleaved", (False, None), "the two numbers of a pair lie half a head apart"),
    ("use_mrope", (False, None), "positions are numbers, not places in an image"),
    ("no_rope_layers", (1, None), _POSITIONS),
    ("no_rope_layer_interval", (0, None), _POSITIONS),
    ("alibi", (False, None), "this family has no ALiBi"),
    ("multi_query", (False, None), "every head of this family has its own keys and values"),
    ("per_layer_config", ({}, None), _NOT_EACH),
    ("pruned_heads", ({}, None), _NOT_EACH),
)
"""Keys of other families, which files that were relabelled keep. Families that read one are exempt from its rule."""

SCALES = {"attention_multiplier": -0.5, "query_pre_attn_scalar": 1.0}
"""Keys that set the scale of scores in some families: the power of a head's width that changes nothing in others."""

ROPE_KEYS = tuple(
    each_of(
        "is read, or belongs to another kind of stretching and has no effect, as in transformers",
        "rope_type type rope_theta partial_rotary_factor factor original_max_position_embeddings attention_factor "
        "beta_slow beta_fast low_freq_factor high_freq_factor mscale mscale_all_dim truncate finetuned",
    )
)
"""Keys inside of `rope_parameters` and `rope_scaling`."""

GENERATION_KEYS = (
    DRAWING
    | TOKENS
    | OUTPUT
    | each_of("says where the file comes from", "_from_model_config transformers_version chat_format")
    | each_of(
        "is another way to the same text",
        "assistant_confidence_threshold assistant_early_exit assistant_ensemble_weight assistant_lookbehind "
        "cache_config cache_implementation compile_config continuous_batching_config disable_compile is_assistant "
        "low_memory max_cache_len max_matching_ngram_size num_assistant_tokens num_assistant_tokens_schedule "
        "prefill_chunk_size prompt_lookup_num_tokens remove_invalid_values renormalize_logits speculation_type "
        "target_lookbehind use_mtp",
    )
)
"""Keys of generation_config.json that are read, that arguments of `generate` replace, or that change no text."""

GENERATION_HARMLESS: dict[str, tuple[Any, ...]] = (
    each_of(
        (None,),
        "bad_words_ids begin_suppress_tokens constraints dola_layers exponential_decay_length_penalty force_words_ids "
        "forced_bos_token_id forced_decoder_ids forced_eos_token_id sequence_bias stop_strings suppress_tokens top_h "
        "watermarking_config",
    )
    | each_of(
        (0, None),
        "encoder_no_repeat_ngram_size epsilon_cutoff eta_cutoff min_length min_new_tokens no_repeat_ngram_size "
        "penalty_alpha token_healing",
    )
    | each_of((1, None), "encoder_repetition_penalty guidance_scale typical_p")
)
"""Keys of generation_config.json for what `generate` does not do, and the values that do not ask for it."""

ADD = "files were written without it at first, so add"
WITHOUT_TYPE: tuple[tuple[tuple[str, ...], str], ...] = (
    (("peft_type",), "this is an adapter's (adapter_config.json), which changes another model: merge the adapter into "
     "that model, and read the config.json of the result"),
    (("_class_name",), "this describes a part of an image generator (diffusers), not a language model"),
    (("_diffusers_version",), "this describes an image generator (diffusers), not a language model"),
    (("weight_map",), "this is the index that tells in which file each weight is; the config.json beside it describes "
     "the model"),
    (("added_tokens", "model"), "this is a tokenizer.json, which has the vocabulary; the config.json beside it "
     "describes the model"),
    (("model_max_length",), "this is a tokenizer_config.json; the config.json beside it describes the model"),
    (("__version__",), "this is the config_sentence_transformers.json of sentence-transformers; the config.json beside "
     "this describes the model"),
    (("max_seq_length", "do_lower_case"), "this is the sentence_bert_config.json of sentence-transformers; the "
     "config.json beside it describes the model"),
    (("global_step", "log_history"), "this is a trainer_state.json, the log of a training; the config.json beside it "
     "describes the model"),
    *((("dim", "n_layers", "n_heads", key), "this is a params.json in the form of Meta's LLaMA, which leaves out "
      "sizes: take the config.json of the same model from the hub") for key in ("norm_eps", "multiple_of")),
    (("sinusoidal_pos_embds",), "these are the settings of a DistilBERT, a family that is not read here"),
    (("emb_dim", "n_heads"), "these are the settings of an XLM, a family that is not read here"),
    (("padded_vocab_size",), "these are the settings of LitGPT, whose weights have other names"),
    (("n_vocab", "n_embd"), "this is OpenAI's hparams.json of a GPT-2: take the config.json of the same model from the "
     "hub"),
    (("block_size", "n_embd"), "these are the settings of nanoGPT, whose weights have other names and forms"),
    (("type_vocab_size", "num_hidden_layers"), f'{ADD} "model_type": "bert" if the model is a BERT'),
    (("n_embd", "n_layer", "n_head"), f'{ADD} "model_type": "gpt2" if the model is a GPT-2'),
    (("d_kv", "num_layers"), f'{ADD} "model_type": "t5" if the model is a T5'),
    (("rms_norm_eps", "num_hidden_layers"), 'the file does not say its family: add "model_type", such as '
     '"llama", "qwen3" or "gemma2"'),
    (("hidden_size", "num_hidden_layers"), "the file does not say its family, and sizes alone do not describe a model"),
    (("text_config",), "this describes a model of several parts, of which text_config is one"),
    (("vocab_size", "context_length", "d_model"), "these are the fields of this book's ModelConfig, which "
     "ModelConfig.from_json reads"),
    (("eos_token_id",), "this is a generation_config.json, which says how texts are drawn; the config.json beside it "
     "describes the model"),
)  # fmt: skip
"""JSON files that are no config.json of today: keys by which each is known, and what it is."""


def type_is_missing(given: Mapping[str, Any], families: Collection[str]) -> str:
    """Returns what is wrong with a file whose `model_type` is none of the families."""
    kind = given.get("model_type")
    choices = ", ".join(map(repr, families))
    if kind is not None:
        hint = (
            f"; did you mean {kind.lower()!r}?" if isinstance(kind, str) and kind.lower() in families else ""
        )
        return f"model_type={kind!r} is not one of {choices}{hint or ELSEWHERE}"
    if written := next((key for key in given if key != "model_type" and key.lower() == "model_type"), None):
        return f"the file has the key {written!r}, which must be written 'model_type'"
    for keys, what in WITHOUT_TYPE:
        if all(key in given for key in keys):
            return f"model_type is missing: {what}"
    return f"model_type is missing: in a config.json that is read here, it is one of {choices}"


def harmless(value: Any, values: Collection[Any]) -> bool:
    """Returns whether a value is among these, or is a list of them."""
    entries = value if isinstance(value, list) else [value]
    return any(value == one for one in values) or (
        isinstance(value, list) and all(any(entry == one for one in values) for entry in entries)
    )


def check_rules(given: Mapping[str, Any], rules: Iterable[Rule]) -> None:
    """Checks that no key asks for something that is not computed here."""
    faults = [
        str(unsupported(given, key, why))
        for key, values, why in rules
        if key in given and not harmless(given[key], values)
    ]
    if faults:
        raise ValueError("; ".join(faults))


def unsupported(given: Mapping[str, Any], name: str, why: str) -> ValueError:
    """Returns the error for a value that is refused, with the reason."""
    return ValueError(f"{name}={given.get(name)!r} is not supported: {why}")


def contradiction(one: str, value: Any, other: str, other_value: Any) -> ValueError:
    """Returns the error for two keys that cannot both be right."""
    return ValueError(f"{one}={value!r} contradicts {other}={other_value!r}: both cannot be right")


def without(given: Mapping[str, Any], ignore: Collection[str]) -> dict[str, Any]:
    """Returns the file without these keys; "rope_parameters.new" is a key inside of another.

    Raises:
        TypeError: `ignore` is not a list of names.
    """
    if isinstance(ignore, str) or not all(isinstance(name, str) for name in ignore):
        raise TypeError(f"ignore={ignore!r} must be a list of names")
    kept = dict(given)
    for name in ignore:
        kept = _without(kept, name)
    return kept


def _without(given: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {
        key: _without(value, name.removeprefix(f"{key}."))
        if isinstance(value, dict) and name.startswith(f"{key}.")
        else value
        for key, value in given.items()
        if key != name
    }


def check_known(
    given: Mapping[str, Any],
    unknown: Collection[str],
    ignore: Collection[str],
    changes: str = "the model computes",
) -> None:
    """Checks that no key is unknown; the message says how to read the file all the same.

    What it suggests can be run: it contains what was ignored already, and stands for all keys if there are many, or
    if a name cannot be printed as it is.
    """
    if not unknown or ALL in ignore:
        return
    names = list(unknown)[:SHOWN]
    more = f" and {len(unknown) - len(names):,} more" if len(unknown) > len(names) else ""
    many = len(unknown) > 1
    code = "auto_map names code of the file's own, which is never run: " if "auto_map" in unknown else ""
    way_on = _way_on([*ignore, *unknown], many)
    if len(way_on) > LONGEST_WAY_ON or not way_on.isprintable() or "  " in way_on:
        way_on = _way_on([ALL], many)
    raise ValueError(
        f"{said(given, names)}{more} {'are' if many else 'is'} not known here and may change what {changes}: "
        f"{code}{way_on}"
    )


def _way_on(names: list[str], many: bool) -> str:
    options = " ".join(f"--ignore {shlex.quote(name)}" for name in names)
    return (
        f"ignore={names} reads the file without {'them' if many else 'it'} (on the command line: {options})"
    )


def said(given: Mapping[str, Any], names: Iterable[str]) -> str:
    """Returns keys with their values, for a message."""
    return ", ".join(f"{checks.shown(name)}={checks.shown(repr(_at(given, name)))}" for name in names)


def _at(given: Mapping[str, Any], name: str) -> Any:
    if name in given:
        return given[name]
    outer = next(
        key for key, value in given.items() if isinstance(value, dict) and name.startswith(f"{key}.")
    )
    return _at(given[outer], name.removeprefix(f"{outer}."))
