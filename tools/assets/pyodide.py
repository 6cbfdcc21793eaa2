"""Downloads Python for the book's practice pages, and checks every file before it is used.

    python tools/assets/pyodide.py [FOLDER]     what `make python-for-the-page` runs; its folder is python-for-the-page

book/python.json names the files, with their sizes and SHA-256: CPython compiled to WebAssembly (Pyodide), its standard
library, and the wheel of NumPy that Pyodide's own list names. `make book` puts the folder beside the pages if it
exists, so that readers' browsers get it from the book's own site. It is not part of the repository.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sys
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LIST = ROOT / "book" / "python.json"
FOLDER = ROOT / "python-for-the-page"
NAME = "files.json"  # what the list is called in the folder, where a page reads it


class WrongFileError(Exception):
    """A file that was downloaded is not the one in the list."""


def download(folder: Path = FOLDER, source: str | None = None) -> list[str]:
    """Downloads the files that are not in the folder yet, and returns their names.

    Args:
        folder: where they go.
        source: the address that their names are added to, if not the one in the list.

    Raises:
        WrongFileError: a file has another size or checksum than the list says. It is not kept.
        OSError: a file cannot be had or written.
    """
    listed = json.loads(LIST.read_text(encoding="utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    new = []
    for file in listed["files"]:
        path = folder / file["name"]
        if path.is_file() and _differs(path.read_bytes(), file) is None:
            continue
        with urllib.request.urlopen((source or listed["from"]) + file["name"]) as response:
            data = response.read()
        if (why := _differs(data, file)) is not None:
            raise WrongFileError(f"{file['name']} {why}; nothing of it was kept")
        path.write_bytes(data)
        new.append(file["name"])
    shutil.copy(LIST, folder / NAME)
    return new


def _differs(data: bytes, file: dict) -> str | None:
    """Returns in what way a file is not the one in the list; None if it is."""
    if len(data) != file["bytes"]:
        return f"has {len(data):,} bytes, but {file['bytes']:,} are expected"
    found = hashlib.sha256(data).hexdigest()
    return None if found == file["sha256"] else f"has the SHA-256 {found}, but {file['sha256']} is expected"


if __name__ == "__main__":
    where = Path(sys.argv[1]) if sys.argv[1:] else FOLDER
    try:
        added = download(where)
    except (WrongFileError, OSError) as error:
        sys.exit(f"Python for the page could not be downloaded: {error}")
    print(f"{where} has all files" + (f"; new: {', '.join(added)}" if added else ""))
