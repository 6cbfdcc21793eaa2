"""Turns ids into text one at a time, as a model writes them: a character of several tokens appears with the last."""

from collections.abc import Callable

__all__ = ["IncrementalDecoder"]
__dir__ = __all__.copy

REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class IncrementalDecoder:
    """Decodes a growing text: `push` returns what an id has added, and `finish` the rest.

    Together they are what `decode`, which turns a list of ids into their text, makes of all the ids. Where a text
    ends in U+FFFD, bytes may follow that make it a character, so it is held back. An id costs the same however long
    the text is: with it, only the ids of the last piece are decoded, because a text's first may lose a space; and in
    `finish` the whole text, once.
    """

    def __init__(self, decode: Callable[[list[int]], str]) -> None:
        self.decode = decode
        self.ids: list[int] = []
        self.pieces: list[str] = []
        # Where the last piece that was returned begins among the ids, and where it ends
        self.last, self.known = 0, 0

    def push(self, i: int) -> str:
        """Returns the text of this id, and of those before it that were held back."""
        self.ids.append(i)
        before, now = self.decode(self.ids[self.last : self.known]), self.decode(self.ids[self.last :])
        if now.endswith(REPLACEMENT) or not now.startswith(before) or now == before:
            return ""
        self.last, self.known = self.known, len(self.ids)
        self.pieces.append(now[len(before) :])
        return self.pieces[-1]

    def finish(self) -> str:
        """Returns the rest of the text. If an id has changed what was shown before it, all of it, on a new line."""
        whole, shown = self.decode(self.ids), "".join(self.pieces)
        return whole.removeprefix(shown) if whole.startswith(shown) else f"\n{whole}"
