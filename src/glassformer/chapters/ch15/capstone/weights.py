"""The models that `load` may be given, and tables of their parts, their weights' names and shapes."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from glassformer import onepage, scratch
from glassformer.config import ModelConfig
from glassformer.contents import chapter
from glassformer.published import published
from glassformer.text import CharTokenizer

from .words import words_under

KINDS, STAR = ("gpt2", "llama"), "shakespeare"
TINY = 0.005
BASE = 700.0  # of rotary positions: a number that nobody has by chance
Rows = tuple[Sequence[str], list[Sequence[str]]]


@cache
def made(kind: str) -> scratch.Transformer:
    """Returns a small model of a kind, with weights from a seed: no bias is 0 and no gain is 1.

    The vectors of every other id and of all positions are tiny, so that ε makes a difference.
    """
    small: dict[str, Any] = {
        "vocab_size": 23, "context_length": 24, "d_model": 24, "n_layers": 3, "n_heads": 3,
    }  # fmt: skip
    config = published("gpt2").config.replace(**small, attention_bias="none", feedforward="gelu", dropout=0.0)
    if kind == "llama":
        small |= {
            "d_ff": 40, "positions": "rope", "rope_base": BASE, "norm": "rmsnorm", "feedforward": "swiglu",
        }  # fmt: skip
        config = ModelConfig(**small, attention_bias="none", feedforward_bias=False, head="untied")
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
    names = (
        "vocab_size", "context_length", "d_model", "n_layers", "n_heads", "d_ff", "rope_base", "attention_scale",
    )  # fmt: skip
    return {"kind": kind, "eps": 1e-5} | {name: getattr(model.config, name) for name in names}


# By the letters of their axes, what a weight of each name is shaped like.
_SHAPES = {
    "token_embedding.weight": "(V, D)", "positions.weight": "(context, D)", "unembedding.weight": "(D, V)",
    "norm_q.weight": "(K,)", "norm_k.weight": "(K,)", "W_up.weight": "(D, F)", "W_gate.weight": "(D, F)",
    "W_down.weight": "(F, D)", "W_up.bias": "(F,)", "W_down.bias": "(D,)",
}  # fmt: skip


def parts_of_kinds() -> Rows:
    """Returns heads and rows of a table: for each part, what each kind has, and the chapter about it."""
    heads = "part", *(f'"{kind}"' for kind in (*KINDS, STAR)), "chapter"
    return heads, [(*row[:-1], f"{row[-1]} {chapter(row[-1]).title}") for row in words_under("kinds")["rows"]]


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
