"""Describes how a model is trained, as named choices: the other half of a run's description, beside `ModelConfig`."""

import json
from dataclasses import MISSING, asdict, dataclass, fields, replace
from typing import Any

from glassformer import _checks as checks
from glassformer.documents import json_object, toml_tables

TRAINING_CHOICES = {
    "optimizer": ("adamw", "muon"),
    "decay": ("linear", "cosine", "none"),
    "init": ("ours", "gpt2"),
    "dtype": ("float32", "bfloat16"),
}

# These say where and how it is computed, or what is looked at: they may differ when a run goes on.
MAY_CHANGE = ("accumulation", "evaluate_every", "save_every", "sample_every", "device", "compile")


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """Describes how a model is trained. Two sizes are the minimum.

    `batch_size` is what one step learns from, in all: however many processes share it and into however many
    pieces `accumulation` cuts it, the same steps follow, but for what rounding and dropout make of them. Sums are
    rounded in another order, and every step carries that on, Muon's most of all. With dropout each piece draws its
    own zeros: two processes do what one does with `accumulation=2`, not what one does with the whole batch.

    Derived in chapter 10.

    Raises:
        ValueError: a number or choice is outside its range. The message names the field, its value and the rule.
        TypeError: a field holds the wrong kind of thing.
    """

    # Sizes
    steps: int
    batch_size: int  # texts in one step
    accumulation: int = 1  # one after another, in so many pieces, where memory is short

    # The optimizer
    optimizer: str = "adamw"  # "muon" moves the matrices inside the blocks, and leaves the rest to AdamW
    learning_rate: float = 1e-3
    embedding_rate: float | None = None  # for embeddings; None: learning_rate
    head_rate: float | None = None  # for an untied head
    norm_rate: float | None = None  # for gains and biases
    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.1  # for matrices; gains and biases have none
    embedding_decay: float | None = None  # for embeddings; None: weight_decay
    muon_momentum: float = 0.95
    muon_momentum_start: float = 0.85  # it begins here …
    muon_momentum_warmup: int = 200  # … and takes so many steps
    muon_iterations: int = 4  # of Newton and Schulz, each nearer to an orthogonal matrix

    # The schedule of the learning rates
    warmup: int = 50  # steps of rising
    decay: str = "linear"
    final_share: float = 0.0  # what is left of the rate at the end
    clip: float = 1.0  # the gradient's length at most; 0: no clipping

    # The weights
    init: str = "ours"  # "gpt2": normal around 0 with deviation 0.02
    zero_init: bool = False  # what sublayers add starts at 0
    ema: float | None = None  # an average of the weights is kept, of which so much stays at each step

    # The run
    seed: int = 0
    evaluate_every: int = 250  # steps; 0: only at the end
    save_every: int = 1000  # 0: only at the end
    sample_every: int = 0  # 0: never
    device: str = "auto"  # "auto": CUDA or MPS if there is one
    dtype: str = "float32"  # "bfloat16": in matrix products; the weights stay as they are
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
        for name in ("learning_rate", "eps"):
            checks.positive(name, getattr(self, name))
        for name in ("embedding_rate", "head_rate", "norm_rate"):
            if getattr(self, name) is not None:
                checks.positive(name, getattr(self, name))
        for name in ("weight_decay", "clip"):
            checks.not_negative(name, getattr(self, name))
        if self.embedding_decay is not None:
            checks.not_negative("embedding_decay", self.embedding_decay)
        for name in ("muon_momentum", "muon_momentum_start"):
            checks.rate(name, getattr(self, name))
        if self.ema is not None:
            checks.rate("ema", self.ema)
        checks.not_negative("final_share", self.final_share)
        if self.final_share > 1:
            raise ValueError(f"final_share={self.final_share} must be at most 1")
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
            TypeError: a name is no field, or a value is of the wrong kind.
        """
        return replace(self, **changes)

    def differences(self, other: "TrainingConfig") -> list[str]:
        """Returns the fields in which `other` differs, each as "name: mine, theirs" in words."""
        return [
            f"{f.name} was {getattr(self, f.name)!r} and is now {getattr(other, f.name)!r}"
            for f in fields(self)
            if f.name not in MAY_CHANGE and getattr(self, f.name) != getattr(other, f.name)
        ]

    # Files

    def to_json(self) -> str:
        """Returns every field in its order."""
        return json.dumps(asdict(self), indent=2)

    def to_toml(self) -> str:
        """Returns every field in its order, a line each; what is None is left out, since TOML has no word for it."""
        # For numbers, booleans, strings and lists of them, TOML's notation is JSON's.
        given = {name: value for name, value in asdict(self).items() if value is not None}
        return "".join(f"{name} = {json.dumps(value)}\n" for name, value in given.items())

    @classmethod
    def from_json(cls, text: str) -> "TrainingConfig":
        """The config that `to_json` wrote; fields that have a default may be missing.

        Raises:
            ValueError: `text` is no JSON object, a field is unknown, missing or breaks a rule.
            TypeError: a field holds the wrong kind of thing.
        """
        return cls.from_fields(json_object(text, "text"))

    @classmethod
    def from_toml(cls, text: str) -> "TrainingConfig":
        """The config that `to_toml` wrote; fields that have a default may be missing.

        Raises:
            ValueError: `text` is not TOML, a field is unknown, missing or breaks a rule.
            TypeError: a field holds the wrong kind of thing.
        """
        return cls.from_fields(toml_tables(text, "text"))

    @classmethod
    def from_fields(cls, given: dict[str, Any]) -> "TrainingConfig":
        """The config with these fields, which came from outside.

        Raises:
            ValueError: a field is unknown, missing or breaks a rule.
            TypeError: a field holds the wrong kind of thing.
        """
        required = [f.name for f in fields(cls) if f.default is MISSING]
        checks.fields("TrainingConfig", given, [f.name for f in fields(cls)], required)
        if isinstance(given.get("betas"), list):  # files have no tuples
            given = given | {"betas": tuple(given["betas"])}
        return cls(**given)
