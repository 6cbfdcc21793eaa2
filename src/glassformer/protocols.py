"""The types of models of either room, and of tasks: what others ask of them, so what one of your own needs.

`AnyTransformer` is the interface that `scratch.Transformer` and `nn.Transformer` share. Arrays are `Any` here, because
one room has NumPy's and the other has torch's; neither is imported.
"""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

from glassformer.config import ModelConfig

__all__ = ["OF_A_TASK", "AnyTask", "AnyTransformer"]
__dir__ = __all__.copy


@runtime_checkable
class AnyTransformer(Protocol):
    """A `Transformer` of either room. The axes: B batch, T positions, S positions of a source, D d_model."""

    config: ModelConfig
    training: bool

    def __call__(self, ids: Any, **inputs: Any) -> Any:
        """Maps ids (..., T) to logits (..., T, V)."""
        ...

    def hidden(
        self,
        ids: Any,
        *,
        mask: Any = None,
        position_ids: Any = None,
        segments: Any = None,
        source: Any = None,
        memory: Any = None,
        source_mask: Any = None,
        cache: Any = None,
    ) -> Any:
        """Maps ids (..., T) to final states (..., T, D)."""
        ...

    def head(self, hidden: Any) -> Any:
        """Maps final states (..., D) to logits (..., V)."""
        ...

    def encode(self, source: Any, *, mask: Any = None) -> Any:
        """Maps ids (..., S) to the final states of the encoder, (..., S, D)."""
        ...

    def new_cache(self, batch_size: int, length: int) -> Any:
        """Returns an empty cache for `batch_size` texts of up to `length` positions."""
        ...

    def named_parameters(self) -> Any:
        """Returns every weight by its name, as a dictionary or as pairs for one."""
        ...


class AnyTask(Protocol):
    """What `train.Trainer` asks of a task. The axes: B batch, T positions.

    A batch is the inputs, as `model(**inputs)` takes them, with "ids" (B, T) among them, and the targets (B, T); a
    target of `tasks.NO_TARGET` does not count. All are NumPy arrays of integers. A task may also have `loss(model,
    inputs, targets)`; `checksum()`, by which a run that goes on knows that it learns from the same data; `for_test`
    with `test()`, a part that is evaluated once, at the end; and `special_ids`, a dictionary of the ids that stand for
    no text, by name. Checkpoints keep these, and `pretrained.load` leaves them out of a text that it decodes. An
    encoder–decoder begins with "start", and a text ends with "stop", or one of "stop", "stop 2" and so on. Without
    `special_ids`, they are taken for those of `train.recipe.special_ids`, which follow the tokenizer's own.
    """

    family: str
    """The family of models that can learn it: "decoder", "encoder" or "encoder-decoder"."""
    vocab_size: int
    """The smallest vocabulary that contains all its ids."""
    batch_size: int
    """How many rows a step has, over all processes."""
    length: int
    """The longest input, T."""

    def batch(self, step: int, rank: int = 0, world: int = 1) -> tuple[dict[str, Any], Any]:
        """Returns the share of process `rank` of `world` in the batch of step 0, 1, …: the same at every call."""
        ...

    def validation(self) -> Iterator[tuple[dict[str, Any], Any]]:
        """Yields the batches over which the validation loss is the mean."""
        ...


OF_A_TASK = ("family", "vocab_size", "batch_size", "length", "batch", "validation")
"""The names that every task needs."""
