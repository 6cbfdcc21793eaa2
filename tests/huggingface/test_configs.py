"""Tests conversion from config.json to ModelConfig and back: published files by hand, every setting, and errors."""

import pytest
import transformers

from glassformer.config import ModelConfig
from glassformer.huggingface import config_from_hf, config_to_hf
from glassformer.published import PUBLISHED

from .models import CASES, IDS, MIXTURES, SAVED_AS, T5_START, every_case

# As the hub has them, but for fields about training and tasks.
GPT2 = {
    "activation_function": "gelu_new",
    "architectures": ["GPT2LMHeadModel"],
    "layer_norm_epsilon": 1e-05,
    "model_type": "gpt2",
    "n_ctx": 1024,
    "n_embd": 768,
    "n_head": 12,
    "n_layer": 12,
    "n_positions": 1024,
    "vocab_size": 50257,
}
BERT = {
    "architectures": ["BertForMaskedLM"],
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "hidden_size": 768,
    "intermediate_size": 3072,
    "layer_norm_eps": 1e-12,
    "max_position_embeddings": 512,
    "model_type": "bert",
    "num_attention_heads": 12,
    "num_hidden_layers": 12,
    "position_embedding_type": "absolute",
    "type_vocab_size": 2,
    "vocab_size": 30522,
}
T5 = {
    "architectures": ["T5ForConditionalGeneration"],
    "d_ff": 2048,
    "d_kv": 64,
    "d_model": 512,
    "dropout_rate": 0.1,
    "is_encoder_decoder": True,
    "layer_norm_epsilon": 1e-06,
    "model_type": "t5",
    "n_positions": 512,
    "num_heads": 8,
    "num_layers": 6,
    "relative_attention_num_buckets": 32,
    "vocab_size": 32128,
}
T5_V1_1 = T5 | {
    "d_model": 768,
    "feed_forward_proj": "gated-gelu",
    "num_decoder_layers": 12,
    "num_heads": 12,
    "num_layers": 12,
    "tie_word_embeddings": False,
}
LLAMA_2 = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "max_position_embeddings": 4096,
    "model_type": "llama",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 32,
    "rms_norm_eps": 1e-05,
    "rope_scaling": None,
    "tie_word_embeddings": False,
    "vocab_size": 32000,
}
LLAMA_3_2 = LLAMA_2 | {
    "head_dim": 64,
    "hidden_size": 2048,
    "intermediate_size": 8192,
    "max_position_embeddings": 131072,
    "num_hidden_layers": 16,
    "num_key_value_heads": 8,
    "rope_scaling": {
        "factor": 32.0,
        "high_freq_factor": 4.0,
        "low_freq_factor": 1.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "llama3",
    },
    "rope_theta": 500000.0,
    "tie_word_embeddings": True,
    "vocab_size": 128256,
}
MISTRAL_V01 = LLAMA_2 | {
    "architectures": ["MistralForCausalLM"],
    "intermediate_size": 14336,
    "max_position_embeddings": 32768,
    "model_type": "mistral",
    "num_key_value_heads": 8,
    "rope_theta": 10000.0,
    "sliding_window": 4096,
}
MISTRAL = LLAMA_2 | {
    "architectures": ["MistralForCausalLM"],
    "intermediate_size": 14336,
    "max_position_embeddings": 32768,
    "model_type": "mistral",
    "num_key_value_heads": 8,
    "rope_theta": 1000000.0,
    "sliding_window": None,
    "vocab_size": 32768,
}
QWEN2 = {
    "architectures": ["Qwen2ForCausalLM"],
    "hidden_act": "silu",
    "hidden_size": 896,
    "intermediate_size": 4864,
    "max_position_embeddings": 32768,
    "max_window_layers": 24,
    "model_type": "qwen2",
    "num_attention_heads": 14,
    "num_hidden_layers": 24,
    "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06,
    "rope_theta": 1000000.0,
    "sliding_window": 32768,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
    "vocab_size": 151936,
}
QWEN3 = {
    "architectures": ["Qwen3ForCausalLM"],
    "attention_bias": False,
    "head_dim": 128,
    "hidden_act": "silu",
    "hidden_size": 1024,
    "intermediate_size": 3072,
    "max_position_embeddings": 40960,
    "model_type": "qwen3",
    "num_attention_heads": 16,
    "num_hidden_layers": 28,
    "num_key_value_heads": 8,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": None,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
    "vocab_size": 151936,
}
GEMMA_3 = {
    "architectures": ["Gemma3ForCausalLM"],
    "attn_logit_softcapping": None,
    "cache_implementation": "hybrid",
    "final_logit_softcapping": None,
    "head_dim": 256,
    "hidden_activation": "gelu_pytorch_tanh",
    "hidden_size": 1152,
    "intermediate_size": 6912,
    "max_position_embeddings": 32768,
    "model_type": "gemma3_text",
    "num_attention_heads": 4,
    "num_hidden_layers": 26,
    "num_key_value_heads": 1,
    "query_pre_attn_scalar": 256,
    "rms_norm_eps": 1e-06,
    "rope_local_base_freq": 10000,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "sliding_window": 512,
    "sliding_window_pattern": 6,
    "vocab_size": 262144,
}
OLMO_3 = {
    "architectures": ["Olmo3ForCausalLM"],
    "attention_bias": False,
    "hidden_act": "silu",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "layer_types": (["sliding_attention"] * 3 + ["full_attention"]) * 8,
    "max_position_embeddings": 65536,
    "model_type": "olmo3",
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 32,
    "rms_norm_eps": 1e-06,
    "rope_scaling": {
        "attention_factor": 1.2079441541679836,
        "beta_fast": 32,
        "beta_slow": 1,
        "factor": 8.0,
        "original_max_position_embeddings": 8192,
        "rope_type": "yarn",
    },
    "rope_theta": 500000,
    "sliding_window": 4096,
    "tie_word_embeddings": False,
    "vocab_size": 100278,
}
SMOLLM3 = {
    "architectures": ["SmolLM3ForCausalLM"],
    "attention_bias": False,
    "hidden_act": "silu",
    "hidden_size": 2048,
    "intermediate_size": 11008,
    "max_position_embeddings": 65536,
    "model_type": "smollm3",
    "no_rope_layer_interval": 4,
    "no_rope_layers": [1, 1, 1, 0] * 9,
    "num_attention_heads": 16,
    "num_hidden_layers": 36,
    "num_key_value_heads": 4,
    "pretraining_tp": 2,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 5000000.0,
    "sliding_window": None,
    "tie_word_embeddings": True,
    "use_sliding_window": False,
    "vocab_size": 128256,
}
PHI_3 = LLAMA_2 | {"architectures": ["Phi3ForCausalLM"], "model_type": "phi3"}


RULES = (
    {"factor": 8.0},
    {"low_freq_factor": 2.0},
    {"high_freq_factor": 8.0},
    {"original_max_position_embeddings": 4096},
)
YARN = {"type": "yarn", "factor": 4.0}
YARNS = (
    {"beta_fast": 16},
    {"beta_slow": 2},
    {"original_max_position_embeddings": 1024},
    {"attention_factor": 1.0},
    {"mscale": 1.0, "mscale_all_dim": 0.8},
)


def short(value):
    """Returns a short name for a test, which a whole config.json would make long."""
    return value.get("architectures", [str(value)])[0] if isinstance(value, dict) else str(value)


@pytest.mark.parametrize(
    ("name", "given"),
    [
        ("gpt2", GPT2),
        ("bert-base", BERT | {"architectures": ["BertModel"]}),
        ("t5-small", T5),
        ("t5-v1.1-base", T5_V1_1),
        ("llama-2-7b", LLAMA_2),
        ("llama-3.2-1b", LLAMA_3_2),
        ("mistral-7b-v0.1", MISTRAL_V01),
        ("mistral-7b", MISTRAL),
        ("qwen2.5-0.5b", QWEN2),
        ("qwen3-0.6b", QWEN3),
        ("gemma-3-1b", GEMMA_3),
        ("olmo-3-7b", OLMO_3),
        ("smollm3-3b", SMOLLM3),
    ],
)
def test_files_of_the_hub_are_what_published_says(name, given):
    """Compares two descriptions of the same model that were written independently."""
    assert config_from_hf(given).replace(dropout=0.0) == PUBLISHED[name].config


FAMILIES = ("gpt2", "bert", "t5", "llama", "mistral", "qwen", "smollm", "tinyllama", "gemma", "olmo")


@pytest.mark.parametrize("name", [name for name in PUBLISHED if name.startswith(FAMILIES)])
def test_published_there_and_back(name):
    config = PUBLISHED[name].config
    assert config_from_hf(config_to_hf(config)) == config


def test_what_is_done_to_a_file_does_not_reach_the_next():
    config = PUBLISHED["gemma-3-1b"].config
    given = config_to_hf(config)
    given["rope_parameters"]["full_attention"]["rope_theta"] = 5.0
    given["layer_types"].clear()
    assert config_from_hf(config_to_hf(config)) == config


@every_case
def test_what_transformers_makes_of_ours(case):
    """Their config class reads our dictionary and gives the same settings as the original config."""
    _, architecture, settings = CASES[case]
    kind = getattr(transformers, architecture).config_class
    theirs = kind(**IDS | (T5_START if case.startswith("t5") else {}) | settings)
    config = config_from_hf(theirs.to_dict() | {"architectures": [architecture]})
    ours = config_to_hf(config)
    assert config_from_hf(ours) == config
    if case in SAVED_AS:
        kind = transformers.AutoConfig.for_model(SAVED_AS[case]).__class__
    assert ours["model_type"] == kind.model_type
    again = kind(**ours)
    fields = set(theirs.to_dict()) & set(again.to_dict())
    fields -= {"architectures", "model_type", "pad_token_id", "n_inner", "_name_or_path"}
    fields -= {"no_rope_layer_interval", "_sliding_window_pattern"}  # ours lists the layers instead
    if case in MIXTURES:  # ours lists the layers with experts, and has no width for others if there are none
        fields -= {"decoder_sparse_step", "mlp_only_layers", "max_window_layers"}
        fields -= {"intermediate_size"} if case in ("qwen3_moe", "qwen3_5_moe") else set()
        fields -= {"head_dim"} if getattr(theirs, "head_dim", None) is None else set()
    if case in ("deepseek_v3", "laguna-headless"):  # no layer has experts
        fields -= {"n_routed_experts", "num_experts"}
    if case.startswith(("mamba2", "granite4")):  # these change nothing
        fields -= {"chunk_size", "mamba_chunk_size", "intermediate_size", "rope_parameters"}
    fields -= (
        {"final_logit_softcapping"} if case.endswith("headless") else set()
    )  # there is nothing that it would cap
    if case.endswith(("yarn", "ministral3", "olmo3")) or case.startswith(
        ("phi3", "laguna", "hunyuan", "gpt_oss", "solar_open", "deepseek_v4")
    ):  # ours states what theirs derives
        fields -= {"rope_parameters"}
    assert len(fields) > 15
    for field in fields:
        assert getattr(again, field) == getattr(theirs, field), field
    assert case in SAVED_AS or again.architectures == [architecture]


@pytest.mark.parametrize(
    ("given", "changes"),
    [
        (GPT2, {"scale_attn_weights": False}),
        (GPT2, {"tie_word_embeddings": False}),
        (GPT2, {"architectures": ["GPT2Model"]}),
        (GPT2, {"activation_function": "gelu"}),
        (BERT, {"architectures": ["BertForPreTraining"], "hidden_act": "relu"}),
        (T5_V1_1, {"feed_forward_proj": "gated-silu"}),
        (T5_V1_1, {"feed_forward_proj": "gated-gelu_python"}),
        (T5, {"scale_decoder_outputs": False}),
        (LLAMA_2, {"attention_bias": True, "mlp_bias": True}),
        (LLAMA_2, {"rope_scaling": {"type": "linear", "factor": 2.0}}),
        (LLAMA_2, {"rope_scaling": LLAMA_3_2["rope_scaling"]}),
        *((LLAMA_3_2, {"rope_scaling": LLAMA_3_2["rope_scaling"] | more}) for more in RULES),
        *((LLAMA_2, {"rope_scaling": YARN | more}) for more in ({}, *YARNS)),
        (MISTRAL, {"sliding_window": 4096}),
        (LLAMA_2, {"hidden_act": "gelu_pytorch_tanh"}),
        (QWEN3, {"attention_bias": True}),
    ],
    ids=short,
)
def test_every_setting_counts(given, changes):
    """Each setting changes the config, and survives the conversion in both directions."""
    config = config_from_hf(given | changes)
    assert config != config_from_hf(given)
    assert config_from_hf(config_to_hf(config)) == config


def test_settings_by_hand():
    """What no model of `CASES` has, whose numbers test_parity compares."""
    assert config_from_hf(T5 | {"num_decoder_layers": 3}).n_decoder_layers == 3
    # What transformers 5 writes for version 1.1: tied, it says, but not scaled
    assert config_from_hf(T5 | {"scale_decoder_outputs": False}).head_scale == 1.0
    assert config_from_hf(T5 | {"relative_attention_num_buckets": 13}).t5_n_buckets == 13
    # A window as long as the context, too: beyond it, texts still run
    assert config_from_hf(MISTRAL | {"sliding_window": 32_768}).sliding_window == 32_768
    yarn = config_from_hf(LLAMA_2 | {"rope_scaling": YARN})
    assert (yarn.rope_slow, yarn.rope_fast, yarn.rope_original_context) == (1.0, 32.0, 4096)
    assert yarn.rope_attention_factor == pytest.approx(1.13862943611, rel=1e-11)  # 0.1 · ln 4 + 1
    outside = {"rope_scaling": YARN, "original_max_position_embeddings": 512}
    assert config_from_hf(LLAMA_2 | outside).rope_original_context == 512
    window = {"use_sliding_window": True, "sliding_window": 32_768}
    assert config_from_hf(QWEN2 | window) == config_from_hf(QWEN2)
    assert config_from_hf(GPT2 | {"resid_pdrop": 0.25}).dropout == 0.25


LEFT_OUT = {
    "GPT2Config": (GPT2, ["layer_norm_epsilon", "resid_pdrop", "activation_function"]),
    "BertConfig": (BERT, ["layer_norm_eps", "hidden_dropout_prob", "type_vocab_size", "hidden_act"]),
    "T5Config": (T5, ["layer_norm_epsilon", "dropout_rate", "feed_forward_proj"]),
    "LlamaConfig": (LLAMA_2, ["rms_norm_eps", "hidden_act"]),
}


@pytest.mark.parametrize("theirs", LEFT_OUT)
def test_what_a_file_leaves_out_is_what_transformers_takes_for_it(theirs):
    given, names = LEFT_OUT[theirs]
    default = getattr(transformers, theirs)()
    short = {name: value for name, value in given.items() if name not in names}
    assert config_from_hf(short) == config_from_hf(short | {name: getattr(default, name) for name in names})


@pytest.mark.parametrize(
    ("given", "changes", "message"),
    [
        (GPT2, {"model_type": "gpt_neox"}, "model_type='gpt_neox' is not one of 'llama', .*'gpt2'"),
        (GPT2, {"model_type": None}, "^model_type is missing: files were written without it at first"),
        (GPT2, {"model_type": "GPT2"}, "model_type='GPT2' is not one of .*; did you mean 'gpt2'?"),
        (GPT2, {"n_embd": None}, "n_embd is missing"),
        (GPT2, {"vocab_size": None}, "vocab_size is missing"),
        (GPT2, {"activation_function": "mish"}, "activation_function='mish' .* known are relu, relu2, gelu"),
        (GPT2, {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx=True"),
        (GPT2, {"add_cross_attention": True}, "add_cross_attention=True"),
        (
            GPT2,
            {"architectures": ["GPT2ForSequenceClassification"]},
            "architectures=.*GPT2LMHeadModel, GPT2Model",
        ),
        (GPT2, {"quantization_config": {"bits": 4}}, "quantization_config=.*quant_method is missing"),
        (BERT, {"is_decoder": True}, "is_decoder=True"),
        (BERT, {"position_embedding_type": "relative_key"}, "position_embedding_type='relative_key'"),
        (BERT, {"tie_word_embeddings": False}, "tie_word_embeddings=False"),
        (BERT, {"hidden_act": "silu"}, "hidden_act='silu'"),
        (T5, {"feed_forward_proj": "gated-relu"}, "feed_forward_proj='gated-relu'"),
        (T5, {"d_model": 0}, "d_model=0 must be at least 1"),
        (T5, {"is_encoder_decoder": False}, "is_encoder_decoder=False"),
        (T5, {"architectures": ["T5EncoderModel"]}, "architectures="),
        *(
            (
                PHI_3,
                {"rope_scaling": {"type": kind, "factor": 2.0}},
                f"^rope_scaling={{'type': '{kind}'.* known are default$",
            )
            for kind in ("longrope", "su", "yarn")  # a Phi-3 takes them all for longrope
        ),
        (
            GEMMA_3,
            {"rope_parameters": {"rope_theta": 1e4}},
            "rope_parameters=.* an object for each of sliding_attention",
        ),
        (PHI_3, {"partial_rotary_factor": 0.75}, "^partial_rotary_factor=0.75 .* rotated as a whole"),
        (LLAMA_2, {"rope_scaling": {"type": "dynamic", "factor": 2.0}}, "rope_scaling={'type': 'dynamic'"),
        (
            LLAMA_2,
            {"rope_parameters": {"rope_type": "llama3", "factor": 8.0}},
            "rope_parameters={'rope_type': 'llama3'.*: llama3 positions need a low_freq_factor, which is missing",
        ),
        *(
            (
                LLAMA_2,
                {"rope_scaling": {"type": kind, "factor": 2.0}},
                "known are default, linear, llama3, yarn",
            )
            for kind in ("longrope", "su", "proportional")
        ),
        (
            LLAMA_2,
            {"rope_scaling": YARN | {"beta_fast": 2, "beta_slow": 3}},
            r"^beta_slow=3\.0 must be below beta_fast=2\.0",
        ),
        (
            LLAMA_2,
            {"rope_scaling": LLAMA_3_2["rope_scaling"] | {"low_freq_factor": 4.0, "high_freq_factor": 1.0}},
            r"^low_freq_factor=4\.0 must be below high_freq_factor=1\.0",
        ),
        (LLAMA_2, {"rope_scaling": YARN | {"factor": "4"}}, "^factor='4' must be a number"),
        (
            LLAMA_2,
            {"rope_scaling": YARN | {"original_max_position_embeddings": 0}},
            "^original_max_position_embeddings=0 must be at least 1",
        ),
        (LLAMA_2, {"rope_scaling": "linear"}, "rope_scaling='linear'"),
        (
            LLAMA_2,
            {"rope_scaling": {"type": "linear"}},
            "rope_scaling={'type': 'linear'} .* need a factor, which is missing",
        ),
        (QWEN3, {"rope_parameters": {"full_attention": {"rope_theta": 1e4}}}, "one object, for all layers"),
        (LLAMA_2, {"rope_theta": 10**400}, "rope_theta=10+ must be positive and finite"),
        (LLAMA_2, {"rope_theta": -1.0}, r"^rope_theta=-1\.0 must be positive"),
        (LLAMA_2, {"rms_norm_eps": "small"}, "^rms_norm_eps='small' must be a number"),
        (LLAMA_2, {"num_hidden_layers": 2**63}, "^num_hidden_layers=9223372036854775808 must be at most"),
        (LLAMA_2, {"mlp_bias": None}, "^mlp_bias=None must be True or False"),
        (T5, {"relative_attention_num_buckets": 3}, "^relative_attention_num_buckets=3 must be at least 4"),
        (T5, {"tie_word_embeddings": "x"}, "^tie_word_embeddings='x' must be True or False"),
        (LLAMA_2, {"partial_rotary_factor": 0.5}, "partial_rotary_factor=0.5"),
        (LLAMA_2, {"rope_parameters": {"partial_rotary_factor": 0.5}}, "rope_parameters="),
        (LLAMA_2, {"hidden_act": "relu"}, "hidden_act='relu'"),
        (MISTRAL, {"sliding_window": 0}, "^sliding_window=0 must be at least 1"),
        (
            LLAMA_2,
            {"num_key_value_heads": 5},
            "num_attention_heads=32 is not divisible by num_key_value_heads=5",
        ),
    ],
    ids=short,
)
def test_what_is_refused(given, changes, message):
    with pytest.raises(ValueError, match=message):
        config_from_hf(given | changes)


@pytest.mark.parametrize("names", [1, "GPT2Model", {"GPT2Model": 1}, [["GPT2Model"]], [None]])
def test_architectures_that_are_no_list_of_names(names):
    with pytest.raises(
        ValueError, match=r"^architectures=.* is not supported: for this model_type it must be one of"
    ):
        config_from_hf(GPT2 | {"architectures": names})


def test_a_mistral_without_the_field_has_a_window():
    """If config.json does not mention it, the window is 4096."""
    silent = {name: value for name, value in MISTRAL.items() if name != "sliding_window"}
    assert config_from_hf(silent).sliding_window == transformers.MistralConfig().sliding_window == 4096


def test_what_a_gemma_calls_gelu_is_its_tanh_form():
    """So say its first files; transformers replaces the word, and so do later files, under another name as well."""
    given = transformers.GemmaConfig().to_dict() | {"hidden_activation": "gelu_pytorch_tanh"}
    assert transformers.GemmaConfig(hidden_act="gelu").hidden_act == given["hidden_act"]
    assert config_from_hf(given | {"hidden_act": "gelu"}) == config_from_hf(given)
    assert config_from_hf(given).feedforward == "geglu_tanh"
    with pytest.raises(ValueError, match="hidden_activation='gelu' is not supported: hidden_act names"):
        config_from_hf(given | {"hidden_activation": "gelu"})


SMALL = {"vocab_size": 10, "context_length": 8, "d_model": 8, "n_layers": 1, "n_heads": 2}
BERT_LIKE = {"family": "encoder", "norm_placement": "post", "embedding_norm": True, "feedforward": "gelu"}
T5_LIKE = {
    "family": "encoder-decoder",
    "positions": "t5",
    "norm": "rmsnorm",
    "attention_bias": "none",
    "attention_scale": 1.0,
    "feedforward": "relu",
    "feedforward_bias": False,
}
LLAMA_LIKE = {"positions": "rope", "norm": "rmsnorm", "attention_bias": "none", "feedforward": "swiglu"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"positions": "alibi"}, r"gpt2 of transformers has no positions='alibi' \(it has 'learned'\)"),
        ({"positions": "none"}, "positions='none'"),
        ({"norm": "rmsnorm", "attention_bias": "qkv"}, "norm='rmsnorm'.*attention_bias='qkv'"),
        ({"feedforward": "swiglu"}, "feedforward='swiglu'"),
        ({"embedding_scale": 2.0}, "embedding_scale=2.0"),
        ({"n_kv_heads": 1}, "n_kv_heads=1"),
        (BERT_LIKE | {"n_segments": 2, "head": "untied"}, "head='untied'"),
        (BERT_LIKE | {"head": "none", "norm_placement": "pre"}, "bert .* norm_placement='pre'"),
        (T5_LIKE | {"positions": "learned"}, "t5 .* positions='learned'"),
        (LLAMA_LIKE | {"attention_bias": "qkv", "qk_norm": True}, "seed_oss .* qk_norm=True"),
        (LLAMA_LIKE | {"rope_attention_factor": 1.5}, "llama .* rope_attention_factor=1.5"),
        (
            LLAMA_LIKE | {"rope_scaling": "llama3", "rope_attention_factor": 1.5},
            "llama .* rope_attention_factor=1.5",
        ),
        ({"sliding_window": 3}, "gpt2 .* sliding_window=3"),
        (
            LLAMA_LIKE | {"n_heads": 3, "d_head": 4, "attention_bias": "all"},
            "seed_oss .* attention_bias='all'",
        ),
    ],
    ids=short,
)
def test_what_no_family_has(changes, message):
    with pytest.raises(ValueError, match=message):
        config_to_hf(ModelConfig(**SMALL | changes))


def test_settings_of_a_ramp_that_is_not_used_are_not_missed():
    """A saved configuration states them all, whatever its context is later changed to."""
    config = ModelConfig.from_json(ModelConfig(**SMALL | LLAMA_LIKE | {"feedforward_bias": False}).to_json())
    longer = config.replace(context_length=16)
    assert longer.rope_original_context == 8
    assert config_to_hf(longer)["max_position_embeddings"] == 16


def test_not_a_config():
    with pytest.raises(TypeError, match="must be a ModelConfig"):
        config_to_hf({"model_type": "gpt2"})
