"""Judges of chapter 10, "Training": a module for each exercise, named after it.

Each has the reference, unless the package has one; then the checks in teaching order; then the classic mistakes. What
is right comes from hand-worked numbers, from PyTorch's own optimizer and functions, and for Newton and Schulz's
iteration from the singular values.
"""
