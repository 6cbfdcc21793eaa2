"""Judges of chapter 10, "Training".

What is right comes from hand-worked numbers, from PyTorch's own optimizer and functions, and for Newton and Schulz's
iteration from the singular values.
"""
