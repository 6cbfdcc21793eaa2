"""Tests of the download of Python for the practice pages, from a folder that stands in for its host."""

import gzip
import hashlib
import json

import pytest

from tools.assets import pyodide
from tools.assets.pyodide import WrongFileError, download
from tools.extensions import browser_package

FILES = {"pyodide.mjs": b"export const x = 1;\n", "numpy.whl": b"PK\x03\x04 not really"}


@pytest.fixture
def host(tmp_path, monkeypatch):
    """Returns a folder with the files, and makes the list name them."""
    folder = tmp_path / "host"
    folder.mkdir()
    for name, data in FILES.items():
        (folder / name).write_bytes(data)
    listed = {
        "from": folder.as_uri() + "/",
        "files": [
            {"name": name, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            for name, data in FILES.items()
        ],
    }
    path = tmp_path / "python.json"
    path.write_text(json.dumps(listed))
    monkeypatch.setattr(pyodide, "LIST", path)
    return folder


def test_files_are_downloaded_once_and_the_list_goes_with_them(host, tmp_path):
    folder = tmp_path / "here"
    assert download(folder) == list(FILES)
    assert {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "files.json"} == FILES
    assert json.loads((folder / "files.json").read_text()) == json.loads(pyodide.LIST.read_text())
    assert download(folder) == []


def test_a_file_that_was_damaged_here_is_downloaded_again(host, tmp_path):
    folder = tmp_path / "here"
    download(folder)
    (folder / "numpy.whl").write_bytes(b"PK")
    assert download(folder) == ["numpy.whl"]
    assert (folder / "numpy.whl").read_bytes() == FILES["numpy.whl"]


@pytest.mark.parametrize("data", [FILES["numpy.whl"] + b"!", FILES["numpy.whl"].swapcase()])
def test_a_wrong_file_is_not_kept(host, tmp_path, data):
    (host / "numpy.whl").write_bytes(data)
    folder = tmp_path / "here"
    with pytest.raises(WrongFileError, match=r"^numpy.whl has .* expected; nothing of it was kept$"):
        download(folder)
    assert not (folder / "numpy.whl").exists()
    assert not (folder / "files.json").exists()  # so a page knows that it is not whole


def test_a_host_without_a_file_is_an_error(host, tmp_path):
    (host / "numpy.whl").unlink()
    with pytest.raises(OSError, match=r"numpy\.whl"):
        download(tmp_path / "here")


def test_the_list_names_what_pyodide_needs_and_numpy_of_our_version():
    listed = json.loads(pyodide.LIST.read_text(encoding="utf-8"))
    pins = dict(
        line.split("==")
        for line in (pyodide.ROOT / "requirements.txt").read_text(encoding="utf-8").split()
        if "==" in line
    )
    assert listed["numpy"].startswith(f"numpy-{pins['numpy']}-cp314-")
    names = [file["name"] for file in listed["files"]]
    assert {
        "pyodide.mjs",
        "pyodide.asm.mjs",
        "pyodide.asm.wasm",
        "python_stdlib.zip",
        listed["numpy"],
    } <= set(names)
    assert all(len(file["sha256"]) == 64 and file["bytes"] > 0 for file in listed["files"])
    assert f"/v{listed['version']}/" in listed["from"]


def test_a_site_gets_the_files_of_the_list_and_the_largest_compressed(tmp_path):
    files = {
        "pyodide.mjs": b"export {};\n" * 100,
        "pyodide.asm.wasm": b"\0asm" * 1000,
        "numpy.whl": b"PK" * 100,
    }
    source, site = tmp_path / "source", tmp_path / "site"
    source.mkdir()
    for name, data in {**files, "notes.txt": b"not in the list"}.items():
        (source / name).write_bytes(data)
    listed = {
        "version": "1",
        "numpy": "numpy.whl",
        "files": [{"name": name, "bytes": len(data)} for name, data in files.items()],
    }
    (source / pyodide.NAME).write_text(json.dumps(listed))
    site.mkdir()
    (site / "pyodide.asm.js").write_text("of an older Python")
    browser_package.place_python(source, site)
    placed = json.loads((site / pyodide.NAME).read_text())
    packed = (site / "pyodide.asm.wasm.gz").read_bytes()
    assert gzip.decompress(packed) == files["pyodide.asm.wasm"]
    assert len(packed) < len(files["pyodide.asm.wasm"]) / 10
    assert placed["files"][1].pop("packed") == {"name": "pyodide.asm.wasm.gz", "bytes": len(packed)}
    assert placed == listed
    assert sorted(path.name for path in site.iterdir()) == [
        "files.json",
        "numpy.whl",
        "pyodide.asm.wasm.gz",
        "pyodide.mjs",
    ]
    assert (site / "pyodide.mjs").read_bytes() == files["pyodide.mjs"]
    browser_package.place_python(source, tmp_path / "again")
    assert (tmp_path / "again" / "pyodide.asm.wasm.gz").read_bytes() == packed
