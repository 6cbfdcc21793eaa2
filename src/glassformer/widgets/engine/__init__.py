"""What runs a model in a page, counts its parameters, and shows its parts and the text that it reads."""
