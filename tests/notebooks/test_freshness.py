"""Tests that a notebook is stale if what it imports, opens or shows has changed, and otherwise not."""

import shutil
from pathlib import Path

import pytest

from glassformer import lookups, roles

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
HEAD = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
---
"""
TEXT = (
    HEAD
    + """
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
)


def made(root, package, written):
    """Makes a project with one executed chapter."""
    for name, content in package.items():
        path = root / "src" / "glassformer" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content.replace("\n        ", "\n").lstrip("\n"), encoding="utf-8")
    text = root / "book" / "chapters" / "01.md"
    text.parent.mkdir(parents=True)
    text.write_text(written, encoding="utf-8")
    assert notebooks.main([], root) == 0
    return root


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    return made(tmp_path_factory.mktemp("project"), PACKAGE, TEXT)


@pytest.fixture
def project(executed, tmp_path):
    """Copies that project, so that the test can change it."""
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
    assert condition(project) == "without a record of what it was made from"


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
        ("x = 1; len??", True),
        ("helper(1)\nx = '?'[0]", False),
        ("x = 1  # and then?", False),
    ],
)
def test_who_asks_for_docstrings_depends_on_them(project, cell, asks):
    text, _ = notebooks.pairs(project)[0]
    text.write_text(TEXT.replace("import inspect", cell), encoding="utf-8")
    assert notebooks.asks_for_docstrings(notebooks.read_text(text)) == asks
    package = project / "src" / "glassformer"
    uses = {kind: {} for kind in freshness.KINDS} | {"imports": {"shapes.py": ""}}
    before = freshness.fingerprints(package, uses, docstrings=asks, cells="")
    change(project, "shapes.py", "Said of the area", "Told of the area")
    assert (freshness.fingerprints(package, uses, docstrings=asks, cells="") != before) == asks


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        ("x = 1\n", "# said\nx = 1  # one\n", True),
        ('"""Said."""\nx = 1\n', '"""Told."""; x = 1\n', False),  # a semicolon is code, and layout no matter
        ("x = f(1,\n  2)\n", "x = f(1, 2)\n", True),
        ("if a:\n    x()\ny()\n", "if a:\n    x()\n    y()\n", False),
        ('x = f("""a\n\nb""")\n', 'x = f("""a\nb""")\n', False),
        ('x = f(f"{ä}  # {1:>{2}}")\n', 'x = f(f"{ä} # {1:>{2}}")\n', False),
        ("x = 1\n", "x = 2\n", True),  # nobody names it
        ("x = 1\ny = f(x)\n", "x = 2\ny = f(x)\n", False),
        ("x = 1\ny = f(a.x)\n", "x = 2\ny = f(a.x)\n", False),
        ("x = 1\ny = getattr(a, 'x')\n", "x = 2\ny = getattr(a, 'x')\n", False),
        ("x = 1\nz = (x,)\ny = f(z)\n", "x = 2\nz = (x,)\ny = f(z)\n", False),
        ("x = 1\ny = vars(a)\n", "x = 2\ny = vars(a)\n", True),  # the recorder hears of what
        ("x = 1\ny = a.__dict__\n", "x = 2\ny = a.__dict__\n", False),
        ("x = 1\nclass C:\n    def eval(self): pass\n", "x = 2\nclass C:\n    def eval(self): pass\n", True),
        ("from a import *\nx = 1\n", "from a import *\nx = 2\n", False),
        ("x = 1\nx = 2\n", "x = 2\nx = 1\n", False),
        ("x = f(1)\n", "x = f(2)\n", False),  # to call it may do something
        ("def f(a):\n    return 1\n", "def f(a):\n    return 2\n", True),
        ("", "def f(a=1):\n    return 1\n\n\n", True),
        ("def f(a=g(1)): pass\n", "def f(a=g(2)): pass\n", False),
        ("@a(1)\ndef f(): pass\n", "@a(2)\ndef f(): pass\n", False),
        ("class C:\n    x = 1\n", "class C:\n    x = 2\n", False),
        ("class C:\n    def f(self): pass\n", "class C:\n    def __eq__(self): pass\n", False),
        ("if a:\n    x = 1\n", "if a:\n    x = 2\n", False),
        ("raise A('a')\n", "raise A('b')\n", False),  # outside functions
    ],
)
def test_what_counts_of_a_module_whose_functions_nobody_calls(tmp_path, before, after, same):
    hashes = []
    for source in (before, after):
        (tmp_path / "a.py").write_text(source, encoding="utf-8")
        uses = {kind: {} for kind in freshness.KINDS} | {"imports": {"a.py": ""}}
        hashes.append(freshness.fingerprints(tmp_path, uses, docstrings=False, cells="print(1)"))
    assert (hashes[0] == hashes[1]) == same


def test_a_constant_that_a_cell_or_another_module_names_counts(tmp_path):
    uses = {kind: {} for kind in freshness.KINDS} | {"imports": {"a.py": "", "b.py": ""}}
    (tmp_path / "b.py").write_text("def f():\n    return a.Y\n")
    for cells, calls, same in [
        ("a.X", {}, False), ("'X'", {}, False), ("a.Z", {}, True), ("b.f()", {"b.py": "f"}, True)
    ]:  # fmt: skip
        found = []
        for value in (1, 2):
            (tmp_path / "a.py").write_text(f"X = {value}\nY = 3\n")
            found.append(
                freshness.fingerprints(tmp_path, uses | {"calls": calls}, docstrings=False, cells=cells)
            )
        assert (found[0] == found[1]) == same, cells
    found = []
    for value in (3, 4):
        (tmp_path / "a.py").write_text(f"X = 1\nY = {value}\n")
        found.append(
            freshness.fingerprints(tmp_path, uses | {"calls": calls}, docstrings=False, cells="b.f()")
        )
    assert found[0] != found[1]


@pytest.mark.parametrize(
    ("language", "before", "after", "same"),
    [
        ("js", "a(1); // said\n", "/* told */ a(1);\n", False),  # a blank is kept where a comment was
        ("js", "// said\na(1);\n", "// told\n// more\na(1);\n", True),
        ("js", "a(1); // said\n", "a(1);\n", True),
        ("js", 'a("// said");\n', 'a("// told");\n', False),
        ("js", "a(`\n// said\n`);\n", "a(`\n// told\n`);\n", False),
        ("js", "a(`x\n\ny`);\n", "a(`x\ny`);\n", False),
        ("js", "a(`x \ny`);\n", "a(`x\ny`);\n", False),
        ("js", "a(`x${b}\n\ny`);\n", "a(`x${b}\ny`);\n", False),
        ("js", "// said\na(`x`);\n", "// told\n// more\n\na(`x`);\n", True),
        ("js", "a(/[/*]/, 1);\n", "a(/[/*]/, 2);\n", False),
        ("css", "/* said */\nb { c: 1 }\n", "/* told */\nb { c: 1 }\n", True),
        ("css", 'b { c: "/* said */" }\n', 'b { c: "/* told */" }\n', False),
        ("css", "b { c: url(x//y) }\n", "b { c: url(x//z) }\n", False),
    ],
)
def test_comments_in_javascript_and_stylesheets_do_not_count(language, before, after, same):
    assert (
        freshness.without_comments(before, language) == freshness.without_comments(after, language)
    ) == same


RUN = {
    "__init__.py": "",
    "run.py": '''
        """Everything that a notebook may run."""
        import functools
        import threading
        import _thread
        import time

        SCALE, LIMIT = 2, 3

        def check(x):
            if x > LIMIT:
                raise ValueError(f"{x} is too large")

        def shout(x):
            if x > 1:
                raise KeyError("seen by all")
            raise KeyError("seen by none")

        def threaded(x):
            return x + 10

        def raw(found):
            found.append(20)

        def steps():
            yield 30

        @functools.cache
        def kept():
            return 40

        class Base:
            size = 50

            @property
            def wide(self):
                return self.size + 1

            def inherited(self):
                return 60

            def over(self):
                return 70

            def never(self):
                return 80

        class Child(Base):
            def __getattr__(self, name):
                return 90

            def over(self):
                return super().over()

        def default(x=100):
            def inner():
                return x + 110
            return inner()

        def traced():
            return 120

        def by_child():
            return 130

        def replaced():
            return 140

        def never():
            return 150
    ''',
}
RUNS = (
    HEAD
    + """
```{code-cell} ipython3
import subprocess, sys, threading, _thread, time
from concurrent.futures import ThreadPoolExecutor
from glassformer import run
run.replaced = lambda: 0
run.check(1)
try:
    run.shout(2)
except KeyError as error:
    print(error)
found = []
_thread.start_new_thread(run.raw, (found,))
while not found:
    time.sleep(0.01)
print(ThreadPoolExecutor().submit(run.threaded, 1).result(), found, list(run.steps()), run.kept(), run.kept())
child = run.Child()
print(child.wide, child.inherited(), child.over(), child.anything, run.default(), run.replaced())
sys.settrace(lambda *event: None)
print(run.traced())
sys.settrace(None)
code = "from glassformer import run; print(run.by_child())"
print(subprocess.run([sys.executable, "-c", code], capture_output=True).stdout)
```
"""
)


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    """Makes a project whose notebook runs functions in every way."""
    return made(tmp_path_factory.mktemp("ran"), RUN, RUNS)


@pytest.mark.parametrize(
    ("before", "after", "counts"),
    [
        ("x > LIMIT", "x > LIMIT + 1", True),
        ("2, 3", "2, 4", True),  # the limit is named by a function that was called
        ("is too large", "is larger than that", False),
        ("raise ValueError(", "raise TypeError(", False),
        ("seen by all", "read by all", True),
        ("seen by none", "read by none", False),
        ("x + 10\n", "x + 11\n", True),
        ("20", "21", True),
        ("30", "31", True),
        ("40", "41", True),
        ("50", "51", True),
        ("self.size + 1", "self.size + 2", True),
        ("60", "61", True),
        ("70", "71", True),
        ("80", "81", False),
        ("90", "91", True),
        ("x=100", "x=101", True),
        ("x + 110", "x + 111", True),
        ("120", "121", True),
        ("130", "131", True),
        ("140", "141", False),
        ("150", "151", False),
        ("def never():", "def one_more():\n    return 1\n\n\ndef never():", False),
        ("def never():", "def print(*it):\n    return 1\n\n\ndef never():", True),  # a name that is used
        ("class Child(Base):", "class Child(Base):\n    def wide(self):\n        return 1\n", True),
    ],
)
def test_what_is_run_counts_and_nothing_else(ran, tmp_path, before, after, counts):
    project = shutil.copytree(ran, tmp_path / "project")
    assert condition(project) == "fresh"
    change(project, "run.py", before, after)
    assert (condition(project) != "fresh") == counts


MAKES = {
    "__init__.py": "",
    "engine.py": '''
        """Exchanges the code of a function, as the gallery of bugs does."""
        import inspect
        from pathlib import Path

        def put_in(function):
            right, wrong = (Path(__file__).parent / "edit.txt").read_text().split()
            source = inspect.getsource(function).replace(right, wrong)
            defined = {}
            exec(compile(source, "<changed>", "exec"), function.__globals__, defined)
            function.__code__ = defined[function.__name__].__code__
    ''',
    "maths.py": """
        RIGHT, WRONG = 1, 2
        SHARED = 3
        WORTH = 4
        TREE = 5
        UNUSED = 6
        IN_CHILD = 7

        def scaled(x):
            # by hand
            return x * RIGHT + SHARED

        def helped(x):
            return x

        def unused():
            return 8
    """,
    "edit.txt": "RIGHT helped(WRONG)",
    **{f"{name}.py": "A = 1\nB = 2\n" for name in ("listed", "looked", "member")},
    "unlisted.py": "C = 1\n",
    "own.py": "A = 1\nB = 2\ndef names():\n    return sorted(globals())\n",
    "here.py": "A = 1\nB = 2\nNAMES = sorted(locals()), sorted(vars()), dir()\n",
    "held.py": "D = 1\nE = 2\nclass Held:\n  def __init__(self):\n    self.D, here = 3, locals()\n",
}
MADE = (
    HEAD
    + """
```{code-cell} ipython3
import ast, inspect, subprocess, sys
from glassformer import engine, held, here, listed, looked, maths, member, own, unlisted
engine.put_in(maths.scaled)
print(maths.scaled(2), eval("maths.WOR" + "TH"))
tree = ast.parse("print(maths.XXXX)".replace("XX", "TR", 1).replace("XX", "EE"))
exec(compile(tree, "<tree>", "exec"))
print(sorted(vars(listed)), dir(looked), inspect.getmembers(member), own.names())
print(vars(held.Held()), dir(held.Held))
code = "from glassformer import maths; print(eval('maths.IN_' + 'CHILD'))"
print(subprocess.run([sys.executable, "-c", code], capture_output=True).stdout)
```
"""
)


@pytest.fixture(scope="module")
def makes(tmp_path_factory):
    """A project whose notebook makes code while it runs, and asks modules for their names."""
    return made(tmp_path_factory.mktemp("makes"), MAKES, MADE)


@pytest.mark.parametrize(
    ("file", "before", "after", "counts"),
    [
        ("edit.txt", "WRONG", "3", True),
        ("maths.py", "# by hand", "# with a pen", True),  # the changed source is made of it
        ("maths.py", "x * RIGHT", "RIGHT * x", True),
        ("maths.py", "1, 2", "1, 3", True),  # named in what was put in, and in no file
        ("maths.py", "SHARED = 3", "SHARED = 4", True),
        ("maths.py", "return x\n", "return -x\n", True),  # called by what was put in
        ("maths.py", "WORTH = 4", "WORTH = 5", True),  # in what a cell put together
        ("maths.py", "TREE = 5", "TREE = 6", True),
        ("maths.py", "IN_CHILD = 7", "IN_CHILD = 8", True),
        ("maths.py", "UNUSED = 6", "UNUSED = 7", False),
        ("maths.py", "UNUSED = 6", "ONE_MORE = UNUSED = 6", False),
        ("maths.py", "return 8", "return 9", False),
        *(
            (f"{name}.py", "A = 1\n", after, True)
            for name in ("listed", "looked", "member", "own", "here")
            for after in ("A = 2\n", "A = 1\nNEW = 3\n", "A = 1\ndef new():\n    pass\n")
        ),
        ("unlisted.py", "C = 1", "C = 2", False),
        ("unlisted.py", "C = 1", "NEW = 3", False),
        ("held.py", "D = 1", "D = 2", True),  # an attribute has the same name
        ("held.py", "E = 2", "E = 3", False),  # an object and a class were asked, and not the module
    ],
)
def test_what_is_made_while_it_runs_counts_and_whose_names_are_asked_for(
    makes, tmp_path, file, before, after, counts
):
    project = shutil.copytree(makes, tmp_path / "project")
    assert condition(project) == "fresh"
    change(project, file, before, after)
    assert (condition(project) != "fresh") == counts


def test_while_a_notebook_is_recorded_names_are_those_that_python_gives(makes):
    said = notebooks.pairs(makes)[0][1].read_text(encoding="utf-8")
    for name in ("listed", "looked", "member", "own", "here"):
        assert f'"{name}.py": ""' in said
    assert "WRONG" in said
    assert "{'D': 3}" in said  # vars(held.Held())


def test_a_source_is_found_by_its_qualified_name():
    source = "if True:\n    def f(): 1\nelse:\n    def f(): 2\n\nclass C:\n    def f(self): 3\n    def g(self): 4\n"
    assert freshness.source_of("f", source) == "    def f(): 1\n    def f(): 2"
    assert freshness.source_of("C.g", source) == "    def g(self): 4"
    assert freshness.source_of("C.h", source) == ""


ASKED = {
    "__init__.py": "",
    "lookups.py": Path(lookups.__file__).read_text(encoding="utf-8").replace("\n", "\n        "),
    "table.py": '''
        """Tables, and those who look things up in them."""
        import functools
        import threading
        from dataclasses import dataclass
        from pathlib import Path

        from glassformer.lookups import lookup

        HERE = Path(__file__).parent
        NAMES = {"one": 1, "two": 2}
        FUNCTIONS = {"double": "double"}

        @dataclass(frozen=True)
        class Row:
            title: str
            width: int

        def lines(file):
            """Not a look-up: who calls it depends on all of the file."""
            text = (HERE / file).read_text()
            return dict(line.split(": ") for line in text.splitlines())

        @functools.cache
        def kept(file):
            return lines(file)

        @lookup
        def title(name):
            return Row(kept("titles.txt")[name], width=3)

        @lookup
        def nested(name):
            return title(name).title + "!"

        @lookup
        def length(name="a"):
            if name not in lines("lengths.txt"):
                raise KeyError(f"{name} is none of {sorted(lines('lengths.txt'))}")
            return int(lines("lengths.txt")[name])

        @lookup
        @functools.cache
        def cached(name):
            return lines("cached.txt")[name]

        @lookup
        def value(name):
            return NAMES[name]

        def double(x):
            return 2 * x

        def triple(x):
            return 3 * x

        @lookup
        def function(name):
            return globals()[FUNCTIONS[name]]

        @lookup
        def listed():
            return {"b", "a"} | {path.name for path in (HERE / "folder").iterdir()}

        @lookup
        def untold(name):
            return iter(lines("untold.txt")[name])

        @lookup
        def unwritten(given):
            return lines("unwritten.txt")["a"]

        @lookup
        def imports():
            from glassformer import imported
            return imported.VALUE[0]

        def broken(name):
            lines("shared.txt")
            return length(name)

        @lookup
        def threaded():
            found = []
            thread = threading.Thread(target=lambda: found.append(lines("threaded.txt")["a"]))
            thread.start()
            thread.join()
            return found[0]

        @lookup
        def both(name):
            return helper(name)

        def helper(name):
            return lines("both.txt")[name]

        AT_IMPORT = title("b")
    ''',
    "imported.py": """
        from glassformer import table
        VALUE = table.lines("imports.txt")["a"], table.lines("imports.txt")["b"]
    """,
    "folder/first.txt": "",
} | {
    f"{name}.txt": "a: 1\nb: 2\nc: 3\n"
    for name in "titles lengths cached untold unwritten imports shared threaded both missing".split()
}  # fmt: skip
ASKS = (
    HEAD
    + """
```{code-cell} ipython3
from glassformer import table
print(table.title("a"), table.nested("a"), table.length(), table.length(name="b"), table.value("one"))
print(table.cached("a"), table.cached("a"), table.function("double")(2), sorted(table.listed()))
print(next(table.untold("a")), table.unwritten(object) , table.imports(), table.threaded())
print(table.both("a"), table.helper("a"))
try:
    table.length("z")
except KeyError as error:
    print(error)
print(table.broken("a"))
```
"""
)


@pytest.fixture(scope="module")
def asked(tmp_path_factory):
    """Makes a project whose notebook uses look-ups in every way."""
    return made(tmp_path_factory.mktemp("asked"), ASKED, ASKS)


@pytest.mark.parametrize(
    ("file", "before", "after", "used"),
    [
        ("titles.txt", "a: 1", "a: 7", "title('a')"),
        ("titles.txt", "b: 2", "b: 7", "title('b')"),  # asked while the module is imported
        ("titles.txt", "c: 3", "c: 7", ""),
        ("titles.txt", "a: 1", "d: 0\na: 1", ""),
        ("cached.txt", "a: 1", "a: 7", "cached('a')"),
        ("cached.txt", "b: 2", "b: 7", ""),
        ("lengths.txt", "b: 2", "b: 7", "length(name='b')"),
        ("lengths.txt", "c: 3", "c: 7", ""),
        ("lengths.txt", "c: 3", "d: 3", "length('z')"),  # which says what there is
        ("table.py", '"one": 1', '"one": 7', "value('one')"),
        ("table.py", '"two": 2', '"two": 7, "three": 3', ""),
        ("table.py", "return NAMES[name]", "return NAMES.get(name)", ""),  # the same answer
        ("table.py", "return NAMES[name]", "return 7", "value('one')"),
        ("table.py", '": "double"', '": "triple"', "function('double')"),
        ("table.py", "2 * x", "x + x", "table.py"),  # the answer is called
        ("table.py", "width=3", "width=4", "title('a')"),
        ("table.py", "def value(", "def worth(", "table.py"),
        ("untold.txt", "b: 2", "b: 7", "untold.txt"),  # an answer that has no words
        ("unwritten.txt", "b: 2", "b: 7", "unwritten.txt"),  # nor has the question
        ("imports.txt", "b: 2", "b: 7", "imports.txt"),  # read by a module that others may use
        ("threaded.txt", "b: 2", "b: 7", "threaded.txt"),  # in another thread
        ("shared.txt", "c: 3", "c: 7", "shared.txt"),  # opened beside a look-up
        ("both.txt", "c: 3", "c: 7", "both.txt"),  # opened in a look-up first, and outside it
        ("table.py", 'lines("both.txt")[name]', 'lines("both.txt").get(name)', "table.py"),  # called likewise
        ("missing.txt", "c: 3", "c: 7", ""),
    ],
)
def test_of_a_look_up_its_answers_count(asked, tmp_path, file, before, after, used):
    project = shutil.copytree(asked, tmp_path / "project")
    assert condition(project) == "fresh"
    change(project, file, before, after)
    found = condition(project)
    assert (found == "fresh") if not used else used in found


def test_a_file_that_comes_changes_the_answer_of_a_look_up(asked, tmp_path):
    project = shutil.copytree(asked, tmp_path / "project")
    (project / "src" / "glassformer" / "folder" / "second.txt").touch()
    assert condition(project) == "glassformer.table:listed() changed"


def test_a_package_that_cannot_be_imported_answers_nothing(asked, tmp_path):
    project = shutil.copytree(asked, tmp_path / "project")
    change(project, "lookups.py", "import sys", "import sys, no_such_module")
    assert "changed" in condition(project)
    assert set(notebooks.answers(project).values()) == {""}


def test_a_look_up_says_what_the_function_says():
    @lookups.lookup
    def quotient(a, b=2):
        """Said of it."""
        return a / b

    assert (quotient(4), quotient(6, b=3), quotient.__doc__) == (2, 2, "Said of it.")
    with pytest.raises(ZeroDivisionError):
        quotient(1, 0)


def real(*files):
    """Files of the book's package, for a made-up one. A module's package has nothing else."""
    package = notebooks.package_of(notebooks.ROOT)
    found = {f"{Path(file).parent}/__init__.py": "" for file in files if file.endswith(".py")}
    return found | {
        file: (package / file).read_text(encoding="utf-8").replace("\n", "\n        ") for file in files
    }


COLOURED = {
    **real("roles.py", "lookups.py", "figures/style.py", "assets/roles.json"),
    **real("widgets/kit/identity.py", "widgets/kit/modules.py", "widgets/kit/places.py"),
    "widgets/__init__.py": "",
    "widgets/kit/base.js": 'export const colour = "var(--gf-feedforward)";\n',
    "widgets/kit/dot.js": 'import { colour } from "./base.js";\nexport default [colour, "var(--gf-key)"];\n',
    "widgets/kit/dot.css": ".gf-widget .gf-dot { color: var(--gf-value); }\n",
    "widgets/kit/square.js": 'export default "var(--gf-position)";\n',
}
COLOURS = (
    HEAD
    + """
```{code-cell} ipython3
from glassformer.figures.style import ROLES, figure
from glassformer.widgets.kit.modules import Module
views = Module.of("dot")
with figure("Lines", "Three lines.") as ax:
    ax.plot([0, 1], [1, 0])
    ax.plot([0, 1], [1, 1], color=ROLES["norm"])
    ax.plot([0, 1], [0, 0], color="#123456")
```
"""
)


@pytest.fixture(scope="module")
def coloured(tmp_path_factory):
    """A project whose notebook stores a figure and a view, in the colours of some roles."""
    return made(tmp_path_factory.mktemp("coloured"), COLOURED, COLOURS)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("role", roles.names())
def test_a_colour_counts_where_something_is_stored_in_it(coloured, tmp_path, role, theme):
    stored = {"query", "norm"} | {"feedforward", "key", "value"}  # in the figure, and in the view
    project = shutil.copytree(coloured, tmp_path / "project")
    assert condition(project) == "fresh"
    change(project, "assets/roles.json", roles.shades(role)[theme], "#ababab")
    assert (condition(project) != "fresh") == (role in stored)


@pytest.mark.parametrize(
    ("file", "before", "after", "used"),
    [
        ("assets/roles.json", roles.shades("residual")["light"], "#123456", "drawn_in"),  # of the third line
        ("assets/roles.json", "{\n", '{\n  "new": { "light": "#abcdef", "dark": "#fedcba" },\n', ""),
        ("assets/roles.json", '"key"', '"other"', "among"),
        ("widgets/kit/dot.css", "gf-value", "gf-position", "dot.css"),
        ("widgets/kit/square.js", "gf-position", "gf-value", ""),
        ("figures/style.py", '"#0102f0": "query"', '"#0102f0": "residual"', "figures/style.py"),
        ("roles.py", "data-theme", "data-other-theme", "roles.py"),
    ],
)
def test_of_the_colours_what_is_asked_for_counts(coloured, tmp_path, file, before, after, used):
    project = shutil.copytree(coloured, tmp_path / "project")
    change(project, file, before, after)
    found = condition(project)
    assert (found == "fresh") if not used else used in found


LISTED = {
    "__init__.py": "",
    **real("contents.py", "lookups.py"),
    **real(*(f"_checks/{path.name}" for path in (notebooks.package_of(notebooks.ROOT) / "_checks").glob("*.py"))),
    **{
        f"chapters/ch0{one}/chapter.toml": f'title = "Part {one}"\nquestion = "Why {one}?"\nminutes = 5{one}\n'
        for one in range(5)
    },
}
LISTS = (
    HEAD
    + """
```{code-cell} ipython3
from glassformer import contents
print(contents.page("01").name, contents.question("02"), contents.chapter("03").minutes)
```
"""
)


@pytest.fixture(scope="module")
def listed(tmp_path_factory):
    """A project whose notebook asks for the page of a chapter, the question of another and all of a third."""
    return made(tmp_path_factory.mktemp("listed"), LISTED, LISTS)


@pytest.mark.parametrize(
    ("number", "before", "stale"),
    [
        *((number, "Part", number in (1, 3)) for number in range(5)),
        *((number, "Why", number in (2, 3)) for number in range(5)),
        *((number, "minutes = 5", number == 3) for number in range(5)),
    ],
)
def test_of_a_chapter_what_is_asked_for_counts(listed, tmp_path, number, before, stale):
    project = shutil.copytree(listed, tmp_path / "project")
    assert condition(project) == "fresh"
    after = {"Part": "Piece", "Why": "How", "minutes = 5": "minutes = 6"}[before]
    change(project, f"chapters/ch0{number}/chapter.toml", before, after)
    assert (condition(project) != "fresh") == stale
