"""Tests what a release is made of, and that the files for GitHub can be read."""

import re
import tomllib

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
