"""Judges of chapter 13, "Real models".

What is right comes from published counts, from hand-worked numbers, from files written byte by byte, and for GPT-2 from
PyTorch's own functions.
"""
