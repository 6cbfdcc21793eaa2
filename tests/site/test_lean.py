"""Tests which rules of a stylesheet stay."""

import pytest

from tools.extensions.unused_css import lean

WORDS = {"card", "open", "nav"}


@pytest.mark.parametrize(
    ("sheet", "kept"),
    [
        (".card{a:b}.tooltip{a:b}", ".card{a:b}"),
        (".card .tooltip{a:b}", ""),
        (".tooltip,.card>p,#nav{a:b}", ".card>p,#nav{a:b}"),
        (".card:not(.tooltip){a:b}", ".card:not(.tooltip){a:b}"),
        (".nav:is(.open,.tooltip:not(.x)){a:b}", ".nav:is(.open,.tooltip:not(.x)){a:b}"),
        ("p,a:hover{a:b}", "p,a:hover{a:b}"),
        ("@media print{.card{a:b}.tooltip{a:b}}", "@media print{.card{a:b}}"),
        ("@media print{.tooltip{a:b}}", ""),
        ("@keyframes turn{to{a:b}}", "@keyframes turn{to{a:b}}"),
        ("@font-face{src:url(x)}", "@font-face{src:url(x)}"),
    ],
)
def test_a_rule_stays_if_something_may_need_it(sheet, kept):
    assert lean(sheet, WORDS) == kept
