"""Published config.json files, from GPT-2 to the largest models of 2026, that readers can choose from.

    for one in shelf():
        print(one["date"], one["name"], sum(read(one["config"]).weights().values()), one["published"])

The tests compare their numbers of weights with the models that transformers builds from them.
"""

import json
from functools import cache
from importlib import resources
from typing import Any

__all__ = ["shelf"]
__dir__ = __all__.copy


@cache
def shelf() -> list[dict[str, Any]]:
    """Returns the entries by date: name, by, date, source, published, active, why, and config, the file itself.

    `published` and `active` are the publisher's figures, or None, and `why` says in a sentence why they differ from
    what the file gives, if they differ by more than rounding.
    """
    return json.loads((resources.files("glassformer.anatomy") / "shelf.json").read_text(encoding="utf-8"))
