"""Build the site from the stored notebooks, and say where to open it.

    python tools/book.py [OUTPUT]     build into OUTPUT (default: _build); every warning is an error

The publishing workflow sets GLASSFORMER_REPOSITORY to the address of the project's repository. Pages then link to it
and have a button that opens them in Binder. Without that address, such buttons would lead nowhere, so the foot of each
page says where the notebooks are instead. Colab needs other copies of the notebooks (tools/colab.py), so the theme has
no button for it, and the text links to them.
"""

from __future__ import annotations

import os
import platform
import re
import subprocess
import sys
import tempfile
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT))  # for `python tools/book.py`, which has only its own folder on its path

from tools.extensions import publishing  # noqa: E402
from tools.shared import chapter_facts  # noqa: E402

NO_REPOSITORY = (
    " This site was built in a copy of the project, which has the notebooks and all that they need: "
    "<code>make lab</code> in its folder opens them in JupyterLab."
)


def verified(repository: str | None) -> str:
    """Returns a sentence for the foot of each page: with which versions the notebooks ran, and when.

    The publishing workflow builds the site right after it has run every cell again and compared what it prints. In a
    copy of the project nobody knows when that was last done.
    """
    versions = f"Python {platform.python_version()}"
    for name, package in (("NumPy", "numpy"), ("PyTorch", "torch")):
        versions += f", {name} {metadata.version(package).partition('+')[0]}"
    if not repository:
        return f"The site was built with {versions}."
    today = datetime.now(UTC)
    return f"Every cell was last run and compared on {today.day} {today:%B %Y}, with {versions}."


def address(repository: str) -> str | None:
    """Returns the address at which GitHub publishes the site of a repository, or None for another host's repository."""
    found = re.fullmatch(r"https://github\.com/([\w.-]+)/([\w.-]+?)(?:\.git)?/?", repository)
    if not found:
        return None
    owner, name = found[1].lower(), found[2]
    return f"https://{owner}.github.io/" + ("" if name.lower() == f"{owner}.github.io" else f"{name}/")


def configuration(repository: str | None) -> dict:
    """Returns the settings in _config.yml, with those that depend on where the project is published."""
    settings = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))
    theme = settings["sphinx"]["config"]["html_theme_options"]
    if repository:
        settings["sphinx"]["config"]["html_baseurl"] = address(repository) or ""
        theme |= {
            "repository_url": repository.removesuffix("/").removesuffix(".git"),
            "repository_branch": "main",
            "use_repository_button": True,
            "launch_buttons": {
                "binderhub_url": "https://mybinder.org",
                "notebook_interface": "jupyterlab",
            },
        }
    else:
        theme["extra_footer"] += NO_REPOSITORY
    theme["extra_footer"] += " " + verified(repository)
    return settings


def build(output: Path = ROOT, *, quiet: bool = False) -> Path:
    """Builds all pages under ``output``/_build, and returns the folder with the site.

    Raises:
        subprocess.CalledProcessError: Sphinx warned about something, for example a missing reference.
    """
    with tempfile.TemporaryDirectory() as scratch:
        config = Path(scratch) / "_config.yml"
        settings = configuration(os.environ.get("GLASSFORMER_REPOSITORY"))
        config.write_text(yaml.safe_dump(settings), encoding="utf-8")
        toc = Path(scratch) / "_toc.yml"
        toc.write_text(yaml.safe_dump(chapter_facts.table_of_contents(ROOT)), encoding="utf-8")
        # Without a module that jsonschema does not need, and that compiles a grammar when it is imported, for seconds
        program = "import sys; sys.modules['rfc3987_syntax'] = None; "
        jupyter_book = [sys.executable, "-c", program + "from jupyter_book.cli.main import main; main()"]
        options = ["--path-output", str(output), "--config", str(config), "--toc", str(toc)]
        options += ["--all", "-W", "-n", "--keep-going"]
        subprocess.run(
            [*jupyter_book, "build", str(ROOT), *options, *["-q"] * quiet],
            check=True,
            cwd=ROOT,
            stdout=subprocess.PIPE if quiet else None,
            stderr=subprocess.STDOUT if quiet else None,
            text=True,
        )
    site = output / "_build" / "html"
    publishing.doors(site)
    return site


if __name__ == "__main__":
    folder = Path(sys.argv[1]).resolve() if sys.argv[1:] else ROOT
    try:
        print(f"\nThe site is built. Open {build(folder) / 'index.html'}")
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
