"""Assembles the page's kernel, engine/kernel.wat, and writes its bytes into engine/kernel.js.

    python tools/assets/kernel.py     what `make kernel` runs

A stored notebook has no folder to load a file from, so the bytes are part of a module, as text. A test assembles the
kernel again and compares.
"""

from __future__ import annotations

import base64
import textwrap
from pathlib import Path

import wasmtime

ENGINE = Path(__file__).resolve().parents[2] / "src" / "glassformer" / "widgets" / "engine"
TEXT, MODULE = ENGINE / "kernel.wat", ENGINE / "kernel.js"

HEAD = """\
// Written by `make kernel` from kernel.wat: a WebAssembly module that multiplies matrices, its {count} bytes in base64.
"""


def module() -> str:
    """Returns what kernel.js must contain.

    Raises:
        wasmtime.WasmtimeError: the text cannot be assembled; the message names line and column.
    """
    assembled = bytes(wasmtime.wat2wasm(TEXT.read_text("utf-8")))
    wasmtime.Module.validate(wasmtime.Engine(), assembled)
    lines = textwrap.wrap(base64.b64encode(assembled).decode(), 116)
    code = "\n".join(f'  "{line}" +' for line in lines).removesuffix(" +")
    return f"{HEAD.format(count=len(assembled))}export const KERNEL =\n{code};\n"


if __name__ == "__main__":
    MODULE.write_text(module(), encoding="utf-8")
    print(MODULE.read_text("utf-8").splitlines()[0].removeprefix("// "))
