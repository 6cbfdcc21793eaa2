"""Judges the exercises of chapter 02, "Tokens become vectors"; their prose is in exercises.toml.

For each: the reference, where the package has none; then its checks, in teaching order; then its classic mistakes.
What is right comes from hand-worked texts, a closed form, an invariant or another way to compute it. The axes: B
batch, T tokens, V vocabulary, D d_model, M merges.
"""
# ruff: noqa: ANN001, ANN202 - a check is read by its title, a mistake by its sentence

import itertools
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from glassformer import _checks as checks
from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import Wrong, expect, expect_shape
from glassformer.exercises.material import numbers
from glassformer.scratch.loss import cross_entropy
from glassformer.shapes import Float, Int, Integer
from glassformer.text import CharTokenizer

LINE = "A horse! a horse! my kingdom for a horse!"
LETTERS = " !Aadefghikmnorsy"  # of the line, in Unicode order


# 1 · Which characters are there?


def vocabulary(text: str) -> str:
    """Every character that occurs in the text, once, in Unicode order."""
    return "".join(sorted(set(text)))


kinds = exercise("tokens.vocabulary", vocabulary)

kinds.case("each character once", "banana", want="abn")
kinds.also("aaa", want="a")
kinds.case("blanks, line ends, signs and capitals are characters, too", "To be,\nor", want="\n ,Tbeor")
kinds.also("No more.\n", want="\n .Nemor")
kinds.case("the line of the horse", LINE, want=LETTERS)
kinds.case("any alphabet, in Unicode order", "éaz…Ω a", want=" azéΩ…")

kinds.mistake("twice", lambda text: "".join(sorted(text)))
kinds.mistake("as met", lambda text: "".join(dict.fromkeys(text)))
kinds.mistake("by frequency", lambda text: "".join(c for c, _ in Counter(text).most_common()))
kinds.mistake("small letters", lambda text: "".join(sorted(set(text.lower()))))
kinds.mistake("stripped", lambda text: "".join(sorted(set(text.strip()))))
kinds.mistake("a beside A", lambda text: "".join(sorted(sorted(set(text)), key=str.lower)))
kinds.mistake("no blanks", lambda text: "".join(sorted(set("".join(text.split())))))
kinds.mistake("letters alone", lambda text: "".join(sorted({c for c in text if c.isalpha()})))
kinds.mistake("backwards", lambda text: "".join(sorted(set(text), reverse=True)))


# 2 · Letters to ids


def encode(text: str, characters: str) -> Int[np.ndarray, " T"]:
    """The id of every character of the text: its place in `characters`.

    Raises:
        ValueError: a character is not among them; the message says where it stands.
    """
    return CharTokenizer(characters).encode(text)


to_ids = exercise("tokens.encode", encode, built_on=(CharTokenizer.encode,), axes="T")

to_ids.case("an id is a place in `characters`", "cab", "abc", want=[2, 0, 1])
to_ids.case("whatever their order", "cab", "xcba", want=[1, 3, 2])
to_ids.also("cab", "abcdefgh", want=[2, 0, 1])
to_ids.case("the line of the horse", LINE, LETTERS, want=[LETTERS.index(c) for c in LINE])
to_ids.refuses(
    "an unknown character: ValueError, and the message says where it stands", "abba#ab", "ab", names=(4,),
    advice="Places count from 0.",
)  # fmt: skip
to_ids.also_refuses("bbbbbbbbbbbbB", "ab", names=(12,), advice="Places count from 0.")
to_ids.also_refuses("aXbYa", "ab", names=(1,), advice="That is the first of two; places count from 0.")

to_ids.mistake("code points", lambda text, characters: np.array([ord(c) for c in text]))
to_ids.mistake("from 1", lambda text, characters: encode(text, characters) + 1)
to_ids.mistake("own vocabulary", lambda text, characters: encode(text, vocabulary(text)))
to_ids.mistake("sorted", lambda text, characters: encode(text, vocabulary(characters)))
to_ids.mistake("minus one", lambda text, characters: np.array([characters.find(c) for c in text]))
to_ids.mistake(
    "left out", lambda text, characters: np.array([characters.index(c) for c in text if c in characters])
)
to_ids.mistake("zero", lambda text, characters: np.array([max(characters.find(c), 0) for c in text]))


# 3 · And back


def decode(ids: Integer[np.ndarray, " T"], characters: str) -> str:
    """The text that ids spell.

    Raises:
        ValueError: an id is below 0, or has no character.
    """
    return CharTokenizer(characters).decode(ids)


to_text = exercise("tokens.decode", decode, built_on=(CharTokenizer.decode,))

to_text.case("ids are places in `characters`", np.array([2, 0, 1]), "abc", want="cab")
to_text.case("blanks are characters as well", np.array([1, 0, 2, 0]), " xy", want="x y ")


@to_text.check("what was encoded comes back, letter by letter")
def _(decode):
    for text in (LINE, "horse\n\nKING:\n  a!"):
        characters = vocabulary(text)
        expect(
            decode(encode(text, characters), characters),
            text,
            f"the line encoded and decoded, {text[:7]!r} …",
        )


to_text.refuses(
    "an id with no character: ValueError, and the message names it", np.array([0, 2, 13]), "abc", names=(13,)
)
to_text.also_refuses(np.array([3]), "abc", names=(3,))
to_text.refuses(
    "a negative id is refused too, though Python would take it", np.array([0, -1]), "abc", names=(-1,)
)

to_text.mistake("code points", lambda ids, characters: "".join(chr(97 + i) for i in ids))
to_text.mistake("from 1", lambda ids, characters: "".join(characters[i - 1] for i in ids))
to_text.mistake("blanks between", lambda ids, characters: " ".join(characters[i] for i in ids))
to_text.mistake("stripped", lambda ids, characters: "".join(characters[i] for i in ids).strip())
to_text.mistake("wraps", lambda ids, characters: "".join(characters[i % len(characters)] for i in ids))
to_text.mistake(
    "left out", lambda ids, characters: "".join(characters[i] for i in ids if i < len(characters))
)


@to_text.mistake("from the end")
def _(ids, characters):
    if max(ids) >= len(characters):
        raise ValueError(f"id {max(ids)} has no character")
    return "".join(characters[i] for i in ids)


# 4 · One hot


def one_hot(ids: Integer[np.ndarray, " T"], vocab_size: int) -> Float[np.ndarray, "T V"]:
    """A row for each id: 1 in the column of that number, 0 elsewhere."""
    rows = np.zeros((len(ids), vocab_size))
    rows[np.arange(len(ids)), ids] = 1
    return rows


hot = exercise("tokens.one_hot", one_hot, axes="T V")

_ids = np.array([2, 0, 2])
hot.shape("a row for each token, a column for each entry of the vocabulary", _ids, 5, want=(3, 5))
hot.case("1 in the id's own column", _ids, 4, want=[[0.0, 0, 1, 0], [1, 0, 0, 0], [0, 0, 1, 0]])
hot.case("as many columns as you are told, used or not", np.array([1]), 6, want=[[0.0, 1, 0, 0, 0, 0]])


@hot.check("times a table it looks rows up")
def _(one_hot):
    ids, table = np.array([7, 0, 3, 3, 10, 1]), numbers(11, 4)
    rows = one_hot(ids, 11)
    expect_shape(rows, (6, 11), "one_hot(ids, 11)", axes="T V")
    expect(np.asarray(rows) @ table, table[ids], "one_hot(ids, 11) @ table", axes="T D")


hot.mistake("turned", lambda ids, vocab_size: one_hot(ids, vocab_size).T)
hot.mistake("first rows", lambda ids, vocab_size: np.eye(vocab_size)[: len(ids)])
hot.mistake("counts", lambda ids, vocab_size: np.bincount(ids, minlength=vocab_size).astype(float))
hot.mistake("own width", lambda ids, vocab_size: one_hot(ids, max(ids) + 1))
hot.mistake("from 1", lambda ids, vocab_size: np.eye(vocab_size + 1)[ids + 1, :vocab_size])
hot.mistake("the id itself", lambda ids, vocab_size: one_hot(ids, vocab_size) * ids[:, None])


@hot.mistake("every column")
def _(ids, vocab_size):
    rows = np.zeros((len(ids), vocab_size))
    rows[:, ids] = 1
    return rows


# 5 · Look rows up


def embed(ids: Integer[np.ndarray, "*B T"], table: Float[np.ndarray, "V D"]) -> Float[np.ndarray, "*B T D"]:
    """The row of the table for each id.

    Raises:
        ValueError: an id is below 0, or has no row; the message names it.
    """
    checks.indices("ids", ids, "vocab_size", len(table))
    return table[ids]


lookup = exercise("tokens.embed", embed, axes="T D")

_ids, _table = np.array([4, 0, 4]), numbers(6, 3)
lookup.case("row i for id i", _ids, _table, want=np.stack([_table[4], _table[0], _table[4]]))
_ids, _square = np.array([[1, 0], [3, 3], [2, 1]]), numbers(4, 4, seed=1)
lookup.case(
    "a batch keeps its shape, (B, T, D)",
    _ids, _square, want=[[_square[i] for i in row] for row in _ids], axes="B T D",
)  # fmt: skip
lookup.refuses(
    "an id that has no row: ValueError, and the message names it", np.array([0, 17, 2]), _table, names=(17,)
)
lookup.also_refuses(np.array([6]), _table, names=(6,))
lookup.refuses(
    "a negative id is refused too, though NumPy would take it", np.array([0, -1, 2]), _table, names=(-1,)
)
lookup.also_refuses(np.array([[0, -2]]), _table, names=(-2,))

lookup.mistake("columns", lambda ids, table: table[:, ids])
lookup.mistake("first rows", lambda ids, table: table[: ids.shape[-1]])
lookup.mistake("scaled", lambda ids, table: table[ids] * math.sqrt(table.shape[1]))
lookup.mistake("summed", lambda ids, table: table[ids].sum(axis=-2))
lookup.mistake("flat", lambda ids, table: table[ids.reshape(-1)])
lookup.mistake("clipped", lambda ids, table: table[np.clip(ids, 0, len(table) - 1)])
lookup.mistake("wraps", lambda ids, table: table[ids % len(table)])


@lookup.mistake("from the end")
def _(ids, table):
    if ids.max() >= len(table):
        raise ValueError(f"id {ids.max()} has no row")
    return table[ids]


# 6 · The most frequent pair


def _counted(ids):
    return Counter(zip(ids[:-1].tolist(), ids[1:].tolist(), strict=True))


def _first_of_most(ids, key):
    pairs = _counted(ids)
    return min((pair for pair in pairs if pairs[pair] == max(pairs.values())), key=key)


def best_pair(ids: Integer[np.ndarray, " T"]) -> Int[np.ndarray, "2"]:
    """The two neighbours that stand side by side most often; of equals, the pair with the lower ids."""
    pairs = Counter(zip(ids[:-1].tolist(), ids[1:].tolist(), strict=True))
    return np.array(min(pairs, key=lambda pair: (-pairs[pair], pair)))


pair = exercise("tokens.best_pair", best_pair)


@pair.check("the pair that occurs most often")
def _(best_pair):
    got = best_pair(np.array([5, 1, 2, 1, 2, 7, 1, 2]))
    if isinstance(got, tuple | list) and len(got) == 2 and np.ndim(got[0]) == 1:
        raise Wrong("two ids should come back; yours is the pair and its count. Return the pair alone.")
    expect(got, [1, 2], "best_pair([5, 1, 2, 1, 2, 7, 1, 2])")


_ids = [2, 1, 9, 2, 1, 5, 6, 1, 2, 5, 6, 1, 2, 5, 6]
pair.case("order counts: 1 2 is not 2 1", np.array(_ids), want=[5, 6], what=f"best_pair({_ids})")
pair.case("3 3 3 has the pair 3 3 twice", np.array([3, 3, 3, 1, 2]), want=[3, 3])
pair.case(
    "every two neighbours are a pair, wherever it begins", np.array([0, 8, 4, 0, 8, 4, 4, 9]), want=[0, 8]
)
pair.also(np.array([6, 8, 4, 0, 8, 4]), want=[8, 4])
pair.case("of equals, the lower first id goes first", np.array([7, 3, 5, 2, 7, 3, 0, 5, 2]), want=[5, 2])
_ids = [2, 3, 0, 1, 9, 7, 2, 3, 5, 1, 9]
pair.also(np.array(_ids), want=[1, 9], what=f"best_pair({_ids})")
pair.case("then the lower second one", np.array([4, 9, 0, 4, 6, 1, 4, 9, 2, 4, 6]), want=[4, 6])
pair.also(np.array([12, 40]), want=[12, 40])


pair.mistake("first met", lambda ids: np.array(_counted(ids).most_common(1)[0][0]))
pair.mistake("second id", lambda ids: np.array(_first_of_most(ids, lambda p: p[0])))
pair.mistake("by sum", lambda ids: np.array(_first_of_most(ids, sum)))
pair.mistake("larger ids", lambda ids: np.array(max(_counted(ids), key=lambda p: (_counted(ids)[p], p))))


@pair.mistake("either way round")
def _(ids):
    pairs = Counter(tuple(sorted(p)) for p in zip(ids[:-1].tolist(), ids[1:].tolist(), strict=True))
    return np.array(min(pairs, key=lambda p: (-pairs[p], p)))


@pair.mistake("counted once")
def _(ids):
    pairs, behind = Counter(), {}
    for i, p in enumerate(itertools.pairwise(ids.tolist())):
        if i >= behind.get(p, 0):
            pairs[p] += 1
            behind[p] = i + 2
    return np.array(min(pairs, key=lambda p: (-pairs[p], p)))


@pair.mistake("in twos")
def _(ids):
    pairs = Counter(zip(ids[0:-1:2].tolist(), ids[1::2].tolist(), strict=False))
    return np.array(min(pairs, key=lambda p: (-pairs[p], p)))


@pair.mistake("two most frequent")
def _(ids):
    singles = Counter(ids.tolist())
    return np.array(sorted(singles, key=lambda i: (-singles[i], i))[:2])


pair.mistake("rarest", lambda ids: np.array(min(_counted(ids), key=lambda p: (_counted(ids)[p], p))))


# 7 · One merge


def merge(
    ids: Integer[np.ndarray, " T"], pair: Sequence[int | np.integer], new_id: int
) -> Int[np.ndarray, " t"]:
    """The ids with every `pair` of neighbours replaced by `new_id`, from left to right."""
    merged, i = [], 0
    while i < len(ids):
        fits = i + 1 < len(ids) and (ids[i], ids[i + 1]) == tuple(pair)
        merged.append(new_id if fits else ids[i])
        i += 2 if fits else 1
    return np.array(merged)


one_merge = exercise("tokens.merge", merge)

_ids = np.array([1, 2, 3, 1, 2])
one_merge.case("every such pair becomes one id", _ids, (1, 2), 9, want=[9, 3, 9])
one_merge.case("in this order alone", np.array([2, 1, 2, 2, 1]), (1, 2), 7, want=[2, 7, 2, 1])
one_merge.case("the others stay, the last one too", np.array([4, 1, 2, 5, 1]), (1, 2), 6, want=[4, 6, 5, 1])
one_merge.also(np.array([5, 4, 1]), (1, 2), 6, want=[5, 4, 1])
one_merge.case(
    "an id is one number: 11 2 is not 1 2", np.array([11, 2, 1, 2, 21]), (1, 2), 9, want=[11, 2, 9, 21]
)
one_merge.case("no id is used twice: from left to right", np.array([3, 3, 3, 0]), (3, 3), 8, want=[8, 3, 0])
one_merge.also(np.array([3, 3, 3, 3, 3]), (3, 3), 8, want=[8, 8, 3])

one_merge.mistake("either way round", lambda ids, pair, new: merge(merge(ids, pair, new), pair[::-1], new))


@one_merge.mistake("either way round")
def _(ids, pair, new_id):
    merged, i = [], 0
    while i < len(ids):
        fits = tuple(ids[i : i + 2].tolist()) in (tuple(pair), tuple(pair)[::-1])
        merged.append(new_id if fits else ids[i])
        i += 2 if fits else 1
    return np.array(merged)


@one_merge.mistake("added up")
def _(ids, pair, new_id):
    merged = []
    for i in ids.tolist():
        if merged and (merged[-1], i) == tuple(pair):
            merged[-1] += i
        else:
            merged.append(i)
    return np.array(merged)


@one_merge.mistake("digits")
def _(ids, pair, new_id):
    text = " ".join(map(str, ids)).replace(" ".join(map(str, pair)), str(new_id))
    return np.array([int(i) for i in text.split()])


@one_merge.mistake("first alone")
def _(ids, pair, new_id):
    ids = ids.tolist()
    for i in range(len(ids) - 1):
        if (ids[i], ids[i + 1]) == tuple(pair):
            return np.array([*ids[:i], new_id, *ids[i + 2 :]])
    return np.array(ids)


@one_merge.mistake("second stays")
def _(ids, pair, new_id):
    ids = ids.tolist()
    fits = [(a, b) == tuple(pair) for a, b in zip(ids, [*ids[1:], None], strict=True)]
    return np.array([new_id if fit else i for i, fit in zip(ids, fits, strict=True)])


@one_merge.mistake("used twice")
def _(ids, pair, new_id):
    ids = ids.tolist()
    fits = [(a, b) == tuple(pair) for a, b in zip(ids, [*ids[1:], None], strict=True)]
    used = [False, *fits[:-1]]
    return np.array([new_id if f else i for i, f, u in zip(ids, fits, used, strict=True) if f or not u])


one_merge.mistake("from the right", lambda ids, pair, new: merge(ids[::-1], pair[::-1], new)[::-1])


@one_merge.mistake("last is lost")
def _(ids, pair, new_id):
    merged, i = [], 0
    while i < len(ids) - 1:
        fits = (ids[i], ids[i + 1]) == tuple(pair)
        merged.append(new_id if fits else ids[i])
        i += 2 if fits else 1
    return np.array(merged)


# 8 · Learn the merges


def learn(ids: Integer[np.ndarray, " T"], n_merges: int, first_new: int = 256) -> Int[np.ndarray, "M 2"]:
    """The pairs that byte-pair encoding merges, in order: merge k makes the id first_new + k."""
    merges = []
    for k in range(n_merges):
        merges.append(best_pair(ids))
        ids = merge(ids, tuple(merges[-1]), first_new + k)
    return np.array(merges)


learning = exercise("tokens.learn", learn, built_on=(best_pair, merge), axes="M 2")


def _bytes(text):
    return np.frombuffer(text.encode(), np.uint8).astype(np.int64)


# Worked by hand: aaabdaaabac is the example of Wikipedia's page on byte-pair encoding; a is 97.
_wiki = _bytes("aaabdaaabac")
learning.case(
    "the first merge is the most frequent pair", _wiki, 1, want=[[97, 97]], what="learn of aaabdaaabac, 1"
)
learning.case(
    "the second is counted after the first was made, and new ids may be merged again",
    _wiki, 3, want=[[97, 97], [97, 98], [256, 257]], what="learn of aaabdaaabac, 3",
)  # fmt: skip
learning.case(
    "new ids begin at first_new", np.array([0, 1, 0, 1, 0, 1, 2, 0, 1, 0, 1]), 2, first_new=10,
    want=[[0, 1], [10, 10]], what="learn([0, 1, 0, 1, 0, 1, 2, 0, 1, 0, 1], 2, first_new=10)",
)  # fmt: skip


def _by_strings(text, n_merges):
    """The same with strings in place of ids: another way to compute it."""
    tokens, ids, merges = list(text), {chr(i): i for i in range(256)}, []
    for k in range(n_merges):
        pairs = Counter(itertools.pairwise(tokens))
        a, b = min(pairs, key=lambda pair: (-pairs[pair], ids[pair[0]], ids[pair[1]]))
        merges.append([ids[a], ids[b]])
        ids[a + b] = 256 + k
        joined: list[str] = []
        while tokens:
            joined.append("".join(tokens[:2]) if tokens[:2] == [a, b] else tokens[0])
            del tokens[: 2 if tokens[:2] == [a, b] else 1]
        tokens = joined
    return np.array(merges)


_rose = "rose is a rose is a rose is a rose"
learning.case(
    "a whole line", _bytes(_rose), 6, want=_by_strings(_rose, 6), what="learn of rose is a rose …, 6"
)


@learning.mistake("never merged")
def _(ids, n_merges, first_new=256):
    pairs = _counted(ids)
    return np.array(sorted(pairs, key=lambda p: (-pairs[p], p))[:n_merges])


@learning.mistake("not kept")
def _(ids, n_merges, first_new=256):
    return np.array([best_pair(ids)] * n_merges)


@learning.mistake("same new id")
def _(ids, n_merges, first_new=256):
    merges = []
    for _ in range(n_merges):
        merges.append(best_pair(ids))
        ids = merge(ids, tuple(merges[-1]), first_new)
    return np.array(merges)


learning.mistake("own first", lambda ids, n_merges, first_new=256: learn(ids, n_merges))
learning.mistake("backwards", lambda ids, n_merges, first_new=256: learn(ids, n_merges, first_new)[::-1])


@learning.mistake("one too many")
def _(ids, n_merges, first_new=256):
    return learn(ids, n_merges + 1, first_new)


@learning.mistake("from 257")
def _(ids, n_merges, first_new=256):
    return learn(ids, n_merges, first_new + 1)


# 9 · Encode with merges


def encode_pairs(
    ids: Integer[np.ndarray, " T"], merges: Integer[np.ndarray, "M 2"], first_new: int = 256
) -> Int[np.ndarray, " t"]:
    """The ids after all merges, made in the order in which they were learned; merge k makes first_new + k."""
    for k, pair in enumerate(merges):
        ids = merge(ids, tuple(pair), first_new + k)
    return ids


by_pairs = exercise("tokens.encode_pairs", encode_pairs, built_on=(merge,))

_merges = np.array([[1, 2], [3, 10], [2, 3]])  # with first_new=10: 10, 11, 12
by_pairs.case("merge k makes the id first_new + k", np.array([4, 1, 2]), _merges, first_new=10, want=[4, 10])
by_pairs.case(
    "a merge may use what an earlier one made", np.array([3, 1, 2, 5]), _merges, first_new=10, want=[11, 5]
)
by_pairs.case(
    "the merge that was learned first goes first, wherever it fits",
    np.array([2, 3, 1, 2]), _merges, first_new=10, want=[2, 11],
)  # fmt: skip
by_pairs.also(np.array([1, 2, 3]), _merges, first_new=10, want=[10, 3])
by_pairs.also(np.array([1, 2, 1, 2, 3, 1, 2]), _merges, first_new=10, want=[10, 10, 11])
by_pairs.case(
    "bytes, with new ids from 256 on", _bytes("aaabdaaabac"),
    np.array([[97, 97], [97, 98], [256, 257]]), want=[258, 100, 258, 97, 99],
    what="encode_pairs of aaabdaaabac",
)  # fmt: skip

by_pairs.mistake("not kept", lambda ids, merges, first_new=256: ids)
by_pairs.mistake("backwards", lambda ids, merges, first_new=256: _in_order(ids, merges, first_new, -1))
by_pairs.mistake(
    "first merge alone", lambda ids, merges, first_new=256: encode_pairs(ids, merges[:1], first_new)
)
by_pairs.mistake("own first", lambda ids, merges, first_new=256: encode_pairs(ids, merges))
by_pairs.mistake("from 257", lambda ids, merges, first_new=256: encode_pairs(ids, merges, first_new + 1))


def _in_order(ids, merges, first_new, step):
    for k in range(len(merges))[::step]:
        ids = merge(ids, tuple(merges[k]), first_new + k)
    return ids


@by_pairs.mistake("leftmost")
def _(ids, merges, first_new=256):
    ids, ranks = ids.tolist(), {tuple(pair): k for k, pair in enumerate(merges.tolist())}
    while fits := [i for i in range(len(ids) - 1) if (ids[i], ids[i + 1]) in ranks]:
        i = fits[0]
        ids[i : i + 2] = [first_new + ranks[ids[i], ids[i + 1]]]
    return np.array(ids)


@by_pairs.mistake("once each")
def _(ids, merges, first_new=256):
    ids = ids.tolist()
    for k, pair in enumerate(merges.tolist()):
        places = [i for i in range(len(ids) - 1) if ids[i : i + 2] == pair]
        for i in places[:1]:
            ids[i : i + 2] = [first_new + k]
    return np.array(ids)


# 10 · Bits per byte


def bits_per_byte(nats_per_token: float, n_tokens: int, n_bytes: int) -> float:
    """The loss that does not depend on how a text is cut into tokens."""
    return nats_per_token * n_tokens / math.log(2) / n_bytes


bits = exercise("tokens.bits_per_byte", bits_per_byte)

bits.case(
    "a guess among 256 bytes costs 8 bits",
    math.log(256),
    10,
    10,
    want=8.0,
    what="bits_per_byte(ln 256, 10, 10)",
)
bits.case(
    "half as many tokens as bytes", math.log(16), 50, 100, want=2.0, what="bits_per_byte(ln 16, 50, 100)"
)
bits.case("a token of three bytes, at 3 nats", 3.0, 7, 21, want=1.4426950408889634)
bits.case("characters of two bytes each", math.log(2), 5, 10, want=0.5, what="bits_per_byte(ln 2, 5, 10)")

bits.mistake("nats", lambda nats, n_tokens, n_bytes: nats * n_tokens / n_bytes)
bits.mistake("times ln 2", lambda nats, n_tokens, n_bytes: nats * n_tokens * math.log(2) / n_bytes)
bits.mistake("per token", lambda nats, n_tokens, n_bytes: nats / math.log(2))
bits.mistake("upside down", lambda nats, n_tokens, n_bytes: nats * n_bytes / math.log(2) / n_tokens)
bits.mistake("the whole text", lambda nats, n_tokens, n_bytes: nats * n_tokens / math.log(2))
bits.mistake("already summed", lambda nats, n_tokens, n_bytes: nats / math.log(2) / n_bytes)


# 11 · How surprised?


def surprise(logits: Float[np.ndarray, "T V"], targets: Integer[np.ndarray, " T"]) -> float:
    """The mean of −ln p(target), in nats, with p = softmax(logits)."""
    return float(cross_entropy(logits, targets))


loss = exercise("tokens.surprise", surprise, built_on=(cross_entropy,))

_zeros, _targets = np.zeros((3, 65)), np.array([0, 64, 7])
loss.case("65 alike: ln 65, whatever came", _zeros, _targets, want=math.log(65), being="ln 65")
_odds = np.log([[3.0, 1.0], [1.0, 1.0]])
loss.case(
    "three to one: −ln 3/4; even: −ln 1/2", _odds[:1], np.array([0]), want=math.log(4 / 3), being="ln 4/3"
)
loss.also(_odds[:1], np.array([1]), want=math.log(4), being="ln 4")
loss.also(_odds, np.array([0, 1]), want=(math.log(4 / 3) + math.log(2)) / 2, being="(ln 4/3 + ln 2) / 2")


@loss.check("a number added to a whole row changes nothing")
def _(surprise):
    logits, targets = numbers(4, 6), np.array([5, 0, 3, 3])
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    want = -np.log(np.prod([p[0, 5], p[1, 0], p[2, 3], p[3, 3]])) / 4
    expect(surprise(logits, targets), want, "surprise(logits, targets)")
    expect(surprise(logits + 5, targets), want, "surprise(logits + 5, targets)")


loss.case(
    "large logits: 1000 against 999 is e to one", np.array([[1000.0, 999.0]]), np.array([0]),
    want=math.log(1 + math.exp(-1)), what="the surprise of logits 1000 and 999, target 0,",
)  # fmt: skip
loss.also(
    np.array([[1000.0, 0.0]]), np.array([1]), want=1000.0,
    what="the surprise of logits 1000 and 0, target 1,",
)  # fmt: skip
loss.case(
    "each row for itself, however far apart the rows are", np.array([[1000.0, 999.0], [0.0, 0.0]]),
    np.array([0, 1]), want=(math.log(1 + math.exp(-1)) + math.log(2)) / 2,
    what="the surprise of logits [[1000, 999], [0, 0]], targets [0, 1],",
)  # fmt: skip


def _nats(logits, targets):
    shifted = _shifted(logits)
    return np.log(np.exp(shifted).sum(axis=-1)) - shifted[np.arange(len(targets)), targets]


def _shifted(logits):
    return logits - logits.max(axis=-1, keepdims=True)


@np.errstate(all="ignore")
def _directly(logits, targets, axis=1, besides=0.0):
    p = np.exp(logits) / np.exp(logits).sum(axis=axis, keepdims=True)
    return -np.log(p[np.arange(len(targets)), targets] + besides).mean()


loss.mistake("overflow", _directly)
loss.mistake("log of p", lambda logits, targets: _directly(_shifted(logits), targets))
loss.mistake("log of p", lambda logits, targets: _directly(_shifted(logits), targets, besides=1e-12))
loss.mistake("one maximum", lambda logits, targets: _directly(logits - logits.max(), targets))
loss.mistake("clipped", lambda logits, targets: _nats(np.clip(logits, -50, 50), targets).mean())
loss.mistake("columns", lambda logits, targets: _directly(logits, targets, axis=0))
loss.mistake(
    "every target",
    lambda logits, targets: np.mean([_nats(logits, np.full_like(targets, one)) for one in targets]),
)
loss.mistake("no sign", lambda logits, targets: -_nats(logits, targets).mean())
loss.mistake("bits", lambda logits, targets: _nats(logits, targets).mean() / math.log(2))
loss.mistake("sum", lambda logits, targets: _nats(logits, targets).sum())
loss.mistake("no softmax", lambda logits, targets: -logits[np.arange(len(targets)), targets].mean())
loss.mistake("probability", lambda logits, targets: np.exp(-_nats(logits, targets)).mean())
loss.mistake(
    "mean of p",
    np.errstate(all="ignore")(lambda logits, targets: -np.log(np.exp(-_nats(logits, targets)).mean())),
)
loss.mistake("first target", lambda logits, targets: _nats(logits, np.full_like(targets, targets[0])).mean())


# 12 · Who is near?


def nearest(table: Float[np.ndarray, "V D"], row: int) -> Int[np.ndarray, " _"]:
    """All other rows by their cosine with this one, the most alike first."""
    directions = table / np.linalg.norm(table, axis=1, keepdims=True)
    order = np.argsort(-(directions @ directions[row]))
    return order[order != row]


near = exercise("tokens.nearest", nearest, axes="V−1")

# Directions in the plane, and lengths that say nothing of them.
_angles, _lengths = np.deg2rad([0.0, 100, 20, 175, 55]), np.array([1.0, 9, 0.5, 2, 4])
_table = _lengths[:, None] * np.stack([np.cos(_angles), np.sin(_angles)], axis=1)
near.shape("all the others, and not the row itself", _table, 0, want=(4,))
near.case("by direction: 20°, 55°, 100° and 175° away", _table, 0, want=[2, 4, 1, 3])
near.also(_table, 1, want=[4, 3, 2, 0], what="the rows nearest to the one at 100°")
near.case("however long a row is", _table * np.array([[5.0], [1], [30], [0.1], [1]]), 0, want=[2, 4, 1, 3])
near.also(_table * np.array([[1.0], [1], [0.01], [9], [1]]), 4, want=[2, 1, 0, 3])
near.case(
    "in any number of dimensions",
    np.array([[1.0, 0, 0], [0, 1, 0.1], [1, 1, 0], [-1, 0, 0], [0.9, 0.1, 0]]),
    0,
    want=[4, 2, 1, 3],
)
near.case(
    "the row that is left out is the row itself, also where another points the very same way",
    np.array([[1.0, 0, 0], [2, 0, 0], [1, 1, 0], [0, 0, 3]]), 1, want=[0, 2, 3],
)  # fmt: skip

near.mistake("itself", lambda table, row: np.append(row, nearest(table, row)))
near.mistake("farthest first", lambda table, row: nearest(table, row)[::-1])


def _cosines(table, row):
    return table @ table[row] / np.linalg.norm(table, axis=1) / np.linalg.norm(table[row])


def _sorted_by(likeness, row):
    order = np.argsort(-likeness, kind="stable")
    return order[order != row]


near.mistake("first dropped", lambda table, row: np.argsort(-_cosines(table, row), kind="stable")[1:])
near.mistake("shifted", lambda table, row: np.argsort(-np.delete(_cosines(table, row), row)))
near.mistake("dot product", lambda table, row: _sorted_by(table @ table[row], row))
near.mistake("distance", lambda table, row: _sorted_by(-np.linalg.norm(table - table[row], axis=1), row))
near.mistake(
    "signs lost",
    lambda table, row: _sorted_by(np.abs(table @ table[row]) / np.linalg.norm(table, axis=1), row),
)
near.mistake("first only", lambda table, row: nearest(table, row)[:1])
near.mistake(
    "cosines", lambda table, row: np.sort(table @ table[row] / np.linalg.norm(table, axis=1))[::-1][1:]
)
