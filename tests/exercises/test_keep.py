"""Tests the reader's own file: what `keep` writes, and that it never loses a line that the reader wrote."""

import ast
import dataclasses
import math
import os
import subprocess
import sys
import textwrap
from dataclasses import replace

import pytest
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

from glassformer.exercises import check, commands, keep, mine, own_file
from glassformer.exercises.catalogue import find
from glassformer.exercises.exercise import Exercise
from glassformer.exercises.own_file import ENVIRONMENT, NEW
from glassformer.exercises.source import imports_in, names_used


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    """Returns a notebook's shell, but not IPython's global one, so no other test seems to run in a notebook."""
    quiet = Config()
    quiet.HistoryManager.enabled = False
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "__main__", sys.modules["__main__"])  # which a shell replaces
        yield InteractiveShell(config=quiet, ipython_dir=str(tmp_path_factory.mktemp("ipython")))


@pytest.fixture(autouse=True)
def own(tmp_path, monkeypatch):
    """Returns the path of the reader's file, which does not exist yet."""
    path = tmp_path / "notebooks" / "my_transformer.py"
    monkeypatch.setenv(ENVIRONMENT, str(path))
    monkeypatch.setattr(commands, "_accepted", {})
    yield path
    sys.modules.pop("my_transformer", None)


@pytest.fixture
def cell(shell, monkeypatch):
    """Runs a cell in a notebook of its own, and returns the last function that it defines, accepted by `check`."""
    # An exercise without a check: whatever the file has is right.
    lenient = Exercise(dataclasses.replace(find("positions.rotary").prose, slips={}), lambda x: x)
    monkeypatch.setattr(commands, "find", lambda name: lenient if name == "test" else find(name))
    shell.user_ns.clear()
    shell.user_ns["__name__"] = "__main__"
    shell.init_user_ns()

    def run(source, accept=True):
        source = textwrap.dedent(source).strip("\n")
        shell.run_cell(source, store_history=True).raise_error()
        names = [node.name for node in ast.parse(source).body if hasattr(node, "name")]
        function = shell.user_ns[names[-1]] if names else None
        if function is not None and accept:
            commands._accepted["test"] = function, 5.0
        return function

    return run


@pytest.fixture
def file(own):
    """Writes the reader's file."""

    def write(text, **options):
        own.parent.mkdir(exist_ok=True)
        data = textwrap.dedent(text).lstrip("\n") if isinstance(text, str) else text
        own.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8"))
        return own.read_bytes()

    return write


def told(shown):
    """Returns the last panel as text."""
    return repr(shown[-1])


# What is written


def test_the_first_function_makes_the_file(cell, own, shown):
    keep(cell("def one(x):\n    return x  # as it is\n"))
    assert own.read_text() == NEW + "\n\ndef one(x):\n    return x  # as it is\n"
    assert shown[-1].headline == f"`one` is now in `{own}`"
    assert "`from my_transformer import one`" in shown[-1].lines[-1][1]


@pytest.mark.parametrize(
    ("folder", "link"), [("", "my_transformer.py"), ("exercises", "../my_transformer.py")]
)
def test_the_file_that_was_written_is_a_link_from_the_notebooks(own, cell, shown, monkeypatch, folder, link):
    monkeypatch.delenv(ENVIRONMENT)
    (own.parent / folder).mkdir(parents=True)
    monkeypatch.chdir(own.parent / folder)
    keep(cell("def one(x):\n    return x"))
    assert own.exists()
    assert f' is now in <a href="{link}">{link}</a></strong>' in shown[-1]._repr_html_()


def test_a_second_function_goes_below_with_what_it_needs(cell, own, shown):
    keep(cell("def one(x):\n    return x"))
    cell(
        "import math\nimport numpy as np\nfrom numpy.linalg import norm as length\nBASE = 10_000.0\nUNUSED = 1"
    )
    cell("def helper(x):\n    return np.abs(x) ** BASE")
    keep(
        cell(
            "# This is mine.\ndef two(x, base=BASE):\n    return helper(x) + math.pi * base * np.pi + length(x)"
        )
    )
    assert own.read_text() == NEW + textwrap.dedent(
        """
        import numpy as np
        from numpy.linalg import norm as length
        import math


        def one(x):
            return x


        BASE = 10000.0


        def helper(x):
            return np.abs(x) ** BASE


        # This is mine.
        def two(x, base=BASE):
            return helper(x) + math.pi * base * np.pi + length(x)
        """
    )
    assert "BASE`, `helper`" in shown[-1].lines[0][1]
    assert own_file.load().two(0.0) == pytest.approx(math.pi**2 * 1e4)


def test_imports_are_merged_and_none_is_written_twice(cell, file, own, shown):
    before = file(
        '''
        """Mine."""
        import os, math
        from numpy import (
            linalg,
        )
        import numpy

        X = math.pi
        '''
    )
    cell(
        "import math\nimport numpy\nimport numpy as np\nfrom numpy import linalg\nimport xml.etree.ElementTree"
    )
    keep(cell("def f(x):\n    return math, numpy, np, linalg, xml.etree.ElementTree"))
    added = b"import numpy as np\nimport xml.etree.ElementTree\n"
    head, tail = before.split(b"import numpy\n")
    assert own.read_bytes().startswith(head + b"import numpy\n" + added + tail)
    assert own_file.trouble() == ""


def test_a_class_and_what_is_decorated_and_what_was_typed_again(cell, own, shown):
    cell(
        "import functools\ndef loud(f):\n    @functools.wraps(f)\n    def g(*a):\n        return f(*a)\n    return g"
    )
    cell("def twice(x):\n    return 1", accept=False)
    keep(cell("@loud\ndef twice(x):\n    return 2"))
    assert own_file.load().twice(0) == 2
    keep(cell("class Layer:\n    size = 3\n\n    def forward(self, x):\n        return twice(x) + self.size"))
    assert own_file.load().Layer().forward(0) == 5
    text = own.read_text()
    assert text.count("def twice") == text.count("def loud") == 1
    assert text.index("import functools") < text.index("def loud") < text.index("@loud\ndef twice")


def test_functions_that_call_each_other_come_along_once(cell, own):
    cell("def odd(n):\n    return n > 0 and even(n - 1)")
    keep(cell("def even(n):\n    return n == 0 or odd(n - 1)"))
    assert own.read_text().count("def ") == 2
    assert own_file.load().even(10)


def test_a_class_that_has_no_method_of_its_own_comes_along(cell, own, shown):
    cell("class Pair:\n    pass")
    cell("from dataclasses import dataclass\nimport enum")
    cell("# Two numbers.\n@dataclass\nclass Pair:\n    a: int\n    b: int = 2")
    cell("class Side(enum.Enum):\n    LEFT = 3")
    keep(cell("def f(x):\n    return Pair(x), Side.LEFT"))
    assert shown[-1].mood == "good", told(shown)
    pair, side = own_file.load().f(1)
    assert (pair.a, pair.b, side.value) == (1, 2, 3)
    assert (
        own.read_text().count("# Two numbers.\n@dataclass\nclass Pair:")
        == own.read_text().count("Pair:")
        == 1
    )


# Replacing


def test_another_of_that_name_is_shown_first_and_replaced_when_told(cell, file, own, shown):
    before = file(
        "# top\nimport math\n\n\ndef f(x):\n    return math.pi  # old\n\n# below\ndef g():\n    return f(1)\n"
    )
    new = cell("def f(x):\n    y = x\n    return y")
    keep(new)
    assert own.read_bytes() == before
    assert "a different `f`; nothing was written" in shown[-1].headline
    assert "-    return math.pi  # old" in shown[-1].code
    assert "keep(f, replace=True)" in told(shown)
    keep(new, replace=True)
    assert own.read_bytes() == before.replace(b"    return math.pi  # old", b"    y = x\n    return y")
    assert (own.parent / "my_transformer_old" / "001.py").read_bytes() == before
    assert "my_transformer_old/001.py" in told(shown)
    assert "+    y = x" in shown[-1].code
    second = own.read_bytes()
    keep(cell("def f(x):\n    return 3"), replace=True)
    assert (own.parent / "my_transformer_old" / "001.py").read_bytes() == before
    assert (own.parent / "my_transformer_old" / "002.py").read_bytes() == second


def test_the_same_function_again_changes_nothing(cell, file, own, shown):
    f = cell("def f(x):\n    return x")
    keep(f)
    edited = file(own.read_text().replace("return x", "return  x  # as I like it"))
    keep(f)
    keep(f, replace=True)
    assert own.read_bytes() == edited
    assert "already has this `f`" in shown[-1].headline
    assert not (own.parent / "my_transformer_old").exists()


def test_a_new_helper_stands_above_the_function_that_needs_it(cell, file, own):
    file("def f(x):\n    return x\n\n\nY = f(1)")
    cell("def deco(f):\n    return f")
    keep(cell("import functools\n@functools.lru_cache\ndef f(x, y=deco(3)):\n    return y"), replace=True)
    assert own.read_text() == (
        "import functools\n\ndef deco(f):\n    return f\n\n\n@functools.lru_cache\ndef f(x, y=deco(3)):\n"
        "    return y\n\n\nY = f(1)"
    )


def test_a_helper_that_others_use_is_not_changed_under_them(cell, file, own, shown):
    before = file("def helper(x):\n    return 1\n\n\ndef g(x):\n    return helper(x)\n")
    cell("def helper(x):\n    return 2")
    keep(cell("def f(x):\n    return helper(x)"), replace=True)
    assert own.read_bytes() == before
    assert "another `helper`, which `g` uses" in told(shown)


# The book's function, until the reader has written it


def test_the_readers_own_takes_the_place_of_the_books(cell, file, own, shown):
    cell("import numpy as np\nfrom glassformer.scratch.attention import softmax")
    keep(cell("def f(x):\n    return softmax(np.zeros(x))"))
    assert "from glassformer.scratch.attention import softmax\n" in own.read_text()
    mine = cell("def softmax(x):\n    return x + 1")
    keep(mine)
    assert shown[-1].mood == "good", told(shown)
    assert "It replaces `from glassformer.scratch.attention import softmax`" in told(shown)
    assert own.read_text() == NEW + (
        "\nimport numpy as np\n\n\ndef f(x):\n    return softmax(np.zeros(x))\n\n\n"
        "def softmax(x):\n    return x + 1\n"
    )
    assert own_file.load().f(2).tolist() == [1, 1]
    keep(mine)
    assert "already has this `softmax`" in shown[-1].headline


@pytest.mark.parametrize(
    "before",
    [
        "from scipy.special import softmax\n",
        "from glassformer.scratch.attention import softmax  # I like it\n",
        "from glassformer.scratch.attention import softmax\nsoftmax = max\n",
        "from glassformer.scratch.attention import causal_mask, softmax\n",
    ],
)
def test_what_is_not_the_books_alone_stays(before, cell, file, own, shown):
    data = file(before)
    keep(cell("def softmax(x):\n    return x"))
    assert own.read_bytes() == data
    assert "`softmax`" in told(shown)
    assert shown[-1].mood == "bad" or "another `softmax`" in shown[-1].headline


# The reader's own lines


ODD_FILES = {
    "CRLF": b'"""Mine."""\r\nimport math\r\n\r\nX = """a\r\nb"""\r\n',
    "a form feed": b'"""a\x0cb"""\nimport math\nX = 1\n\x0c\n# end\n',
    "no newline at the end": "X = 'größer'\n\n\n# the end".encode(),
    "a byte order mark": b"\xef\xbb\xbfX = 1\n",
    "nothing": b"",
    "a comment": b"# soon\n",
    "semicolons and spaces": b"import os; X = 1; Y = 2  \n\t\n\n\n\n\n",
}


@pytest.mark.parametrize("data", ODD_FILES.values(), ids=ODD_FILES)
def test_every_line_of_the_reader_survives_to_the_byte(data, cell, file, own):
    file(data)
    cell("import math\nimport re")
    keep(cell('def f(θ):\n    return math, re, "größer"'))
    end = "\r\n" if b"\r\n" in data else "\n"
    assert own.read_bytes().startswith(b"\xef\xbb\xbf") == data.startswith(b"\xef\xbb\xbf")
    written = own.read_bytes().decode("utf-8-sig")
    for added in ("import math", "import re", "def f(θ):", '    return math, re, "größer"'):
        if added.encode() not in data:
            assert written.count(added + end) == 1
            written = written.replace(added + end, "")
    before = data.decode("utf-8-sig") + (end if data and not data.endswith(b"\n") else "")
    kept, there = ([line for line in text.split("\n") if line.strip()] for text in (written, before))
    assert kept == there
    assert own_file.load().f(0)[0].__name__ == "math"


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        (b"def f(:\n", "is not valid Python"),
        (b"\0", "is not valid Python"),
        ("# -*- coding: latin-1 -*-\nX = 'größer'\n".encode("latin-1"), "is encoded in iso-8859-1"),
    ],
)
def test_a_file_that_cannot_be_changed_is_not_touched(broken, says, cell, file, own, shown):
    before = file(broken)
    keep(cell("def f(x):\n    return x"), replace=True)
    assert own.read_bytes() == before
    assert says in told(shown)
    assert os.listdir(own.parent) == ["my_transformer.py"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("f = 3\n", 1),
        ("X = 1\nif True:\n    def f():\n        pass\n", 2),
        ("f, g = 1, 2\n", 1),
    ],
)
def test_a_name_that_stands_for_something_else_is_not_taken(text, line, cell, file, own, shown):
    before = file(text)
    keep(cell("def f(x):\n    return x"), replace=True)
    assert own.read_bytes() == before
    assert f"`f` means something else in my_transformer.py (line {line})" in told(shown)


def test_an_import_or_constant_whose_name_is_taken_is_not_hidden(cell, file, own, shown):
    before = file("import torch as np\n\n\ndef BASE():\n    pass\n")
    cell("import numpy as np\nBASE = 3")
    for source in ("def f(x):\n    return np", "def f(x):\n    return BASE"):
        keep(cell(source), replace=True)
        assert own.read_bytes() == before
        assert "means something else" in told(shown)


# What is no longer right in the file


ACCEPTED = """
import math
import numpy as np
BASE = 10_000
def rates(d_model, base):
    return base ** (np.arange(0, d_model, 2) / d_model)
def wavelengths(d_model, base=BASE):
    return 2 * math.pi * rates(d_model, base)
"""


@pytest.mark.parametrize(
    ("later", "before"),
    [
        ("BASE = 1", ""),
        ("def rates(d_model, base):\n    return np.arange(1, d_model, 2)", ""),
        ("", "BASE = 10000\nBASE += 1\n"),
    ],
    ids=["a constant set again", "a helper typed again", "a constant that the file changes"],
)
def test_what_is_not_the_accepted_function_in_the_file_is_said(later, before, cell, file, own, shown):
    if before:
        file(before)
    wavelengths = cell(ACCEPTED, accept=False)
    check("positions.wavelengths", wavelengths)
    cell(later, accept=False)
    keep(wavelengths)
    assert before in own.read_text()
    assert shown[-1].mood == "bad"
    wrong = shown[-1].lines[-2:]
    assert wrong[0][0] == "✗"
    assert wrong[0][1].startswith(
        "In the file, it is no longer right: wavelengths(8) should be [6.283, 62.83,"
    )
    keep(wavelengths)
    assert shown[-1].headline == "my_transformer.py already has this `wavelengths`"
    assert (shown[-1].mood, shown[-1].lines) == ("bad", wrong)
    if not before:  # what the sentence says to do mends it
        wavelengths = cell(ACCEPTED, accept=False)
        check("positions.wavelengths", wavelengths)
        keep(wavelengths, replace=True)
        assert shown[-1].mood == "good"
        assert own_file.load().wavelengths(2) == 2 * math.pi


# What cannot be saved


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("f = lambda x: x", "A lambda has no name"),
        ("f = print", "Only what was written with `def` or `class`"),
        ("exec('def f(x): return x')", "The source of `f` is not available"),
        ("if True:\n    def f(x):\n        return x", "without indentation"),
        ("def make():\n    def f(x):\n        return x\n    return f\nf = make()", "defined inside another function"),
        ("def deco(f):\n    def g(x):\n        return f\n    return g\n@deco\ndef f(x):\n    1", "functools.wraps"),
        ("x = object()\ndef f(y):\n    return x", "`f` uses `x` from this notebook (an object"),
        ("def f(y):\n    if y:\n        return nowhere", "`f` uses `nowhere`, which is not defined anywhere"),
        ("def g():\n    return table\ntable = {}\ndef f(y):\n    return g()", "`g` uses `table`"),
    ],
    ids=lambda value: value.splitlines()[0],
)  # fmt: skip
def test_what_no_file_can_hold_is_refused_in_words(source, says, cell, own, shown, shell):
    cell(source, accept=False)
    function = shell.user_ns["f"]
    commands._accepted["test"] = function, 5.0
    keep(function)
    assert says in told(shown)
    assert not own.exists()


def test_only_what_was_accepted_is_saved(cell, own, shown):
    keep(cell("def f(x):\n    return x", accept=False))
    assert "`check` has not accepted it since" in told(shown)
    keep(find("positions.rotary").reference)
    assert "This is the book's own function" in told(shown)
    for odd in (3, None, "positions.rotary", [len]):
        keep(odd)
        assert "expected your function, got" in told(shown)
    assert not own.exists()


def test_what_check_accepts_can_be_kept_and_nothing_else(cell, own, shown):
    cell("import math\nimport numpy as np")
    wrong = cell("def wavelengths(d_model, base=1e4):\n    return d_model", accept=False)
    assert keep(check("positions.wavelengths", wrong)) is keep(wrong)
    assert not own.exists()
    right = cell(
        "def wavelengths(d_model, base=1e4):\n"
        "    return 2 * math.pi * base ** (np.arange(0, d_model, 2) / d_model)",
        accept=False,
    )
    keep(check("positions.wavelengths", right))
    assert own_file.load().wavelengths(2) == 2 * math.pi
    keep(check("positions.wavelengths", wrong), replace=True)
    keep(wrong, replace=True)
    assert own_file.load().wavelengths(2) == 2 * math.pi


def test_a_disk_that_refuses_is_told(cell, own, shown):
    own.parent.write_text("in the way")
    keep(cell("def f(x):\n    return x"))
    assert "The file could not be written" in told(shown)


def test_what_the_file_lacks_to_be_imported_is_said(cell, file, own, shown):
    f = cell("def f(x):\n    return x")
    for text, says in (
        ("X = foo\n", "cannot be imported as it is now. NameError: name 'foo' is not defined (line 1)"),
        ("import nothing_of_that_name\n", "No module named 'nothing_of_that_name' (line 1)"),
        ("def g():\n    return foo, bar\n", "uses `bar`, `foo`, which it does not define"),
        ("raise SystemExit\n", "SystemExit"),
        ("@B\ndef g():\n    pass\n\n\ndef B(x):\n    return x\n", "name 'B' is not defined (line 1)"),
    ):
        file(text)
        keep(f)
        assert says in shown[-1].lines[-1][1]
        assert own.read_bytes().startswith(text.encode())  # and the function below it


# Crashes, and others at work


def test_two_processes_that_keep_at_once_lose_nothing(tmp_path, file, own):
    file("# mine\n")
    programs = []
    for name in "ab":
        lines = [
            "import os, time",
            "from glassformer.exercises import own_file",
            f"os.mkdir({str(tmp_path / name)!r})",
        ]
        lines += [
            f"while not all(map(os.path.exists, {[str(tmp_path / one) for one in 'ab']})):",
            "    time.sleep(0.001)",
        ]
        lines += [f"def {name}{n}(x):\n    return {n}" for n in range(12)]
        lines += [f"own_file.save({name}{n}, replace=False)" for n in range(12)]
        program = tmp_path / f"{name}.py"
        program.write_text("\n".join(lines))
        programs.append(subprocess.Popen([sys.executable, program], env=os.environ))
    assert [program.wait() for program in programs] == [0] * 2
    names = [node.name for node in ast.parse(own.read_text()).body]
    assert sorted(names) == sorted(f"{name}{n}" for name in "ab" for n in range(12))
    assert own.read_text().startswith("# mine\n")
    assert os.listdir(own.parent) == ["my_transformer.py"]


# Finding it again


def test_what_was_kept_is_imported_fresh_here_and_in_other_kernels(cell, own, monkeypatch):
    monkeypatch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
    for number in (1, 2):
        keep(cell(f"def f(x):\n    return {number}"), replace=True)
        from my_transformer import f

        assert f(0) == number
        os.utime(own, (1, 1))  # as if written within one second, and of one length
        other = [sys.executable, "-c", "from my_transformer import f; print(f(0))"]
        assert int(subprocess.run(other, cwd=own.parent, capture_output=True, check=True).stdout) == number


def test_mine_is_the_readers_own_or_the_books(cell, file, own, shown):
    book = find("positions.rotary").reference
    assert mine("positions.rotary") is book
    assert told(shown) == "rotary: the book's, until you keep yours in my_transformer.py"
    file("def rotary(x, base=1e4):\n    return 'mine'\n")
    assert mine("positions.rotary")(0) == "mine"
    assert told(shown) == "rotary: yours, from my_transformer.py"
    assert mine("positions.layout") is find("positions.layout").reference
    file("rotary = 3\n")
    assert mine("positions.rotary") is book
    file(f"from {book.__module__} import rotary\n")  # as it comes with what uses it
    assert mine("positions.rotary").__name__ == "rotary"
    assert told(shown) == "rotary: the book's, until you keep yours in my_transformer.py"
    for broken, says in (
        ("def (", "SyntaxError"),
        ("import nowhere_at_all\n", "No module named"),
        ("1 / 0", "line 1"),
    ):
        file(broken)
        assert mine("positions.rotary") is book
        assert says in told(shown)
    mine("positions.rotery")
    assert "no exercise called" in told(shown)


@pytest.mark.parametrize(
    "given",
    [
        ['rotary = mine("positions.rotary")', 'swiglu = mine("feedforward.swiglu")'],
        ['swiglu = mine("feedforward.swiglu")', 'rotary = mine("positions.rotary")'],
        ["from my_transformer import rotary, swiglu"],
    ],
    ids=["rotary first", "swiglu first", "imported"],
)
def test_what_uses_the_readers_own_is_kept_however_it_came(given, cell, file, own, shown, monkeypatch):
    """Each `mine` runs the file anew, and the names of the last run must be importable."""
    before = file("def rotary(x):\n    return x\n\n\ndef swiglu(x):\n    return 2 * x\n")
    monkeypatch.syspath_prepend(own.parent)
    cell("from glassformer.exercises import mine")
    for line in given:
        cell(line)
    keep(cell("def whole(x):\n    return rotary(swiglu(x))"))
    assert own.read_bytes() == before + b"\n\ndef whole(x):\n    return rotary(swiglu(x))\n", told(shown)


def test_an_exercise_says_when_what_it_builds_on_is_not_right(file, shown, monkeypatch):
    rotary = find("positions.rotary")
    standing = replace(rotary, prose=replace(rotary.prose, builds_on=("positions.wavelengths",)))
    monkeypatch.setattr(commands, "find", lambda name: standing if name == "positions.rotary" else find(name))

    def about_wavelengths(answer):
        check("positions.rotary", answer)
        return [line for _, line in shown[-1].lines if "wavelengths" in line]

    def wrong(x, base=1e4):
        return -x

    assert not about_wavelengths(wrong)
    file("import math\n\n\ndef wavelengths(d_model, base=1e4):\n    return [2 * math.pi]\n")
    (said,) = about_wavelengths(wrong)
    assert said.startswith(
        "It builds on `wavelengths` (yours, from my_transformer.py), which is not right. Try `check("
    )
    assert not about_wavelengths(rotary.reference)
    file("from glassformer.chapters.ch04.judges.wavelengths import wavelengths\n")
    assert not about_wavelengths(wrong)


def test_a_file_that_never_ends_is_given_up(file, shown, monkeypatch):
    monkeypatch.setattr(own_file, "SECONDS", 0.2)
    file("while True:\n    pass\n")
    assert mine("positions.rotary") is find("positions.rotary").reference
    assert "still running after 0.2 s" in told(shown)


def test_it_lies_in_the_notebooks_folder_whichever_notebook_is_open(tmp_path, monkeypatch):
    monkeypatch.delenv(ENVIRONMENT)
    practice = tmp_path / "notebooks" / "exercises"
    practice.mkdir(parents=True)
    monkeypatch.setattr(sys, "path", list(sys.path))
    for folder, where in (
        (practice, practice.parent),
        (practice.parent, practice.parent),
        (tmp_path, tmp_path),
    ):
        monkeypatch.chdir(folder)
        assert own_file.own_path() == where / "my_transformer.py"
        before = list(sys.path)
        own_file.within_reach()
        own_file.within_reach()
        assert sys.path == before + ([str(practice.parent)] if folder is practice else [])
        sys.path[:] = before


# Names


def test_the_names_that_code_uses():
    code = """
@deco
def f(x, y=default, *, z: note = 1) -> result:
    global counter
    counter += 1
    inner = [a for a in x if b]
    def g(q):
        nonlocal inner
        return inner, q, h, len
    class C(base):
        attribute = x.other
    return lambda t: t + u
"""
    assert names_used(code) == {"deco", "default", "note", "result", "counter", "b", "h", "len", "base", "u"}


def test_an_import_is_written_as_python_reads_it():
    for said in (
        "import a",
        "import a.b",
        "import a as b",
        "import a.b as c",
        "from a.b import c",
        "from a import b as c",
    ):
        (node,) = ast.parse(said).body
        (one,) = imports_in([node])
        assert str(one) == said
