"""Low-rank adapters: a frozen model is trained by small matrices beside some of its own. NumPy has none.

    n_trained = add_adapters(model, rank=4, generator=torch.Generator().manual_seed(0))
    Trainer(model, task, training).run()
    merge_adapters(model)

`train.adapters` keeps them in a file of their own.
"""

from collections.abc import Collection

import torch
from jaxtyping import Float
from torch import Tensor, nn

from glassformer import _checks as checks
from glassformer.nn.linear import Linear, normal
from glassformer.nn.product import times
from glassformer.protocols import is_table

__all__ = ["AdaptedLinear", "adapted", "add_adapters", "merge_adapters"]
__dir__ = __all__.copy


class AdaptedLinear(Linear):
    """A linear map with an adapter: y = x W + b + (α/r) · x A B.

    A (n_in, r) and B (r, n_out) are trained, and W and b are frozen. B starts at 0,
    so that y is at first what it was without the adapter.

    Source: Hu et al. 2021, "LoRA: Low-Rank Adaptation of Large Language Models",
    section 4.1, equation 3, with all matrices transposed.
    """

    def __init__(
        self,
        linear: Linear,
        *,
        rank: int,
        alpha: float,
        generator: torch.Generator | None,
    ) -> None:
        nn.Module.__init__(self)
        self.n_in, self.n_out = linear.n_in, linear.n_out
        self.rank, self.alpha = rank, alpha
        # The same names as before, so that other code finds them
        self.weight, self.bias = linear.weight, linear.bias
        like = {"dtype": self.weight.dtype, "device": self.weight.device}
        A = normal(generator, self.n_in**-0.5, (self.n_in, rank), like["dtype"])
        self.A = nn.Parameter(A.detach().to(**like))
        self.B = nn.Parameter(torch.zeros(rank, self.n_out, **like))

    @property
    def scale(self) -> float:
        """Returns α/r, by which what the adapter adds is multiplied."""
        return self.alpha / self.rank

    def forward(self, x: Float[Tensor, "*B n_in"]) -> Float[Tensor, "*B n_out"]:
        """Maps x (..., n_in) to (..., n_out)."""
        added = times(times(x, self.A), self.B)
        return super().forward(x) + self.scale * added

    @torch.no_grad()
    def merged(self) -> Linear:
        """Returns the plain linear map with the weight W + (α/r) · A B; it is this W that changes."""
        bias, dtype = self.bias is not None, self.weight.dtype
        linear = Linear(
            self.n_in, self.n_out, bias=bias, generator=None, dtype=dtype
        )
        linear.weight, linear.bias = self.weight, self.bias
        linear.weight.add_(self.A @ self.B, alpha=self.scale)
        return linear


def add_adapters(
    model: nn.Module,
    *,
    rank: int,
    alpha: float | None = None,
    names: Collection[str] = ("W_q", "W_v"),
    generator: torch.Generator | None,
) -> int:
    """Freezes a model, gives adapters to its layers of these names, and returns how many weights are then trained.

    The model is changed in place, and computes the same as before. `names` are the
    layers' own, such as "W_q" or "W_down", in every block. `alpha` is `rank` by
    default, so that A B is added as it is. A is drawn as the weights of a new
    `Linear`; with generator=None it is 0, as before loading.

    Raises:
        ValueError: `rank` is below 1 or above a side of the matrix; `alpha` is not
            positive; `names` is empty or has a name that no linear layer has; or the
            model has adapters already.
        TypeError: an argument is of the wrong kind.
    """
    checks.in_torch(model)
    checks.whole("rank", rank)
    alpha = float(rank) if alpha is None else alpha
    checks.positive("alpha", alpha)
    if adapted(model):
        raise ValueError(
            "model has adapters already: merge_adapters adds them to its weights"
        )
    if isinstance(names, str):
        raise TypeError(f"names={names!r} must be a list of names, not a string")
    there: dict[str, list[tuple[str, Linear]]] = {}
    for path, layer in model.named_modules():
        if isinstance(layer, Linear):
            there.setdefault(path.rpartition(".")[2], []).append((path, layer))
    if not names:
        raise ValueError(f"names is empty: choose from {', '.join(there)}")
    for name in names:
        checks.one_of("names", name, there)
    chosen = [found for name in dict.fromkeys(names) for found in there[name]]
    for path, layer in chosen:
        if rank > min(layer.n_in, layer.n_out):
            raise ValueError(
                f"rank={rank} must be at most {min(layer.n_in, layer.n_out)}, the "
                f"largest rank of {path} ({layer.n_in}, {layer.n_out})"
            )
    model.requires_grad_(False)
    for path, layer in chosen:
        made = AdaptedLinear(layer, rank=rank, alpha=alpha, generator=generator)
        model.set_submodule(path, made)
    return sum(w.numel() for w in model.parameters() if w.requires_grad)


def merge_adapters(model: nn.Module) -> None:
    """Adds (α/r) · A B to every adapted W, in place. The model is then as it was, and all its weights are trained.

    It computes the same as with the adapters, up to rounding, and in less time.

    Raises:
        ValueError: the model has no adapters.
    """
    checks.in_torch(model)
    layers = adapted(model)
    if not layers:
        raise ValueError("model has no adapters that could be merged")
    for path, layer in layers.items():
        model.set_submodule(path, layer.merged())
    for name, weight in model.named_parameters():
        # No gradient reaches what only chooses experts
        chooses = is_table(name) or name.endswith("router.choice_bias")
        weight.requires_grad_(not chooses)


def adapted(model: nn.Module) -> dict[str, AdaptedLinear]:
    """Returns the layers with adapters, by the names that the model gives them."""
    return {
        name: layer
        for name, layer in model.named_modules()
        if isinstance(layer, AdaptedLinear)
    }
