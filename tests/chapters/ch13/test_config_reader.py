"""Tests ConfigReader: it reads, counts and refuses what `huggingface.configs` reads, counts and refuses."""

import itertools
import json
import math
import re

import pytest

from glassformer.chapters.ch13.config_reader import (
    DEPENDS,
    LONGEST,
    RUN,
    ConfigReader,
    examples,
    tables,
    written,
)
from glassformer.config import FAMILIES, ModelConfig
from glassformer.huggingface import config_from_hf, config_to_hf, unknown_keys
from glassformer.huggingface.families import FORMATS
from glassformer.huggingface.keys import WITHOUT_TYPE
from glassformer.inside import cache_bytes
from glassformer.layers import Residual
from glassformer.published import PUBLISHED, published
from glassformer.widgets.kit import modules

EXAMPLES = {name: json.loads(text) for _, name, text in examples()}
LETTERS = ConfigReader()._letters
FORMULAS = ConfigReader()._formulas
TABLES = tables()
FORM = {"fields": {}}


def says(given):
    """Returns what Python makes of a config.json: the configuration, or the error message; and its unknown keys."""
    try:
        return {"config": config_from_hf(given, ignore=unknown_keys(given)).to_fields()}
    except (TypeError, ValueError) as error:
        return {"refused": str(error)}


def of_kind(given):
    """Returns the tables of one family: all of them for hundreds of files would take megabytes."""
    kind = given.get("model_type")
    formats = {name: form if name == kind else FORM for name, form in TABLES["formats"].items()}
    return TABLES | {"formats": formats, "known": {}}


# --- the numbers ------------------------------------------------------------------------------------------

# The published models of families that Hugging Face's names are known of
WRITTEN = [name for name in PUBLISHED if not name.startswith(("bloom", "starcoder"))]

VALUES = itertools.cycle([None, True, 0, -1, 2.5, 7, "x", [], {}, [1]])
SPECIAL = ("tie_word_embeddings", "quantization_config", "sliding_window", "use_sliding_window", "mlp_bias")
SPECIAL += ("attention_bias", "rope_scaling", "rope_parameters", "partial_rotary_factor", "rope_theta")
SPECIAL += ("scale_attn_weights", "add_cross_attention", "is_decoder", "scale_decoder_outputs")


YARN = {"rope_type": "yarn", "factor": 4.5}
YARNS = (
    {}, {"factor": None}, {"factor": "x"}, {"factor": 0.5}, {"factor": -1}, {"attention_factor": 0.75},
    {"attention_factor": 0}, {"attention_factor": "x"}, {"beta_fast": 16, "beta_slow": 2},
    {"beta_fast": 2, "beta_slow": 2}, {"beta_fast": 1, "beta_slow": 2.5}, {"beta_slow": "x"},
    {"beta_fast": None, "beta_slow": True}, {"original_max_position_embeddings": 1024},
    {"original_max_position_embeddings": 0}, {"original_max_position_embeddings": "x"},
    {"mscale": 1.0, "mscale_all_dim": 0.707}, {"mscale": 1, "mscale_all_dim": -1},
    {"mscale": "x", "mscale_all_dim": 1}, {"mscale": 1, "mscale_all_dim": 1, "factor": "x"},
    {"mscale": 2, "mscale_all_dim": 0}, {"mscale": 2}, {"truncate": True}, {"truncate": False}, {"truncate": None},
    {"partial_rotary_factor": 0.5},
)  # fmt: skip
LLAMA_3 = {"rope_type": "llama3", "factor": 8, "low_freq_factor": 1, "high_freq_factor": 4}
LLAMA_3 |= {"original_max_position_embeddings": 2048}
LLAMAS_3 = (
    {}, {"low_freq_factor": 4, "high_freq_factor": 1}, {"low_freq_factor": 2.5, "high_freq_factor": 2.5},
    {"low_freq_factor": 0}, {"high_freq_factor": "x"}, {"original_max_position_embeddings": None},
    {"attention_factor": 0.5}, {"mscale": 1.0, "mscale_all_dim": 0.707}, {"truncate": False},
)  # fmt: skip


FULL, NEAR = ["full_attention"] * 28, ["sliding_attention"] * 28
QWEN, GPT2 = written("qwen2.5-7b"), written("gpt2")
ROPE = written("llama-2-7b")["rope_parameters"]
# Keys that nobody knows, that are refused by name, that contradict each other, and files that are something else
KEYS = (
    GPT2 | {"new": 1},
    written("llama-2-7b") | {"rope_parameters": ROPE | {"new": 1}},
    written("qwen3-0.6b") | {"router_bias": [2.5]},
    GPT2 | {"is_causal": False},
    GPT2 | {"hidden_size": 768, "torch_dtype": "torch.float16", "dtype": "float16"},
    GPT2 | {"hidden_size": 700},
    GPT2 | {"torch_dtype": "float16", "dtype": "bfloat16"},
    {key: value for key, value in GPT2.items() if key != "n_positions"} | {"n_ctx": 77},
    written("bert-base") | {"pruned_heads": {}, "layer_types": []},
    written("bert-base") | {"pruned_heads": {"0": [1]}},
    written("t5-small") | {"is_gated_act": True},
    written("t5-small") | {"dense_act_fn": "relu"},
    written("t5-small") | {"is_gated_act": None, "tie_word_embeddings": None},
    written("llama-2-7b") | {"rope_parameters": ROPE | {"type": None, "partial_rotary_factor": None}},
    written("bert-base") | {"embedding_size": 768},
    written("bert-base") | {"emb_size": 128},
    GPT2 | {"n_special": 0},
    *(written("llama-2-7b") | {"attention_multiplier": value} for value in (128**-0.5, 0.01, "x", None)),
    *(written("qwen3-0.6b") | {"query_pre_attn_scalar": value} for value in (128, 64)),
    *(written("llama-2-7b") | {"no_rope_layers": value} for value in ([1, 1], [1, 0], [])),
    written("llama-2-7b") | {"rope_scaling": {"type": "linear", "factor": 2.5}},
    written("llama-2-7b") | {"rope_parameters": {"type": "linear", "rope_type": "default"}},
    written("llama-2-7b") | {"layer_types": FULL},
    written("llama-2-7b") | {"layer_types": NEAR},
    *(QWEN | {"layer_types": types} for types in (FULL, FULL[1:], NEAR, [None], "full_attention")),
    *(
        QWEN | {"use_sliding_window": True, "sliding_window": 512, "layer_types": types}
        for types in (FULL, NEAR, [*FULL[1:], NEAR[0]])
    ),
    written("mistral-7b-v0.1") | {"layer_types": ["full_attention"] * 32},
    written("mistral-7b-v0.1") | {"layer_types": ["sliding_attention"] * 32},
    {"MODEL_TYPE": "gpt2"},
    {"model_type": "GPT2"},
    *(dict.fromkeys(keys, 1) for keys, _ in WITHOUT_TYPE),
)


SMALL = {"vocab_size": 50, "max_position_embeddings": 64, "hidden_size": 64, "num_hidden_layers": 6}
SMALL |= {"num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96}
# For each family that has more keys than a LLaMA, what its smallest file needs besides
OTHERS = {
    "gemma2": {"query_pre_attn_scalar": 16},
    "gemma3_text": {"head_dim": 16},
    "smollm3": {},
    "granite": {},
}
OTHERS |= {
    "olmo3": {},
    "ministral3": {"head_dim": 16},
    "phi3": {},
    "seed_oss": {},
    "qwen2": {"use_sliding_window": True},
}
WRONG = (None, True, 0, -1, 2.5, 3, "x", [], {"a": 1})
S, F = "sliding_attention", "full_attention"
LISTS = (
    [S, F], [S] * 5 + [F], [F] * 4 + [S] * 2, [S, F, F], [F] * 6, [S] * 6, [S] * 5, [S, "x"] * 3, S, [None] * 6, [],
    [1, 1, 0], [0] * 6, [1] * 6, [True, False], [1, 2],
)  # fmt: skip
NESTED = (
    {}, {S: {}, F: None}, {S: {"rope_theta": 5.5}, F: {"rope_theta": 7.5}}, {S: {"rope_theta": None}}, {S: {"new": 1}},
    {S: {"rope_theta": -1}, F: {}}, {F: {"rope_type": "linear", "factor": 8.5}}, {S: YARN}, {F: YARN, S: YARN},
    {F: YARN | {"beta_fast": 1, "beta_slow": 2}}, {F: {"rope_type": "x"}}, {F: {"partial_rotary_factor": 0.5}},
    {F: [1]}, {F: {"rope_type": "linear"}}, {F: {"rope_type": "linear", "factor": -1}}, {"x": {}}, {"rope_theta": 7.5},
    "x", [1], [],
    YARN | {"llama_4_scaling_beta": 0.5, "original_max_position_embeddings": 16},
    YARN | {"llama_4_scaling_beta": -0.5, "original_max_position_embeddings": 16},
    YARN | {"llama_4_scaling_beta": 0.5, "original_max_position_embeddings": 2.5},
    YARN | {"llama_4_scaling_beta": 0.5}, {"llama_4_scaling_beta": "x", "original_max_position_embeddings": 8},
)  # fmt: skip


def files_with_kinds():
    """Yields files of the families that have kinds of layers, or parts, with each way to get one of them wrong."""
    for kind, more in OTHERS.items():
        form, base = FORMATS[kind], {"model_type": kind, **SMALL, **more}
        yield base
        yield base | {"architectures": [form.architectures[-1]]}
        for key in dict.fromkeys([*more, *(key for key in form.keys if key not in FORMATS["llama"].keys)]):
            yield {name: value for name, value in base.items() if name != key}
            yield from (base | {key: value} for value in WRONG)
        if form.kinds is not None:
            for n, listed in enumerate(LISTS):
                whole = (listed * 3)[:6] if isinstance(listed, list) and len(listed) < 4 else listed
                yield base | {form.kinds.key: whole}
                yield base | {form.kinds.key: whole, "sliding_window": (None, 0, 8)[n % 3]}
        if kind in ("gemma3_text", "olmo3", "ministral3"):
            yield from (base | {"rope_parameters": one} for one in NESTED)
            for one in (
                {"rope_type": "linear", "factor": 2.5},
                YARN,
                YARN | {"rope_theta": 7.5},
                {S: {}},
                "x",
            ):
                yield base | {"rope_scaling": one}
                yield base | {
                    "rope_scaling": one,
                    "rope_theta": 5.5,
                    "rope_parameters": {S: {"rope_theta": 3.5}},
                }
    yield {"model_type": "granite", **SMALL, "logits_scaling": 8.5, "architectures": ["GraniteModel"]}
    gemma = {"model_type": "gemma3_text", **SMALL, "head_dim": 16}
    yield gemma | {"rope_local_base_freq": 5.5, "rope_parameters": {S: {"rope_theta": 7.5}}}
    yield gemma | {"rope_local_base_freq": 1e6}
    yield gemma | {"sliding_window": 8, "sliding_window_pattern": 1}
    yield gemma | {"sliding_window_pattern": 7}
    yield gemma | {"num_hidden_layers": 13, "query_pre_attn_scalar": 64}


def files():
    """Yields files in which each field is left out or has a wrong value, and files of other families."""
    names = "gpt2 bert-base t5-small llama-3-8b qwen2.5-0.5b qwen3-0.6b llama-3.2-1b mistral-7b-v0.1"
    for name in names.split():
        base = EXAMPLES[name] if name in EXAMPLES else written(name)
        several = 2 if name in ("gpt2", "bert-base", "t5-small") else 1  # the others share one format
        for field in dict.fromkeys([*base, *SPECIAL]):
            yield from (base | {field: value} for value in itertools.islice(VALUES, several))
            yield {other: value for other, value in base.items() if other != field}
    llama, t5, mistral = written("llama-2-7b"), written("t5-small"), EXAMPLES["mistral-7b-v0.1"]
    for kind in (
        *["gpt_neox", "bloom", "gpt_bigcode", "gemma2", "mixtral", "phi3", "deepseek_v3", "it's"],
        'a "b"',
    ):
        yield llama | {"model_type": kind}
    for changes in (
        {"rope_parameters": {"rope_type": "linear", "factor": 4, "rope_theta": 5e5}},
        {"rope_parameters": {"rope_type": "yarn", "factor": 4.5}},
        *({"rope_parameters": YARN | more} for more in YARNS),
        *({"rope_parameters": LLAMA_3 | more} for more in LLAMAS_3),
        *({"rope_parameters": {n: v for n, v in LLAMA_3.items() if n != name}} for name in LLAMA_3),
        {"rope_parameters": YARN, "original_max_position_embeddings": 16},
        {"rope_parameters": YARN, "original_max_position_embeddings": None},
        {"rope_parameters": YARN, "original_max_position_embeddings": 2.5},
        {"rope_parameters": YARN, "rope_theta": 1.0},
        {"rope_parameters": LLAMA_3, "rope_theta": 1.0},
        {"rope_parameters": None, "rope_scaling": {"type": "linear", "factor": 2.0}},
        {"rope_parameters": None, "rope_scaling": {"type": "dynamic", "factor": 2.5}},
        {"rope_parameters": {"partial_rotary_factor": 0.5}},
        {"rope_parameters": {"rope_type": "linear"}},
        {"rope_parameters": {"rope_theta": 5e5}, "rope_scaling": {"type": "linear", "factor": 2.0}},
        {"rope_parameters": {"full_attention": {"rope_theta": 2.5}}},
        {"attention_bias": True, "mlp_bias": True, "hidden_act": "gelu_pytorch_tanh"},
        {"architectures": ["LlamaForSequenceClassification"]},
        {"architectures": ["LlamaModel"]},
        {"num_key_value_heads": 5},
        {"head_dim": 3},
    ):
        yield llama | changes
    for changes in (
        {"relative_attention_num_buckets": 2},
        {"relative_attention_num_buckets": 33},
        {"relative_attention_max_distance": 16},
        {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False},
        {"scale_decoder_outputs": False},
        {"num_decoder_layers": 3},
    ):
        yield t5 | changes
    for window in (1, 32_768, 40_000):
        yield mistral | {"sliding_window": window}
        for used in (True, False):
            yield QWEN | {"use_sliding_window": used, "sliding_window": window}
        for more in ({"layer_types": ["x"]}, *({"max_window_layers": n_whole} for n_whole in (0, 1, 28, -1))):
            yield QWEN | {"use_sliding_window": True, "sliding_window": window} | more
    yield written("bert-base") | {"architectures": ["BertForPreTraining"], "hidden_act": "relu"}
    yield from KEYS
    yield from files_with_kinds()


def test_a_file_is_read_and_refused_as_python_reads_and_refuses_it(call):
    cases = list(files())
    expected = [says(given) for given in cases]
    assert 200 < sum("refused" in each for each in expected) < len(cases) - 200
    read = call.each("hubconfig", "model", [[given, of_kind(given)] for given in cases])
    for given, was, now in zip(cases, expected, read, strict=True):
        assert near(as_json(now), as_json(was)), f"{given}:\n{was}\n{now}"
    unknown = call.each("hubconfig", "unknownKeys", [[given, of_kind(given)] for given in cases])
    assert unknown == [unknown_keys(given) for given in cases]
    assert all(keys in unknown for keys in (["new"], ["rope_parameters.new"], ["router_bias"]))


def as_json(words):
    """Returns a message with 5.0 as 5: JSON in JavaScript makes no difference between them."""
    if "refused" not in words:
        return words
    return {"refused": re.sub(r"(\d)\.0\b", r"\1", words["refused"])}


def near(a, b):
    """Returns whether both are equal up to the last digit of a power or logarithm, which may differ."""
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(near(a[key], b[key]) for key in a)
    if type(a) in (int, float) and type(b) in (int, float):
        return math.isclose(a, b, rel_tol=1e-15)
    return type(a) is type(b) and a == b


def read(call, *texts, formulas=None):
    """Returns what the view says about texts; without formulas it counts nothing."""
    kinds = [next((kind for kind in TABLES["formats"] if f'"{kind}"' in text), None) for text in texts]
    given = [
        [text, of_kind({"model_type": kind}), formulas or {}, LETTERS]
        for text, kind in zip(texts, kinds, strict=True)
    ]
    return call.each("config_reader", "read", given)


def of_family(family):
    """Returns the formulas of one family."""

    def own(entries):
        return {key: each for key, each in entries.items() if f"{key} ".startswith(f"{family} ")}

    return {part: one | {"entries": own(one["entries"])} for part, one in FORMULAS.items()}


def test_every_family_that_tables_cannot_express_has_its_reader():
    [body] = re.findall(r"^const READERS = \{\n(.*?)^\};", modules.read("hubconfig"), re.M | re.S)
    in_javascript = re.findall(r"^  (\w+)\(", body, re.M)
    with_code = [kind for kind, form in FORMATS.items() if form.read is not None]
    assert in_javascript == with_code, "add to READERS of hubconfig.js"


def test_every_published_model_is_counted_to_the_digit(call):
    assert len(WRITTEN) > 20
    for family in FAMILIES:
        names = [name for name in WRITTEN if PUBLISHED[name].config.family == family]
        texts = [json.dumps(config_to_hf(PUBLISHED[name].config)) for name in names]
        for name, found in zip(names, read(call, *texts, formulas=of_family(family)), strict=True):
            count = PUBLISHED[name].config.parameter_count()
            assert (found["kind"], found["lacks"]) == ("runs", []), name
            assert found["total"] == PUBLISHED[name].n_parameters == count.total
            assert {p["name"]: p["count"] for p in found["parts"]} == {p.name: p.count for p in count.parts}


SIZES = {
    "vocab_size": 50,
    "context_length": 100,
    "d_model": 48,
    "n_layers": 11,
    "n_heads": 4,
    "positions": "rope",
}
SANDWICH, OUTPUT = Residual(placement="sandwich"), Residual(placement="output", scale=0.5)
OF_KINDS = (
    {"kinds": {"every": {"residual": SANDWICH}}, "qk_norm": "width"},
    {
        "kinds": {"near": {"sliding_window": 5}, "far": {"positions": "none"}},
        "order": "near*3 far",
        "norm": "rmsnorm",
    },
    {
        "kinds": {
            "near": {"n_heads": 6, "n_kv_heads": 2, "d_head": 10, "d_ff": 7},
            "far": {"residual": SANDWICH},
        },
        "order": "near*2 far near",
        "qk_norm": "width",
    },
    {
        "kinds": {
            "a": {"feedforward": "geglu", "norm_placement": "post"},
            "b": {"residual": OUTPUT},
            "c": {"d_ff": 96},
        },
        "order": "a b*30 c",
        "qk_norm": True,
    },
    {
        "kinds": {
            "a": {"n_kv_heads": 1, "attention_bias": "none"},
            "b": {"feedforward_bias": False},
            "c": {},
        },
        "order": "a b c",
        "family": "encoder-decoder",
        "n_decoder_layers": 2,
    },
)


def test_layers_that_differ_are_counted_to_the_digit(call):
    for changes in OF_KINDS:
        config = ModelConfig(**SIZES | changes)
        parts = call("counting", "counted", config.to_fields(), of_family(config.family), LETTERS)
        lines = [(p.name, p.times, p.each, p.count) for p in config.parameter_count().parts]
        assert [(p["name"], p["times"], p["each"], p["count"]) for p in parts] == lines, changes
        drawn = call("counting", "together", parts)
        assert [p["name"] for p in drawn] == [
            name for name in DEPENDS if any(p["place"] == name for p in parts)
        ]
        assert sum(p["count"] for p in drawn) == config.parameter_count().total
        spelled = call.each("counting", "formulaOf", [[p] for p in drawn])
        for part, words in zip(drawn, spelled, strict=True):
            lines = [str(p) for p in config.parameter_count().parts if p.name.split(",")[0] == part["name"]]
            assert words == " + ".join(lines)
        if config.family == "decoder":
            caches = call("counting", "cachesOf", config.to_fields(), 100)
            kept = sum(2 * each["L"] * each["G"] * each["K"] * each["kept"] for each in caches)
            assert kept == cache_bytes(config, 100, bytes_per_number=1)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "There is nothing to read yet"),
        ("Hello, I am prose.", r"This is not JSON: .* A config.json begins with { and ends with }\."),
        ('{"model_type": "gpt2",', "This is not JSON"),
        ("<!doctype html><p>{}", "This is not JSON but a web page: download the file itself, "),
        ("version https://git-lfs.github.com/spec/v1", "This is not JSON but a pointer of Git LFS in place"),
        (
            '{"vocab_size": 1, "rope": {"d": "\\"}"}, "vocab\\u005fsize": 2}',
            r"This config\.json has the field 'vocab_size' twice in one object\.$",
        ),
        ('{"a": {"b": 1}, "c": [{"b": 1}, {"b": 2}], "d": "a", "b": 0}', "model_type is missing"),
        ("null", r"an object of fields, { … }, and this is null\."),
        ("[1, 2]", "this is a list"),
        ('"gpt2"', "this is a text"),
        ("17", "this is a number"),
        ("true", "this is true or false"),
        ("{}", "model_type is missing: in a config.json that is read here, it is one of 'bert', 'llama'"),
        (json.dumps(written("gpt2") | {"n_layer": 2.5}), "n_layer=2.5 must be a whole number"),
        (json.dumps(written("gpt2") | {"n_embd": 10**30}), "n_embd=1e.30 must be at most 100000: this page"),
        (json.dumps(written("gpt2")).replace("50257", "1e999"), "vocab_size=inf must be a whole number"),
        (json.dumps(written("gpt2") | {"n_head": 11}), "n_embd=768 is not divisible by n_head=11"),
        (json.dumps(written("llama-3-8b") | {"num_key_value_heads": 5}), "num_attention_heads=32 is not div"),
        ('{"model_type": "gpt2", "vocab_size": 9}', "n_positions is missing"),
        ('{"model_type": "__proto__"}', "model_type='__proto__' is not one of"),
        (" " * (LONGEST + 1), "These are 20,001 characters"),
    ],
)
def test_what_is_no_config_gets_one_clear_sentence(call, text, words):
    (found,) = read(call, text)
    assert found["kind"] != "runs"
    assert re.search(words, found["verdict"]), found["verdict"]


FOREIGN = written("llama-3-8b") | {"model_type": "something"}


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"sliding_window": 4096, "layer_types": ["full_attention", "sliding_attention"]}, ["model_type"]),
        ({"final_logit_softcapping": 30.0, "residual_multiplier": 0.5}, ["model_type"]),
        ({"rope_scaling": {"type": "longrope"}, "rope_parameters": None}, ["rope_scaling"]),
        ({"rope_parameters": {"full_attention": {"rope_type": "longrope"}}}, ["rope_parameters"]),
        ({"rope_parameters": {"partial_rotary_factor": 0.5}}, ["partial_rotary_factor"]),
        ({"rope_scaling": {"type": "yarn"}, "rope_parameters": None}, ["model_type"]),
        ({"num_experts": 128}, ["num_experts"]),
        ({"num_local_experts": 1}, ["model_type"]),
        ({"kv_lora_rank": 512, "n_routed_experts": 256}, ["n_routed_experts", "kv_lora_rank"]),
        ({"quantization_config": {"bits": 4}}, ["quantization_config"]),
        ({"rotary_pct": 0.25, "use_parallel_residual": True}, ["use_parallel_residual", "rotary_pct"]),
        ({"layer_types": ["linear_attention", "full_attention"]}, ["layer_types"]),
        ({"num_kv_shared_layers": 10, "altup_num_inputs": 4}, ["num_kv_shared_layers", "altup_num_inputs"]),
    ],
)
def test_what_our_code_lacks_is_named(call, changes, fields):
    text = json.dumps(FOREIGN | changes | {"was": "llama"})  # whose names of fields it has
    (found,) = read(call, text)
    assert [each["field"] for each in found["lacks"]] == fields
    said = {s["field"]: s["says"] for s in found["sentences"]}
    assert said["num_attention_heads"] == "Each block has 32 query heads."
    # What experts and latent vectors change is not said as if they were not there.
    assert ("intermediate_size" in said) == all("expert" not in field for field in changes)
    shared = "32 query heads share 8 key/value heads: four to one (GQA)."
    assert said.get("num_key_value_heads") == (None if "kv_lora_rank" in changes else shared)


def test_stretching_and_a_window_are_explained(call):
    qwen3 = written("qwen3-8b")
    yarn = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32_768}
    qwen3 |= {"rope_scaling": qwen3["rope_parameters"] | yarn, "rope_parameters": None}
    texts = [json.dumps(one) for one in (written("llama-3.2-1b"), written("mistral-7b-v0.1"), qwen3)]
    llama, mistral, qwen = (
        {s["field"] + s["chapter"]: s["says"] for s in found["sentences"]}
        for found in read(call, *texts, formulas=of_family("decoder"))
    )
    assert llama["rope_scaling04"] == (
        "Llama 3.1’s rule stretches a context of 8,192 positions. Pairs that make less than 1 rotation in it become 32 "
        "times as slow, pairs that make more than 4 stay as they are, and those in between are blended."
    )
    assert mistral["sliding_window13"] == (
        "In each layer, a position sees itself and the 4,095 before it: a sliding window."
    )
    assert qwen["rope_scaling04"].startswith("YaRN stretches a context of 32,768 positions. Pairs")
    assert qwen["rope_scaling13"].startswith("Rotated queries and keys are multiplied by 1.139, ")
    assert not any("rope_scaling" in field or "window" in field for field in read_fields(call, "llama-3-8b"))


def test_a_file_of_another_family_is_guessed_by_the_tables_of_all(call):
    said = {each["field"]: each["says"] for each in call("sentences", "guessed", FOREIGN, TABLES)}
    stream = "The residual stream has 4,096 numbers at each position, from the embedding to the head."
    assert said["hidden_size"] == stream
    assert len(said) == 7, said


LARGE = SMALL | {"num_hidden_layers": 26, "max_position_embeddings": 32_768}
GEMMA3 = LARGE | {"model_type": "gemma3_text", "sliding_window": 512}
GRANITE = LARGE | {"model_type": "granite", "attention_multiplier": 0.0078125, "residual_multiplier": 0.22}
OLMO3 = LARGE | {"model_type": "olmo3", "rope_scaling": YARN}


@pytest.mark.parametrize(
    ("given", "field", "words"),
    [
        (GEMMA3, "layer_types",
         "Of 26 layers, 22 see only the last 512 positions, and every sixth sees the whole text."),
        (GEMMA3 | {"num_hidden_layers": 6}, "layer_types",
         "Of 6 layers, the first 5 see only the last 512 positions, and the last sees the whole text."),
        (GEMMA3 | {"num_hidden_layers": 2, "layer_types": [F, S]}, "layer_types",
         "Of 2 layers, the first sees the whole text, and the last sees only the last 512 positions."),
        (GEMMA3 | {"num_hidden_layers": 5, "layer_types": [S, F, F, S, F]}, "layer_types",
         "Of 5 layers, 2 see only the last 512 positions, and 3 see the whole text."),
        (GEMMA3 | {"num_hidden_layers": 4, "layer_types": [F] * 4}, "layer_types", None),
        (LARGE | {"model_type": "qwen2", "use_sliding_window": True, "max_window_layers": 20}, "max_window_layers",
         "Of 26 layers, the first 20 see the whole text, and the last 6 see only the last 4,096 positions."),
        (LARGE | {"model_type": "smollm3"}, "no_rope_layers",
         "Of 26 layers, 20 rotate queries and keys by their position, and every fourth rotates nothing, so "
         "positions do not change its scores."),
        (GEMMA3, "sliding_window",
         "In the 22 layers with a window, a position sees itself and the 511 before it: a sliding window."),
        (GEMMA3, "rope_local_base_freq",
         "In the 22 layers with a window, RoPE rotates queries and keys by their position. With this base, one"
         " rotation of the slowest pair takes 58,470 positions."),
        (GEMMA3, "rope_theta",
         "In the 4 layers without a window, RoPE rotates queries and keys by their position. With this base, "
         "one rotation of the slowest pair takes 5,640,335 positions."),
        (GEMMA3 | {"rope_scaling": {"rope_type": "linear", "factor": 8}}, "rope_scaling",
         "In the 4 layers without a window, positions are divided by 8, so every pair is 8 times as slow."),
        (OLMO3, "rope_scaling",
         "In the 6 layers without a window, rotated queries and keys are multiplied by 1.150, and so the "
         "scores by its square: YaRN’s temperature."),
        (LARGE | {"model_type": "smollm3"}, "rope_theta",
         "RoPE rotates queries and keys by their position. With this base, one rotation of the slowest pair "
         "takes 2,049,185 positions."),
        (GEMMA3, "model_type", "Token vectors are multiplied by √D = 8 before the first block."),
        (GEMMA3, "model_type",
         "Each sublayer has two norms: one before it, and one after it, before the residual sum."),
        (OLMO3, "model_type",
         "Each norm comes after its sublayer and before the residual sum; the sublayer itself reads the stream"
         " without a norm."),
        (OLMO3, "model_type",
         "One RMSNorm brings the queries of all heads together to a standard size, and another the keys, so "
         "scores stay small."),
        (LARGE | {"model_type": "gemma2"}, "attn_logit_softcapping",
         "A soft cap keeps every score s between −50 and 50: it becomes 50 · tanh(s/50)."),
        (LARGE | {"model_type": "gemma2"}, "final_logit_softcapping",
         "A soft cap keeps every logit z between −30 and 30: it becomes 30 · tanh(z/30)."),
        (LARGE | {"model_type": "ministral3"}, "rope_parameters",
         "From position 16,384 on, the scores of a query grow with its position: they are multiplied by 1 + "
         "0.1 · ln(1 + ⌊position/16,384⌋)."),
        (GRANITE, "attention_multiplier", "Scores are multiplied by 0.00781 instead of 1/√K = 0.25."),
        (GRANITE, "residual_multiplier", "What a sublayer adds to the stream is multiplied by 0.22."),
        (GRANITE | {"embedding_multiplier": 12}, "embedding_multiplier",
         "Token vectors are multiplied by 12 before the first block."),
        (GRANITE | {"logits_scaling": 5}, "logits_scaling", "Logits are divided by 5."),
        (GRANITE | {"attention_multiplier": 0.25}, "attention_multiplier", None),
        (LARGE | {"model_type": "arcee"}, "hidden_act",
         "Squared ReLU: negative numbers become zero, and positive ones are squared."),
    ],
)  # fmt: skip
def test_what_newer_families_have_is_explained(call, given, field, words):
    (found,) = read(call, json.dumps(given), formulas=of_family("decoder"))
    said = [s["says"] for s in found["sentences"] if s["field"] == field]
    assert words in said if words else said == [], said


def read_fields(call, name):
    (found,) = read(call, json.dumps(written(name)), formulas=of_family("decoder"))
    return [s["field"] for s in found["sentences"]]


def test_a_key_that_nobody_knows_is_named_and_does_not_run_as_it_is(call):
    given = written("llama-3-8b") | {"router_bias": 8, "rope_scaling": None}
    (found,) = read(call, json.dumps(given), formulas=of_family("decoder"))
    assert (found["kind"], found["lacks"]) == ("runs", [{"field": "router_bias", "lacks": "8"}])
    assert "as it is" not in found["verdict"]
    assert found["total"] == published("llama-3-8b").n_parameters


@pytest.mark.parametrize("name", ["gpt2", "mistral-7b-v0.1", "llama-3-8b", "qwen3-0.6b"])
def test_what_follows_is_what_python_computes(call, name):
    config = published(name).config
    (found,) = read(call, json.dumps(written(name)), formulas=of_family("decoder"))
    rows = call("config_reader", "derived", found, {})
    numbers = {what: number for what, _, number in rows}
    assert numbers["Width of a head K"] == str(config.d_head)
    assert numbers["Query heads for each key/value head"] == str(config.n_heads // config.n_kv_heads)
    cache = cache_bytes(config, config.context_length, bytes_per_number=2)
    shown = numbers[f"KV cache in bfloat16, {config.context_length:,} positions"]
    assert shown == call("counting", "inBytes", cache)
    total = config.parameter_count().total
    assert numbers["Weights in bfloat16"] == call("counting", "inBytes", 2 * total)
    assert numbers["Operations for each token"] == call("counting", "much", 2 * total)


def test_examples_are_the_published_models_and_such_as_are_refused():
    for kind, name, text in examples():
        said = says(json.loads(text))
        assert ("config" in said) == (kind == "runs"), name
        if name in RUN:
            assert config_from_hf(json.loads(text)) == published(name).config
    assert len({says(given)["refused"] for given in EXAMPLES.values() if "refused" in says(given)}) == 5
    assert ConfigReader().config == published("llama-3-8b").config


# --- what is seen -----------------------------------------------------------------------------------------


def sentences(w):
    w.settle()
    rows = w.root.locator(".gf-sentence")
    return {
        field: (value, text)
        for field, value, text in rows.evaluate_all(
            "rows => rows.map(r => [...r.querySelectorAll('code'), r.children[1]].map(e => e.textContent))"
        )
    }


def verdict(w):
    w.settle()
    return w.root.locator(".gf-verdict").inner_text()


def test_read_by_keyboard(mount, shoot):
    w = mount(ConfigReader())
    shoot("configreader-900")
    assert verdict(w) == "It runs as it is."
    assert w.root.locator(".gf-count-title").inner_text() == "8,030,261,248 parameters, as many as llama-3-8b"
    said = "32 query heads share 8 key/value heads: four to one (GQA)."
    assert sentences(w)["num_key_value_heads"] == ("8", said)
    assert w.says == "Feed-forward: 32 × 3D·F = 32 × 3·4,096·14,336 = 5,637,144,576, 70.2 % of all."
    w.root.locator(".gf-part-row.gf-here").focus()
    w.page.keyboard.press("ArrowUp")
    assert w.says.startswith("Attention: 32 × (2D·G·K + 2D²)")
    assert w.saved()["part"] == "attention"

    for kind, name, text in examples():
        w.root.get_by_role("button", name=name, exact=True).press("Enter")
        assert w.saved()["text"] == text
        expected = says(json.loads(text))
        assert verdict(w).startswith("It runs" if kind == "runs" else "Our code refuses it.")
        assert w.root.locator(".gf-stack").is_visible() == (kind == "runs")
        if "config" in expected:
            total = w.widget.config.parameter_count().total
            assert w.root.locator(".gf-count-title").inner_text().startswith(f"{total:,} parameters")
            parts = {row[0]: row[4] for row in w.tables()[1][1:]}
            assert parts["total"] == f"{total:,}"
            assert len(w.tables()[0]) - 1 == len(w.root.locator(".gf-sentence").all())
    assert verdict(w) == "Our code refuses it. n_layer is missing."
    w.root.get_by_role("button", name="eight experts").press("Enter")
    assert w.says == "Our code refuses it. It lacks a mixture of experts (MoE)."
    assert "lacks a mixture of experts (MoE): 8 feed-forward networks in each block" in w.root.inner_text()

    field = w.control("config.json")
    field.fill(json.dumps(written("gpt2") | {"n_head": 16}))
    assert verdict(w) == "It runs as it is."
    assert sentences(w)["n_head"] == ("16", "Each block has 16 query heads.")
    field.press("End")
    field.press("Backspace")
    w.settle()
    assert verdict(w).startswith("It cannot be read. This is not JSON")
    assert field.get_attribute("aria-invalid") == "true"
    assert not w.root.locator(".gf-stack").is_visible()
    field.fill("x" * (LONGEST + 1))
    assert verdict(w).startswith("It cannot be read. These are 20,001 characters")
    assert len(w.saved()["text"]) < LONGEST
    w.set(text=json.dumps(written("gpt2") | {"new": "x"}))
    assert verdict(w).startswith("It runs only without the keys listed here. Our code does not know them,")
    assert w.root.locator(".gf-lacks").inner_text() == 'new = "x"'
    w.set(text=json.dumps(written("bert-base")))
    assert verdict(w) == "It runs as it is."
    assert sentences(w)["model_type"][1] == "Each norm comes after the residual sum (post-norm)."
