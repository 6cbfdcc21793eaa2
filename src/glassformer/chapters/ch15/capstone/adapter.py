"""The reader's design as the checks call it: NumPy in and NumPy out, whatever it is made of.

An adapter is a class (each stage makes a fresh one), an object, a module or a dictionary. It has two numbers,
`vocab_size` and `context_length`, and those of the pieces of ``capstone.toml`` that the reader has written.
With `tensors = True` it is given torch tensors instead of arrays, with `batched = True` arrays with an axis of texts
in front. What comes back may be either, with that axis or without, and in a tuple or an object with `logits`.
"""

import contextlib
import copy
import dis
import inspect
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from glassformer.exercises.attempt import Learner, NotAttempted, raised
from glassformer.exercises.expect import Wrong, as_numbers, describe, in_numpy, is_tensor
from glassformer.exercises.timelimit import Stop

from .words import mistakes

# What Python makes of a function without a statement, in any of its versions.
NOTHING = {"RESUME", "NOP", "LOAD_CONST", "POP_TOP", "RETURN_CONST", "RETURN_VALUE", "CACHE"}
WAYS = ((True, False), (False, True), (False, False), (True, True))  # tensors, batched
NUMBERS = {
    "vocab_size": "the number of ids",
    "context_length": "the number of ids that the model can read at once",
    "d_model": "the width of the stream, which is needed because there is no `embed`",
}
SHORTEST = 16  # positions: a context of fewer leaves nothing to check


class Told(Wrong):
    """A failure whose cause is known: its message ends in that mistake's sentence and leads to its chapter."""

    def __init__(self, message: str, mistake: str) -> None:
        known = mistakes()[mistake]
        super().__init__(f"{message} {known.says}")
        self.mistake, self.chapter = mistake, known.chapter


class Missing(NotAttempted):
    """The adapter has no piece, or number, of that name."""

    def __init__(self, name: str) -> None:
        said = NUMBERS.get(name)
        super().__init__(f"your adapter has no `{name}`{f', {said}' if said else ' yet'}.")


class NotLookedAt(Exception):  # noqa: N818 - the reader has made no error
    """A check has nothing to look at: the message says why. The stage goes on with the next."""


class Cache(dict):
    """A cache that `step` may write into: its copy is itself."""

    def __deepcopy__(self, memo: dict) -> "Cache":
        return self


@dataclass
class Running:
    """The piece that runs now, for whoever watches the time."""

    piece: str = ""
    calls: int = 0  # how often a piece has begun or ended
    slowness: float = 1.0  # how many times as long as alone it may take, because something watches it
    begin: Callable[[str], contextlib.AbstractContextManager] = lambda _: contextlib.nullcontext()
    clock: int | None = None  # the number of the clock of its thread, if there is one

    @contextlib.contextmanager
    def slowed(self, times: float) -> Iterator[None]:
        """Allows more time for what is watched."""
        self.slowness *= times
        try:
            yield
        finally:
            self.slowness /= times

    @contextlib.contextmanager
    def runs(self, piece: str) -> Iterator[None]:
        """Notes a call while it lasts. One that was stopped stays noted: whoever stopped it asks which it was."""
        outer, self.piece = self.piece, piece
        self.calls += 1
        try:
            with self.begin(piece):
                yield
        except (Stop, GeneratorExit):
            raise  # the second: another `Stop` has kept the first from arriving, and this was thrown away
        except BaseException:
            self.piece, self.calls = outer, self.calls + 1
            raise
        self.piece, self.calls = outer, self.calls + 1

    def begins(self) -> None:
        """Notes the clock of this thread. Where there is none (Windows, macOS), only the time of day counts."""
        with contextlib.suppress(AttributeError, OSError):
            self.clock = time.pthread_getcpuclockid(threading.get_ident())

    def worked(self) -> float | None:
        """Returns how many seconds the thread has computed, or None if nobody knows."""
        if self.clock is None:
            return None
        try:
            return time.clock_gettime(self.clock)
        except OSError:  # it has ended
            return None


class GPT:
    """The reader's design. A piece is called by its name; what it returns has as many axes as asked for.

    Args:
        adapter: the reader's.
        running: notes which piece runs.
        hung: pieces that have not returned before. They are not called again.
    """

    def __init__(self, adapter: Any, running: Running | None = None, hung: Collection[str] = ()) -> None:
        self.source = adapter  # as it was handed over, for whoever needs a fresh one
        self._learners: dict[str, Learner] = {}
        self.remarks: list[str] = []
        self.notes: dict[str, Any] = {}  # what one check of a stage has found out for the next
        self.running, self.hung = running or Running(), hung
        self.adapter = self._made(adapter)
        flags = self.piece("tensors"), self.piece("batched")
        # a helper of the reader's may have such a name, too
        self.tensors, self.batched = (bool(flag) and not callable(flag) for flag in flags)

    def _made(self, adapter: Any) -> Any:
        """A fresh one of a class, or of a function without arguments; a copy of anything else, if it can be copied."""
        is_class = inspect.isclass(adapter)
        if is_class or inspect.isroutine(adapter):
            name = getattr(adapter, "__name__", "your function")
            try:
                with self._runs(f"{name}()"):
                    return Learner(adapter)()
            except (Stop, NotAttempted):
                raise
            except BaseException as error:
                raise Wrong(_instead(raised(error), f"{name}()")) from error
        if isinstance(adapter, ModuleType):
            return adapter
        try:
            return copy.deepcopy(adapter)
        except Exception:  # what cannot be copied is used as it is
            return adapter

    def piece(self, name: str) -> Any:
        """Returns a piece as the adapter has it, or None."""
        named = self.adapter if isinstance(self.adapter, Mapping) else None
        return getattr(self.adapter, name, None) if named is None else named.get(name)

    def _runs(self, piece: str) -> contextlib.AbstractContextManager:
        """Notes that this piece runs. Raises `Wrong` if it did not return when it was called before."""
        if piece in self.hung:
            raise Wrong(f"`{piece}` did not return in an earlier stage, so it was not called again.")
        return self.running.runs(piece)

    def remark(self, text: str) -> None:
        """Keeps a remark for the verdict, once."""
        if text not in self.remarks:
            self.remarks.append(text)

    def has(self, *names: str) -> bool:
        """Returns whether the adapter has all of these, and none is still empty."""
        return all(self.piece(name) is not None and not _is_empty(self.piece(name)) for name in names)

    @property
    def vocab_size(self) -> int:
        """V, as the adapter has it."""
        return self._number("vocab_size", 2)

    @property
    def context_length(self) -> int:
        """Returns how many ids the model can read at once, according to the adapter."""
        return self._number("context_length", SHORTEST)

    def _number(self, name: str, at_least: int) -> int:
        value = self.piece(name)
        if value is None:
            raise Missing(name)
        if callable(value):
            value = value()
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < at_least:
            said = f"`{name}` should be a whole number of at least {at_least}"
            raise Wrong(f"{said}; yours is {describe(value)}.")
        return int(value)

    def call(self, name: str, *args: Any, texts: bool = False) -> Any:
        """Calls a piece and returns its result in NumPy; whatever it raises is reported as its failure.

        Args:
            name: of the piece.
            args: what it is given.
            texts: whether arrays have an axis of texts already.

        Raises:
            Missing: the adapter has none of that name.
            NotAttempted: it is still empty.
            Wrong: it raised an error, or wrote into what it was handed.
        """
        function = self.piece(name)
        if function is None:
            raise Missing(name)
        if not callable(function):
            raise Wrong(f"`{name}` should be a function; yours is {describe(function)}.")
        learner = self._learners.setdefault(name, Learner(function))
        batched = self.batched and not texts and name != "decode"  # which is one text, whatever a model reads
        try:
            with self._runs(name):
                return learner(*self._dressed(args, self.tensors, batched))
        except (Stop, NotAttempted):
            raise
        except Wrong as wrong:
            raise Wrong(_instead(str(wrong), f"`{name}`")) from wrong
        except BaseException as error:
            said = _instead(raised(error), f"`{name}`")
            raise Wrong(said if texts else f"{said}{self._advice(name, function, args)}") from error

    def _floats(self) -> str:
        """Returns the type of the stream's numbers: that of PyTorch's weights, if all are in double precision."""
        if "floats" not in self.notes:
            self.notes["floats"] = "float32"
            with contextlib.suppress(Exception):  # whatever is wrong with them is told where they are checked
                kinds = {
                    str(one.dtype) for one in self.piece("weights")().values() if one.is_floating_point()
                }
                self.notes["floats"] = "float64" if kinds == {"torch.float64"} else "float32"
        return self.notes["floats"]

    def raw(self, name: str, *args: Any) -> Any:
        """Calls a piece that has run before, and returns its result as it is, with PyTorch's graph of it."""
        with self._runs(name):
            return self.piece(name)(*self._dressed(args, self.tensors, self.batched))

    def decode(self, ids: np.ndarray) -> Any:
        """Calls `decode`; if it cannot use tensors, as a dictionary cannot, calls it with a list of integers."""
        try:
            return self.call("decode", ids)
        except Wrong:
            if self.tensors:
                with contextlib.suppress(Wrong):
                    return self.call("decode", ids.tolist())
            raise

    def _advice(self, name: str, function: Callable, args: tuple) -> str:
        """Suggests another way of handing over the arguments that would have worked, if there is one."""
        if name == "decode" or not any(isinstance(one, np.ndarray) for one in args):
            return ""
        for tensors, batched in WAYS:
            try:
                with self._runs(name):
                    function(*self._dressed(copy.deepcopy(args), tensors, batched))
            except Stop:
                raise
            except BaseException:
                continue
            changes = [f"`tensors = {tensors}`"] if tensors != self.tensors else []
            changes += [f"`batched = {batched}`"] if batched != self.batched else []
            given = f"{'torch tensors' if tensors else 'NumPy arrays'}{' with a leading axis for the texts' * batched}"
            return f". It runs if it is given {given}: set {' and '.join(changes)}." if changes else ""
        return ""

    def _dressed(self, args: tuple, tensors: bool, batched: bool) -> list[Any]:
        """Arguments as the adapter wants them, with tensors of real numbers in its type; what is no array as it is."""

        def dressed(value: Any) -> Any:
            if not isinstance(value, np.ndarray):
                return value
            value = value[None] if batched else value
            if not tensors:
                return value
            import torch

            return torch.from_numpy(value.astype(self._floats() if value.dtype.kind == "f" else np.int64))

        return [dressed(one) for one in args]

    def array(
        self,
        name: str,
        *args: Any,
        axes: str,
        what: str = "",
        shape: tuple[int, ...] = (),
        texts: bool = False,
    ) -> np.ndarray:
        """Calls a piece that returns an array with these axes, "T V"; it may have a leading batch axis of size one.

        Raises:
            Wrong: it has other axes, or another shape than this.
        """
        what, letters = what or f"`{name}`", ", ".join(axes.split())
        array = without_batch(
            as_numbers(_first(self.call(name, *args, texts=texts), what), what), len(axes.split())
        )
        if array.ndim != len(axes.split()):
            message = f"{what} should have axes ({letters}); yours has shape {array.shape}."
            if array.shape[1:2] == (1,):  # a batch of one text is in the middle
                raise Told(f"{message} That looks like (T, B, …).", "axes-swapped")
            raise Wrong(message)
        if shape and array.shape != shape:
            message = f"{what} should have shape ({letters}) = {shape}; yours has shape {array.shape}."
            if axes == "T V" and array.shape == (1, shape[1]):
                raise Told(message, "last-only")
            raise Told(message, "axes-swapped") if sorted(array.shape) == sorted(shape) else Wrong(message)
        return array.astype(np.float64)

    def number(self, name: str, *args: Any, texts: bool = False) -> float:
        """Calls a piece that returns one number; in a tuple, takes the entry that is a number."""
        result = self.call(name, *args, texts=texts)
        result = result.get("loss", result) if isinstance(result, Mapping) else result
        entries = result if isinstance(result, tuple | list) else [getattr(result, "loss", result)]
        single = [one for one in map(in_numpy, entries) if isinstance(one, np.ndarray) and one.size == 1]
        if not single:
            raise Wrong(f"`{name}` should return one number; yours returned {describe(result)}.")
        return float(single[-1].reshape(()))

    def arrays(self, name: str, *args: Any) -> dict[str, Any]:
        """Calls a piece that returns a dictionary of arrays, and returns the arrays themselves, not copies."""
        result = self.call(name, *args)
        if not isinstance(result, Mapping) or not result:
            said = f"`{name}` should return a dictionary, name → array"
            raise Wrong(f"{said}; yours returned {describe(result)}.")
        return dict(result)

    def logits(self, ids: np.ndarray, name: str = "logits", what: str = "`logits`") -> np.ndarray:
        """(T,) to (T, V), finite."""
        what = f"{what} of {len(ids)} ids"
        logits = self.array(name, ids, axes="T V", what=what, shape=(len(ids), self.vocab_size))
        if not np.isfinite(logits).all():
            t, v = (int(i) for i in np.argwhere(~np.isfinite(logits))[0])
            message = f"{what} has {logits[t, v]} at [t={t}, v={v}]."
            raise Told(message, "mask-of-self") if t == 0 and np.isnan(logits[t, v]) else Wrong(message)
        return logits

    @property
    def width(self) -> int:
        """D: of what `embed` gives, or the adapter's `d_model`."""
        if self.has("d_model"):
            return self._number("d_model", 1)
        if not self.has("embed"):
            raise Missing("d_model")
        return self.array("embed", np.arange(2), axes="T D").shape[-1]


def in_place(weight: Any) -> np.ndarray | None:
    """Returns a weight's own numbers as an array, or None if they cannot be changed from here."""
    if is_tensor(weight):
        whole = weight.device.type == "cpu" and weight.dtype.itemsize >= 4
        weight = weight.detach().numpy() if whole else None
    if not isinstance(weight, np.ndarray) or weight.dtype.kind != "f" or not weight.flags.writeable:
        return None
    return weight if np.isfinite(weight).all() else None  # a mask


def without_batch(array: np.ndarray, ndim: int) -> np.ndarray:
    """Returns an array without leading axes of size one, as long as it has more than `ndim`."""
    while array.ndim > ndim and array.shape[0] == 1:
        array = array[0]
    return array


def _is_empty(value: Any) -> bool:
    """Returns whether it is a function that does nothing: `...`, `pass`, or a docstring alone."""
    code = getattr(getattr(value, "__func__", value), "__code__", None)
    if code is None:
        return False
    steps = list(dis.get_instructions(code))
    constants = [one.argval for one in steps if one.opname.endswith("CONST")]
    return {one.opname for one in steps} <= NOTHING and all(one in (None, ...) for one in constants)


def _first(value: Any, what: str) -> Any:
    """The array among what came back: in a tuple the first, in an object or a dictionary its `logits`."""
    if isinstance(value, Mapping):
        value = value.get("logits", next(iter(value.values()), None))
    elif not isinstance(value, np.ndarray | list) and hasattr(value, "logits"):
        value = value.logits
    if isinstance(value, tuple):
        arrays = [one for one in map(in_numpy, value) if isinstance(one, np.ndarray)]
        if not arrays:
            raise Wrong(f"{what} should be an array; yours is {describe(value)}.")
        return arrays[0]
    return in_numpy(value)


def _instead(said: str, name: str) -> str:
    """The same sentence, with the piece's name in the place of "your function"."""
    return said.replace("your function", name, 1)
