"""Judges of chapter 00, "Start here": a module for each exercise, named after it."""
