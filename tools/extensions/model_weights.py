"""A Sphinx extension that puts the weights of the book's models next to the pages, for book/site/widget-host.js.

Each model has a file models/NAME.bin. Another, models/NAME-neurons.bin, is there if something is known of its neurons,
and models/NAME-vocabulary.bin if it reads byte pairs. The text that a model learns on the page is models/corpus.bin. A
page opened from disk may not fetch a file, but it may add scripts. So the same bytes are also in scripts,
models/NAME-0.js and so on, in base64 and in parts that a page can decode without a pause that a reader notices. A page
loads them when a view of a model comes near or is used.

The format, measured on the model "shakespeare" in kB as they are sent:

    safetensors in base64 in a script, packed by the server (the first format)    1605
    safetensors                                                                   1622
    safetensors, packed by the server, which most servers do not do               1493
    first bytes of all numbers, then second bytes, packed                         1390
    8 bits a number, a scale for each 64, packed                                   796

In a float16 the first byte is random, and the second, which has the sign and the exponent, is not. So packing them
separately saves more; the entropy of these bytes is 1371 kB. Eight bits a number would cost nothing in loss (less than
0.0005 on held-out text, for all models), but they change what a reader sees: of the first guesses on the book's line,
24 to 34 of 100 show another whole percentage than the text prints, and on held-out text 16 to 20 (up to 0.037 for
one probability). So the page has exactly the numbers of the book. If the models themselves were stored with 8 bits,
text and page would agree again, but every printed number of the book would change. `benchmarks/few_bits.py` measures
all this.
"""

from __future__ import annotations

import base64
import gzip
import json
from pathlib import Path

from sphinx.application import Sphinx

from glassformer import shipped
from glassformer.chapters.ch02 import real_tokens
from glassformer.chapters.ch06 import neuron_explorer
from glassformer.checkpoints import MODEL
from glassformer.text import corpus

PART = 3 * 2**16  # bytes in a script: decoding them takes about 3 milliseconds


def weights(name: str) -> bytes:
    """Returns the packed weights of a shipped model.

    Raises:
        ValueError: a tensor is not in float16.
    """
    file = (shipped.PLACE / name / MODEL).read_bytes()
    begins = 8 + int.from_bytes(file[:8], "little")
    tensors = json.loads(file[8:begins])
    tensors.pop("__metadata__", None)
    for tensor, about in tensors.items():
        if about["dtype"] != "F16":
            raise ValueError(f"{tensor} of {name} has dtype {about['dtype']}, but it must be F16")
    return packed(file, begins)


def packed(file: bytes, begins: int | None = None) -> bytes:
    """Packs a file in which numbers of two bytes begin at `begins`, if there are any."""
    start, numbers = file[:begins], file[len(file) if begins is None else begins :]
    whole = len(start).to_bytes(4, "little") + start + numbers[::2] + numbers[1::2]
    return gzip.compress(whole, compresslevel=9, mtime=0)


def vocabularies() -> dict[str, bytes]:
    """Returns the packed tokenizers of all models that read byte pairs, by the names of the models."""
    files = {name: (shipped.PLACE / name / shipped.TOKENIZER).read_bytes() for name in shipped.NAMES}
    return {name: packed(file) for name, file in files.items() if "model" in json.loads(file)}


def scripts(name: str, file: bytes) -> dict[str, str]:
    """Returns the scripts that give a page opened from disk the same bytes, by the names of their files."""
    parts = [file[start : start + PART] for start in range(0, len(file), PART)]
    written = {}
    for i, part in enumerate(parts):
        text = base64.b64encode(part).decode()
        value = f'{{ count: {len(parts)}, total: {len(file)}, text: "{text}" }}'
        written[f"{name}-{i}.js"] = f'(globalThis.glassformerModels ??= {{}})["{name}-{i}"] = {value};\n'
    return written


def write_models(folder: Path) -> None:
    """Writes all files of all models into a folder."""
    folder.mkdir(exist_ok=True)
    files = {name: weights(name) for name in shipped.NAMES}
    files |= {f"{name}-neurons": packed(neuron_explorer.file(name)) for name in neuron_explorer.known()}
    files |= {f"{name}-vocabulary": file for name, file in vocabularies().items()}
    for one in real_tokens.VOCABULARIES:
        module = real_tokens.module(one.file)
        files[f"tokenizer-{one.file}"] = packed(module)
        # for servers that allow code only from files
        (folder / f"tokenizer-{one.file}.module.js").write_bytes(module)
    files["corpus"] = packed(corpus().encode())
    for name, file in files.items():
        (folder / f"{name}.bin").write_bytes(file)
        for script, text in scripts(name, file).items():
            (folder / script).write_text(text, encoding="ascii")


def write(app: Sphinx, exception: Exception | None) -> None:
    """Writes the models once the pages exist."""
    if exception is None and app.builder.format == "html":
        write_models(Path(app.outdir) / "_static" / "models")


def setup(app: Sphinx) -> dict:
    app.connect("build-finished", write)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
