"""Loads and saves Hugging Face folders with published weights, for GPT-2, BERT, T5, LLaMA and its relatives.

`folders` loads and saves folders. `families` has tables for each family. By these, `configs` and `tables` translate
configurations key by key, and `weights` and `states` translate weights name by name. `files` reads one tensor at a
time, and `quantized` decodes those in FP8 and MXFP4, which `methods` finds announced. A model is a `Transformer` of
either room, "scratch" or "nn"; the first does not need torch. The axes: V vocabulary, D d_model.
"""

from glassformer.huggingface.attention import attention_from_hf
from glassformer.huggingface.configs import config_from_hf, config_to_hf, unknown_keys
from glassformer.huggingface.folders import load, save, start_id, stop_ids, tokenizer
from glassformer.huggingface.states import state_from_hf, state_to_hf

__all__ = [
    "attention_from_hf",
    "config_from_hf",
    "config_to_hf",
    "load",
    "save",
    "start_id",
    "state_from_hf",
    "state_to_hf",
    "stop_ids",
    "tokenizer",
    "unknown_keys",
]
