"""What a published model consists of, by its config.json, whether or not our code runs it.

`python -m glassformer params config.json` prints it for a file that our code does not run.

    seen = anatomy.read(json.loads(Path("config.json").read_text()))
    print(anatomy.describe(seen))
"""

from glassformer.anatomy.described import describe, lacking, sentences
from glassformer.anatomy.reading import Anatomy, Kind, known_keys, read, tables

__all__ = ["Anatomy", "Kind", "describe", "known_keys", "lacking", "read", "sentences", "tables"]
__dir__ = __all__.copy
