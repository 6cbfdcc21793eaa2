"""Leads readers to the capstone, which lies in chapter 15's folder: `from glassformer.exercises import capstone`.

It is found by name when it is asked for: what chapters bring stands above what they share, and no arrow points up.
"""

import sys
from importlib import import_module

sys.modules[__name__] = import_module("glassformer.chapters.ch15.capstone")
