"""Judges of chapter 13, "Real models": a module for each exercise, named after it.

Each has the reference, then the checks in teaching order, then the classic mistakes. What is right comes from published
counts, from hand-worked numbers, from files written byte by byte, and for GPT-2 from PyTorch's own functions.
"""
