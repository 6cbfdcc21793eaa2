"""Writes book/opening.md: which published models the package opens, what they need, and why it does not open others.

The sizes are computed from `published`, and the families are those of `huggingface.families`.
"""

from __future__ import annotations

import tomllib
from pathlib import Path

from glassformer import inside
from glassformer.huggingface.families import FORMATS, OF_SEVERAL_PARTS
from glassformer.published import Published, published

POSITIONS = 4096  # whose keys and values are counted
MEMORIES = (8, 16, 32)  # GB
FREE = 0.25  # of the memory, for the operating system and for what is computed
MXFP4 = 17 / 32  # bytes of a number: half of one, and a scale for every 32


def page(file: Path) -> str:
    """Returns the page that a file describes."""
    about = tomllib.loads(file.read_text(encoding="utf-8"))
    head = [
        "model", "parameters (billions)", "file (GB)", "float32, in either library (GB)", "bfloat16, in PyTorch (GB)",
        "a computer with",
    ]  # fmt: skip
    lines = [row(name, published(name)) for name in about["small"]]
    families = ", ".join(f"`{name}`" for name in sorted({*FORMATS, *OF_SEVERAL_PARTS}))
    refused = [
        [f"{why}", ", ".join(f"`{name}`" for name in types.split())]
        for why, types in about["refused"].items()
    ]
    return (
        "\n\n".join(
            [
                about["heading"].strip(),
                table(head, lines),
                about["sizes"].strip(),
                "## Families",
                f"{about['families'].strip()} {families}.",
                table(["what the package lacks", "`model_type`"], refused),
            ]
        )
        + "\n"
    )


def row(name: str, model: Published) -> list[str]:
    """Returns the sizes of a model, and the smallest memory that has room for it."""
    n, cache = model.n_parameters, inside.cache_bytes(model.config, POSITIONS, bytes_per_number=4)
    wide, narrow = 4 * n + cache, 2 * n + cache // 2
    fits = [
        f"{next(gb for gb in MEMORIES if needs <= (1 - FREE) * gb * 1e9)} GB{how}"
        for needs, how in ((narrow, " (bfloat16)"), (wide, ""))
        if needs <= (1 - FREE) * MEMORIES[-1] * 1e9
    ]
    if len(fits) == 2 and fits[0].split(" (")[0] == fits[1]:
        fits = fits[1:]
    used = model.config.parameter_count().active
    counted = f"{n / 1e9:.2f}" + (f" ({used / 1e9:.2f} for a token)" if used < n else "")
    return [
        f"`{name}`", counted, *(f"{size / 1e9:.1f}" for size in (of_file(name, model), wide, narrow)),
        ", ".join(fits) or "more than 32 GB",
    ]  # fmt: skip


def of_file(name: str, model: Published) -> float:
    """Returns the bytes of a file: two for each number, except for the experts of gpt-oss."""
    if not name.startswith("gpt-oss"):
        return 2 * model.n_parameters
    config = model.config
    matrices = sum(
        n * experts.n_experts * 3 * config.d_model * layer.feedforward.d_ff
        for layer, n in config.layers(config.n_layers).values()
        if (experts := layer.feedforward.experts) is not None
    )
    return 2 * (model.n_parameters - matrices) + MXFP4 * matrices


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1) if len(head) > 2 else ["---"] * 2, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
