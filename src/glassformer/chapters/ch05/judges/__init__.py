"""Judges of chapter 05, "The stream and the norms".

What is right comes from hand-worked numbers and from sums written out one number at a time.
"""
