"""Quizzes with instant feedback: choose an option and read at once why it is right or wrong."""

import tomllib

from traitlets import Dict, Int, List, TraitError, Unicode, observe, validate

from glassformer import contents
from glassformer.widgets.kit.view import Chapters, View


class Quiz(View, module="quiz"):
    """A list of questions, each with several options, and an explanation for every option.

    Texts may contain `code` in backticks and *emphasis* in asterisks. A question has exactly one right option, unless
    it sets `multiple`. Then the reader ticks all that apply, and a try is right if it ticks exactly the right ones.

    Traits:
        questions: dictionaries with `text`, `options` and, if true, `multiple`; each option is a dictionary
            with `text`, `why` (its explanation) and, if true, `correct`.
        answers: the reader's tries for each question, in order; a try lists the chosen options, counted from 0.
        chapter: the number of the chapter whose quiz this is, such as "05", or an empty string.

    Raises:
        TraitError: a question has fewer than two options, the wrong number of right ones, an unknown key, or a
            missing text or explanation; or an answer refers to an option that does not exist.
    """

    questions = List(Dict(), minlen=1).tag(sync=True)
    answers = List(List(List(Int(min=0)))).tag(sync=True)
    chapter = Unicode().tag(sync=True)
    _chapters = Chapters().tag(sync=True)

    def __init__(self, questions: list[dict], **traits: object) -> None:
        super().__init__(questions=questions, **({"answers": [[] for _ in questions]} | traits))

    @classmethod
    def load(cls, chapter: str) -> "Quiz":
        """Returns the quiz of one chapter, such as "05", from ``quiz.toml`` in the chapter's folder.

        Raises:
            ValueError: there is no quiz for `chapter`.
        """
        file = contents.folder(str(chapter)) / "quiz.toml"
        if not file.is_file():
            there = ", ".join(contents.numbers())
            raise ValueError(f"chapter={chapter!r} has no quiz; these chapters have one: {there}")
        quiz = cls.from_toml(file.read_text(encoding="utf-8"))
        quiz.chapter = str(chapter)
        return quiz

    @classmethod
    def from_toml(cls, text: str) -> "Quiz":
        """Returns a quiz written as `[[question]]` tables, each followed by its `[[question.option]]` tables.

        Raises:
            ValueError: the top level has a key other than `question`.
        """
        tables = tomllib.loads(text)
        if set(tables) != {"question"}:
            raise ValueError(f"a quiz is a list of [[question]] tables, but the file has {sorted(tables)}")
        rename = {"option": "options"}
        return cls([{rename.get(k, k): v for k, v in question.items()} for question in tables["question"]])

    def first_try(self) -> int:
        """Returns how many questions were answered correctly at the first try."""
        return sum(bool(tries) and set(tries[0]) == self._right(i) for i, tries in enumerate(self.answers))

    def _right(self, question: int) -> set[int]:
        return {i for i, option in enumerate(self.questions[question]["options"]) if option.get("correct")}

    @validate("questions")
    def _check_questions(self, proposal: dict) -> list[dict]:
        for number, question in enumerate(proposal["value"], start=1):
            _check_question(f"question {number}", question)
        return proposal["value"]

    @validate("answers")
    def _check_answers(self, proposal: dict) -> list[list[list[int]]]:
        answers = proposal["value"]
        if len(answers) != len(self.questions):
            raise TraitError(f"answers has {len(answers)} entries for {len(self.questions)} questions")
        for number, (question, tries) in enumerate(zip(self.questions, answers, strict=True), start=1):
            for option in (option for choice in tries for option in choice):
                if option >= len(question["options"]):
                    raise TraitError(f"answers: question {number} has no option {option}")
        return answers

    @observe("questions")
    def _start_again(self, change: dict) -> None:
        if len(self.answers) != len(change["new"]):
            self.answers = [[] for _ in change["new"]]


def _check_question(name: str, question: dict) -> None:
    _check_keys(name, question, texts={"text"}, others={"options", "multiple"})
    options = question.get("options", [])
    if len(options) < 2:
        raise TraitError(f"{name} has {len(options)} options, but it needs at least 2")
    for number, option in enumerate(options, start=1):
        _check_keys(f"{name}, option {number}", option, texts={"text", "why"}, others={"correct"})
    right = sum(option.get("correct", False) for option in options)
    if question.get("multiple", False):
        if right == 0:
            raise TraitError(f"{name} has no right option")
    elif right != 1:
        raise TraitError(f"{name} has {right} right options; it needs exactly 1, unless `multiple` is true")


def _check_keys(name: str, table: dict, texts: set[str], others: set[str]) -> None:
    if unknown := sorted(set(table) - texts - others):
        raise TraitError(f"{name} has an unknown key {unknown[0]!r}")
    for key in sorted(texts):
        if not isinstance(table.get(key), str) or not table[key].strip():
            raise TraitError(f"{name} has no {key!r}, or an empty one")
    for key in others & {"correct", "multiple"} & set(table):
        if not isinstance(table[key], bool):
            raise TraitError(f"{name}: {key}={table[key]!r} should be true or false")
