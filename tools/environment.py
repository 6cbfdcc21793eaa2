"""Make .venv as requirements.txt says, with nothing but the Python that the machine has.

    python3 tools/environment.py     make it, or find in an instant that it is already right

VENV in the environment puts it elsewhere. Only the standard library is used: there is nothing else yet.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENV = Path(os.environ.get("VENV", ROOT / ".venv")).resolve()
PYTHON = VENV / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
STAMP = VENV / "glassformer-stamp"


def wanted() -> str:
    """What the environment is made from. It is made again when any of this changes."""
    parts = [(ROOT / name).read_bytes() for name in ("requirements.txt", "pyproject.toml")]
    return hashlib.sha256(b"\0".join([*parts, str(ROOT).encode(), sys.version.encode()])).hexdigest()


def ready() -> bool:
    """Whether .venv is what requirements.txt says, and still runs."""
    return (
        STAMP.exists()
        and STAMP.read_text() == wanted()
        and PYTHON.exists()
        and subprocess.run([PYTHON, "-c", "import glassformer"], capture_output=True).returncode == 0
    )


def has_pip() -> bool:
    """Whether .venv has a Python that has pip."""
    if not PYTHON.exists():
        return False
    return subprocess.run([PYTHON, "-m", "pip", "--version"], capture_output=True).returncode == 0


def apt_install(*packages: str) -> None:
    """Install what Debian and Ubuntu keep in packages of their own, where we may. Failing is no error."""
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
    """Give .venv a pip without ensurepip: by this Python's own, else by Debian's, which anyone may fetch."""
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


def create() -> None:
    """Make .venv with pip in it: by venv itself; with Debian's package for it; else with a borrowed pip."""
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
            f"This Python can make no environment with pip. Type\n\n    sudo apt install {package}\n\nand retry."
        )


def main() -> None:
    if sys.version_info < (3, 11):  # noqa: UP036  (a machine's python3 may well be older than ours)
        newer = next(filter(None, (shutil.which(f"python3.{minor}") for minor in (13, 12, 11, 14))), None)
        if newer is None:
            sys.exit(f"Glassformer needs Python 3.11 or newer; {sys.executable} is {sys.version.split()[0]}.")
        os.execv(newer, [newer, *sys.argv])
    if ready():
        return
    if not has_pip():
        print(f"Making {VENV} …", flush=True)
        create()
    pip = [str(PYTHON), "-m", "pip", "install", "--disable-pip-version-check"]
    print("Installing what requirements.txt pins; the first time takes some minutes …", flush=True)
    try:
        subprocess.run([*pip, "--quiet", "-r", str(ROOT / "requirements.txt")], check=True)
        subprocess.run([*pip, "--quiet", "--no-deps", "--no-build-isolation", "-e", str(ROOT)], check=True)
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode)
    STAMP.write_text(wanted())


if __name__ == "__main__":
    main()
