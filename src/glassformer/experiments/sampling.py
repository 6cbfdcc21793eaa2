"""Measures how the book's model writes with each strategy: entropy, existing words, repeats."""

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float, Int64

from glassformer import _checks as checks
from glassformer import shipped
from glassformer.experiments.experiment import Experiment, Found
from glassformer.generate import beam_search, distribution, generate
from glassformer.scratch import Transformer
from glassformer.text import corpus, split

N_TEXTS, N_PIECES, PIECE = 10, 6, 64  # 10 texts of 6 · 64 = 384 characters per run
N_GRAM = 10  # a repeat is a run of this many characters that occurred earlier in the same text
SEEDS = (0, 1, 2)

STRATEGIES: dict[str, Callable[[float], dict[str, Any]]] = {
    "temperature": lambda x: {"temperature": x},
    "top_k": lambda x: {"top_k": x},
    "top_p": lambda x: {"top_p": x},
    "min_p": lambda x: {"min_p": x},
    "top_p at 1.5": lambda x: {"temperature": 1.5, "top_p": x},
    "min_p at 1.5": lambda x: {"temperature": 1.5, "min_p": x},
}
WRITERS = ("text", "greedy", "beam", *STRATEGIES)
SETTINGS: dict[str, tuple[float | int | None, ...]] = {
    "text": (None,),  # Shakespeare's own text: the held-out continuation of each prompt
    "greedy": (None,),
    "beam": (2, 4, 8),
    "temperature": (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.5),
    "top_k": (2, 5, 20),
    "top_p": (0.5, 0.8, 0.95),
    "min_p": (0.02, 0.1, 0.3),
    "top_p at 1.5": (0.8,),
    "min_p at 1.5": (0.1,),
}
LINES = (("text", None), ("greedy", None), ("temperature", 1.0), ("beam", 4), ("beam", 8))


def measure(
    part: str,
    writer: str,
    setting: float | int | None,
    seed: int,
    length_penalty: float | None = None,
    n_texts: int = N_TEXTS,
    n_pieces: int = N_PIECES,
    piece: int = PIECE,
) -> Found:
    """Measures a writer's texts after held-out prompts; the seed determines the prompts and the draws.

    "texts": each text is continued by `n_pieces` pieces of `piece` characters. Before each piece the model
    reads the last `piece` again, so that it stays within its context. Beam search searches one piece at a
    time. The results are means over the characters, in nats: the "entropy" of the distributions that were
    drawn from, the "model entropy" before the strategy, and the "log p" that the model gives to what was
    written. Then, as fractions: the "words" that occur in the training text, and the "repeats", runs of 10
    characters that occurred earlier in the same text. "first" is the log-probability of each text's first
    piece, and "sample" is the first text.

    "lines": prompts end with a complete line, and the writer adds one line. The results are the "lengths" of
    these lines, with the newline, and their "log p"s. Beam search divides a text's log-probability by its
    length to the power `length_penalty`.

    Derived in chapter 11.

    Raises:
        ValueError: there is no such part or writer.
    """
    checks.one_of("part", part, ("texts", "lines"))
    checks.one_of("writer", writer, WRITERS)
    model, tokenizer = shipped.load()
    training, held_out = split(tokenizer.encode(corpus()))
    generator = np.random.default_rng(seed)
    if part == "lines":
        newline = int(tokenizer.encode("\n")[0])
        ends = np.flatnonzero(held_out[:-piece] == newline) + 1
        ends = generator.choice(ends[ends >= piece], n_texts, replace=False)
        options = {"stop_ids": [newline], "generator": generator}
        return lines(model, held_out, ends, piece, writer, setting, length_penalty, options)
    ends = generator.integers(piece, len(held_out) - n_pieces * piece, n_texts)
    texts = held_out[ends[:, None] + np.arange(-piece, n_pieces * piece)]  # real, prompts included
    strategy = strategy_of(writer, setting)
    found: dict[str, list] = {"entropy": [], "model entropy": [], "log p": []}
    for start in range(piece, piece * (n_pieces + 1), piece):
        prompts = texts[:, start - piece : start]
        if writer != "text":
            new = [
                text[piece:] for text in written(model, prompts, piece, writer, setting, generator=generator)
            ]
            texts[:, start : start + piece] = new
        logits = model(texts[:, start - piece : start + piece - 1])[:, piece - 1 :]
        log_p = np.log(distribution(logits))
        p = distribution(logits, **strategy)
        new = texts[:, start : start + piece]
        found["log p"].append(np.take_along_axis(log_p, new[..., None], axis=-1)[..., 0])
        found["entropy"].append(entropy(p))
        found["model entropy"].append(entropy(np.exp(log_p)))
    as_text = [tokenizer.decode(ids) for ids in texts[:, piece:]]
    return {
        **{name: float(np.mean(pieces)) for name, pieces in found.items()},
        "words": share_of_words(as_text, words_of(tokenizer.decode(training))),
        "repeats": share_of_repeats(as_text),
        "first": found["log p"][0].sum(axis=-1).tolist(),
        "prompt": tokenizer.decode(texts[0, :piece]),
        "sample": as_text[0],
    }


def strategy_of(writer: str, setting: Any) -> dict[str, Any]:
    """Returns the options for `distribution`; none for writers that do not sample."""
    if writer == "greedy":
        return {"temperature": 0}
    return STRATEGIES[writer](setting) if writer in STRATEGIES else {}


def written(
    model: Transformer,
    prompts: Any,
    n_new: int,
    writer: str,
    setting: Any,
    length_penalty: float | None = None,
    **options: Any,
) -> list[Int64[np.ndarray, " _"]]:
    """Returns each prompt with the writer's continuation."""
    if writer == "beam":
        del options["generator"]  # it draws nothing
        if length_penalty is not None:
            options["length_penalty"] = length_penalty
        return [text for text, _ in beam_search(model, prompts, n_new, n_beams=setting, **options)]
    return generate(model, prompts, n_new, **strategy_of(writer, setting), **options)


def lines(
    model: Transformer,
    held_out: Int64[np.ndarray, " N"],
    ends: Int64[np.ndarray, " B"],
    piece: int,
    writer: str,
    setting: float | int | None,
    length_penalty: float | None,
    options: dict[str, Any],
) -> Found:
    """Returns the length and log-probability of the next line after each of these positions."""
    [newline] = options["stop_ids"]
    prompts = [held_out[end - piece : end] for end in ends]
    if writer == "text":
        texts = []
        for end in ends:
            stops = np.flatnonzero(held_out[end : end + piece] == newline)
            texts.append(held_out[end - piece : end + (stops[0] + 1 if len(stops) else piece)])
    else:
        texts = written(model, prompts, piece, writer, setting, length_penalty, **options)
    log_p = []
    for text in texts:
        rows = np.log(distribution(model(text[:-1])[piece - 1 :]))
        log_p.append(float(np.take_along_axis(rows, text[piece:, None], axis=-1).sum()))
    return {"lengths": [len(text) - piece for text in texts], "log p": log_p}


def entropy(p: Float[np.ndarray, "*B V"]) -> Float[np.ndarray, "*B"]:
    """Returns −Σ p ln p of every distribution, in nats."""
    return -(p * np.log(np.where(p > 0, p, 1))).sum(axis=-1)


@cache
def words_of(text: str) -> frozenset[str]:
    """Returns the distinct words of a text in lower case; an apostrophe inside a word belongs to it."""
    return frozenset(re.findall(r"[a-z]+(?:'[a-z]+)*", text.lower()))


def share_of_words(texts: list[str], known: frozenset[str]) -> float:
    """Returns the share of known words; the first and last word of a text may be cut off and do not count."""
    words = []
    for text in texts:
        words += re.findall(r"(?<=[^a-z'])[a-z]+(?:'[a-z]+)*(?=[^a-z'])", text.lower())
    return sum(word in known for word in words) / max(1, len(words))


def share_of_repeats(texts: list[str], n: int = N_GRAM) -> float:
    """Returns the share of all runs of n characters that occurred earlier in the same text."""
    n_runs = n_new = 0
    for text in texts:
        runs = [text[i : i + n] for i in range(len(text) - n + 1)]
        n_runs += len(runs)
        n_new += len(set(runs))
    return 1 - n_new / max(1, n_runs)


EXPERIMENT = Experiment(
    name="sampling",
    question="How does a model write under each strategy, beside the text that it learned from?",
    measure=measure,
    runs=(
        *(
            {"part": "texts", "writer": writer, "setting": setting, "seed": seed}
            for seed in SEEDS
            for writer in WRITERS
            for setting in SETTINGS[writer]
        ),
        *(
            {"part": "lines", "writer": writer, "setting": setting, "seed": seed}
            | ({"length_penalty": penalty} if writer == "beam" else {})
            for seed in SEEDS
            for writer, setting in LINES
            for penalty in ((0.0, 1.0) if writer == "beam" else (None,))
        ),
    ),
    short={"n_texts": 4, "n_pieces": 1, "piece": 32},
)
