"""The models that `load` may be given, as tables: their parts, and the names and shapes of their weights."""

from collections.abc import Sequence

from glassformer.config import ModelConfig
from glassformer.contents import page

from .weights import KINDS, made, the_books

STAR = "shakespeare"
Rows = tuple[Sequence[str], list[Sequence[str]]]

# How a configuration's choices are called.
_NORMS = {"layernorm": "LayerNorm", "rmsnorm": "RMSNorm"}
_ACTIVATIONS = {"gelu": "exact GELU", "swiglu": "SiLU, on the gate"}
_POSITIONS = {"learned": "a table, added to the embeddings", "rope": "RoPE on queries and keys"}
_HEADS = {"tied": "the embedding table, transposed", "untied": "a matrix of its own"}
_LAYOUTS = {"half": "dimension i with i + K/2", "interleaved": "dimension 2i with 2i + 1"}

# By the letters of their axes, what a weight of each name is shaped like.
_SHAPES = {
    "token_embedding.weight": "(V, D)", "positions.weight": "(context, D)", "unembedding.weight": "(D, V)",
    "norm_q.weight": "(K,)", "norm_k.weight": "(K,)", "W_up.weight": "(D, F)", "W_gate.weight": "(D, F)",
    "W_down.weight": "(F, D)", "W_up.bias": "(F,)", "W_down.bias": "(D,)",
}  # fmt: skip


def _configs() -> dict[str, ModelConfig]:
    return {**{kind: made(kind).config for kind in KINDS}, STAR: the_books()[0].config}


def parts_of_kinds() -> Rows:
    """Returns heads and rows of a table: for each part, what each kind has, and the chapter about it."""
    configs = _configs()

    def row(part: str, chapter: str, *cells: str) -> Sequence[str]:
        return (part, *cells, f"{chapter} {page(chapter).title}")

    def each(function) -> list[str]:  # noqa: ANN001
        return [function(c) for c in configs.values()]

    rows = [
        row("positions", "04", *each(lambda c: _POSITIONS[c.positions])),
        row("RoPE pairs", "04", *each(lambda c: _LAYOUTS[c.rope_layout] if c.positions == "rope" else "–")),
        row("norm", "05", *each(lambda c: f"{_NORMS[c.norm]}, before each sublayer and before the head")),
        row("ε", "05", *each(lambda c: f"{c.norm_eps:g}, inside the root")),
        row("norm after the embedding", "08", *each(lambda c: "yes" if c.embedding_norm else "no")),
        row("norm on q and k", "03", *each(lambda c: "RMSNorm, before RoPE" if c.qk_norm else "no")),
        row("scores times", "03", *each(lambda c: "attention_scale" if c.qk_norm else "1/√K")),
        row("biases in attention", "03", *each(lambda c: "no" if c.attention_bias == "none" else "yes")),
        row("feed-forward", "06", *each(_network)),
        row("activation", "06", *each(lambda c: _ACTIVATIONS[c.feedforward])),
        row("head", "08", *each(lambda c: _HEADS[c.head])),
    ]
    return ("part", *(f'"{kind}"' for kind in configs), "chapter"), rows


def _network(config: ModelConfig) -> str:
    gated = config.feedforward == "swiglu"
    biases = "with biases" if config.feedforward_bias else "without biases"
    return f"{'(act(x W_gate) · (x W_up)) W_down' if gated else 'act(x W_up) W_down'}, {biases}"


def names() -> Rows:
    """Returns heads and rows of a table: each name of a weight, its shape, and which kinds have it."""
    models = {**{kind: made(kind) for kind in KINDS}, STAR: the_books()[0]}
    having: dict[str, list[str]] = {}
    for kind, model in models.items():
        for name in model.named_parameters():
            having.setdefault(name.replace("blocks.0.", "blocks.{i}."), []).append(kind)
    listed = {name: kinds for name, kinds in having.items() if "blocks." not in name or "{i}" in name}
    rows: list[Sequence[str]] = []
    for name, kinds in listed.items():
        ending = next((end for end in _SHAPES if name.endswith(end)), "")
        shape = _SHAPES[ending] if ending else "(D, D)" if "W_" in name else "(D,)"
        has = ["✓" if kind in kinds else "" for kind in models]
        rows.append((name, shape, *has))
    return ("name", "shape", *(f'"{kind}"' for kind in models)), rows
