"""Judges of chapter 12, "Three families": a module for each exercise, named after it.

Each has the reference, then the checks in teaching order, then the classic mistakes. What is right comes from counting
cell by cell, from PyTorch's own functions, from the package's own models, and from numbers worked by hand.
"""
