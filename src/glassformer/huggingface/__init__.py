"""Weights that others trained: Hugging Face's folders, in and out, for GPT-2, BERT, T5 and the LLaMA family.

`folders` are loaded and saved. `configs` are translated field by field, `weights` name by name, from one table for
each family. `files` are read one tensor at a time. A model is a `Transformer` of either room, "scratch" or
"nn"; for the first, nothing here needs torch. The axes: V vocabulary, D d_model.
"""

from glassformer.huggingface.configs import config_from_hf, config_to_hf
from glassformer.huggingface.folders import load, save, start_id, stop_ids, tokenizer
from glassformer.huggingface.weights import state_from_hf, state_to_hf

__all__ = [
    "config_from_hf",
    "config_to_hf",
    "load",
    "save",
    "start_id",
    "state_from_hf",
    "state_to_hf",
    "stop_ids",
    "tokenizer",
]
