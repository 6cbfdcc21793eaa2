"""Judges of chapter 03, "Attention".

What is right comes from hand-worked numbers and from sums written out one number at a time.
"""
