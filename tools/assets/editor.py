"""Bundles the editor of the practice pages, from book/editor into book/site/vendor/codemirror.

    python tools/assets/editor.py     what `make editor` runs; it needs node, npm and a network

book/editor/package.json names the exact versions of everything that is bundled, and its lock file their hashes. The
bundle is in the repository, so building the book needs neither node nor a network. A test bundles again and compares.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "book" / "editor"
PACKAGES = SOURCE / "node_modules"
VENDOR = ROOT / "book" / "site" / "vendor" / "codemirror"
BUNDLE, LICENCES = VENDOR / "editor.js", VENDOR / "LICENSE"

HEAD = "// Written by `make editor` from book/editor: CodeMirror 6. Its licences are in the file LICENSE beside it.\n"
OPTIONS = ["--minify", "--format=iife", "--target=es2022", "--charset=utf8", "--legal-comments=none"]
ESBUILD = ["node", str(PACKAGES / "esbuild" / "bin" / "esbuild"), "editor.js", "--bundle", *OPTIONS]


def bundle() -> str:
    """Returns what editor.js must contain.

    Raises:
        FileNotFoundError: there is no node.
        subprocess.CalledProcessError: the packages are missing, or esbuild found a mistake.
    """
    made = subprocess.run(ESBUILD, cwd=SOURCE, check=True, capture_output=True)
    return HEAD + made.stdout.decode("utf-8")


def licences() -> str:
    """Returns the licences of all packages that the bundle contains, with their versions."""
    locked = json.loads((SOURCE / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    said = []
    for place, about in sorted(locked.items()):
        if place and not about.get("dev") and not about.get("optional"):
            text = (SOURCE / place / "LICENSE").read_text(encoding="utf-8").strip()
            said.append(f"{place.removeprefix('node_modules/')} {about['version']}\n\n{text}\n")
    return f"\n{'-' * 80}\n\n".join(said)


def fetch() -> None:
    """Gets the packages that the lock file names."""
    subprocess.run(["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"], cwd=SOURCE, check=True)


def main() -> None:
    fetch()
    VENDOR.mkdir(parents=True, exist_ok=True)
    BUNDLE.write_text(bundle(), encoding="utf-8")
    LICENCES.write_text(licences(), encoding="utf-8")
    print(f"{BUNDLE.relative_to(ROOT)}: {BUNDLE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
