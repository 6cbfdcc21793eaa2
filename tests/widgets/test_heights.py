"""The height that a page reserves for a view before it is drawn is the height that the view has."""

import pytest

from tools.assets import heights

RESERVED = heights.read()


@pytest.fixture(scope="module")
def measured(browser):
    return heights.measure(browser)


def test_the_heights_of_all_views_are_reserved():
    assert list(RESERVED.views) == heights.names(), "run make heights"
    assert heights.text(RESERVED) == heights.FILE.read_text("utf-8"), "run make heights"


@pytest.mark.weekly
def test_columns_are_those_of_the_pages(measured):
    assert RESERVED.columns == measured.columns, "run make heights"


@pytest.mark.sampled(10)
@pytest.mark.parametrize("name", heights.names())
def test_the_height_reserved_is_the_height_of_the_view(measured, name):
    # With other letters, a line may break elsewhere. With the same letters, no difference is as high as a line. In a
    # quiz or a prediction, words may change without a new measurement.
    exact = RESERVED.letters == measured.letters and not name.startswith(("Quiz", "Predict"))
    tolerance = {"abs": 10} if exact else {"rel": 0.08}
    for size, high in measured.views[name].items():
        assert RESERVED.views[name][size] == pytest.approx(high, **tolerance), f"{name}: run make heights"
