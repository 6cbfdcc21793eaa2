"""Tests what a release is made of, and that the files for GitHub can be read."""

import re
import subprocess
import tomllib
import zipfile

import pytest
import yaml

from tools import release

FILES = [*sorted((release.ROOT / ".github").rglob("*.yml")), release.ROOT / "CITATION.cff"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_files_for_github_are_yaml(path):
    assert isinstance(yaml.safe_load(path.read_text(encoding="utf-8")), dict)


def test_the_citation_has_the_version_of_the_package():
    project = tomllib.loads((release.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    cited = yaml.safe_load((release.ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert cited["version"] == project["version"]


def test_the_notes_are_the_section_of_the_changelog(tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "0.3.0"\n', encoding="utf-8")
    (tmp_path / "CITATION.cff").write_text("version: 0.3.0\n", encoding="utf-8")
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text(
        "# C\n\n## [0.3.0] - 2026-12-01\n\n### Added\n\n- All.\n\n## [0.2.0] - x\n", encoding="utf-8"
    )
    monkeypatch.setattr(release, "ROOT", tmp_path)
    assert release.notes("v0.3.0") == "### Added\n\n- All.\n"
    with pytest.raises(ValueError, match=re.escape("tag='v0.2.0' must be 'v0.3.0'")):
        release.notes("v0.2.0")
    changelog.write_text("## [0.3.0] - Unreleased\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"CHANGELOG\.md has no date for version 0\.3\.0"):
        release.notes("v0.3.0")
    (tmp_path / "CITATION.cff").write_text("version: 0.2.0\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"CITATION\.cff has version 0\.2\.0"):
        release.notes("v0.3.0")


def test_a_release_is_made_of_the_last_commit_and_of_a_built_site(tmp_path, monkeypatch):
    root, folder = tmp_path / "root", tmp_path / "dist"
    for name, text in (
        (
            "pyproject.toml",
            '[project]\nname = "example"\nversion = "0.3.0"\n[tool.setuptools]\npy-modules = ["example"]\n',
        ),
        ("CITATION.cff", "version: 0.3.0\n"),
        ("CHANGELOG.md", "## [0.3.0] - 2026-12-01\n\n- All.\n"),
        ("example.py", "said = 1\n"),
    ):
        root.mkdir(exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    for command in (["init", "--quiet"], ["add", "."], [*who, "commit", "--quiet", "--message", "a: b"]):
        subprocess.run(["git", *command], cwd=root, check=True)
    monkeypatch.setattr(release, "ROOT", root)
    with pytest.raises(ValueError, match="is missing: run `make book` first"):
        release.make("v0.3.0", folder)
    assert not folder.exists()
    (root / "_build" / "html").mkdir(parents=True)
    (root / "_build" / "html" / "index.html").write_text("the site", encoding="utf-8")
    stale = root / "build" / "lib"  # what an earlier build left behind
    stale.mkdir(parents=True)
    (stale / "stale.py").touch()
    release.make("v0.3.0", folder)
    names = {
        path.suffix: zipfile.ZipFile(path).namelist() for path in folder.iterdir() if path.suffix != ".md"
    }
    assert "example.py" in names[".whl"]
    assert not [name for name in names[".whl"] if "stale" in name]
    assert [name for name in names[".zip"] if not name.endswith("/")] == [
        "glassformer-v0.3.0-site/index.html"
    ]


def test_a_job_that_may_write_runs_nothing_that_was_installed_and_no_checkout_keeps_its_token():
    writers = []
    for path in (release.ROOT / ".github" / "workflows").glob("*.yml"):
        workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
        assert set(workflow["permissions"].values()) == {"read"}
        for name, job in workflow["jobs"].items():
            checkouts = [one for one in job["steps"] if one.get("uses", "").startswith("actions/checkout@")]
            assert all(one["with"]["persist-credentials"] is False for one in checkouts), (path.name, name)
            if "write" in job.get("permissions", {}).values():
                writers.append(name)
                assert checkouts == []  # so there is nothing of ours to run, either
    assert sorted(writers) == ["publish", "release"]
