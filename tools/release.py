"""Put together what a release contains: the wheel, the built site as an archive, and the notes of the changelog.

    python tools/release.py v0.2.0 FOLDER     after `make book`

The archive opens from disk: unpack it and open index.html.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def notes(tag: str) -> str:
    """Returns the changelog's section about the tagged version.

    Raises:
        ValueError: the tag is not v and the package's version, CITATION.cff has another one, or the changelog has no
            date for it.
    """
    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    if tag != f"v{version}":
        raise ValueError(f"tag={tag!r} must be 'v{version}', because pyproject.toml has version {version}")
    cited = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(encoding="utf-8"), re.MULTILINE)
    if cited is None or cited[1] != version:
        raise ValueError(f"CITATION.cff has version {cited and cited[1]}, but pyproject.toml has {version}")
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    found = re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## \[|\Z)",
        changelog,
        re.MULTILINE | re.DOTALL,
    )
    if found is None:
        raise ValueError(f"CHANGELOG.md has no date for version {version}")
    return found[1].strip() + "\n"


def make(tag: str, folder: Path) -> None:
    """Writes the notes, the wheel and the archive of the site into the folder.

    The wheel is made from the last commit, so it has nothing that an earlier build has left behind.

    Raises:
        ValueError: the notes cannot be found, or the site has not been built.
    """
    said = notes(tag)
    site = ROOT / "_build" / "html"
    if not (site / "index.html").exists():
        raise ValueError(f"{site} is missing: run `make book` first")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "notes.md").write_text(said, encoding="utf-8")
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    name = f"glassformer-{tag}-site"
    with tempfile.TemporaryDirectory() as scratch:
        source, shown = Path(scratch) / "source", Path(scratch) / name
        archive = ["git", "archive", "--format=zip", f"--output={scratch}/source.zip", "HEAD"]
        subprocess.run(archive, cwd=ROOT, check=True)
        shutil.unpack_archive(f"{scratch}/source.zip", source)
        subprocess.run([*pip, "--wheel-dir", str(folder), str(source)], check=True)
        shutil.copytree(site, shown)
        shutil.make_archive(str(folder / name), "zip", scratch, base_dir=name)


if __name__ == "__main__":
    make(sys.argv[1], Path(sys.argv[2]))
