"""Writes what the classes of transformers take for keys that a config.json lacks, and their other names of keys.

`anatomy` reads files with it: src/glassformer/anatomy/classes.json.
"""

import json
from dataclasses import MISSING, fields
from functools import cache
from typing import Any

from transformers import PreTrainedConfig
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from glassformer.anatomy import known_keys, tables
from tools.notebooks import ROOT

PLACE = ROOT / "src" / "glassformer" / "anatomy" / "classes.json"

SAID = {"num_nextn_predict_layers", "num_mtp_layers", "mtp_num_hidden_layers", "is_gated_act"}
"""Keys whose default says nothing: of layers that only some files hold, and one that follows from another key."""

OTHER_NAMES = {"kimi_k2": "deepseek_v3"}
"""Families that are published under other names, with code of their own that builds the same layers."""


def classes() -> dict[str, Any]:
    """Returns the defaults and the aliases of each family, of those keys that its formulas name.

    `files` are the model_types of files of several parts whose part for text is of this family if it does not say.
    """
    return {name: _class(name) for name in tables()["families"] if name in CONFIG_MAPPING}


def _class(family: str) -> dict[str, Any]:
    kind, keys = CONFIG_MAPPING[family], known_keys(family)
    names = dict(kind.attribute_map)
    usual = {names.get(f.name, f.name): None if f.default is MISSING else f.default for f in fields(kind)}
    there = keys - SAID
    found = {
        "defaults": {
            key: value for key, value in sorted(usual.items()) if key in there and value is not None
        },
        "aliases": {alias: name for alias, name in names.items() if name in keys},
    }
    return found | ({"files": _text_parts()[family]} if family in _text_parts() else {})


@cache
def _text_parts() -> dict[str, list[str]]:
    """Returns the model_types of files of several parts by the family of their part for text."""
    found = {family: [name] for name, family in OTHER_NAMES.items()}
    for name, kind in CONFIG_MAPPING.items():
        if name in tables()["families"] or "text_config" not in kind.sub_configs:
            continue
        try:
            made: Any = kind
            text = made(text_config={}).get_text_config()
        except Exception:  # a class that does not take this: its files must say
            continue
        if isinstance(text, PreTrainedConfig) and text.model_type in tables()["families"]:
            found.setdefault(text.model_type, []).append(name)
    return found


if __name__ == "__main__":
    lines = (f"{json.dumps(name)}: {json.dumps(one)}" for name, one in classes().items())
    PLACE.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
