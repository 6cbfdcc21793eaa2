"""Gives the tests of views a blank page."""

from mounting import call, mount, page, shoot, tab  # noqa: F401
