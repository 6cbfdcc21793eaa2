"""Shapes are types: while the tests run, every call in the package is held to its annotations."""

import ast

import jaxtyping
import pytest
from jaxtyping._import_hook import JaxtypingTransformer


def _visit_function(transformer, node, visit=JaxtypingTransformer.visit_FunctionDef):
    """As jaxtyping has it, but for a function inside another: wrapped at every call, it would slow all down."""
    if any(isinstance(parent, ast.FunctionDef) for parent in transformer._parents):
        return node
    return visit(transformer, node)


JaxtypingTransformer.visit_FunctionDef = _visit_function
jaxtyping.install_import_hook("glassformer", "beartype.beartype")


@pytest.fixture
def as_readers_run_it():
    """No annotation is enforced, as in a notebook: bad input meets the package's own checks."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)
