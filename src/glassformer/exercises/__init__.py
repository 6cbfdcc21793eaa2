"""Exercises that answer back: `check` your function, get a `hint`, `reveal` the answer, see `progress`."""

from .commands import check, exercises, hint, progress, reveal

__all__ = ["check", "exercises", "hint", "progress", "reveal"]
