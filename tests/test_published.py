"""Tests the counts of published models: exact, and equal to those of `transformers`' models of the same sizes.

Those models are built on torch's meta device, where tensors have shapes but no memory.
"""

import pytest
import torch
import transformers as hf

from glassformer.published import PUBLISHED, TEACHING, published

EVERY = PUBLISHED | TEACHING


@pytest.mark.parametrize("name", EVERY)
def test_the_formula_gives_the_published_count(name):
    assert EVERY[name].config.parameter_count().total == EVERY[name].n_parameters


# A second list of the counts, so that neither formula nor table can be changed alone.
COUNTS = {
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "gpt3": 174_604_259_328,
    "bert-base": 109_482_240,
    "bert-large": 335_141_888,
    "t5-small": 60_506_624,
    "t5-base": 222_903_552,
    "t5-large": 737_668_096,
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "teaching-736": 16 + 256 + 456 + 8,
    "teaching-2240": 2_240,
    "teaching-1192": 1_192,
    "teaching-512": 512,
}


@pytest.mark.parametrize("name", COUNTS)
def test_the_counts_that_the_book_quotes(name):
    assert published(name).n_parameters == COUNTS[name]


# The same models in transformers


def gpt2(c):
    return hf.GPT2LMHeadModel(
        hf.GPT2Config(
            vocab_size=c.vocab_size,
            n_positions=c.context_length,
            n_embd=c.d_model,
            n_layer=c.n_layers,
            n_head=c.n_heads,
        )
    )


def bert(c):
    return hf.BertModel(
        hf.BertConfig(
            vocab_size=c.vocab_size,
            max_position_embeddings=c.context_length,
            hidden_size=c.d_model,
            num_hidden_layers=c.n_layers,
            num_attention_heads=c.n_heads,
            intermediate_size=c.d_ff,
        )
    )


def t5(c, feed_forward_proj="relu"):
    return hf.T5ForConditionalGeneration(
        hf.T5Config(
            vocab_size=c.vocab_size,
            d_model=c.d_model,
            d_kv=c.d_head,
            d_ff=c.d_ff,
            num_layers=c.n_layers,
            num_heads=c.n_heads,
            feed_forward_proj=feed_forward_proj,
        )
    )


def t5_gated(c):
    model = t5(c, "gated-gelu")
    # transformers ties the head of every T5 that it makes; a T5 1.1 comes with a head of its own.
    model.lm_head = torch.nn.Linear(c.d_model, c.vocab_size, bias=False)
    return model


def llama(c, model=hf.LlamaForCausalLM, config=hf.LlamaConfig, **more):
    return model(
        config(
            vocab_size=c.vocab_size,
            hidden_size=c.d_model,
            intermediate_size=c.d_ff,
            num_hidden_layers=c.n_layers,
            num_attention_heads=c.n_heads,
            num_key_value_heads=c.n_kv_heads,
            tie_word_embeddings=c.head == "tied",
            **more,
        )
    )


def mistral(c):
    return llama(c, hf.MistralForCausalLM, hf.MistralConfig)


def qwen2(c):
    return llama(c, hf.Qwen2ForCausalLM, hf.Qwen2Config)


def qwen3(c):
    return llama(c, hf.Qwen3ForCausalLM, hf.Qwen3Config, head_dim=c.d_head)


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


IN_TRANSFORMERS = {
    "gpt2": gpt2,
    "gpt2-medium": gpt2,
    "gpt2-large": gpt2,
    "gpt2-xl": gpt2,
    "gpt3": gpt2,
    "bert-base": bert,
    "bert-large": bert,
    "t5-small": t5,
    "t5-base": t5,
    "t5-large": t5,
    "t5-v1.1-base": t5_gated,
    "llama-2-7b": llama,
    "llama-2-13b": llama,
    "llama-2-70b": llama,
    "llama-3-8b": llama,
    "llama-3.2-1b": llama,
    "mistral-7b-v0.1": mistral,
    "mistral-7b": mistral,
    "qwen2.5-0.5b": qwen2,
    "qwen2.5-7b": qwen2,
    "qwen3-0.6b": qwen3,
    "qwen3-8b": qwen3,
    "smollm2-135m": llama,
    "tinyllama-1.1b": llama,
    "bloom-560m": bloom,
    "starcoderbase-1b": starcoder,
}


def test_every_published_model_has_its_counterpart():
    assert list(IN_TRANSFORMERS) == list(PUBLISHED)


@pytest.mark.parametrize("name", IN_TRANSFORMERS)
def test_transformers_counts_the_same(name):
    with torch.device("meta"):
        model = IN_TRANSFORMERS[name](PUBLISHED[name].config)
    assert sum(p.numel() for p in model.parameters()) == PUBLISHED[name].n_parameters  # shared ones once


def test_transformers_own_defaults_are_the_smallest_of_three_families():
    """Their defaults are the sizes and ε of the published models, so they check ours."""
    ours, theirs = PUBLISHED["gpt2"].config, hf.GPT2Config()
    assert (ours.vocab_size, ours.context_length, ours.d_model) == (
        theirs.vocab_size,
        theirs.n_positions,
        theirs.n_embd,
    )
    assert (ours.n_layers, ours.n_heads, ours.norm_eps) == (
        theirs.n_layer,
        theirs.n_head,
        theirs.layer_norm_epsilon,
    )
    ours, theirs = PUBLISHED["bert-base"].config, hf.BertConfig()
    assert (ours.vocab_size, ours.context_length, ours.d_model, ours.d_ff) == (
        theirs.vocab_size,
        theirs.max_position_embeddings,
        theirs.hidden_size,
        theirs.intermediate_size,
    )
    assert (ours.n_segments, ours.norm_eps) == (theirs.type_vocab_size, theirs.layer_norm_eps)
    ours, theirs = PUBLISHED["t5-small"].config, hf.T5Config()
    assert (ours.vocab_size, ours.d_model, ours.d_head, ours.d_ff) == (
        theirs.vocab_size,
        theirs.d_model,
        theirs.d_kv,
        theirs.d_ff,
    )
    assert (ours.t5_n_buckets, ours.t5_max_distance, ours.norm_eps) == (
        theirs.relative_attention_num_buckets,
        theirs.relative_attention_max_distance,
        theirs.layer_norm_epsilon,
    )


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


@pytest.mark.parametrize("name", ["t5-small", "t5-base", "t5-large", "t5-v1.1-base"])
def test_t5_scales_no_scores_but_a_tied_heads_input(name):
    c = PUBLISHED[name].config
    assert c.attention_scale == 1.0
    assert c.head_scale == (c.d_model**-0.5 if c.head == "tied" else 1.0)
    assert c.feedforward == ("relu" if c.head == "tied" else "geglu_tanh")
    assert (c.norm, c.norm_placement, c.norm_eps) == ("rmsnorm", "pre", 1e-6)


@pytest.mark.parametrize("name", ["bert-base", "bert-large"])
def test_bert_is_post_norm_with_the_exact_gelu(name):
    c = PUBLISHED[name].config
    assert (c.norm_placement, c.norm_eps, c.feedforward) == ("post", 1e-12, "gelu")


@pytest.mark.parametrize(
    "name", ["gpt2", "gpt2-medium", "gpt2-large", "gpt2-xl", "bloom-560m", "starcoderbase-1b"]
)
def test_the_gpt_like_use_the_tanh_gelu(name):
    c = PUBLISHED[name].config
    assert (c.norm, c.norm_placement, c.norm_eps, c.feedforward) == ("layernorm", "pre", 1e-5, "gelu_tanh")


# The other count that is often read of GPT-3


def test_the_note_on_gpt3_explains_the_other_count():
    c = PUBLISHED["gpt3"].config
    count = c.parameter_count()
    vocabulary, positions = c.vocab_size * c.d_model, c.context_length * c.d_model
    biases_and_norms = c.n_layers * 13 * c.d_model + 2 * c.d_model
    assert count.total + vocabulary - positions - biases_and_norms == 175_181_291_520
    assert "175,181,291,520" in PUBLISHED["gpt3"].note


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


@pytest.mark.usefixtures("as_readers_run_it")
def test_a_name_is_a_string():
    with pytest.raises(TypeError, match="name=2 must be a string"):
        published(2)


@pytest.mark.parametrize("name", EVERY)
def test_every_model_says_where_it_is_from_and_survives_json(name):
    model = EVERY[name]
    assert model.source
    assert type(model.config).from_json(model.config.to_json()) == model.config
