"""Says what a tokenizer.json of the tokenizers library may contain, before the library reads it.

The library computes whatever a file asks for. A kilobyte of replacements, each a thousand characters long, turns a
prompt of one letter into a million million. So every part is looked up in a table: a kind or a setting that is not
there is refused by its name, and so is a file whose parts could make a text much longer.
"""

import base64
import binascii
from collections.abc import Iterator
from math import ceil
from typing import Any, TypeGuard

from glassformer import _checks as checks

GROWTH = 10_000
"""How many times as many bytes the parts of a tokenizer may make of a text. Those of real models stay below 500."""

INSERTED = 1000
"""How many ids a tokenizer may put around a text. Real ones insert one or two."""

PARTS: dict[str, dict[str, tuple[str, ...]]] = {
    "normalizer": {
        "Sequence": ("normalizers",),
        "BertNormalizer": ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase"),
        "Strip": ("strip_left", "strip_right"),
        "Replace": ("pattern", "content"),
        "Prepend": ("prepend",),
        "Precompiled": ("precompiled_charsmap",),
        **dict.fromkeys(("StripAccents", "NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Nmt", "ByteLevel"), ()),
    },
    "pre_tokenizer": {
        "Sequence": ("pretokenizers",),
        "ByteLevel": ("add_prefix_space", "trim_offsets", "use_regex"),
        "CharDelimiterSplit": ("delimiter",),
        "Digits": ("individual_digits",),
        "Metaspace": ("replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"),
        "Punctuation": ("behavior",),
        "Split": ("pattern", "behavior", "invert"),
        "FixedLength": ("length",),
        **dict.fromkeys(("BertPreTokenizer", "UnicodeScripts", "Whitespace", "WhitespaceSplit"), ()),
    },
    "post_processor": {
        "Sequence": ("processors",),
        "BertProcessing": ("sep", "cls"),
        "RobertaProcessing": ("sep", "cls", "trim_offsets", "add_prefix_space"),
        "ByteLevel": ("add_prefix_space", "trim_offsets", "use_regex"),
        "TemplateProcessing": ("single", "pair", "special_tokens"),
    },
    "decoder": {
        "Sequence": ("decoders",),
        "BPEDecoder": ("suffix",),
        "ByteLevel": ("add_prefix_space", "trim_offsets", "use_regex"),
        "WordPiece": ("prefix", "cleanup"),
        "Metaspace": ("replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"),
        "CTC": ("pad_token", "word_delimiter_token", "cleanup"),
        "Replace": ("pattern", "content"),
        "Strip": ("content", "start", "stop"),
        **dict.fromkeys(("Fuse", "ByteFallback"), ()),
    },
    "model": {
        "BPE": (
            *("vocab", "merges", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix"),
            *("fuse_unk", "byte_fallback", "ignore_merges"),
        ),
        "WordPiece": ("vocab", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word"),
        "WordLevel": ("vocab", "unk_token"),
        "Unigram": ("vocab", "unk_id", "byte_fallback"),
    },
}
"""The kinds of every part that the library has, and the settings that it reads."""

OTHERS = ("version", "truncation", "padding", "added_tokens")  # the first three change no id: see `text`
INSTEAD = (
    ("model_type", "a config.json, which describes the model"),
    ("weight_map", "the index that tells in which file each weight is"),
    ("model_max_length", "a tokenizer_config.json, which has the settings and no vocabulary"),
    ("tokenizer_class", "a tokenizer_config.json, which has the settings and no vocabulary"),
    ("unk_token", "a special_tokens_map.json, which has no vocabulary"),
    ("eos_token", "a special_tokens_map.json, which has no vocabulary"),
    ("eos_token_id", "a generation_config.json, which says how texts are drawn"),
)
"""Keys by which files are known that are no tokenizer.json, and what they are."""

OF_ADDED = ("id", "content", "single_word", "lstrip", "rstrip", "normalized", "special")
ON_BYTES: dict[str, dict[str, tuple[Any, ...]]] = {
    "normalizer": {"type": (None,)},
    "pre_tokenizer": {"type": ("ByteLevel",), "add_prefix_space": (False,), "use_regex": (True,)},
    "decoder": {"type": ("ByteLevel",)},
    "post_processor": {"type": (None, "ByteLevel")},  # this one changes no id
    "model": {
        "type": ("BPE", None),  # older files do not name it
        "dropout": (None, 0),
        "unk_token": (None, ""),
        "continuing_subword_prefix": (None, ""),
        "end_of_word_suffix": (None, ""),
        "fuse_unk": (False,),
        "byte_fallback": (False,),
        "ignore_merges": (False,),
    },
}
"""What byte pairs on bytes have where the library offers more: there is an id for every byte. First what is usual."""

AT_MOST = {  # bytes that a part makes of one
    **dict.fromkeys(("NFC", "NFD"), 3),
    **dict.fromkeys(("NFKC", "NFKD"), 12),
    **dict.fromkeys(("Lowercase", "ByteLevel", "CTC", "BPEDecoder"), 2),
    "BertNormalizer": 3,
    "Metaspace": 4,
}


def check(given: dict[str, Any]) -> None:
    """Checks that the parts of a tokenizer.json are known ones, and that they cannot make a text much longer.

    Raises:
        ValueError: they are not. The message names the part.
    """
    if "model" not in given:
        for key, what in INSTEAD:
            if key in given:
                raise ValueError(f"it is {what}")
        if given and all(type(value) is int for value in given.values()):
            raise ValueError("it is a vocab.json, which has the vocabulary alone")
    checks.fields("it", given, (*PARTS, *OTHERS))
    for part in PARTS:
        growth, inserted = 1, 0
        for place, settings in _components(part, given.get(part)):
            growth *= _growth(settings)
            inserted += _inserted(place, settings)
            if growth > GROWTH:
                raise ValueError(f"its {part} can make a text more than {GROWTH:,} times as long")
            if inserted > INSERTED:
                raise ValueError(f"its {part} puts more than {INSERTED:,} ids around a text")
    model = given.get("model")
    if isinstance(model, dict) and model.get("dropout") not in (None, 0):
        raise ValueError(
            f"its model.dropout={model['dropout']!r:.40} would draw other ids for the same text each time"
        )
    added = given.get("added_tokens")
    for token in added if isinstance(added, list) else ():
        if isinstance(token, dict):
            checks.fields("added_tokens", token, OF_ADDED)


def check_byte_pairs(given: dict[str, Any]) -> None:
    """Checks that a tokenizer.json describes byte pairs on bytes alone, as `BytePairTokenizer` writes them.

    Raises:
        ValueError: it does not. The message names the part.
    """
    for part, settings in ON_BYTES.items():
        found = given.get(part)
        for name, allowed in settings.items():
            value = (
                found.get(name, None if name == "type" else allowed[0]) if isinstance(found, dict) else found
            )
            if value not in allowed:
                raise ValueError(f"its {part}.{name} is {value!r:.40}, not {allowed[0]!r}")


def _components(part: str, given: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the components of a part with their places, checked for what they may say."""
    kinds, left = PARTS[part], [(part, given)]
    while left:
        place, settings = left.pop()
        if settings is None:
            continue
        if not isinstance(settings, dict):
            raise ValueError(f"its {place}={settings!r:.40} must be an object of fields")
        kind = settings.get("type")
        if kind is None and part == "model":  # older files do not name it
            known = {name for names in kinds.values() for name in names}
        elif isinstance(kind, str) and kind in kinds:
            known = set(kinds[kind])
        else:
            raise ValueError(
                f"its {place} is of the type {kind!r:.40}, which is not one of {', '.join(kinds)}"
            )
        for name in settings:
            if name != "type" and name not in known:
                raise ValueError(
                    f"its {place} has {checks.shown(name)!r}, which {kind or part} does not have"
                )
        if kind == "Sequence":
            [within] = kinds[kind]
            parts = settings.get(within)
            if not isinstance(parts, list):
                raise ValueError(f"its {place} lacks the list {within!r}")
            left += [(f"{place}.{within}[{i}]", one) for i, one in reversed([*enumerate(parts)])]
        else:
            yield place, settings


def _growth(settings: dict[str, Any]) -> int:
    """Returns how many bytes a component makes of one, at most."""
    match settings:
        case {"type": "Replace", "content": str(content), "pattern": {"String": str(pattern)}} if pattern:
            return max(1, ceil(len(content.encode(errors="replace")) / len(pattern.encode(errors="replace"))))
        case {
            "type": "Replace",
            "content": str(content),
        }:  # a regular expression can match between any two letters
            return 1 + len(content.encode(errors="replace"))
        case {"type": "Prepend", "prepend": str(content)}:
            return 1 + len(content.encode(errors="replace"))
        case {"type": "Precompiled", "precompiled_charsmap": str(table)}:
            return _longest(table)
        case {"type": "Metaspace", "str_rep": str(content)}:
            return 2 + len(content.encode(errors="replace"))
    return AT_MOST.get(settings.get("type", ""), 1)


def _longest(table: str) -> int:
    """Returns the longest text in a table of SentencePiece: the length of a trie, the trie, and texts that end in 0."""
    try:
        content = base64.b64decode(table, validate=True)
    except (binascii.Error, ValueError):
        return 1  # the library says so
    begins = 4 + int.from_bytes(content[:4], "little")
    if begins > len(content) >= 4:  # the library would ask for that much memory
        raise ValueError(
            f"its precompiled_charsmap says that {begins - 4:,} bytes follow, but has {len(content) - 4:,}"
        )
    return max(1, *map(len, content[begins:].split(b"\0")))


def _inserted(place: str, settings: dict[str, Any]) -> int:
    """Returns how many ids a post-processor puts around a text."""
    single, special = settings.get("single"), settings.get("special_tokens")
    if settings.get("type") != "TemplateProcessing" or not isinstance(single, list):
        return 2
    ids: dict[str, int] = {}
    if _is_table(special):
        ids = {name: len(one["ids"]) for name, one in special.items() if isinstance(one.get("ids"), list)}
    sequences = [piece for piece in single if isinstance(piece, dict) and "Sequence" in piece]
    if len(sequences) > 1:
        raise ValueError(f"its {place}.single repeats the text")
    names = [
        piece["SpecialToken"].get("id") for piece in single if _is_table(piece) and "SpecialToken" in piece
    ]
    return sum(ids.get(name, 1) for name in names if isinstance(name, str))


def _is_table(given: Any) -> TypeGuard[dict[str, dict[str, Any]]]:
    return isinstance(given, dict) and all(isinstance(value, dict) for value in given.values())
