"""Judges of chapter 00, "Start here"."""
