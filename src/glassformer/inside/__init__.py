"""Looking inside a trained decoder: what its blocks would say, what each part adds, what is lost without it.

Everything here reads a NumPy model through its trace and its weights, and leaves it as it was. Ids in, numbers out:

    with ablated(model, 0, "attention"):
        mean_loss(model, batches)

`lens` asks every block for its prediction, `attribution` splits a logit into what was written by whom, `ablation`
removes parts, `neurons` reads the feed-forward as a memory, `induction` looks for heads that copy, `work` counts what
a pass costs, and `cost` what a run forward and back takes, part by part.
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
