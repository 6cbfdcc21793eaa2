"""The sinusoidal table as a picture: positions down, dimensions across."""

from traitlets import Int, TraitError, observe, validate

from glassformer.config import ROPE_BASE
from glassformer.widgets.kit.view import EvenInt, Number, View


class PositionHeatmap(View, module="position_heatmap"):
    """The table of sinusoidal positions, one of its rows, and how similar that row is to every other.

    The similarity of two rows is their cosine, PE(p)·PE(q) / (D/2), and depends on |p − q| only. It falls
    with the distance at first, then falls and rises: the view counts how often, and names the two rows of
    which the farther one looks nearer that differ most in distance.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.5. Derived in chapter 04.

    Traits:
        n_positions: rows of the table, 16 to 1024.
        d_model: its columns D, even, 4 to 128.
        base: 10 to 1,000,000; pair i turns base^(−2i/D) radians a position.
        row: the chosen position, 0 to n_positions − 1. It moves to the last row if the table becomes shorter.

    Raises:
        TraitError: a value outside these ranges, or an odd `d_model`.
    """

    n_positions = Int(128, min=16, max=1024).tag(sync=True)
    d_model = EvenInt(64, min=4, max=128).tag(sync=True)
    base = Number(ROPE_BASE, min=10.0, max=1e6).tag(sync=True)
    row = Int(24, min=0).tag(sync=True)

    @validate("row")
    def _inside(self, proposal: dict) -> int:
        if proposal["value"] >= self.n_positions:
            raise TraitError(f"row={proposal['value']} is not below n_positions={self.n_positions}")
        return proposal["value"]

    @observe("n_positions")
    def _keep_row_inside(self, change: dict) -> None:
        self.row = min(self.row, change["new"] - 1)
