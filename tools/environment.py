"""Create .venv as the requirements say, using only the Python on this machine.

    python3 tools/environment.py              what readers need, or find in an instant that it is already right
    python3 tools/environment.py --develop    also what builds, tests and checks the book

VENV in the environment chooses another folder. This file uses only the standard library, because nothing else is
installed yet.

uv installs the packages if it is available; otherwise, or if uv fails, pip does. On Linux without an NVIDIA GPU,
PyTorch comes from PyTorch's own index, without gigabytes of CUDA, if that index responds; otherwise it comes from PyPI.
If the reader's settings name an index for pip or uv, only that tool and that index are used.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import urllib.request
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = Path(os.environ.get("VENV", ROOT / ".venv")).resolve()
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = VENV / "glassformer-stamp"
REQUIREMENTS = ROOT / "requirements.txt"
JUPYTER = ROOT / "tools" / "jupyter"  # settings and an extension, in the folders of .venv where Jupyter looks
FOR_DEVELOPERS = ROOT / "requirements-dev.txt"  # begins with a line that includes the other file
CPU_BUILDS = "https://download.pytorch.org/whl/cpu"
INDEX_SETTINGS = {  # variables in a reader's environment that choose where packages come from
    "pip": "PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_NO_INDEX",
    "uv": "UV_INDEX UV_DEFAULT_INDEX UV_INDEX_URL UV_EXTRA_INDEX_URL UV_NO_INDEX UV_OFFLINE UV_TORCH_BACKEND",
}


def wanted(requirements: Path) -> str:
    """Returns a hash of what the environment is made from. It is made again when the hash changes."""
    parts = [path.read_bytes() for path in (REQUIREMENTS, requirements, ROOT / "pyproject.toml")]
    return hashlib.sha256(b"\0".join([*parts, str(ROOT).encode(), sys.version.encode()])).hexdigest()


def ready(requirements: Path) -> bool:
    """Returns whether .venv matches the requirements and still runs. That of developers has what readers need, too."""
    return (
        STAMP.exists()
        and STAMP.read_text() in {wanted(requirements), wanted(FOR_DEVELOPERS)}
        and PYTHON.exists()
        and subprocess.run([PYTHON, "-c", "import glassformer"], capture_output=True).returncode == 0
    )


def has_pip(python: Path = PYTHON) -> bool:
    """Returns whether a Python exists and has pip; by default, the one in .venv."""
    if not python.exists():
        return False
    return subprocess.run([python, "-m", "pip", "--version"], capture_output=True).returncode == 0


def names_an_index(tool: str) -> bool:
    """Returns whether the reader's settings tell `tool` where to find packages: the environment or pip's files."""
    if any(os.environ.get(name) for name in INDEX_SETTINGS[tool].split()):
        return True
    python = next(filter(has_pip, (PYTHON, Path(sys.executable))), None)
    if tool != "pip" or python is None:
        return False
    listed = subprocess.run([python, "-m", "pip", "config", "list"], capture_output=True, text=True).stdout
    return re.search(r"\.(extra-index-url|index-url|no-index)=", listed) is not None


def tools() -> list[str]:
    """Returns the tools that can make the environment, the best first. With settings made for pip alone, only pip."""
    if shutil.which("uv") is None or (names_an_index("pip") and not names_an_index("uv")):
        return ["pip"]
    return ["uv", "pip"]


def has_nvidia_gpu() -> bool:
    """Returns whether this Linux has NVIDIA's driver; WSL has that of Windows."""
    return any(map(os.path.exists, ("/proc/driver/nvidia/version", "/usr/lib/wsl/lib/nvidia-smi")))


def answers(address: str, seconds: float = 4) -> bool:
    """Returns whether an address responds soon. A thread asks, because finding a host may outlast any time limit."""
    heard = []

    def ask() -> None:
        try:
            urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=seconds).close()
            heard.append(address)
        except OSError:  # there is no network, no such host, or no such page
            pass

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(seconds)
    return bool(heard)


def wants_cpu_build(tool: str) -> bool:
    """Returns whether PyTorch should come from its index of CPU builds. PyPI's are CPU builds except for Linux."""
    return (
        sys.platform == "linux"
        and not has_nvidia_gpu()
        and not names_an_index(tool)
        and answers(f"{CPU_BUILDS}/torch/")
    )


def install(tool: str, requirements: Path) -> bool:
    """Installs the package and what the file pins into .venv. Returns whether that worked."""
    command = {
        "uv": ["uv", "pip", "install", "--quiet", "--python", str(PYTHON)],
        "pip": [str(PYTHON), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"],
    }[tool]
    if wants_cpu_build(tool):
        # 2.13.0+cpu is a 2.13.0 to what follows. Should this fail, what follows installs PyPI's.
        torch = re.findall(r"^torch==\S+", REQUIREMENTS.read_text(encoding="utf-8"), re.MULTILINE)
        subprocess.run([*command, "--no-deps", "--index-url", CPU_BUILDS, *torch])
    steps = [["-r", str(requirements)], ["--no-deps", "--no-build-isolation", "-e", str(ROOT)]]
    return all(subprocess.run([*command, *step]).returncode == 0 for step in steps)


def apt_install(*packages: str) -> None:
    """Installs packages of Debian and Ubuntu if we may. Failing is not an error."""
    if not shutil.which("apt-get"):
        return
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]  # -n: never ask for a password
    if sudo and not (
        shutil.which("sudo") and subprocess.run([*sudo, "true"], capture_output=True).returncode == 0
    ):
        return
    subprocess.run([*sudo, "apt-get", "update", "-qq"], check=False)
    subprocess.run([*sudo, "apt-get", "install", "-y", "-qq", *packages], check=False)


def lend_pip() -> None:
    """Gives .venv a pip without ensurepip: from this Python, or else from Debian's package, which anyone may fetch."""
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "pip"]
    if subprocess.run([sys.executable, "-m", "pip", "--version"], capture_output=True).returncode == 0:
        subprocess.run([sys.executable, "-m", "pip", "--python", str(PYTHON), *install[2:]], check=False)
    elif shutil.which("apt-get") and shutil.which("dpkg-deb"):
        with tempfile.TemporaryDirectory() as scratch:
            subprocess.run(["apt-get", "download", "-qq", "python3-pip-whl"], cwd=scratch, check=False)
            for package in Path(scratch).glob("*.deb"):
                subprocess.run(["dpkg-deb", "-x", str(package), scratch], check=False)
            for wheel in Path(scratch).rglob("pip-*.whl"):
                subprocess.run(
                    [str(PYTHON), *install], env={**os.environ, "PYTHONPATH": str(wheel)}, check=False
                )


def create(tool: str) -> bool:
    """Creates .venv if there is none that `tool` can install into. Returns whether there is one now."""
    if tool == "pip":
        if not has_pip():
            create_with_pip()
        return True
    if not PYTHON.exists():
        shutil.rmtree(VENV, ignore_errors=True)
        subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, str(VENV)])
    return PYTHON.exists()


def create_with_pip() -> None:
    """Creates .venv with pip in it: by venv itself, with Debian's package for it, or else with a borrowed pip."""
    package = f"python{sys.version_info.major}.{sys.version_info.minor}-venv"
    for prepare in (lambda: None, lambda: apt_install(package)):
        prepare()
        try:
            venv.create(VENV, with_pip=True, clear=True)
        except (subprocess.CalledProcessError, OSError):
            continue
        if has_pip():
            return
    venv.create(VENV, with_pip=False, clear=True)
    lend_pip()
    if not has_pip():
        shutil.rmtree(VENV, ignore_errors=True)
        sys.exit(
            f"This Python cannot create an environment with pip. Run\n\n    sudo apt install {package}\n\nand retry."
        )


def is_ours(folder: Path) -> bool:
    """Returns whether a folder may be replaced: it is missing, empty, or an environment of Python's."""
    return (
        not folder.exists()
        or (folder.is_dir() and not any(folder.iterdir()))
        or (folder / "pyvenv.cfg").exists()
    )


def make(requirements: Path) -> None:
    """Makes .venv with the first tool that can."""
    if not is_ours(VENV):
        sys.exit(
            f"VENV={VENV} holds files that are not a Python environment's. Name a new folder or an empty one."
        )
    for tool in tools():
        print(f"Creating {VENV} with {tool}; the first time takes a few minutes …", flush=True)
        if create(tool) and install(tool, requirements):
            STAMP.write_text(wanted(requirements))
            return
    sys.exit("The environment could not be created. The messages above say why.")


def main() -> None:
    if sys.version_info < (3, 11):  # noqa: UP036  (a machine's python3 may well be older than ours)
        newer = next(filter(None, (shutil.which(f"python3.{minor}") for minor in (13, 12, 11, 14))), None)
        if newer is None:
            sys.exit(f"Glassformer needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}.")
        os.execv(newer, [newer, *sys.argv])
    requirements = FOR_DEVELOPERS if "--develop" in sys.argv[1:] else REQUIREMENTS
    if not ready(requirements):
        make(requirements)
    shutil.copytree(JUPYTER, VENV, dirs_exist_ok=True)


if __name__ == "__main__":
    main()
