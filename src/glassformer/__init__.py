"""Glassformer: a Transformer you can see through. The package that the book's chapters build."""
