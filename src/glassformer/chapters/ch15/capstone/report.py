"""Reports on what was made: a run's card next to the book's, and the parts, with the reader's own lines and sizes."""

import contextlib
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from glassformer.contents import chapter
from glassformer.exercises.attempt import NotAttempted
from glassformer.exercises.expect import Wrong, as_numbers
from glassformer.exercises.panel import Panel, Table
from glassformer.exercises.session import as_it_was, untouched_randomness
from glassformer.exercises.timelimit import OutOfTime, Stop, call_within
from glassformer.published import published
from glassformer.text import CharTokenizer, corpus, split_in_three

from .adapter import GPT, Cache
from .measures.lines import lines_of
from .stages import STAGES
from .stages.weights import runs_what_it_loads

NEW = 300  # characters that each writes
SECONDS = 30.0
STAR = "shipped"
UNFINISHED = (NotAttempted, Wrong)


def beside(folder: Path) -> tuple[Table, str, str]:
    """Compares a run with the shipped model: a table of what their cards say, and what each writes.

    Raises:
        FileNotFoundError: there is no such run.
        ValueError: it is not a decoder of characters with a recipe, or its text is too short.
    """
    from glassformer import checkpoints, pretrained, shipped
    from glassformer.generate import generate
    from glassformer.tasks import NextToken
    from glassformer.train.evaluate import loss_over
    from glassformer.train.own_files import OwnText
    from glassformer.train.recipe import FROM, Recipe

    if not (folder / "recipe.toml").is_file():
        raise FileNotFoundError(
            f"{folder} has no recipe.toml: `python -m glassformer train {shipped.as_typed(folder)}` makes a run"
        )
    checkpoint = checkpoints.load(folder)
    recipe = Recipe.from_toml((folder / "recipe.toml").read_text(encoding="utf-8"))
    found = pretrained.stored(folder)
    config, tokenizer, weights, _ = found
    if config.family != "decoder":
        raise ValueError(
            f"{folder} is a run of another family: this card is for a decoder, which continues texts"
        )
    if not isinstance(tokenizer, CharTokenizer):
        reads = "byte pairs" if tokenizer else "ids without a tokenizer"
        raise ValueError(f"{folder} is a run that reads {reads}: this card counts characters")
    begun = recipe.model.get(FROM)  # its configuration and tokenizer are those of the run
    _, task, _ = recipe.made_for(
        OwnText(recipe.data.text, recipe.data.document_end), None if begun is None else found
    )
    assert isinstance(task, NextToken)
    model = checkpoints.model_of(config, weights, room="nn")
    theirs = dict(shipped.card())
    theirs["losses"] = next(iter(theirs["losses"].values()))
    both = {"validation": (task.held_out, task.validation), "test": (task.for_test, task.test)}
    kept = {part: (ids, batches) for part, (ids, batches) in both.items() if len(ids)}
    if not kept:
        raise ValueError(
            f"{folder} is a run with data.validation=0 and data.test=0: this card compares losses on text set aside"
        )
    asides = [ids for ids, _ in kept.values()]
    mine: dict[str, Any] = {
        "losses": {part: loss_over(model, batches()) for part, (_, batches) in kept.items()}
    }
    mine["guesses"] = guesses(task.ids, asides[-1], tokenizer.vocab_size)
    its_tokenizer = shipped.load()[1]
    read, _, aside = split_in_three(its_tokenizer.encode(corpus()), 0.05, 0.05)
    theirs["guesses"] = guesses(read, aside, its_tokenizer.vocab_size)
    how = {"temperature": 0.8, "generator": np.random.default_rng(0), "past_context": "slide"}
    [ids] = generate(model, asides[0][:1], NEW, **how)
    plan, its = recipe.training, theirs["recipe"]["training"]
    rows: list[tuple[str, ...]] = [
        ("characters read", f"{len(task.ids):,}", f"{int(len(corpus()) * 0.9):,}"),
        ("different characters", f"{tokenizer.vocab_size}", f"{theirs['characters']}"),
        ("parameters", f"{config.parameter_count().total:,}", f"{theirs['parameters']:,}"),
        ("context", f"{config.context_length}", f"{theirs['context_length']}"),
        (
            "steps × texts",
            f"{checkpoint.step:,} × {plan.batch_size}",
            f"{its['steps']:,} × {its['batch_size']}",
        ),
    ]
    for part in ("validation", "test"):
        rows.append((f"{part} loss", *(_shown(card["losses"].get(part)) for card in (mine, theirs))))
    for what, nats in mine["guesses"].items():
        rows.append((f"guessing: {what}", f"{nats:.3f}", f"{theirs['guesses'][what]:.3f}"))
    saved = [card["guesses"]["bigram"] - list(card["losses"].values())[-1] for card in (mine, theirs)]
    rows.append(("better than bigram by", *(f"{nats:.3f}" for nats in saved)))
    closing = (
        "Losses are in nats per character. Losses on two different texts cannot be compared, so compare how far each "
        "lies below the losses of guessing on its own text. The guesses use counts from the training part, and are "
        "measured like the last loss, on the test part, which no choice should depend on."
    )
    if "test" not in mine["losses"]:
        closing += " Your run kept none, so its guesses, too, are measured on the validation part."
    if begun is not None:
        closing += (
            f" Your run began with the weights of {begun}. What that model had read before is not counted here, in the "
            "characters, the steps or the guesses. If it had read the text set aside, your losses are lower than they "
            "would be on a new text, and the card cannot tell."
        )
    table = Table("Your run beside the book's model", ("", "yours", "the book's"), rows, closing)
    return table, tokenizer.decode(ids), theirs["sample"]["text"][:NEW]


def guesses(read: np.ndarray, aside: np.ndarray, vocab_size: int) -> dict[str, float]:
    """Computes what guessing from counts of the text read costs on the text set aside, in nats a character.

    One is added to each count, so that nothing is impossible, as in chapter 09.
    """
    V = vocab_size
    single = np.bincount(read, minlength=V) + 1
    pairs = np.bincount(read[:-1] * V + read[1:], minlength=V * V).reshape(V, V) + 1
    by_single, by_pair = (np.log(counts / counts.sum(axis=-1, keepdims=True)) for counts in (single, pairs))
    found = {
        "blindly": np.log(V),
        "unigram": -by_single[aside[1:]].mean(),
        "bigram": -by_pair[aside[:-1], aside[1:]].mean(),
    }
    return {what: round(float(nats), 4) for what, nats in found.items()}


def _shown(nats: float | None) -> str:
    return "none kept" if nats is None else f"{nats:.3f}"


def _not_shown(why: str) -> Panel:
    return Panel("What you built cannot be shown yet", [("", why)], mood="bad")


NOT_SHOWN = _not_shown(f"It was still running after {SECONDS:g} s.")


@untouched_randomness()
def parts(adapter: Any, done: Sequence[str]) -> Table | Panel:
    """Lists the parts: the chapter, how many lines of the reader's own ran, the sizes, and GPT-2's."""

    def run() -> dict[str, Any] | str:
        try:
            return _looked_at(GPT(adapter))
        except Stop:
            raise
        except BaseException as error:
            return str(error) or type(error).__name__

    try:
        with as_it_was():
            found = call_within(SECONDS, run)
    except OutOfTime:
        return NOT_SHOWN
    if isinstance(found, str):
        return _not_shown(found)
    theirs, rows = _of_gpt2(), []
    for name, stage in STAGES.items():
        if name != STAR:
            built_in = f"{stage.words.chapter} {chapter(stage.words.chapter).title}"
            mine = str(found["lines"].get(name, "")), found["sizes"].get(name, "")
            rows.append(
                (stage.words.title, built_in, "✓" if name in done else "", *mine, theirs.get(name, ""))
            )
    total = sum(found["lines"].values())
    closing = f"{total} lines of yours ran. GPT-2 has {published('gpt2').config.parameter_count().total:,} parameters"
    closing += f", your GPT {found['total']:,}." if found["total"] else "."
    star = " Your code also runs the book's model: the star is yours." if STAR in done else ""
    heads = ("part", "chapter", "done", "your lines", "your GPT", "GPT-2 (2019)")
    return Table("What you built, beside GPT-2", heads, rows, f"{closing}{star}")


def _of_gpt2() -> dict[str, str]:
    """Returns the sizes of its parts, each counted from its configuration."""
    c = published("gpt2").config
    block = c.replace(n_layers=2).parameter_count().total - c.replace(n_layers=1).parameter_count().total
    return {
        "tokenizer": f"{c.vocab_size:,} pieces",
        "embedding": f"{c.vocab_size:,} × {c.d_model}",
        "attention": f"{c.n_heads} heads of {c.d_head}",
        "block": f"{c.n_layers} blocks, each with {block:,} numbers",
        "model": f"reads {c.context_length:,}",
        "loss": f"ln V = {math.log(c.vocab_size):.2f}",
    }


def _looked_at(gpt: GPT) -> dict[str, Any]:
    """Runs each piece once, and counts the lines of the reader's own that run for the first time."""
    seen: set[tuple[str, int]] = set()
    lines: dict[str, int] = {}
    for stage, pieces in _trials(gpt).items():
        before = len(seen)
        for piece in pieces:
            with contextlib.suppress(*UNFINISHED):
                seen |= lines_of(piece)
                lines[stage] = len(seen) - before
    V, total = gpt.vocab_size, 0
    sizes = {
        "tokenizer": f"{V:,} ids",
        "loss": f"ln V = {math.log(V):.2f}",
        "model": f"reads {gpt.context_length:,}",
    }
    with contextlib.suppress(*UNFINISHED):
        sizes["embedding"] = f"{V:,} × {gpt.width}"
    blocks: list[int] = []
    with contextlib.suppress(*UNFINISHED):
        weights = {name: as_numbers(one, "a weight") for name, one in gpt.arrays("weights").items()}
        blocks, total = _blocks(weights), sum(one.size for one in weights.values())
    if blocks:
        count = "1 block with" if len(blocks) == 1 else f"{len(blocks)} blocks, each with"
        sizes["block"] = f"{count} {blocks[0]:,} numbers"
    with contextlib.suppress(*UNFINISHED):
        heads = _heads(gpt, len(blocks))
        if heads and gpt.width % heads == 0:
            sizes["attention"] = f"{heads} head{'s' * (heads > 1)} of {gpt.width // heads}"
    return {"lines": lines, "sizes": sizes, "total": total}


def _heads(gpt: GPT, blocks: int) -> int:
    """Counts the heads of a block, as far as they can be seen while the model runs; 0 if they cannot.

    Scores are arrays (…, T, T) among the local variables of the reader's code, for a T that is no other size. A
    function that has some for all heads is called once for each block; one that has them for one head, for each head.
    """
    T = next(n for n in (13, 11, 7) if n != gpt.vocab_size)
    heads: dict[Any, int] = {}  # by frame

    def look(frame: Any) -> None:
        for value in list(frame.f_locals.values()):
            shape = getattr(value, "shape", None)  # of a module such as NumPy, it is a function
            if isinstance(shape, tuple) and len(shape) > 2 and shape[-2:] == (T, T):
                heads[frame] = max(math.prod(shape[:-2]), heads.get(frame, 0))

    lines_of(lambda: gpt.call("logits", np.arange(T) % gpt.vocab_size), look)
    most = max(heads.values(), default=0)
    if most != 1:
        return most
    calls = Counter(frame.f_code for frame in heads).values()
    return min((n // blocks for n in calls if blocks and n % blocks == 0), default=0)


def _blocks(weights: Mapping[str, np.ndarray]) -> list[int]:
    """Returns how many numbers each block has; blocks are weights whose names differ by one number alone."""
    sizes: Counter[tuple[str, str]] = Counter()
    for name, weight in weights.items():
        number = re.search(r"(?<![A-Za-z])\d+|(?<=[a-z_])\d+(?=[._])", name)
        if number is not None:
            sizes[name[: number.start()], number[0]] += weight.size
    for stack, _ in sizes:
        each = [size for (name, _), size in sizes.items() if name == stack]
        if len(set(each)) == 1:
            return each
    return []


def _trials(gpt: GPT) -> dict[str, list[Callable[[], Any]]]:
    """Returns functions that run each stage's pieces once."""
    ids, text = np.arange(8) % gpt.vocab_size, "A horse!"
    qkv = np.random.default_rng(0).normal(size=(3, 2, 8, 4))
    kept = Cache()

    def writes(piece: str) -> list[Callable[[], Any]]:
        return [lambda t=t: gpt.call(piece, ids, 3, t, 0) for t in (0, 1.0)]

    return {
        "tokenizer": [lambda: gpt.call("encode", text), lambda: gpt.call("decode", ids)],
        "embedding": [lambda: gpt.call("embed", ids)],
        "attention": [lambda c=c: gpt.call("attention", *qkv, c) for c in (True, False)],
        "block": [lambda: gpt.call("block", np.random.default_rng(1).normal(size=(8, gpt.width)))],
        "model": [lambda: gpt.call("logits", ids)],
        "loss": [lambda: gpt.call("loss", ids, ids), lambda: gpt.call("gradients", ids, ids)],
        "training": [lambda: gpt.call("learn", ids, ids)],
        "generation": writes("generate"),
        "weights": [lambda: runs_what_it_loads(gpt)],
        "cache": [*(lambda i=i: gpt.call("step", i, kept) for i in (0, 1)), *writes("generate_cached")],
    }
