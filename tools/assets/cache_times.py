"""Measures the book's model with and without a cache, and stores the times that chapter 11 and its view show.

    python tools/assets/cache_times.py "one thread of an AMD EPYC processor"     say what the times were measured on

Run it on a quiet computer with OMP_NUM_THREADS=1. The chapter shows the times together with these words.
"""

from __future__ import annotations

import argparse
import json

from glassformer.chapters.ch11 import cache_movie, character_times


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("on", help="what they are measured on, in a few words")
    parser.add_argument("--only", choices=("view", "character"), help="the times of one of the two")
    arguments = parser.parse_args()
    for name, part in {"view": cache_movie, "character": character_times}.items():
        if arguments.only in (None, name):
            times = part.measure() | {"on": arguments.on}
            part.TIMES.write_text(json.dumps(times, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
