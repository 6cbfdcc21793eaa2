"""The base of all views that run a model: the model, the text, and how the weights reach the page."""

import base64
import json
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

import numpy as np
from safetensors.numpy import load as arrays_from
from safetensors.numpy import save
from traitlets import Dict, TraitError, Unicode, default, validate

from glassformer.checkpoints import checksum_of, model_of
from glassformer.config import ModelConfig
from glassformer.pretrained import NO_TOKENIZER, stored
from glassformer.scratch import Transformer
from glassformer.text import CharTokenizer
from glassformer.widgets.kit.view import FileView

LINE = "A horse! a horse! my kingdom for a horse!"

MOST_KEPT = 2**30
"""The most bytes that the page reserves for keys and values; a configuration can ask for any number."""

# The assumptions that transformer.js states; a test keeps the two in agreement.
MUST_BE = {
    "positions": "rope",
    "rope_layout": "half",
    "rope_interpolation": 1,
    "rope_attention_factor": 1,
    "sliding_window": None,
    "norm": "rmsnorm",
    "norm_placement": "pre",
    "attention_bias": "none",
    "feedforward": "swiglu",
    "feedforward_bias": False,
    "embedding_scale": 1,
    "n_segments": 0,
    "head": "untied",
    "head_bias": False,
    "head_transform": False,
    "head_scale": 1,
    "pooler": False,
    "logit_cap": None,
    "kinds": None,
    "order": None,
}


def refusal(fields: Mapping[str, Any]) -> str | None:
    """Returns in words why transformer.js cannot run a configuration, or None if it can."""
    for name, value in MUST_BE.items():
        if (own := fields.get(name)) != value:
            return f"{name}={_in_json(own)} is not {_in_json(value)}"
    if fields["qk_norm"] == "width":
        return 'qk_norm="width" is not true or false'
    kv_heads, heads = fields["n_kv_heads"], fields["n_heads"]
    if kv_heads != heads:
        return f"n_kv_heads={kv_heads} is not n_heads={heads}"
    blocks = fields["n_layers"] + (fields["n_decoder_layers"] or 0) + 1
    kept = 16 * blocks * fields["context_length"] * heads * max(fields["d_head"], 16)
    if kept > MOST_KEPT:
        return f"with context_length={fields['context_length']}, its keys and values need more than 1 GiB"
    return None


def _in_json(value: Any) -> str:
    """Writes a value as in JavaScript, where 4.0 is 4."""
    is_whole = isinstance(value, float) and value.is_integer()
    return json.dumps(int(value) if is_whole else value, separators=(",", ":"))


class Source(NamedTuple):
    """A model in the form that a view needs. Only GlassMachine shows one that reads byte pairs."""

    config: ModelConfig
    tokenizer: Any  # a CharTokenizer; a BytePairTokenizer only for the glass machine
    weights: bytes  # a safetensors file

    @property
    def model(self) -> Transformer:
        """Returns the same model in NumPy."""
        return model_of(self.config, arrays_from(self.weights))


def source_of(name: str) -> Source:
    """Loads one of our own models as `pretrained.stored` finds it.

    Raises:
        ValueError: the page cannot run it (the message says why), or a file is not what was written.
        FileNotFoundError: there is no such model, no such file and no such folder.
    """
    config, tokenizer, arrays, special = stored(name)
    if tokenizer is None:
        raise ValueError(f"{name} {NO_TOKENIZER}")
    if any(array.dtype == np.float64 for array in arrays.values()):
        arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    if special and min(special.values()) < tokenizer.vocab_size:
        raise ValueError(
            f"model={name!r} cannot run in a page, where special ids follow the {tokenizer.vocab_size} of the "
            f"tokenizer: this model has {special}"
        )
    if why := refusal(json.loads(config.to_json())):
        raise ValueError(f"model={name!r} cannot run in a page: {why}")
    return Source(config, tokenizer, save(arrays))


def packed(array: np.ndarray) -> dict[str, Any]:
    """Packs an array for a drawing, one byte per number, into text that `unpacked` of model.js decodes."""
    largest = float(f"{np.abs(array).max():.4g}") or 1.0
    numbers = np.round(array / largest * 127).astype(np.int8)
    return {
        "shape": list(array.shape),
        "largest": largest,
        "numbers": base64.b64encode(numbers.tobytes()).decode(),
    }


class ModelView(FileView):
    """The base of views that run a model in the reader's browser: on the page or in JupyterLab.

        class GlassMachine(ModelView, module="glass_machine"):
            ...

    The weights are not a trait, so no notebook stores them. The view requests them by a message when it needs
    them. A kernel answers with the bytes, and so does the page, which has those of the shipped models. A
    subclass whose view requests more files answers in `_file`, and tools/extensions/model_weights.py provides them on
    the page. `_stored` holds what a view draws before that, for its initial text. A subclass lists the
    `_families` of models that it shows.

    Traits:
        model: "shakespeare", "masked" or "dates", the folder of a run, such as "runs/first", or a file that a page of
            the book has saved, such as "my-gpt.safetensors". Read-only.
        text: what the model reads, at least one character; of a long text, it may see only a part.
        typed: what the reader wrote in the view. The model reads the characters in it that it knows, so the two
            differ if it has others; `typed` counts only as long as `text` is what the model reads of it.

    Raises:
        TraitError: there is no such model, the page cannot run it, it does not read characters, or it lacks a
            character of the text.
    """

    model = Unicode(read_only=True).tag(sync=True)
    text = Unicode().tag(sync=True)
    typed = Unicode().tag(sync=True)
    _config = Dict().tag(sync=True)
    _characters = Unicode().tag(sync=True)
    _digest = Unicode().tag(sync=True)
    _stored = Dict().tag(sync=True)
    _families: ClassVar[tuple[str, ...]] = ("decoder", "encoder", "encoder-decoder")

    def __init__(self, model: str = "shakespeare", **traits: Any) -> None:
        try:
            self._source = source_of(model)
        except (ValueError, FileNotFoundError) as error:
            raise TraitError(str(error)) from None
        tokenizer = self._source.tokenizer
        if not isinstance(tokenizer, CharTokenizer):
            raise TraitError(
                f"model={model!r} reads {type(tokenizer).__name__} tokens; a view shows characters. "
                "GlassMachine(reads='words') shows the book's model that reads tokens."
            )
        family = self._source.config.family
        if family not in self._families:
            raise TraitError(
                f"model={model!r} belongs to the family {family}; it must be {' or '.join(self._families)}"
            )
        self._name = model
        super().__init__(**traits)

    @default("model")
    def _default_model(self) -> str:
        return self._name

    @default("text")
    def _default_text(self) -> str:
        known = self._source.tokenizer.characters
        return "".join(c for c in LINE if c in known) or known[0]

    @validate("text")
    def _validate_text(self, proposal: dict) -> str:
        text = proposal["value"]
        if not text:
            raise TraitError("text='' has no characters, but must have at least one")
        try:
            self._source.tokenizer.encode(text)
        except ValueError as error:
            raise TraitError(str(error)) from None
        return text

    @default("_config")
    def _default_config(self) -> dict[str, Any]:
        return json.loads(self._source.config.to_json())

    @default("_characters")
    def _default_characters(self) -> str:
        return self._source.tokenizer.characters

    @default("_digest")
    def _default_digest(self) -> str:
        return checksum_of(self._source.weights)

    def _file(self, what: str) -> bytes | None:
        """Returns the weights, or None; a subclass adds other files."""
        return self._source.weights if what == "weights" else None
