"""The base of views that read a config.json: the file, and the tables with which the page reads it."""

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from traitlets import Int, default

from glassformer import anatomy
from glassformer.widgets.kit.view import Chapters, Made, Text, View

LONGEST = 1_000_000  # characters; lists of matrices that are not stored in fewer bits can take 100,000


def half(table: Mapping[str, Any], which: int) -> dict[str, Any]:
    """Returns the first half (0) or the second (1) of a table that would be too heavy for one trait."""
    rows = list(table.items())
    return dict(rows[: len(rows) // 2] if which == 0 else rows[len(rows) // 2 :])


class ConfigFileView(View):
    """The base of views that read a config.json with the tables of `anatomy`; engine/config_file.js has its controls.

    `_first` is the name of the file that is read at first, and `_has` says which files of the shelf readers can choose.
    """

    _first: ClassVar[str]

    text = Text(longest=LONGEST).tag(sync=True)
    _families = Made(lambda _: half(anatomy.families(), 0)).tag(sync=True)
    _more_families = Made(lambda _: half(anatomy.families(), 1)).tag(sync=True)
    _parts = Made(lambda _: anatomy.tables()["parts"]).tag(sync=True)
    _classes = Made(lambda _: anatomy.classes()).tag(sync=True)
    _shelf = Made(lambda view: view._choices()).tag(sync=True)
    _longest = Int(LONGEST).tag(sync=True)
    _chapters = Chapters().tag(sync=True)

    def _has(self, file: Mapping[str, Any]) -> bool:
        return True

    def _choices(self) -> list[dict[str, Any]]:
        """Returns the shelf with each file as text: a stored notebook sorts the keys of objects."""
        return [
            one | {"config": json.dumps(one["config"], separators=(",", ":"), ensure_ascii=False)}
            for one in anatomy.shelf()
            if self._has(one["config"])
        ]

    @default("text")
    def _default_text(self) -> str:
        (file,) = (one["config"] for one in anatomy.shelf() if one["name"] == self._first)
        return json.dumps(file, indent=2, ensure_ascii=False)
