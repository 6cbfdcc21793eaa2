"""Published models as `ModelConfig`s, with the source of each and its exact size.

Dropout is left out, because it only concerns training. If a model has no maximal input length,
`context_length` is the length it was trained on.
"""

import difflib
import math
from dataclasses import dataclass
from typing import Any

from glassformer.config import ModelConfig
from glassformer.layers import Experts, LatentAttention, Residual, Sinks

__all__ = ["PUBLISHED", "TEACHING", "Published", "published"]
__dir__ = __all__.copy


@dataclass(frozen=True)
class Published:
    """A config with its source, the model's number of parameters, and remarks.

    `n_drafts` counts what files have besides, and is left out here: a layer that predicts the token after the next one.
    """

    config: ModelConfig
    source: str
    n_parameters: int
    note: str = ""
    n_drafts: int = 0


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
QWEN2_LIKE = LLAMA_LIKE | {"rope_base": 1_000_000.0, "norm_eps": 1e-6, "attention_bias": "qkv"}
SANDWICH, OUTPUT = Residual(placement="sandwich"), Residual(placement="output")
GPT_OSS_EXPERTS = Experts(
    n_experts=32, top_k=4, scores="chosen", router_bias=True, limit=7.0, offset=1.0, sharpness=1.702
)
QWEN3_LIKE = LLAMA_LIKE | {"rope_base": 1_000_000.0, "norm_eps": 1e-6, "qk_norm": True}


def _model(
    n_parameters: int,
    source: str,
    family: dict[str, Any],
    *sizes: int,
    note: str = "",
    n_drafts: int = 0,
    **others: Any,
) -> Published:
    """Returns the entry of a member of a family, with its sizes in the order of `SIZES`, as far as they are its own."""
    named: dict[str, Any] = dict(zip(SIZES, sizes, strict=False))
    return Published(ModelConfig(**family | named | others), source, n_parameters, note, n_drafts)


HUB = "https://huggingface.co/"
GPT2 = f"Radford et al. 2019, Language Models are Unsupervised Multitask Learners, table 2; {HUB}openai-community/"
GPT3 = "Brown et al. 2020, Language Models are Few-Shot Learners, table 2.1"
BERT = f"Devlin et al. 2019, BERT, section 3; {HUB}google-bert/"
T5 = f"Raffel et al. 2020, Exploring the Limits of Transfer Learning, section 3.7; {HUB}google-t5/"
T5_V1_1 = f"Shazeer 2020, GLU Variants Improve Transformer; {HUB}google/"
LLAMA_2 = f"Touvron et al. 2023, Llama 2, section 2.2; {HUB}meta-llama/"
LLAMA_3 = f"Grattafiori et al. 2024, The Llama 3 Herd of Models, table 3; {HUB}meta-llama/"
LLAMA_3_2 = f"Meta 2024, Llama 3.2 model card; {HUB}meta-llama/"
MISTRAL = f"Jiang et al. 2023, Mistral 7B, table 1; {HUB}mistralai/"
QWEN2_5 = f"Qwen Team 2024, Qwen2.5 Technical Report, section 2; {HUB}Qwen/"
QWEN3 = f"Qwen Team 2025, Qwen3 Technical Report, section 2; {HUB}Qwen/"
SMOLLM3 = f"Bakouch et al. 2025, SmolLM3: smol, multilingual, long-context reasoner; {HUB}HuggingFaceTB/"
GEMMA_3 = f"Gemma Team 2025, Gemma 3 Technical Report, section 2; {HUB}google/"
OLMO_3 = f"Olmo Team 2025, Olmo 3; {HUB}allenai/"
MIXTRAL = f"Jiang et al. 2024, Mixtral of Experts, table 1; {HUB}mistralai/"
OLMOE = f"Muennighoff et al. 2024, OLMoE: Open Mixture-of-Experts Language Models; {HUB}allenai/"
GPT_OSS = f"OpenAI 2025, gpt-oss-120b & gpt-oss-20b Model Card, section 2; {HUB}openai/"
SMOLLM2 = f"Allal et al. 2025, SmolLM2; {HUB}HuggingFaceTB/"
TINYLLAMA = f"Zhang et al. 2024, TinyLlama, section 2; {HUB}TinyLlama/"
DEEPSEEK_V3 = f"DeepSeek-AI 2024, DeepSeek-V3 Technical Report, section 4.2; {HUB}deepseek-ai/DeepSeek-V3"
KIMI_K2 = f"Kimi Team 2025, Kimi K2: Open Agentic Intelligence, section 2.3; {HUB}moonshotai/Kimi-K2-Instruct"
GLM_4_5 = (
    f"GLM-4.5 Team 2025, GLM-4.5: Agentic, Reasoning, and Coding Foundation Models; {HUB}zai-org/GLM-4.5"
)
MINIMAX_M2 = f"MiniMax 2025, MiniMax-M2 model card; {HUB}MiniMaxAI/MiniMax-M2"
BLOOM = f"Le Scao et al. 2022, BLOOM, section 3.2; {HUB}bigscience/"
STARCODER = f"Li et al. 2023, StarCoder, section 5; {HUB}bigcode/"


def _latent_mixture(factor: float, n_dense: int, experts: Experts) -> dict[str, Any]:
    """Returns what DeepSeek-V3 and Kimi K2 share: latent attention, YaRN, and experts behind dense layers."""
    m = 0.1 * math.log(factor) + 1.0
    form = LatentAttention(d_latent=512, d_rotated=64, d_value=128, d_query_latent=1536)
    return LLAMA_LIKE | {
        "d_head": 192, "norm_eps": 1e-6, "rope_layout": "interleaved", "rope_scaling": "yarn",
        "rope_interpolation": factor, "rope_original_context": 4096, "rope_slow": 1.0, "rope_attention_factor": 1.0,
        "attention_scale": 192**-0.5 * m * m,
        "kinds": {"dense": {"form": form}, "sparse": {"d_ff": 2048, "form": form, "experts": experts}},
        "order": f"dense*{n_dense} sparse*{61 - n_dense}",
    }  # fmt: skip


SIGMOID: dict[str, Any] = {"top_k": 8, "scores": "sigmoid", "choice_bias": True}
SHARED = SIGMOID | {"sum_eps": 1e-20, "d_shared": 2048}

GPT2_NOTE = "The paper's table says {}: its counts were mistaken, as the authors' repository says."
BERT_NOTE = "With the pooler, without the heads of pre-training. The paper says {}."
LLAMA_2_NOTE = (
    'Meta\'s own files have the rows of W_q and W_k in the order of rope_layout="interleaved"; '
    'the converted ones, meant here, in that of "half".'
)
T5_NOTE = "Each stack learns one table of biases, and all of its blocks use it."
QWEN2_5_NOTE = "The vocabulary is padded: the tokenizer uses the first 151,665 rows."

GEMMA_3_LIKE = LLAMA_LIKE | {
    "d_head": 256, "norm_eps": 1e-6, "qk_norm": True, "feedforward": "geglu_tanh", "head": "tied",
    "kinds": {
        "windowed": {"sliding_window": 512, "rope_base": 10_000.0, "residual": SANDWICH},
        "full": {"rope_base": 1_000_000.0, "residual": SANDWICH},
    },
    "order": "windowed*5 full",
}  # fmt: skip

PUBLISHED: dict[str, Published] = {
    # GPT: decoders with learned positions
    "gpt2": _model(124_439_808, f"{GPT2}gpt2", GPT2_LIKE, 768, 12, 12, note=GPT2_NOTE.format("117M")),
    "gpt2-medium": _model(
        354_823_168, f"{GPT2}gpt2-medium", GPT2_LIKE, 1024, 24, 16, note=GPT2_NOTE.format("345M")
    ),
    "gpt2-large": _model(
        774_030_080, f"{GPT2}gpt2-large", GPT2_LIKE, 1280, 36, 20, note=GPT2_NOTE.format("762M")
    ),
    "gpt2-xl": _model(
        1_557_611_200, f"{GPT2}gpt2-xl", GPT2_LIKE, 1600, 48, 25, note=GPT2_NOTE.format("1542M")
    ),
    "gpt3": _model(
        174_604_259_328, GPT3, GPT2_LIKE, 12_288, 96, 96, context_length=2048,
        note="The weights are not public; this is GPT-2's architecture at the paper's sizes, and its 174,600M agree. "
        "You may also meet 175,181,291,520. That count includes only the matrices, without biases, norms or "
        "positions, but with an output matrix of its own. Half of GPT-3's layers attend sparsely, which changes "
        "no count.",
    ),
    # BERT: encoders, post-norm
    "bert-base": _model(
        109_482_240, f"{BERT}bert-base-uncased", BERT_LIKE, 768, 12, 12, note=BERT_NOTE.format("110M")
    ),
    "bert-large": _model(
        335_141_888, f"{BERT}bert-large-uncased", BERT_LIKE, 1024, 24, 16, note=BERT_NOTE.format("340M")
    ),
    # T5: encoder–decoders with relative positions
    "t5-small": _model(
        60_506_624, f"{T5}t5-small", T5_LIKE, 512, 6, 8, 2048, head_scale=512**-0.5, note=T5_NOTE
    ),
    "t5-base": _model(
        222_903_552, f"{T5}t5-base", T5_LIKE, 768, 12, 12, 3072, head_scale=768**-0.5, note=T5_NOTE
    ),
    "t5-large": _model(
        737_668_096, f"{T5}t5-large", T5_LIKE, 1024, 24, 16, 4096, head_scale=1024**-0.5, note=T5_NOTE
    ),
    "t5-v1.1-base": _model(
        247_577_856, f"{T5_V1_1}t5-v1_1-base", T5_LIKE, 768, 12, 12, 2048, feedforward="geglu_tanh",
        head="untied", note="Flan-T5 base has the same architecture.",
    ),
    # LLaMA and its successors: decoders with rotary positions, RMSNorm and a gated feed-forward
    "llama-2-7b": _model(
        6_738_415_616, f"{LLAMA_2}Llama-2-7b-hf", LLAMA_LIKE, 4096, 32, 32, 11_008, 32_000, 4096,
        note=LLAMA_2_NOTE,
    ),
    "llama-2-13b": _model(
        13_015_864_320, f"{LLAMA_2}Llama-2-13b-hf", LLAMA_LIKE, 5120, 40, 40, 13_824, 32_000, 4096,
        note=LLAMA_2_NOTE,
    ),
    "llama-2-70b": _model(
        68_976_648_192, f"{LLAMA_2}Llama-2-70b-hf", LLAMA_LIKE, 8192, 80, 64, 28_672, 32_000, 4096,
        n_kv_heads=8, note=LLAMA_2_NOTE,
    ),
    "llama-3-8b": _model(
        8_030_261_248, f"{LLAMA_3}Meta-Llama-3-8B", LLAMA_LIKE, 4096, 32, 32, 14_336, 128_256, 8192,
        n_kv_heads=8, rope_base=500_000.0,
    ),
    "llama-3.2-1b": _model(
        1_235_814_400, f"{LLAMA_3_2}Llama-3.2-1B", LLAMA_LIKE, 2048, 16, 32, 8192, 128_256, 131_072,
        n_kv_heads=8, rope_base=500_000.0, rope_scaling="llama3", rope_interpolation=32.0,
        rope_original_context=8192, head="tied",
        note="Positions stretched from 8,192 to 131,072, as in Llama 3.1 and 3.3.",
    ),
    "mistral-7b-v0.1": _model(
        7_241_732_096, f"{MISTRAL}Mistral-7B-v0.1", LLAMA_LIKE, 4096, 32, 32, 14_336, 32_000, 32_768,
        n_kv_heads=8, sliding_window=4096,
        note="In each layer, a position sees itself and the 4,095 positions before it.",
    ),
    "mistral-7b": _model(
        7_248_023_552, f"{MISTRAL}Mistral-7B-v0.3", LLAMA_LIKE, 4096, 32, 32, 14_336, 32_768, 32_768,
        n_kv_heads=8, rope_base=1_000_000.0,
        note="Version 0.3. It has no sliding window, which version 0.1 has, a larger vocabulary and a larger base.",
    ),
    "qwen2.5-0.5b": _model(
        494_032_768, f"{QWEN2_5}Qwen2.5-0.5B", QWEN2_LIKE, 896, 24, 14, 4864, 151_936, 32_768, n_kv_heads=2,
        head="tied", note=QWEN2_5_NOTE,
    ),
    "qwen2.5-7b": _model(
        7_615_616_512, f"{QWEN2_5}Qwen2.5-7B", QWEN2_LIKE, 3584, 28, 28, 18_944, 152_064, 131_072,
        n_kv_heads=4, note=QWEN2_5_NOTE,
    ),
    "qwen3-0.6b": _model(
        596_049_920, f"{QWEN3}Qwen3-0.6B", QWEN3_LIKE, 1024, 28, 16, 3072, 151_936, 40_960, n_kv_heads=8,
        d_head=128, head="tied", note="16 heads of 128 are 2048 wide, twice d_model.",
    ),
    "qwen3-1.7b": _model(
        1_720_574_976, f"{QWEN3}Qwen3-1.7B", QWEN3_LIKE, 2048, 28, 16, 6144, 151_936, 40_960, n_kv_heads=8,
        d_head=128, head="tied",
    ),
    "qwen3-4b": _model(
        4_022_468_096, f"{QWEN3}Qwen3-4B", QWEN3_LIKE, 2560, 36, 32, 9728, 151_936, 40_960, n_kv_heads=8,
        d_head=128, head="tied",
    ),
    "qwen3-8b": _model(
        8_190_735_360, f"{QWEN3}Qwen3-8B", QWEN3_LIKE, 4096, 36, 32, 12_288, 151_936, 40_960, n_kv_heads=8
    ),
    "smollm2-135m": _model(
        134_515_008, f"{SMOLLM2}SmolLM2-135M", LLAMA_LIKE, 576, 30, 9, 1536, 49_152, 8192, n_kv_heads=3,
        rope_base=100_000.0, head="tied",
    ),
    "tinyllama-1.1b": _model(
        1_100_048_384, f"{TINYLLAMA}TinyLlama_v1.1", LLAMA_LIKE, 2048, 22, 32, 5632, 32_000, 2048,
        n_kv_heads=4,
    ),
    # Decoders whose layers differ
    "gemma-3-270m": _model(
        268_098_176, f"{GEMMA_3}gemma-3-270m", GEMMA_3_LIKE, 640, 18, 4, 2048, 262_144, 32_768, n_kv_heads=1,
        embedding_scale=640**0.5, note="The vocabulary is 63 % of the parameters.",
    ),
    "gemma-3-1b": _model(
        999_885_952, f"{GEMMA_3}gemma-3-1b-pt", GEMMA_3_LIKE, 1152, 26, 4, 6912, 262_144, 32_768, n_kv_heads=1,
        embedding_scale=1152**0.5,
        note="Each sublayer has a norm before and one after it. The vocabulary is 30 % of the parameters.",
    ),
    "olmo-3-7b": _model(
        7_298_011_136, f"{OLMO_3}Olmo-3-1025-7B", LLAMA_LIKE, 4096, 32, 32, 11_008, 100_278, 65_536, norm_eps=1e-6,
        rope_base=500_000.0, qk_norm="width",
        kinds={
            "windowed": {"sliding_window": 4096, "residual": OUTPUT},
            "full": {
                "rope_scaling": "yarn", "rope_interpolation": 8.0, "rope_original_context": 8192, "rope_slow": 1.0,
                "rope_fast": 32.0, "residual": OUTPUT,
            },
        },
        order="windowed*3 full",
        note="Norms come only after the sublayers, and over all queries and keys. Only full layers are stretched.",
    ),
    "smollm3-3b": _model(
        3_075_098_624, f"{SMOLLM3}SmolLM3-3B", LLAMA_LIKE, 2048, 36, 16, 11_008, 128_256, 65_536, n_kv_heads=4,
        norm_eps=1e-6, rope_base=5_000_000.0, head="tied",
        kinds={"rotated": {}, "unrotated": {"positions": "none"}}, order="rotated*3 unrotated",
        note="Every fourth layer rotates nothing, so it tells positions apart only by what other layers wrote.",
    ),
    # Decoders with experts
    "mixtral-8x7b": _model(
        46_702_792_704, f"{MIXTRAL}Mixtral-8x7B-v0.1", LLAMA_LIKE, 4096, 32, 32, 14_336, 32_000, 32_768, n_kv_heads=8,
        rope_base=1_000_000.0, kinds={"every": {"experts": Experts(n_experts=8, top_k=2)}},
        note="2 of 8 experts: a token uses 12,879,925,248 of the parameters.",
    ),
    "olmoe-1b-7b": _model(
        6_919_161_856, f"{OLMOE}OLMoE-1B-7B-0924", LLAMA_LIKE, 2048, 16, 16, 1024, 50_304, 4096, qk_norm="width",
        kinds={"every": {"experts": Experts(n_experts=64, top_k=8, renormalize=False)}},
        note="8 of 64 experts: a token uses 1,282,017,280 of the parameters.",
    ),
    "qwen3-30b-a3b": _model(
        30_532_122_624, f"{QWEN3}Qwen3-30B-A3B", QWEN3_LIKE, 2048, 48, 32, 768, 151_936, 40_960, n_kv_heads=4,
        d_head=128, kinds={"every": {"experts": Experts(n_experts=128, top_k=8)}},
        note="8 of 128 experts: a token uses 3,353,032,704 of the parameters.",
    ),
    "gpt-oss-20b": _model(
        20_914_757_184, f"{GPT_OSS}gpt-oss-20b", LLAMA_LIKE, 2880, 24, 64, 2880, 201_088, 131_072, n_kv_heads=8,
        d_head=64, attention_bias="all", feedforward_bias=True, rope_base=150_000.0,
        rope_scaling="yarn", rope_interpolation=32.0, rope_original_context=4096, rope_slow=1.0, rope_fast=32.0,
        rope_truncate=False,
        kinds={
            "windowed": {"sliding_window": 128, "sinks": Sinks(), "experts": GPT_OSS_EXPERTS},
            "full": {"sinks": Sinks(), "experts": GPT_OSS_EXPERTS},
        },
        order="windowed full",
        note="4 of 32 experts: a token uses 4,187,440,704 of the parameters. Files have experts in 4 bits a number.",
    ),
    "deepseek-v3": _model(
        671_026_419_200, DEEPSEEK_V3,
        _latent_mixture(
            40.0, 3, Experts(n_experts=256, n_groups=8, top_groups=4, group_best=2, scale=2.5, **SHARED)
        ),
        7168, 61, 128, 18_432, 129_280, 163_840,
        note="8 of 256 experts: a token uses 37,552,297,472 of the parameters.", n_drafts=13_463_426_304,
    ),
    "kimi-k2": _model(
        1_026_408_232_448, KIMI_K2, _latent_mixture(32.0, 1, Experts(n_experts=384, scale=2.827, **SHARED)),
        7168, 61, 64, 18_432, 163_840, 131_072, rope_base=50_000.0, rope_fast=1.0,
        note="8 of 384 experts: a token uses 32,861,500,928 of the parameters. The report says 1.04 trillion and 32B.",
    ),
    "glm-4.5": _model(
        352_797_829_024, GLM_4_5, LLAMA_LIKE, 5120, 92, 96, 12_288, 151_552, 131_072, n_kv_heads=8, d_head=128,
        attention_bias="qkv", qk_norm=True, rope_base=1_000_000.0, rope_share=0.5,
        kinds={
            "dense": {},
            "sparse": {
                "d_ff": 1536, "experts": Experts(n_experts=160, scale=2.5, **SHARED | {"d_shared": 1536}),
            },
        },
        order="dense*3 sparse*89",
        note="8 of 160 experts: a token uses 33,632,266,144 of the parameters. The report's 355B include the layer for "
        "drafts, but neither embeddings nor output layers.",
        n_drafts=5_539_962_272,
    ),
    "minimax-m2": _model(
        228_689_764_864, MINIMAX_M2, LLAMA_LIKE, 3072, 62, 48, 1536, 200_064, 196_608, n_kv_heads=8, d_head=128,
        norm_eps=1e-6, qk_norm="width", rope_base=5_000_000.0, rope_share=0.5,
        kinds={"every": {"experts": Experts(n_experts=256, **SIGMOID)}},
        note="8 of 256 experts: a token uses 11,030,553,088 of the parameters.",
    ),
    # Decoders that differ from GPT-2 in a choice or two
    "bloom-560m": _model(
        559_214_592, f"{BLOOM}bloom-560m", GPT2_LIKE, 1024, 24, 16, vocab_size=250_880, context_length=2048,
        positions="alibi", embedding_norm=True,
        note="ALiBi, and a norm after the embeddings. 46 % of the parameters are its vocabulary of 46 languages.",
    ),
    "starcoderbase-1b": _model(
        1_137_207_296, f"{STARCODER}starcoderbase-1b", GPT2_LIKE, 2048, 24, 16, vocab_size=49_152,
        context_length=8192, n_kv_heads=1,
        note="Multi-query attention: one head of keys and values for all 16 that ask.",
    ),
}  # fmt: skip


# The small models that readers of the book build


TEACHING_LIKE = {"vocab_size": 4, "context_length": 64, "n_heads": 2, "attention_bias": "none"}

TEACHING: dict[str, Published] = {
    "teaching-736": _model(736, "Chapter 08", TEACHING_LIKE, 4, 2, note="16 + 256 + 456 + 8 parameters."),
    "teaching-2240": _model(2_240, "Chapter 08", TEACHING_LIKE, 8, 2, note="Twice as wide."),
    "teaching-1192": _model(1_192, "Chapter 08", TEACHING_LIKE, 4, 4, note="Twice as deep."),
    "teaching-512": _model(
        512, "Chapter 08", TEACHING_LIKE, 4, 2, context_length=8, note="An eighth of the context."
    ),
}
