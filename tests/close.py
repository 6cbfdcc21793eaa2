"""Arrays that agree up to rounding: the tolerance is a share of the largest number compared.

How large a logit is depends on the model, and rounding grows with it. The order in which a sum is taken, and so its
rounding, also depends on the number of threads and on the CPU. An absolute tolerance is the right one for numbers
whose size is known beforehand: probabilities, or cases worked by hand.
"""

import numpy as np

DOUBLE = 1e-13  # float64: a few hundred roundings, and sums taken in another order; 6e-15 was measured
SINGLE = 1e-5  # float32: the same; 1.3e-6 was measured
ENGINE = 2e-5  # float32 in the page, on the way to its logits; 1e-5 was measured, and 8e-6 for logits


def assert_close(found, expected, within, *, beside=0.0, what=""):
    """Assert that two arrays have the same shape and differ at most by a share of the largest number in `expected`.

    `beside` is an absolute tolerance that is added: for example, half a unit of the last digit that a page shows.
    Infinite numbers must be the same ones, and no number may be NaN.
    """
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape, f"{what}: {found.shape} and {expected.shape}"
    largest = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
    np.testing.assert_allclose(
        found, expected, rtol=0, atol=within * largest + beside, equal_nan=False, err_msg=str(what)
    )
