"""Judges of chapter 07, "The block": a module for each exercise, named after it.

Each has the reference, unless the package has one; then the checks in teaching order; then the classic mistakes. What
is right comes from sums written out a number at a time, and from numbers worked by hand.
"""
