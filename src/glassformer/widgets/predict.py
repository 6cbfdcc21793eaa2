"""Predictions: a question that takes the reader's answer before the page shows what came out."""

import math
import tomllib
from decimal import Decimal
from numbers import Integral
from typing import Any, NoReturn

from traitlets import Any as Anything
from traitlets import Bool, Dict, Float, Int, List, TraitError, Unicode, validate

from glassformer import contents
from glassformer.widgets.kit.view import View

FILE = "predictions.toml"  # in a chapter's folder
KINDS = ("choice", "number", "order", "point")
_TEXTS = {"question", "kind"}
_OF_A_LIST = {"options"}
_OF_AN_AXIS = {"from", "to", "step", "unit", "axis", "marks"}
MOST_OPTIONS = 7
LONGEST_LABEL = 32  # characters of a mark's label, which a phone shows in one line


class Predict(View, module="predict"):
    """One question. The reader answers it, or asks to be shown; only then does the fold below it open.

    The texts may contain `code` in backticks and *emphasis* in asterisks. There are four kinds of questions:

    - ``choice``: one of `options`; the answer is its index, counted from 0.
    - ``number``: a number from `low` to `high`, on a slider or typed.
    - ``point``: a point on the same axis, which is not typed; `marks` may name places on it.
    - ``order``: `options` in the reader's order; the answer lists their indices, first to last.

    Traits:
        question: the text of the question.
        kind: one of the four kinds.
        options: the texts to choose from or to put into order.
        low, high: the ends of the axis.
        step: the distance between two values of the slider.
        unit: what follows a number, such as "%", or an empty string.
        axis: what the axis measures.
        marks: named places on the axis, dictionaries with `at` and `label`.
        digits: how many decimals are shown; they follow from `step` and the answer.
        answer: what came out, as a list, or an empty list if there is no single answer.
        committed: the reader's answer as a list, or an empty list before there is one.
        shown: whether the reader has seen what came out.
        chapter, name: which prediction of which chapter it is, such as "00" and "hotter".

    Raises:
        ValueError: the table breaks a rule. The message has the name, the key, the value and the rule.
    """

    question = Unicode().tag(sync=True)
    kind = Unicode().tag(sync=True)
    options = List(Unicode()).tag(sync=True)
    low = Float().tag(sync=True)
    high = Float(1.0).tag(sync=True)
    step = Float(0.01).tag(sync=True)
    unit = Unicode().tag(sync=True)
    axis = Unicode().tag(sync=True)
    marks = List(Dict()).tag(sync=True)
    digits = Int().tag(sync=True)
    answer = List(Anything()).tag(sync=True)
    committed = List(Anything()).tag(sync=True)
    shown = Bool(False).tag(sync=True)
    chapter = Unicode().tag(sync=True)
    name = Unicode().tag(sync=True)

    def __init__(self, table: dict[str, Any], *, name: str = "", chapter: str = "") -> None:
        super().__init__(**_traits(name, table), name=name, chapter=chapter)

    @classmethod
    def load(cls, chapter: str, name: str) -> "Predict":
        """Returns one prediction of a chapter, such as ("00", "hotter"), from ``predictions.toml`` in its folder.

        Raises:
            ValueError: the chapter has no predictions, none of that name, or the file breaks a rule.
        """
        tables = read(chapter)
        if name not in tables:
            raise ValueError(f"name={name!r} is not a prediction of chapter {chapter}: {', '.join(tables)}")
        return cls(tables[name], name=name, chapter=chapter)

    @classmethod
    def came_out(cls, chapter: str, name: str, value: Any) -> None:
        """Checks that the stored answer to a prediction is `value`, which a cell has just computed.

        The cell in the prediction's fold calls this, so the view cannot show an answer that differs from the run. A
        number or a point must agree in the decimals that the view shows. For a choice, `value` is the option or its
        index; for an order, it is a list of options or of their indices.

        Raises:
            AssertionError: the stored answer is something else.
            ValueError: there is no such prediction, or it has no answer.
        """
        prediction = cls.load(chapter, name)
        if not prediction.answer:
            raise ValueError(f"prediction {name!r} of chapter {chapter} has no answer that could be compared")
        stored, computed = prediction._comparable(value)
        assert stored == computed, (
            f"chapter {chapter}, [{name}]: answer={stored} in {FILE}, but the cell computed {computed}"
        )

    def _comparable(self, value: Any) -> tuple[Any, Any]:
        """Returns the answer and `value` in one form."""
        if self.kind in ("number", "point"):
            return f"{self.answer[0]:.{self.digits}f}", f"{float(value):.{self.digits}f}"
        values = list(value) if self.kind == "order" else [value]
        computed = [self.options.index(one) if one in self.options else one for one in values]
        return self.answer, [int(one) if isinstance(one, Integral) else one for one in computed]

    def _repr_mimebundle_(self, **kwargs: Any) -> Any:
        """Returns what a notebook stores: the view and, for readers who see only text, the question."""
        bundle: Any = super()._repr_mimebundle_(**kwargs)
        (bundle[0] if isinstance(bundle, tuple) else bundle)["text/plain"] = f"Predict: {self.question}"
        return bundle

    @validate("committed")
    def _check_committed(self, proposal: dict) -> list:
        given = proposal["value"]
        if given and (problem := _impossible(self.kind, given, self.options, self.low, self.high)):
            raise TraitError(f"committed={given!r}: {problem}")
        return given


def names(chapter: str) -> list[str]:
    """Returns the names of a chapter's predictions in the order of ``predictions.toml``; without the file, none."""
    return list(read(chapter)) if (contents.folder(chapter) / FILE).is_file() else []


def read(chapter: str) -> dict[str, dict[str, Any]]:
    """Returns the tables of a chapter's predictions, by name, in the order of the file.

    Raises:
        ValueError: the chapter has no predictions, or something in the file is not a table.
    """
    file = contents.folder(chapter) / FILE
    if not file.is_file():
        raise ValueError(f"chapter={chapter!r} has no {FILE} in its folder")
    tables = tomllib.loads(file.read_text(encoding="utf-8"))
    for name, table in tables.items():
        if not isinstance(table, dict):
            raise ValueError(f"{name}={table!r} in {FILE} of chapter {chapter} is outside a [name] table")
    return tables


def _traits(name: str, table: dict[str, Any]) -> dict[str, Any]:
    """Returns the traits that a table of predictions.toml describes, or raises a ValueError that says what is wrong."""

    def refuse(key: str, rule: str) -> NoReturn:
        raise ValueError(f"prediction [{name}]: {key}={table.get(key)!r} {rule}")

    kind: Any = table.get("kind")
    if kind not in KINDS:
        refuse("kind", f"must be one of {', '.join(KINDS)}")
    listed = kind in ("choice", "order")
    known = _TEXTS | {"answer"} | (_OF_A_LIST if listed else _OF_AN_AXIS)
    for key in table:
        if key not in known:
            refuse(key, f"is not a key of a {kind}, which has {', '.join(sorted(known))}")
    for key in ("question",) if listed else ("question", "axis"):
        if not isinstance(table.get(key), str) or not table[key].strip():
            refuse(key, "must be a text that is not empty")
    traits: dict[str, Any] = {"question": table["question"].strip(), "kind": kind}
    if listed:
        options: Any = table.get("options")
        traits["options"] = options
        if not isinstance(options, list) or not all(isinstance(one, str) and one.strip() for one in options):
            refuse("options", "must be a list of texts that are not empty")
        if not 2 <= len(options) <= MOST_OPTIONS:
            refuse("options", f"must have from 2 to {MOST_OPTIONS} options")
        if len(set(options)) < len(options):
            refuse("options", "has the same option twice")
    else:
        for key in ("from", "to", "step"):
            if not _is_number(table.get(key)):
                refuse(key, "must be a number")
        if not table["from"] < table["to"]:
            refuse("from", f"must be less than to={table['to']!r}")
        if not 0 < table["step"] <= table["to"] - table["from"]:
            refuse("step", "must be more than 0 and no more than the length of the axis")
        if not isinstance(table.get("unit", ""), str):
            refuse("unit", "must be a text")
        if table.get("unit") and table["unit"] in table["axis"]:
            refuse("axis", f"must not name the unit {table['unit']!r}, which is written after it")
        marks = table.get("marks", [])
        if not isinstance(marks, list) or not all(
            isinstance(mark, dict)
            and set(mark) == {"at", "label"}
            and _is_number(mark["at"])
            and table["from"] <= mark["at"] <= table["to"]
            and isinstance(mark["label"], str)
            and 1 <= len(mark["label"].strip()) <= LONGEST_LABEL
            for mark in marks
        ):
            rule = f"a list of {{ at = a number on the axis, label = up to {LONGEST_LABEL} characters }}"
            refuse("marks", f"must be {rule}")
        traits |= {"low": table["from"], "high": table["to"], "step": table["step"], "marks": marks}
        traits |= {"axis": table["axis"].strip(), "unit": table.get("unit", "")}
    if "answer" not in table:
        if kind != "choice":
            refuse("answer", f"must be given; only a choice can do without, and this is a {kind}")
        return traits
    given = table["answer"]
    answer = given if kind == "order" else [given]
    if problem := _impossible(
        kind, answer, traits.get("options", []), traits.get("low", 0), traits.get("high", 0)
    ):
        refuse("answer", problem)
    if kind == "order" and answer == sorted(answer):
        refuse("answer", "must differ from the order of the options, which the reader sees first")
    if not listed:
        traits["digits"] = max(_decimals(traits["step"]), _decimals(given))
    return traits | {"answer": answer}


def _impossible(kind: str, given: Any, options: list[str], low: int | float, high: int | float) -> str:
    """Returns the rule that an answer breaks, or an empty string."""
    if kind == "order":
        places = list(range(len(options)))
        all_whole = isinstance(given, list) and all(type(one) is int for one in given)
        return "" if all_whole and sorted(given) == places else f"must list each of {places} once"
    value: Any = given[0] if len(given) == 1 else None
    if kind == "choice":
        fine = type(value) is int and 0 <= value < len(options)
        return "" if fine else f"must be the index of an option, from 0 to {len(options) - 1}"
    return "" if _is_number(value) and low <= value <= high else f"must be a number from {low:g} to {high:g}"


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _decimals(value: int | float) -> int:
    """Returns how many decimals a number is written with: 2 for 0.41 and 0 for 12.0."""
    return max(0, -int(Decimal(repr(value)).normalize().as_tuple().exponent))
