"""Types that describe an array's shape, ``Float[np.ndarray, "T D"]``: jaxtyping's, or placeholders without it.

The annotations are for readers. No computation needs jaxtyping, and on pages of the site it is not installed.
"""

from typing import TYPE_CHECKING, Any

__all__ = ["Bool", "Float", "Int", "Int64", "Integer", "Real"]

if TYPE_CHECKING:
    from jaxtyping import Bool, Float, Int, Int64, Integer, Real
else:
    try:
        from jaxtyping import Bool, Float, Int, Int64, Integer, Real
    except ImportError:

        class Real:
            """Replaces every type of number; the annotation still documents the shape but checks nothing."""

            def __class_getitem__(cls, item: tuple[type, str]) -> Any:
                """Returns the type of the array, without its shape."""
                return item[0]

        Bool = Float = Int = Int64 = Integer = Real
