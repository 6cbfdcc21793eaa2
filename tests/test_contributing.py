"""Tests that the contributors' pages name existing files and commands, and the changelog the package's version."""

import re
import subprocess
import tomllib
from pathlib import Path

import pytest
import yaml

import glassformer

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "CONTRIBUTING.md", *sorted((ROOT / "contributing").glob("*.md"))]
PLACEHOLDERS = {"NN": "[0-9][0-9]", "NAME": "*", "…": "*"}
FILE = re.compile(r"[\w.*/…-]*(?:/|\.(?:py|js|css|toml|md|json|txt|yml|bib))[\w.*/…-]*")
IS_A_PAGE = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)


def files_named_in(text):
    """Returns the paths between backticks, except links that chapters write and files outside the repository."""
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    words = {word for span in spans for word in re.split(r"[\s,]+", span)}
    return {
        w for w in words if FILE.fullmatch(w) and "/" not in (w[0], w) and not w.startswith((".venv", "../"))
    }


def exists(name):
    for placeholder, pattern in PLACEHOLDERS.items():
        name = name.replace(placeholder, pattern)
    if "/" not in name:  # a file's name, wherever it is
        return any(
            Path(path).match(name.removeprefix(".") if name.count(".") == 1 else name) for path in TRACKED
        )
    return any(next(place.glob(name.rstrip("/")), None) for place in (ROOT, ROOT / "src" / "glassformer"))


TRACKED = subprocess.run(
    ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
    cwd=ROOT,
    capture_output=True,
    text=True,
).stdout.splitlines()


@IS_A_PAGE
def test_every_file_that_a_page_names_exists(page):
    named = files_named_in(page.read_text(encoding="utf-8")) - {".py", ".js", ".css"}
    assert named
    assert sorted(name for name in named if not exists(name)) == []


@IS_A_PAGE
def test_every_make_target_and_link_exists(page):
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"^(\w[\w-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert set(re.findall(r"(?:`|^|/new )make (\w[\w-]*)", text, re.MULTILINE)) <= set(targets)
    links = re.findall(r"\]\(([\w./-]+)\)", text)
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_contributing_is_one_page_from_which_every_recipe_is_found():
    text = PAGES[0].read_text(encoding="utf-8")
    assert len(text.split()) <= 1000
    assert [page.name for page in PAGES[1:] if f"(contributing/{page.name})" not in text] == []


def test_the_newest_version_of_the_changelog_is_that_of_the_package():
    newest = re.search(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)[1]
    assert (
        newest == tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    )


def test_the_package_knows_its_version_and_nothing_else_by_that_way():
    assert re.fullmatch(r"\d+\.\d+\.\d+", glassformer.__version__)
    with pytest.raises(AttributeError, match="no attribute 'version'"):
        _ = glassformer.version


@pytest.mark.parametrize(
    ("message", "is_fine"),
    [
        ("exercises: hints name the axis\n\nBecause readers asked.\n", True),
        ("tools/extensions: folds open by keyboard", True),
        ("Merge branch 'docs'", True),
        ("t: " + "x" * 69, True),
        ("t: " + "x" * 70, False),
        ("Hints name the axis\n\nexercises: not in the subject", False),
        ("exercises:no space", False),
        ("\nexercises: not in the first line", False),
    ],
)
def test_the_subject_of_a_commit_begins_with_a_room(message, is_fine):
    """Looks for the hook's pattern as pre-commit's pygrep does, which refuses a message that has it."""
    [hooks] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    [hook] = [hook for hook in hooks["hooks"] if hook["id"] == "subject"]
    assert hook["args"] == ["--multiline"]
    assert (re.search(hook["entry"], message, re.MULTILINE) is None) == is_fine
