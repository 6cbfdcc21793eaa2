"""Shows how distance changes a score: ALiBi's slopes and T5's buckets."""

from traitlets import Bool, Enum, Int, TraitError, observe, validate

from glassformer.widgets.kit.view import View


class DistanceBias(View, module="distance_bias"):
    """Shows what a relative method adds to the score of each query and key: ALiBi's penalty, or a T5 bucket.

    ALiBi subtracts slope × distance, with a slope of its own for each head, and the view also shows the
    attention that this bias alone would give. T5 learns one number per head and bucket: the view shows which
    bucket each distance falls into, exact when near and logarithmic when far.

    Source: Press et al. 2022, "Train Short, Test Long", section 3; Raffel et al. 2020, "Exploring the Limits
    of Transfer Learning with a Unified Text-to-Text Transformer", section 2.1. Derived in chapter 04.

    Traits:
        method: "alibi" or "t5".
        length: how many positions, 8 to 64.
        query, key: the chosen cell, 0 to length − 1.
        n_heads, head: ALiBi's number of heads, 1 to 16, and the one shown, 0 to n_heads − 1.
        bidirectional: T5, whether keys ahead have buckets of their own (encoder) or are masked (decoder).
        n_buckets: T5, 8, 16 or 32.
        max_distance: T5, 32, 64 or 128: keys at this distance or further all share the last bucket.

    If a smaller n_heads or length removes the selected head, query or key, the last remaining one is selected.

    Raises:
        TraitError: a value outside its range, or a head, query or key that does not exist.
    """

    method = Enum(["alibi", "t5"], "alibi").tag(sync=True)
    length = Int(32, min=8, max=64).tag(sync=True)
    query = Int(24).tag(sync=True)
    key = Int(18).tag(sync=True)
    n_heads = Int(8, min=1, max=16).tag(sync=True)
    head = Int(2).tag(sync=True)
    bidirectional = Bool(False).tag(sync=True)
    n_buckets = Enum([8, 16, 32], 32).tag(sync=True)
    max_distance = Enum([32, 64, 128], 128).tag(sync=True)

    @validate("head", "query", "key")
    def _validate_place(self, proposal: dict) -> int:
        name, value = proposal["trait"].name, proposal["value"]
        limit = "n_heads" if name == "head" else "length"
        if not 0 <= value < getattr(self, limit):
            raise TraitError(f"{name}={value} is not in 0 … {limit} − 1 = {getattr(self, limit) - 1}")
        return value

    @observe("n_heads")
    def _fit_head(self, change: dict) -> None:
        self.head = min(self.head, change["new"] - 1)

    @observe("length")
    def _fit_cell(self, change: dict) -> None:
        self.query = min(self.query, change["new"] - 1)
        self.key = min(self.key, change["new"] - 1)
