"""Tests what becomes of formulas where MathML Core, TeX and the converter differ."""

import re

import pytest

from tools.extensions.formulas import mathml

THIN = '<mspace width="0.167em"></mspace>'


@pytest.mark.parametrize(
    ("tex", "has"),
    [
        (r"\operatorname{softmax}(x)", "<mi>softmax</mi><mo"),  # a word, with no space before the parenthesis
        (r"P\operatorname{softmax}(S)", f"<mi>P</mi>{THIN}<mi>softmax</mi>"),
        (r"\operatorname{gelu\_tanh}(x)", "<mi>gelu_tanh</mi>"),
        (r"\mathrm{PE}(p)", "<mi>PE</mi>"),
        (r"\mathtt{max\_distance}", "<mi>max_distance</mi>"),
        (r"2\ln p", f"<mn>2</mn>{THIN}<mi>ln</mi>{THIN}<mi>p</mi>"),
        (r"\ln^2 Z", f"</msup>{THIN}<mi>Z</mi>"),
        (r"\cos(a)", "<mi>cos</mi><mo"),
        (r"\ln \frac{a}{b}", f"<mi>ln</mi>{THIN}<mfrac>"),
        (r"a = -b", '<mo form="prefix">−</mo><mi>b</mi>'),
        (r"(-b)", '<mo form="prefix">−</mo><mi>b</mi>'),
        (r"(a) - b", "<mo>−</mo>"),
        (r"e^{a-b}", '<mo lspace="0" rspace="0">−</mo>'),
        (r"a/b", '<mo lspace="0" rspace="0" stretchy="false">/</mo>'),
        (r"4{,}096", '<mo lspace="0" rspace="0">,</mo>'),
        (r"(a, b)", "<mo>,</mo>"),
        (r"-\infty", "<mi>∞</mi>"),
        (r"\Phi", '<mi mathvariant="normal">Φ</mi>'),
        (r"a \odot b", '<mo largeop="false">⊙</mo>'),
        (r"a \otimes b", '<mo largeop="false">⊗</mo>'),
        (r"\overline{g}", '<mover><mrow class="over">'),
        (r"\text{for every } p", "<mi>for\xa0every\xa0</mi>"),
    ],
)
def test_a_formula_in_a_line(tex, has):
    found = mathml(tex)
    assert found.startswith("<math><mrow>")
    assert has in found


def test_nothing_is_pulled_together():
    assert "mspace" not in mathml(r"\tanh\!\left(x\right)")


def test_a_formula_on_a_line_of_its_own():
    assert mathml(r"\sum_i x_i", display=True).startswith(
        '<math displaystyle="true"><mrow><munder><mo>∑</mo>'
    )
    assert "<munder><mi>max</mi>" in mathml(r"\max_i x_i", display=True)
    assert "<msub><mi>max</mi>" in mathml(r"\max_i x_i")


def test_equations_below_each_other():
    found = mathml(r"\begin{aligned} a &= b \\[1ex] c &= d \end{aligned}", display=True)
    assert 'class="aligned"' in found
    assert [len(re.findall("<mtd>", row)) for row in found.split("<mtr>")[1:]] == [2, 2]
    assert "class" not in mathml(r"\begin{pmatrix} a & b \\ c & d \end{pmatrix}")


@pytest.mark.parametrize("tex", [r"\nosuchcommand{x}", r"a & b"])
def test_what_is_not_converted_is_an_error(tex):
    with pytest.raises(ValueError, match="not converted"):
        mathml(tex)
