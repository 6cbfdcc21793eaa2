"""Judges of chapter 01, "The whole machine".

What is right comes from a hand-worked number, from a run of a real model, or from a function whose property is known.
"""
