"""Decodes weights that files store in 8 or 4 bits, with a scale for each block: FP8, MXFP4.

Often only some weights of a file are quantized, and their names and types show which. The axes: R rows and C columns
of a matrix as a file stores it, G groups of 32 numbers in a row, r and c scales along rows and columns.

Source: Open Compute Project 2023, OCP Microscaling Formats (MX) Specification v1.0, section 5; DeepSeek-AI 2024,
DeepSeek-V3 Technical Report, section 3.3. Derived in chapter 18.
"""

import math
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from glassformer import _checks as checks
from glassformer.huggingface.files import CODES, NUMBERS, Shape, Weights
from glassformer.untrusted_files import check_weights

_bytes = np.arange(256)
_sign, _exponent, _fraction = 1 - 2 * (_bytes >> 7), _bytes >> 3 & 15, _bytes & 7

_size = np.where(_exponent > 0, (1 + _fraction / 8) * 2.0 ** (_exponent - 7), _fraction / 8 * 2.0**-6)

E4M3 = (_sign * _size).astype(np.float32)
"""The numbers that a byte of FP8 can mean: a sign, 4 bits of exponent and 3 of fraction. The largest is 448."""
E4M3[[127, 255]] = np.nan  # there is no infinity

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6], np.float32)
"""The numbers that 4 bits can mean: a sign, 2 bits of exponent and 1 of fraction."""

E8M0 = np.append(np.ldexp(np.float32(1), _bytes[:255] - 127), np.float32(np.nan))
"""The scales that a byte can mean: the powers of two from 2⁻¹²⁷ to 2¹²⁷."""

BITS_PER_WEIGHT = {"mxfp4": 4 + 8 / 32, "fp8": 8 + 32 / 128**2}
"""How many bits a weight takes in a file, with its part of a scale: FP8 with a scale in float32 for 128 × 128."""

GROUP = 32  # numbers that share a scale in MXFP4
AT_ONCE = 1024  # rows that are decoded at once, so that little memory is needed besides the result


def from_fp8(stored: np.ndarray, scales: np.ndarray, block: tuple[int, int]) -> np.ndarray:
    """Decodes a matrix (R, C) of bytes, in which each block of so many rows and columns has one of the scales (r, c).

    At the end, a block may be cut off.
    """
    (R, C), (rows, columns) = stored.shape, block
    factors = np.repeat(np.repeat(scales, rows, axis=0), columns, axis=1)
    return E4M3[stored] * factors[:R, :C]


def from_mxfp4(stored: np.ndarray, scales: np.ndarray) -> np.ndarray:
    """Decodes bytes (R, G, 16), each with two numbers, and scales (R, G) into a matrix (R, 32·G).

    The lower 4 bits of a byte are the first of its numbers, and a scale is a byte, too.
    """
    pairs = np.stack([E2M1[stored & 15], E2M1[stored >> 4]], axis=-1)  # (R, G, 16, 2)
    groups = pairs.reshape(*scales.shape, GROUP) * E8M0[scales][..., None]
    return groups.reshape(len(scales), -1)


# Weights

EXPONENTS = ("F8_E8M0", "U8")
"""The types of scales of which only an exponent is stored."""

TYPES = {"float8_e4m3fn": "F8_E4M3", "float8_e8m0fnu": "F8_E8M0", "int8": "I8", "uint8": "U8"}
TYPES |= {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}
"""What files call the types of torch and NumPy."""

SCALE, IDLE = r"(_scale_inv|\.weight_scale)$", r"[._](input|activation|output|[qkv])_scale$"
"""How the names of scales end: of weights, and of what is rounded only while a quantized model runs."""


class Pair(NamedTuple):
    """What a quantized weight is stored as: the names of its bytes and its scales, and its shape in the file.

    `block` is the size of the blocks of FP8. MXFP4 that has a name of its own is transposed when it is read.
    """

    stored: str
    scales: str
    shape: Shape
    block: tuple[int, int] | None = None
    transposed: bool = False


class Decoded(Mapping):
    """A state in which quantized weights are decoded when they are read, as float32 and under their usual names.

    `state` has the weights of files, or arrays or tensors. A matrix in FP8 has a scale for each `block`; without such
    a size, its scales share the rows and columns evenly: one for each row, for example, or one for all. Scales are no
    entries of their own any more. `shapes` are those of what is read.

    Raises:
        ValueError: a quantized weight has no scale, a scale has no weight, or their sizes or types do not fit.
    """

    def __init__(self, state: Mapping[str, Any], block: tuple[int, int] | None = (128, 128)) -> None:
        self._state, self._pairs = state, dict[str, Pair]()
        types, shapes = self._types, _ = _types_and_shapes(state)
        faults, used = [], set[str]()
        for name, kind in types.items():
            names = _names_of_scales(name, kind)
            scale = next((one for one in names if one in types), None)
            if scale is None:
                if names and kind != "I8":
                    faults.append(f"{checks.shown(names[0])} is missing, the scale of {checks.shown(name)}")
                continue
            used |= {name, scale}
            weight = name.removesuffix("_blocks") if kind == "U8" else name
            pair = _pair(name, scale, types, shapes, block)
            if pair is None or (pair.transposed and weight in types):
                both = (f"{checks.shown(one)} ({types[one]}, {shapes[one]})" for one in (name, scale))
                faults.append(f"{' and '.join(both)} do not fit")
            else:
                self._pairs[weight] = pair
        faults += [
            f"{checks.shown(name)} is a scale, but there is no quantized weight for it"
            for name, kind in types.items()
            if name not in used and (re.search(SCALE, name) or (kind == "U8" and name.endswith("_scales")))
        ]
        checks.no_faults("quantized weights cannot be decoded", faults)
        if self._pairs:
            used |= {name for name in types if re.search(IDLE, name)}
        self.shapes = {name: shape for name, shape in shapes.items() if name not in used}
        for weight, pair in self._pairs.items():
            *outer, R, C = pair.shape
            self.shapes[weight] = (*outer, C, R) if pair.transposed else pair.shape

    def __iter__(self) -> Iterator[str]:
        return iter(self.shapes)

    def __len__(self) -> int:
        return len(self.shapes)

    def __contains__(self, name: object) -> bool:  # that of Mapping would decode the weight
        return name in self.shapes

    def __getitem__(self, name: str) -> Any:
        if name not in self._pairs:
            return self._state[name]
        pair = self._pairs[name]
        found = np.empty(pair.shape, np.float32)
        with np.errstate(over="ignore", invalid="ignore"):  # such numbers are refused
            self._decode(pair, found.reshape(-1, *pair.shape[-2:]))
        check_weights(checks.shown(name), found)
        found = found.swapaxes(-1, -2) if pair.transposed else found
        if isinstance(self._state, Weights) or isinstance(self._state[pair.stored], np.ndarray):
            return found
        import torch

        return torch.from_numpy(found)

    def _decode(self, pair: Pair, found: np.ndarray) -> None:
        """Decodes a weight, as one or several matrices (R, C), into `found`."""
        stored, scales = (_bytes_of(self._state, self._types, name) for name in (pair.stored, pair.scales))
        n, R, C = found.shape
        if pair.block is None:
            rows, decode = 1, from_mxfp4
            stored, scales = stored.reshape(n, R, -1, GROUP // 2), scales.reshape(n, R, -1)
        else:
            rows, columns = pair.block
            scales = E8M0[scales] if self._types[pair.scales] in EXPONENTS else scales.astype(np.float32)
            stored, scales = stored.reshape(n, R, C), scales.reshape(n, -(-R // rows), -(-C // columns))
            if rows >= R:  # a scale for all rows is as good as one for each
                scales, rows = np.broadcast_to(scales, (n, R, scales.shape[-1])), 1
            decode = partial(from_fp8, block=(rows, columns))
        step = max(1, AT_ONCE // rows)
        for one, factors, numbers in zip(stored, scales, found, strict=True):
            for i in range(0, len(factors), step):
                here = slice(i * rows, (i + step) * rows)
                numbers[here] = decode(one[here], factors[i : i + step])


def _types_and_shapes(state: Mapping[str, Any]) -> tuple[Mapping[str, str], Mapping[str, Shape]]:
    if isinstance(state, Weights):
        return state.types, state.shapes
    dtypes = {name: str(values.dtype).removeprefix("torch.") for name, values in state.items()}
    types = {name: TYPES.get(dtype, dtype) for name, dtype in dtypes.items()}
    return types, {name: tuple(values.shape) for name, values in state.items()}


def _bytes_of(state: Mapping[str, Any], types: Mapping[str, str], name: str) -> np.ndarray:
    """Returns what is stored under a name, which are bytes if its type is one of `CODES`."""
    if types[name] in CODES:
        return state.stored(name) if isinstance(state, Weights) else _as_bytes(state[name])
    values = state[name]
    return values if isinstance(values, np.ndarray) else values.float().numpy()


def _as_bytes(values: Any) -> np.ndarray:
    if isinstance(values, np.ndarray):
        return values.view(np.uint8)
    import torch

    return values.view(torch.uint8).numpy()


def _names_of_scales(name: str, kind: str) -> tuple[str, ...]:
    """Returns which names the scale of what has this name and type can have; none, if that is not quantized."""
    if kind == "U8" and name.endswith("_blocks"):
        return (name.removesuffix("_blocks") + "_scales",)
    if kind not in ("F8_E4M3", "I8") or re.search(SCALE, name):
        return ()
    return f"{name}_scale_inv", f"{name}_scale", f"{name.removesuffix('.weight')}.scale"


def _pair(
    name: str, scale: str, types: Mapping[str, str], shapes: Mapping[str, Shape], block: tuple[int, int] | None
) -> Pair | None:  # fmt: skip
    """Returns what a weight and its scale are, or None if their types or sizes do not fit."""
    shape, grid, exponents = shapes[name], shapes[scale], types[scale] in EXPONENTS
    if types[name] != "F8_E4M3":  # two numbers in a byte
        named = types[name] == "U8"
        if not exponents or len(grid) < 2 or 0 in grid:
            return None
        fits = shape == ((*grid, GROUP // 2) if named else (*grid[:-1], grid[-1] * GROUP // 2))
        return Pair(name, scale, (*grid[:-1], grid[-1] * GROUP), transposed=named) if fits else None
    if block is None and math.prod(grid) == 1:
        grid = (1,) * len(shape)
    if len(shape) < 2 or len(grid) != len(shape) or 0 in (*shape, *grid):
        return None
    (R, C), (r, c) = shape[-2:], grid[-2:]
    rows, columns = block or (R // r, C // c)
    if 0 in (rows, columns) or grid != (*shape[:-2], -(-R // rows), -(-C // columns)):
        return None
    if (block is None and (rows * r, columns * c) != (R, C)) or not (exponents or types[scale] in NUMBERS):
        return None
    return Pair(name, scale, shape, (rows, columns))
