"""A PyTorch model's twin in NumPy."""

from typing import Any

import numpy as np

from glassformer import _checks as checks
from glassformer._checks import own_parts
from glassformer.protocols import is_table
from glassformer.scratch.model import Transformer


def in_numpy(model: Any) -> Transformer:
    """Copies a `Transformer` of `nn` to NumPy, where its computations can be traced and its parts taken out.

    The copy has weights of its own and computes in the model's precision, at
    least in float32. Like the model, it is in training or in evaluation. A
    NumPy model is returned as it is.

    Raises:
        TypeError: `model` is not a Transformer of either room.
        ValueError: its weights are not those of its configuration, for example
            because of adapters or a layer of your own.
    """
    if all(
        kind.__module__ != "glassformer.nn.model" for kind in type(model).__mro__
    ):
        checks.instance("model", model, Transformer)
        return model
    tensors = {n: weight.detach().cpu() for n, weight in model.named_parameters()}
    # NumPy has no bfloat16
    weights = {
        n: (t.float() if t.itemsize < 4 else t).numpy()
        for n, t in tensors.items()
    }
    dtype = np.result_type(*(w for n, w in weights.items() if not is_table(n)))
    copy = Transformer(model.config, generator=None, dtype=dtype)
    try:
        copy.load_state_dict(weights)
    except ValueError as error:
        raise ValueError(f"{error}. So {own_parts(weights)}") from error
    return copy.train(model.training)
