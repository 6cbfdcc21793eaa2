"""Make the long runs of the book's experiments and store their results.

    python tools/experiments.py                     make the missing runs of all experiments
    python tools/experiments.py positions --again   repeat all runs of one experiment
    python tools/experiments.py --workers 8         eight runs at a time, each on one thread

Results are written after every run, so an interrupted program continues where it stopped.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from glassformer.atomic_files import write_whole
from glassformer.experiments import NAMES, Experiment, Run, experiment
from glassformer.experiments.experiment import Found, Settings, place, rounded


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"one of {', '.join(NAMES)} (default: all)")
    parser.add_argument("--again", action="store_true", help="also repeat runs whose results are stored")
    parser.add_argument(
        "--workers", type=int, default=max(1, (os.cpu_count() or 1)), help="runs at the same time"
    )
    options = parser.parse_args()
    for name in options.names:
        if name not in NAMES:
            parser.error(f"{name!r} is not one of {', '.join(NAMES)}")
    chosen = [experiment(name) for name in options.names or NAMES]
    return max([make(one, options.workers, options.again) for one in chosen], default=0)


def make(one: Experiment, workers: int, again: bool) -> int:
    """Makes the missing runs of an experiment; returns 1 if any failed."""
    path = Path(str(place(one.name)))
    before = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"runs": []}
    kept = [] if again else [Run(**run) for run in before["runs"]]
    kept = [run for run in kept if run.settings in one.runs]  # runs that no longer belong to it are dropped
    have = [run.settings for run in kept]
    missing = [settings for settings in one.runs if settings not in have]
    print(f"{one.name}: {len(kept)} runs are stored, {len(missing)} are missing", flush=True)
    failed = 0
    begun = time.monotonic()
    for at, run, seconds in each([(one.measure, settings) for settings in missing], workers):
        settings = missing[at]
        if isinstance(run, BaseException):
            failed += 1
            print(f"  {words(settings)}: {run!r}", flush=True)
            continue
        kept.append(run)
        _write(path, one, kept, versions())
        minutes = (time.monotonic() - begun) / 60
        print(f"  {words(settings)}: {seconds:.0f} s; {minutes:.1f} min so far", flush=True)
    if not missing:  # dropped, or in another order: but made when they were
        _write(path, one, kept, before["made_with"])
    return int(failed > 0)


def each(
    todo: Sequence[tuple[Callable[..., Found], Settings]], workers: int
) -> Iterator[tuple[int, Run | BaseException, float]]:
    """Makes several runs at a time. Yields the index in `todo`, the result or exception, and the seconds of each.

    Every run has its own process with one thread, so its result does not depend on what else is running. Runs start in
    the order of `todo`. The seconds are CPU time.
    """
    os.environ["OMP_NUM_THREADS"] = "1"  # of the processes
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        waiting = {pool.submit(_made, *one): at for at, one in enumerate(todo)}
        try:
            for done in as_completed(waiting):
                error = done.exception()
                run, seconds = (error, 0.0) if error is not None else done.result()
                yield waiting[done], run, seconds
        finally:
            # After an interruption, wait only for the runs that have started.
            pool.shutdown(cancel_futures=True)


def _made(measure: Callable[..., Found], settings: Settings) -> tuple[Run, float]:
    import torch

    torch.set_num_threads(1)
    begun = time.process_time()
    found = rounded(measure(**settings))
    return Run(settings, found, cpu()), time.process_time() - begun


def cpu() -> str:
    """Returns the instruction set that PyTorch's kernels use here, and whether it has products in bfloat16."""
    import torch

    kind, has = torch.backends.cpu.get_cpu_capability(), torch.cpu.get_capabilities()
    # Environment variables can switch AVX-512 off, and its bfloat16 with it; the chip's own list does not say so.
    bfloat16 = has.get("bf16") or (
        kind.startswith("AVX512") and (has.get("avx512_bf16") or has.get("amx_bf16"))
    )
    return f"{kind} {'with' if bfloat16 else 'without'} bfloat16"


def versions() -> dict[str, str]:
    """Returns the versions of the libraries that a run made now would use."""
    import numpy
    import torch

    return {"torch": torch.__version__.split("+")[0], "numpy": numpy.__version__}


def _write(path: Path, one: Experiment, kept: list[Run], made_with: dict[str, str]) -> None:
    """Writes one line per run, in the order of the experiment; `made_with` describes the latest run."""
    runs = sorted(kept, key=lambda run: one.runs.index(run.settings))
    known = [{name: value for name, value in run._asdict().items() if value is not None} for run in runs]
    lines = ",\n  ".join(json.dumps(run, ensure_ascii=False, allow_nan=False) for run in known)
    about = {"experiment": one.name, "question": one.question, "made_with": made_with}
    start = json.dumps(about, ensure_ascii=False, indent=1).removesuffix("\n}")
    write_whole(path, f'{start},\n "runs": [\n  {lines}\n ]\n}}\n'.encode())


def words(settings: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items())


if __name__ == "__main__":
    sys.exit(main())
