"""Judges of chapter 06, "The feed-forward network": a module for each exercise, named after it.

Each has the reference, unless the package has one; then the checks in teaching order; then the classic mistakes that
exercises.toml cannot hold. What is right comes from `math`'s own functions, one number at a time, and from sums worked
by hand.
"""
