"""Judges of chapter 16, "Long texts"."""
