"""Tests that completion offers what the package has, and nothing that it only uses."""

import subprocess
import sys
from importlib import import_module
from inspect import getdoc, isclass, isfunction

import pytest

import glassformer

# The page in NumPy has no room for a list of its names; `GPT` is what it offers
MODULES = [name for name in dir(glassformer) if name not in ("__version__", "onepage")]


@pytest.mark.parametrize("name", [*MODULES, "nn.adapters", "train.adapters", "train.config", "train.recipe"])
def test_a_module_offers_all_that_it_defines_and_nothing_else(name):
    module = import_module(f"glassformer.{name}")
    offered = {one: getattr(module, one) for one in module.__all__}
    assert len(offered) == len(module.__all__)
    assert [one for one, what in offered.items() if callable(what) and not getdoc(what)] == []
    defined = {
        one
        for one, what in vars(module).items()
        if (isclass(what) or isfunction(what)) and what.__module__ == module.__name__ and one[0] != "_"
    }
    assert defined - set(offered) == set()
    # The tests' check of shapes puts jaxtyping into modules that do not list their names.
    others = {one for one in dir(module) if one[0] != "_"} - set(offered) - {"jaxtyping"}
    assert {one for one in others if f"{module.__name__}.{one}" not in sys.modules} == set()


def test_importing_the_package_is_enough_and_imports_nothing_else():
    program = """
import sys
import glassformer
assert not {"numpy", "torch"} & set(sys.modules)
assert glassformer.text.CharTokenizer and glassformer.train.Recipe
assert "torch" not in sys.modules
assert glassformer.train.Trainer and "torch" in sys.modules
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")
