"""Tests the counts of published models: exact, and equal to those of `transformers`' models of the same sizes.

Those models are built on torch's meta device, where tensors have shapes but no memory.
"""

import pytest
import torch
import transformers as hf

from glassformer.huggingface import config_to_hf
from glassformer.parameters import evaluate
from glassformer.published import PUBLISHED, TEACHING, published

EVERY = PUBLISHED | TEACHING


@pytest.mark.parametrize("name", EVERY)
def test_the_formula_gives_the_published_count(name):
    assert EVERY[name].config.parameter_count().total == EVERY[name].n_parameters


# The same models in transformers


def in_transformers(config):
    """Returns a model of these sizes, of the class that its config.json names."""
    given = config_to_hf(config)
    model = getattr(hf, given["architectures"][0])(hf.AutoConfig.for_model(**given))
    if config.family == "encoder-decoder" and config.head == "untied":
        # transformers ties the head of every T5 that it makes; a T5 1.1 comes with a head of its own.
        model.lm_head = torch.nn.Linear(config.d_model, config.vocab_size, bias=False)
    return model


def bloom(c):
    return hf.BloomForCausalLM(
        hf.BloomConfig(vocab_size=c.vocab_size, hidden_size=c.d_model, n_layer=c.n_layers, n_head=c.n_heads)
    )


def starcoder(c):
    return hf.GPTBigCodeForCausalLM(
        hf.GPTBigCodeConfig(
            vocab_size=c.vocab_size,
            n_positions=c.context_length,
            n_embd=c.d_model,
            n_layer=c.n_layers,
            n_head=c.n_heads,
            multi_query=True,
        )
    )


OTHERS = {"bloom-560m": bloom, "starcoderbase-1b": starcoder}  # families that the book does not load


@pytest.mark.parametrize("name", PUBLISHED)
def test_transformers_counts_the_same(name):
    with torch.device("meta"):
        model = OTHERS.get(name, in_transformers)(PUBLISHED[name].config)
    learned = sum(b.numel() for key, b in model.named_buffers() if "correction_bias" in key)  # by no gradient
    shared_once = sum(p.numel() for p in model.parameters())
    assert shared_once + learned == PUBLISHED[name].n_parameters


@pytest.mark.parametrize("name", [name for name in PUBLISHED if "a token uses" in PUBLISHED[name].note])
def test_a_token_uses_as_many_as_the_note_says(name):
    """Also counted in a model of transformers: a token leaves out all experts but those that it chooses."""
    config, total = PUBLISHED[name].config, PUBLISHED[name].n_parameters
    unused = 0
    for layer, n_layers in config.layers(config.n_layers).values():
        sizes = layer.feedforward.sizes | {"D": config.d_model}
        every, active = (
            one(config.d_model) for one in (layer.feedforward.parameters, layer.feedforward.active)
        )
        unused += n_layers * (evaluate(every, sizes) - evaluate(active, sizes))
    with torch.device("meta"):
        model = in_transformers(config)
    of_experts = sum(p.numel() for key, p in model.named_parameters() if ".experts." in key)
    experts = config.layer(config.n_layers - 1).feedforward.experts
    assert unused == of_experts * (experts.n_experts - experts.top_k) // experts.n_experts
    assert f"a token uses {total - unused:,} of the parameters" in PUBLISHED[name].note


@pytest.mark.parametrize("name", [name for name in PUBLISHED if PUBLISHED[name].n_drafts])
def test_a_layer_for_drafts_is_counted_apart(name):
    """DeepSeek-V3's report, section 2.2: a block, three norms, a matrix that joins two vectors, and a vocabulary twice.

    The files on the hub have 684,489,845,504 and 358,337,791,296 numbers, without the scales of FP8.
    """
    config = PUBLISHED[name].config
    D, layer = config.d_model, config.layer(config.n_layers - 1)
    sizes = (
        layer.attention.sizes
        | layer.feedforward.sizes
        | {"D": D, "V": config.vocab_size, "H": config.n_heads}
    )
    parts = layer.attention.parameters(D) + layer.feedforward.parameters(D)
    assert PUBLISHED[name].n_drafts == evaluate(parts, sizes) + 5 * D + 2 * D * D + 2 * config.vocab_size * D
    in_files = {"deepseek-v3": 684_489_845_504, "glm-4.5": 358_337_791_296}
    assert PUBLISHED[name].n_parameters + PUBLISHED[name].n_drafts == in_files[name]


OWN_DEFAULTS = {
    "gpt2": (hf.GPT2Config(), "vocab_size n_positions n_embd n_layer n_head layer_norm_epsilon"),
    "bert-base": (
        hf.BertConfig(),
        "vocab_size max_position_embeddings hidden_size intermediate_size type_vocab_size layer_norm_eps",
    ),
    "t5-small": (
        hf.T5Config(),
        "vocab_size d_model d_kv d_ff layer_norm_epsilon"
        " relative_attention_num_buckets relative_attention_max_distance",
    ),
}


@pytest.mark.parametrize("name", OWN_DEFAULTS)
def test_transformers_own_defaults_are_the_smallest_of_three_families(name):
    """Their defaults are the sizes and ε of the published models, so they check ours."""
    theirs, keys = OWN_DEFAULTS[name]
    ours = config_to_hf(PUBLISHED[name].config)
    assert {key: ours[key] for key in keys.split()} == {key: getattr(theirs, key) for key in keys.split()}


# What no count can see, as the config.json of each repository has it

ROPE = {  # context_length, rope_base, norm_eps
    "llama-2-7b": (4096, 10_000.0, 1e-5),
    "llama-2-13b": (4096, 10_000.0, 1e-5),
    "llama-2-70b": (4096, 10_000.0, 1e-5),
    "llama-3-8b": (8192, 500_000.0, 1e-5),
    "llama-3.2-1b": (131_072, 500_000.0, 1e-5),
    "mistral-7b-v0.1": (32_768, 10_000.0, 1e-5),
    "mistral-7b": (32_768, 1_000_000.0, 1e-5),
    "qwen2.5-0.5b": (32_768, 1_000_000.0, 1e-6),
    "qwen2.5-7b": (131_072, 1_000_000.0, 1e-6),
    "qwen3-0.6b": (40_960, 1_000_000.0, 1e-6),
    "qwen3-8b": (40_960, 1_000_000.0, 1e-6),
    "smollm2-135m": (8192, 100_000.0, 1e-5),
    "tinyllama-1.1b": (2048, 10_000.0, 1e-5),
}


@pytest.mark.parametrize("name", ROPE)
def test_the_rotary_models_choices(name):
    c = PUBLISHED[name].config
    assert (c.context_length, c.rope_base, c.norm_eps) == ROPE[name]
    assert (c.positions, c.rope_layout) == ("rope", "half")
    assert c.rope_interpolation == (32.0 if name == "llama-3.2-1b" else 1.0)
    assert c.sliding_window == (4096 if name == "mistral-7b-v0.1" else None)
    assert (c.norm, c.norm_placement, c.feedforward) == ("rmsnorm", "pre", "swiglu")


@pytest.mark.parametrize(
    "name", ["gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "bloom-560m", "starcoderbase-1b"]
)
def test_the_gpt_like_use_the_tanh_gelu(name):
    c = PUBLISHED[name].config
    assert (c.norm, c.norm_placement, c.norm_eps, c.feedforward) == ("layernorm", "pre", 1e-5, "gelu_tanh")


# What notes say: of GPT-3, the other count that is often read


def test_the_note_on_gpt3_explains_the_other_count():
    c = PUBLISHED["gpt3"].config
    count = c.parameter_count()
    vocabulary, positions = c.vocab_size * c.d_model, c.context_length * c.d_model
    biases_and_norms = c.n_layers * 13 * c.d_model + 2 * c.d_model
    assert count.total + vocabulary - positions - biases_and_norms == 175_181_291_520
    assert "175,181,291,520" in PUBLISHED["gpt3"].note


def test_the_note_on_736_names_its_parts():
    count = TEACHING["teaching-736"].config.parameter_count()
    embedding, positions, norm = (count[part] for part in ("token embedding", "positions", "final norm"))
    blocks = count.total - embedding - positions - norm
    assert TEACHING["teaching-736"].note == f"{embedding} + {positions} + {blocks} + {norm} parameters."


# Looking a model up


def test_a_name_finds_its_model():
    assert published("gpt2") is PUBLISHED["gpt2"]
    assert published("teaching-736") is TEACHING["teaching-736"]


@pytest.mark.parametrize(
    ("name", "meant"), [("gpt-2", "gpt2"), ("GPT2-XL", "gpt2-xl"), ("llama2-7b", "llama-2-7b")]
)
def test_a_near_miss_is_recognized(name, meant):
    with pytest.raises(ValueError, match=f"name={name!r} is not a known model. Did you mean {meant!r}?"):
        published(name)


def test_an_unknown_name_lists_the_known():
    with pytest.raises(ValueError, match="name='0' is not a known model") as caught:
        published("0")
    assert "Did you mean" not in str(caught.value)
    assert all(name in str(caught.value) for name in EVERY)


def test_a_name_is_a_string():
    with pytest.raises(TypeError, match="name=2 must be a string"):
        published(2)


@pytest.mark.parametrize("name", EVERY)
def test_every_model_says_where_it_is_from_and_survives_json(name):
    model = EVERY[name]
    assert model.source
    assert type(model.config).from_json(model.config.to_json()) == model.config
