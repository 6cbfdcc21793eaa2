"""Chooses the optimizer and learning rate for each weight, and how weights are initialized."""

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping

import numpy as np
import torch
from torch import Tensor, nn

from glassformer.protocols import is_table, is_vector
from glassformer.train.config import TrainingConfig
from glassformer.train.muon import Muon
from glassformer.train.schedule import muon_momentum, rate_share

SUBLAYER = re.compile(r"(.*\.)?blocks\.\d+\.\w+")
OF_STACK = re.compile(r"(.*\.)?(streams\.numbers|layer_embeddings)\.W\.weight")  # matrices beside the blocks
OUTPUT = re.compile(
    r".*\.(W_o|W_down)(\.weight)?"
)  # the last matrix of a sublayer, which writes to the stream
NAMES = "protocols.AnyModel says how weights are named"


def kind_of(name: str, weight: Tensor) -> str:
    """Returns a weight's kind: "matrices" of the blocks, "embeddings", "head" or "norms" (all vectors).

    The weights of a short convolution are some for each feature, so they count among the embeddings. A router's
    `choice_bias` has no gradient, so no optimizer moves it.
    """
    if weight.ndim < 2:
        return "norms"
    if (SUBLAYER.match(name) and not is_vector(name, weight.ndim)) or OF_STACK.fullmatch(name):
        return "matrices"
    if name.startswith(("unembedding.", "pooler.")):
        return "head"
    return "embeddings"  # for tokens, segments, positions and features


def optimizers_of(model: nn.Module, config: TrainingConfig) -> list[torch.optim.Optimizer]:
    """Makes the optimizers: AdamW for all weights, or Muon for the matrices of the blocks and AdamW for the rest.

    Source: AdamW: Loshchilov and Hutter 2019, "Decoupled Weight Decay Regularization"; Muon: Jordan et al.
    2024, "Muon: An optimizer for hidden layers in neural networks". Derived in chapter 10.

    Raises:
        ValueError: Muon is chosen, and no weight in the blocks is a matrix, or one has more axes.
    """
    rates = {
        "matrices": config.learning_rate,
        "embeddings": config.embedding_rate or config.learning_rate,
        "head": config.head_rate or config.learning_rate,
        "norms": config.norm_rate or config.learning_rate,
    }
    decays = dict.fromkeys(rates, config.weight_decay) | {"norms": 0.0}
    if config.embedding_decay is not None:
        decays["embeddings"] = config.embedding_decay
    weights = defaultdict(list)
    for name, weight in model.named_parameters():
        if is_table(name):
            continue
        kind = kind_of(name, weight)
        weights[kind].append(weight)
        if config.optimizer == "muon" and kind == "matrices" and weight.ndim > 2:
            raise ValueError(f'optimizer="muon" moves matrices, but {name} has shape {tuple(weight.shape)}')
    if config.optimizer == "muon" and not weights["matrices"]:
        raise ValueError(f'optimizer="muon" moves the matrices in blocks, but the model has none: {NAMES}')

    muon = weights.pop("matrices", []) if config.optimizer == "muon" else []
    groups = [
        {"params": weights[kind], "rate": rates[kind], "weight_decay": decays[kind]} for kind in weights
    ]
    # fused: the whole step in one pass over the memory
    found: list[torch.optim.Optimizer] = [
        torch.optim.AdamW(groups, lr=0.0, betas=config.betas, eps=config.eps, fused=True)
    ]
    if muon:
        group = {"params": muon, "rate": rates["matrices"], "weight_decay": decays["matrices"]}
        found.append(Muon([group], iterations=config.muon_iterations))
    return found


def set_schedule(optimizers: list[torch.optim.Optimizer], config: TrainingConfig, step: int) -> None:
    """Sets the learning rate of every group of weights, and Muon's momentum, for that step."""
    share = rate_share(config, step)
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = group["rate"] * share
            if "momentum" in group:
                group["momentum"] = muon_momentum(config, step)


@torch.no_grad()
def initialize(model: nn.Module, config: TrainingConfig) -> None:
    """Draws the matrices again as `init` says, and sets those of `zero_init` to 0. Vectors are left unchanged.

    It belongs to making a new model: `Trainer` never calls it.

    "ours" changes nothing. "gpt2" draws from a normal distribution with standard deviation 0.02. For the last
    matrix of a sublayer, it divides this by the root of the number of sublayers that add to the same stream:
    2 · n_layers for a GPT.

    Source: Radford et al. 2019, "Language Models are Unsupervised Multitask Learners", section 2.3; zero_init:
    Goyal et al. 2017, "Accurate, Large Minibatch SGD", section 5.1, for residual networks. Derived in chapter 10.

    Raises:
        ValueError: `init` or `zero_init` asks for something, but it is not known which matrix of a sublayer writes to
            the stream, because none is called `W_o` or `W_down`; or no weight is in `blocks`. Nothing is changed.
    """
    if config.init == "ours" and not config.zero_init:
        return
    weights = {name: weight for name, weight in model.named_parameters() if not is_table(name)}
    matrices = [name for name, weight in weights.items() if not is_vector(name, weight.ndim)]
    sublayers = {
        found[0] for name in matrices if (found := SUBLAYER.match(name)) and ".streams_" not in found[0]
    }
    writing = {found[0] for name in matrices if OUTPUT.fullmatch(name) and (found := SUBLAYER.match(name))}
    if unknown := sorted(sublayers - writing) or ([] if sublayers else ["a model without blocks"]):
        raise ValueError(
            f"init={config.init!r}, zero_init={config.zero_init}: no matrix of {', '.join(unknown[:3])} is called W_o "
            f"or W_down, so it is not known which one writes to the stream: {NAMES}"
        )
    if config.init == "gpt2":
        generator = torch.Generator().manual_seed(config.seed)
        for name in matrices:
            weight = weights[name]
            deviation = 0.02
            if OUTPUT.fullmatch(name):
                stack = name.split(".")[0]
                deviation /= math.sqrt(sum(other.startswith(f"{stack}.") for other in writing))
            drawn = torch.randn(weight.shape, generator=generator, dtype=weight.dtype)
            weight.copy_(deviation * drawn)
    if config.zero_init:
        for name, weight in weights.items():
            if OUTPUT.fullmatch(name):
                weight.zero_()


def optimizer_state(
    model: nn.Module, optimizers: list[torch.optim.Optimizer], to_array: Callable[[Tensor], np.ndarray]
) -> dict[str, np.ndarray]:
    """Returns the whole state of the optimizers, as arrays named "weight/what"."""
    return {
        f"{name}/{what}": to_array(value)
        for name, weight in model.named_parameters()
        for optimizer in optimizers
        for what, value in optimizer.state.get(weight, {}).items()
    }


def load_optimizer_state(
    model: nn.Module, optimizers: list[torch.optim.Optimizer], state: Mapping[str, np.ndarray]
) -> None:
    """Restores the state that `optimizer_state` returned.

    Raises:
        ValueError: an entry matches no weight of the model, or has another shape.
    """
    weights = dict(model.named_parameters())
    owners = {
        weight: optimizer
        for optimizer in optimizers
        for group in optimizer.param_groups
        for weight in group["params"]
    }
    for entry, values in state.items():
        name, _, what = entry.rpartition("/")
        if name not in weights or values.shape not in ((), tuple(weights[name].shape)):
            raise ValueError(
                f"the optimizer's {entry} of shape {values.shape} matches no weight of the model"
            )
        weight, values = weights[name], torch.tensor(values, device=weights[name].device)
        if (
            values.ndim
        ):  # all but the step count have the weight's memory layout, which need not be row by row
            values = torch.empty_like(weight, requires_grad=False).copy_(values)
        owners[weight].state[weight][what] = values
