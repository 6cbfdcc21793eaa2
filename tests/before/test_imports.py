"""Every import that a page of the book has ever shown still works.

imports.txt has those of all versions up to 041c0623, and of today: readers have them in notebooks of their own.
"""

import ast
import re
from importlib import import_module, util
from pathlib import Path

IMPORTS = Path(__file__).with_name("imports.txt")
EVER = [line for line in IMPORTS.read_text().splitlines() if not line.startswith("#")]
ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *ROOT.glob("book/*.md"), *ROOT.glob("book/chapters/**/*.md")]
CODE = re.compile(r"^```(?:\{code-cell\}|python)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"^(:|[%!]).*$", re.MULTILINE)  # of a cell, and commands of IPython


def shown(page):
    """Returns the imports that a page shows; `nn.Block`, after `from glassformer import nn`, is one, too."""
    imports, modules, assigned = set(), {}, set()
    for code in CODE.findall(page):
        try:
            nodes = list(ast.walk(ast.parse(OPTION.sub("", code))))
        except SyntaxError:  # a sketch, or what an interpreter printed
            continue
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("glassformer."):
                for alias in node.names:
                    imports.add((node.module, alias.name))
                    modules[alias.asname or alias.name] = f"{node.module}.{alias.name}"
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                assigned.add(node.id)
        for node in nodes:
            if (
                isinstance(node, ast.Attribute)
                and isinstance(node.value, ast.Name)
                and node.value.id in modules
            ):
                module = modules[node.value.id]
                if node.value.id not in assigned and node.attr[0] != "_" and is_module(module):
                    imports.add((module, node.attr))
    return {f"from {module} import {name}" for module, name in imports}


def is_module(name):
    try:
        return util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def works(line):
    _, module, _, name = line.split()
    try:
        if not hasattr(import_module(module), name):
            import_module(f"{module}.{name}")
    except ImportError:
        return False
    return True


def test_what_a_page_has_ever_shown_can_be_imported():
    assert [line for line in EVER if not works(line)] == []


def test_what_the_pages_show_today_is_kept_for_ever():
    now = set().union(*(shown(page.read_text(encoding="utf-8")) for page in PAGES))
    assert len(now) > 150
    assert sorted(now - set(EVER)) == [], f"add these lines to {IMPORTS.name}"
