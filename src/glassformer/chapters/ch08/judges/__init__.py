"""Judges of chapter 08, "A complete GPT": a module for each exercise, named after it.

Each module has the reference, unless the package has one, then the checks in teaching order, then the classic mistakes
that exercises.toml cannot hold. The right answers come from hand-worked numbers, from published counts, from PyTorch's
own functions, and for the shipped model from the one page, which shares no code with the rest.
"""
