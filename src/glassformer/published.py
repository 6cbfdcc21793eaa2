"""Published models as `ModelConfig`s, with the source of each and its exact size.

Dropout is left out, because it only concerns training. If a model has no maximal input length,
`context_length` is the length it was trained on.
"""

import difflib
from dataclasses import dataclass
from typing import Any

from glassformer.config import ROPE_BASE, ModelConfig


@dataclass(frozen=True)
class Published:
    """A config with its source, the model's number of parameters, and remarks."""

    config: ModelConfig
    source: str
    n_parameters: int
    note: str = ""


def published(name: str) -> Published:
    """Returns the entry of `PUBLISHED` or `TEACHING` with that name, such as "gpt2".

    Raises:
        ValueError: there is no such entry; the message suggests one or lists all.
        TypeError: `name` is not a string.
    """
    if not isinstance(name, str):
        raise TypeError(f"name={name!r} must be a string, such as 'gpt2'")
    models = PUBLISHED | TEACHING
    if name not in models:
        near = difflib.get_close_matches(name.lower(), models, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"name={name!r} is not a known model.{hint} Known are {', '.join(models)}.")
    return models[name]


# Settings that the members of a family share


SIZES = ("d_model", "n_layers", "n_heads", "d_ff", "vocab_size", "context_length")
GPT2_LIKE = {"vocab_size": 50_257, "context_length": 1024}
BERT_LIKE = {
    "family": "encoder", "vocab_size": 30_522, "context_length": 512, "norm_eps": 1e-12, "norm_placement": "post",
    "feedforward": "gelu", "embedding_norm": True, "n_segments": 2, "head": "none", "pooler": True,
}  # fmt: skip
T5_LIKE = {
    "family": "encoder-decoder", "vocab_size": 32_128, "context_length": 512, "d_head": 64, "positions": "t5",
    "norm": "rmsnorm", "norm_eps": 1e-6, "attention_bias": "none", "attention_scale": 1.0, "feedforward": "relu",
    "feedforward_bias": False,
}  # fmt: skip
LLAMA_LIKE = {
    "positions": "rope", "norm": "rmsnorm", "attention_bias": "none", "feedforward": "swiglu",
    "feedforward_bias": False, "head": "untied",
}  # fmt: skip


def _like(family: dict[str, Any], *sizes: int, **others: Any) -> ModelConfig:
    """Returns the configuration of a member of a family, from its sizes in the order of `SIZES`."""
    named: dict[str, Any] = dict(zip(SIZES, sizes, strict=False))
    return ModelConfig(**family | named | others)


def _gpt2(*sizes: int) -> ModelConfig:
    return _like(GPT2_LIKE, *sizes)


def _bert(*sizes: int) -> ModelConfig:
    return _like(BERT_LIKE, *sizes)


def _t5(*sizes: int) -> ModelConfig:
    return _like(T5_LIKE, *sizes, head_scale=sizes[0] ** -0.5)


def _llama(
    vocab_size: int,
    context_length: int,
    *sizes: int,
    n_kv_heads: int | None = None,
    rope_base: float = ROPE_BASE,
) -> ModelConfig:
    return _like(LLAMA_LIKE, *sizes, vocab_size, context_length, n_kv_heads=n_kv_heads, rope_base=rope_base)


GPT2 = "Radford et al. 2019, Language Models are Unsupervised Multitask Learners, table 2; "
GPT3 = "Brown et al. 2020, Language Models are Few-Shot Learners, table 2.1"
BERT = "Devlin et al. 2019, BERT, section 3; "
T5 = "Raffel et al. 2020, Exploring the Limits of Transfer Learning, section 3.7; "
LLAMA_2 = "Touvron et al. 2023, Llama 2, section 2.2; "
QWEN2_5 = "Qwen Team 2024, Qwen2.5 Technical Report, section 2; "
QWEN3 = "Qwen Team 2025, Qwen3 Technical Report, section 2; "
HUB = "https://huggingface.co/"

GPT2_NOTE = "The paper's table says {}: its counts were mistaken, as the authors' repository says."
BERT_NOTE = "With the pooler, without the heads of pre-training. The paper says {}."
LLAMA_2_NOTE = (
    'Meta\'s own files have the rows of W_q and W_k in the order of rope_layout="interleaved"; '
    'the converted ones, meant here, in that of "half".'
)
T5_NOTE = "Each stack learns one table of biases, and all of its blocks use it."
QWEN2_5_NOTE = "The vocabulary is padded: the tokenizer uses the first 151,665 rows."

PUBLISHED: dict[str, Published] = {
    # GPT: decoders with learned positions
    "gpt2": Published(
        _gpt2(768, 12, 12), GPT2 + HUB + "openai-community/gpt2", 124_439_808, GPT2_NOTE.format("117M")
    ),
    "gpt2-medium": Published(
        _gpt2(1024, 24, 16),
        GPT2 + HUB + "openai-community/gpt2-medium",
        354_823_168,
        GPT2_NOTE.format("345M"),
    ),
    "gpt2-large": Published(
        _gpt2(1280, 36, 20), GPT2 + HUB + "openai-community/gpt2-large", 774_030_080, GPT2_NOTE.format("762M")
    ),
    "gpt2-xl": Published(
        _gpt2(1600, 48, 25), GPT2 + HUB + "openai-community/gpt2-xl", 1_557_611_200, GPT2_NOTE.format("1542M")
    ),
    "gpt3": Published(
        _gpt2(12_288, 96, 96).replace(context_length=2048),
        GPT3,
        174_604_259_328,
        "The weights are not public; this is GPT-2's architecture at the paper's sizes, and its 174,600M agree. "
        "You may also meet 175,181,291,520. That count includes only the matrices, without biases, norms or "
        "positions, but with an output matrix of its own. Half of GPT-3's layers attend sparsely, which changes "
        "no count.",
    ),
    # BERT: encoders, post-norm
    "bert-base": Published(
        _bert(768, 12, 12),
        BERT + HUB + "google-bert/bert-base-uncased",
        109_482_240,
        BERT_NOTE.format("110M"),
    ),
    "bert-large": Published(
        _bert(1024, 24, 16),
        BERT + HUB + "google-bert/bert-large-uncased",
        335_141_888,
        BERT_NOTE.format("340M"),
    ),
    # T5: encoder–decoders with relative positions
    "t5-small": Published(_t5(512, 6, 8, 2048), T5 + HUB + "google-t5/t5-small", 60_506_624, T5_NOTE),
    "t5-base": Published(_t5(768, 12, 12, 3072), T5 + HUB + "google-t5/t5-base", 222_903_552, T5_NOTE),
    "t5-large": Published(_t5(1024, 24, 16, 4096), T5 + HUB + "google-t5/t5-large", 737_668_096, T5_NOTE),
    "t5-v1.1-base": Published(
        _t5(768, 12, 12, 2048).replace(feedforward="geglu_tanh", head="untied", head_scale=1.0),
        "Shazeer 2020, GLU Variants Improve Transformer; " + HUB + "google/t5-v1_1-base",
        247_577_856,
        "Flan-T5 base has the same architecture.",
    ),
    # LLaMA and its successors: decoders with rotary positions, RMSNorm and a gated feed-forward
    "llama-2-7b": Published(
        _llama(32_000, 4096, 4096, 32, 32, 11_008),
        LLAMA_2 + HUB + "meta-llama/Llama-2-7b-hf",
        6_738_415_616,
        LLAMA_2_NOTE,
    ),
    "llama-2-13b": Published(
        _llama(32_000, 4096, 5120, 40, 40, 13_824),
        LLAMA_2 + HUB + "meta-llama/Llama-2-13b-hf",
        13_015_864_320,
        LLAMA_2_NOTE,
    ),
    "llama-2-70b": Published(
        _llama(32_000, 4096, 8192, 80, 64, 28_672, n_kv_heads=8),
        LLAMA_2 + HUB + "meta-llama/Llama-2-70b-hf",
        68_976_648_192,
        LLAMA_2_NOTE,
    ),
    "llama-3-8b": Published(
        _llama(128_256, 8192, 4096, 32, 32, 14_336, n_kv_heads=8, rope_base=500_000.0),
        "Grattafiori et al. 2024, The Llama 3 Herd of Models, table 3; " + HUB + "meta-llama/Meta-Llama-3-8B",
        8_030_261_248,
    ),
    "llama-3.2-1b": Published(
        _llama(128_256, 131_072, 2048, 16, 32, 8192, n_kv_heads=8, rope_base=500_000.0).replace(
            rope_scaling="llama3", rope_interpolation=32.0, rope_original_context=8192, head="tied"
        ),
        "Meta 2024, Llama 3.2 model card; " + HUB + "meta-llama/Llama-3.2-1B",
        1_235_814_400,
        "Positions stretched from 8,192 to 131,072, as in Llama 3.1 and 3.3.",
    ),
    "mistral-7b-v0.1": Published(
        _llama(32_000, 32_768, 4096, 32, 32, 14_336, n_kv_heads=8).replace(sliding_window=4096),
        "Jiang et al. 2023, Mistral 7B, table 1; " + HUB + "mistralai/Mistral-7B-v0.1",
        7_241_732_096,
        "In each layer, a position sees itself and the 4,095 positions before it.",
    ),
    "mistral-7b": Published(
        _llama(32_768, 32_768, 4096, 32, 32, 14_336, n_kv_heads=8, rope_base=1_000_000.0),
        "Jiang et al. 2023, Mistral 7B, table 1; " + HUB + "mistralai/Mistral-7B-v0.3",
        7_248_023_552,
        "Version 0.3. It has no sliding window, which version 0.1 has, a larger vocabulary and a larger base.",
    ),
    "qwen2.5-0.5b": Published(
        _llama(151_936, 32_768, 896, 24, 14, 4864, n_kv_heads=2, rope_base=1_000_000.0).replace(
            norm_eps=1e-6, attention_bias="qkv", head="tied"
        ),
        QWEN2_5 + HUB + "Qwen/Qwen2.5-0.5B",
        494_032_768,
        QWEN2_5_NOTE,
    ),
    "qwen2.5-7b": Published(
        _llama(152_064, 131_072, 3584, 28, 28, 18_944, n_kv_heads=4, rope_base=1_000_000.0).replace(
            norm_eps=1e-6, attention_bias="qkv"
        ),
        QWEN2_5 + HUB + "Qwen/Qwen2.5-7B",
        7_615_616_512,
        QWEN2_5_NOTE,
    ),
    "qwen3-0.6b": Published(
        _llama(151_936, 40_960, 1024, 28, 16, 3072, n_kv_heads=8, rope_base=1_000_000.0).replace(
            d_head=128, norm_eps=1e-6, qk_norm=True, head="tied"
        ),
        QWEN3 + HUB + "Qwen/Qwen3-0.6B",
        596_049_920,
        "16 heads of 128 are 2048 wide, twice d_model.",
    ),
    "qwen3-8b": Published(
        _llama(151_936, 40_960, 4096, 36, 32, 12_288, n_kv_heads=8, rope_base=1_000_000.0).replace(
            norm_eps=1e-6, qk_norm=True
        ),
        QWEN3 + HUB + "Qwen/Qwen3-8B",
        8_190_735_360,
    ),
    "smollm2-135m": Published(
        _llama(49_152, 8192, 576, 30, 9, 1536, n_kv_heads=3, rope_base=100_000.0).replace(head="tied"),
        "Allal et al. 2025, SmolLM2; " + HUB + "HuggingFaceTB/SmolLM2-135M",
        134_515_008,
    ),
    "tinyllama-1.1b": Published(
        _llama(32_000, 2048, 2048, 22, 32, 5632, n_kv_heads=4),
        "Zhang et al. 2024, TinyLlama, section 2; " + HUB + "TinyLlama/TinyLlama_v1.1",
        1_100_048_384,
    ),
    # Decoders that differ in one choice
    "bloom-560m": Published(
        ModelConfig(
            vocab_size=250_880,
            context_length=2048,
            d_model=1024,
            n_layers=24,
            n_heads=16,
            positions="alibi",
            embedding_norm=True,
        ),
        "Le Scao et al. 2022, BLOOM, section 3.2; " + HUB + "bigscience/bloom-560m",
        559_214_592,
        "ALiBi, and a norm after the embeddings. 46 % of the parameters are its vocabulary of 46 languages.",
    ),
    "starcoderbase-1b": Published(
        ModelConfig(
            vocab_size=49_152, context_length=8192, d_model=2048, n_layers=24, n_heads=16, n_kv_heads=1
        ),
        "Li et al. 2023, StarCoder, section 5; " + HUB + "bigcode/starcoderbase-1b",
        1_137_207_296,
        "Multi-query attention: one head of keys and values for all 16 that ask.",
    ),
}


# The small models that readers of the book build


def _teaching(*, d_model: int = 4, n_layers: int = 2, context_length: int = 64) -> ModelConfig:
    return ModelConfig(
        vocab_size=4,
        context_length=context_length,
        d_model=d_model,
        n_layers=n_layers,
        n_heads=2,
        attention_bias="none",
    )


TEACHING: dict[str, Published] = {
    "teaching-736": Published(_teaching(), "Chapter 08", 736, "16 + 256 + 456 + 8 parameters."),
    "teaching-2240": Published(_teaching(d_model=8), "Chapter 08", 2_240, "Twice as wide."),
    "teaching-1192": Published(_teaching(n_layers=4), "Chapter 08", 1_192, "Twice as deep."),
    "teaching-512": Published(_teaching(context_length=8), "Chapter 08", 512, "An eighth of the context."),
}
