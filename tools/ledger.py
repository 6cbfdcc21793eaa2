"""The parity ledger: how far the book's code is from independent implementations.

    python tools/ledger.py                  run the tests that compare; write book/parity.json and book/parity.md
    python tools/ledger.py --check FOLDER   compare the notes that a test run left in FOLDER with book/parity.json

The last digits of the differences depend on the machine, so they may vary. Everything else must agree: what was
compared, the reference and its version, the precision, and the bound on the difference. What is compared once a week
may be missing from the notes of another run.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA, PAGE = ROOT / "book" / "parity.json", ROOT / "book" / "parity.md"
COMPARING = ["tests/layers", "tests/huggingface", "tests/generation"]
WHAT = ("section", "component", "reference", "dtype")
SECTIONS = (
    "Layers",
    "Attention and positions",
    "Whole models",
    "Gradients of whole models",
    "Training",
    "Generated text",
)

HEADING = """# Parity ledger

Every part of the book's Transformer computes the same as programs that we did not write: PyTorch's own layers and
the models of Hugging Face's transformers. Both of our versions, in NumPy (`glassformer.scratch`) and in PyTorch
(`glassformer.nn`), get the same weights and the same input as the reference. The table shows the largest difference
between any two numbers of the outputs. If it exceeds its bound, a test fails.

Float64 has about 16 digits and float32 about 7. For numbers of about 1, a difference of 10⁻¹⁵ or 10⁻⁷ is therefore
nothing but rounding. If a reference does a part of its work in lower precision, its rounding shows, and the entry
says so. Where the PyTorch column has 0 and the reference is torch, `nn` calls torch's own function. A *relative*
difference is divided by the size of the number; the gradients of a whole model are divided by the largest one.

The models of transformers are small ones with random weights, and GPT-2 small in its full size. The library computes
parts of T5, and of models with rotary positions, in float32 even where everything else is float64. The tests compare
both with these parts in float64 and with the models as they are.

`make ledger` repeats all measurements and writes this page. Every run of the test suite checks that the page lists
what the tests compare; some families are compared once a week. Programs can read the same table in `book/parity.json`.
"""

NOTES = {
    "Generated text": """For generated ids, the number shows how many differ, so 0 means none. The code that chooses ids
is NumPy for models of both kinds, so it is measured only once where it is compared by itself."""
}

TABLE = """| what | reference | precision | NumPy | PyTorch | bound |
| :-- | :-- | :-- | --: | --: | --: |
"""


def notes(folder: Path) -> Iterator[dict]:
    """Yields the tests' notes in that folder, one comparison after another."""
    for file in sorted(folder.glob("*.jsonl")):
        for line in file.read_text(encoding="utf-8").splitlines():
            yield json.loads(line)


def ledger(folder: Path) -> list[dict]:
    """Returns one row per comparison, in the order of the page: the largest difference in each room, and the bound.

    Raises:
        ValueError: if two notes about the same thing have different bounds, or one has a section of no page.
    """
    rows: dict[tuple, dict] = {}
    for note in notes(folder):
        key = tuple(note[name] for name in WHAT)
        row = rows.setdefault(
            key,
            dict(zip(WHAT, key, strict=True)) | {"bound": note["bound"], "difference": {}, "every": set()},
        )
        room, difference = note["room"], note["difference"]
        row["difference"][room] = max(difference, row["difference"].get(room, 0.0))
        row["every"] |= set() if note["weekly"] else {room}  # the rooms that every run compares
        if note["bound"] != row["bound"]:
            raise ValueError(f"{key} has the bounds {row['bound']} and {note['bound']}: give it one bound")
        if note["section"] not in SECTIONS:
            raise ValueError(f"{key}: the section must be one of {SECTIONS}")
    for row in rows.values():
        row["difference"] = dict(sorted(row["difference"].items(), reverse=True))  # scratch before nn
        row["weekly"] = row.pop("every") != row["difference"].keys()
    return sorted(rows.values(), key=order)


def order(row: dict) -> tuple:
    """Sorts by section, then by name, so that "BERT: pooler" comes before "BERT, pre-training: logits"."""
    name = row["component"].casefold().split(": ")
    return SECTIONS.index(row["section"]), name, row["dtype"], row["reference"]


def identity(rows: list[dict]) -> set[tuple]:
    """Returns what does not depend on the machine, for each room of each row."""
    return {(*(row[name] for name in WHAT), row["bound"], room) for row in rows for room in row["difference"]}


def page(rows: list[dict]) -> str:
    """Returns the text of the book's page."""

    def number(value: float | None, digits: int = 1) -> str:
        if not value:
            return "–" if value is None else "0"
        return f"{value:.{digits}e}".replace("-", "\N{NON-BREAKING HYPHEN}")

    def line(row: dict) -> str:
        measured = [number(row["difference"].get(room)) for room in ("scratch", "nn")]
        cells = [row["component"], row["reference"], row["dtype"], *measured, number(row["bound"], 0)]
        return "| " + " | ".join(cells) + " |\n"

    parts = [HEADING]
    for section in SECTIONS:
        lines = [line(row) for row in rows if row["section"] == section]
        if lines:
            note = f"{NOTES[section]}\n\n" if section in NOTES else ""
            parts.append(f"## {section}\n\n{note}{TABLE}{''.join(lines)}")
    return "\n".join(parts)


def check(folder: Path) -> str | None:
    """Returns a sentence about what is wrong with the committed ledger, or None if it agrees with the notes."""
    rows = json.loads(DATA.read_text(encoding="utf-8")) if DATA.exists() else []
    measured = identity(ledger(folder))
    needed = identity([row for row in rows if not row["weekly"]])
    different = sorted((measured - identity(rows)) | (needed - measured), key=str)
    if different:
        side = "not in the ledger" if different[0] in measured else "no longer measured"
        return f"book/parity.json is out of date ({different[0]} is {side}): run make ledger"
    made = page(json.loads(DATA.read_text(encoding="utf-8"))) if DATA.exists() else ""
    if not PAGE.exists() or PAGE.read_text(encoding="utf-8") != made:
        return "book/parity.md was not made from book/parity.json: run make ledger"
    return None


def write(rows: list[dict]) -> None:
    DATA.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(rows), encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--check", type=Path, metavar="FOLDER", help="run no tests; compare the notes in FOLDER"
    )
    arguments = parser.parse_args()
    if arguments.check:
        fault = check(arguments.check)
        if fault:
            print(fault)
        return int(fault is not None)
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {"GLASSFORMER_LEDGER": folder, "OMP_NUM_THREADS": "1"}
        every = ["-m", "weekly or not weekly"]
        pytest = [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadfile", *every, *COMPARING]
        if subprocess.run(pytest, cwd=ROOT, env=environment).returncode:
            return 1
        rows = ledger(Path(folder))
    write(rows)
    print(f"{len(rows)} comparisons: {PAGE.relative_to(ROOT)}, {DATA.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
