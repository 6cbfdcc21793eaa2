"""Turns prompts and sources into lists of arrays, and checks every argument of generation."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from glassformer import _checks as checks
from glassformer.protocols import AnyTransformer
from glassformer.shapes import Float, Integer

Ids = Any  # one text (a list, array or tensor of ids) or several (a list of texts of any lengths)


def prompts_and_sources(
    model: AnyTransformer, prompt_ids: Ids | None, source: Ids | None, start_id: int
) -> tuple[list[Integer[np.ndarray, " _"]], list[Integer[np.ndarray, " _"]] | None]:
    """Checks the model and returns prompts and, for an encoder–decoder, as many sources, as lists of arrays."""
    checks.model(model)
    config = model.config
    if config.family == "encoder":
        raise ValueError("family='encoder' cannot generate: every position sees what comes after it")
    if config.head == "none":
        raise ValueError("head='none' cannot generate: there are no logits")
    if config.dropout > 0 and model.training:
        raise ValueError(f"the model is in training with dropout={config.dropout}: call model.eval() first")
    check_id("start_id", start_id, config.vocab_size)
    if config.family == "decoder":
        if source is not None:
            raise ValueError("source must be None: family='decoder' has no encoder to read it")
        return rows_of("prompt_ids", prompt_ids, config.vocab_size), None
    if source is None:
        raise ValueError("source=None: family='encoder-decoder' needs ids for its encoder")
    sources = rows_of("source", source, config.vocab_size)
    if prompt_ids is None:
        prompt_ids = [[start_id]] * len(sources)
    prompts = rows_of("prompt_ids", prompt_ids, config.vocab_size)
    checks.equal("len(prompt_ids)", len(prompts), "len(source)", len(sources))
    return prompts, sources


def rows_of(name: str, ids: Ids, vocab_size: int) -> list[Integer[np.ndarray, " _"]]:
    """Returns one text or several as a list of arrays. Checks that none is empty and every id is in the vocabulary."""
    if not hasattr(ids, "__len__"):
        raise TypeError(f"{name} must be the ids of a text, or a list of texts, not {type(ids).__name__}")
    if len(ids) == 0:
        raise ValueError(f"{name} is empty")
    several = np.ndim(ids[0]) > 0
    rows = []
    for i, row in enumerate(ids if several else [ids]):
        row_name = f"{name}[{i}]" if several else name
        row = np.asarray(row.cpu() if hasattr(row, "cpu") else row)
        if row.size == 0:
            raise ValueError(f"{row_name} is empty")
        checks.integers(row_name, row)
        checks.one_axis(row_name, row)
        checks.indices(row_name, row, "vocab_size", vocab_size)
        rows.append(row.astype(np.int64))
    return rows


def stop_ids_of(stop_ids: Iterable[int], vocab_size: int) -> list[int]:
    """Returns the stop ids as a list. Checks that each is in the vocabulary."""
    if not isinstance(stop_ids, Iterable):
        raise TypeError(f"stop_ids={stop_ids!r} must be a list of ids")
    stop_ids = list(stop_ids)
    for stop_id in stop_ids:
        check_id("stop_ids", stop_id, vocab_size)
    return stop_ids


def check_id(name: str, value: Any, vocab_size: int) -> None:
    """Checks that `value` is in the vocabulary."""
    checks.whole(name, value, at_least=0)
    if value >= vocab_size:
        raise ValueError(f"{name}={value} is outside 0..{vocab_size - 1} (vocab_size={vocab_size})")


def check_generator(generator: Any, temperature: float | int) -> None:
    """Checks that there is a generator if random numbers are needed; both rooms use NumPy's."""
    if generator is None and temperature != 0:
        raise ValueError(
            f"generator=None: sampling at temperature={temperature} needs one, such as "
            "np.random.default_rng(0); temperature=0 needs none"
        )
    if generator is not None and not isinstance(generator, np.random.Generator):
        raise TypeError(f"generator must be a np.random.Generator, not {type(generator).__name__}")


def check_context(prompts: list[np.ndarray], n_new: int, context_length: int, remedy: str = "") -> None:
    """Checks that the longest prompt and its continuation fit the context; `remedy` ends the message if not."""
    longest = max(map(len, prompts))
    if longest + n_new > context_length:
        raise ValueError(
            f"a prompt of {longest} ids and n_new={n_new} make {longest + n_new}, more than "
            f"context_length={context_length}{remedy}"
        )


def check_finite(logits: Float[np.ndarray, "*B V"]) -> None:
    """Checks that every row's largest logit is finite. One NaN makes it NaN; single ids may have −inf."""
    largest = logits.max(axis=-1)
    if not np.isfinite(largest).all():
        raise ValueError(
            f"logits cannot be used: the largest in each row (NaN for a row that contains a NaN) is {largest}"
        )
