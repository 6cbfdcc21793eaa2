"""The log of a run: one line of JSON for each step."""

import json
import os
from pathlib import Path
from typing import Any

from glassformer import _checks as checks
from glassformer.atomic_files import naming, write_whole
from glassformer.untrusted_files import bytes_in, decoded, json_object

Record = dict[str, Any]


class Log:
    """Records the measurements of every step in memory and, if there is a path, also in a file."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.records: list[Record] = []

    def check(self) -> None:
        """Checks that the file can be read.

        Raises:
            ValueError: as for `read_log`.
        """
        read_log(self.path)

    def begin(self, step: int) -> None:
        """Goes back to the end of that step and drops the records of later steps, which will be repeated."""
        records = self.records if self.path is None else read_log(self.path)
        self.records = [record for record in records if record["step"] <= step]
        if self.path is not None:
            write_whole(self.path, "".join(map(_line, self.records)).encode())

    def write(self, record: Record) -> None:
        """Adds the record of a step."""
        self.records.append(record)
        if self.path is not None:
            with naming(self.path), open(self.path, "a", encoding="utf-8") as file:
                file.write(_line(record))

    def sync(self) -> None:
        """Flushes the file to disk, so that it contains every step that a checkpoint contains."""
        if self.path is not None:
            with open(self.path, "rb+") as file:
                os.fsync(file.fileno())


def read_log(path: Path | None) -> list[Record]:
    """Returns the records of a log file, without an incomplete last line from a program that was interrupted.

    Raises:
        ValueError: it is not a file or not in UTF-8; or a line before the last is not JSON or not the record
            of a step.
        OSError: it cannot be read.
    """
    if path is None or not path.exists():
        return []
    # After the last line break there is nothing, or an incomplete line that may end within a character.
    whole, end, _ = bytes_in(path).rpartition(b"\n")
    lines = decoded(whole, path).split("\n") if end else []
    records = []
    for i, line in enumerate(lines):
        name = f"{path}: line {i + 1}"
        record = json_object(line, name)
        if "step" not in record:
            raise ValueError(f"{name} lacks 'step'")
        try:
            checks.whole("step", record["step"], at_least=0)
        except (ValueError, TypeError) as error:
            raise ValueError(f"{name}: {error}") from None
        records.append(record)
    return records


def _line(record: Record) -> str:
    return json.dumps(record) + "\n"
