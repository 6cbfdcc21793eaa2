"""Tests which tokenizer.json is taken: what the library would compute for a file of a stranger is bounded."""

import base64
import json

import pytest
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from glassformer import huggingface
from glassformer.text import BytePairTokenizer, library_errors, library_tokenizer, tokenizer_from_json
from glassformer.tokenizer_files import AT_MOST, PARTS

BYTES = json.loads(BytePairTokenizer.from_text("to be or not to be", 260).to_json())


def with_part(part, settings):
    return json.dumps(BYTES | {part: settings})


def in_model(**settings):
    return json.dumps(BYTES | {"model": BYTES["model"] | settings})


def replace(content, **pattern):
    return {"type": "Replace", "pattern": pattern or {"String": "a"}, "content": content}


def in_sequence(name, *parts):
    return {"type": "Sequence", name: list(parts)}


MODULES = {
    "normalizer": normalizers, "pre_tokenizer": pre_tokenizers, "post_processor": processors, "decoder": decoders,
    "model": models,
}  # fmt: skip
ENDS = ("a", 1), ("b", 2)
ARGUMENTS = {  # of the kinds that need any
    "normalizers.Replace": (Regex(" {2,}"), "▁"),
    "normalizers.Prepend": ("▁",),
    "normalizers.Sequence": ([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")],),
    "pre_tokenizers.CharDelimiterSplit": ("a",),
    "pre_tokenizers.Split": (Regex("a+"), "isolated"),
    "pre_tokenizers.Sequence": ([pre_tokenizers.Digits(), pre_tokenizers.ByteLevel()],),
    "processors.BertProcessing": ENDS,
    "processors.RobertaProcessing": ENDS,
    "processors.TemplateProcessing": ("a $A", "$A $B", [("a", 1)]),
    "processors.Sequence": ([processors.ByteLevel()],),
    "decoders.Replace": ("▁", " "),
    "decoders.Strip": (" ", 1, 0),
    "decoders.Sequence": ([decoders.Fuse()],),
    "models.BPE": ({"a": 0}, []),
    "models.WordPiece": ({"a": 0},),
    "models.WordLevel": ({"a": 0}, "a"),
    "models.Unigram": ([("a", 0.0)], 0, False),
}
# The library cannot make one that is precompiled
KINDS = [(part, kind) for part, kinds in PARTS.items() for kind in kinds if kind != "Precompiled"]


@pytest.mark.parametrize(("part", "kind"), KINDS)
def test_every_kind_that_the_library_has_is_taken(part, kind):
    name = MODULES[part].__name__.rpartition(".")[2]
    one = getattr(MODULES[part], kind)(*ARGUMENTS.get(f"{name}.{kind}", ()))
    made = Tokenizer(one if part == "model" else models.BPE({"a": 0}, []))
    if part != "model":
        setattr(made, part, one)
    settings = json.loads(made.to_str())[part]
    assert settings["type"] == kind
    assert json.loads(library_tokenizer(made.to_str(), "it").to_str())[part] == settings


def test_no_kind_of_the_library_is_missing():
    for part, module in MODULES.items():
        base = {
            "normalizer": "Normalizer",
            "pre_tokenizer": "PreTokenizer",
            "post_processor": "PostProcessor",
        }
        base = getattr(module, base.get(part, part.title()))
        kinds = {
            name for name, kind in vars(module).items() if isinstance(kind, type) and issubclass(kind, base)
        }
        assert kinds - {base.__name__} <= PARTS[part].keys()


TEMPLATE = {
    "type": "TemplateProcessing",
    "single": [{"Sequence": {"id": "A", "type_id": 0}}],
    "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
    "special_tokens": {"t": {"id": "t", "ids": [1] * 2000, "tokens": ["t"] * 2000}},
}


def with_ids(n):
    """Returns a post-processor that puts so many ids before a text."""
    special = {"t": {"id": "t", "ids": [1] * n, "tokens": ["t"] * n}}
    before = [{"SpecialToken": {"id": "t", "type_id": 0}}, *TEMPLATE["single"]]
    return TEMPLATE | {"single": before, "special_tokens": special}


LONG = base64.b64encode(bytes(4) + b"a" * 20_000 + b"\0").decode()

GROW = {  # a part whose components make a text too long
    "replacements": ("normalizer", [replace("a" * 1000)] * 4),
    "one long replacement": ("normalizer", [replace("b" * 10_001)]),
    "between letters": ("normalizer", [replace("b" * 100, Regex="")] * 3),
    "beginnings": ("normalizer", [{"type": "Prepend", "prepend": "b" * 9999}] * 2),
    "a table": ("normalizer", [{"type": "Precompiled", "precompiled_charsmap": LONG}]),
    "within a sequence": ("normalizer", [in_sequence("normalizers", replace("b" * 10_001))]),
    "bytes of bytes": ("pre_tokenizer", [BYTES["pre_tokenizer"]] * 40),
    "decoders": ("decoder", [replace("a" * 1000)] * 4),
    "replacements that add one letter to two": ("normalizer", [replace("abc", String="ab")] * 14),
    "letters of two bytes": ("normalizer", [{"type": "Prepend", "prepend": "é" * 6000}]),
    "ligatures of ligatures": ("normalizer", [{"type": "NFKC"}] * 4),
    "an old text for spaces": (
        "pre_tokenizer",
        [{"type": "Metaspace", "replacement": "▁", "str_rep": "b" * 9999}],
    ),
}
WITHIN = {"normalizer": "normalizers", "pre_tokenizer": "pretokenizers", "decoder": "decoders"}
REFUSED = {
    **{
        case: (
            with_part(part, in_sequence(WITHIN[part], *parts)),
            f"its {part} can make a text more than 10,000 times",
        )
        for case, (part, parts) in GROW.items()
    },
    "the text twice": (
        with_part("post_processor", TEMPLATE | {"single": TEMPLATE["single"] * 2}),
        "its post_processor.single repeats the text",
    ),
    "many ids": (
        with_part(
            "post_processor",
            TEMPLATE | {"single": [{"SpecialToken": {"id": "t", "type_id": 0}}, *TEMPLATE["single"]]},
        ),
        "its post_processor puts more than 1,000 ids around a text",
    ),
    "many ids, in two steps": (
        with_part("post_processor", in_sequence("processors", *[with_ids(600)] * 2)),
        "its post_processor puts more than 1,000 ids around a text",
    ),
    "an unknown kind": (
        with_part("normalizer", {"type": "Python"}),
        "its normalizer is of the type 'Python'",
    ),
    "an unknown setting": (
        with_part("normalizer", in_sequence("normalizers", {"type": "NFC", "locale": "tr"})),
        r"its normalizer\.normalizers\[0\] has 'locale', which NFC does not have",
    ),
    "an unknown setting of the model": (in_model(glue=1), "its model has 'glue', which BPE does not have"),
    "an unknown part": (json.dumps(BYTES | {"suffixes": []}), "it has no field 'suffixes'"),
    "a config.json": ('{"model_type": "llama", "vocab_size": 40}', "it is a config.json"),
    "a tokenizer_config.json": ('{"model_max_length": 5}', "it is a tokenizer_config.json"),
    "a vocab.json": ('{"a": 0, "b": 1}', "it is a vocab.json"),
    "a table that claims 4 GiB": (
        with_part("normalizer", {"type": "Precompiled", "precompiled_charsmap": "/////wAA"}),
        "its precompiled_charsmap says that 4,294,967,295 bytes follow, but has 2",
    ),
    "an unknown setting of a token": (
        json.dumps(BYTES | {"added_tokens": [{"id": 1, "content": "a", "colour": 1}]}),
        "added_tokens has no field 'colour'",
    ),
    "ids by chance": (
        in_model(dropout=0.5),
        r"its model\.dropout=0\.5 would draw other ids for the same text",
    ),
}


@pytest.mark.parametrize(
    ("kind", "letter"),
    [("NFC", "\U0001d160"), ("NFD", "ΐ"), ("NFKC", "\ufdfa"), ("NFKD", "\ufdfa"), ("Lowercase", "Ⱥ")],
)
def test_no_letter_grows_more_than_is_counted(kind, letter):
    """The letters that the library makes longest."""
    grown = len(getattr(normalizers, kind)().normalize_str(letter).encode()) / len(letter.encode())
    assert 1 < grown <= AT_MOST[kind]


@pytest.mark.parametrize("case", REFUSED)
def test_what_could_grow_or_is_unknown_is_refused_by_its_name(case, tmp_path):
    text, said = REFUSED[case]
    with pytest.raises(ValueError, match=f"^it is not a tokenizer that can be used here: .*{said}"):
        library_tokenizer(text, "it")
    (tmp_path / "tokenizer.json").write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=said):
        huggingface.tokenizer(tmp_path)


OF_BYTES = {
    "normalizer": ({"type": "Lowercase"}, "its normalizer.type is 'Lowercase', not None"),
    "post_processor": (TEMPLATE, "its post_processor.type is 'TemplateProcessing', not None"),
    "model": ({"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}, "its model.type is 'WordLevel'"),
    "pre_tokenizer": (
        BYTES["pre_tokenizer"] | {"use_regex": False},
        "its pre_tokenizer.use_regex is False, not True",
    ),
    "decoder": (None, "its decoder.type is None, not 'ByteLevel'"),
}
OF_BYTES = {part: (with_part(part, settings), said) for part, (settings, said) in OF_BYTES.items()} | {
    "a byte that is missing": (in_model(vocab={"a": 0}, merges=[]), "its vocabulary lacks '!'"),
    **{
        name: (in_model(**{name: value}), f"its model.{name} is {value!r}, not ")
        for name, value in {
            "dropout": 1.0,
            "unk_token": "a",
            "continuing_subword_prefix": "##",
            "end_of_word_suffix": "</w>",
            "fuse_unk": True,
            "byte_fallback": True,
            "ignore_merges": True,
        }.items()
    },
}


@pytest.mark.parametrize("case", OF_BYTES)
def test_byte_pairs_of_other_kinds_are_refused_by_name(case):
    text, said = OF_BYTES[case]
    with pytest.raises(
        ValueError, match=r"^text does not describe a tokenizer that this class wrote: "
    ) as refused:
        tokenizer_from_json(text)
    assert said in str(refused.value)


def test_padding_and_truncation_of_a_training_do_not_touch_a_prompt(tmp_path):
    made = Tokenizer.from_str(json.dumps(BYTES))
    wanted = [made.encode("to" * n).ids for n in (1, 40)]
    made.enable_padding(length=16)
    made.enable_truncation(37)
    made.save(str(tmp_path / "tokenizer.json"))
    text = (tmp_path / "tokenizer.json").read_text(encoding="utf-8")
    for edited in (
        text,
        with_part("padding", json.loads(text)["padding"] | {"strategy": {"Fixed": 10**9}}),
        with_part("padding", json.loads(text)["padding"] | {"pad_to_multiple_of": 10**9}),
        with_part("truncation", json.loads(text)["truncation"] | {"max_length": 1, "stride": 5}),
    ):
        (tmp_path / "tokenizer.json").write_text(edited, encoding="utf-8")
        assert [huggingface.tokenizer(tmp_path).encode("to" * n).ids for n in (1, 40)] == wanted
        assert [tokenizer_from_json(edited).encode("to" * n).tolist() for n in (1, 40)] == wanted


@pytest.mark.parametrize(("part", "kind"), [("pre_tokenizer", "Split"), ("normalizer", "Replace")])
def test_a_panic_of_the_library_is_an_error(part, kind):
    made = Tokenizer.from_str(json.dumps(BYTES))
    setattr(made, part, getattr(MODULES[part], kind)(Regex("(a+)+$"), "isolated"))
    with pytest.raises(ValueError, match=r"^here: "), library_errors("here"):
        made.encode("a" * 50 + "!")
