"""Tests ConfigReader: it reads, counts and refuses what `huggingface.configs` reads, counts and refuses."""

import itertools
import json
import math
import re

import pytest

from glassformer import anatomy
from glassformer.chapters.ch13.config_reader import FIRST, LONGEST, ConfigReader, tables
from glassformer.huggingface import config_from_hf, config_to_hf, unknown_keys
from glassformer.huggingface.families import FORMATS
from glassformer.huggingface.keys import WITHOUT_TYPE
from glassformer.inside import cache_bytes, multiply_adds
from glassformer.published import PUBLISHED, published
from glassformer.widgets.kit import modules

TABLES = tables()
FORM = {"fields": {}}


def written(name):
    """Returns the config.json of a published model, as this book writes it."""
    return config_to_hf(published(name).config)


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
    return TABLES | {"formats": formats}


# --- the numbers ------------------------------------------------------------------------------------------

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
        base = written(name)
        several = 2 if name in ("gpt2", "bert-base", "t5-small") else 1  # the others share one format
        for field in dict.fromkeys([*base, *SPECIAL]):
            yield from (base | {field: value} for value in itertools.islice(VALUES, several))
            yield {other: value for other, value in base.items() if other != field}
    llama, t5, mistral = written("llama-2-7b"), written("t5-small"), written("mistral-7b-v0.1")
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


def test_every_family_that_tables_cannot_express_has_its_reader():
    [body] = re.findall(r"^const READERS = \{\n(.*?)^\};", modules.read("hubconfig"), re.M | re.S)
    in_javascript = re.findall(r"^  (\w+)\(", body, re.M)
    with_code = [kind for kind, form in FORMATS.items() if form.read is not None]
    assert in_javascript == with_code, "add to READERS of hubconfig.js"


def read(call, *texts):
    """Returns what the view says of texts after 1,000 positions, with the tables of their families alone."""
    cases = []
    for text in texts:
        kind = next((kind for kind in anatomy.families() if f'"{kind}"' in text), "llama")
        own = {part: {kind: anatomy.tables()["families"][kind]} for part in ("families",)}
        own |= {"classes": {kind: anatomy.classes().get(kind, {"defaults": {}, "aliases": {}})}}
        whole = own | {"parts": anatomy.tables()["parts"], "words": anatomy.words()}
        cases.append(
            [text, {"ours": of_kind({"model_type": kind}), "anatomy": whole, "longest": LONGEST}, 1000]
        )
    return call.each("config_reader", "read", cases)


# The published models of families that Hugging Face's names are known of
WRITTEN = [name for name in PUBLISHED if not name.startswith(("bloom", "starcoder"))]


def test_every_published_model_runs_and_is_counted_to_the_digit(call):
    assert len(WRITTEN) > 20
    texts = [json.dumps(config_to_hf(PUBLISHED[name].config)) for name in WRITTEN]
    for name, found in zip(WRITTEN, read(call, *texts), strict=True):
        assert (found["verdict"], found["lacks"]) == ("Our code runs it, in NumPy and in PyTorch.", []), name
        seen = found["report"]
        assert sum(row[1] for row in seen["weights"]) == PUBLISHED[name].n_parameters, name
        config = PUBLISHED[name].config
        if config.family == "decoder":
            kept = sum(numbers + state for _, (numbers, state), _ in seen["cached"])
            assert kept == cache_bytes(config, 1000, bytes_per_number=1), name
            assert seen["multiply_adds"] == multiply_adds(config, 1, 1000), name


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
        (json.dumps(written("gpt2") | {"n_embd": 10**30}), r"n_embd=1e.30 must be at most 100000\."),
        (json.dumps(written("gpt2")).replace("50257", "1e999"), "vocab_size=inf must be a whole number"),
        (json.dumps(written("gpt2") | {"n_head": 11}), "n_embd=768 is not divisible by n_head=11"),
        (json.dumps(written("llama-3-8b") | {"num_key_value_heads": 5}), "num_attention_heads=32 is not div"),
        ('{"model_type": "gpt2", "vocab_size": 9}', "n_positions is missing"),
        ('{"model_type": "__proto__"}', "model_type='__proto__' is not one of"),
        (" " * (LONGEST + 1), "These are 1,000,001 characters"),
    ],
)
def test_what_our_code_does_not_read_gets_one_clear_sentence(call, text, words):
    (found,) = read(call, text)
    assert not found.get("verdict", "").startswith("Our code runs")
    assert re.search(words, said := found.get("trouble") or found["note"]), said


def test_a_key_that_nobody_knows_is_named_and_nothing_is_skipped(call):
    given = written("llama-3-8b") | {"new_bias": 8, "head_dim": None, "use_cache": True}
    (found,) = read(call, json.dumps(given))
    assert found["verdict"] == "Our code runs it only without some of its keys."
    assert "`new_bias`" in found["lacks"][0][0]
    seen = found["report"]
    assert seen["unknown"] == ["new_bias"]
    assert "head_dim" in seen["unset"]
    assert "use_cache" in seen["programs"]
    names = [key for key, *_ in seen["said"]]
    assert {
        key.split(".")[0] for key in [*names, *seen["unset"], *seen["programs"], *seen["unknown"]]
    } == set(given)


def test_of_a_family_that_nobody_knows_the_keys_are_explained_and_nothing_is_counted(call):
    (found,) = read(call, json.dumps(written("llama-3-8b") | {"model_type": "something"}))
    assert found["report"]["trouble"] == 'model_type="something" is not known here'
    assert "weights" not in found["report"]
    said = {key: says for key, _, says, _ in found["report"]["said"]}
    assert said["hidden_size"].startswith("The residual stream has 4,096 numbers at each position")


def test_the_layers_that_repeat_are_folded(call):
    for items, folded in (
        ("WWWWWFWWWWWF", [[2, [[5, "W"], [1, "F"]]]]),
        ("DDDEEEE", [[1, [[3, "D"]]], [1, [[4, "E"]]]]),
        ("MEMEMEME", [[4, [[1, "M"], [1, "E"]]]]),
        ("SSFSSFSS", [[2, [[2, "S"], [1, "F"]]], [1, [[2, "S"]]]]),
        ("A", [[1, [[1, "A"]]]]),
    ):
        assert call("anatomy", "fold", list(items)) == folded == anatomy.fold(list(items))


# --- what is seen -----------------------------------------------------------------------------------------


def verdict(w):
    w.settle()
    return w.root.locator(".gf-verdict").inner_text()


def of_shelf(name):
    return next(one["config"] for one in anatomy.shelf() if one["name"] == name)


def test_read_by_keyboard(mount, shoot):
    w = mount(ConfigReader())
    shoot("configreader-900")
    file = of_shelf(FIRST)
    seen = anatomy.report(file, 100_000)
    total = sum(row[1] for row in seen["weights"])
    assert w.says.startswith(f"{FIRST} has 64 layers: 48 × linear attention (a state), 16 × full attention")
    assert verdict(w).startswith("Our code does not run it.")
    assert "the delta rule: a state of fixed size" in verdict(w)
    parts = {row[0]: row[1:] for row in w.tables()[1][1:]}
    assert parts["all"] == [f"{total:,}"] * 2 or parts["all"][0] == f"{total:,}"
    assert len(w.tables()[3]) - 1 == len(w.root.locator(".gf-sentence").all()) == len(seen["said"])

    boxes = w.root.locator(".gf-boxes li")
    assert "delta rule" in " ".join(boxes.all_inner_texts())
    w.root.get_by_role("button", name="16 × full attention").press("Enter")
    w.settle()
    assert w.saved()["kind"] == 1
    assert "delta rule" not in " ".join(boxes.all_inner_texts())
    assert "a gate on the output" in " ".join(boxes.all_inner_texts())

    w.control("Positions read").press("ArrowRight")
    assert w.saved()["positions"] == 131_072
    w.control("Model").select_option("GPT-2")
    assert verdict(w) == "Our code runs it, in NumPy and in PyTorch."
    assert w.says.startswith("GPT-2 has 12 layers of one kind, full attention. Of its 124 million")

    w.control("Compare it with").select_option(FIRST)
    w.settle()
    w.root.locator(".gf-keys > summary").press("Enter")
    fields = w.root.locator(".gf-sentence .gf-field").all_inner_texts()
    assert "vocab_size" in fields
    assert w.saved()["other"]
    w.control("Compare it with").select_option("")
    assert w.saved()["other"] == ""

    field = w.root.locator("textarea")
    field.fill(json.dumps(written("gpt2") | {"n_head": 16}))
    assert verdict(w) == "Our code runs it, in NumPy and in PyTorch."
    field.press("End")
    field.press("Backspace")
    assert verdict(w).startswith("It cannot be read. This is not JSON")
    assert field.get_attribute("aria-invalid") == "true"
    assert not w.root.locator(".gf-strip").is_visible()
    w.set(text=json.dumps(written("gpt2") | {"n_head": 11}))
    assert verdict(w) == ("Our code does not run it. n_embd=768 is not divisible by n_head=11.")


def test_a_file_is_opened_from_disk(mount, tmp_path):
    w = mount(ConfigReader())
    (tmp_path / "mine.json").write_text(json.dumps(written("smollm3-3b")), encoding="utf-8")
    (tmp_path / "large.json").write_bytes(b" " * (LONGEST + 1))
    inputs = w.root.locator("input[type=file]")
    inputs.first.set_input_files(tmp_path / "mine.json")
    assert verdict(w) == "Our code runs it, in NumPy and in PyTorch."
    inputs.last.set_input_files(tmp_path / "mine.json")
    w.settle()
    assert w.saved()["other"] == w.saved()["text"]
    inputs.first.set_input_files(tmp_path / "large.json")
    w.page.get_by_text("large.json has").wait_for()
