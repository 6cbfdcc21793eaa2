"""Measures how well a decoder predicts a text that it has not seen: `evaluate`, for models of either room.

    opened = pretrained.load("shakespeare")
    evaluate(opened.model, opened.tokenizer, text).bits_per_byte

A loss in nats per token depends on how long the tokens are, so it compares models with the same tokenizer only. Bits
per byte are about the text alone, whatever its tokens are.

The axes: B batch, T positions, V vocab_size, N tokens of the text.
"""

import math
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np

from glassformer import _checks as checks
from glassformer.progress import A_MOMENT, bar
from glassformer.protocols import AnyTransformer
from glassformer.scratch import cross_entropy
from glassformer.shapes import Int64, Integer
from glassformer.text import BytePairTokenizer, CharTokenizer, library_errors

__all__ = ["Evaluation", "check_family", "evaluate"]
__dir__ = __all__.copy

BLOCKS = 32
"""At most so many pieces of the text give the standard error, which is then itself known to about 13 %."""

AT_ONCE = 2**22
"""About so many numbers of one array are computed at once, if a single window does not need more."""


class Evaluation(NamedTuple):
    """How well a model predicts a text, from its second token to its last."""

    loss: float
    """The mean of −ln p over the tokens, in nats per token."""
    standard_error: float
    """That of the loss, in nats per token; NaN if the text fits into one window."""
    n_tokens: int
    """The number of tokens that were predicted."""
    n_bytes: int
    """The number of bytes of the predicted text in UTF-8."""

    @property
    def perplexity(self) -> float:
        """Returns e^loss: among how many equally likely tokens the model seems to choose."""
        return math.exp(self.loss) if self.loss < math.log(sys.float_info.max) else math.inf

    @property
    def bits_per_byte(self) -> float:
        """Returns the bits that the model needs for a byte of the text, which do not depend on the tokenizer."""
        return self.loss * self.n_tokens / self.n_bytes / math.log(2)


def evaluate(
    model: AnyTransformer,
    tokenizer: Any,
    text: str,
    *,
    length: int | None = None,
    stride: int | None = None,
    progress: bool = False,
) -> Evaluation:
    """Returns how well a decoder predicts a text.

    The model reads windows of `length` tokens, which begin `stride` tokens apart. Each window counts only the
    predictions that no window before it has made, so every token is predicted exactly once, from at least
    `length` − `stride` + 1 tokens before it unless the text has fewer. A smaller stride gives more context and takes
    more time. With `stride=length` the windows do not overlap, as in `task.validation()`, and the loss is higher,
    because the first tokens of every window have little context.

    The first token of the text has nothing before it, so it is neither predicted nor counted, and its bytes are not
    counted either. If the tokenizer puts a token of its own before the text, the whole text is predicted.

    The standard error compares up to 32 consecutive blocks of the text. Treating each token as a sample of its own
    would give too small an error, because neighbouring tokens are similar in difficulty: they come from the same word,
    the same speaker and the same subject. The losses of two models on one text rise and fall together, so their
    difference is more certain than the two errors suggest.

    Apart from the text and its ids, the memory that is needed does not grow with the text.

    Args:
        model: a decoder of either room, in evaluation.
        tokenizer: the model's own: `CharTokenizer`, `BytePairTokenizer` or a `tokenizers.Tokenizer`.
        text: what to predict.
        length: tokens of a window; by default the model's context_length.
        stride: tokens from one window's beginning to the next one's; by default half of `length`.
        progress: whether to show a bar if it takes longer than a moment.

    Source: for the stride, "Perplexity of fixed-length models" in the documentation of transformers; for bits per
    byte, Gao et al. 2020, "The Pile", section 3.1; for blocks, Flegal and Jones 2010, "Batch means and spectral
    variance estimators in Markov chain Monte Carlo". The loss is derived in chapter 09.

    Raises:
        ValueError: the model is no decoder or is in training; `length` or `stride` is out of range; the tokenizer
            lacks a character, which the message names with its place; the text has fewer than two tokens; or the model
            lacks an id.
        TypeError: `length` or `stride` is not a whole number, `text` is not a string, or the tokenizer is none.
    """
    checks.model(model)
    config = model.config
    check_family(config.family)
    if model.training:
        raise ValueError("model.training=True: dropout would change the loss, so call model.eval() first")
    longest = config.context_length
    length = longest if length is None else length
    checks.whole("length", length)
    stride = max(1, length // 2) if stride is None else stride
    checks.whole("stride", stride)
    for name, value, most_name, most in (
        ("length", length, "the model's context_length", longest),
        ("stride", stride, "length", length),
    ):
        if value > most:
            raise ValueError(f"{name}={value} must be at most {most_name}={most}")
    checks.instance("text", text, str)
    ids, n_bytes = _read(tokenizer, text)
    if len(ids) < 2:
        raise ValueError(
            f"text has {len(ids)} tokens, but at least 2 are needed: each is predicted from those before"
        )
    checks.indices("ids", ids, "vocab_size", config.vocab_size)

    n_windows = 1 + max(0, math.ceil((len(ids) - 1 - length) / stride))
    n_blocks = min(BLOCKS, n_windows)
    nats, counts = np.zeros(n_blocks), np.zeros(n_blocks)
    windows = _losses(model, ids, length, stride, n_windows)
    if progress:
        windows = bar(windows, total=n_windows, desc="evaluation", unit="window", leave=False, delay=A_MOMENT)
    for i, (total, count) in enumerate(windows):
        nats[i * n_blocks // n_windows] += total
        counts[i * n_blocks // n_windows] += count
    loss = float(nats.sum() / counts.sum())
    error = math.nan
    if n_blocks > 1:
        # Blocks differ a little in size, so each counts by its tokens.
        spread = ((nats - loss * counts) ** 2).sum() * n_blocks / (n_blocks - 1)
        error = math.sqrt(spread) / float(counts.sum())
    return Evaluation(loss, error, len(ids) - 1, n_bytes)


def check_family(family: str) -> None:
    """Checks that models of this family predict every token from those before it.

    Raises:
        ValueError: they do not.
    """
    if family != "decoder":
        instead = "sees the tokens after it, too" if family == "encoder" else "needs a source to read as well"
        raise ValueError(
            f"family={family!r} must be 'decoder': the loss of a text is about predicting each token from those before "
            f"it alone, and an {family.replace('-', '–')} {instead}"
        )


def _read(tokenizer: Any, text: str) -> tuple[Int64[np.ndarray, " N"], int]:
    """Returns the ids of a text, and the number of bytes after the first of them."""
    if isinstance(tokenizer, CharTokenizer | BytePairTokenizer):
        ids = tokenizer.encode(text)
        first = tokenizer.decode(ids[:1])
    elif hasattr(tokenizer, "get_vocab_size"):
        with library_errors("the tokenizer cannot read this text"):
            encoded = tokenizer.encode(text)
            ids = np.array(encoded.ids, dtype=np.int64)
            unknown = getattr(tokenizer.model, "unk_token", None)
            lacks = np.flatnonzero(ids == tokenizer.token_to_id(unknown)) if unknown is not None else ()
            first = tokenizer.decode(encoded.ids[:1])
        if len(lacks):
            begin, end = encoded.offsets[int(lacks[0])]
            raise ValueError(
                f"text[{begin}]={checks.shown(text[begin:end])!r} is not in the tokenizer's vocabulary: predicting "
                f"{unknown!r} in its place would make the loss too small"
            )
    else:
        raise TypeError(
            f"tokenizer={tokenizer!r:.60} must be a CharTokenizer, BytePairTokenizer or tokenizers.Tokenizer"
        )
    return ids, max(1, len(text.encode()) - len(first.encode()))


def _losses(
    model: AnyTransformer, ids: Integer[np.ndarray, " N"], length: int, stride: int, n_windows: int
) -> Iterator[tuple[float, int]]:
    """Yields the sum of −ln p of every window's new predictions, in nats, and their number."""
    # If torch has not been imported, this is no torch model: the NumPy room works without it.
    torch: Any = sys.modules.get("torch")
    if torch is not None and not isinstance(model, torch.nn.Module):
        torch = None
    device = next(iter(dict(model.named_parameters()).values())).device if torch else None
    config = model.config
    widest = max(config.n_heads * min(length, len(ids)), config.d_ff, config.d_model)
    n_rows = max(1, AT_ONCE // (length * widest))
    n_positions = max(1, AT_ONCE // config.vocab_size)  # whose logits are computed at once
    n_whole = n_windows - 1  # the last window may be shorter
    batches = [range(first, min(first + n_rows, n_whole)) for first in range(0, n_whole, n_rows)]
    for batch in [*batches, range(n_whole, n_windows)]:
        starts = np.arange(batch.start, batch.stop) * stride
        size = min(length, len(ids) - 1 - int(starts[-1]))
        window = ids[starts[:, None] + np.arange(size + 1)]
        with torch.inference_mode() if torch else nullcontext():
            read = window[:, :-1]
            hidden = model.hidden(torch.from_numpy(read).to(device) if torch else read)
            for i, row in zip(batch, window, strict=True):
                begin = 0 if i == 0 else length - stride  # where the predictions of the windows before end
                total = 0.0
                for a in range(begin, size, n_positions):
                    b = min(a + n_positions, size)
                    logits = model.head(hidden[i - batch.start, a:b])
                    logits = logits.double().cpu().numpy() if torch else logits.astype(np.float64)
                    total += (b - a) * float(cross_entropy(logits, row[a + 1 : b + 1]))
                yield total, size - begin
