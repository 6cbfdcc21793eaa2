"""Tests book/words.md, which shows entries of the glossary with pictures, and book/did-not-help.md with its numbers."""

import re

import pytest

from tools.book_pages import did_not_help, words
from tools.notebooks import ROOT

BOOK, NOTEBOOKS = ROOT / "book", ROOT / "notebooks"
PAGE = (BOOK / "words.md").read_text(encoding="utf-8")
GLOSSARY = words.entries((BOOK / "glossary.md").read_text(encoding="utf-8"))
WORDS = re.findall(r"^### (.+)\n\n((?:.+\n)+)", PAGE, re.MULTILINE)


def flat(markdown):
    """Returns the words of a text without the addresses of its links."""
    return " ".join(re.sub(r"\]\([^)]*\)", "]", markdown).split())


def test_the_pages_are_made_of_their_sources():
    assert words.page(BOOK / "words.toml", NOTEBOOKS) == PAGE
    page = (BOOK / "did-not-help.md").read_text(encoding="utf-8")
    assert did_not_help.page(BOOK / "did-not-help.toml", NOTEBOOKS) == page


@pytest.mark.parametrize(("term", "text"), WORDS, ids=[term for term, _ in WORDS])
def test_a_word_has_the_definition_of_the_glossary(term, text):
    entry = GLOSSARY[words.slug(term)]
    if found := words.SEE.fullmatch(entry):
        entry = words.OTHER_NAMES.sub("", GLOSSARY[found["name"]]).strip()
    assert flat(text).startswith(flat(entry))


def test_there_are_pictures_for_many_words():
    assert len(WORDS) >= 40
    assert len(re.findall(words.PICTURE.format(".+", ".+"), PAGE)) >= 10


def changed(tmp_path, name, old, new):
    """Returns a copy of a source, beside a copy of the glossary, with one thing changed."""
    text = (BOOK / name).read_text(encoding="utf-8")
    assert old in text
    (tmp_path / name).write_text(text.replace(old, new, 1), encoding="utf-8")
    (tmp_path / "glossary.md").write_bytes((BOOK / "glossary.md").read_bytes())
    return tmp_path / name


def test_a_number_that_its_cell_does_not_show_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"shows 1\.765"):
        did_not_help.page(changed(tmp_path, "did-not-help.toml", "1.764", "1.765"), NOTEBOOKS)


def test_a_word_without_an_entry_is_refused(tmp_path):
    with pytest.raises(ValueError, match="the glossary has no gizmo"):
        words.page(changed(tmp_path, "words.toml", '"top-p"', '"gizmo"'), NOTEBOOKS)
