"""Judges of chapter 12, "Three families".

What is right comes from counting cell by cell, from PyTorch's own functions, from the package's own models, and from
numbers worked by hand.
"""
