"""Judges of chapter 03, "Attention": a module for each exercise, named after it.

Each has the reference, unless the package has one; then the checks in teaching order; then the classic mistakes that
exercises.toml cannot hold. What is right comes from hand-worked numbers and from sums written out one number at a
time.
"""
