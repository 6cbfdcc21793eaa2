"""Characters or byte pairs: the same small model reads either, with equal work, and is compared per byte."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Integer

from glassformer import _checks as checks
from glassformer import nn
from glassformer.config import ModelConfig
from glassformer.experiments.experiment import Experiment, Found
from glassformer.experiments.training import SMALL_MODERN, drawn, losses_in, read_in_windows, trained
from glassformer.tasks import NextToken
from glassformer.text import BytePairTokenizer, CharTokenizer, corpus
from glassformer.train.config import TrainingConfig
from glassformer.train.recipe import Recipe

T = 64  # tokens in a window, for both kinds
BATCH = 12  # windows per step
HELD_OUT = 0.1  # fraction of the text, at its end, that neither tokenizer nor model learns from

SIZES = (None, 512, 1024, 2048, 4096)  # sizes of the vocabulary; None: characters
READ_ALIKE = (1024,)  # also trained on an equal amount of text
EQUAL = ("work", "text")
SEEDS = (0, 1, 2)
STEPS = 500  # with characters; with byte pairs, as many as the same work or the same text allows


def measure(
    vocab_size: int | None,
    seed: int,
    equal: str = "work",
    steps: int = STEPS,
    every: int = 1,
    changes: Sequence[str] = (),
) -> Found:
    """Trains on one kind of tokens, then measures bits per byte of the held-out text.

    `vocab_size` is that of byte pairs; None stands for characters. `steps` is the number of steps for
    characters. Byte pairs get as many as make the work `equal`, counted by `work_of_a_token`, or as many as
    read the same amount of text. With `every`, only one in so many held-out windows is used.

    Derived in chapter 02.

    Raises:
        ValueError: `equal` is neither "work" nor "text", or the vocabulary is too small.
    """
    checks.one_of("equal", equal, EQUAL)
    read, _ = texts()
    tokenizer, ids, held_out = encoded(vocab_size)
    n_characters = tokenizer_of(read, None).vocab_size
    config = recipe_of(steps, seed, changes)[0].replace(vocab_size=tokenizer.vocab_size)
    by_characters = config.replace(vocab_size=n_characters)
    share = (
        work_of_a_token(by_characters) / work_of_a_token(config) if equal == "work" else len(ids) / len(read)
    )
    steps = round(steps * share)
    _, training = recipe_of(steps, seed, changes)

    model, task = drawn(config, seed), task_of(ids, held_out, seed)
    trained(model, task, training)
    nats, targets = losses(model, task.held_out, every)
    parts = config.parameter_count()
    return {
        "vocab_size": config.vocab_size,
        "characters_per_token": len(read) / len(ids),
        "steps": steps,
        "text_read": steps * BATCH * T / len(ids),  # in multiples of the whole text
        "work": steps * BATCH * T * work_of_a_token(config),
        "parameters": parts.total,
        "parameters_of_tables": parts["token embedding"] + parts["head"],
        "nats_per_token": float(nats.mean()),
        "bits_per_byte": bits_per_byte(nats, tokenizer.decode(targets)),
    }


def texts() -> tuple[str, str]:
    """Returns the text that is learned from, and the text that is held out."""
    text = corpus()
    n_read = int(len(text) * (1 - HELD_OUT))
    return text[:n_read], text[n_read:]


def encoded(vocab_size: int | None) -> tuple[CharTokenizer | BytePairTokenizer, np.ndarray, np.ndarray]:
    """Returns a tokenizer trained on the text that is learned from, and the ids of that text and of the other."""
    read, held_out = texts()
    tokenizer = tokenizer_of(read, vocab_size)
    return tokenizer, tokenizer.encode(read), tokenizer.encode(held_out)


def task_of(ids: np.ndarray, held_out: np.ndarray, seed: int) -> NextToken:
    """Returns a task whose last training window ends where the held-out text begins, for any kind of token."""
    together = np.concatenate([ids, held_out])
    return NextToken(together, T, BATCH, seed, validation=(len(held_out) - 0.5) / len(together))


def tokenizer_of(text: str, vocab_size: int | None) -> CharTokenizer | BytePairTokenizer:
    """Makes a tokenizer with the characters of a text, or with that many byte pairs."""
    if vocab_size is None:
        return CharTokenizer.from_text(text)
    return BytePairTokenizer.from_text(text, vocab_size)


def recipe_of(steps: int, seed: int, changes: Sequence[str] = ()) -> tuple[ModelConfig, TrainingConfig]:
    """Returns the small modern recipe: a configuration, still without its true vocabulary, and training settings."""
    run = (
        f"training.batch_size={BATCH}",
        f"training.seed={seed}",
        f"training.steps={steps}",
        "training.evaluate_every=0",
    )
    recipe = Recipe.of_the_book("modern", [*SMALL_MODERN, *run, *changes])
    sizes: dict[str, Any] = {"vocab_size": 2, "context_length": T}
    return ModelConfig(**recipe.model, **sizes), recipe.training


def work_of_a_token(config: ModelConfig) -> int:
    """Returns the multiplications and additions that training spends on one token of a full window.

    In the forward pass, each weight of a matrix takes one multiplication and one addition, and so does each
    number of a query for every key, and of every value that is averaged. The backward pass takes twice as
    much. Looking up a row takes none; softmax and the optimizer are left out.

    Source: Kaplan et al. 2020, "Scaling Laws for Neural Language Models", section 2.1.
    """
    parts = config.parameter_count()
    weights = parts["attention"] + parts["feed-forward"] + parts["head"]
    meetings = 2 * config.n_layers * config.context_length * config.n_heads * config.d_head
    return 3 * 2 * (weights + meetings)


def bits_per_byte(nats: Float[np.ndarray, " _"], text: str) -> float:
    """Returns the total surprise of these tokens, in bits, per byte of the text that they spell."""
    return float(nats.sum()) / math.log(2) / len(text.encode())


def losses(
    model: nn.Transformer, ids: Integer[np.ndarray, " N"], every: int = 1
) -> tuple[Float[np.ndarray, " _"], Integer[np.ndarray, " _"]]:
    """Returns the tokens' surprise, in nats, and the tokens; each is predicted once, after at least half a window.

    Windows begin half a window apart, and only the second half of each counts. The remainder at the end is
    not used.
    """
    nats, asked = [], []
    for windows in read_in_windows(ids, T, T // 2, every, at_a_time=24):
        each, targets = losses_in(model, windows)
        nats.append(each[:, T // 2 :].double().numpy().reshape(-1))
        asked.append(targets[:, T // 2 :].reshape(-1))
    return np.concatenate(nats), np.concatenate(asked)


EXPERIMENT = Experiment(
    name="tokens",
    question="Characters or byte pairs: which lets a small model guess a text better, byte for byte, at equal work?",
    measure=measure,
    runs=(
        *({"vocab_size": size, "equal": "work", "seed": seed} for seed in SEEDS for size in SIZES),
        *({"vocab_size": size, "equal": "text", "seed": seed} for seed in SEEDS for size in READ_ALIKE),
    ),
    short={
        "steps": 90,
        "every": 12,
        "changes": ["model.n_layers=1"],
    },
)
