"""One position of the sinusoidal table as a row of clocks."""

from traitlets import Int

from glassformer.config import ROPE_BASE
from glassformer.widgets.kit.view import EvenInt, Number, View


class ClockHands(View, module="clock_hands"):
    """Each pair of dimensions as a clock hand, rotated by p·base^(−2i/D); its projections are the two numbers.

    Hands start at twelve and turn clockwise, so the tip lies sin to the right and cos up. A second, dashed
    hand shows the position `step` places on: the turn from one to the other is step·base^(−2i/D) wherever
    they start, which is PE(p + n) = Rₙ·PE(p).

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.5. Derived in chapter 04.

    Traits:
        position: p, 0 to 200.
        step: n, −20 to 20.
        d_model: D, even, 4 to 16: two to eight clocks.
        base: 10 to 1,000,000.

    Raises:
        TraitError: a value outside these ranges, or an odd `d_model`.
    """

    position = Int(20, min=0, max=200).tag(sync=True)
    step = Int(3, min=-20, max=20).tag(sync=True)
    d_model = EvenInt(8, min=4, max=16).tag(sync=True)
    base = Number(ROPE_BASE, min=10.0, max=1e6).tag(sync=True)
