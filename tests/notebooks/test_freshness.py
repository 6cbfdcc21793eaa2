"""A notebook is stale when what it imports, opens or shows has changed, and not when anything else has."""

import shutil

import pytest

from tools import freshness, notebooks

PACKAGE = {
    "__init__.py": '"""A made-up package."""\n',
    "shapes.py": '''
        """Shapes."""
        import importlib
        from pathlib import Path

        from glassformer import maths

        HERE = Path(__file__).parent

        def area(width, height):
            """Said of the area."""
            # the two sides
            return maths.product(width, height)

        def late():
            return importlib.import_module("glassformer.late").VALUE

        def words():
            names = sorted(path.name for path in (HERE / "data").iterdir())
            return names, (HERE / "data" / "words.txt").read_text()

        class Frame:
            """Said of the frame."""

            def draw(self):
                """Said of drawing."""
                return "drawn"  # by hand

            @property
            def colour(self):
                return "blue"
    ''',
    "maths.py": "def product(a, b):\n    return a * b\n",
    "late.py": "VALUE = 1\n",
    "child.py": '"""Said of the child."""\nprint(__doc__)\nVALUE = 2\n',
    "read.py": "TEXT = 1  # as a text\n",
    "unused.py": "VALUE = 3\n",
    "data/words.txt": "one two",
    "data/others.txt": "three",
    "bytes.txt": "four",
    "here/five.txt": "five",
    "unlisted/six.txt": "six",
}
TEXT = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
---

```{code-cell} ipython3
import inspect
import linecache
import os
import subprocess
import sys
from glassformer import shapes
```
```{code-cell} ipython3
print(shapes.area(2, 3), shapes.late(), shapes.words())
print(inspect.getsource(shapes.Frame.draw), inspect.getsource(shapes.Frame.colour.fget))
print(linecache.getline(shapes.__file__.replace("shapes", "read"), 1))
print(open(os.fsencode(shapes.HERE / "bytes.txt")).read())
try:
    open(shapes.HERE / "later.txt")
except FileNotFoundError:
    print("not yet")
```
```{code-cell} ipython3
code = "import os; from glassformer import child; os.listdir()"
subprocess.run([sys.executable, "-c", code], cwd=shapes.HERE / "here").returncode
```
"""


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """A project of one chapter, executed."""
    root = tmp_path_factory.mktemp("project")
    for name, content in PACKAGE.items():
        path = root / "src" / "glassformer" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content.replace("\n        ", "\n").lstrip("\n"), encoding="utf-8")
    text = root / "book" / "chapters" / "01.md"
    text.parent.mkdir(parents=True)
    text.write_text(TEXT, encoding="utf-8")
    assert notebooks.main([], root) == 0
    return root


@pytest.fixture
def project(executed, tmp_path):
    """The same, to change."""
    return shutil.copytree(executed, tmp_path / "project")


def condition(root):
    return notebooks.condition(*notebooks.pairs(root)[0], root)


def change(root, file, before, after):
    path = root / "src" / "glassformer" / file
    content = path.read_bytes().decode()
    assert before in content
    path.write_bytes(content.replace(before, after).encode())


@pytest.mark.parametrize(
    ("file", "before", "after", "used"),
    [
        ("shapes.py", "width, height)\n\n", "height, width)\n\n", "shapes.py"),
        ("maths.py", "a * b", "a + b", "maths.py"),  # imported by what the notebook imports
        ("late.py", "1", "7", "late.py"),  # imported by a function, by name
        ("child.py", "2", "7", "child.py"),  # imported by another process
        ("child.py", "Said of", "Told of", "child.py"),  # which prints its own docstring
        ("data/words.txt", "one", "One", "data/words.txt"),
        ("bytes.txt", "four", "Four", "bytes.txt"),
        ("read.py", "as a text", "as text", "read.py"),
        ("shapes.py", "Said of drawing", "Told of drawing", "shapes.py Frame.draw"),
        ("shapes.py", "by hand", "with a pen", "shapes.py Frame.draw"),
    ],
)
def test_what_is_used_counts(project, file, before, after, used):
    assert condition(project) == "fresh"
    change(project, file, before, after)
    assert condition(project) == f"{used} changed"


@pytest.mark.parametrize(
    ("file", "before", "after"),
    [
        ("unused.py", "3", "7"),
        ("data/others.txt", "three", "Three"),
        ("__init__.py", "made-up", "small"),
        ("shapes.py", "Said of the area.", "The area,\n    in two lines."),
        ("shapes.py", "    # the two sides\n", ""),
        ("shapes.py", "\ndef late", "\n\n\n# Later.\ndef late"),
        ("shapes.py", "Said of the frame", "Told of the frame"),  # only its method is shown
        ("shapes.py", "\n", "\r\n"),
    ],
)
def test_nothing_else_does(project, file, before, after):
    change(project, file, before, after)
    assert condition(project) == "fresh"


def test_a_shown_source_counts_to_the_last_character_also_of_its_decorators(project):
    change(project, "shapes.py", "@property", "@property  # read it")
    assert condition(project) == "shapes.py Frame.colour changed"


def test_a_file_that_is_gone_counts(project):
    (project / "src" / "glassformer" / "bytes.txt").unlink()
    assert condition(project) == "bytes.txt changed"


def test_a_file_that_was_looked_for_counts_when_it_comes(project):
    (project / "src" / "glassformer" / "later.txt").touch()
    assert condition(project) == "later.txt changed"


def test_a_new_file_counts_in_a_folder_that_is_listed(project):
    package = project / "src" / "glassformer"
    for folder in (package, package / "unlisted", package / "data" / "__pycache__"):
        folder.mkdir(exist_ok=True)
        (folder / "new.txt").touch()
        assert condition(project) == "fresh"
    (package / "data" / "new.txt").touch()
    (package / "here" / "new.txt").touch()
    assert condition(project) == "data, here changed"


def test_a_folder_that_is_gone_counts(project):
    (project / "src" / "glassformer" / "data").rename(project / "src" / "glassformer" / "moved")
    assert condition(project) == "data/words.txt, data changed"


def test_what_was_not_recorded_is_not_fresh(project):
    notebook = notebooks.pairs(project)[0][1]
    notebook.write_text(notebook.read_text(encoding="utf-8").replace('"imports"', '"imported"'), "utf-8")
    assert condition(project) == "made from something unknown"


def test_compiled_or_not_the_record_is_the_same(project):
    notebook = notebooks.pairs(project)[0][1]
    before = notebook.read_bytes()
    for compiled in project.rglob("__pycache__"):
        shutil.rmtree(compiled)
    assert notebooks.main(["--force"], project) == 0
    assert notebook.read_bytes() == before


@pytest.mark.parametrize(
    ("cell", "asks"),
    [
        ("help(len)", True),
        ("!python -m glassformer --help", True),
        ("len?", True),
        ("x = 1\n?len", True),
        ("%pdoc len", True),
        ("%pinfo2 len", True),
        ("print(len.__doc__)", True),
        ("helper(1)\nx = '?'[0]", False),
    ],
)
def test_who_asks_for_docstrings_depends_on_them(project, cell, asks):
    text, _ = notebooks.pairs(project)[0]
    text.write_text(TEXT.replace("import inspect", cell), encoding="utf-8")
    assert notebooks.asks_for_docstrings(notebooks.read_text(text)) == asks
    package = project / "src" / "glassformer"
    before = freshness.fingerprint(package, "imports", "shapes.py", docstrings=asks)
    change(project, "shapes.py", "Said of the area", "Told of the area")
    assert (freshness.fingerprint(package, "imports", "shapes.py", docstrings=asks) != before) == asks


def test_code_is_what_is_left_without_comments_docstrings_and_empty_lines():
    source = '''#!/usr/bin/env python
"""A module,
in two lines."""; ä = "# no comment"  # a comment

x = f"{ä}  # none {1:>{2}}"
"""Said of x."""

def f(): "Said of f."

class C:
    """Said of C."""

    text = """
    not a # docstring
    """
'''
    code = """
; ä = "# no comment"
x = f"{ä}  # none {1:>{2}}"
def f():
class C:
    text = \"\"\"
    not a # docstring
    \"\"\""""
    assert freshness.code_of(source) == code.lstrip("\n")


@pytest.mark.parametrize(
    ("source", "counts"),
    [
        ('x = """{}"""\n', True),
        ('x = f"""{}{{1}}"""\n', True),
        ('"""Said."""; x = """{}"""\n', True),
        ('def f():\n    """{}"""\n    return 1\n', False),
        ('x = "1"; """{}"""\n', False),
    ],
)
def test_blanks_and_empty_lines_count_in_a_string_that_is_no_docstring(source, counts):
    inside = ["a\n\nb", "a\n\n\nb", "a\n \nb", "a \n\nb", "a\n\n b"]
    codes = {freshness.code_of(source.replace("{}", text)) for text in inside}
    assert len(codes) == (len(inside) if counts else 1)


def test_a_source_is_found_by_its_qualified_name():
    source = "if True:\n    def f(): 1\nelse:\n    def f(): 2\n\nclass C:\n    def f(self): 3\n    def g(self): 4\n"
    assert freshness.source_of("f", source) == "    def f(): 1\n    def f(): 2"
    assert freshness.source_of("C.g", source) == "    def g(self): 4"
    assert freshness.source_of("C.h", source) == ""
