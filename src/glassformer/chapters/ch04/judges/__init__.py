"""Judges of chapter 04, "Putting order in".

What is right comes from a hand-worked number, a closed form, an invariant or another way to compute it.
"""
