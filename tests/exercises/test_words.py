"""Tests how a difference is described, and how small a difference may be."""

import contextvars
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
import torch

from glassformer.exercises.expect import (
    Wrong,
    expect,
    expect_error,
    expect_parts,
    expect_row,
    gather_remarks,
    place,
    show,
)


def said(*args, **kwargs):
    with pytest.raises(Wrong) as caught:
        expect(*args, **kwargs)
    return str(caught.value)


def test_a_small_array_is_shown_whole():
    assert said(np.array([0.0, 1.5]), [1.0, 1.5], "row 0") == "row 0 should be [1, 1.5]; yours is [0, 1.5]."


def test_two_short_rows_of_other_lengths_are_shown_whole():
    assert said([9, 9], [9, 3, 9], "it") == "it should be [9, 3, 9]; yours is [9, 9]."
    assert said([9, 9], [9, 3, 9], "it", axes="T") == "it should have shape (T) = (3,); yours has shape (2,)."
    assert said(np.ones(9), np.ones(3), "it") == "it should have shape (3,); yours has shape (9,)."


def test_of_a_large_array_the_first_difference_is_named_by_its_axes():
    want = np.arange(20.0).reshape(4, 5)
    got = want.copy()
    got[2, 3] = got[3, 0] = -1
    assert (
        said(got, want, "the table", axes="T D")
        == "the table: [t=2, d=3] should be 13; yours is -1 (2 of 20 numbers differ)."
    )
    assert "[2, 3] should be" in said(got, want, "the table")


def test_zeros_everywhere_are_said_to_be_that():
    want = np.arange(1.0, 21.0).reshape(4, 5)
    assert said(np.zeros((4, 5)), want, "it") == "it should not be zero everywhere: [0, 0] should be 1."


def test_numbers_get_the_digits_it_takes_to_tell_them_apart():
    assert said(1.00002, 1.0, "it") == "it should be 1; yours is 1.00002."
    assert said(np.float64(1 + 2e-6), 1.0, "it") == "it should be 1; yours is 1.000002."


def test_what_the_right_value_is_can_be_said():
    assert said(0.5, 1.0, "it", being="sin 90°") == "it should be sin 90°, 1; yours is 0.5."
    big = np.arange(1.0, 10.0)
    assert said(-big, big, "it", being="rising").startswith(
        "it should be rising: [0] should be 1; yours is -1"
    )
    assert said(0.5, 1.0, "it", advice="Try again.") == "it should be 1; yours is 0.5. Try again."


def test_two_failures_are_alike_at_the_same_place_over_the_same_value():
    def failure(got, what="it"):
        with pytest.raises(Wrong) as caught:
            expect(got, [1.0, 2.0], what)
        return caught.value

    one = failure(np.array([2.0, 1.0]))
    assert one.like(failure(np.array([2.0, 1.0 + 1e-12])))
    assert one.like(failure(np.array([2, 1])))
    assert one.like(failure(np.array([2.0, 1.0], dtype=np.float32)))
    assert not one.like(failure(np.array([2.0, 1.0 + 1e-5])))
    assert not one.like(failure(np.array([2.0, 1.0]), "something else"))
    assert not one.like(failure(np.array([[2.0, 1.0]])))
    assert one.like(failure([2.0, 1.0]))
    assert not one.like(failure(["2.0", "1.0"]))
    assert not Wrong("no place").like(Wrong("no place"))


def test_one_row_of_an_array():
    table = np.array([[1.0, 2.0], [3.0, 4.0]])
    expect_row(table, 1, [3.0, 4.0], "it", axes="T D")
    with pytest.raises(Wrong, match=r"^row 1 of it should be \[3, 5\]; yours is \[3, 4\]\.$"):
        expect_row(table, 1, [3.0, 5.0], "it")
    for odd in (table[0], table[:1], np.zeros((2, 2, 2))):
        with pytest.raises(Wrong, match="so it has no row 1 of 2 numbers"):
            expect_row(odd, 1, [3.0, 4.0], "it")


def test_a_dictionary_is_compared_name_by_name():
    want = {"W": [1.0, 2.0], "b": 0.5}
    expect({"b": np.float64(0.5), "W": [1, 2]}, want, "it")
    for got, message in (
        ([1.0], "it should be a dictionary with an array for each name; yours is a list, [1.0]."),
        ({"W": [1.0, 2.0], "B": 0.5}, "it: there is nothing under 'b'; your names are ['B', 'W']."),
        (want | {"c": 0.0}, "it: 'c' is none of its names."),
        ({"W": [1.0, 3.0], "b": 0.5}, "it under 'W' should be [1, 2]; yours is [1, 3]."),
    ):
        assert said(got, want, "it") == message


REMARK = (
    "Your answer is right to seven digits rather than sixteen: some step uses float32, a rounded constant "
    "or finite differences."
)


def told(got, want):
    """Returns the remarks about a value that is right."""
    sentences = gather_remarks()
    expect(got, want, "it")
    expect(got, want, "it")
    return sentences


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.longdouble])
def test_the_tolerance_is_that_of_what_was_reached_whatever_the_dtype_says(dtype):
    want = np.array([1.0, 0.5])
    assert told((want + np.array([0, 9e-7])).astype(dtype), want) == [REMARK]
    said((want + np.array([0, 1.2e-6])).astype(dtype), want, "it")
    assert told(want.astype(dtype), want) == []


def test_sixteen_digits_are_ten_here():
    assert told(np.array([1 + 9e-11]), [1.0]) == []
    assert told(np.array([1 + 2e-10]), [1.0]) == [REMARK]


def test_the_tolerance_grows_with_the_largest_number_and_never_falls_below_that_for_one():
    assert told(np.array([1000.0 + 9e-4]), [1000.0]) == [REMARK]
    said(np.array([1000.0 + 2e-3]), [1000.0], "it")
    assert told(np.array([9e-7]), [0.0]) == [REMARK]
    said(np.array([2e-6]), [0.0], "it")


def test_a_remark_without_anyone_to_hear_it_is_no_fault():
    contextvars.Context().run(expect, 1 + 1e-8, 1.0, "it")


def test_whole_numbers_are_exact_and_must_be_whole():
    expect(np.int32(5), 5, "it")
    expect(124_439_808, 124_439_808, "it")
    assert said(124_439_807, 124_439_808, "it") == "it should be 124439808; yours is 124439807."
    large = 1_557_611_200
    for rounded in (np.float32(large), int(np.float32(large))):
        assert said(rounded, large, "it").endswith(
            "float32 cannot hold a whole number this large exactly. Compute with ints, and return ints."
        )
        assert "float32" not in said(rounded + 64 * 128, large, "it")
    assert (
        said(5.0, 5, "it")
        == "it has the right value, but it is a float. Convert it with `int(…)`, or divide with `//`."
    )
    assert said(6.0, 5, "it") == "it should be 5; yours is 6."
    assert said(5 + 1e-9, 5, "it") == "it should be 5; yours is 5.000000001."
    floats = np.array([5.0, 6.0], dtype=np.float32)
    assert (
        said(floats, [5, 6], "it")
        == "it has the right values, but their dtype is float32. Add `.astype(int)`."
    )
    assert "should be a whole number (int); yours is bool True" in said(True, 1, "it")
    assert said(10**5000, 5, "it") == "it is too large: your whole number does not fit into 64 bits."
    assert said({10**5000}, 5, "it") == "it should be a single number; yours is a set that cannot be printed."


def test_numbers_are_numbers_however_they_are_wrapped():
    for one in (Fraction(1, 2), Decimal("0.5"), np.float32(0.5), np.array(0.5), torch.tensor(0.5)):
        expect(one, 0.5, "it")
        for wrap in (list, tuple):
            expect(wrap([one, 1]), [0.5, 1], "it")
            expect([wrap([one, one]), wrap([0, 1])], [[0.5, 0.5], [0, 1]], "it")
    expect(range(3), [0, 1, 2], "it")
    expect([], np.zeros(0), "it")
    expect(torch.tensor([0.5, 0], requires_grad=True), [0.5, 0], "it")
    expect(torch.tensor([0.5, 0]).to_sparse(), [0.5, 0], "it")
    with pytest.raises(Wrong, match=r"^it is a list whose rows differ in length\.$"):
        expect([[1, 2], [3]], [[1, 2], [3, 4]], "it")
    assert said([1, "2"], [1, 2], "it") == "it should be an array; yours is a list, [1, '2']."
    assert said([None] * 10**5, [1, 2], "it").startswith("it should be an array; yours is a list, [None")
    endless: list = []
    endless += [endless] * 50
    assert "should be an array; yours is a list" in said(endless, [1], "it")
    assert said([1.0], 1.0, "it") == "it should be a single number; yours has shape (1,)."


def test_truth_is_true_or_false_and_not_one_or_zero():
    expect(np.True_, True, "it")
    assert said(1, True, "it") == "it should be True or False; yours is 1. Return `bool(…)`."
    several = "it should be a single True or False; yours is an array of shape (2,)."
    assert said(np.array([True, False]), True, "it") == several
    assert said("yes", True, "it") == "it should be True or False; yours is a str, 'yes'."


def test_parts():
    assert expect_parts([1, 2], ("a", "b")) == (1, 2)
    assert expect_parts(np.array([3.0, 2.5]), ("a", "b")) == (3, 2.5)
    assert type(expect_parts(np.array([3.0, 2.5]), ("a", "b"))[0]) is int
    assert type(expect_parts((3.0, 2.5), ("a", "b"))[0]) is float
    for got in (1, (1,), (1, 2, 3), np.zeros(3), np.array(2.0), "ab"):
        with pytest.raises(Wrong, match=r"should return 2 things, \(a, b\); yours returned"):
            expect_parts(got, ("a", "b"))
    with pytest.raises(Wrong, match=r"yours returned one number\.$"):
        expect_parts(np.array(2.0), ("a", "b"))


def test_an_expected_error():
    def no(error):
        raise error

    expect_error(lambda: no(ValueError("12 > 10")), "it", names=(12, 10))
    with pytest.raises(Wrong, match="should raise ValueError; yours raised KeyError"):
        expect_error(lambda: no(KeyError("because")), "it")
    with pytest.raises(Wrong, match=r"yours raised AssertionError$"):
        expect_error(lambda: no(AssertionError()), "it")
    with pytest.raises(Wrong, match="yours quietly returned an int, 3"):
        expect_error(lambda: 3, "it")
    with pytest.raises(Wrong, match=r"^because$"):
        expect_error(lambda: no(Wrong("because")), "it")
    for vague in ("too long", "12 are too many", "error 1210"):
        with pytest.raises(Wrong, match="the error message should mention 12 and 10"):
            expect_error(lambda: no(ValueError(vague)), "it", names=(12, 10))  # noqa: B023
    with pytest.raises(Wrong, match=r"yours is 'at 5'\. From 0\.$"):
        expect_error(lambda: no(ValueError("at 5")), "it", names=(4,), advice="From 0.")
    with pytest.raises(Wrong, match=r"yours raised IndexError: of 4\. Check the index before you use it\.$"):
        expect_error(lambda: no(IndexError("of 4")), "it")


def test_show_and_place():
    assert show(np.array([True, False])) == "[True, False]"
    assert show(np.zeros((2, 2))) == "all zeros"
    assert show(np.arange(9)) == "9 numbers"
    assert show(np.array([[0, 0], [1, 2]])) == "[[0, 0], [1, 2]]"
    assert show(np.array([[False, False], [False, True]])) == "[[False, False], [False, True]]"
    assert place((1, 2), "T D") == "[t=1, d=2]"
    assert place((1, 2)) == "[1, 2]"


def test_rounding_errors_are_shown_as_zero():
    assert show(np.array([[0.15, -5.6e-18, -0.15], [0.0, 0.0, -0.0]])) == "[[0.15, 0, -0.15], [0, 0, 0]]"
    assert show(np.array([[0.5, -0.5], [1e-18, 0]])) == "[[0.5, -0.5], [0, 0]]"
    assert show(np.array([3e-9, -0.0, 5.0])) == "[3e-09, 0, 5]"
    assert show(np.array([1e-18, 2e-18])) == "[1e-18, 2e-18]"
    assert show(np.array([1.0, np.inf, np.nan])) == "[1, inf, nan]"
    assert show(np.float64(-0.0)) == "0"


def test_a_text_is_compared_letter_by_letter():
    expect("abc", "abc", "it")
    expect(np.str_("abc"), "abc", "it")
    expect(np.array("abc"), "abc", "it")
    with pytest.raises(Wrong, match="it should be 'abc'; yours is 'acb'"):
        expect("acb", "abc", "it")
    with pytest.raises(Wrong, match=r"it should be a string \(str\); yours is a list, .* Join the pieces"):
        expect(["a", "b", "c"], "abc", "it")
    with pytest.raises(Wrong, match=r"it should be a string \(str\); yours is a bytes"):
        expect(b"abc", "abc", "it")
    with pytest.raises(Wrong, match=r"it should be a string \(str\); yours is an array"):
        expect(np.array([97, 98]), "ab", "it")


def test_two_texts_are_alike_if_they_are_the_same():
    wrongs = []
    for got in ("acb", "acb", "cab", ["acb"]):
        with pytest.raises(Wrong) as raised:
            expect(got, "abc", "it")
        wrongs.append(raised.value)
    assert [wrongs[0].like(other) for other in wrongs] == [True, True, False, False]
