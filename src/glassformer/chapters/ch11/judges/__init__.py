"""Judges of chapter 11, "Generating".

What is right comes from hand-worked numbers, from closed forms, and for whole texts from the package's own `generate`,
which shares no code with what is asked.
"""
