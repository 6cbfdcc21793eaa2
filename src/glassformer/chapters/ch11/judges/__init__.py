"""Judges of chapter 11, "Generating": a module for each exercise, named after it.

Each has the reference, then the checks in teaching order, then the classic mistakes. What is right comes from
hand-worked numbers, from closed forms, and for whole texts from the package's own `generate`, which shares no code with
what is asked.
"""
