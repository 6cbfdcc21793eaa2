"""Shows the parameters of every model in the book, from 512 to 175 billion, as shares and as areas true to scale."""

import re
from functools import cache
from typing import Any

from traitlets import Dict, Enum

from glassformer import shipped
from glassformer.config import FAMILIES, ModelConfig
from glassformer.parameters import LETTERS, ParameterCount
from glassformer.published import PUBLISHED, TEACHING
from glassformer.widgets.engine.counting import DEPENDS
from glassformer.widgets.kit.view import Made, View

NONE = "none"
SORTS = ("size", "year", "feed-forward")


@cache
def configs() -> dict[str, ModelConfig]:
    """Returns every model without parts of later chapters, by name, smallest first: published, teaching and shipped."""
    own = {name: shipped.configuration(name) for name in shipped.NAMES}
    found = own | {name: one.config for name, one in (PUBLISHED | TEACHING).items()}
    counts = {name: config.parameter_count() for name, config in found.items()}
    letters = {
        name: {*"".join(product for part in count.parts for product in part.formula)}
        for name, count in counts.items()
    }
    known = [name for name in found if letters[name] <= set(LETTERS)]
    return {name: found[name] for name in sorted(known, key=lambda name: counts[name].total)}


def year(name: str) -> int | None:
    """Returns when a model was described; None if it is this book's own."""
    return int(re.findall(r"\b20\d\d\b", PUBLISHED[name].source)[0]) if name in PUBLISHED else None


def _model(name: str, config: ModelConfig) -> dict[str, Any]:
    """A model as the view stores it; a part has a name, a number of occurrences, a formula and a note."""
    count = config.parameter_count()
    return {
        "name": name,
        "family": config.family,
        "year": year(name),
        "sizes": count.sizes,
        "parts": [(part.name, part.times, dict(part.formula), part.note) for part in count.parts],
    }


class ParameterBars(View, module="parameter_bars"):
    """Shows how the parameters of every model in the book are distributed, as 100 % bars or as areas true to scale.

    The parts and their formulas are those of `ModelConfig.parameter_count`.

    Derived in chapters 08 and 13.

    Traits:
        view: "share", bars of 100 %, or "size", areas.
        family: one of `config.FAMILIES`, or "all".
        sort: by "size", "year", or the share of the "feed-forward" networks. What has no year comes first.
        model: the model that is counted part by part, a key of `configs()`.
        other: the one it is compared with, or "none".
        scale: the model that fills the frame where areas are seen.
        part: the part that the sentence is about, such as "feed-forward".

    Raises:
        TraitError: there is no such model or part, or a choice is none of those above.
    """

    view = Enum(("share", "size"), "share").tag(sync=True)
    family = Enum(("all", *FAMILIES), "all").tag(sync=True)
    sort = Enum(SORTS, "size").tag(sync=True)
    model = Enum(tuple(configs()), "gpt2").tag(sync=True)
    other = Enum((NONE, *configs()), "gpt3").tag(sync=True)
    scale = Enum(tuple(configs()), "gpt2-xl").tag(sync=True)
    part = Enum(tuple(DEPENDS), "feed-forward").tag(sync=True)
    _models = Made(lambda _: [_model(name, config) for name, config in configs().items()]).tag(sync=True)
    _letters = Dict(LETTERS).tag(sync=True)

    def count(self) -> ParameterCount:
        """The parameters of the chosen model, part by part."""
        return configs()[self.model].parameter_count()
