"""The types that say an array's shape, ``Float[np.ndarray, "T D"]``: jaxtyping's, or names without effect.

Annotations are there to be read. Where jaxtyping is not installed, as in a page of the site, nothing that computes
needs it.
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
            """Stands for every type of number: the annotation says what it says and checks nothing."""

            def __class_getitem__(cls, item: tuple[type, str]) -> Any:
                """Returns the type of the array, without its shape."""
                return item[0]

        Bool = Float = Int = Int64 = Integer = Real
