"""Pre-norm or post-norm, 2 to 64 blocks deep: the length of the gradient in each block before any training.

Queries and keys are measured separately: their gradient vanishes with the difference between positions, which
is measured too.
"""

from collections.abc import Sequence

import torch

from glassformer import _checks as checks
from glassformer import nn
from glassformer.experiments.experiment import Experiment, Found, grid
from glassformer.experiments.norm_placement import PLACEMENTS
from glassformer.experiments.training import D_MODEL, new_model, plan, text_task
from glassformer.tasks import NextToken
from glassformer.train import initialize

DEPTHS = (2, 4, 8, 16, 32, 64)
SEEDS = (0, 1, 2)
INITS = ("ours", "gpt2", "xavier")
"""The initial weights: the package's own, which keep the size of whatever passes through a matrix; GPT-2's, which
are small, and smaller in deep models; and "xavier", those of Xiong et al. 2020, with the head and activation used
there."""

AS_IN_2017 = {
    "feedforward": "relu",
    "positions": "sinusoidal",
    "embedding_scale": D_MODEL**0.5,
    "head": "untied",
}


def measure(placement: str, init: str, seed: int, depths: Sequence[int] = DEPTHS) -> Found:
    """Measures one model of each depth: the gradient of its loss on a batch of Shakespeare.

    Returns, for each depth and every block: `gradient`, its length over all matrices of the block;
    `queries_keys`, over W_q and W_k only; `W_down`, over that matrix only, as shown by Xiong et al. 2020;
    `stream`, the root mean square of the block's output; and `differ`, how much that output differs between
    positions. It computes in float64, because vanishing gradients are below the rounding of float32.

    Source: Xiong et al. 2020, "On Layer Normalization in the Transformer Architecture", section 3; Noci et al. 2022,
    "Signal Propagation in Transformers", on queries and keys. Derived in chapter 05.

    Raises:
        ValueError: there is no such placement or init.
    """
    checks.one_of("init", init, INITS)
    return {str(n_layers): before_training(placement, n_layers, init, seed) for n_layers in depths}


def before_training(placement: str, n_layers: int, init: str, seed: int) -> Found:
    """Measures one model before training."""
    task = text_task(seed)
    model = untrained(placement, n_layers, init, task, seed).double()
    sizes, differences = [], []

    def look(block: torch.nn.Module, inputs: tuple, stream: torch.Tensor) -> None:
        sizes.append(rms(stream))
        differences.append(differ(stream))

    for block in model.decoder.blocks:
        block.register_forward_hook(look)
    inputs, targets = task.batch(0)
    loss = nn.cross_entropy(model(torch.from_numpy(inputs["ids"])), torch.from_numpy(targets))
    loss.backward()
    return {"loss": loss.item(), **by_block(model), "stream": sizes, "differ": differences}


def by_block(model: nn.Transformer) -> dict[str, list[float]]:
    """Returns the length of the gradient in each block, for groups of its matrices."""
    blocks = model.decoder.blocks
    return {
        "gradient": [
            length([weight.grad for weight in block.parameters() if weight.ndim == 2]) for block in blocks
        ],
        "queries_keys": [
            length([block.attention.W_q.weight.grad, block.attention.W_k.weight.grad]) for block in blocks
        ],
        "W_down": [length([block.feedforward.W_down.weight.grad]) for block in blocks],
    }


def untrained(placement: str, n_layers: int, init: str, task: NextToken, seed: int) -> nn.Transformer:
    """Makes a model with the initial weights that `init` names."""
    if init != "xavier":
        model = new_model(placement, n_layers, task, seed)
        initialize(model, plan(task, steps=1, init=init, seed=seed))
        return model
    model = new_model(placement, n_layers, task, seed, **AS_IN_2017)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for block in model.decoder.blocks:
            for weight in block.parameters():
                if weight.ndim == 2:
                    torch.nn.init.xavier_normal_(weight, generator=generator)
        model.token_embedding.weight.normal_(0, D_MODEL**-0.5, generator=generator)  # 1 when scaled by √D
    return model


def length(gradients: list[torch.Tensor]) -> float:
    """Returns the length of the vector that holds all of these numbers."""
    return torch.stack([gradient.square().sum() for gradient in gradients]).sum().sqrt().item()


def rms(x: torch.Tensor) -> float:
    """Returns the root mean square of its numbers."""
    return x.detach().square().mean().sqrt().item()


def differ(x: torch.Tensor) -> float:
    """Returns 1 minus the mean cosine between the vectors of different positions of x (B, T, D)."""
    x = torch.nn.functional.normalize(x.detach(), dim=-1)
    n = x.shape[-2]
    cosines = (x @ x.mT).sum(dim=(-1, -2)) - n  # not with itself
    return 1 - cosines.mean().item() / (n * n - n)


EXPERIMENT = Experiment(
    name="norm_gradients",
    question="How long is the gradient in each block of a model that has not been trained yet?",
    measure=measure,
    runs=grid(placement=PLACEMENTS, init=INITS, seed=SEEDS),
    short={"depths": (2, 16)},
)
