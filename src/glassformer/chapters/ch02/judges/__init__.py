"""Judges of chapter 02, "Tokens become vectors".

What is right comes from hand-worked texts, a closed form, an invariant or another way to compute it.
"""
