"""Gives the tests of views a blank page."""

from mounting import again, call, mount, page, shoot, tab  # noqa: F401
