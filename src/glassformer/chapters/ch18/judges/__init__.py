"""Judges of chapter 18, "Experts, gates and wider streams"."""
