"""A judge for each exercise, in a module of its own that is found by the exercise's name."""

import ast
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import glassformer
from glassformer.exercises import catalogue as engine
from glassformer.exercises.catalogue import catalogue, find, prose

CHAPTERS = Path(glassformer.__file__).parent / "chapters"
MODULES = sorted(CHAPTERS.glob("ch*/judges/[!_]*.py"))
JUDGES = {(f"ch{one.chapter}", name.rpartition(".")[2]): name for name, one in catalogue().items()}


def place(module):
    """Its chapter's folder and its name."""
    return module.parent.parent.name, module.stem


def imported(module):
    """The chapter, module and name of everything that a module in judges/ imports from another."""
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            parts = (node.module or "").split(".")
            for alias in node.names:
                if node.level:
                    yield place(module)[0], parts[-1], alias.name
                elif parts[:2] == ["glassformer", "chapters"]:
                    yield parts[2], parts[-1], alias.name


def test_every_exercise_has_a_module_of_its_own():
    assert len(JUDGES) == len(catalogue())
    assert set(JUDGES) <= {place(module) for module in MODULES}


def test_a_module_defines_the_exercise_that_it_is_named_after_and_no_other():
    defined = {
        place(module): [
            node.args[0].value
            for node in ast.walk(ast.parse(module.read_text(encoding="utf-8")))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "exercise"
        ]
        for module in MODULES
    }
    assert {at: names for at, names in defined.items() if names} == {
        at: [name] for at, name in JUDGES.items()
    }


def test_a_module_without_an_exercise_serves_several():
    used = Counter(pair for module in MODULES for pair in {one[:2] for one in imported(module)})
    assert [
        place(module) for module in MODULES if place(module) not in JUDGES and used[place(module)] < 2
    ] == []


def test_judges_share_public_names():
    private = [
        (place(module), *one) for module in MODULES for one in imported(module) if one[-1].startswith("_")
    ]
    assert private == []


@pytest.fixture
def words(monkeypatch):
    """Returns a function that gives an exercise words under a name: those of RMSNorm."""

    def give(name):
        rms_norm = prose("stream.rms_norm")
        monkeypatch.setattr(
            engine, "prose", lambda asked: replace(rms_norm, name=name) if asked == name else None
        )

    return give


def test_words_without_a_module_are_named(words):
    words("stream.nowhere")
    said = (
        r"'stream.nowhere' has a text but no judge: glassformer.chapters.ch05.judges.nowhere does not exist\."
    )
    with pytest.raises(ImportError, match=said):
        find("stream.nowhere")


def test_a_module_without_its_exercise_is_named(words):
    words("stream.norms")
    said = r"'stream.norms' has a text but no judge: glassformer.chapters.ch05.judges.norms does not define one\."
    with pytest.raises(ImportError, match=said):
        find("stream.norms")


def test_what_a_judge_cannot_import_is_not_mistaken_for_the_judge(words, monkeypatch):
    def fails(name):
        raise ModuleNotFoundError("No module named 'somewhere'", name="somewhere")

    monkeypatch.setattr(engine, "import_module", fails)
    with pytest.raises(ModuleNotFoundError, match="No module named 'somewhere'"):
        find("stream.rms_norm")


def test_no_words_no_exercise():
    with pytest.raises(KeyError):
        find("stream.nowhere")
