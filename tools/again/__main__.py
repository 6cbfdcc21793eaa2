"""Repeat every kind of stored run, with one seed, and report how far the results are from the stored ones.

    python -m tools.again                   continue: repeat the kinds that are missing, the cheapest first
    python -m tools.again clinic models     only these two
    python -m tools.again --anew            discard the last results and start over
    python -m tools.again --page            repeat nothing; write the page from the last results

Runs that differ only in their seed are of one kind, and the first of each kind is repeated. Besides the experiments,
this includes the cards of the book's models, whose weights are measured again but not trained, and what excites their
neurons. Results are written to book/again.json after every run, together with the page book/again.md, so an
interrupted program continues where it stopped.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from tools.again.came import Came, cheapest_first, of, read, write
from tools.again.kinds import EVERY, kinds
from tools.again.page import page, said
from tools.experiments import each, versions, words

BOOK = Path(__file__).parents[2] / "book"
DATA, PAGE = BOOK / "again.json", BOOK / "again.md"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.again",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(EVERY)} (default: all)")
    parser.add_argument("--anew", action="store_true", help="also repeat what was repeated already")
    parser.add_argument("--page", action="store_true", help="repeat nothing; write the page")
    parser.add_argument(
        "--workers", type=int, default=max(1, (os.cpu_count() or 1)), help="runs at the same time"
    )
    options = parser.parse_args()
    for name in options.names:
        if name not in EVERY:
            parser.error(f"{name!r} is not one of {', '.join(EVERY)}")
    every, came = kinds(), read(DATA)
    chosen = [kind for kind in every if kind.name in (options.names or EVERY) and not options.page]
    todo = cheapest_first([kind for kind in chosen if options.anew or not of(kind, came)], came)
    came = [one for one in came if one not in [of(kind, came) for kind in todo]]
    print(f"{len(todo)} of {len(every)} runs to repeat{'' if todo else '; --anew starts over'}", flush=True)
    failed = 0
    for at, run, seconds in each([(kind.measure, kind.settings) for kind in todo], options.workers):
        kind = todo[at]
        begins = f"{kind.name}: {words(kind.settings)}:"
        if isinstance(run, BaseException):
            failed += 1
            print(f"{begins} {run!r}", flush=True)
            continue
        came.append(Came(kind.name, run, round(seconds, 1), versions()))
        print(f"{begins} {seconds:.0f} s, {said(kind.runs, run.found)}", flush=True)
        write(every, came, DATA)
        PAGE.write_text(page(every, came), encoding="utf-8")
    PAGE.write_text(page(every, came), encoding="utf-8")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
