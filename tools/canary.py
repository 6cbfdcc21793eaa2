"""Build the site with whatever Sphinx, MyST-NB and theme are installed, and without the jupyter-book package.

    python tools/canary.py OUTPUT     build into OUTPUT/html; the last line counts the warnings

Jupyter Book 1 translates _config.yml into settings of Sphinx 7 and adds a few of its own. This program does the same
without it, so the site can leave that package when it ends. A workflow runs it every week with the newest versions. It
does not decide whether the pages are right: look at them, or run tests/site on them.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))  # for `python tools/canary.py`, which has only its own folder on its path

from tools import book  # noqa: E402
from tools.shared import chapter_facts  # noqa: E402

LEFT_OUT = ("jupyter_book", "sphinx_comments")  # the package itself, and what only it configures


def settings() -> dict:
    """Returns the settings of Sphinx that follow from _config.yml."""
    given = book.configuration(None)
    chosen = dict(given["sphinx"]["config"])
    chosen["extensions"] = [name for name in chosen["extensions"] if name not in LEFT_OUT]
    chosen |= {
        "project": given["title"],
        "author": given["author"],
        "copyright": given["copyright"],
        "html_title": given["title"],
        "html_theme": "sphinx_book_theme",
        "html_favicon": str(ROOT / chosen["html_favicon"]),
        "html_sourcelink_suffix": "",
        "exclude_patterns": ["_build", *given["exclude_patterns"]],
        "external_toc_exclude_missing": given["only_build_toc_files"],
        "nb_execution_mode": given["execute"]["execute_notebooks"],
        "myst_enable_extensions": given["parse"]["myst_enable_extensions"],
        "myst_url_schemes": ["mailto", "http", "https"],
        "numfig": False,
        "pygments_style": "sphinx",
    }
    for name in ("html_static_path", "templates_path"):
        chosen[name] = [str(ROOT / path) for path in chosen[name]]
    theme = chosen["html_theme_options"]
    theme["logo"] |= {name: str(ROOT / theme["logo"][name]) for name in ("image_light", "image_dark")}
    return chosen


def build(output: Path) -> int:
    """Builds all pages into ``output``/html and returns the number of warnings; -1 if the build did not end.

    The warnings are in ``output``/warnings.txt.
    """
    output.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        toc = Path(scratch) / "_toc.yml"
        toc.write_text(yaml.safe_dump(chapter_facts.table_of_contents(ROOT)), encoding="utf-8")
        conf = settings() | {"external_toc_path": str(toc)}
        lines = [f"{name} = {value!r}\n" for name, value in json.loads(json.dumps(conf)).items()]
        (Path(scratch) / "conf.py").write_text("".join(lines), encoding="utf-8")
        sphinx = [sys.executable, "-m", "sphinx", "-b", "html", "-n", "--keep-going", "-c", scratch]
        warnings = output / "warnings.txt"
        ended = subprocess.run([*sphinx, "-w", str(warnings), str(ROOT), str(output / "html")], cwd=ROOT)
    said = [
        line
        for line in warnings.read_text(encoding="utf-8").splitlines()
        if "WARNING" in line or "ERROR" in line
    ]
    print(f"Sphinx ended with status {ended.returncode} and {len(said)} warnings.")
    return -1 if ended.returncode else len(said)


if __name__ == "__main__":
    sys.exit(int(build(Path(sys.argv[1]).resolve()) != 0))
