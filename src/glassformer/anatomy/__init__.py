"""What a published model consists of, read from its config.json, whether or not our code runs it.

from glassformer.anatomy import read

seen = read(json.loads(Path("config.json").read_text()))
seen.kinds, seen.weights(), seen.kept(100_000), seen.multiply_adds(100_000)
"""

from glassformer.anatomy.reading import Anatomy, Kind, known_keys, read, tables

__all__ = ["Anatomy", "Kind", "known_keys", "read", "tables"]
__dir__ = __all__.copy
