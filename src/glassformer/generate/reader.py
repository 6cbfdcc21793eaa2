"""The reader: holds the texts and the model, from either room, that reads them and predicts the next id.

The axes: B batch, T positions, V vocabulary, D d_model.
"""

import sys
from contextlib import nullcontext
from typing import Any

import numpy as np

from glassformer.rooms import AnyTransformer
from glassformer.shapes import Float, Int64, Integer

CHUNK = 128  # positions of a prompt that are read at a time; only their activations take memory


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
    ) -> None:
        self.model = model
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

        context_length = model.config.context_length
        self.cache = None
        if cache and self.length <= context_length:
            read = self.length + n_new - 1  # nothing follows the last new id, so it is never read
            self.cache = model.new_cache(len(rows), min(read, context_length))

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
            first = max(0, self.length - self.model.config.context_length)
            if first > 0:
                self.cache = None  # the window slides, so the cache is no longer valid: see `generate`
            if self.cache is None:
                hidden = self._read(first, first, self.length)
            else:
                begin = self.cache.length
                while self.length - begin > CHUNK:
                    self._read(0, begin, begin + CHUNK)
                    begin += CHUNK
                hidden = self._read(0, begin, self.length)
            return self._to_numpy(self.model.head(hidden[:, -1:]))[:, 0]  # only the last predicts the next id

    def _read(self, first: int, begin: int, end: int) -> Any:
        """Returns the hidden states of columns begin..end-1, which see the columns from `first` on."""
        padding = {}
        begins = np.maximum(self.begins, first)[:, None]
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
