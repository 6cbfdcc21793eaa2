"""One matrix at both ends, or two: what is gained by tying the head to the embedding, at equal parameter counts?"""

from functools import cache
from typing import Any

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.experiments.experiment import Experiment, Found
from glassformer.experiments.tokens import T, bits_per_byte, encoded, losses, task_of
from glassformer.experiments.training import drawn, plan, trained

D_MODEL, N_LAYERS, N_HEADS = 32, 2, 2
SIZES = (None, 1024)  # sizes of the vocabulary; None: characters
STEPS = (
    50,
    100,
    200,
)  # steps of three runs, each with its own schedule; characters get only the longest
RATE = 3e-3  # of three tried at twice the width: the best for a tied model, next to it for an untied one
SEEDS = (0, 1, 2)
EVERY = 4  # one in this many held-out windows is used

# Changes to GPT-2's shape if the head has its own matrix. The last of each list has as many parameters as
# "tied", within one in a thousand: the second matrix is paid for elsewhere.
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


encoded_once = cache(encoded)


def config_of(vocab_size: int, arm: dict[str, Any]) -> ModelConfig:
    """Returns a small model with GPT-2's choices, some of which `arm` changes."""
    sizes: dict[str, Any] = {"d_model": D_MODEL, "n_layers": N_LAYERS, "n_heads": N_HEADS}
    return ModelConfig(vocab_size=vocab_size, context_length=T, **sizes | arm)


def measure(
    vocab_size: int | None,
    arm: str,
    steps: int,
    seed: int,
    every: int = EVERY,
) -> Found:
    """Trains a small GPT whose head is tied to the embedding or not, then measures bits per byte of held-out text.

    `vocab_size` is that of byte pairs, None stands for characters; `arm` is a name in `ARMS`. Both kinds
    start with the same small weights, use one learning rate for all of them, and read the same tokens in the
    same order. With `every`, only one in so many held-out windows is used.

    Derived in chapter 08.

    Raises:
        ValueError: `vocab_size` or `arm` is not one of the compared choices.
    """
    if vocab_size not in SIZES:
        raise ValueError(f"vocab_size={vocab_size!r} is not one of those that are compared: {SIZES}")
    checks.one_of("arm", arm, tuple(ARMS[vocab_size]))
    tokenizer, ids, held_out = encoded_once(vocab_size)
    task = task_of(ids, held_out, seed)
    config = config_of(tokenizer.vocab_size, ARMS[vocab_size][arm])
    model = drawn(config, seed)
    trained(model, task, plan(task, steps=steps, learning_rate=RATE, init="gpt2", seed=seed))
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
