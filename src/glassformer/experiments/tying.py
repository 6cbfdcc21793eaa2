"""One matrix at both ends, or two: what tying the head to the embedding buys, at equal parameters."""

from functools import cache
from typing import Any

import numpy as np
import torch

from glassformer import _checks as checks
from glassformer import nn
from glassformer.config import ModelConfig
from glassformer.experiments.experiment import Experiment, Found
from glassformer.experiments.tokens import BATCH, HELD_OUT, T, bits_per_byte, losses, tokenizer_of
from glassformer.tasks import NextToken
from glassformer.text import BytePairTokenizer, CharTokenizer, corpus
from glassformer.train import Trainer, TrainingConfig

D_MODEL, N_LAYERS, N_HEADS = 32, 2, 2
SIZES = (None, 1024)  # of the vocabulary; None: characters
STEPS = (
    50,
    100,
    200,
)  # of three trainings, each with a schedule of its own; characters get the longest alone
RATE = 3e-3  # of three that were tried at twice the width: the best for a tied model, and next to it for an untied one
SEEDS = (0, 1, 2)
EVERY = 4  # of the held-out windows, so many are left out but one

# What becomes of GPT-2's shape where the head has a matrix of its own. The last of each has as many parameters as
# "tied", to one in a thousand: what the second matrix takes is saved elsewhere.
ARMS: dict[int | None, dict[str, dict[str, Any]]] = {
    None: {
        "tied": {},
        "untied": {"head": "untied"},
        "untied, thinner": {"head": "untied", "d_ff": 112},
    },
    1024: {
        "tied": {},
        "untied": {"head": "untied"},
        "untied, narrower": {"head": "untied", "d_model": 22, "d_ff": 106},
    },
}


def config_of(vocab_size: int, arm: dict[str, Any]) -> ModelConfig:
    """GPT-2's choices, small; `arm` changes some."""
    sizes: dict[str, Any] = {"d_model": D_MODEL, "n_layers": N_LAYERS, "n_heads": N_HEADS}
    return ModelConfig(vocab_size=vocab_size, context_length=T, **sizes | arm)


@cache
def encoded(vocab_size: int | None) -> tuple[CharTokenizer | BytePairTokenizer, np.ndarray, np.ndarray]:
    """A tokenizer of the text that is read, and the ids of that and of what is held out."""
    text = corpus()
    n_read = int(len(text) * (1 - HELD_OUT))
    tokenizer = tokenizer_of(text[:n_read], vocab_size)
    return tokenizer, tokenizer.encode(text[:n_read]), tokenizer.encode(text[n_read:])


def measure(
    vocab_size: int | None,
    arm: str,
    steps: int,
    seed: int,
    every: int = EVERY,
) -> Found:
    """Train a small GPT whose head is tied to the embedding or not, then measure bits per byte of held-out text.

    `vocab_size` is that of byte pairs, None stands for characters; `arm` is a name in `ARMS`. Both kinds begin with
    the same small weights, learn at one rate for all of them, and read the same tokens in the same order. `every`
    takes only every so many of the held-out windows.

    Derived in chapter 08.

    Raises:
        ValueError: `vocab_size` or `arm` is not one of those that are compared.
    """
    if vocab_size not in SIZES:
        raise ValueError(f"vocab_size={vocab_size!r} is not one of those that are compared: {SIZES}")
    checks.one_of("arm", arm, tuple(ARMS[vocab_size]))
    tokenizer, ids, held_out = encoded(vocab_size)
    together = np.concatenate([ids, held_out])
    task = NextToken(together, T, BATCH, seed, validation=(len(held_out) - 0.5) / len(together))

    config = config_of(tokenizer.vocab_size, ARMS[vocab_size][arm])
    model = nn.Transformer(config, generator=torch.Generator().manual_seed(seed))
    training = TrainingConfig(
        steps=steps,
        batch_size=BATCH,
        learning_rate=RATE,
        init="gpt2",
        seed=seed,
        evaluate_every=0,
        device="cpu",
    )
    Trainer(model, task, training, progress=False).run()
    nats, targets = losses(model, task.held_out, every)
    return {
        "parameters": config.parameter_count().total,
        "bits_per_byte": bits_per_byte(nats, tokenizer.decode(targets)),
    }


EXPERIMENT = Experiment(
    name="tying",
    question="What does it buy to use one matrix for the embedding and the head, at equal parameters?",
    measure=measure,
    runs=tuple(
        {"vocab_size": size, "arm": arm, "steps": steps, "seed": seed}
        for seed in SEEDS
        for size in SIZES
        for steps in STEPS
        for arm in ARMS[size]
        if size is not None or steps == max(STEPS)
    ),
    short={"every": 40},
)
