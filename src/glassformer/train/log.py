"""The log of a run: a line of JSON for each step."""

import json
import os
from pathlib import Path
from typing import Any

from glassformer.documents import json_object

Record = dict[str, Any]


class Log:
    """What was measured at every step, in memory and, if there is a path, in a file as well."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.records: list[Record] = []

    def begin(self, step: int) -> None:
        """Goes back to the end of that step: what the file says of later ones is dropped, they come again."""
        records = self.records if self.path is None else read_log(self.path)
        self.records = [record for record in records if record["step"] <= step]
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            beside = self.path.with_name(f".{self.path.name}.unfinished")
            beside.write_text("".join(map(_line, self.records)), encoding="utf-8")
            os.replace(beside, self.path)

    def write(self, record: Record) -> None:
        """Adds the record of a step."""
        self.records.append(record)
        if self.path is not None:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(_line(record))

    def sync(self) -> None:
        """Brings the file to the disk, so that it is there for every step that a checkpoint has."""
        if self.path is not None:
            with open(self.path, "rb+") as file:
                os.fsync(file.fileno())


def read_log(path: Path | None) -> list[Record]:
    """The records of a log's file; its last line, if a program was interrupted within it, is left out.

    Raises:
        ValueError: a line before the last is not JSON.
    """
    if path is None or not path.exists():
        return []
    lines = path.read_text(encoding="utf-8").split("\n")
    records = []
    for i, line in enumerate(lines[:-1]):  # after the last end of a line comes nothing, or half a line
        records.append(json_object(line, f"{path}: line {i + 1}"))
    return records


def _line(record: Record) -> str:
    return json.dumps(record) + "\n"
