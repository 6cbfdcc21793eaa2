"""The type of models of either room: the interface that `scratch.Transformer` and `nn.Transformer` share.

Arrays are `Any` here, because one room has NumPy's and the other has torch's; neither is imported.
"""

from typing import Any, Protocol, runtime_checkable

from glassformer.config import ModelConfig

__all__ = ["AnyTransformer"]
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
