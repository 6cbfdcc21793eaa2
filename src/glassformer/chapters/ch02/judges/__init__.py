"""Judges of chapter 02, "Tokens become vectors": a module for each exercise, named after it.

Each has the reference, unless the package has one; then the checks in teaching order; then the classic mistakes that
exercises.toml cannot hold. What is right comes from hand-worked texts, a closed form, an invariant or another way to
compute it.
"""
