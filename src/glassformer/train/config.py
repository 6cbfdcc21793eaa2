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

    Raises:
        ValueError: a number or choice is outside its range. The message names the field, its value and the rule.
        TypeError: a field holds the wrong kind of thing.
    """

    # Sizes
    steps: int
    batch_size: int  # texts in one step
    accumulation: int = 1  # pieces of a batch, computed one after another to save memory

    # The optimizer
    optimizer: str = "adamw"  # "muon" trains the matrices inside the blocks and leaves the rest to AdamW
    learning_rate: float = 1e-3
    embedding_rate: float | None = None  # for embeddings; None: learning_rate
    head_rate: float | None = None  # for an untied head
    norm_rate: float | None = None  # for gains and biases
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.1  # for matrices; gains and biases have none
    embedding_decay: float | None = None  # for embeddings; None: weight_decay
    muon_momentum: float = 0.95
    muon_momentum_start: float = 0.85  # the momentum starts here …
    muon_momentum_warmup: int = 200  # … and rises for so many steps
    muon_iterations: int = 4  # Newton–Schulz iterations, each closer to an orthogonal matrix

    # The schedule of the learning rates
    warmup: int = 50  # steps in which the rate rises
    decay: str = "linear"
    final_share: float = 0.0  # fraction of the rate that is left at the end
    clip: float = 1.0  # maximal length of the gradient; 0: no clipping

    # The weights of a new model, as `initialize` draws them; the rest of training leaves these two alone
    init: str = "ours"  # "gpt2": normal with mean 0 and standard deviation 0.02
    zero_init: bool = False  # the output of every sublayer starts at 0

    # The average
    ema: float | None = None  # keeps a running average of the weights; this fraction of it stays at each step

    # The run
    seed: int = 0
    evaluate_every: int = 250  # steps; 0: only at the end
    save_every: int = 1000  # 0: only at the end
    sample_every: int = 0  # 0: never
    device: str = "auto"  # "auto": CUDA or MPS if there is one; the run names its choice
    dtype: str = "float32"  # "bfloat16": only in matrix products; the weights stay float32
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
