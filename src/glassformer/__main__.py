"""`python -m glassformer`: see `glassformer.cli`."""

from glassformer.cli import app

app(prog_name="python -m glassformer")
