"""The tasks a model can learn: batches of inputs with the targets that it should predict.

Every task is a pure function of its seed and the step number. So nothing has to be saved to resume after an
interruption, and several processes can share a batch without communicating: each takes its own rows.

The axes: B batch, T positions, S positions of a source.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from glassformer import _checks as checks
from glassformer.shapes import Int64, Integer
from glassformer.text import inputs_and_targets, split_in_three

__all__ = ["NO_TARGET", "Epochs", "MaskedToken", "NextToken", "Pairs"]
__dir__ = __all__.copy

NO_TARGET = -100  # targets that the loss ignores: `ignore_index` of `cross_entropy`

AT_ONCE = 2**20  # numbers of an array that are copied at once

Inputs = dict[str, np.ndarray]
Batch = tuple[Inputs, np.ndarray]

# The uses of random numbers: two uses of one seed must not draw the same numbers.
ORDER, OFFSET, MASKS, VALIDATION, TEST = range(5)


class Epochs:
    """An endless list of indices. Each epoch goes through 0..n-1 once, in a new random order.

    Entry i of the list depends only on i and the seed.

    Derived in chapter 10.
    """

    def __init__(self, n: int, seed: int) -> None:
        self.n, self.seed = n, seed
        # A batch needs one epoch, or two if one ends within it; older ones are forgotten.
        self._order = lru_cache(maxsize=2)(self._shuffled)

    def _shuffled(self, epoch: int) -> Int64[np.ndarray, " n"]:
        return np.random.default_rng((self.seed, ORDER, epoch)).permutation(self.n)

    def __getitem__(self, i: int) -> tuple[int, int]:
        """Returns entry i: the epoch it belongs to, and the index."""
        epoch, within = divmod(i, self.n)
        return epoch, int(self._order(epoch)[within])


class _Task:
    """The base of all tasks: decides which rows a step has, and which process gets which of them.

    A task may have a method `loss(model, inputs, targets)`, which returns the mean over the targets that count. Without
    one, its loss is `train.cross_entropy_loss`.
    """

    family = "decoder"  # the family of models that can learn it
    length: int  # the longest input, T
    vocab_size: int  # the smallest vocabulary that contains all its ids
    for_test: np.ndarray  # a second held-out part, which is evaluated once, at the end

    def __init__(self, batch_size: int, seed: int, n: int) -> None:
        checks.whole("batch_size", batch_size)
        checks.whole("seed", seed, at_least=0)
        self.batch_size, self.seed = batch_size, seed
        self.epochs = Epochs(n, seed)

    @property
    def steps_per_epoch(self) -> float:
        """Returns how many steps it takes to see all the data once."""
        return self.epochs.n / self.batch_size

    def checksum(self) -> str:
        """Returns a checksum that two tasks share only if all their batches are the same."""
        checksum = hashlib.sha256(f"{type(self).__name__} {self.batch_size} {self.seed}".encode())
        for part in self._made_of():
            # The shape counts too: two texts one after the other are not the same as one.
            checksum.update(f"{np.shape(part)} ".encode())
            for some in _in_parts(part):
                checksum.update(some.astype(np.float64).tobytes())
        return checksum.hexdigest()

    def _made_of(self) -> Iterable[Any]:
        """Yields all data that the batches depend on, besides the seed and the batch size."""
        raise NotImplementedError

    def _rows(self, step: int) -> list[tuple[int, int]]:
        """Returns all entries of a step's batch: the epoch and the index of each."""
        first = step * self.batch_size
        return [self.epochs[i] for i in range(first, first + self.batch_size)]

    def _share(self, step: int, rank: int, world: int) -> slice:
        """Returns the rows of a batch that belong to process `rank` of `world`."""
        checks.whole("step", step, at_least=0)
        checks.whole("rank", rank, at_least=0)
        checks.divisible("batch_size", self.batch_size, "world", world)
        if rank >= world:
            raise ValueError(f"rank={rank} must be below world={world}")
        size = self.batch_size // world
        return slice(rank * size, (rank + 1) * size)


class NextToken(_Task):
    """The task of a decoder: predict the next token at every position.

    The text is cut into windows of `length`. Every window is seen once per epoch; each epoch has a new order
    and new cuts. The end of the text is held out: a fraction `validation` for making choices, and after it a
    fraction `test` for the result that is then reported. Either can be 0, to overfit a small text on purpose. The
    id between documents, if there is one, is `stop_id`, at which a model that has learned it stops writing. A
    batch is the same whether one process takes all of it or each of `world` processes takes its own rows.

    Source: Radford et al. 2018, "Improving Language Understanding by Generative Pre-Training", section 3.1.
    Derived in chapters 09 and 10.

    Raises:
        ValueError: a size is below 1, the seed is negative, or a part of the text is too short for one
            window.
        TypeError: the ids are not integers, or a size is not a whole number.
    """

    family = "decoder"
    _beyond = 1  # a window needs this many ids more than positions, for the last target

    def __init__(
        self,
        ids: Integer[np.ndarray, " N"],
        length: int,
        batch_size: int,
        seed: int,
        *,
        validation: float = 0.1,
        test: float = 0.0,
        stop_id: int | None = None,
    ) -> None:
        ids = np.asarray(ids)  # also a list, or a tensor
        checks.integers("ids", ids)
        checks.whole("length", length)
        self.ids, self.held_out, self.for_test = split_in_three(ids, validation, test)
        self.length, self.vocab_size, self.stop_id = length, _vocab_size("ids", ids), stop_id
        if stop_id is not None:
            checks.whole("stop_id", stop_id, at_least=0)
            self.vocab_size = max(self.vocab_size, stop_id + 1)
        parts = {"to train on": (self.ids, length + self._beyond)}
        if validation:
            parts["for validation"] = (self.held_out, 1 + self._beyond)
        if test:
            parts["for the test"] = (self.for_test, 1 + self._beyond)
        shares = f"validation={validation}" + (f" and test={test}" if test else "")
        for name, (part, least) in parts.items():
            if len(part) < least:
                raise ValueError(
                    f"ids has {len(part)} ids {name}, of {len(ids)} in all with {shares}, "
                    f"but length={length} needs at least {least}"
                )
        # One window fewer than fit, so that all can be shifted by up to a window's length. (A text of less
        # than two windows has one, which is shifted as far as possible.)
        n = max(1, (len(self.ids) - self._beyond + 1) // length - 1)
        super().__init__(batch_size, seed, n)
        self._offset = lru_cache(maxsize=2)(self._drawn_offset)

    @property
    def special_ids(self) -> dict[str, int]:
        """Returns the ids that stand for no text, by name."""
        return {} if self.stop_id is None else {"stop": self.stop_id}

    def _made_of(self) -> Iterable[Any]:
        # An absent part is left out, so that runs started before test parts existed can be resumed.
        return self.ids, self.held_out, self.length, *([self.for_test] if len(self.for_test) else [])

    def _drawn_offset(self, epoch: int) -> int:
        """Draws the start of an epoch's first window."""
        free = len(self.ids) - self._beyond - self.epochs.n * self.length
        return int(np.random.default_rng((self.seed, OFFSET, epoch)).integers(free + 1))

    def _windows(self, step: int) -> Integer[np.ndarray, "B _"]:
        """Returns all windows of a step's batch."""
        starts = [self._offset(epoch) + place * self.length for epoch, place in self._rows(step)]
        return self.ids[np.array(starts)[:, None] + np.arange(self.length + self._beyond)]

    def batch(self, step: int, rank: int = 0, world: int = 1) -> Batch:
        """Returns the inputs (B, T), as `model(**inputs)` takes them, and the targets (B, T) of step 0, 1, ….

        Raises:
            ValueError: `step` is negative, `rank` is not within 0..world-1, or `world` does not divide the
                batch.
        """
        # The whole batch is made first and then divided, so that it is the same for any number of processes.
        rows = self._share(step, rank, world)
        ids, targets = self._asked(self._windows(step), MASKS, step)
        return {"ids": ids[rows]}, targets[rows]

    def validation(self) -> Iterator[Batch]:
        """Yields the validation part, every target once, in windows that do not overlap; the last is shorter."""
        return self._evaluated(self.held_out, VALIDATION)

    def test(self) -> Iterator[Batch]:
        """Yields the test part in the same way; nothing if no part of the text was kept for it."""
        return self._evaluated(self.for_test, TEST)

    def _evaluated(self, part: Integer[np.ndarray, " N"], use: int) -> Iterator[Batch]:
        """Yields a held-out part in batches of inputs and targets; `use` says what the random numbers are for."""
        for i, windows in enumerate(self._side_by_side(part)):
            ids, targets = self._asked(windows, use, i)
            yield {"ids": ids}, targets

    def _asked(
        self, windows: Integer[np.ndarray, "B _"], use: int, number: int
    ) -> tuple[Int64[np.ndarray, "B T"], Int64[np.ndarray, "B T"]]:
        """Returns what is read and what is asked in these windows; a task may draw from its seed, use and number."""
        inputs, targets = inputs_and_targets(windows)
        return inputs.astype(np.int64), targets.astype(np.int64)

    def _side_by_side(self, part: Integer[np.ndarray, " N"]) -> Iterator[Integer[np.ndarray, "B _"]]:
        """Yields a part from its beginning in batches of windows, then the remainder."""
        n_targets = max(0, len(part) - self._beyond)
        n_whole = n_targets // self.length
        reach = np.arange(self.length + self._beyond)
        for first in range(0, n_whole, self.batch_size):
            starts = np.arange(first, min(first + self.batch_size, n_whole)) * self.length
            yield part[starts[:, None] + reach]
        if n_whole * self.length < n_targets:
            yield part[None, n_whole * self.length :]


class MaskedToken(NextToken):
    """The task of an encoder: predict the original tokens at chosen positions, most of which are masked.

    In every window, a fraction `share` of the positions is chosen, at least one. Of these ids, 80 % become
    `mask_id`, 10 % become another id that occurs in the text (never `mask_id`), and 10 % stay the same, so
    that the model cannot trust what it sees. The target is the original id, masked or not; all other
    positions have no target (−100). Validation and test choose the same positions every time.

    Source: Devlin et al. 2019, "BERT", section 3.1 and appendix A.1. Derived in chapter 12.

    Raises:
        ValueError: as for `NextToken`; or `share` is not in (0, 1], or `mask_id` is negative or the only id.
        TypeError: as for `NextToken`.
    """

    family = "encoder"
    _beyond = 0

    def __init__(
        self,
        ids: Integer[np.ndarray, " N"],
        length: int,
        batch_size: int,
        seed: int,
        *,
        mask_id: int,
        share: float = 0.15,
        validation: float = 0.1,
        test: float = 0.0,
    ) -> None:
        super().__init__(ids, length, batch_size, seed, validation=validation, test=test)
        checks.whole("mask_id", mask_id, at_least=0)
        checks.positive("share", share)
        if share > 1:
            raise ValueError(f"share={share} must be at most 1")
        self.mask_id, self.share = mask_id, share
        self.vocab_size = max(self.vocab_size, mask_id + 1)
        # Ids that can replace a chosen id
        self.others = np.setdiff1d(np.concatenate([np.unique(some) for some in _in_parts(self.ids)]), mask_id)
        if not len(self.others):
            raise ValueError(
                f"ids has no id except mask_id={mask_id}, but a chosen id is sometimes replaced by another one"
            )

    @property
    def special_ids(self) -> dict[str, int]:
        """Returns the ids that stand for no text, by name."""
        return {"mask": self.mask_id}

    def _made_of(self) -> Iterable[Any]:
        return *super()._made_of(), self.mask_id, self.share

    def _asked(
        self, windows: Integer[np.ndarray, "B T"], use: int, number: int
    ) -> tuple[Int64[np.ndarray, "B T"], Int64[np.ndarray, "B T"]]:
        """Returns the ids with the chosen ones masked, replaced or kept, and the original ids as targets."""
        ids, generator = windows.astype(np.int64), np.random.default_rng((self.seed, use, number))
        n_chosen = max(1, round(self.share * ids.shape[1]))
        # Put the positions in random order and choose the first few, the same number in each row
        chosen = generator.random(ids.shape).argsort(axis=1).argsort(axis=1) < n_chosen
        fate = generator.random(ids.shape)
        other = generator.choice(self.others, ids.shape)
        covered = np.where(fate < 0.8, self.mask_id, np.where(fate < 0.9, other, ids))
        return np.where(chosen, covered, ids), np.where(chosen, ids, NO_TARGET)


class Pairs(_Task):
    """The task of an encoder–decoder: read the source and write the target, one text for another.

    The decoder starts from `start_id` and ends with `stop_id`. Shorter texts are padded with `pad_id`, which
    no position attends to and none has to predict. The last pairs are held out: a fraction `validation`, and
    after it a fraction `test`, as in `NextToken`.

    Source: Sutskever et al. 2014, "Sequence to Sequence Learning with Neural Networks"; Vaswani et al. 2017.
    Derived in chapter 12.

    Raises:
        ValueError: there are not as many targets as sources, or fewer than two pairs; a source is empty; an id
            is negative; a size is below 1.
        TypeError: a text's ids are not integers.
    """

    family = "encoder-decoder"

    def __init__(
        self,
        sources: Sequence[Integer[np.ndarray, " _"]],
        targets: Sequence[Integer[np.ndarray, " _"]],
        batch_size: int,
        seed: int,
        *,
        start_id: int,
        stop_id: int,
        pad_id: int,
        validation: float = 0.1,
        test: float = 0.0,
    ) -> None:
        checks.equal("len(targets)", len(targets), "len(sources)", len(sources))
        for name, value in (("start_id", start_id), ("stop_id", stop_id), ("pad_id", pad_id)):
            checks.whole(name, value, at_least=0)
        for name, texts in (("sources", sources), ("targets", targets)):
            for i, text in enumerate(texts):
                checks.one_axis(f"{name}[{i}]", text)
                checks.integers(f"{name}[{i}]", text)
        for i, source in enumerate(sources):
            checks.whole(f"len(sources[{i}])", len(source))
        training, held_out, for_test = split_in_three(np.arange(len(sources)), validation, test)
        super().__init__(batch_size, seed, len(training))
        self.sources, self.targets = sources, targets
        self.held_out, self.for_test = held_out, for_test  # their places
        self.start_id, self.stop_id, self.pad_id = start_id, stop_id, pad_id
        self.vocab_size = max(
            *(_vocab_size(f"sources[{i}]", text) for i, text in enumerate(sources)),
            *(_vocab_size(f"targets[{i}]", text) for i, text in enumerate(targets)),
            *(id_ + 1 for id_ in (start_id, stop_id, pad_id)),
        )
        self.length = max(*map(len, sources), *(len(target) + 1 for target in targets))

    @property
    def special_ids(self) -> dict[str, int]:
        """Returns the ids that stand for no text, by name; padding, which nothing attends to, can be any id."""
        return {"start": self.start_id, "stop": self.stop_id}

    def _made_of(self) -> Iterable[Any]:
        yield from self.sources
        yield from self.targets
        yield from (self.held_out, self.start_id, self.stop_id, self.pad_id)
        if len(self.for_test):
            yield self.for_test

    def batch(self, step: int, rank: int = 0, world: int = 1) -> Batch:
        """Returns the inputs, as `model(**inputs)` takes them, and the targets (B, T) of step 0, 1, ….

        The inputs are the decoder's `ids` (B, T), the `source` (B, S) and `source_mask`, True at real tokens.

        Raises:
            ValueError: `step` is negative, `rank` is not within 0..world-1, or `world` does not divide the
                batch.
        """
        rows = self._share(step, rank, world)
        inputs, targets = self._filled_up([place for _, place in self._rows(step)])
        return {name: array[rows] for name, array in inputs.items()}, targets[rows]

    def validation(self) -> Iterator[Batch]:
        """Yields the validation part, every pair once."""
        return self._asked(self.held_out)

    def test(self) -> Iterator[Batch]:
        """Yields the test part, every pair once; nothing if no pairs were kept for it."""
        return self._asked(self.for_test)

    def _asked(self, places: Int64[np.ndarray, " N"]) -> Iterator[Batch]:
        """Yields the pairs with these indices in batches."""
        for first in range(0, len(places), self.batch_size):
            yield self._filled_up(places[first : first + self.batch_size])

    def _filled_up(self, places: Sequence[int] | Int64[np.ndarray, " B"]) -> Batch:
        """Returns the pairs with these indices as arrays, padded to the longest."""
        sources = [self.sources[i] for i in places]
        source = _rows_of(sources, self.pad_id)
        lengths = np.array([len(text) for text in sources])
        inputs = {
            # The targets need no mask: padding comes last, and a decoder never looks ahead.
            "ids": _rows_of([[self.start_id, *self.targets[i]] for i in places], self.pad_id),
            "source": source,
            "source_mask": np.arange(source.shape[1]) < lengths[:, None],
        }
        return inputs, _rows_of([[*self.targets[i], self.stop_id] for i in places], NO_TARGET)


def _in_parts(numbers: Any) -> Iterator[np.ndarray]:
    """Yields an array as short ones, so that what is computed of them needs little memory: it may be a file's."""
    flat = np.asarray(numbers).reshape(-1)
    for first in range(0, len(flat), AT_ONCE):
        yield flat[first : first + AT_ONCE]


def _vocab_size(name: str, ids: Integer[np.ndarray, " _"]) -> int:
    """Returns one more than the largest id, after checking that none is negative."""
    if len(ids) and ids.min() < 0:
        i = int(ids.argmin())
        raise ValueError(f"{name}[{i}]={ids[i]} is negative")
    return int(ids.max()) + 1 if len(ids) else 0


def _rows_of(texts: Sequence[Any], filler: int) -> Int64[np.ndarray, "B _"]:
    """Returns texts of several lengths as one array, with the shorter ones padded."""
    rows = np.full((len(texts), max(map(len, texts))), filler, dtype=np.int64)
    for row, text in zip(rows, texts, strict=True):
        row[: len(text)] = text
    return rows
