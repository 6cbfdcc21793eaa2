"""A stuck post-norm model and a learning pre-norm model: where is the gradient, and do positions differ?"""

import torch

from glassformer import nn
from glassformer.experiments.experiment import Experiment, Found, grid
from glassformer.experiments.norm_gradients import by_block, differ, length
from glassformer.experiments.norm_placement import LOWER, PLACEMENTS, RATES, SEEDS, STEPS
from glassformer.experiments.training import new_model, plan, text_task, trained

N_LAYERS = 8
FRESH = 10_000  # a batch that no run has reached


def measure(
    placement: str,
    learning_rate: float,
    seed: int,
    n_layers: int = N_LAYERS,
    steps: int = STEPS,
    characters: int | None = None,
) -> Found:
    """Trains a model as `norm_placement` does, without a warm-up, and measures its gradient on a fresh batch.

    Returns "validation_loss" and, "before" and "after" training: the gradient's length in each block, by
    groups of matrices (as in `norm_gradients`); "whole", its length over all parameters, and "outside", its
    length over those outside the blocks, which are the embeddings and the head; "differ", how much the last
    stream differs between positions; and "logits", the standard deviation of a logit over positions.

    Derived in chapter 05.
    """
    task = text_task(seed, characters)
    model = new_model(placement, n_layers, task, seed)
    inputs, targets = task.batch(FRESH)
    batch = torch.from_numpy(inputs["ids"]), torch.from_numpy(targets)
    before = of_a_batch(model, *batch)
    records = trained(model, task, plan(task, steps=steps, learning_rate=learning_rate, warmup=0, seed=seed))
    return {
        "validation_loss": records[-1]["validation_loss"],
        "before": before,
        "after": of_a_batch(model, *batch),
    }


def of_a_batch(model: nn.Transformer, ids: torch.Tensor, targets: torch.Tensor) -> Found:
    """Measures the gradient of the loss on a batch and how much positions differ; leaves the model unchanged."""
    streams = []
    hook = model.decoder.blocks[-1].register_forward_hook(lambda block, inputs, x: streams.append(x))
    model.zero_grad()
    logits = model(ids)
    nn.cross_entropy(logits, targets).backward()
    hook.remove()
    gradients = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
    found = {
        **by_block(model),
        "whole": length(list(gradients.values())),
        "outside": length(
            [gradient for name, gradient in gradients.items() if not name.startswith("decoder.blocks.")]
        ),
        "differ": differ(streams[0]),
        "logits": logits.detach().flatten(0, -2).std(dim=0).mean().item(),
    }
    model.zero_grad()
    return found


EXPERIMENT = Experiment(
    name="stuck",
    question="Has a model that is stuck no gradient?",
    measure=measure,
    runs=grid(learning_rate=(RATES[0], LOWER), seed=SEEDS, placement=PLACEMENTS),
    short={"steps": 60, "characters": 60_000},
)
