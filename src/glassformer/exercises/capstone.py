"""Makes `from glassformer.exercises import capstone` work, although the capstone is in chapter 15's folder.

It is imported by name at run time, because modules that chapters share must not import from a chapter.
"""

import sys
from importlib import import_module

sys.modules[__name__] = import_module("glassformer.chapters.ch15.capstone")
