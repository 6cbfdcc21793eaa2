"""Describes how a model is trained, as named choices. With `ModelConfig`, it describes a whole run."""

from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

from glassformer import _checks as checks

__all__ = ["TRAINING_CHOICES", "TrainingConfig"]
__dir__ = __all__.copy

TRAINING_CHOICES = {
    "optimizer": ("adamw", "muon"),
    "decay": ("linear", "cosine", "none"),
    "init": ("ours", "gpt2"),
    "dtype": ("float32", "bfloat16"),
}

LARGEST_RATE = 1e30  # training diverges long before; with 1e38, a step overflows float32
MOST_ITERATIONS = 100  # of Muon; four or five are usual, and a step with a hundred million would never end

# These say where and how a run is computed, or what it reports, so they may differ when a run is resumed.
MAY_CHANGE = ("accumulation", "evaluate_every", "save_every", "sample_every", "device", "compile")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Describes how a model is trained. Only the two sizes are required.

    `batch_size` is the total number of texts in one step. The steps are the same however many processes share
    the batch and into however many pieces `accumulation` cuts it, except for rounding and dropout. Sums are
    rounded in another order, and later steps amplify the difference, Muon's most of all. With dropout, each
    piece draws its own zeros: two processes do the same as one with `accumulation=2`, but not the same as one
    with the whole batch.

    Derived in chapter 10.

    Attributes:
        steps: The number of steps.
        batch_size: The number of texts in one step.
        accumulation: Into how many pieces a batch is cut, computed one after another to save memory.
        optimizer: "adamw", or "muon", which trains the matrices inside the blocks and leaves the rest to AdamW.
        learning_rate: The highest learning rate of the schedule.
        embedding_rate: That of the embeddings. None: `learning_rate`.
        head_rate: That of an untied head. None: `learning_rate`.
        norm_rate: That of gains and biases. None: `learning_rate`.
        betas: What AdamW keeps at each step of its averages of the gradients and of their squares.
        eps: AdamW's ε, which keeps it from dividing by 0.
        weight_decay: How strongly matrices are pulled towards 0; gains and biases are not.
        embedding_decay: How strongly embeddings are. None: `weight_decay`.
        muon_momentum: Muon's momentum after its warm-up.
        muon_momentum_start: The momentum that Muon starts with.
        muon_momentum_warmup: The number of steps in which the momentum rises.
        muon_iterations: The number of Newton–Schulz iterations, each closer to an orthogonal matrix.
        warmup: The number of steps in which the rate rises.
        decay: How the rate falls afterwards: "linear", "cosine", or "none".
        final_share: The fraction of the rate that is left at the end.
        clip: The maximal length of the gradient; 0: no clipping.
        init: How `initialize` draws a new model's matrices: "ours" keeps those that the model was built with, "gpt2"
            draws from a normal distribution with mean 0 and standard deviation 0.02.
        zero_init: Whether the output of every sublayer of a new model starts at 0.
        ema: The fraction of a running average of the weights that stays at each step. None: there is no average.
        seed: The seed of the weights, the batches and dropout.
        evaluate_every: The number of steps between validations; 0: only at the end.
        save_every: The number of steps between checkpoints; 0: only at the end.
        sample_every: The number of steps between samples of the model's text; 0: never.
        device: "cpu", "cuda", "mps" or "auto", CUDA or MPS if there is one; the run names its choice.
        dtype: "float32", or "bfloat16", in matrix products only: the weights stay float32.
        compile: Whether torch.compile fuses operations.

    Raises:
        ValueError: a number or choice is outside its range. The message names the field, its value and the rule.
        TypeError: a field holds the wrong kind of thing.
    """

    # Sizes
    steps: int
    batch_size: int
    accumulation: int = 1

    # The optimizer
    optimizer: str = "adamw"
    learning_rate: float = 1e-3
    embedding_rate: float | None = None
    head_rate: float | None = None
    norm_rate: float | None = None
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.1
    embedding_decay: float | None = None
    muon_momentum: float = 0.95
    muon_momentum_start: float = 0.85
    muon_momentum_warmup: int = 200
    muon_iterations: int = 4

    # The schedule of the learning rates
    warmup: int = 50
    decay: str = "linear"
    final_share: float = 0.0
    clip: float = 1.0

    # The weights of a new model; training itself leaves these two alone
    init: str = "ours"
    zero_init: bool = False

    # The average
    ema: float | None = None

    # The run
    seed: int = 0
    evaluate_every: int = 250
    save_every: int = 1000
    sample_every: int = 0
    device: str = "auto"
    dtype: str = "float32"
    compile: bool = False

    def __post_init__(self) -> None:
        for name, choices in TRAINING_CHOICES.items():
            checks.one_of(name, getattr(self, name), choices)
        for name in ("zero_init", "compile"):
            checks.flag(name, getattr(self, name))
        for name in ("steps", "batch_size", "accumulation", "muon_iterations"):
            checks.whole(name, getattr(self, name))
        for name in (
            "warmup",
            "muon_momentum_warmup",
            "seed",
            "evaluate_every",
            "save_every",
            "sample_every",
        ):
            checks.whole(name, getattr(self, name), at_least=0)
        checks.divisible("batch_size", self.batch_size, "accumulation", self.accumulation)
        checks.positive("eps", self.eps)
        for name in ("learning_rate", "embedding_rate", "head_rate", "norm_rate"):
            if name == "learning_rate" or getattr(self, name) is not None:
                checks.positive(name, getattr(self, name))
                _at_most(name, getattr(self, name), LARGEST_RATE)
        _at_most("muon_iterations", self.muon_iterations, MOST_ITERATIONS)
        for name in ("weight_decay", "clip"):
            checks.not_negative(name, getattr(self, name))
        if self.embedding_decay is not None:
            checks.not_negative("embedding_decay", self.embedding_decay)
        for name in ("muon_momentum", "muon_momentum_start"):
            checks.rate(name, getattr(self, name))
        if self.ema is not None:
            checks.rate("ema", self.ema)
        checks.not_negative("final_share", self.final_share)
        _at_most("final_share", self.final_share, 1)
        checks.instance("device", self.device, str)
        self._check_betas()

    def _check_betas(self) -> None:
        if not isinstance(self.betas, tuple) or len(self.betas) != 2:
            raise TypeError(f"betas={self.betas!r} must be a tuple of two numbers")
        for i, beta in enumerate(self.betas):
            checks.rate(f"betas[{i}]", beta)

    def replace(self, **changes: Any) -> "TrainingConfig":
        """Returns this config with some fields changed.

        Raises:
            ValueError: the result breaks a rule of `TrainingConfig`.
            TypeError: a name is not a field, or a value is of the wrong kind.
        """
        return replace(self, **changes)

    def differences(self, other: "TrainingConfig") -> list[str]:
        """Returns the fields in which `other` differs, each described as "name: mine, theirs"."""
        return [
            f"{f.name} was {getattr(self, f.name)!r} and is now {getattr(other, f.name)!r}"
            for f in fields(self)
            if f.name not in MAY_CHANGE and getattr(self, f.name) != getattr(other, f.name)
        ]

    @classmethod
    def from_fields(cls, given: dict[str, Any]) -> "TrainingConfig":
        """Returns the config with these fields, which were read from a file.

        Raises:
            ValueError: a field is unknown, missing or breaks a rule.
            TypeError: a field holds the wrong kind of thing.
        """
        required = [f.name for f in fields(cls) if f.default is MISSING]
        checks.fields("TrainingConfig", given, [f.name for f in fields(cls)], required)
        if isinstance(given.get("betas"), list):  # files have no tuples
            given = given | {"betas": tuple(given["betas"])}
        return cls(**given)


def _at_most(name: str, value: float | int, largest: float | int) -> None:
    if value > largest:
        raise ValueError(f"{name}={value} must be at most {largest:g}")
