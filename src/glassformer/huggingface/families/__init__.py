"""The families whose files can be read and written: a file for each layout, with all that is particular to it.

`FORMATS` has every family under its `model_type`. Adding one takes a `Format`, which a family with the same layout can
derive from another by `dataclasses.replace`, and a line in this table.
"""

from glassformer.config import ModelConfig
from glassformer.huggingface.families.bert import BERT
from glassformer.huggingface.families.format import Format
from glassformer.huggingface.families.gpt2 import GPT2
from glassformer.huggingface.families.llama import LLAMA, MISTRAL, QWEN2, QWEN3
from glassformer.huggingface.families.t5 import T5

FORMATS: dict[str, Format] = {
    "gpt2": GPT2,
    "bert": BERT,
    "t5": T5,
    "llama": LLAMA,
    "mistral": MISTRAL,
    "qwen2": QWEN2,
    "qwen3": QWEN3,
}
"""The families by `model_type`; one that has a part which another lacks comes after it."""


def family_of(config: ModelConfig) -> str:
    """Returns the family whose file can describe a model, if any can: the last that claims it."""
    return next(kind for kind, form in reversed(FORMATS.items()) if form.claims(config))
