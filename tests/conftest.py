"""Shapes are types: while the tests run, every call in the package is held to its annotations."""

import jaxtyping
import pytest

jaxtyping.install_import_hook("glassformer", "beartype.beartype")


@pytest.fixture
def as_readers_run_it():
    """No annotation is enforced, as in a notebook: bad input meets the package's own checks."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
