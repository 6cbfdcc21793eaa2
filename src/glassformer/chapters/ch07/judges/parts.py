"""The parts of a block as functions, and wrong blocks that several judges of chapter 07 build from them."""

import math

import numpy as np

from glassformer.chapters.ch03.judges.multi_head import multi_head
from glassformer.chapters.ch05.judges.layer_norm import layer_norm
from glassformer.scratch.feedforward import gelu


class Parts:
    """The four parts of one block, each a function of x, so that mistakes can put them together wrongly."""

    def __init__(self, w, n_heads, *, bend=gelu, norms=("norm_attention", "norm_feedforward")) -> None:
        self.w, self.n_heads, self.bend, self.norms = w, n_heads, bend, norms

    def norm(self, x, which):
        """Returns the first norm of x (0) or the second (1)."""
        name = self.norms[which]
        return layer_norm(x, self.w[f"{name}.weight"], self.w[f"{name}.bias"])

    def attend(self, x):
        """Returns what causal attention makes of x."""
        W_q, W_k, W_v, W_o = (self.w[f"attention.{name}.weight"] for name in ("W_q", "W_k", "W_v", "W_o"))
        return multi_head(x, W_q, W_k, W_v, W_o, self.n_heads)

    def feed(self, x):
        """Returns what the feed-forward network makes of x."""
        up = x @ self.w["feedforward.W_up.weight"] + self.w["feedforward.W_up.bias"]
        return self.bend(up) @ self.w["feedforward.W_down.weight"] + self.w["feedforward.W_down.bias"]

    def attend_to_all(self, x):
        """Lets every position attend to all others: there is no mask."""
        W_q, W_k, W_v, W_o = (self.w[f"attention.{name}.weight"] for name in ("W_q", "W_k", "W_v", "W_o"))
        K = x.shape[1] // self.n_heads
        mixed = []
        for columns in (slice(h * K, (h + 1) * K) for h in range(self.n_heads)):
            powers = np.exp((x @ W_q[:, columns]) @ (x @ W_k[:, columns]).T / math.sqrt(K))
            mixed.append(powers / powers.sum(axis=1, keepdims=True) @ (x @ W_v[:, columns]))
        return np.hstack(mixed) @ W_o


def put_together(function, **changes):
    """Returns a wrong block: `function` puts the parts together, and `changes` may change some of them."""
    return lambda x, weights, n_heads: function(Parts(weights, n_heads, **changes), x)


def as_it_is(p, x):
    """A pre-norm block, as it should be."""
    x = x + p.attend(p.norm(x, 0))
    return x + p.feed(p.norm(x, 1))


def replaced(p, x):
    """Both sublayers replace the stream instead of adding to it."""
    return p.feed(p.norm(p.attend(p.norm(x, 0)), 1))


def unnormed(first, second):
    """A block in which the first or second sublayer reads the stream without a norm, where that is False."""

    def wrong(p, x):
        x = x + p.attend(p.norm(x, 0) if first else x)
        return x + p.feed(p.norm(x, 1) if second else x)

    return wrong


def normed_after(p, x):
    """A post-norm block."""
    x = p.norm(x + p.attend(x), 0)
    return p.norm(x + p.feed(x), 1)


def side_by_side(p, x):
    """Both sublayers read the same stream."""
    return x + p.attend(p.norm(x, 0)) + p.feed(p.norm(x, 1))


def writes_normed(p, x):
    """Each sublayer reads the stream itself, and what it writes is normed."""
    x = x + p.norm(p.attend(x), 0)
    return x + p.norm(p.feed(x), 1)
