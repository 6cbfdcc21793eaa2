"""Turns ids into text one at a time, as a model writes them: what no later id can change is shown at once."""

import codecs
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

CONTEXT = 16  # ids that a piece is decoded after: the first of a text may lose a space
BYTE = re.compile("<0x[0-9A-Fa-f]{2}>")  # a token that stands for one byte
TOKEN_BY_TOKEN = ("Replace", "ByteFallback", "Fuse", "Strip", "Metaspace", "WordPiece", "BPEDecoder", "CTC")
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"


class IncrementalDecoder:
    """Decodes a growing text: `push` returns what an id has made certain, and `finish` the rest.

    Together they are what `decode` makes of all the ids. A character of several tokens appears with the last of
    them, and bytes that cannot become a character appear as U+FFFD as soon as that is certain. However long the
    text is, an id costs the same: only the last few ids are decoded with it, and the whole text once, in `finish`.

    `tokenizer` is a tokenizers.Tokenizer; `decode` turns a list of its ids into their text. If its decoder looks at
    more than one token at a time in a way that is not known here, everything comes in the end.
    """

    def __init__(
        self, tokenizer: Any, decode: Callable[[list[int]], str], *, skip_special_tokens: bool = True
    ) -> None:
        self.tokenizer, self.decode = tokenizer, decode
        added = tokenizer.get_added_tokens_decoder() if skip_special_tokens else {}
        self.skipped = {i for i, token in added.items() if token.special}
        self.ids: list[int] = []
        self.shown: list[str] = []
        parts = _parts(tokenizer.decoder)
        self.kinds = [part["type"] for part in parts]
        self.on_bytes = self.kinds == ["ByteLevel"]
        self.waits = not self.on_bytes and not _is_local(parts)
        self.utf_8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._begin_run()

    def push(self, i: int) -> str:
        """Returns the text that is certain now and was not before."""
        token = None if i in self.skipped else self.tokenizer.id_to_token(i)
        if token is None:  # it stands for no text
            return ""
        self.ids.append(i)
        if self.waits:
            return ""
        if self.on_bytes:
            found = self.utf_8.decode(_bytes_of(token))
        elif "ByteFallback" in self.kinds and BYTE.fullmatch(token):
            found = self._more_of_run(int(token[3:5], 16))
        else:
            found = self._after_run()
        self.shown.append(found)
        return found

    def finish(self) -> str:
        """Returns the rest of the text, when no id follows."""
        whole, shown = self.decode(self.ids), "".join(self.shown)
        return whole.removeprefix(shown) if whole.startswith(shown) else f"\n{whole}"

    def _begin_run(self) -> None:
        """Begins a run of tokens for single bytes: together they are a text, or each of them is a U+FFFD."""
        self.run, self.is_broken = 0, False
        self.strict = codecs.getincrementaldecoder("utf-8")("strict")

    def _more_of_run(self, byte: int) -> str:
        self.run += 1
        if self.is_broken:
            return REPLACEMENT
        try:
            self.strict.decode(bytes([byte]))
        except UnicodeDecodeError:
            self.is_broken = True
            return REPLACEMENT * self.run
        return ""

    def _after_run(self) -> str:
        """Returns the text of the last token and of the run before it."""
        known = len(self.ids) - 1 - self.run
        already = self.run if self.is_broken else 0
        self._begin_run()
        first = max(0, known - CONTEXT)
        before, now = self.decode(self.ids[first:known]), self.decode(self.ids[first:])
        if not now.startswith(before):
            self.waits = True
            return ""
        return now[len(before) + already :]


def _parts(decoder: Any) -> list[dict[str, Any]]:
    """Returns the parts of a library's decoder in their order."""
    if decoder is None:
        return []
    given = json.loads(decoder.__getstate__())
    return given["decoders"] if given["type"] == "Sequence" else [given]


def _is_local(parts: Sequence[dict[str, Any]]) -> bool:
    """Returns whether every part looks at single tokens, at the run of bytes around one, or at the text's beginning."""
    kinds = [part["type"] for part in parts]
    if not set(kinds) <= set(TOKEN_BY_TOKEN):
        return False
    after = (
        parts[kinds.index("Fuse") + 1 :] if "Fuse" in kinds else []
    )  # these get the whole text as one token
    return all(part["type"] == "Strip" and part["start"] < CONTEXT and part["stop"] == 0 for part in after)


def _bytes_of(token: str) -> bytes:
    """Returns the bytes that a token of byte pairs stands for; an added one may consist of other characters."""
    try:
        return bytes(map(BYTES.__getitem__, token))
    except KeyError:
        return token.encode()


def _alphabet() -> dict[str, int]:
    """Returns the byte for which each of the 256 letters stands: itself if it can be seen, or one after 255."""
    seen = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    unseen = [byte for byte in range(256) if byte not in seen]
    return {chr(byte): byte for byte in seen} | {chr(256 + i): byte for i, byte in enumerate(unseen)}


BYTES = _alphabet()


class TokenByToken:
    """The same for a tokenizer whose ids have texts of their own, whatever is around them."""

    def __init__(self, decode: Callable[[list[int]], str]) -> None:
        self.decode = decode

    def push(self, i: int) -> str:
        """Returns the text of this id."""
        return self.decode([i])

    def finish(self) -> str:
        """Returns nothing: everything has been returned."""
        return ""
