"""Tests that a bar is visible while it is needed, and leaves nothing in a notebook's output."""

import sys
from types import SimpleNamespace

import pytest

from glassformer.progress import bar


def shown(capsys):
    assert list(bar(range(3), mininterval=0)) == [0, 1, 2]
    return capsys.readouterr()


def test_in_a_notebook_it_is_printed_and_goes(capsys, monkeypatch):
    monkeypatch.setattr("IPython.get_ipython", lambda: SimpleNamespace(kernel=object()))
    out, err = shown(capsys)
    assert "2/3" in out
    assert out.endswith("\r")
    assert out.split("\r")[-2].isspace()
    assert err == ""


def test_elsewhere_it_stays_and_is_no_output(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "ipykernel", object())  # imported by somebody, and no kernel
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    out, err = shown(capsys)
    assert "3/3" in err
    assert out == ""


def test_a_log_gets_the_lines_and_no_bar(capsys):
    for _ in (made := bar(range(2), mininterval=0)):
        made.write("one of two")
    assert capsys.readouterr() == ("one of two\none of two\n", "")


def test_it_takes_what_tqdm_takes(capsys):
    with bar(total=5, unit="step") as made:
        made.update(4)
    assert made.n == 4
    with pytest.raises(KeyError):
        bar(range(3), no_option=1)
