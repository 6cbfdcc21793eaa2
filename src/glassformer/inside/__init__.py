"""Looks inside a trained decoder: what its blocks would predict, what each part adds, what is lost without it.

Everything here reads a model through its trace and its weights, and leaves it unchanged. Of a PyTorch model, it
reads a copy in NumPy; what takes parts out for a while, and what counts products, needs the NumPy model itself
(`scratch.in_numpy` copies one). Ids go in, numbers come out:

    with ablated(model, 0, "attention"):
        mean_loss(model, batches)

`lens` reads a prediction after every block, `attribution` splits a logit into the contributions of the parts,
`ablation` removes parts, `neurons` reads the feed-forward network as a memory, `induction` looks for heads
that copy, `work` counts the cost of a pass, and `cost` measures a forward and backward pass part by part.
"""

from glassformer.inside.ablation import ablated, ablations, mean_loss, without
from glassformer.inside.attribution import logit_attribution, writes
from glassformer.inside.cost import Cost, cost
from glassformer.inside.induction import (
    Repetition,
    induction_scores,
    previous_token_scores,
    repetition,
)
from glassformer.inside.lens import logit_lens
from glassformer.inside.neurons import Memory, memories, promoted_logits
from glassformer.inside.work import cache_bytes, counting, generation_work, multiply_adds

__all__ = [
    "Cost",
    "Memory",
    "Repetition",
    "ablated",
    "ablations",
    "cache_bytes",
    "cost",
    "counting",
    "generation_work",
    "induction_scores",
    "logit_attribution",
    "logit_lens",
    "mean_loss",
    "memories",
    "multiply_adds",
    "previous_token_scores",
    "promoted_logits",
    "repetition",
    "without",
    "writes",
]
