"""Says what any config.json describes: layers, numbers, keys, and whether our code runs the model."""

import json

from glassformer import anatomy
from glassformer.anatomy.reading import MOST_LAYERS
from glassformer.config import ModelConfig
from glassformer.huggingface import config_from_hf, unknown_keys
from glassformer.widgets.engine.config_file import LONGEST, ConfigFileView, half
from glassformer.widgets.kit.view import Made, Text, UpTo

LENGTHS = (100, 1_000, 4_096, 10_000, 32_768, 100_000, 131_072, 262_144, 500_000, 1_000_000)
MOST_POSITIONS = 100_000_000
FIRST = "Qwen3.5 27B"
"""The file that is read at first."""


class ConfigReader(ConfigFileView, module="config_reader"):
    """Says what a config.json describes, or what differs between two: layers, parameters, cache, and each key.

    Everything is computed on the page, with the tables of `anatomy`; a file is not sent anywhere. `config` reads it as
    our code does, so it can refuse a value that the page does not check.

    Derived in chapter 13.

    Traits:
        text: what is read: a config.json, or anything else, up to a million characters.
        other: a second file, of which only what differs is shown; "" is none.
        positions: the number of positions that have been read, from 1 to 100,000,000.
        kind: the number, from 0, of the kind of layer whose steps are shown.

    Raises:
        TraitError: a text is too long, or a number is outside of its range.
    """

    _first = FIRST

    other = Text(longest=LONGEST).tag(sync=True)
    positions = UpTo(lambda _: MOST_POSITIONS, first=100_000, least=1).tag(sync=True)
    kind = UpTo(lambda _: MOST_LAYERS, first=0).tag(sync=True)
    _words = Made(lambda _: {name: table for name, table in anatomy.words().items() if name != "keys"}).tag(
        sync=True
    )
    _keys = Made(lambda _: half(anatomy.words()["keys"], 0)).tag(sync=True)
    _more_keys = Made(lambda _: half(anatomy.words()["keys"], 1)).tag(sync=True)
    _lengths = Made(lambda view: sorted({*LENGTHS, view.positions})).tag(sync=True)

    @property
    def config(self) -> ModelConfig:
        """Returns the configuration that the text describes; keys that are not known here are passed over.

        Raises:
            ValueError: the text is not JSON, or does not describe a model that our code supports; the message
                says why.
            TypeError: a field holds the wrong kind of thing.
        """
        given = json.loads(self.text)
        if not isinstance(given, dict):
            raise ValueError(f"a config.json is a JSON object, not {given!r:.40}")
        return config_from_hf(given, ignore=unknown_keys(given))
