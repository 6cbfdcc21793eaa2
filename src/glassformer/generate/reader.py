"""The reader: holds the texts and the model, from either room, that reads them and predicts the next id.

The axes: B batch, T positions, V vocabulary, D d_model.
"""

import sys
from contextlib import nullcontext
from typing import Any

import numpy as np

from glassformer.protocols import AnyTransformer
from glassformer.shapes import Float, Int64, Integer

CHUNK = 128  # positions of a prompt that are read at a time; only their activations take memory


def window_start(lengths: Any, context_length: int, past_context: str = "half") -> Any:
    """Returns where the part of a text that a model reads begins, for one length or an array of them.

    It is 0 as long as the text fits the context C. Beyond it, `"slide"` leaves the last C ids in view. `"half"`
    begins at the first multiple of C/2 (rounded down) that leaves at most C: the window fills up, and the model
    goes on from its last half. The start then moves only once in C/2 ids, so the cache is of use in between.
    `windowStart` in widgets/engine/transformer.js and onepage.py follow the same rule.

    Derived in chapter 11.
    """
    step = 1 if past_context == "slide" else max(1, context_length // 2)
    return np.maximum(0, -((context_length - lengths) // step)) * step


class Reader:
    """The texts so far and the model that reads them; returns the next logits of every row.

    Texts of different lengths are aligned at their ends, so that the next id has the same column in every
    row. Shorter texts have padding on the left, which `mask` hides, and their positions start at 0 after it.
    """

    def __init__(
        self,
        model: AnyTransformer,
        prompts: list[Integer[np.ndarray, " _"]],
        n_new: int,
        *,
        sources: list[Integer[np.ndarray, " _"]] | None = None,
        cache: bool = True,
        pad_id: int = 0,
        copies: int = 1,
        past_context: str = "slide",
    ) -> None:
        self.model, self.past_context = model, past_context
        # If torch has not been imported, this is no torch model: the NumPy room works without torch.
        torch = sys.modules.get("torch")
        self.torch = torch if torch is not None and isinstance(model, torch.nn.Module) else None
        self.device = next(iter(dict(model.named_parameters()).values())).device if self.torch else None

        rows = np.repeat(np.arange(len(prompts)), copies)  # beam search reads `copies` texts per prompt
        lengths = np.array([len(prompts[row]) for row in rows])
        self.batch_size, self.length = len(rows), int(lengths.max())
        self.begins = self.length - lengths  # the column where each text begins
        self.ids = np.full((len(rows), self.length + n_new), pad_id, dtype=np.int64)
        for row, begin, prompt in zip(self.ids, self.begins, rows, strict=True):
            row[begin : self.length] = prompts[prompt]

        self.encoded = {}
        if sources is not None:
            lengths = np.array([len(source) for source in sources])
            ids = np.full((len(sources), lengths.max()), pad_id, dtype=np.int64)
            for row, source in zip(ids, sources, strict=True):
                row[: len(source)] = source
            mask = np.arange(lengths.max()) < lengths[:, None]  # no gaps at the start: pad on the right
            with self._no_gradients():
                memory = model.encode(self._to_model(ids), mask=self._to_model(mask))[rows]
            self.encoded = {"memory": memory, "source_mask": self._to_model(mask[rows])}

        # Nothing follows the last new id, so it is never read.
        self.room = min(self.length + n_new - 1, model.config.context_length)
        self.uses_cache = cache
        self.cache: Any = None
        self.starts: Any = None  # the columns where the texts' windows began when the cache was made

    def texts(self) -> list[Int64[np.ndarray, " _"]]:
        """Returns every row's text so far."""
        return [row[begin : self.length] for row, begin in zip(self.ids, self.begins, strict=True)]

    def append(self, new: Int64[np.ndarray, " B"]) -> None:
        """Appends one id to every row."""
        self.ids[:, self.length] = new
        self.length += 1

    def reorder(self, rows: Int64[np.ndarray, " B"]) -> None:
        """Makes row i continue the current text of row `rows[i]`; both are copies of the same prompt."""
        self.ids = self.ids[rows]
        if self.cache is not None:
            with self._no_gradients():
                self.cache.reorder(self._to_model(rows))

    def next_logits(self) -> Float[np.ndarray, "B V"]:
        """Returns the logits of every row's next id."""
        with self._no_gradients():
            context_length = self.model.config.context_length
            starts = self.begins + window_start(self.length - self.begins, context_length, self.past_context)
            first = int(starts.min())
            if self.starts is None or (starts != self.starts).any():
                # A window has moved, so what the cache holds has other positions and has heard from dropped ids.
                self.starts, self.cache = starts, None
                slides = first > 0 and self.past_context == "slide"
                if self.uses_cache and not slides:  # one that slides moves again at the next step
                    self.cache = self.model.new_cache(len(starts), self.room)
            if self.cache is None:
                hidden = self._read(first, self.length)
            else:
                begin = first + self.cache.length
                while self.length - begin > CHUNK:
                    self._read(begin, begin + CHUNK)
                    begin += CHUNK
                hidden = self._read(begin, self.length)
            return self._to_numpy(self.model.head(hidden[:, -1:]))[:, 0]  # only the last predicts the next id

    def _read(self, begin: int, end: int) -> Any:
        """Returns the hidden states of columns begin..end-1, which see those from the beginning of their window on."""
        padding = {}
        first, begins = int(self.starts.min()), self.starts[:, None]
        if begins.max() > first:
            columns = np.arange(first, end)
            positions = np.maximum(columns[begin - first :] - begins, 0)
            padding = {"mask": self._to_model(columns >= begins), "position_ids": self._to_model(positions)}
        ids = self._to_model(self.ids[:, begin:end])
        return self.model.hidden(ids, cache=self.cache, **padding, **self.encoded)

    # The two rooms: everything here is NumPy, but the model may need tensors.

    def _no_gradients(self) -> Any:
        return nullcontext() if self.torch is None else self.torch.inference_mode()

    def _to_model(self, array: np.ndarray) -> Any:
        if self.torch is None:
            return array
        return self.torch.from_numpy(array).to(self.device)

    def _to_numpy(self, array: Any) -> np.ndarray:
        if self.torch is None:
            return array
        is_half = array.dtype in (self.torch.bfloat16, self.torch.float16)  # NumPy has no bfloat16
        return (array.float() if is_half else array).cpu().numpy()
