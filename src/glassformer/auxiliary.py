"""Auxiliary losses: numbers that layers add to the loss in training, such as a router's balance."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

Terms = list[tuple[str, Any]]
"""Names and numbers, in the order in which the layers computed them; those of PyTorch carry their gradient."""

_open: list[Terms] = []


@contextmanager
def auxiliary_losses() -> Iterator[Terms]:
    """Collects what layers of either room add to the loss inside the `with` block.

    If blocks are nested, only the innermost collects. Without one, as in evaluation, layers add nothing.
    """
    terms: Terms = []
    _open.append(terms)
    try:
        yield terms
    finally:
        _open.pop()


def add_to_loss(**terms: Any) -> bool:
    """Adds numbers to the loss, each under a name, and returns whether anyone collects them; layers call it.

    In `nn`, that is all. In `scratch`, `forward` saves the answer, and if it is True, `backward` adds the slope of
    the number to its gradients: the loss is then a sum, and this number is one of its terms.

    Raises:
        ValueError: a term is not a single number.
    """
    for name, term in terms.items():
        if shape := tuple(getattr(term, "shape", ())):
            raise ValueError(f"{name} has shape {shape}, but a term of the loss must be one number")
    if _open:
        _open[-1].extend(terms.items())
    return bool(_open)
