"""Enforces shape annotations for every call in the package while layers, models and training are tested.

This doubles their time. Tests of everything above these layers repeat the same calls over and over, so there no
annotation is enforced, as in a reader's notebook.
"""

import ast
from pathlib import Path

import jaxtyping
import pytest
from jaxtyping._import_hook import JaxtypingTransformer


def _visit_function(transformer, node, visit=JaxtypingTransformer.visit_FunctionDef):
    """Replaces jaxtyping's method, which would wrap a nested function at every call and make everything slow.

    Context managers are left as they are, too: torch.compile reads only those that are generators.
    """
    nested = any(isinstance(parent, ast.FunctionDef) for parent in transformer._parents)
    if nested or any(ast.unparse(one) == "contextmanager" for one in node.decorator_list):
        return node
    return visit(transformer, node)


JaxtypingTransformer.visit_FunctionDef = _visit_function
jaxtyping.install_import_hook("glassformer", "beartype.beartype")


AS_READERS_RUN_IT = {
    "before", "chapters", "exercises", "experiments", "generation", "huggingface", "inside", "site", "test_bugs.py",
    "test_cli.py", "test_cli_fuzz.py", "test_shipped.py", "widgets",
}  # fmt: skip


@pytest.hookimpl(tryfirst=True)  # before any fixture, of whichever scope
def pytest_runtest_setup(item):
    folder, *_ = item.path.relative_to(Path(__file__).parent).parts
    jaxtyping.config.update("jaxtyping_disable", folder in AS_READERS_RUN_IT)


@pytest.fixture
def as_readers_run_it():
    """Turns enforcement off, as in a notebook, so that bad input reaches the package's own checks."""
    jaxtyping.config.update("jaxtyping_disable", True)
