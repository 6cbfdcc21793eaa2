"""A new reader for every test, and what the commands showed: the capstone's commands are told as an exercise's."""

from tests.exercises.conftest import progress_file, shown  # noqa: F401
