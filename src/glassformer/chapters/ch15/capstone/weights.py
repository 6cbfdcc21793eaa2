"""The models that `load` may be given, and tables of their parts, their weights' names and shapes."""

from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from glassformer import onepage, scratch
from glassformer.config import ModelConfig
from glassformer.contents import chapter
from glassformer.published import published
from glassformer.text import CharTokenizer

KINDS, STAR = ("gpt2", "llama"), "shakespeare"
TINY = 0.005
BASE = 700.0  # of rotary positions: a number that nobody has by chance
Rows = tuple[Sequence[str], list[Sequence[str]]]


@cache
def made(kind: str) -> scratch.Transformer:
    """Returns a small model of a kind, with weights from a seed: no bias is 0 and no gain is 1.

    The vectors of every other id and of all positions are tiny, so that ε makes a difference.
    """
    small = {"vocab_size": 23, "context_length": 24, "d_model": 24, "n_layers": 3, "n_heads": 3}
    config = published("gpt2").config.replace(**small, attention_bias="none", feedforward="gelu", dropout=0.0)
    if kind == "llama":
        rotary = {
            "d_ff": 40,
            "positions": "rope",
            "rope_base": BASE,
            "norm": "rmsnorm",
            "feedforward": "swiglu",
        }
        config = ModelConfig(**small, **rotary, attention_bias="none", feedforward_bias=False, head="untied")
    rng = np.random.default_rng(150)
    model = scratch.Transformer(config, generator=rng, dtype=np.float64)
    for weight in model.named_parameters().values():
        weight += rng.normal(size=weight.shape) * 0.25
    own = model.named_parameters()
    own["token_embedding.weight"][::2] *= TINY
    if kind == "gpt2":
        own["decoder.positions.weight"][...] *= TINY
    return model


def the_books() -> tuple[scratch.Transformer, CharTokenizer]:
    """Returns the book's trained model and its tokenizer.

    `onepage` reads the file, because a practice page has no library that could.
    """
    folder = Path(onepage.__file__).parent / "assets" / "models" / "shakespeare"
    config = ModelConfig.from_json((folder / "config.json").read_text(encoding="utf-8"))
    model = scratch.Transformer(config, generator=None, dtype=np.float32).eval()
    read = onepage.GPT(folder)
    named = {f"{part}.{name}.weight": one for part, own in read.w.items() for name, one in own.items()}
    model.load_state_dict({name.removeprefix("."): one for name, one in named.items()})
    return model, CharTokenizer("".join(read.alphabet))


def fields(model: scratch.Transformer, kind: str) -> dict[str, Any]:
    """Returns the fields that `load` receives about a model, besides its weights."""
    c = model.config
    names = (
        "vocab_size",
        "context_length",
        "d_model",
        "n_layers",
        "n_heads",
        "d_ff",
        "rope_base",
        "attention_scale",
    )
    return {"kind": kind, "eps": 1e-5} | {name: getattr(c, name) for name in names}


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


def parts_of_kinds() -> Rows:
    """Returns heads and rows of a table: for each part, what each kind has, and the chapter about it."""
    configs = {**{kind: made(kind).config for kind in KINDS}, STAR: the_books()[0].config}

    def row(part: str, number: str, cell: Callable[[ModelConfig], str]) -> Sequence[str]:
        return (part, *map(cell, configs.values()), f"{number} {chapter(number).title}")

    rows = [
        row("positions", "04", lambda c: _POSITIONS[c.positions]),
        row("RoPE pairs", "04", lambda c: _LAYOUTS[c.rope_layout] if c.positions == "rope" else "–"),
        row("norm", "05", lambda c: f"{_NORMS[c.norm]}, before each sublayer and before the head"),
        row("ε", "05", lambda c: f"{c.norm_eps:g}, inside the root"),
        row("norm after the embedding", "08", lambda c: "yes" if c.embedding_norm else "no"),
        row("norm on q and k", "03", lambda c: "RMSNorm, before RoPE" if c.qk_norm else "no"),
        row("scores times", "03", lambda c: "attention_scale" if c.qk_norm else "1/√K"),
        row("biases in attention", "03", lambda c: "no" if c.attention_bias == "none" else "yes"),
        row("feed-forward", "06", _network),
        row("activation", "06", lambda c: _ACTIVATIONS[c.feedforward]),
        row("head", "08", lambda c: _HEADS[c.head]),
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
        rows.append((name, shape, *("✓" if kind in kinds else "" for kind in models)))
    return ("name", "shape", *(f'"{kind}"' for kind in models)), rows
