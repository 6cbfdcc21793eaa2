"""The Transformer block: attention, then a feed-forward network, each added to the residual stream.

The axes: B batch, T positions, D d_model, S positions of the encoder's output.
"""

from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from glassformer.config import ModelConfig
from glassformer.scratch.attentions import attention_of
from glassformer.scratch.cache import KeyValueCache
from glassformer.scratch.experts import Experts
from glassformer.scratch.feedforward import FeedForward, NoFeedForward
from glassformer.scratch.layer import Layer, Saved
from glassformer.scratch.multi_head import Shared
from glassformer.scratch.norm import LayerNorm, NoNorm, RMSNorm, norm_of
from glassformer.scratch.output_norm import with_output
from glassformer.shapes import Bool, Float, Integer
from glassformer.trace import see


class Block(Layer):
    """Two sublayers, self-attention and feed-forward, with cross-attention between them if `crossing`.

    Each sublayer reads the stream and adds to it. Pre-norm computes x +
    sublayer(norm(x)), so the stream itself is never normalized. Post-norm, as in
    2017, computes norm(x + sublayer(x)). In a parallel block, both sublayers read
    the same norm of x, and the second does not see what the first adds. `index`
    says which layer of the model it is; all are alike, unless the configuration
    has several kinds. With feedforward "none", there is one sublayer, as in
    Mamba-2.

    Source: Vaswani et al. 2017, "Attention Is All You Need", section 3.1;
    pre-norm: Radford et al. 2019, "Language Models are Unsupervised Multitask
    Learners", section 2.3; parallel: Chowdhery et al. 2022, "PaLM", section 2.
    Derived in chapter 07, its gradient in 09.
    """

    def __init__(
        self,
        config: ModelConfig,
        index: int = 0,
        *,
        causal: bool,
        crossing: bool = False,
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        layer = config.layer(index)
        network = layer.feedforward
        placement = layer.residual.placement
        self.norm_placement = "post" if placement == "post" else "pre"
        self.parallel = placement == "parallel"
        init_kwargs = {"generator": generator, "dtype": dtype}

        def norm() -> LayerNorm | RMSNorm | NoNorm:
            """The norm before a sublayer or, for post-norm, after the sum."""
            if placement == "output":
                return NoNorm()
            return norm_of(config, dtype)

        self.norm_attention = norm()
        self.attention = attention_of(config, index, causal=causal, **init_kwargs)
        self.norm_cross_attention = self.cross_attention = None
        if crossing:
            self.norm_cross_attention = norm()
            self.cross_attention = attention_of(
                config, index, crossing=True, **init_kwargs
            )
        self.norm_feedforward: Any = NoNorm()
        self.feedforward: Any = NoFeedForward()
        self.reads_ids = False
        if network.activation == "none":
            return
        kind, own = FeedForward, {}
        if network.experts is not None:
            given = config.vocab_size, layer.norm.eps
            kind, own = Experts, network.experts.arguments(*given)
        if not self.parallel and not own.get("own_norms"):
            self.norm_feedforward = norm()
        self.reads_ids = own.get("vocab_size") is not None
        self.feedforward = with_output(kind, config, layer, dtype)(
            config.d_model,
            network.d_ff,
            activation=network.activation,
            bias=network.bias,
            dropout=config.dropout,
            **own,
            **init_kwargs,
        )

    def forward(
        self,
        x: Float[np.ndarray, "*B T D"],
        *,
        ids: Integer[np.ndarray, "*B T"] | None = None,
        position_ids: Integer[np.ndarray, "..."] | None = None,
        mask: Bool[np.ndarray, "..."] | None = None,
        score_bias: Float[np.ndarray, "..."] | None = None,
        cache: KeyValueCache | None = None,
        shared: Shared | None = None,
        memory: Float[np.ndarray, "*B S D"] | None = None,
        memory_mask: Bool[np.ndarray, "..."] | None = None,
        memory_cache: KeyValueCache | None = None,
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B T D"]:
        """Maps x (..., T, D) to (..., T, D).

        `position_ids`, `mask`, `score_bias`, `cache` and `shared` go to
        self-attention; arguments that begin with `memory` go to cross-attention;
        `ids` (..., T) go to experts that are chosen by them.
        """
        given: dict[str, Any] = {
            "position_ids": position_ids,
            "mask": mask,
            "score_bias": score_bias,
            "cache": cache,
        }
        if shared is not None:
            given["shared"] = shared
        given_across = {
            "memory": memory,
            "mask": memory_mask,
            "cache": memory_cache,
        }
        given_too = {"ids": ids} if self.reads_ids else {}
        if self.norm_placement == "pre":
            normed = self.norm_attention(x, saved)
            x = x + self.attention(normed, **given, saved=saved)
            see(stream=x)
            if self.cross_attention is not None:
                across = self.norm_cross_attention(x, saved)
                x = x + self.cross_attention(across, **given_across, saved=saved)
                see(stream=x)
            if not self.parallel:
                normed = self.norm_feedforward(x, saved)
            x = x + self.feedforward(normed, saved, **given_too)
        else:
            x = self.norm_attention(
                x + self.attention(x, **given, saved=saved), saved
            )
            see(stream=x)
            if self.cross_attention is not None:
                x = self.norm_cross_attention(
                    x + self.cross_attention(x, **given_across, saved=saved),
                    saved,
                )
                see(stream=x)
            x = self.norm_feedforward(
                x + self.feedforward(x, saved, **given_too), saved
            )
        see(stream=x)
        return x

    def backward(
        self, grad: Float[np.ndarray, "*B T D"], saved: Saved
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        """Maps the gradient of the output to those of x, of `memory` and of `score_bias`.

        The gradient of an input that was not given is None. A sum passes its
        gradient to both of its terms.
        """
        grad_memory = None
        if self.norm_placement == "pre":
            to_normed = self.feedforward.backward(grad, saved)
            if not self.parallel:
                grad = grad + self.norm_feedforward.backward(to_normed, saved)
            if self.cross_attention is not None:
                to_x, grad_memory, _ = self.cross_attention.backward(grad, saved)
                grad = grad + self.norm_cross_attention.backward(to_x, saved)
            to_x, _, grad_score_bias = self.attention.backward(grad, saved)
            to_x = to_x + to_normed if self.parallel else to_x
            grad = grad + self.norm_attention.backward(to_x, saved)
        else:
            grad = self.norm_feedforward.backward(grad, saved)
            grad = grad + self.feedforward.backward(grad, saved)
            if self.cross_attention is not None:
                grad = self.norm_cross_attention.backward(grad, saved)
                to_x, grad_memory, _ = self.cross_attention.backward(grad, saved)
                grad = grad + to_x
            grad = self.norm_attention.backward(grad, saved)
            to_x, _, grad_score_bias = self.attention.backward(grad, saved)
            grad = grad + to_x
        return grad, grad_memory, grad_score_bias
