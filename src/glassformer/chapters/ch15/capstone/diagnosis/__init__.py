"""Finds out which mistake explains what was measured: tables of suspects, and one engine that tries them."""
