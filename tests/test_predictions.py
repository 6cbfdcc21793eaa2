"""Tests that no chapter shows what came out before a reader has predicted it, and that each rule notices its breach."""

import pytest

from glassformer import contents
from glassformer.widgets import predict
from tools import notebooks
from tools.shared import chapter_facts, prediction_rules

MOVED = [one for one in chapter_facts.written() if predict.names(one.number)]

FRONT = "---\njupytext:\n  text_representation:\n    extension: .md\n    format_name: myst\n---\n\n"
JAR = {
    **{"question": "How many marbles are in the jar?", "kind": "number", "from": 0, "to": 100, "step": 1},
    **{"answer": 40, "axis": "marbles"},
}
SHARE = JAR | {"question": "Which share is blue?", "to": 1, "step": 0.01, "answer": 0.41, "axis": "share"}
LOOKS = {
    **{"question": "At which character would you look?", "kind": "choice", "answer": 1},
    **{"options": ["the first letter of the line", "the character just behind", "all of them equally"]},
}
OPEN = {"question": "Which would you miss?", "kind": "choice", "options": ["softmax", "the mask"]}

TEXT = """
# Marbles

## Guess

```{code-cell} ipython3
figures.figure("A jar of marbles", "Marbles in a jar.")
widgets.Jar(size=12)
```

```{code-cell} ipython3
widgets.Predict.load("99", "jar")
```

#### Count them

```{code-cell} ipython3
widgets.Predict.came_out("99", "jar", len(marbles))
print(len(marbles))
```

Here they are: that is a lot.

## Weigh them

Next come their weights.
"""


def broken(number, cells, tables):
    return list(prediction_rules.broken(number, cells, tables))


def cells_of(folder, text):
    path = folder / "book" / "chapters" / "99.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(FRONT + text, encoding="utf-8")
    return notebooks.read_text(path).cells


@pytest.mark.parametrize("one", MOVED, ids=lambda one: one.number)
def test_a_chapter_keeps_the_rules_for_predictions(one):
    cells = notebooks.read_text(chapter_facts.text_of(one)).cells
    assert broken(one.number, cells, predict.read(one.number)) == []


@pytest.mark.parametrize("one", MOVED, ids=lambda one: one.number)
def test_a_file_of_predictions_begins_with_its_chapters_title_and_loads(one):
    text = (contents.folder(one.number) / predict.FILE).read_text(encoding="utf-8")
    assert text.startswith(f"# Chapter {one.number}, {one.title}")
    for name in predict.names(one.number):
        assert predict.Predict.load(one.number, name).name == name


@pytest.mark.parametrize("table", [JAR, SHARE, LOOKS], ids=["jar", "share", "looks"])
def test_a_text_that_keeps_the_rules(tmp_path, table):
    assert broken("99", cells_of(tmp_path, TEXT), {"jar": table}) == []


def test_without_an_answer_nothing_is_compared(tmp_path):
    text = TEXT.replace('widgets.Predict.came_out("99", "jar", len(marbles))\n', "")
    assert broken("99", cells_of(tmp_path, text), {"jar": OPEN}) == []


# Each mutant changes the text above, or its table, and breaks one rule.
LOADING = 'widgets.Predict.load("99", "jar")'
MUTANTS = {
    "another chapter's": (LOADING, LOADING.replace("99", "98"), JAR, "0 cells load it"),
    "never loaded": (LOADING, "pass", JAR, "0 cells load it"),
    "loaded twice": ("widgets.Jar(size=12)", LOADING, JAR, "2 cells load it"),
    "more in its cell": (LOADING, f"x = 1\n{LOADING}", JAR, "does more than load it"),
    "no fold": ("#### Count them", "Count them.", JAR, "not followed by a heading of the fourth level"),
    "inside a fold": (
        f"```{{code-cell}} ipython3\n{LOADING}",
        f"#### Look\n\nA.\n\n```{{code-cell}} ipython3\n{LOADING}",
        JAR,
        "inside another fold",
    ),
    "no comment": ("Here they are: that is a lot.", "", JAR, "no comment"),
    "no end": ("## Weigh them\n\nNext come their weights.", "", JAR, "no heading ends its fold"),
    "a heading inside": ("Here they are", "##### Deeper\n\nHere they are", JAR, "heading 'Deeper' is inside"),
    "a quoted heading": ("Here they are", "> ## Deeper\n\nHere they are", JAR, "heading 'Deeper' is inside"),
    "nothing holds it": (
        'Predict.came_out("99", "jar"',
        'Predict.came_out("99", "tin"',
        JAR,
        "which holds the answer",
    ),
    "fold's heading": ("#### Count them", "#### There are 40", JAR, "the heading of its fold gives"),
    "another heading": ("## Weigh them", "## What 40 marbles weigh", JAR, "a heading gives"),
    "an option": ("## Guess", "## The character just behind", LOOKS, "a heading gives"),
    "in per cent": ("## Weigh them", "## Why 41 %", SHARE, "a heading gives"),
    "text after": ("Next come", "All 40 are heavy. Next come", JAR, "the text right after its fold gives"),
    "a title": ('"A jar of marbles"', '"A jar of 40 marbles"', JAR, "in an earlier cell gives"),
    "a view's argument": ("size=12", "size=40", JAR, "in an earlier cell gives"),
}


@pytest.mark.parametrize(("old", "new", "table", "rule"), MUTANTS.values(), ids=MUTANTS)
def test_each_rule_notices_its_breach(tmp_path, old, new, table, rule):
    assert old in TEXT
    found = broken("99", cells_of(tmp_path, TEXT.replace(old, new, 1)), {"jar": table})
    assert any(rule in one for one in found), found
    assert all("[jar]" in one for one in found)


def test_a_chapter_has_at_most_six(tmp_path):
    tables = {f"jar{i}": JAR for i in range(7)}
    found = broken("99", cells_of(tmp_path, TEXT), tables)
    assert "too many: 7 predictions, but a chapter has at most 6" in found


@pytest.mark.parametrize("heading", ["## Chapter 14", "## 140 marbles", "## 40.5 grams", "## 40% of them"])
def test_other_numbers_give_nothing_away(tmp_path, heading):
    text = TEXT.replace("## Weigh them", heading)
    assert broken("99", cells_of(tmp_path, text), {"jar": JAR}) == []
