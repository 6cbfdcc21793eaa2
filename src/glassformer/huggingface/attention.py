"""Loads the attention of one layer."""

import re
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.huggingface.configs import described, layout_of, of_text
from glassformer.huggingface.folders import DTYPES
from glassformer.huggingface.methods import block_size
from glassformer.huggingface.quantized import Decoded
from glassformer.huggingface.weights import full_name, known_name, place_of, translated

BORROWED = ("W_k.weight", "W_v.weight", "norm_k.weight")


def attention_from_hf(
    given: Mapping[str, Any],
    state: Mapping[str, Any],
    index: int,
    *,
    room: str = "scratch",
    dtype: str = "float32",
    ignore: Collection[str] = (),
) -> Any:
    """Returns the attention of layer `index` of a decoder, by its config.json and weights under Hugging Face's names.

    Other weights may be missing, and of a folder's only these are read. `room`, `dtype` and `ignore` are as in `load`.

    Raises:
        ValueError: the file asks for an attention that these models do not support, has no such layer, or is not a
            decoder's; or the weights do not fit. The message names what.
        TypeError: `ignore` is not a list of names.
    """
    checks.one_of("room", room, DTYPES)
    checks.one_of("dtype", dtype, DTYPES[room])
    given = of_text(given)
    config, kind = described(given, None, ignore), given["model_type"]
    if config.family != "decoder":
        raise ValueError(
            f"model_type={kind!r} is not supported: only the attention of a decoder is loaded alone"
        )
    if not isinstance(index, int) or not 0 <= index < config.n_layers:
        raise ValueError(f"index={index!r} must be one of the layers, 0 to {config.n_layers - 1}")
    state = Decoded(state, block_size(given))
    layer, weights, to_room = _empty_attention(config, index, room, dtype)
    begin = f"decoder.blocks.{index}.attention."
    wanted = {begin + name: tuple(weight.shape) for name, weight in weights.items()}
    layout = layout_of(config, kind)
    # What begins all their names, such as "model.layers.7.self_attn."
    inside = re.sub(r"(\.\d+\.\w+\.).*", r"\1", place_of(layout, next(iter(wanted))).name)
    own = {place_of(layout, name).name for name in wanted}
    sharing = config.layer(index).attention.sharing
    unused: tuple[str, ...] = ()
    if sharing is not None and sharing.borrows is not None:  # files may have matrices for what it borrows
        unused = tuple(place_of(layout, begin + name).name.removesuffix("weight") for name in BORROWED)
    part = {}
    for key in state:
        name = known_name(layout, full_name(layout, key), own)
        if name in own or (name.startswith(inside) and not name.startswith(unused)):
            part[key] = state[key]
    shapes = {name: state.shapes[name] for name in part}
    for name, values in translated(wanted, part, shapes, layout):
        weights[name.removeprefix(begin)][...] = to_room(values)
    return layer


def _empty_attention(config: ModelConfig, index: int, room: str, dtype: str) -> tuple[Any, Any, Any]:
    """Returns an attention layer in evaluation, its weights, and what makes values of its room."""
    if room == "scratch":
        from glassformer.scratch.attentions import attention_of

        layer: Any = attention_of(config, index, causal=True, generator=None, dtype=np.dtype(dtype)).eval()
        return layer, layer.named_parameters(), np.asarray
    from glassformer._checks.extras import torch
    from glassformer.nn.attentions import attention_of as of_nn

    layer = of_nn(config, index, causal=True, generator=None, dtype=getattr(torch, dtype)).eval()
    return layer, {name: weight.detach() for name, weight in layer.named_parameters()}, torch.as_tensor
