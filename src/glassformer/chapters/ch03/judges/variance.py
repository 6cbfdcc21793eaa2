"""Judges "Why the square root" (chapter 03): the variance of a score with and without the division by √d_head."""

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect, expect_shape
from glassformer.exercises.material import numbers


def score_variance(d_head: int, query_variance: float, key_variance: float, scaled: bool) -> float:
    """Returns the variance of q·k, or of q·k/√d_head, for independent numbers with mean 0."""
    return (1 if scaled else d_head) * query_variance * key_variance


spread = exercise("attention.variance", score_variance)

spread.case("64 numbers of variance 1, before the division by √d_head", 64, 1.0, 1.0, False, want=64.0)
spread.case("the same after dividing by √64", 64, 1.0, 1.0, True, want=1.0)
spread.case("one number of variance 4 and one of 9", 1, 4.0, 9.0, False, want=36.0)
spread.case("sixteen numbers, before and after the division", 16, 4.0, 0.25, False, want=16.0)
spread.also(16, 4.0, 9.0, True, want=36.0)


@spread.check("it agrees with twenty thousand random pairs")
def _(score_variance):
    q, k = 0.5 * numbers(20_000, 12), 3 * numbers(20_000, 12, seed=1)
    drawn = float((q * k).sum(axis=1).var())
    got, what = score_variance(12, 0.25, 9.0, False), "score_variance(12, 0.25, 9, False)"
    expect_shape(got, (), what)
    if abs(float(got) / drawn - 1) > 0.05:
        expect(got, 27.0, what, being=f"27; twenty thousand random pairs have {drawn:.1f}")


spread.mistake("added", lambda d, a, b, scaled: (1 if scaled else d) * (a + b) / 2)
