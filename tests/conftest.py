"""Enforces shape annotations for every call of what computes with arrays, while layers, models and training are tested.

This doubles their time. Tests of everything above these layers repeat the same calls over and over, so there no
annotation is enforced, as in a reader's notebook. Nor is any while tests are collected, which every worker does.
"""

import ast
from collections import Counter
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
# The modules whose annotations name shapes. Others, such as the configurations, check their arguments themselves.
WITH_SHAPES = ["scratch", "nn", "generate", "train", "evaluation", "inside", "tasks", "text"]
jaxtyping.install_import_hook([f"glassformer.{name}" for name in WITH_SHAPES], "beartype.beartype")
jaxtyping.config.update("jaxtyping_disable", True)

ENFORCED = {"layers", "training"}  # folders


@pytest.hookimpl(tryfirst=True)  # before any fixture, of whichever scope
def pytest_runtest_setup(item):
    folder, *_ = item.path.relative_to(Path(__file__).parent).parts
    jaxtyping.config.update("jaxtyping_disable", folder not in ENFORCED)


@pytest.hookimpl(tryfirst=True)  # before pytest leaves out what is weekly
def pytest_collection_modifyitems(items):
    """Marks as weekly all but every n-th case of a test with the marker `sampled(n)`."""
    met = Counter()
    for item in items:
        if sampled := item.get_closest_marker("sampled"):
            test = item.nodeid.partition("[")[0]
            if met[test] % sampled.args[0]:
                item.add_marker(pytest.mark.weekly)
            met[test] += 1


@pytest.fixture
def as_readers_run_it():
    """Turns enforcement off, as in a notebook, so that bad input reaches the package's own checks."""
    jaxtyping.config.update("jaxtyping_disable", True)
