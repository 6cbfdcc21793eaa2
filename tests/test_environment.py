"""Tests which commands create the environment under which circumstances. Nothing is installed."""

import http.server
import json
import re
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from tools import environment
from tools.shared.browser import PATIENCE

REQUIREMENTS = environment.REQUIREMENTS.read_text(encoding="utf-8")
PLACE = Path(".venv") / "bin" / "python"  # with the separators of this system


class Machine:
    """A simulated machine: a Linux without uv, NVIDIA GPU and settings, whose network reaches PyTorch's index."""

    def __init__(self, venv, monkeypatch):
        self.venv, self.monkeypatch = venv, monkeypatch
        self.commands = []
        self.failing = ()  # parts of commands that fail
        self.pip_config = ""
        for name in " ".join(environment.INDEX_SETTINGS.values()).split():
            monkeypatch.delenv(name, raising=False)
        self.has(
            VENV=venv,
            PYTHON=venv / "bin" / "python",
            STAMP=venv / "stamp",
            has_pip=lambda *_: True,
        )
        self.has(has_nvidia_gpu=lambda: False, answers=lambda address: True)
        monkeypatch.setattr(environment.subprocess, "run", self.run)
        monkeypatch.setattr(environment.shutil, "which", lambda name: None)
        monkeypatch.setattr(sys, "platform", "linux")
        monkeypatch.setattr(sys, "argv", ["tools/environment.py"])
        venv.mkdir()

    def has(self, **what):
        for name, value in what.items():
            self.monkeypatch.setattr(environment, name, value)

    def has_uv(self):
        self.monkeypatch.setattr(environment.shutil, "which", lambda name: f"/usr/bin/{name}")

    def run(self, command, **_):
        """Replaces subprocess.run."""
        command = " ".join(map(str, command)).replace(str(self.venv), ".venv")
        if command.endswith("pip config list"):
            return SimpleNamespace(returncode=0, stdout=self.pip_config)
        self.commands.append(command)
        if command.startswith("uv venv"):
            (self.venv / "bin").mkdir(parents=True)
            (self.venv / "bin" / "python").touch()
        return SimpleNamespace(returncode=int(any(part in command for part in self.failing)))

    def steps(self):
        """Returns the commands that were run: the tool and what it makes."""
        environment.main()
        kinds = {
            "uv venv": "environment",
            environment.CPU_BUILDS: "CPU build",
            "-r ": "pins",
            "-e": "package",
        }
        return [
            ("uv " if command.startswith("uv ") else "pip ")
            + next(kind for part, kind in kinds.items() if part in command)
            for command in self.commands
        ]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    return Machine(tmp_path / ".venv", monkeypatch)


def test_on_linux_pytorch_is_the_cpu_build_and_all_else_comes_from_pypi(machine):
    assert machine.steps() == ["pip CPU build", "pip pins", "pip package"]
    torch = next(line for line in REQUIREMENTS.splitlines() if line.startswith("torch=="))
    cpu_build, pins, package = machine.commands
    assert cpu_build.endswith(f" --no-deps --index-url {environment.CPU_BUILDS} {torch}")
    assert "index" not in pins + package
    assert f" --no-deps --no-build-isolation -e {environment.ROOT}" in package
    assert (machine.venv / "stamp").read_text() == environment.wanted(environment.REQUIREMENTS)
    settings = {
        path.relative_to(machine.venv).as_posix(): json.loads(path.read_text(encoding="utf-8"))
        for path in machine.venv.rglob("*.json")
        if path.name != "package.json"
    }
    assert settings == {
        "etc/ipython/ipython_kernel_config.json": {
            "InteractiveShellApp": {"extra_extensions": ["glassformer.jupyter"]}
        },
        "etc/jupyter/jupyter_server_config.json": {
            "FileContentsManager": {"pre_save_hook": "glassformer.jupyter.keep_states"}
        },
        "share/jupyter/lab/settings/overrides.json": {
            "@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": False}
        },
    }


def test_settings_that_an_update_brings_need_no_new_environment(machine):
    machine.has(ready=lambda requirements: True)
    assert machine.steps() == []
    assert (machine.venv / "etc" / "ipython" / "ipython_kernel_config.json").exists()


@pytest.mark.parametrize(
    "circumstance",
    [{"has_nvidia_gpu": lambda: True}, {"answers": lambda address: False}],
    ids=["an NVIDIA GPU", "an index that does not answer"],
)
def test_the_cpu_build_is_for_those_whom_it_helps(machine, circumstance):
    machine.has(**circumstance)
    assert machine.steps() == ["pip pins", "pip package"]


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_elsewhere_pypi_has_the_cpu_build(machine, monkeypatch, platform):
    monkeypatch.setattr(sys, "platform", platform)
    assert machine.steps() == ["pip pins", "pip package"]


def test_a_cpu_build_that_cannot_be_had_is_no_obstacle(machine):
    machine.failing = (environment.CPU_BUILDS,)
    assert machine.steps() == ["pip CPU build", "pip pins", "pip package"]


def test_developers_get_what_readers_get_and_more(machine, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["tools/environment.py", "--develop"])
    assert machine.steps() == ["pip CPU build", "pip pins", "pip package"]
    assert machine.commands[1].endswith(f"-r {environment.FOR_DEVELOPERS}")
    (machine.venv / "bin").mkdir()
    (machine.venv / "bin" / "python").touch()
    for argv in (["--develop"], []):  # it serves readers, too
        monkeypatch.setattr(sys, "argv", ["tools/environment.py", *argv])
        machine.commands.clear()
        environment.main()
        assert [command for command in machine.commands if "install" in command] == []


def test_readers_are_not_given_the_tools_of_developers(machine):
    assert machine.steps()
    assert machine.commands[1].endswith(f"-r {environment.REQUIREMENTS}")
    pins = [
        path.read_text(encoding="utf-8") for path in (environment.REQUIREMENTS, environment.FOR_DEVELOPERS)
    ]
    names = [set(re.findall(r"^([\w.-]+)==", text, re.MULTILINE)) for text in pins]
    assert not names[0] & names[1]
    assert {"pyrefly", "playwright", "ruff", "pytest", "jupyter-book", "transformers"} <= names[1]
    assert "-r requirements.txt" in pins[1].splitlines()


def test_a_folder_with_something_else_in_it_is_never_replaced(machine):
    work = machine.venv / "thesis.txt"
    work.write_text("three years", encoding="utf-8")
    with pytest.raises(
        SystemExit, match=r"holds files that are not a Python environment's\. Name a new folder"
    ):
        environment.main()
    assert work.read_text(encoding="utf-8") == "three years"
    assert machine.commands == []
    (machine.venv / "pyvenv.cfg").touch()
    assert machine.steps()


def test_uv_is_used_where_it_is(machine):
    machine.has_uv()
    assert machine.steps() == ["uv environment", "uv CPU build", "uv pins", "uv package"]
    assert all(f"--python {PLACE}" in command for command in machine.commands[1:])
    assert machine.commands[0] == f"uv venv --quiet --python {sys.executable} .venv"


def test_where_uv_fails_pip_goes_on(machine):
    machine.has_uv()
    machine.failing = (f"uv pip install --quiet --python {PLACE} -r",)
    assert machine.steps()[2:] == ["uv pins", "pip CPU build", "pip pins", "pip package"]


def test_where_all_fail_there_is_no_stamp(machine):
    machine.failing = ("-r ",)
    with pytest.raises(SystemExit, match="could not be created"):
        environment.main()
    assert not (machine.venv / "stamp").exists()


@pytest.mark.parametrize("name", environment.INDEX_SETTINGS["pip"].split())
def test_a_readers_index_for_pip_is_used_with_pip(machine, monkeypatch, name):
    machine.has_uv()
    monkeypatch.setenv(name, "https://mirror.example/simple")
    assert machine.steps() == ["pip pins", "pip package"]


@pytest.mark.parametrize("key", ["index-url", "extra-index-url", "no-index"])
def test_so_is_one_in_pips_own_files(machine, key):
    machine.has_uv()
    machine.pip_config = f"global.timeout='60'\nglobal.{key}='https://mirror.example/simple'\n"
    assert machine.steps() == ["pip pins", "pip package"]


def test_other_settings_of_pip_name_no_index(machine):
    machine.pip_config = "global.cert='index-url'\nglobal.find-links='/wheels'\n"
    assert machine.steps() == ["pip CPU build", "pip pins", "pip package"]


@pytest.mark.parametrize("name", environment.INDEX_SETTINGS["uv"].split())
def test_a_readers_index_for_uv_is_used_with_uv(machine, monkeypatch, name):
    machine.has_uv()
    monkeypatch.setenv(name, "https://mirror.example/simple")
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.example/simple")
    assert machine.steps() == ["uv environment", "uv pins", "uv package"]


@pytest.mark.parametrize(("status", "heard"), [(200, True), (404, False)])
def test_an_address_answers_or_does_not(status, heard):
    class Page(http.server.BaseHTTPRequestHandler):
        def do_HEAD(self):
            self.send_response(status)
            self.end_headers()

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.handle_request, daemon=True).start()
        assert environment.answers(f"http://127.0.0.1:{server.server_port}/torch/") is heard
    assert not environment.answers(f"http://127.0.0.1:{server.server_port}/torch/")


def test_an_address_that_stays_silent_is_not_waited_for(monkeypatch):
    asked, given_up = threading.Event(), threading.Event()

    def silence(*_, **__):
        asked.set()
        given_up.wait()
        raise OSError

    monkeypatch.setattr(environment.urllib.request, "urlopen", silence)
    assert not environment.answers("https://silent.example", seconds=0.01)
    given_up.set()
    assert asked.wait(timeout=PATIENCE)
