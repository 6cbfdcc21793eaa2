"""The families whose files can be read and written: a file for each, or for several that are closely related.

Every `Format` in a module of this folder is a family. Adding one takes a module, whose `Format` can be derived from
another by `dataclasses.replace`, and a case of `tests/huggingface/models.py`.
"""

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
