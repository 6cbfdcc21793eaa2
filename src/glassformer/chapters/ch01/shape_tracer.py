"""Every array of a decoder with its shape, its size and its share of the work, before any is computed."""

from typing import Any

from traitlets import Bool, Dict, Int, List, TraitError, Unicode, observe, validate

from glassformer import shipped
from glassformer.config import ModelConfig
from glassformer.published import published
from glassformer.widgets.kit.view import Made, View

LENGTHS = [*range(1, 17), 24, 32, 41, 48, 64, 82, 96, 128, 256, 512, 1024, 2048]
WIDTHS = [4, 8, 16, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1280, 1600, 2048, 4096, 8192, 12_288]
HEADS = [1, 2, 3, 4, 6, 8, 12, 16, 20, 25, 32, 64, 96]
NEURONS = [4, 8, 16, 32, 64, 128, 172, 256, 344, 512, 768, 1024, 1376, 2048, 3072, 4096, 6400, 8192, 11_008]
NEURONS += [16_384, 28_672, 49_152]
VOCABULARIES = [4, 16, 65, 256, 1000, 4096, 16_384, 32_000, 50_257, 128_256]
DEEPEST = 128
LINE = len("A horse! a horse! my kingdom for a horse!")


def sizes_of(config: ModelConfig, length: int) -> dict[str, Any]:
    """Returns a configuration as traits of this view."""
    names = ("d_model", "n_heads", "n_layers", "d_ff", "vocab_size", "gated")
    return {"length": length} | {name: getattr(config, name) for name in names}


class ShapeTracer(View, module="shape_tracer"):
    """The arrays that a decoder of chosen sizes computes: their shapes, numbers, bytes, and the work that each takes.

    The arrays, their names and their order are those of `glassformer.trace`. Bytes are those of float32. The work is
    that of matrix products, two operations (a multiplication and an addition) for each pair of numbers that meet.

    Derived in chapter 01.

    Traits:
        length: tokens in the text, T, 1 to 2048.
        d_model: D. A number of heads that does not divide it becomes the next smaller one that does.
        n_heads: H, a divisor of `d_model`.
        n_layers: blocks, 1 to 128.
        d_ff: neurons of the feed-forward network, F.
        vocab_size: V.
        gated: whether the feed-forward network has a gate, and so a third matrix, as in SwiGLU.
        array: the selected array, counted as in the table.
        hidden: whether shapes are hidden until they are guessed or asked for.
        guess: what the reader believes to be the shape of that array, such as "4, 41, 32".
        seen: the arrays whose shapes are shown although they are hidden. Other sizes hide them again.

    Raises:
        TraitError: a value outside these ranges, or a number of heads that does not divide `d_model`.
    """

    length = Int(LINE, min=1, max=LENGTHS[-1]).tag(sync=True)
    d_model = Int(128, min=1, max=WIDTHS[-1]).tag(sync=True)
    n_heads = Int(4, min=1, max=HEADS[-1]).tag(sync=True)
    n_layers = Int(4, min=1, max=DEEPEST).tag(sync=True)
    d_ff = Int(344, min=1, max=NEURONS[-1]).tag(sync=True)
    vocab_size = Int(65, min=1, max=VOCABULARIES[-1]).tag(sync=True)
    gated = Bool(True).tag(sync=True)
    array = Int(4, min=0, max=12).tag(sync=True)
    hidden = Bool(False).tag(sync=True)
    guess = Unicode("").tag(sync=True)
    seen = List(Int()).tag(sync=True)

    _choices = Dict(
        {
            "length": LENGTHS,
            "d_model": WIDTHS,
            "n_heads": HEADS,
            "d_ff": NEURONS,
            "vocab_size": VOCABULARIES,
        }
    ).tag(sync=True)
    _presets = Made(
        lambda _: [
            ("The book’s model, one line", sizes_of(shipped.configuration(), LINE)),
            ("GPT-2 small, its longest text", sizes_of(published("gpt2").config, 1024)),
            ("GPT-3, its longest text", sizes_of(published("gpt3").config, 2048)),
        ]
    ).tag(sync=True)

    @validate("n_heads")
    def _divides(self, proposal: dict) -> int:
        if self.d_model % proposal["value"]:
            raise TraitError(f"n_heads={proposal['value']} does not divide d_model={self.d_model}")
        return proposal["value"]

    @observe("d_model")
    def _keep_heads(self, change: dict) -> None:
        self.n_heads = max(n for n in range(1, self.n_heads + 1) if change["new"] % n == 0)
