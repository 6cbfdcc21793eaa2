"""Accounts for `quantization_config`: which ways to store weights in fewer bits `quantized` decodes, and its keys.

Names and types of weights show which of them are quantized, so of these keys only the size of blocks is read. What a
quantized model also rounds while it runs, its inputs or its cache, is not rounded here.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from glassformer.huggingface.keys import each_of

METHODS = {
    "fp8": each_of(
        "is read, must be so, or shows in names and types",
        "quant_method weight_block_size fmt scale_fmt expert_dtype modules_to_not_convert modules_to_convert "
        "ignored_layers",
    )
    | each_of("concerns how a quantized model runs", "activation_scheme dequantize"),
    "mxfp4": each_of("shows in names and types", "quant_method modules_to_not_convert dequantize"),
    "compressed-tensors": each_of(
        "is read, must be so, or shows in names and types",
        "quant_method format config_groups sparsity_config transform_config ignore",
    )
    | each_of(
        "concerns how a quantized model runs, or says where the file comes from",
        "kv_cache_scheme quantization_status global_compression_ratio version",
    ),
}
"""The methods that are decoded, with the keys of their `quantization_config`, and why no other number is needed."""

OTHERS = {
    "aqlm": "AQLM, sums of vectors from a table",
    "auto-round": "AutoRound, integers of 2 to 8 bits",
    "awq": "AWQ, integers of 4 bits",
    "bitnet": "BitNet, weights of -1, 0 and 1",
    "bitsandbytes": "bitsandbytes, integers of 8 bits or the 16 numbers of NF4",
    "gptq": "GPTQ, integers of 2 to 8 bits",
    "hqq": "HQQ, integers of 1 to 8 bits",
    "modelopt": "ModelOpt, such as NVFP4 with two scales",
}
"""What other methods store."""

MUST_BE = {
    "fp8": {"fmt": ("e4m3", "float8_e4m3fn", None), "scale_fmt": ("float", "ue8m0", None)},
    "mxfp4": {},
    "compressed-tensors": {
        "format": ("float-quantized",),
        "sparsity_config": ({}, None),
        "transform_config": ({}, None),
    },
}
"""Keys that say how the weights are stored, with the values that are decoded."""

ONLY = "of this model, only a file that is not quantized can be opened"


def block_size(given: Mapping[str, Any]) -> tuple[int, int] | None:
    """Returns the rows and columns of FP8's blocks in a file with this config.json, or None if it has no such blocks.

    Raises:
        ValueError: the file is quantized in a way that is not decoded here. The message names it.
    """
    settings = given.get("quantization_config")
    if settings is None:
        return None
    method = settings.get("quant_method") if isinstance(settings, dict) else None
    if method is None:
        raise ValueError(
            f"quantization_config={settings!r} is not supported: its quant_method is missing; {ONLY}"
        )
    if method not in tuple(METHODS):
        what = f"this is {OTHERS[method]}" if method in tuple(OTHERS) else "this method is not known here"
        said = f"quantization_config.quant_method={method!r} is not supported: {what}"
        raise ValueError(f"{said}. Known are {', '.join(METHODS)}; {ONLY}")
    for key, values in MUST_BE[method].items():
        if not any(settings.get(key) == value for value in values):
            raise ValueError(f"quantization_config.{key}={settings.get(key)!r} is not supported: {ONLY}")
    block = settings.get("weight_block_size", [128, 128])
    if method != "fp8":
        block = None if method == "mxfp4" else _block_of_groups(settings.get("config_groups"))
    if block is None:
        return None
    if not isinstance(block, list) or len(block) != 2 or not all(type(n) is int and n > 0 for n in block):
        raise ValueError(
            f"quantization_config: {block!r} must be the rows and columns of a block, at least 1"
        )
    return block[0], block[1]


def _block_of_groups(groups: Any) -> Any:
    """Returns the size of the blocks of compressed tensors, all of whose groups must have weights in FP8."""
    each = list(groups.values()) if isinstance(groups, dict) else []
    weights = [one.get("weights") if isinstance(one, dict) else None for one in each]
    found = [(one.get("type"), one.get("num_bits")) for one in weights if isinstance(one, dict)]
    if not found or len(found) < len(weights) or any(one != ("float", 8) for one in found):
        raise ValueError(f"quantization_config.config_groups={groups!r} is not supported: {ONLY}")
    sizes = [size for one in weights if one and (size := one.get("block_structure")) is not None]
    return sizes[0] if sizes else None


def unknown(given: Mapping[str, Any]) -> Iterator[str]:
    """Yields the keys of a `quantization_config` that are on no list of its method, as "quantization_config.new"."""
    settings = given.get("quantization_config")
    if isinstance(settings, dict) and (method := settings.get("quant_method")) in tuple(METHODS):
        yield from (f"quantization_config.{key}" for key in settings if key not in METHODS[method])
