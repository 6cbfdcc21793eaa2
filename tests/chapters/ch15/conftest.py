"""Gives the capstone's tests the fixtures of the exercises: a new reader for every test, and what was shown."""

from tests.exercises.conftest import folder, progress_file, shown  # noqa: F401
