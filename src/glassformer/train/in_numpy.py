"""Training without PyTorch: the whole loop on one page."""

from collections.abc import Iterator
from typing import Any

from glassformer import _checks as checks
from glassformer.auxiliary import auxiliary_losses
from glassformer.scratch import (
    AdamW,
    Router,
    Transformer,
    clip_gradients,
    cross_entropy,
    cross_entropy_backward,
)
from glassformer.train.config import TrainingConfig
from glassformer.train.schedule import rate_share

# The only settings that this loop supports; `Trainer` supports others.
PLAIN = {
    "optimizer": "adamw",
    "accumulation": 1,
    "embedding_rate": None,
    "head_rate": None,
    "norm_rate": None,
    "embedding_decay": None,
    "init": "ours",
    "zero_init": False,
    "ema": None,
    "dtype": "float32",
    "compile": False,
}


def train_in_numpy(
    model: Transformer, task: Any, config: TrainingConfig, steps: int | None = None
) -> Iterator[float]:
    """Trains the model; each loss that the caller asks for takes one step.

    `task` is one of `glassformer.tasks`. This loop has only what a notebook needs: AdamW with one learning
    rate, the schedule and clipping. Its losses are those of `Trainer` with the same configuration and
    weights. `steps` stops before the end of the schedule.

    Derived in chapter 10.

    Raises:
        ValueError: the configuration needs something that only `Trainer` supports, or the task has a loss of its own.
        TypeError: the model is not one of `glassformer.scratch`.
    """
    checks.instance("model", model, Transformer)
    for field, plain in PLAIN.items():
        if getattr(config, field) != plain:
            raise ValueError(
                f"{field}={getattr(config, field)!r} needs Trainer and PyTorch: train_in_numpy supports only {plain!r}"
            )
    if hasattr(task, "loss"):
        raise ValueError(
            f"{type(task).__name__} has a loss of its own, which needs Trainer and PyTorch: "
            "train_in_numpy supports only the cross-entropy"
        )
    losses = _losses(model, task, config, config.steps if steps is None else min(steps, config.steps))
    return _with_auxiliary(losses)


def _with_auxiliary(losses: Iterator[float]) -> Iterator[float]:
    """Takes each step so that the auxiliary losses of layers are trained, too; they are not part of its loss."""
    while True:
        with auxiliary_losses():
            loss = next(losses, None)
        if loss is None:
            return
        yield loss


def _losses(
    model: Transformer,
    task: Any,
    config: TrainingConfig,
    steps: int,
) -> Iterator[float]:
    weights = model.named_parameters()
    optimizer = AdamW(
        model,
        betas=config.betas,
        eps=config.eps,
        weight_decay=config.weight_decay,
        no_decay=[  # gains and biases
            name for name, weight in weights.items() if weight.ndim < 2
        ],
    )
    model.train()
    for step in range(steps):
        inputs, targets = task.batch(step)
        saved = []
        logits = model(**inputs, saved=saved)
        loss = cross_entropy(logits, targets)

        model.zero_gradients()
        model.backward(cross_entropy_backward(logits, targets), saved)
        if config.clip:
            clip_gradients(model, config.clip)
        optimizer.learning_rate = config.learning_rate * rate_share(config, step)
        optimizer.step()
        for _, layer in model.layers():
            if isinstance(layer, Router) and layer.bias_rate:
                layer.update_choice_bias(layer.bias_rate)
        yield float(loss)
