"""Tests patterns for lines of Python: layout does not matter, `...` matches anything, and the rest stays as it was."""

import pytest

from glassformer.bugs.pattern import nearest, rewrite

SOURCE = '''
def forward(self, x, kept=None):
    """Maps x: é × 2."""
    y = self.first(  # é: a column is not a byte
        x,
        kept,
    )
    if "a" == x:
        z = y + self.second(y, kept=kept, **x)  # stays
    return x[..., 0] + (
        y
        - z
    )
'''


@pytest.mark.parametrize(
    ("right", "wrong", "before", "after"),
    [
        # however it is set
        ("y - z", "z - y", "y\n        - z", "z - y"),
        ("x=='a'", "False", "", None),  # the other way round is another line
        ("'a'==x", "False", '"a" == x', "False"),
        (
            "self.first(x,kept)",
            "x",
            "self.first(  # é: a column is not a byte\n        x,\n        kept,\n    )",
            "x",
        ),
        # an open end takes arguments of all kinds, or none
        (
            "y = self.first(...)",
            "y = self.other(...)",
            "self.first(  # é: a column is not a byte\n        x,\n        kept,\n    )",
            "self.other(x,\n        kept)",
        ),
        ("self.second(y, ...)", "third(0 * y, ...)", "self.second(y, kept", "third(0 * y, kept"),
        ("y + self.second(...)", "self.second(...)", "y + self", "self"),
        ("self.second(y, ..., ...)", "x", "", None),
        ("self.second(y, z, ...)", "x", "", None),
        ("self.second(y, kept=..., **x)", "f(...)", "self.second(y, kept=kept, **x)", "f(kept)"),
        # elsewhere it is one expression, and an ellipsis is one too
        (
            "... + self.second(...)",
            "g(..., ...)",
            "y + self.second(y, kept=kept, **x)",
            "g(y, y, kept=kept, **x)",
        ),
        ("x[..., 0]", "x[..., 1]", "x[..., 0]", "x[..., 1]"),
        ("y - ...", "... - y", "y\n        - z", "z - y"),
        # statements: left out, or several in place of one, as deep as it was
        ("z = y + ...", "", "z = y + self.second(y, kept=kept, **x)", "pass"),
        (
            "z = ...",
            "z = ...\nif z:\n    z = 0",
            "z = y + self.second(y, kept=kept, **x)",
            "z = y + self.second(y, kept=kept, **x)\n        if z:\n            z = 0",
        ),
        # read or written, a name is a name
        ("z", "w", "z", "w"),
        ("nowhere", "here", "", None),
    ],
)
def test_what_is_written_instead(right, wrong, before, after):
    if after is None:
        assert rewrite(SOURCE, right, wrong) is None
    else:
        assert before in SOURCE
        assert rewrite(SOURCE, right, wrong) == SOURCE.replace(before, after)


def test_no_arguments_are_arguments_too():
    assert rewrite("f()", "f(...)", "g(...)") == "g()"


def test_what_is_in_a_match_is_not_looked_at_again():
    assert rewrite("f(f(x))", "f(...)", "g(...)") == "g(f(x))"


@pytest.mark.parametrize(
    ("right", "line"),
    [
        ("y = self.first(x)", "y = self.first(x, kept)"),
        ("if x == 'b':\n    pass", "if 'a' == x:"),
        ("return y - z", "return x[..., 0] + (y - z)"),
    ],
)
def test_the_nearest_line(right, line):
    assert nearest(SOURCE, right) == line


@pytest.mark.parametrize("right", ["", "x\ny", "x +"])
def test_a_pattern_is_one_expression_or_statement(right):
    with pytest.raises((ValueError, SyntaxError)):
        rewrite(SOURCE, right, "x")
