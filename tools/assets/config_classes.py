"""Writes what the classes of transformers take for keys that a config.json lacks, and their other names of keys.

`anatomy` reads files with it: src/glassformer/anatomy/classes.json.
"""

import json
from dataclasses import MISSING, fields
from typing import Any

from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from glassformer.anatomy import known_keys, tables
from tools.notebooks import ROOT

PLACE = ROOT / "src" / "glassformer" / "anatomy" / "classes.json"


def classes() -> dict[str, Any]:
    """Returns the defaults and the aliases of each family, of those keys that its formulas name."""
    return {name: _class(name) for name in tables()["families"] if name in CONFIG_MAPPING}


def _class(family: str) -> dict[str, Any]:
    kind, keys = CONFIG_MAPPING[family], known_keys(family)
    names = dict(kind.attribute_map)
    usual = {names.get(f.name, f.name): None if f.default is MISSING else f.default for f in fields(kind)}
    return {
        "defaults": {key: value for key, value in sorted(usual.items()) if key in keys and value is not None},
        "aliases": {alias: name for alias, name in names.items() if name in keys},
    }


if __name__ == "__main__":
    PLACE.write_text(json.dumps(classes(), indent=0) + "\n", encoding="utf-8")
