"""Judges of chapter 06, "The feed-forward network".

What is right comes from `math`'s own functions, one number at a time, and from sums worked by hand.
"""
