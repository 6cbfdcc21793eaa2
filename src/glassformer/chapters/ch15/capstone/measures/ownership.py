"""Whose code runs: the rule on what may be imported, checked while a piece runs.

The rule itself is in ``capstone.toml``, under `rules`.
"""

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from glassformer.exercises.attempt import NotAttempted
from glassformer.exercises.expect import Wrong

from ..adapter import GPT, Told
from .formula import KEYS, Q, V

_PACKAGE = Path(__file__).resolve().parents[4]
_CAPSTONE = Path(__file__).resolve().parents[1]
# What a reader may use of the book's package: texts, descriptions of models, files; and a container for a cache.
_FREE = {
    "_checks", "atomic_files.py", "checkpoints.py", "config.py", "contents.py", "exercises",
    "parameters.py", "published.py", "protocols.py", "shapes.py", "text.py", "trace.py", "untrusted_files.py",
    "__init__.py",
}  # fmt: skip
_CACHES = {("scratch", "cache.py"), ("nn", "cache.py")}
_OTHERS = (
    "transformers", "x_transformers", "xformers", "flash_attn", "keras", "fairseq", "litgpt", "torchtune",
)  # fmt: skip
_ATTENTION = "torch.nn.functional.scaled_dot_product_attention"
TOKENIZERS = "glassformer.text"
WATCHED = 10.0  # times as long as alone: what code may take that is watched call by call


def told_if_borrowed(gpt: GPT, piece: str, run: Callable[[GPT], Any]) -> None:
    """Raises `Told` if a piece runs a part of a Transformer that is somebody else's."""
    if not gpt.has(piece):
        return
    with gpt.running.slowed(WATCHED):
        parts = borrowed(lambda: run(gpt))
    allowed = piece != "attention" and gpt.has("attention")
    if allowed and not borrowed(lambda: gpt.call("attention", Q, KEYS, V, True)):  # it has one of its own
        parts = [part for part in parts if part != _ATTENTION]
    if not parts:
        return
    message = f"`{piece}` runs {' and '.join(f'`{one}`' for one in parts[:2])}."
    if parts == [_ATTENTION] and piece != "attention":
        message += " There is a way out: as soon as the adapter has an `attention` of your own, your model "
        message += "may run PyTorch's, which is faster."
    raise Told(message, "borrowed")


def borrowed(run: Callable[[], Any]) -> list[str]:
    """Runs something and returns the names of the parts of a Transformer in it that are not the reader's."""
    return [part for part in parts_of_others(run) if part != TOKENIZERS]


def parts_of_others(run: Callable[[], Any]) -> list[str]:
    """Runs something and returns what is not the reader's in it: parts of a Transformer, and the book's tokenizers."""
    seen: dict[str, None] = {}

    def watch(frame: Any, event: str, called: Any) -> None:
        part = ""
        if event == "call":
            part = _part(frame.f_code.co_filename, frame.f_code.co_qualname)
        elif event == "c_call" and getattr(called, "__name__", "") == "scaled_dot_product_attention":
            part = _ATTENTION
        if part:
            seen.setdefault(part)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        run()
    except (Wrong, NotAttempted):
        pass  # the stage's other checks tell
    finally:
        sys.setprofile(before)
    parts = list(seen)
    # torch's layers call each other: the outermost is what the reader wrote down
    return parts[:1] if parts and parts[0].startswith("torch.") and parts[0] != _ATTENTION else parts


@cache
def _part(file: str, function: str) -> str:
    """Returns the name of the part of a Transformer that this is, or nothing. It is asked at every call."""
    if file.startswith(str(_PACKAGE)):
        return "" if _CAPSTONE in Path(file).parents else _of_the_book(Path(file), function.split(".")[-1])
    parts = file.replace("\\", "/").split("/")
    library = parts[parts.index("site-packages") + 1] if "site-packages" in parts else ""
    if library in _OTHERS:
        return library
    kind, _, name = function.rpartition(".")
    if name == "forward" and (
        parts[-3:] == ["nn", "modules", "transformer.py"] or kind == "MultiheadAttention"
    ):
        return f"torch.nn.{kind}" if "torch" in parts else ""
    if "torch" in parts and name in ("multi_head_attention_forward", "flex_attention"):
        return f"torch.{name}"
    return ""


def _of_the_book(file: Path, function: str) -> str:
    inside = file.relative_to(_PACKAGE).parts
    if inside[0] == "text.py":
        return TOKENIZERS if function in ("encode", "decode") else ""
    if inside[0] in _FREE or inside[:2] in _CACHES:
        return ""
    return "glassformer." + ".".join(inside).removesuffix(".py").removesuffix(".__init__")
