"""The base of all views that run a model: the model, the text, and how the weights reach the page."""

import base64
import json
import os
from collections.abc import Mapping
from functools import cache
from typing import Any, ClassVar, NamedTuple

import numpy as np
from safetensors.numpy import load as arrays_from
from safetensors.numpy import save
from traitlets import Dict, TraitError, Unicode, default, validate

from glassformer import _checks as checks
from glassformer import shipped
from glassformer.checkpoints import checksum_of, model_of
from glassformer.config import ModelConfig
from glassformer.pretrained import Pretrained, stored
from glassformer.scratch import Transformer, in_numpy
from glassformer.text import CharTokenizer
from glassformer.untrusted_files import check_weights, errors_about
from glassformer.widgets.kit.view import FileView, Made

LINE = "A horse! a horse! my kingdom for a horse!"

MOST_KEPT = 2**30
"""The most bytes that the page reserves for keys and values; a configuration can ask for any number."""

MOST_WEIGHTS = 2**24
"""The most numbers of a model in a page: a file of 64 MiB in float32, the largest that model_file.js opens."""

SPECIAL = {"decoder": 0, "encoder": 1, "encoder-decoder": 2}
"""How many ids each family has beyond those of the characters: a mask; a start and a stop."""

YOURS = "your model"
"""What own_model.js calls a reader's model without a name."""

# The assumptions that transformer.js states; a test keeps the two in agreement.
MUST_BE = {
    "positions": "rope",
    "rope_layout": "half",
    "rope_interpolation": 1,
    "rope_share": 1,
    "rope_proportional": False,
    "rope_truncate": True,
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
    "streams": None,
    "layer_embeddings": None,
}

# What transformer.js assumes of experts, if all layers have them.
EXPERTS = {
    "scores": "softmax",
    "sum_eps": 0,
    "choice_bias": False,
    "n_groups": 1,
    "router_bias": False,
    "by_token": False,
    "weighs": "output",
    "d_shared": 0,
    "limit": None,
    "offset": 0,
    "sharpness": 1,
}


def runs_experts(kinds: Any) -> bool:
    """Returns whether `kinds`, as in a config.json, are layers with experts that transformer.js can run."""
    match list((kinds or {}).values()):
        case [{"experts": {"Experts": own}, **more}]:
            return more.keys() <= {"d_ff"} and EXPERTS.items() <= own.items()
    return False


def refusal(fields: Mapping[str, Any]) -> str | None:
    """Returns in words why transformer.js cannot run a configuration, or None if it can."""
    for name, value in MUST_BE.items():
        if (own := fields.get(name, value)) != value and not (name == "kinds" and runs_experts(own)):
            return f"{name}={_in_json(own)} is not {_in_json(value)}"
    if isinstance(fields["qk_norm"], str):
        return f"qk_norm={_in_json(fields['qk_norm'])} is not true or false"
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

    def number(text: str) -> float:
        return int(x) if (x := float(text)).is_integer() else x

    return json.dumps(json.loads(json.dumps(value), parse_float=number), separators=(",", ":"))


class Source(NamedTuple):
    """A model in the form that a view needs. Only GlassMachine shows one that reads byte pairs."""

    config: ModelConfig
    tokenizer: Any  # a CharTokenizer; a BytePairTokenizer only for the glass machine
    weights: bytes  # a safetensors file
    name: str
    own: bool  # whether it is the reader's, and not one of the book's

    @property
    def model(self) -> Transformer:
        """Returns the same model in NumPy."""
        return model_of(self.config, arrays_from(self.weights))


_of_the_book = cache(shipped.stored)


def source_of(model: Any, tokenizer: Any = None) -> Source:
    """Takes a model in any form in which a view may be given one; the view then has a copy of its weights.

    Args:
        model: the name, the folder or the file of one of our own models, as `pretrained.stored` finds it; what
            `pretrained.load` has returned; or a Transformer of either room.
        tokenizer: that of a model which has none of its own.

    Raises:
        ValueError: the page cannot run it (the message says why), it has no tokenizer or two, its weights are infinite
            or too large, or a file is not what was written.
        FileNotFoundError: there is no such model, no such file and no such folder.
        TypeError: `model` is nothing of that.
    """
    arrays: Any = None
    if isinstance(model, str | os.PathLike):
        name, own = str(model), model not in shipped.NAMES
        config, its, arrays, special = stored(model) if own else _of_the_book(name)
    else:
        name, own = YOURS, True
        special = model.special_ids if isinstance(model, Pretrained) else None
        model, its = model[:2] if isinstance(model, Pretrained) else (model, None)
        if not isinstance(config := getattr(model, "config", None), ModelConfig):
            forms = "a Transformer of either room, what pretrained.load returns, or a model's name, folder or file"
            raise TypeError(f"model={checks.shown(repr(model))}, but a view takes {forms}")
    if its is not None and tokenizer is not None:
        raise ValueError(f"model={name!r} has a tokenizer of its own, so tokenizer must be left out")
    its = tokenizer if its is None else its
    if its is None:
        raise ValueError(
            f"model={name!r} has no tokenizer, so a view cannot read a text: pass it as tokenizer"
        )
    n = its.vocab_size
    if special and config.family != "decoder" and min(special.values()) < n:
        raise ValueError(
            f"model={name!r} cannot run in a page, where special ids follow the {n} of the tokenizer: this model has "
            f"{special}"
        )
    _check_runs(name, config)  # before anything is copied
    if arrays is None:
        with errors_about(f"model={name!r}:"):
            arrays = in_numpy(model).state_dict()
        for weight, values in arrays.items():
            check_weights(f"model={name!r}: {weight}", values)
    if any(array.dtype == np.float64 for array in arrays.values()):
        arrays = {name: array.astype(np.float32) for name, array in arrays.items()}
    with errors_about(f"model={name!r} cannot run in a page:"):
        model_of(config, arrays)  # a model may have parts of its own
    return Source(config, its, save(arrays), name, own)


def _check_runs(name: str, config: ModelConfig) -> None:
    """Checks that a page can run a model of that configuration."""
    why = refusal(json.loads(config.to_json()))
    if (n := config.parameter_count().total) > MOST_WEIGHTS:
        why = f"it has {n:,} parameters, and a page takes at most {MOST_WEIGHTS:,}"
    if why:
        raise ValueError(f"model={name!r} cannot run in a page: {why}")


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

    The model is "shakespeare", "masked" or "dates"; the folder of a run, such as "runs/first"; a file that a page of
    the book has saved, such as "my-gpt.safetensors"; what `pretrained.load` returns; or a Transformer of either room.
    A model without a tokenizer needs `tokenizer`, as in `GlassMachine(model, tokenizer=tokenizer)`. The view keeps a
    copy of the weights, so it does not change when the model is trained further.

    Traits:
        model: the model's name or place, or "your model". Read-only.
        text: what the model reads, at least one character; of a long text, it may see only a part.
        typed: what the reader wrote in the view. The model reads the characters in it that it knows, so the two
            differ if it has others; `typed` counts only as long as `text` is what the model reads of it.

    Raises:
        TraitError: there is no such model, the page cannot run it, it does not read characters, its family is not one
            that the view shows, or it lacks a character of the text.
    """

    model = Made(lambda view: view._source.name, read_only=True).tag(sync=True)
    text = Unicode().tag(sync=True)
    typed = Unicode().tag(sync=True)
    # The same name if it is the reader's model, otherwise ""
    _own = Made(lambda view: view._source.name if view._source.own else "").tag(sync=True)
    _config = Made(lambda view: json.loads(view._source.config.to_json())).tag(sync=True)
    _characters = Made(lambda view: view._source.tokenizer.characters).tag(sync=True)
    _digest = Made(lambda view: checksum_of(view._source.weights)).tag(sync=True)
    _stored = Dict().tag(sync=True)
    _families: ClassVar[tuple[str, ...]] = ("decoder", "encoder", "encoder-decoder")
    _shortest: ClassVar[int] = 1  # the shortest context that it can work with
    _experts: ClassVar[bool] = False  # whether it shows a model with experts, and only that

    def __init__(self, model: Any = "shakespeare", *, tokenizer: Any = None, **traits: Any) -> None:
        try:
            self._source = source_of(model, tokenizer)
        except (ValueError, TypeError, OSError, ImportError) as error:
            raise TraitError(str(error)) from None
        config, tokenizer, _, name, _ = self._source
        if not isinstance(tokenizer, CharTokenizer):
            raise TraitError(
                f"the tokenizer of model={name!r} is a {type(tokenizer).__name__}, but must be a CharTokenizer: a view "
                "cuts a text into characters, and into other tokens only for the book's own model, in "
                "GlassMachine(reads='words')"
            )
        if config.family not in self._families:
            raise TraitError(
                f"model={name!r} belongs to the family {config.family}; it must be {' or '.join(self._families)}. "
                "FillIn shows an encoder, DateTranslator an encoder-decoder, and every other view a decoder."
            )
        if (config.kinds is not None) != self._experts:
            raise TraitError(
                f"model={name!r} has {'no ' if self._experts else ''}experts. RouterView shows a model with experts, "
                "and every other view one without."
            )
        if config.context_length < self._shortest:
            raise TraitError(
                f"model={name!r} has context_length={config.context_length}; this view needs {self._shortest} or more"
            )
        V = tokenizer.vocab_size
        needed = V + SPECIAL[config.family]
        if config.vocab_size < needed or (config.family == "decoder" and config.vocab_size > needed):
            more = f" and {needed - V} for special tokens" if needed > V else ""
            raise TraitError(
                f"model={name!r} has vocab_size={config.vocab_size}, but needs {V} ids for its tokenizer's characters"
                f"{more}"
            )
        super().__init__(**traits)

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

    def _file(self, what: str) -> bytes | None:
        """Returns the weights, or None; a subclass adds other files."""
        return self._source.weights if what == "weights" else None
