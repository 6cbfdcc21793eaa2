"""Assembles the page's kernel, engine/kernel.wat, and writes its bytes into engine/kernel.js.

    python tools/assets/kernel.py     what `make kernel` runs

The kernel is assembled twice: as it is written, and with one instruction of "relaxed SIMD" for each sum of an operand
and a product of two. It rounds once, where the processor can. Not all browsers know it.

A stored notebook has no folder to load a file from, so the bytes are part of a module, as text. A test assembles the
kernel again and compares.
"""

from __future__ import annotations

import base64
import re
import textwrap
from pathlib import Path

import wasmtime

ENGINE = Path(__file__).resolve().parents[2] / "src" / "glassformer" / "widgets" / "engine"
TEXT, MODULE = ENGINE / "kernel.wat", ENGINE / "kernel.js"

HEAD = """\
// Written by `make kernel` from kernel.wat: WebAssembly modules that multiply matrices, in base64.
// FUSED needs relaxed SIMD.
"""

VARIABLE = r"\(local\.get \$\w+\)"
OPERAND = rf"({VARIABLE}|\(v128\.const [^()]+\)|\(v128\.load (?:offset=\d+ )?{VARIABLE}\))"
SUM = re.compile(rf"\(f32x4\.add {OPERAND}\s+\(f32x4\.mul {OPERAND} {OPERAND}\)\)")


def fused(text: str) -> str:
    """Returns the kernel's text with one instruction for each sum of an operand and a product of two."""
    return SUM.sub(r"(f32x4.relaxed_madd \2 \3 \1)", text)


def constant(name: str, text: str) -> str:
    """Returns a line of JavaScript, and those that it continues on: a kernel's bytes under a name.

    Raises:
        wasmtime.WasmtimeError: the text cannot be assembled; the message names line and column.
    """
    assembled = bytes(wasmtime.wat2wasm(text))
    wasmtime.Module.validate(wasmtime.Engine(), assembled)
    lines = textwrap.wrap(base64.b64encode(assembled).decode(), 116)
    code = "\n".join(f'  "{line}" +' for line in lines).removesuffix(" +")
    return f"export const {name} =\n{code};\n"


def module() -> str:
    """Returns what kernel.js must contain."""
    text = TEXT.read_text("utf-8")
    return HEAD + constant("PLAIN", text) + constant("FUSED", fused(text))


if __name__ == "__main__":
    MODULE.write_text(module(), encoding="utf-8")
    print(f"{MODULE.name}: {MODULE.stat().st_size} bytes")
