"""Four norms side by side on one vector that the reader changes: which two differ, by how much, and where."""

import numpy as np
from jaxtyping import Float
from traitlets import Enum, Int, List, TraitError, observe, validate

from glassformer.scratch.norm import LayerNorm, RMSNorm, SigmaNorm
from glassformer.widgets.kit.view import View

LARGEST = 1e6  # that a number may be
EPS = (1e-12, 1e-11, 1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
NORMS = ("layer", "sigma", "unbiased", "rms")
"""(x − μ) / √(σ² + ε); (x − μ) / (σ + ε); (x − μ) / √(s² + ε), where s² divides by D − 1; x / √(mean(x²) + ε)."""


class NormComparer(View, module="norm_comparer"):
    """One vector after LayerNorm, two look-alikes, and RMSNorm.

    Change one number, or change all of them at once, and see which norms react. Gain and shift stay at 1 and
    0. "unbiased" is LayerNorm with one difference: its variance divides by D − 1.

    Derived in chapter 05.

    Traits:
        x: the vector, 2 to 8 numbers from −1,000,000 to 1,000,000.
        before: what x was before something was done to all of its numbers; empty when nothing was.
        eps: ε, a power of ten from 1e-12 to 1e-2.
        drawn: which random vector *Random* draws next.

    Raises:
        TraitError: a vector of another length, a number out of range, a `before` of another length than x, an
            unknown `eps`.
    """

    x = List([1.0, 0.0, 0.0, 0.0]).tag(sync=True)
    before = List().tag(sync=True)
    eps = Enum(EPS, 1e-5).tag(sync=True)
    drawn = Int(1, min=0, max=2**31 - 1).tag(sync=True)

    def computed(self) -> dict[str, Float[np.ndarray, " D"]]:
        """Computes what the view draws, with `glassformer.scratch`, for each norm."""
        x = np.array(self.x, dtype=np.float64)
        layers = {"layer": LayerNorm, "sigma": SigmaNorm, "rms": RMSNorm}
        made = {
            name: layer(len(x), eps=self.eps, dtype=np.float64).forward(x) for name, layer in layers.items()
        }
        made["unbiased"] = (x - x.mean()) / np.sqrt(x.var(ddof=1) + self.eps)
        return {name: made[name] for name in NORMS}

    @validate("x", "before")
    def _validate_vector(self, proposal: dict) -> list[float]:
        name, given = proposal["trait"].name, proposal["value"]
        try:
            vector = np.array(given, dtype=np.float64)
        except (TypeError, ValueError):
            vector = np.empty((0, 0))
        if name == "before" and vector.shape == (0,):
            return []
        if vector.ndim != 1 or not 2 <= len(vector) <= 8:
            raise TraitError(f"{name}={given!r} must be 2 to 8 numbers")
        if not (np.abs(vector) <= LARGEST).all():
            raise TraitError(f"{name}={given!r} has a number outside −1,000,000 … 1,000,000")
        if name == "before" and len(vector) != len(self.x):
            raise TraitError(f"before={given!r} must be empty or have as many numbers as x ({len(self.x)})")
        return [float(number) for number in vector]

    @observe("x")
    def _forget(self, change: dict) -> None:
        if len(self.before) not in (0, len(change["new"])):
            self.before = []
