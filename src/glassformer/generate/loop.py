"""The loop: read, draw, append, and again. The axes: B batch, T positions."""

from collections.abc import Iterable, Iterator, Sequence
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
from glassformer.rooms import AnyTransformer
from glassformer.shapes import Float, Int64


def generate(
    model: AnyTransformer, prompt_ids: Ids | None, n_new: int, **options: Any
) -> list[Int64[np.ndarray, " _"]]:
    """Continues one text or several by up to `n_new` ids: a list with each text, prompt included.

    `options` are `stream`'s, and with them any of `distribution`: `temperature`, `top_k`, `top_p`, `min_p`,
    `repetition_penalty`, `no_repeat_ngram`. `temperature=0` is greedy: the likeliest id, and of several equally
    likely the first. Anything else draws with `generator`, one number for each text and step, so that the
    same seed gives the same text in either room, with or without cache.

    Prompts may differ in length: a row gets the logits that it would get alone. A text ends with the first id
    of `stop_ids`, which it keeps, while the others go on.

    `cache` keeps keys and values, so that every id is read once. Without it, all is read again for every
    new id: the same text, at a cost that grows with its length.

    `past_context` says what happens where a text outgrows the model's context. `"refuse"` raises at the start.
    `"slide"` shows the model the last `context_length` ids, at positions from 0. A cache is of no use
    then, because what it keeps was computed at other positions, from ids since dropped; so from there on
    the whole window is read again at every step.

    For an encoder–decoder, `source` is what the encoder reads, one text for each prompt, and `prompt_ids`
    what the decoder starts from: None means `start_id` alone (0 is T5's). `pad_id` fills up shorter texts; it is
    masked, so that any id will do.

    Derived in chapter 11.

    Raises:
        ValueError: an option or id is out of its range; a prompt is empty; prompt and `n_new` exceed the
            context and `past_context` is `"refuse"`; there is no `generator` to draw with; the model cannot
            generate (an encoder, one without head, or one in training with dropout); its logits are NaN.
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
) -> "Writing":
    """The new ids (B,), one for each text, as soon as they are drawn: `generate`, step by step.

    A text that has ended gives `pad_id` from there on. The arguments and errors are those of `generate`, and
    the errors come at the call, before the model has worked (but for NaN, which cannot be foreseen).

    Derived in chapter 11.
    """
    prompts, sources = prompts_and_sources(model, prompt_ids, source, start_id)
    checks.whole("n_new", n_new)
    checks.one_of("past_context", past_context, ("refuse", "slide"))
    if past_context == "refuse":
        check_context(
            prompts, n_new, model.config.context_length, "; past_context='slide' would let it slide"
        )
    stop_ids = stop_ids_of(stop_ids, model.config.vocab_size)
    check_id("pad_id", pad_id, model.config.vocab_size)
    # A dry run: `distribution` itself refuses what is wrong with the strategy.
    distribution(np.zeros((1, model.config.vocab_size)), past=[prompts[0][:0]], **strategy)
    temperature = strategy.get("temperature", 1.0)
    check_generator(generator, temperature)
    if temperature == 0:
        generator = None  # greedy draws nothing

    reader = Reader(model, prompts, n_new, sources=sources, cache=cache, pad_id=pad_id)
    return Writing(reader, n_new, generator, stop_ids, pad_id, strategy)


class Writing(Iterator):
    """The loop itself: read, draw, append, until every text has ended or has `n_new` ids more.

    To iterate gives the new ids (B,) of each step; `texts`, at any time, what is written so far.
    """

    def __init__(
        self,
        reader: Reader,
        n_new: int,
        generator: np.random.Generator | None,
        stop_ids: Sequence[int],
        pad_id: int,
        strategy: dict[str, Any],
    ) -> None:
        self.reader, self.left = reader, n_new
        self.generator, self.strategy = generator, strategy
        self.stop_ids, self.pad_id = stop_ids, pad_id
        self.running = np.ones(reader.batch_size, dtype=bool)
        self.lengths = reader.length - reader.begins  # of the texts, without what fills them up

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
        """Returns every text so far, prompt included, as far as the stop id that ended it."""
        texts = zip(self.reader.texts(), self.lengths, strict=True)
        return [text[:length].copy() for text, length in texts]

    def _drawn(self, logits: Float[np.ndarray, "B V"]) -> Int64[np.ndarray, " B"]:
        """The next id of every text; of those that have ended, `pad_id`."""
        if self.strategy == {"temperature": 0}:  # plain greedy needs no probabilities
            check_finite(logits)
            return np.where(self.running, logits.argmax(axis=-1), self.pad_id)
        # Texts that have ended use up their numbers too, so that the others' do not depend on it.
        uniform = np.zeros(len(logits)) if self.generator is None else self.generator.random(len(logits))
        running = self.running
        past = [text for text, runs in zip(self.reader.texts(), running, strict=True) if runs]
        new = np.full(len(logits), self.pad_id)
        new[running] = draw(distribution(logits[running], past=past, **self.strategy), uniform[running])
        return new
