"""Tests that a notebook is stale if what it used has changed, and is stored only if its outputs differ."""

import shutil
import subprocess
import time

import nbformat
import pytest

from tools import freshness, notebooks

PACKAGE = {
    "__init__.py": '"""A made-up package."""\n',
    "shapes.py": '''
        """Shapes."""
        import importlib, importlib.resources, json, pkgutil
        from pathlib import Path
        from glassformer import maths
        HERE = Path(__file__).parent
        def area(width=2, height=3):
            """Said of the area."""
            # the two sides
            return maths.product(width, height)
        def late():
            return importlib.import_module("glassformer.late").VALUE
        def words():
            names = sorted(path.name for path in (HERE / "data").iterdir())
            table = importlib.resources.files("glassformer").joinpath("data/table.toml").read_text()
            return names, table, pkgutil.get_data("glassformer", "loaded.txt"), (HERE / "asked.txt").is_file()
        class Frame:
            """Said of the frame."""
            def __repr__(self):
                return "a frame"
            def draw(self):
                """Said of drawing."""
                return "drawn"  # by hand
            @property
            def colour(self):
                return "blue"
    ''',
    "maths.py": "from glassformer import deep\n\ndef product(a, b):\n    return a * b * deep.ONE\n",
    "deep.py": "ONE = 1\n",
    "late.py": "VALUE = 1\n",
    "child.py": "VALUE = 2\n",
    "read.py": "TEXT = 1  # as a text\n",
    "again.py": "TEXT = 1  # read after it was shown\n\ndef shown():\n    pass\n",
    "unused.py": "VALUE = 3\n",
    "view.js": "// said\nexport default `// shown`;\n",
    "view.css": "/* said */\np { color: red }\n",
    "data/table.toml": "one = 1\n",
    "data/run.npy": "0 1 2",
    "data/others.txt": "three",
    "loaded.txt": "loaded",
    "here/five.txt": "five",
    "../../requirements.txt": "numpy==1\n",
    "../../tools/notebooks.py": "def execute():\n    return 1\n\ndef other():\n    return 2\n",
}
TEXT = """---
jupytext:
  text_representation:
    extension: .md
    format_name: myst
---
```{code-cell} ipython3
import inspect, linecache, os, subprocess, sys
from glassformer import again, shapes
print(shapes.area(), shapes.late(), shapes.words(), shapes.Frame())
print(inspect.getsource(shapes.Frame.draw), inspect.getsource(shapes.Frame.colour.fget))
print(inspect.getsource(again.shown), linecache.getline(again.__file__, 1))
print(linecache.getline(shapes.__file__.replace("shapes", "read"), 1))
for name in ("view.js", "view.css", "data/run.npy"):
    assert open(os.fsencode(shapes.HERE / name)).read()
try:
    open(shapes.HERE / "later.txt")
except FileNotFoundError:
    print("not yet")
code = "import os; from glassformer import child; os.listdir()"
subprocess.run([sys.executable, "-c", code], cwd=shapes.HERE / "here").returncode
```
"""


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """Makes a project with one executed chapter."""
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
    """Copies that project, so that the test can change it."""
    return shutil.copytree(executed, tmp_path / "project")


def condition(root):
    return notebooks.condition(*notebooks.pairs(root)[0], root)


def change(root, file, before, after):
    path = root / "src" / "glassformer" / file
    content = path.read_bytes().decode() if path.exists() else ""
    assert before in content
    path.write_bytes(content.replace(before, after).encode())


EDITS = {
    "a default": ("shapes.py", "width=2", "width=7", "shapes.py"),
    "what prints an object": ("shapes.py", "a frame", "the frame", "shapes.py"),
    "a module that a module imports": ("maths.py", "a * b", "a + b", "maths.py"),
    "and one that this imports": ("deep.py", "1", "7", "deep.py"),
    "imported by its name": ("late.py", "1", "7", "late.py"),
    "imported by another process": ("child.py", "2", "7", "child.py"),
    "a table of the package's data": ("data/table.toml", "1", "7", "data/table.toml"),
    "data that a loader reads": ("loaded.txt", "loaded", "read", "loaded.txt"),
    "a stored run": ("data/run.npy", "1 2", "1 3", "data/run.npy"),
    "JavaScript": ("view.js", "// shown", "// changed", "view.js"),
    "a stylesheet": ("view.css", "red", "blue", "view.css"),
    "a pinned version": ("../../requirements.txt", "1", "2", "../../requirements.txt"),
    "how notebooks are executed": (
        "../../tools/notebooks.py", "return 1", "return 3", "../../tools/notebooks.py execute"
    ),
    "a source that is read": ("read.py", "as a text", "as text", "read.py"),
    "a source that is read after it was shown": ("again.py", "it was", "being", "again.py"),
    "a docstring that is shown": ("shapes.py", "Said of drawing", "Told of it", "shapes.py Frame.draw"),
    "a comment that is shown": ("shapes.py", "by hand", "with a pen", "shapes.py Frame.draw"),
    "a shown decorator": ("shapes.py", "@property", "@property  # read it", "shapes.py Frame.colour"),
    "a new file that somebody tried to open": ("later.txt", "", "", "later.txt"),
    "a new file that somebody looked for": ("asked.txt", "", "", "asked.txt"),
    "a new file in a folder that is listed": ("data/new", "", "", "data"),
    "a new file in a folder that a process lists": ("here/new", "", "", "here"),
    "a new file elsewhere": ("new", "", "", ""),
    "what Python keeps": ("data/__pycache__", "", "", ""),
    "another module": ("unused.py", "3", "7", ""),
    "other data": ("data/others.txt", "three", "Three", ""),
    "a module's docstring": ("__init__.py", "made-up", "small", ""),
    "a function's docstring": ("shapes.py", "Said of the area.", "The area,\n    in two lines.", ""),
    "a class's docstring": ("shapes.py", "Said of the frame", "Told of the frame", ""),
    "a comment": ("shapes.py", "    # the two sides\n", "", ""),
    "layout": ("shapes.py", "def late", "\n\n# Later.\ndef late", ""),
    "ends of lines": ("shapes.py", "\n", "\r\n", ""),
    "a comment in JavaScript": ("view.js", "// said\n", "// told\n/* twice */\n\n", ""),
    "a comment in a stylesheet": ("view.css", "said", "told", ""),
    "what else the tool does": ("../../tools/notebooks.py", "return 2", "return 3", ""),
}  # fmt: skip


@pytest.mark.parametrize(("file", "before", "after", "used"), EDITS.values(), ids=EDITS)
def test_what_is_used_counts_and_nothing_else_does(project, file, before, after, used):
    assert condition(project) == "fresh"
    change(project, file, before, after)
    assert condition(project) == (f"{used} changed" if used else "fresh")


def test_what_is_changed_while_a_notebook_is_executed_counts(project):
    """The notebook may have read it before or after."""
    text, _ = notebooks.pairs(project)[0]
    cell = (
        'import pathlib\npath = pathlib.Path(shapes.HERE / "loaded.txt")\npath.write_text("changed")\n```\n'
    )
    text.write_text(text.read_text(encoding="utf-8").removesuffix("```\n") + cell, "utf-8")
    assert notebooks.main([], project) == 0
    assert condition(project) == "loaded.txt changed"


def test_what_is_gone_counts(project):
    (project / "src" / "glassformer" / "data").rename(project / "src" / "glassformer" / "moved")
    assert condition(project) == "data, data/run.npy, data/table.toml changed"


ASKING = ["help(len)", "!python -m glassformer --help", "len?", "x = 1\n?len", "%pdoc len", "x = 1; len??"]
NOT_ASKING = ["helper(1)\nx = '?'[0]", "x = 1  # and then?", "print('help more')"]


@pytest.mark.parametrize(
    ("cell", "module", "asks"),
    [
        *((cell, "", True) for cell in [*ASKING, "print(len.__doc__)", "vars(len)"]),
        *((cell, "", False) for cell in NOT_ASKING),
        ("print(1)", "shapes.area.__doc__", True),
    ],
)
def test_who_asks_for_docstrings_depends_on_them(project, cell, module, asks):
    package, uses = notebooks.package_of(project), project / "uses.txt"
    uses.write_text("runs shapes.py\nruns late.py\n")
    change(project, "late.py", "VALUE = 1", module)
    used = freshness.heard(package, uses, cell, time.time())
    change(project, "shapes.py", "Said of the area", "Told of the area")
    assert freshness.changed(package, used, cell, "") == (["shapes.py"] if asks else [])


@pytest.mark.parametrize(
    ("language", "before", "after", "same"),
    [
        ("py", "x = f(1,\n  2)  # one\n", "# said\nx = f(1, 2)\n", True),
        ("py", "class C:\n  x = 1\n  'Said.'\n", "class C:\n  x = 1\n", True),
        ("py", "x = 1\n", "x = 1.0\n", False),
        ("py", "x = None\n", "x = True\n", False),
        ("py", "if a:\n    x()\ny()\n", "if a:\n    x()\n    y()\n", False),
        ("py", 'x = f("""a\n\nb""")\n', 'x = f("""a\nb""")\n', False),
        ("py", 'x = f(f"{ä}  # {1:>{2}}")\n', 'x = f(f"{ä} # {1:>{2}}")\n', False),
        ("py", "def f(*, a, b=1): pass\n", "def f(*, a=1, b): pass\n", False),
        ("py", "def f(a: int): pass\n", "def f(a: str): pass\n", False),
        ("js", "// said\na(1);\n", "// told\n// more\na(1);\n", True),
        ("js", "a(/* said */ 1);\n", "a( 1);\n", True),
        ("js", "return /* said\n */ a;", "return a;", False),  # after the end of the line, it returns nothing
        ("js", "a(`x \n\n${b}\n\n${c}`);\n", "a(`x \n\n${b}\n${c}`);\n", False),
        ("js", "a(/[/*]/, '// 1');\n", "a(/[/*]/, '// 2');\n", False),
        ("css", 'b { c: "/* said */" }\n', 'b { c: "/* told */" }\n', False),
        ("css", "b { c: url(x//y) }\n", "b { c: url(x//z) }\n", False),
    ],
)
def test_comments_docstrings_and_layout_do_not_count(language, before, after, same):
    def code(source):
        return freshness.code_of(source) if language == "py" else freshness.without_comments(source, language)

    assert (code(before) == code(after)) == same


def test_a_notebook_is_stored_only_if_its_outputs_differ(project, capsys, monkeypatch):
    notebook, record = notebooks.pairs(project)[0][1], project / freshness.RECORD
    before, then, known = notebook.read_bytes(), notebook.stat().st_mtime_ns, record.read_text()
    change(project, "shapes.py", "width=2, height=3", "width=3, height=2")
    assert notebooks.main([], project) == 0
    assert "executing" in capsys.readouterr().out
    assert (notebook.read_bytes(), notebook.stat().st_mtime_ns) == (before, then)
    assert record.read_text() != known
    assert notebooks.main([], project) == 0
    assert "executing" not in capsys.readouterr().out
    change(project, "shapes.py", "a frame", "the frame")
    assert notebooks.main([], project) == 0
    assert b"the frame" in notebook.read_bytes()
    assert condition(project) == "fresh"
    monkeypatch.setattr(freshness, "outputs", lambda _: "the same")
    change(project, "shapes.py", "the frame", "another frame")
    assert notebooks.main([], project) == 0
    assert b"the frame" in notebook.read_bytes()


def test_code_that_was_merged_and_not_executed_is_stale(project):
    text, notebook = notebooks.pairs(project)[0]
    text.write_text(text.read_text(encoding="utf-8").replace("shapes.area()", "shapes.area(1)"), "utf-8")
    notebooks.reword(text, notebook)  # what merging the cells leaves
    assert condition(project) == "cells changed"


def test_outputs_do_not_differ_by_comments_in_the_code_of_views():
    def notebook(name, source, shown):
        module = {"state": {"name": "a", "source": source, "style": ""}}
        view = {"state": {"_esm": source, "_modules": [f"anywidget:{name}"], "shown": shown}}
        states = {"application/vnd.jupyter.widget-state+json": {"state": {name: module, "view": view}}}
        cells = [nbformat.v4.new_code_cell("1"), nbformat.v4.new_markdown_cell("Words")]
        return nbformat.v4.new_notebook(metadata={"widgets": states}, cells=cells)

    stored = freshness.outputs(notebook("0" * 32, "// said\nf(1);", "// said"))
    assert freshness.outputs(notebook("1" * 32, "// told\nf(1);", "// said")) == stored
    assert freshness.outputs(notebook("1" * 32, "// told\nf(2);", "// said")) != stored
    assert freshness.outputs(notebook("1" * 32, "// told\nf(1);", "// told")) != stored


def test_what_two_branches_executed_is_stale_once_they_meet(project):
    """Without a conflict, and also if each of the hashes is right: nobody has executed both changes together."""

    def git(*arguments):
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=b", *arguments], cwd=project, check=True
        )

    shutil.copy(notebooks.ROOT / ".gitattributes", project)
    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-qm", "both")
    for branch, file in [("one", "deep.py"), ("other", "late.py")]:
        git("checkout", "-qb", branch, "main")
        change(project, file, "1", "1 + 0")
        assert notebooks.main([], project) == 0
        git("commit", "-qam", branch)
    git("merge", "-q", "one")
    assert condition(project) == "executed in two branches, and not since they met"
    assert notebooks.main([], project) == 0
    assert notebooks.main(["--check"], project) == 0
