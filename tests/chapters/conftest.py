"""A blank page for a view to stand on."""

from mounting import call, mount, page, shoot, tab  # noqa: F401
