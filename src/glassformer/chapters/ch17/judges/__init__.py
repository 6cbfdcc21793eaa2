"""Judges of chapter 17, "A memory of fixed size"."""
