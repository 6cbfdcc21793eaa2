"""Helpers that the instruments share: they check the model and read a trace."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from numpy import ndarray

from glassformer import _checks as checks
from glassformer.layers import CompressedAttention
from glassformer.scratch import Transformer, in_numpy
from glassformer.scratch.attention import merge_heads
from glassformer.scratch.model import Stack
from glassformer.scratch.norm import LayerNorm, RMSNorm
from glassformer.shapes import Float, Integer
from glassformer.trace import Trace, trace

Instrument = TypeVar("Instrument", bound=Callable)


def of_either_room(instrument: Instrument) -> Instrument:
    """Lets an instrument that only reads a model take one in PyTorch, too: it then reads a copy in NumPy."""

    @wraps(instrument)
    def reads(model: Any, *given: Any, **options: Any) -> Any:
        return instrument(in_numpy(model), *given, **options)

    return cast(Instrument, reads)


def check_in_numpy(model: Any) -> None:
    """Checks that a model is in NumPy, where an instrument can change it."""
    try:
        checks.instance("model", model, Transformer)
    except TypeError as error:
        raise TypeError(f"{error}; scratch.in_numpy(model) copies one of glassformer.nn to NumPy") from None


def look(model: Transformer, ids: Integer[ndarray, "*B T"]) -> Trace:
    """Returns the trace of a model from `ids` to its final states.

    Raises:
        ValueError: the model is not a decoder, has no head, or is in training with dropout.
        TypeError: it is not a NumPy Transformer.
    """
    check_model(model)
    with trace() as seen:
        model.hidden(ids)
    return seen


def check_model(model: Transformer) -> None:
    """Checks that the model is a NumPy decoder, has a head, and does not drop anything that is to be inspected."""
    check_in_numpy(model)
    checks.one_of("model.config.family", model.config.family, ("decoder",))
    checks.has_part("head", model.unembedding)
    dropout = model.config.dropout
    if model.training and dropout:
        raise ValueError(f"the model is in training with dropout={dropout}: call model.eval() first")


def decoder_of(model: Transformer) -> Stack:
    """Returns the decoder's stack of a model that `check_model` has accepted."""
    return cast(Stack, model.decoder)


def final_norm_of(model: Transformer) -> LayerNorm | RMSNorm:
    """Returns the final norm of a model that `check_stream_is_a_sum` has accepted; pre-norm models have one."""
    return cast(LayerNorm | RMSNorm, decoder_of(model).norm)


def check_stream_is_a_sum(model: Transformer) -> None:
    """Checks that all writes add up and a linear head reads the sum; this fails with post-norm or BERT's head."""
    check_model(model)
    check_heads(model)
    config = model.config
    check_one_stream(model)
    if config.layer_embeddings is not None:
        raise ValueError(
            "layer_embeddings add to the stream, too, so attention and networks are not all of it"
        )
    for layer, _ in config.layers(config.n_layers).values():
        if layer.stream_scale is not None:
            raise ValueError(
                "stream_scale multiplies the stream, so it is not the sum of what was added to it"
            )
        checks.one_of("model.config.norm_placement", layer.residual.placement, ("pre",))
        if layer.residual.scale != 1:
            raise ValueError(
                f"a layer adds {layer.residual.scale} times what a sublayer returns, not just that"
            )
    if config.logit_cap is not None:
        raise ValueError(
            f"logit_cap={config.logit_cap} bends the logits: they are then not sums of contributions"
        )
    if config.head_transform:
        raise ValueError(
            "head_transform=True changes what the head reads: a logit is then not a sum of contributions"
        )


def check_one_stream(model: Transformer) -> None:
    """Checks that there is one residual stream."""
    if (streams := model.config.streams) is not None:
        raise ValueError(f"the model has {streams.n_streams} residual streams, and this reads one")


def check_heads(model: Transformer, *blocks: int) -> None:
    """Checks that what heads have mixed reaches W_o as it is, each head by rows of its own: in all blocks, or these."""
    for i in blocks or range(model.config.n_layers):
        attention = model.config.layer(i).attention
        if attention.gate is not None or isinstance(attention.form, CompressedAttention):
            raise ValueError(
                f"layer {i} changes what its heads have mixed before W_o, so they cannot be taken apart"
            )
        if attention.has_state:
            raise ValueError(
                f"layer {i} has a state, and norms what its heads have read before W_o, so they cannot be taken apart"
            )


def check_no_state(model: Transformer, so: str) -> None:
    """Checks that no layer has a state; `so` says why it must not."""
    for i in range(model.config.n_layers):
        if model.config.layer(i).attention.has_state:
            raise ValueError(f"layer {i} has a state, so {so}")


def check_network(model: Transformer, block: int) -> None:
    """Checks that a layer has one feed-forward network, whose neurons all tokens share."""
    layer = model.config.layer(block)
    if layer.n_sublayers == 1:
        raise ValueError(f"layer {block} has no feed-forward network")
    if layer.feedforward.experts is not None:
        raise ValueError(
            f"layer {block} has {layer.feedforward.experts.n_experts} experts, each with neurons of its own, "
            "so there is no one last matrix to look at"
        )


def entering(seen: Trace, block: int, sublayer: str) -> Float[ndarray, "*B T _"]:
    """Returns the input of a sublayer's last matrix: the heads' outputs side by side, or the neurons."""
    own = Trace()
    own += [one for one in seen if one.part == f"decoder: block {block}"]
    if sublayer == "feed-forward":
        return own.arrays("neurons", sublayer)[0]
    weights, v = own.arrays("weights", sublayer)[0], own.arrays("v", sublayer)[0]
    return merge_heads(weights @ v)  # (..., T, H·K)
