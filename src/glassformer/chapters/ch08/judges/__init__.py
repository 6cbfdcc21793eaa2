"""Judges of chapter 08, "A complete GPT".

What is right comes from hand-worked numbers, from published counts, from PyTorch's own functions, and for the shipped
model from the one page, which shares no code with the rest.
"""
