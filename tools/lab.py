"""Open the book in JupyterLab, on any system, using only the Python on this machine.

    python3 tools/lab.py            create .venv if there is none, and open the first page
    python3 tools/lab.py --no-browser     other arguments are passed to JupyterLab

Jupyter's settings for this project and an extension of JupyterLab, tools/jupyter/, are copied into .venv.
"""

from __future__ import annotations

import os
import subprocess
import sys

sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))  # the repository

from tools import environment


def main() -> int:
    environment.main()
    notebooks = sorted(map(str, (environment.ROOT / "notebooks").rglob("*.ipynb")))
    jupyter = [str(environment.PYTHON), "-m"]
    subprocess.run([*jupyter, "jupyter", "trust", *notebooks], stdout=subprocess.DEVNULL, check=False)
    options = ["--ServerApp.root_dir=.", os.path.join("notebooks", "index.ipynb"), *sys.argv[1:]]
    if getattr(os, "geteuid", lambda: 1)() == 0:  # in a container
        options.append("--allow-root")
    try:
        return subprocess.run([*jupyter, "jupyterlab", *options], cwd=environment.ROOT).returncode
    except KeyboardInterrupt:  # Ctrl-C ends JupyterLab, which has asked and said goodbye
        return 0


if __name__ == "__main__":
    sys.exit(main())
