"""Exercises with instant feedback: `check` your function, get a `hint`, `reveal` the answer, see your `progress`.

You can `keep` a function that is right in a file of your own. Later exercises build on it with `mine`. Teachers can
write exercises of their own (`add_exercises`).
"""

from . import old_imports
from .catalogue import add_exercises
from .commands import check, exercises, hint, keep, mine, progress, reveal
from .own_file import within_reach

__all__ = ["add_exercises", "check", "exercises", "hint", "keep", "mine", "progress", "reveal"]
__dir__ = __all__.copy

within_reach()
old_imports.install()
