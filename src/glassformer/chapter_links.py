"""Finds the chapters that a sentence mentions, such as "chapter 11" or "chapters 03 and 05", and makes them links.

Writers write only the words. Where the words are shown, whoever shows them knows how a chapter is reached from there.
"""

import re
from collections.abc import Callable, Iterator

from glassformer import contents
from glassformer.contents import Chapter

# Between a word and its number, and between numbers, a line may end; in a quotation the next line begins with >.
_SPACE = r"(?:[ \t\xa0]|\n[ \t>]*)+"
_AND = rf"(?:,?{_SPACE}(?:and|or|to){_SPACE}|,{_SPACE}|[–-])"
MENTION = re.compile(
    rf"\b[Cc]hapter{_SPACE}(?P<one>\d\d)\b|\b[Cc]hapters{_SPACE}(?P<several>\d\d(?:{_AND}\d\d)*)\b"
)
_NUMBER = re.compile(r"\d\d")


def mentioned(sentence: str) -> Iterator[str]:
    """Yields the number of each chapter that a sentence mentions, in order, whether or not there is such a chapter."""
    for found in MENTION.finditer(sentence):
        yield from _NUMBER.findall(found[0])


def linked(sentence: str, address: Callable[[Chapter], str | None]) -> str:
    """Returns a sentence with its mentions of chapters as Markdown links.

    All of "chapter 11" becomes a link; of "chapters 03 and 05", each number does.

    Args:
        sentence: words without links, code or formulas, in which nothing may change.
        address: returns the address of a chapter, or None if it gets no link. It is not asked about chapters that
            are not written yet or do not exist; they get no link either.
    """

    def link(words: str, number: str) -> str:
        try:
            page = contents.chapter(number)
        except ValueError:  # there is no such chapter
            return words
        to = address(page) if page.written else None
        return words if to is None else f"[{words}]({to})"

    def links(found: re.Match[str]) -> str:
        if found["one"]:
            return link(found[0], found["one"])
        before = found[0][: found.start("several") - found.start()]
        return before + _NUMBER.sub(lambda number: link(number[0], number[0]), found["several"])

    return MENTION.sub(links, sentence)
