"""Judges of chapter 09, "Loss and the way back".

What is right comes from hand-worked numbers, from sums written out, and from the slope of each number by itself.
"""
