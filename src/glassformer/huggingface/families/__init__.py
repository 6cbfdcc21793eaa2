"""The families whose files can be read and written: a file for each, or for several that are closely related.

Every `Format` in a module of this folder is a family. Adding one takes a module, whose `Format` can be derived from
another by its method `derive`, and a case of `tests/huggingface/models.py`.
"""

from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules

from glassformer.huggingface.families.format import Format

FORMATS: dict[str, Format] = {}
"""The families by `model_type`, each after those that it is derived from.

A model is written as the first of the families that lose nothing of it.
"""

for _, _name, _ in iter_modules(__path__):
    for _form in vars(import_module(f"{__name__}.{_name}")).values():
        if isinstance(_form, Format):
            FORMATS.setdefault(_form.model_type, _form)

OF_SEVERAL_PARTS = {
    "gemma3": ("gemma3_text",),
    "gemma4": ("gemma4_text",),
    "mistral3": ("ministral3", "mistral"),
    "qwen3_5": ("qwen3_5_text",),
    "qwen3_5_moe": ("qwen3_5_moe_text",),
}
"""Models that also read images or sounds, and the families of their `text_config`; other parts are left out."""

IN_A_WRAPPER = (
    ("model.language_model.model.", "model."),
    ("model.language_model.lm_head.", "lm_head."),
    ("model.language_model.", "model."),
)
OTHER_PARTS = (
    r"|^(model\.)?(visual|vision_tower|multi_modal_projector|audio_tower|embed_vision|embed_audio)\."
)

for _kind in {kind for kinds in OF_SEVERAL_PARTS.values() for kind in kinds}:
    _layout = FORMATS[_kind].layout
    _layout = replace(_layout, others=_layout.others + IN_A_WRAPPER, ignored=_layout.ignored + OTHER_PARTS)
    FORMATS[_kind] = replace(FORMATS[_kind], layout=_layout)
