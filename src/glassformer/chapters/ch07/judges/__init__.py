"""Judges of chapter 07, "The block".

What is right comes from sums written out one number at a time, and from numbers worked by hand.
"""
