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

from ..adapter import GPT, LeaveOut, Missing, Told
from ..words import remark
from .formula import KEYS, Q, V

_PACKAGE = Path(__file__).resolve().parents[4]
# What a reader may use of the book's package: texts, descriptions of models, files; and a container for a cache.
_FREE = {
    "_checks", "atomic_files.py", "checkpoints.py", "config.py", "contents.py", "exercises",
    "parameters.py", "published.py", "rooms.py", "shapes.py", "text.py", "trace.py", "untrusted_files.py",
    "__init__.py",
}  # fmt: skip
_CACHES = {("scratch", "cache.py"), ("nn", "cache.py")}
_CAPSTONE = Path(__file__).resolve().parents[1]
_OTHERS = (
    "transformers", "x_transformers", "xformers", "flash_attn", "keras", "fairseq", "litgpt", "torchtune",
)  # fmt: skip
_ATTENTION = "torch.nn.functional.scaled_dot_product_attention"
_TOKENIZERS = "glassformer.text"
WATCHED = 10.0  # times as long as alone: what code may take that is watched call by call


def told_if_borrowed(gpt: GPT, piece: str, run: Callable[[GPT], Any]) -> None:
    """Raises `Told` if a piece runs a part of a Transformer that is somebody else's."""
    if not gpt.has(piece):
        return
    with gpt.running.slowed(WATCHED):
        found = borrowed(lambda: run(gpt))
    if _ATTENTION in found and piece != "attention" and _attends_itself(gpt):
        found.remove(_ATTENTION)
    if not found:
        return
    message = f"`{piece}` runs {' and '.join(f'`{one}`' for one in found[:2])}."
    if found == [_ATTENTION] and piece != "attention":
        message += (
            " There is a way out: as soon as the adapter has an `attention` of your own, your model may run "
        )
        message += "PyTorch's, which is faster."
    raise Told(message, "borrowed")


def _attends_itself(gpt: GPT) -> bool:
    """Returns whether the adapter has an attention of its own."""
    return gpt.has("attention") and not borrowed(lambda: gpt.call("attention", Q, KEYS, V, True))


def remark_on_tokenizer(gpt: GPT, text: str) -> None:
    """Remarks on a tokenizer that is the book's."""
    for piece, run in (
        ("encode", lambda: gpt.call("encode", text)),
        ("decode", lambda: gpt.decode(gpt.notes["ids"])),
    ):
        if _TOKENIZERS in _run_under_watch(run):
            return gpt.remark(remark("books-tokenizer", name=piece))
    return None


def borrowed(run: Callable[[], Any]) -> list[str]:
    """Runs something and returns the names of the parts of a Transformer in it that are not the reader's."""
    return [one for one in _run_under_watch(run) if one != _TOKENIZERS]


def _run_under_watch(run: Callable[[], Any]) -> list[str]:
    seen: dict[str, None] = {}

    def watch(frame: Any, event: str, called: Any) -> None:
        if event == "call":
            name = _part(frame.f_code.co_filename, frame.f_code.co_name, frame)
        elif event == "c_call" and getattr(called, "__name__", "") == "scaled_dot_product_attention":
            name = _ATTENTION
        else:
            return
        if name:
            seen.setdefault(name)

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        run()
    except (Wrong, Missing, NotAttempted, LeaveOut):
        pass  # the stage's other checks tell
    finally:
        sys.setprofile(before)
    named = list(seen)
    if named and named[0].startswith("torch.") and named[0] != _ATTENTION:
        return named[:1]  # torch's layers call each other: the outermost is what the reader wrote down
    return named


def _part(file: str, function: str, frame: Any) -> str:
    """Returns the name of the part of a Transformer that this is, or nothing."""
    name = _named(file, function)
    if not name.endswith("."):
        return name
    kind = type(frame.f_locals.get("self")).__name__
    return f"torch.nn.{kind}" if name == _MODULES or kind == "MultiheadAttention" else ""


_MODULES = "torch.nn."  # what follows is the module's kind, which its frame shows
_OF_A_LAYER = "torch.nn.modules."  # the same, if it is attention


@cache
def _named(file: str, function: str) -> str:
    """Returns what `_part` returns, up to the kind of a module. It is asked at every call of the reader's code."""
    if file.startswith(str(_PACKAGE)):
        return _of_the_book(Path(file), function)
    parts = file.replace("\\", "/").split("/")
    if "site-packages" in parts:
        top = parts[parts.index("site-packages") + 1]
        if top in _OTHERS:
            return top
    if parts[-3:] == ["nn", "modules", "transformer.py"] and function == "forward":
        return _MODULES
    if function == "multi_head_attention_forward" and parts[-2:] == ["nn", "functional.py"]:
        return "torch.nn.functional.multi_head_attention_forward"
    if function == "flex_attention" and "torch" in parts:
        return "torch.nn.attention.flex_attention"
    if function == "forward" and "torch" in parts:
        return _OF_A_LAYER
    return ""


def _of_the_book(file: Path, function: str) -> str:
    if _CAPSTONE in file.parents:
        return ""
    inside = file.relative_to(_PACKAGE).parts
    if inside[0] == "text.py":
        return _TOKENIZERS if function in ("encode", "decode") else ""
    if inside[0] in _FREE or inside[:2] in _CACHES:
        return ""
    return "glassformer." + ".".join(inside).removesuffix(".py").removesuffix(".__init__")
