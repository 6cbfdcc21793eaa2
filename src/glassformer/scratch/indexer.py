"""The lightning indexer: a small attention that chooses what the large one reads."""

import numpy as np
from numpy.typing import DTypeLike

from glassformer import _checks as checks
from glassformer.auxiliary import add_to_loss
from glassformer.scratch.attention import merge_heads, softmax, split_heads
from glassformer.scratch.layer import Layer, Saved, save_for_backward
from glassformer.scratch.linear import Linear
from glassformer.scratch.norm import LayerNorm
from glassformer.scratch.positions import NoPositions
from glassformer.shapes import Bool, Float, Integer


class Indexer(Layer):
    """Scores every past position for every query, and chooses the `top_k` with the largest scores.

    Its I heads share one key per position. The score of position s for query t is
    Σ_h w_th · relu(q_h·k_s / √K), with weights w that depend on the query's
    position. The heads' queries come from the latent (Q) that the queries of
    `LatentAttention` are made of; K is the indexer's own `d_head`, of which
    `position_encoding` rotates as many features as its share says.

    A choice has no gradient. The indexer learns from a term of its own: the KL
    divergence from the attention, as a mean over its heads, to the softmax of the
    scores. The term is the mean over the queries, and its gradient stops at the
    indexer's inputs. While `warm_up` is True, attention reads everything, and the
    indexer learns to predict it; later, both see only what is chosen.

    Source: DeepSeek-AI 2025, "DeepSeek-V3.2", section 2.1, equations 1 to 4; the
    factors 1/√K and, in w, 1/√I: the authors' code. Derived in chapter 16.

    Raises:
        ValueError: a size is below 1, `position_encoding` was made for another
            d_head, or biases the scores.
    """

    warm_up = False

    def __init__(
        self,
        d_query: int,
        d_model: int,
        *,
        n_heads: int,
        d_head: int,
        top_k: int,
        position_encoding: NoPositions | None = None,
        generator: np.random.Generator | None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        checks.whole("top_k", top_k)
        checks.whole("n_heads", n_heads)
        self.d_query, self.d_model = d_query, d_model
        self.n_heads, self.d_head, self.top_k = n_heads, d_head, top_k
        self.position_encoding = (
            NoPositions() if position_encoding is None else position_encoding
        )
        checks.rotates(
            "position_encoding", self.position_encoding, "d_head", d_head
        )

        init_kwargs = {"bias": False, "generator": generator, "dtype": dtype}
        self.W_q = Linear(d_query, n_heads * d_head, **init_kwargs)
        self.W_k = Linear(d_model, d_head, **init_kwargs)
        self.norm_k = LayerNorm(d_head, eps=1e-6, dtype=dtype)
        self.W_w = Linear(d_model, n_heads, **init_kwargs)

    def keys(
        self,
        x: Float[np.ndarray, "*B T D"],
        position_ids: Integer[np.ndarray, "..."] | None = None,
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B 1 T K"]:
        """Maps x (..., T, D) to one key per position, (..., 1, T, K), which all heads share."""
        k = self.norm_k(self.W_k(x, saved), saved)[..., None, :, :]
        return self.position_encoding.rotate(k, position_ids, saved)

    def forward(
        self,
        query: Float[np.ndarray, "*B T Q"],
        x: Float[np.ndarray, "*B T D"],
        k: Float[np.ndarray, "*B 1 S K"],
        position_ids: Integer[np.ndarray, "..."] | None = None,
        saved: Saved | None = None,
    ) -> Float[np.ndarray, "*B 1 T S"]:
        """Scores the keys (..., 1, S, K) for the queries' latents (..., T, Q) and inputs x (..., T, D).

        The scores have the axes (..., 1, T, S): all heads of the attention that
        reads share them.

        Raises:
            ValueError: a shape does not fit.
            TypeError: an input is not floating-point.
        """
        checks.vectors("query", query, "d_query", self.d_query, "T, Q")
        q = split_heads(self.W_q(query, saved), self.n_heads)
        q = self.position_encoding.rotate(q, position_ids, saved)
        alike = q @ k.swapaxes(-1, -2) * self.d_head**-0.5  # (..., I, T, S)
        alike = np.maximum(alike, 0)
        w = self.W_w(x, saved) * self.n_heads**-0.5  # (..., T, I)
        w = w.swapaxes(-1, -2)[..., None]  # (..., I, T, 1)
        save_for_backward(saved, q, k, alike, w)
        return (w * alike).sum(axis=-3, keepdims=True)

    def choose(
        self,
        scores: Float[np.ndarray, "*B 1 T S"],
        visible: Bool[np.ndarray, "..."],
    ) -> Bool[np.ndarray, "..."]:
        """Returns True at the `top_k` largest scores of each query among the keys that are visible to it.

        A query that sees no more than `top_k` keys gets them all. Of equal scores,
        that of the earlier key is taken for the larger. `visible` broadcasts to
        the scores. While `warm_up` is True, everything visible is chosen.
        """
        scores = np.where(visible, scores, -np.inf)
        best = np.argsort(-scores, axis=-1, kind="stable")[..., : self.top_k]
        chosen = np.full(scores.shape, self.warm_up)
        np.put_along_axis(chosen, best, True, axis=-1)
        return chosen & visible

    def learn(
        self,
        query: Float[np.ndarray, "*B T Q"],
        x: Float[np.ndarray, "*B T D"],
        scores: Float[np.ndarray, "*B 1 T S"],
        weights: Float[np.ndarray, "*B H T S"],
        seen: Bool[np.ndarray, "..."],
        position_ids: Integer[np.ndarray, "..."] | None = None,
        saved: Saved | None = None,
    ) -> None:
        """Adds to the loss how far the softmax of the scores is from the attention, if anyone collects the term.

        `weights` (..., H, T, S) are those of the attention, for which `seen` says
        what it could read. A query that could read nothing counts as 0.
        """
        counts = add_to_loss()
        if counts:
            weights = weights.mean(axis=-3, keepdims=True)
            add_to_loss(indexer=divergence(weights, scores, seen))
        save_for_backward(saved, query, x, weights, seen, position_ids, counts)

    def learn_backward(self, saved: Saved) -> None:
        """Adds the slope of the term, if it counts, to the gradients of the indexer's own weights.

        It computes the scores again, because what they are made of is large:
        (..., I, T, S).
        """
        query, x, weights, seen, position_ids, counts = saved.pop()
        if not counts:
            return
        own: Saved = []
        k = self.keys(x, position_ids, own)
        scores = self(query, x, k, position_ids, own)
        grad = divergence_backward(weights, scores, seen)

        q, k, alike, w = own.pop()
        grad_w = np.vecdot(grad, alike).swapaxes(-1, -2)  # (..., T, I)
        self.W_w.backward(grad_w * self.n_heads**-0.5, own)
        grad_alike = grad * w * (alike > 0) * self.d_head**-0.5
        grad_q = self.position_encoding.rotate_backward(grad_alike @ k, own)
        self.W_q.backward(merge_heads(grad_q), own)
        grad_k = (grad_alike.swapaxes(-1, -2) @ q).sum(axis=-3, keepdims=True)
        grad_k = self.position_encoding.rotate_backward(grad_k, own)
        grad_k = self.norm_k.backward(grad_k[..., 0, :, :], own)
        self.W_k.backward(grad_k, own)


def divergence(
    weights: Float[np.ndarray, "*B T S"],
    scores: Float[np.ndarray, "*B T S"],
    seen: Bool[np.ndarray, "..."],
) -> np.floating:
    """Returns KL(weights ‖ softmax of the scores of what is seen), as a mean over the queries.

    Σ_s p_ts · (ln p_ts − ln softmax(I_t)_s), where 0 · ln 0 is 0.

    Source: DeepSeek-AI 2025, "DeepSeek-V3.2", equations 3 and 4. Derived in
    chapter 16.
    """
    info = np.finfo(scores.dtype)
    scores = np.where(_for_any_head(seen), scores, info.min)
    scores = scores - scores.max(axis=-1, keepdims=True)
    log_q = scores - np.log(np.exp(scores).sum(axis=-1, keepdims=True))
    log_p = np.log(np.maximum(weights, info.tiny))
    return np.vecdot(weights, log_p - log_q).mean()


def divergence_backward(
    weights: Float[np.ndarray, "*B T S"],
    scores: Float[np.ndarray, "*B T S"],
    seen: Bool[np.ndarray, "..."],
) -> Float[np.ndarray, "*B T S"]:
    """Returns the gradient of `divergence` with respect to the scores: softmax − weights, over the number of queries.

    The weights are constants here. Derived in chapter 16.
    """
    q = softmax(np.where(_for_any_head(seen), scores, -np.inf))
    return (q - weights) / weights[..., 0].size


def _for_any_head(seen: Bool[np.ndarray, "..."]) -> Bool[np.ndarray, "..."]:
    """Returns what any head could read."""
    if seen.ndim < 3:
        return seen
    return np.asarray(seen.any(axis=-3, keepdims=True))
