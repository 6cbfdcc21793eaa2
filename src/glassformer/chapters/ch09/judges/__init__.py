"""Judges of chapter 09, "Loss and the way back": a module for each exercise, named after it.

Each has the reference, then the checks in teaching order, then the classic mistakes. What is right comes from
hand-worked numbers, from sums written out, and from PyTorch, which takes gradients by itself and is asked when the
first answer is judged.
"""
