"""Judges of chapter 07, "The block": a module for each exercise, named after it.

Each module has the reference, unless the package has one, then the checks in teaching order, and then the classic
mistakes that exercises.toml cannot hold. The expected results come from sums written out one number at a time, and
from numbers worked by hand.
"""
