"""Stores the learner's progress in one small file that survives crashes, simultaneous kernels and bad disks."""

import json
import os
from pathlib import Path
from typing import Any

from glassformer.atomic_files import locked, write_whole

ENVIRONMENT = "GLASSFORMER_PROGRESS"

Marks = dict[str, dict[str, bool]]  # exercise name -> the flags that are set: tried, revealed, done


class Record:
    """The learner's marks. Marks are only ever added, so the records of two kernels merge without conflict.

    Nothing here raises. If the learner should know something (a damaged file was renamed, or nothing can be saved),
    it is stored in `notices` until `take_notices` is called.
    """

    def __init__(self) -> None:
        self.marks: Marks = {}  # what this kernel knows, even if the file cannot be written
        self.notices: list[str] = []
        self._said: set[str] = set()

    def mark(self, name: str, flag: str) -> None:
        """Set one flag of one exercise, and write the file if the flag is new."""
        known = self.load().get(name, {}).get(flag)
        self.marks.setdefault(name, {})[flag] = True
        if not known:
            self._save()

    def load(self) -> Marks:
        """Returns the marks in the file together with those of this kernel."""
        try:
            path = _path()
            with locked(path):
                return _merged(self._read(path), self.marks)
        except Exception as error:
            self._say_unread(error)
            return _merged(self.marks)

    def take_notices(self) -> list[str]:
        """Returns the notices for the learner; each notice once."""
        notices, self.notices = self.notices, []
        return notices

    def _read(self, path: Path) -> Marks:
        """Reads the file for a caller that holds its lock, and renames it if it is damaged.

        Raises:
            OSError: it exists but cannot be read.
        """
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            return {}
        try:
            return _valid(json.loads(data))  # bytes, because a byte-order mark may give the encoding
        except (ValueError, RecursionError):  # not JSON, or not even text
            self._set_aside(path)
            return {}

    def _save(self) -> None:
        """Write everything that is known, one kernel at a time. A file that cannot be read is never replaced."""
        try:
            path = _path()
            with locked(path):
                try:
                    there = self._read(path)  # just before writing: another kernel may have written since
                except Exception as error:
                    return self._say_unread(error)
                marks = _merged(there, self.marks)
                data = json.dumps({"version": 1, "exercises": marks}, indent=1, sort_keys=True)
                return write_whole(path, data.encode())
        except Exception as error:
            reason = _reason(error)
            return self._say(
                f"Your progress cannot be saved ({reason}); it is remembered only until this kernel ends."
            )

    def _set_aside(self, path: Path) -> None:
        path = path.resolve()  # a link stays where it is
        aside, count = path.with_name(path.name + ".corrupt"), 1
        while aside.exists():
            count += 1
            aside = path.with_name(f"{path.name}.corrupt{count}")
        try:
            os.replace(path, aside)
        except OSError as error:
            self._say(f"Your progress file is damaged and cannot be moved ({_reason(error)}).")
        else:
            self._say(
                f"Your progress file was damaged. It was renamed to {aside.name}, and a new one was started."
            )

    def _say_unread(self, error: Exception) -> None:
        reason = _reason(error)
        self._say(
            f"Your progress cannot be read ({reason}); what you do now is remembered only until this kernel ends."
        )

    def _say(self, notice: str) -> None:
        if notice not in self._said:
            self._said.add(notice)
            self.notices.append(notice)


def _path() -> Path:
    """Returns the path of the record: the environment's choice, or this user's data folder."""
    chosen = os.environ.get(ENVIRONMENT)
    if chosen:
        return Path(chosen)
    # Imported here: a page that chooses a path does not need it
    from glassformer._checks.extras import platformdirs

    return platformdirs.user_data_path("glassformer", False) / "progress.json"


def _valid(data: Any) -> Marks:
    """Returns the marks in a file's data. Raises ValueError if the file is not a progress file."""
    marks = data.get("exercises") if isinstance(data, dict) else None
    if not isinstance(marks, dict) or not all(isinstance(flags, dict) for flags in marks.values()):
        raise ValueError("not a progress file")
    return {name: {flag: bool(value) for flag, value in flags.items()} for name, flags in marks.items()}


def _merged(*records: Marks) -> Marks:
    merged: Marks = {}
    for record in records:
        for name, flags in record.items():
            ours = merged.setdefault(name, {})
            for flag, value in flags.items():
                ours[flag] = ours.get(flag, False) or value
    return merged


def _reason(error: Exception) -> str:
    """Returns the reason without the path, which may be long and does not help the learner."""
    return getattr(error, "strerror", None) or type(error).__name__
