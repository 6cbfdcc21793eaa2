"""What each kind of layer keeps while a text is read, position by position, and what the present one reads."""

from typing import Any

from traitlets import Int

from glassformer.config import ModelConfig
from glassformer.layers import CompressedAttention, Indexer, KeyValueSharing, LatentAttention
from glassformer.widgets.kit.view import Made, Text, View

LONGEST = 60  # characters that are drawn
SIZES = {"H": 4, "K": 8, "R": 16, "P": 4, "J": 4}  # by the letters of the notation
WIDE = 16  # d_head of the kinds with one array for keys and values: DeepSeek-V4's heads are wider, too


class LayerCaches(View, module="layer_caches"):
    """Moves through a text, and shows for each kind of layer what it keeps, what is read, and how many numbers that is.

    The numbers are those of `layers.Attention.cached` for a small model, `config`. No model is trained for this,
    so the indexer chooses by a fixed rule: the same character as the present one first, then the latest.

    Derived in chapter 16.

    Traits:
        text: 1 to 60 characters.
        position: the one that is being read, 0 to 59; beyond the end of the text, its last.
        window: how many positions a query sees where there is a window, 2 to 16, its own included.
        compress: how many positions become one compressed token, 2 to 8.
        top_k: how many positions the indexer chooses, 1 to 16.

    Raises:
        TraitError: a trait is outside its range.
    """

    text = Text("A horse! a horse! my kingdom for a horse!", shortest=1, longest=LONGEST).tag(sync=True)
    position = Int(37, min=0, max=LONGEST - 1).tag(sync=True)
    window = Int(8, min=2, max=16).tag(sync=True)
    compress = Int(4, min=2, max=8).tag(sync=True)
    top_k = Int(4, min=1, max=16).tag(sync=True)
    _sizes = Made(lambda _: SIZES | {"wide": WIDE}).tag(sync=True)

    @property
    def config(self) -> ModelConfig:
        """Returns a model with one layer of each kind, in the order of the rows."""
        index = Indexer(n_heads=2, d_head=SIZES["J"], top_k=self.top_k)
        latent: dict[str, Any] = {"d_latent": SIZES["R"], "d_rotated": SIZES["P"], "d_value": SIZES["K"]}
        one = {"d_rotated": SIZES["P"], "d_query_latent": SIZES["R"], "n_groups": 1, "d_group": SIZES["R"]}
        kinds: dict[str, dict[str, Any]] = {
            "full": {"sharing": KeyValueSharing()},
            "borrowed": {"sharing": KeyValueSharing(borrows="full")},
            "window": {"sliding_window": self.window},
            "latent": {"form": LatentAttention(**latent)},
            "indexer": {"form": LatentAttention(**latent, indexer=index)},
            "one_array": {"sliding_window": LONGEST + 1, "d_head": WIDE, "form": CompressedAttention(**one)},
            "compressed": {
                "sliding_window": self.window,
                "d_head": WIDE,
                "form": CompressedAttention(**one, compress=self.compress),
            },
        }
        return ModelConfig(
            vocab_size=65,
            context_length=LONGEST,
            d_model=SIZES["H"] * SIZES["K"],
            n_layers=len(kinds),
            n_heads=SIZES["H"],
            positions="rope",
            attention_bias="none",
            kinds=kinds,
            order=" ".join(kinds),
        )

    def kept(self, n_positions: int) -> dict[str, int]:
        """Returns how many numbers each kind of layer keeps when it has read so many positions."""
        config = self.config
        return {config.kind(i): config.layer(i).attention.cached(n_positions) for i in range(config.n_layers)}
