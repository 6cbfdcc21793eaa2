"""Train the models that come with the book, measure them, and write their files and their page.

    python -m tools.models             all of them, each from its recipe in assets/recipes
    python -m tools.models dates       one of them
    python -m tools.models --measure   train nothing; measure them again and write their cards and page
    python -m tools.models --page      write only book/models.md, from the cards
    python -m tools.models dates --set training.steps=20 --to FOLDER     a short trial; the page stays as it is

On the same machine, the same command writes the same bytes. The model that is measured is the one that readers load:
its weights are rounded to float16 first.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # sums come out the same however many processors there are

import torch

from glassformer import shipped
from tools.models.make import keep, made
from tools.models.page import page

PAGE = Path(__file__).parents[2] / "book" / "models.md"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.models",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "names", nargs="*", metavar="NAME", help=f"one of {', '.join(shipped.NAMES)} (default: all)"
    )
    parser.add_argument("--measure", action="store_true", help="train nothing; measure the stored weights")
    parser.add_argument("--page", action="store_true", help="train and measure nothing; write the page")
    parser.add_argument("--to", type=Path, metavar="FOLDER", help="store the models there and write no page")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PART.FIELD=VALUE",
        dest="changes",
        help="change one entry of the recipe",
    )
    options = parser.parse_args()
    for name in options.names:
        if name not in shipped.NAMES:
            parser.error(f"{name!r} is not one of {', '.join(shipped.NAMES)}")
    if options.changes and options.to is None:
        parser.error("--set trains a model that differs from the book's: choose a folder for it with --to")
    torch.set_num_threads(1)
    place = options.to or Path(str(shipped.PLACE))
    for name in [] if options.page else options.names or shipped.NAMES:
        begun = time.monotonic()
        one = made(name, options.changes, place if options.measure else None)
        card = keep(one, options.changes, place)
        words = ", ".join(
            f"{what} {nats} ({part})"
            for what, parts in card["losses"].items()
            for part, nats in parts.items()
        )
        print(f"{name}: {words}; {card['bytes']:,} bytes; {(time.monotonic() - begun) / 60:.1f} minutes")
    if options.to is None:
        PAGE.write_text(page([shipped.card(name) for name in shipped.NAMES]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
