"""Measures the passes of the book's model with and without a cache, and stores their times for the view CacheMovie.

    python tools/cache_times.py "one thread of an AMD EPYC processor"     say what the times were measured on

Run it on a quiet computer with OMP_NUM_THREADS=1. A page shows the times together with these words.
"""

from __future__ import annotations

import argparse
import json

from glassformer.chapters.ch11.cache_movie import TIMES, measure


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("on", help="what they are measured on, in a few words")
    times = measure() | {"on": parser.parse_args().on}
    TIMES.write_text(json.dumps(times, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
