"""Judges of chapter 04, "Putting order in": a module for each exercise, named after it.

Each has the reference, unless the package has one; then the checks in teaching order; then the classic mistakes that
exercises.toml cannot hold. What is right comes from a hand-worked number, a closed form, an invariant or another way
to compute it.
"""
