"""Says how many bytes the cache of any model takes after any number of positions, and what each idea saved."""

from collections.abc import Mapping
from typing import Any

from traitlets import Enum

from glassformer import anatomy
from glassformer.widgets.engine.config_file import ConfigFileView
from glassformer.widgets.kit.view import Made, UpTo

MOST_POSITIONS = 10_000_000


class CacheCalculator(ConfigFileView, module="cache_calculator"):
    """Says how many bytes the cache of a model takes, and what each idea that it uses has saved.

    Everything is computed on the page, with the tables of `anatomy`; a file is not sent anywhere.
    `anatomy.savings` gives the same numbers.

    Derived in chapter 16.

    Traits:
        text: a config.json, or anything else, up to a million characters.
        positions: the number of positions that have been read, from 1 to 10,000,000.
        bits: in how many bits each number of the cache and of the weights is stored: 32, 16, 8 or 4.

    Raises:
        TraitError: the text is too long, or a number is not one of these.
    """

    _first = "Gemma 3 27B"

    positions = UpTo(lambda _: MOST_POSITIONS, first=100_000, least=1).tag(sync=True)
    bits = Enum((32, 16, 8, 4), default_value=16).tag(sync=True)
    _ideas = Made(lambda _: anatomy.ideas()).tag(sync=True)

    def _has(self, file: Mapping[str, Any]) -> bool:
        """Returns whether a file is that of a decoder: none of its layers reads a text as a whole."""
        seen = anatomy.read(file)
        return not any(seen.scope(kind)("encodes") for kind in seen.kinds)
