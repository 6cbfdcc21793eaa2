"""Draws the weights of small GPTs, which judges of several chapters use, under the package's names.

Axes: V vocabulary, D d_model, F d_ff, K d_head.
"""

import numpy as np

from glassformer.exercises.material import Weights

ENDS = ("weight", "bias")


def gpt_weights(V: int, D: int, n_layers: int, context: int = 8, seed: int = 0) -> dict[str, np.ndarray]:
    """Returns a GPT's weights under the package's names, none at a value that would hide its absence."""
    rng = np.random.default_rng(seed)
    shapes: dict[str, tuple[int, ...]] = {
        "token_embedding.weight": (V, D),
        "decoder.positions.weight": (context, D),
    }
    for i in range(n_layers):
        at = f"decoder.blocks.{i}."
        shapes |= {
            f"{at}{norm}.{end}": (D,) for norm in ("norm_attention", "norm_feedforward") for end in ENDS
        }
        shapes |= {f"{at}attention.W_{name}.weight": (D, D) for name in "qkvo"}
        shapes |= {f"{at}feedforward.W_up.weight": (D, 4 * D), f"{at}feedforward.W_up.bias": (4 * D,)}
        shapes |= {f"{at}feedforward.W_down.weight": (4 * D, D), f"{at}feedforward.W_down.bias": (D,)}
    shapes |= {f"decoder.norm.{end}": (D,) for end in ENDS}
    drawn = {name: rng.normal(size=shape) * 0.5 for name, shape in shapes.items()}
    drawn = {name: w + 1 if "norm" in name and name.endswith("weight") else w for name, w in drawn.items()}
    return {name: drawn[name] for name in rng.permutation(list(drawn)).tolist()}


def modern_weights(
    V: int, D: int, F: int, n_layers: int, n_heads: int, seed: int = 0
) -> dict[str, np.ndarray]:
    """Returns the weights of a small model of the shipped model's kind, with gains that are not 1."""
    K = D // n_heads
    shapes: dict[str, tuple[int, ...]] = {
        "token_embedding.weight": (V, D),
        "decoder.embedding_norm.weight": (D,),
    }
    for i in range(n_layers):
        at = f"decoder.blocks.{i}."
        shapes |= {f"{at}norm_attention.weight": (D,)}
        shapes |= {f"{at}attention.W_{name}.weight": (D, D) for name in "qkvo"}
        shapes |= {f"{at}attention.norm_{name}.weight": (K,) for name in "qk"}
        shapes |= {f"{at}norm_feedforward.weight": (D,), f"{at}feedforward.W_up.weight": (D, F)}
        shapes |= {f"{at}feedforward.W_gate.weight": (D, F), f"{at}feedforward.W_down.weight": (F, D)}
    shapes |= {"decoder.norm.weight": (D,), "unembedding.weight": (D, V)}
    rng = np.random.default_rng(seed)
    drawn = {name: rng.normal(size=shape) * 0.6 for name, shape in shapes.items()}
    return {name: w + 1 if "norm" in name else w for name, w in drawn.items()}


def weights_of_block(weights: Weights, i: int) -> dict[str, np.ndarray]:
    """Returns the weights of block i under their names within the block."""
    start = f"decoder.blocks.{i}."
    return {name.removeprefix(start): w for name, w in weights.items() if name.startswith(start)}
