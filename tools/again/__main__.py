"""Make every kind of stored run again, at one seed, and say how far what comes is from what is stored.

    python -m tools.again                   go on: the kinds that were not made again yet, the cheapest first
    python -m tools.again clinic models     only theirs
    python -m tools.again --anew            forget what came the last time, and begin
    python -m tools.again --page            make nothing: write the page of what came

Runs that differ in their seed alone are of one kind; the first of them is made again. Besides the experiments these
are the cards of the book's models, whose weights are measured again and not trained, and what excites their neurons.
What came is written to book/again.json after every run, with the page book/again.md, so that an interrupted program
goes on where it stopped.
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
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(EVERY)}; none: all")
    parser.add_argument("--anew", action="store_true", help="make again what was made again already")
    parser.add_argument("--page", action="store_true", help="make nothing, write the page")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 1)), help="runs at a time")
    options = parser.parse_args()
    for name in options.names:
        if name not in EVERY:
            parser.error(f"{name!r} is not one of {', '.join(EVERY)}")
    every, came = kinds(), read(DATA)
    chosen = [kind for kind in every if kind.name in (options.names or EVERY) and not options.page]
    todo = cheapest_first([kind for kind in chosen if options.anew or not of(kind, came)], came)
    came = [one for one in came if one not in [of(kind, came) for kind in todo]]
    print(
        f"{len(todo)} of {len(every)} runs to make again{'' if todo else '; --anew begins anew'}", flush=True
    )
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
