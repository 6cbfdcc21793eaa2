"""Measures the numbers on the cards: losses next to the cost of guessing, right answers, samples."""

from __future__ import annotations

from copy import copy
from itertools import chain
from typing import Any

import numpy as np
import torch

from glassformer import nn
from glassformer.dates import TARGET_PLACES, date_pairs
from glassformer.generate import generate
from glassformer.tasks import NO_TARGET, NextToken
from glassformer.text import BytePairTokenizer, CharTokenizer
from glassformer.trace import trace
from glassformer.train.evaluate import loss_over
from glassformer.train.landmarks import landmarks

BEFORE = "the character before"  # a landmark
DIGITS = 4  # of the numbers on a card

# Formats that were not in the training data, and the right answers
STRANGE = {
    "the day was Friday the 23rd of November, 1984": "1984-11-23",
    "1984 on November 23": "1984-11-23",
    "23 Novembre 1984": "1984-11-23",
    "23-11-1984": "1984-11-23",
    "23 November 1784": "1784-11-23",
    "30 February 2001": "no such day",
    "no date at all": "no date",
}


def held_out(task: Any) -> dict[str, tuple[Any, Any]]:
    """Returns the held-out parts by name: a description of each, and a function that gives its batches."""
    parts = {"validation": (task.held_out, task.validation), "test": (task.for_test, task.test)}
    return {name: part for name, part in parts.items() if len(part[0])}


def losses(model: nn.Transformer, task: Any) -> dict[str, float]:
    """Returns the average loss over each part."""
    return {name: round(loss_over(model, batches()), DIGITS) for name, (_, batches) in held_out(task).items()}


def measured(model: nn.Transformer, tokenizer: Any, task: Any, ids: dict[str, int]) -> dict[str, Any]:
    """Measures a model as its family requires: numbers, and samples to read."""
    measure = {"decoder": decoder, "encoder": encoder, "encoder-decoder": encoder_decoder}
    return measure[model.config.family](model, tokenizer, task, ids)


def decoder(model: nn.Transformer, tokenizer: Any, task: NextToken, ids: dict[str, int]) -> dict[str, Any]:
    """Measures the loss at the model's own context and at 64 characters, the landmarks, and a text.

    A model of byte pairs is measured in nats per token, at its own context only; its card adds how many characters
    a token has, so that it can be compared with a model of characters. It leaves out the guess from the token before:
    most pairs of tokens occur once in a part, so counts from the part itself would nearly know the answer.
    """
    reads_characters = isinstance(tokenizer, CharTokenizer)
    unit = "character" if reads_characters else "token"
    tasks = [task]
    if reads_characters:
        tasks.append(copy(task))
        tasks[-1].length = min(64, task.length)
    begins, n_new, seed = "ROMEO:\n", 400, 0
    [sample] = generate(
        model,
        tokenizer.encode(begins),
        n_new,
        generator=np.random.default_rng(seed),
        temperature=0.8,
        past_context="slide",
    )
    return {
        "losses": {f"{it.length} {unit}s": losses(model, it) for it in tasks},
        "landmarks": {
            name: {
                what.replace("character", unit): round(nats, DIGITS)
                for what, nats in landmarks(ids, tokenizer.vocab_size).items()
                if reads_characters or what != BEFORE
            }
            for name, (ids, _) in held_out(task).items()
        },
        **({} if reads_characters else {"characters_per_token": characters_per_token(tokenizer, task)}),
        "sample": {
            "prompt": begins,
            "n_new": n_new,
            "temperature": 0.8,
            "seed": seed,
            "text": tokenizer.decode(sample),
        },
    }


def characters_per_token(tokenizer: BytePairTokenizer, task: NextToken) -> dict[str, float]:
    """Returns how many characters a token of each held-out part has on average."""
    return {
        name: round(len(tokenizer.decode(ids)) / len(ids), DIGITS)
        for name, (ids, _) in held_out(task).items()
    }


@torch.no_grad()
def encoder(model: nn.Transformer, tokenizer: Any, task: Any, ids: dict[str, int]) -> dict[str, Any]:
    """Measures how often the likeliest character is right, and the loss; also fills in some masked lines."""
    guesses, accuracy = {}, {}
    most_frequent = np.bincount(task.ids).argmax()
    for name, (part, batches) in held_out(task).items():
        right = asked = likely = 0
        for inputs, targets in batches():
            said = model(torch.from_numpy(inputs["ids"])).argmax(dim=-1).numpy()
            right += int((said == targets).sum())
            likely += int((most_frequent == targets).sum())
            asked += int((targets != NO_TARGET).sum())
        accuracy[name] = {
            "right": round(right / asked, DIGITS),
            "always the most frequent": round(likely / asked, DIGITS),
            "asked": asked,
        }
        found = landmarks(part, tokenizer.vocab_size)
        guesses[name] = {
            what: round(found[what], DIGITS)
            for what in ("every character alike", "how frequent each character is")
        }

    inputs, targets = next(task.validation())
    windows, lines = np.where(targets == NO_TARGET, inputs["ids"], targets)[:4], []
    covered = np.random.default_rng(0).random(windows.shape) < task.share
    filled = model(torch.from_numpy(np.where(covered, ids["mask"], windows).astype(np.int64)))
    filled = np.where(covered, filled.argmax(dim=-1).numpy(), windows)
    for window, hidden, guess in zip(windows, covered, filled, strict=True):
        shown = "".join("_" if h else c for c, h in zip(tokenizer.decode(window), hidden, strict=True))
        lines.append([shown, tokenizer.decode(guess), tokenizer.decode(window)])
    return {
        "losses": {"chosen characters": losses(model, task)},
        "landmarks": guesses,
        "accuracy": accuracy,
        "sample": lines,
    }


@torch.no_grad()
def encoder_decoder(model: nn.Transformer, tokenizer: Any, task: Any, ids: dict[str, int]) -> dict[str, Any]:
    """Measures how many dates are translated without an error, and where the decoder looks meanwhile."""

    def read(sources: list[str]) -> list[str]:
        encoded = [tokenizer.encode(source) for source in sources]
        found = generate(
            model, None, 11, temperature=0, source=encoded, start_id=ids["start"], stop_ids=[ids["stop"]]
        )
        return [tokenizer.decode(out[(out != ids["start"]) & (out != ids["stop"])]) for out in found]

    everything = date_pairs()
    accuracy, mistakes = {}, []
    for name, (places, _) in held_out(task).items():
        pairs = [everything[i] for i in places]
        answers = []
        for first in range(0, len(pairs), 256):
            answers += read([pair.source for pair in pairs[first : first + 256]])
        wrong = [
            [pair.source, answer, pair.target]
            for pair, answer in zip(pairs, answers, strict=True)
            if answer != pair.target
        ]
        accuracy[name] = {
            "right": round(1 - len(wrong) / len(pairs), DIGITS),
            "wrong": len(wrong),
            "asked": len(pairs),
        }
        mistakes += wrong
    return {
        "losses": {"characters of the answers": losses(model, task)},
        "accuracy": accuracy,
        "mistakes": mistakes[:5],
        "alignment": alignment(model, task),
        "sample": [list(row) for row in zip(STRANGE, read(list(STRANGE)), STRANGE.values(), strict=True)],
    }


def alignment(model: nn.Transformer, task: Any) -> dict[str, Any]:
    """Measures how often a head looks most at the source's year while writing the year; likewise for month and day.

    It uses all held-out days, for validation and for the test. For year, month and day it returns a list of layers,
    each a list of heads, and the fraction of the source that this part occupies: the score of random attention.
    """
    hits: dict[str, Any] = dict.fromkeys(TARGET_PLACES, 0)
    everything = date_pairs()
    pairs = [everything[i] for places, _ in held_out(task).values() for i in places]
    first = 0
    for inputs, _ in chain.from_iterable(batches() for _, batches in held_out(task).values()):
        with trace() as seen:
            model(**{name: torch.from_numpy(array) for name, array in inputs.items()})
        # (layers, B, H, T): the position in the source with the largest weight
        top = np.stack([w.argmax(dim=-1).numpy() for w in seen.arrays("weights", "cross-attention")])
        for part, target in TARGET_PLACES.items():
            places = [pair.places[part] for pair in pairs[first : first + len(inputs["ids"])]]
            start, stop = (
                np.array([getattr(p, end) for p in places])[:, None, None] for end in ("start", "stop")
            )
            # The decoder's position j says character j of the target.
            at = top[..., target]
            hits[part] += ((at >= start) & (at < stop)).mean(axis=-1).sum(axis=1)
        first += len(inputs["ids"])
    return {
        part: {
            "heads": np.round(hits[part] / len(pairs), DIGITS).tolist(),
            "anywhere": round(
                float(np.mean([(p.places[part].stop - p.places[part].start) / len(p.source) for p in pairs])),
                DIGITS,
            ),
        }
        for part in TARGET_PLACES
    }
