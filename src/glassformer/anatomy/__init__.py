"""What a published model consists of, by its config.json, whether or not our code runs it.

`python -m glassformer params config.json` prints it for a file that our code does not run.

    seen = anatomy.read(json.loads(Path("config.json").read_text()))
    print(anatomy.describe(seen))
"""

from glassformer.anatomy.described import describe, fold, keys_of, lacking, report, words
from glassformer.anatomy.reading import Anatomy, Kind, classes, families, known_keys, read, tables
from glassformer.anatomy.savings import ideas, savings
from glassformer.anatomy.shelf import shelf

__all__ = [
    "Anatomy",
    "Kind",
    "classes",
    "describe",
    "families",
    "fold",
    "ideas",
    "keys_of",
    "known_keys",
    "lacking",
    "read",
]
__all__ += ["report", "savings", "shelf", "tables", "words"]
__dir__ = __all__.copy
