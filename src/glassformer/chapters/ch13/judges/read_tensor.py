"""Judges "A tensor out of a file" (chapter 13): one tensor of a safetensors file, from its bytes."""

import json
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.shapes import Float


def read_tensor(data: bytes, name: str) -> Float[np.ndarray, "..."]:
    """Returns one tensor of a safetensors file."""
    start = 8 + int.from_bytes(data[:8], "little")
    entry = json.loads(data[8:start])[name]
    begin, end = (start + offset for offset in entry["data_offsets"])
    kind = {"F32": "<f4", "F16": "<f2", "BF16": "<u2"}[entry["dtype"]]
    row = np.frombuffer(data[begin:end], kind)
    if entry["dtype"] == "BF16":  # the upper half of a float32
        row = (row.astype(np.uint32) << 16).view(np.float32)
    return row.astype(np.float32).reshape(entry["shape"])


tensor = exercise("real.read_tensor", read_tensor)


def _bits(values: Sequence[float], dtype: str) -> bytes:
    """Returns numbers as in a file: little-endian; a bfloat16 is the upper two of a float32's four bytes."""
    if dtype == "BF16":
        return b"".join(struct.pack("<f", value)[2:] for value in values)
    return struct.pack(f"<{len(values)}{'f' if dtype == 'F32' else 'e'}", *values)


def _file(**tensors: tuple[str, tuple[int, ...], Sequence[float]]) -> bytes:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    body = b""
    for name, (dtype, shape, values) in tensors.items():
        raw = _bits(values, dtype)
        offsets = [len(body), len(body) + len(raw)]
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": offsets}
        body += raw
    written = json.dumps(header).encode()
    written += b" " * (8 + -len(written) % 8)
    return len(written).to_bytes(8, "little") + written + body


_ONE = _file(w=("F32", (3,), [1.5, -2.0, 0.25]))
_TWO = _file(
    first=("F32", (2, 2), [0.5, 1.0, -1.5, 2.0]), second=("F32", (3, 2), [7.0, -8.0, 9.5, 10.0, 11.0, 12.25])
)
_HALF = _file(
    a=("F32", (2,), [1.0, 2.0]), b=("F16", (2, 2), [0.5, -3.0, 1024.0, 0.125]), c=("F16", (1,), [6.0])
)
_BRAIN = _file(a=("F32", (6,), [5.0] * 6), b=("BF16", (4,), [1.0, -2.5, 96.0, 2.0**-20]))

for _title, _data, _name, _want in (
    ("three numbers", _ONE, "w", [1.5, -2.0, 0.25]),
    ("the second of two, in its shape", _TWO, "second", [[7, -8], [9.5, 10], [11, 12.25]]),
    ("and the first", _TWO, "first", [[0.5, 1], [-1.5, 2]]),
    ("F16: two bytes per number", _HALF, "b", [[0.5, -3.0], [1024.0, 0.125]]),
    ("another F16, behind it", _HALF, "c", [6.0]),
    ("BF16: the upper half of a float32", _BRAIN, "b", [1.0, -2.5, 96.0, 2.0**-20]),
):
    tensor.case(_title, _data, _name, want=_want, what=f"read_tensor(file, {_name!r})")
