"""The generation loop: read, draw, append, repeat. The axes: B batch, T positions."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from inspect import signature
from typing import Any

import numpy as np

from glassformer import _checks as checks
from glassformer.generate.inputs import (
    Ids,
    check_context,
    check_finite,
    check_generator,
    check_id,
    prompts_and_sources,
    stop_ids_of,
)
from glassformer.generate.reader import Reader
from glassformer.generate.strategies import distribution, draw
from glassformer.protocols import AnyTransformer
from glassformer.shapes import Float, Int64


def generate(
    model: AnyTransformer, prompt_ids: Ids | None, n_new: int, **options: Any
) -> list[Int64[np.ndarray, " _"]]:
    """Continues one text or several by up to `n_new` ids; returns a list of the texts, prompts included.

    `options` are those of `stream` and of `distribution`: `temperature`, `top_k`, `top_p`, `min_p`,
    `repetition_penalty`, `no_repeat_ngram`. `temperature=0` is greedy: it takes the likeliest id, or the
    first of several equally likely ones. Any other temperature samples with `generator`, one number for each
    text and step, so the same seed gives the same text in either room, with or without a cache.

    Prompts may differ in length: each row gets the logits it would get alone. A text ends with the first of
    the `stop_ids`, which is kept, while the other texts go on.

    `cache` keeps keys and values, so that every id is read only once. Without it, the whole text is read
    again for every new id: the result is the same, but each id costs more as the text grows.

    `past_context` says what happens when a text outgrows the model's context. `"refuse"` raises an error at
    the start. `"slide"` shows the model the last `context_length` ids, at positions from 0. The cache cannot
    be used then, because its entries were computed at other positions, from ids that have been dropped since.
    So from there on the whole window is read again at every step. `"half"` lets the model read from the first
    multiple of `context_length` / 2 (rounded down) that leaves at most `context_length` ids: the window fills up,
    and then the model goes on from its last half. It is read again only then, which is several times as fast, but
    the model sees less of the text, sometimes only half as much.

    For an encoder–decoder, `source` is what the encoder reads, one text for each prompt, and `prompt_ids` is
    what the decoder starts from: None means `start_id` alone (T5 uses 0). `pad_id` pads shorter texts; it is
    masked, so any id will do.

    Derived in chapter 11.

    Raises:
        ValueError: an option or id is out of range; a prompt is empty; prompt and `n_new` exceed the context
            and `past_context` is `"refuse"`; there is no `generator` to sample with; the model cannot
            generate (it is an encoder, has no head, or is in training with dropout); its logits are NaN.
        TypeError: an argument is of the wrong kind, or there is no option of that name.
    """
    writing = stream(model, prompt_ids, n_new, **options)
    for _ in writing:
        pass
    return writing.texts()


def stream(
    model: AnyTransformer,
    prompt_ids: Ids | None,
    n_new: int,
    *,
    generator: np.random.Generator | None = None,
    stop_ids: Iterable[int] = (),
    cache: bool = True,
    past_context: str = "refuse",
    source: Ids | None = None,
    start_id: int = 0,
    pad_id: int = 0,
    **strategy: Any,
) -> "Generation":
    """Yields the new ids (B,), one for each text, as soon as they are drawn: `generate`, step by step.

    A text that has ended yields `pad_id` from then on. Arguments and errors are those of `generate`. Errors
    are raised at the call, before the model runs (except for NaN, which cannot be foreseen).

    Derived in chapter 11.
    """
    prompts, sources = prompts_and_sources(model, prompt_ids, source, start_id)
    checks.whole("n_new", n_new)
    checks.one_of("past_context", past_context, ("refuse", "slide", "half"))
    if past_context == "refuse":
        check_context(
            prompts,
            n_new,
            model.config.context_length,
            "; past_context='half' or 'slide' would go on without the beginning",
        )
    stop_ids = stop_ids_of(stop_ids, model.config.vocab_size)
    check_id("pad_id", pad_id, model.config.vocab_size)
    known = [name for name in signature(distribution).parameters if name not in ("logits", "past")]
    for name in strategy:
        if name not in known:
            by = (
                "generator=np.random.default_rng(seed) draws"
                if name == "seed"
                else f"it has {', '.join(known)}"
            )
            raise TypeError(f"generate has no option {name!r}: {by}")
    # A dry run, so that `distribution` itself reports errors in its options.
    distribution(np.zeros((1, model.config.vocab_size)), past=[prompts[0][:0]], **strategy)
    temperature = strategy.get("temperature", 1.0)
    check_generator(generator, temperature)
    if temperature == 0:
        generator = None  # greedy draws nothing

    reader = Reader(
        model, prompts, n_new, sources=sources, cache=cache, pad_id=pad_id, past_context=past_context
    )
    return Generation(reader, n_new, generator, stop_ids, pad_id, strategy)


@dataclass(eq=False)
class Generation(Iterator):
    """The loop itself: read, draw, append, until every text has ended or has `n_new` more ids.

    Iterating yields the new ids (B,) of each step; `texts` returns everything written so far at any time.
    """

    reader: Reader
    left: int  # steps
    generator: np.random.Generator | None
    stop_ids: Sequence[int]
    pad_id: int
    strategy: dict[str, Any]

    def __post_init__(self) -> None:
        self.running = np.ones(self.reader.batch_size, dtype=bool)
        self.lengths = self.reader.length - self.reader.begins  # of the texts, without padding

    def __next__(self) -> Int64[np.ndarray, " B"]:
        if self.left == 0 or not self.running.any():
            raise StopIteration
        new = self._drawn(self.reader.next_logits())
        self.reader.append(new)
        self.lengths += self.running
        self.running &= ~np.isin(new, self.stop_ids)
        self.left -= 1
        return new

    def texts(self) -> list[Int64[np.ndarray, " _"]]:
        """Returns every text so far, prompt included, up to the stop id that ended it."""
        texts = zip(self.reader.texts(), self.lengths, strict=True)
        return [text[:length].copy() for text, length in texts]

    def _drawn(self, logits: Float[np.ndarray, "B V"]) -> Int64[np.ndarray, " B"]:
        """Returns the next id of every text, or `pad_id` for texts that have ended."""
        if self.strategy == {"temperature": 0}:  # greedy without options needs no probabilities
            check_finite(logits)
            return np.where(self.running, logits.argmax(axis=-1), self.pad_id)
        # Texts that have ended also use up their random numbers, so the other texts do not depend on them.
        uniform = np.zeros(len(logits)) if self.generator is None else self.generator.random(len(logits))
        running = self.running
        past = [text for text, runs in zip(self.reader.texts(), running, strict=True) if runs]
        new = np.full(len(logits), self.pad_id)
        new[running] = draw(distribution(logits[running], past=past, **self.strategy), uniform[running])
        return new
