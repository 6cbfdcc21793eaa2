"""The types of models, tasks and position encodings: what others ask of them, so what one of your own needs.

`AnyTransformer` is the interface that `scratch.Transformer` and `nn.Transformer` share. Arrays are `Any` here, because
one room has NumPy's and the other has torch's; neither is imported.
"""

from collections.abc import Iterator
from typing import Any, Protocol, runtime_checkable

from glassformer.config import ModelConfig

__all__ = [
    "OF_A_MODEL",
    "OF_A_TASK",
    "OF_POSITIONS",
    "AnyModel",
    "AnyPositions",
    "AnyTask",
    "AnyTransformer",
    "is_table",
    "is_vector",
]
__dir__ = __all__.copy


@runtime_checkable
class AnyTransformer(Protocol):
    """A `Transformer` of either room. The axes: B batch, T positions, S positions of a source, D d_model.

    `generate` needs `hidden` and `head`, `encode` for an encoder–decoder, and `new_cache` unless it is told
    `cache=False`.
    """

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


class AnyModel(Protocol):
    """What `train.Trainer` asks of a model, which is a `torch.nn.Module`. The axes: B batch, T positions, V vocab_size.

    A checkpoint has its parameters, which are in float32 or float64, and nothing else of its state. The optimizers and
    `initialize` know a weight by its name. Matrices in `blocks`, such as "blocks.0.mixer.W_o.weight", have the
    rate of matrices, and Muon if it is chosen; `unembedding` has the head's rate, and all other matrices that of
    embeddings. Vectors have the rate of norms and no decay, and so has what `is_vector` counts among them. In each
    sublayer, `W_o` or `W_down` is the matrix that writes to the stream.
    """

    config: ModelConfig
    """Its `family`, `vocab_size` and `context_length` must suit the task; all of it is stored with the weights."""

    def forward(self, ids: Any, **inputs: Any) -> Any:
        """Maps ids (B, T), and any other inputs of the task, to logits (B, T, V)."""
        ...


def is_vector(name: str, n_axes: int) -> bool:
    """Returns whether a weight is a vector, or the weights of a short convolution, which are some for each feature."""
    return n_axes < 2 or name.split(".")[-2].startswith("convolution")


def is_table(name: str) -> bool:
    """Returns whether a weight is a router's table of experts: whole numbers, which are stored and never trained."""
    return name.endswith("router.table")


OF_A_MODEL = ("config", "forward")
"""The names that every model needs in order to be trained."""


class AnyPositions(Protocol):
    """What `nn` asks of a position encoding: `positions` of a stack, or `position_encoding` of an attention layer.

    A stack calls `embed` and `score_bias`, once for all its blocks; attention calls `rotate` and `score_bias`. What an
    encoding does not do, it inherits from `nn.NoPositions`, or it returns `x` unchanged and the bias None. The axes: B
    batch, H heads, T queries, S keys, D d_model, K d_head.
    """

    acts_on: str | None
    """"input" in a stack, "queries and keys" in an attention layer, or "scores" in either; None: it does nothing."""

    def embed(self, x: Any, position_ids: Any = None) -> Any:
        """Returns token vectors x (..., T, D) with their positions; `position_ids` (T,) or (..., T) say which."""
        ...

    def rotate(self, x: Any, position_ids: Any = None) -> Any:
        """Returns queries or keys x (..., H, T, K), turned by their positions; keys may have fewer heads."""
        ...

    def score_bias(self, query_positions: Any, key_positions: Any) -> Any:
        """Returns what is added to the scores, (H, T, S) or (..., H, T, S), or None; masks are applied after it."""
        ...


OF_POSITIONS = ("acts_on", "embed", "rotate", "score_bias")
"""The names that every position encoding needs."""


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


OF_A_TASK = dict.fromkeys(("family", "vocab_size", "batch_size", "length")) | {
    "batch": ("step", "rank", "world"),
    "validation": (),
}
"""The names that every task needs, and what its methods are called with."""
