"""The engine of the views: runs a model in a page, counts its parameters, and shows its parts and its text."""
