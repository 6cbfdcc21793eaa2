"""A recipe: a small file with three parts that says what is trained and how.

    [data]                      [model]                     [training]
    tokenizer = "characters"    d_model = 128               steps = 2000
    length = 64                 n_layers = 4                batch_size = 12
                                n_heads = 4                 learning_rate = 1e-3

The fields of [model] are those of `ModelConfig`, except the two sizes that follow from the data, and those of
[training] are those of `TrainingConfig`. An encoder–decoder learns from pairs: `pairs = "dates"` in [data], or the
name of a file with pairs, one per line, in TSV or JSONL (`own_files`).

Instead of the fields of a new model, [model] may name a model to begin with, `from = "shakespeare"`. The run then
keeps its weights, its configuration and its tokenizer.
"""

import json
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields, replace
from importlib import resources
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np

from glassformer import _checks as checks
from glassformer.config import ModelConfig
from glassformer.dates import DatePair, date_pairs
from glassformer.tasks import MaskedToken, NextToken, Pairs
from glassformer.text import BytePairTokenizer, CharTokenizer
from glassformer.train.config import TrainingConfig
from glassformer.train.own_files import PAIR_FILES, OwnText, TextPair, ids_of, read_pairs
from glassformer.untrusted_files import no_address, toml_tables

__all__ = ["NAMES", "DataConfig", "Recipe", "doubts", "special_ids", "toml_of", "toml_value"]
__dir__ = __all__.copy

NAMES = ("modern", "baseline", "portable", "shakespeare", "words", "experts", "masked", "dates")
"""The book's recipes: two to compare, one whose model transformers opens, and one for each model of the book."""

FURTHER = "further"
"""The recipe for training a model further; it describes no model of its own."""

FROM = "from"  # in [model]: what `pretrained.load` opens
TOKENIZERS = ("characters", "bytepairs")
FROM_THE_DATA = ("vocab_size", "context_length")
PAIRS = {"dates": date_pairs}
DRAWN_AT = 0.02  # the standard deviation of new token vectors, with either `init`
NORMED_SCALE = 2.4  # the book's scale of attention for normalized queries and keys, times √d_head
TOO_SMALL = 0.1  # tokens below this fraction of the sinusoids' size are as good as invisible
LISTED = 40  # how many unknown characters a message lists at most
SPECIAL = {"decoder": (), "encoder": ("mask",), "encoder-decoder": ("start", "stop")}


def special_ids(family: str, n_own: int) -> dict[str, int]:
    """Returns the ids that stand for no text, by name; they follow a tokenizer's `n_own` ids.

    An encoder has "mask", which hides a token. An encoder–decoder has "start", where the decoder begins, and
    "stop", which ends its text.

    Raises:
        ValueError: there is no such family.
    """
    checks.one_of("family", family, SPECIAL)
    return {name: n_own + i for i, name in enumerate(SPECIAL[family])}


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """Describes how a text becomes the input of a model.

    Attributes:
        text: The path of a text file or of a folder with such files, or a list of them. None: the book's Shakespeare.
        document_end: What stands between two documents, that is, files: with byte pairs a text such as "<|endoftext|>",
            which becomes one id, and with characters one character. A model stops writing at it. None: a line break.
        pairs: "dates" generates pairs of texts, for an encoder–decoder; or a .tsv or .jsonl file. None: a text.
        tokenizer: "characters" or "bytepairs". None: that of the model which the run begins with.
        vocab_size: The size of the vocabulary, for byte pairs only. None: it follows from the characters.
        length: The length of a window and of the model's context.
        validation: The fraction of the text, at its end, that is held out for making choices; 0 for none.
        test: The fraction after that, at the very end, which is evaluated once when the run is done.

    Raises:
        ValueError: a field is out of range; `vocab_size` is given without byte pairs or missing with them; or
            `pairs` is combined with a text or with byte pairs, or is neither a name nor a file of pairs.
        TypeError: a field holds the wrong kind of thing.
    """

    text: str | list[str] | None = None
    document_end: str | None = None
    pairs: str | None = None
    tokenizer: str | None = "characters"
    vocab_size: int | None = None
    length: int = 64
    validation: float = 0.1
    test: float = 0.0

    def __post_init__(self) -> None:
        if self.text is not None:
            several = isinstance(self.text, list)
            for i, name in enumerate(self.text if several else [self.text]):
                checks.instance(f"text[{i}]" if several else "text", name, str)
            if not self.text or (several and "" in self.text):
                raise ValueError(f"text={self.text!r} is empty: name a text file, or leave it out")
        if self.tokenizer is not None:
            checks.one_of("tokenizer", self.tokenizer, TOKENIZERS)
        if self.pairs is not None:
            if not (isinstance(self.pairs, str) and os.path.splitext(self.pairs)[1] in PAIR_FILES):
                checks.one_of(
                    "pairs", self.pairs, [*PAIRS, *(f"a file that ends in {end}" for end in PAIR_FILES)]
                )
            for name, plain in (
                ("text", (None,)),
                ("document_end", (None,)),
                ("tokenizer", ("characters", None)),
            ):
                if getattr(self, name) not in plain:
                    raise ValueError(
                        f"{name}={getattr(self, name)!r} does not go with pairs={self.pairs!r}, which are read "
                        "instead of a text and consist of characters"
                    )
        if self.document_end is not None:
            checks.instance("document_end", self.document_end, str)
            if not self.document_end or (self.tokenizer == "characters" and len(self.document_end) > 1):
                raise ValueError(
                    f'document_end={self.document_end!r} must be one character with tokenizer="characters", and a text '
                    'such as "<|endoftext|>" with byte pairs'
                )
        if (self.vocab_size is not None) != (self.tokenizer == "bytepairs"):
            raise ValueError(
                f'vocab_size={self.vocab_size} with tokenizer="{self.tokenizer}": byte pairs need the size of '
                "their vocabulary, and for characters it follows from the text"
            )
        checks.whole("length", self.length)
        checks.not_negative("validation", self.validation)
        checks.not_negative("test", self.test)


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """Describes what to train and how, for any text; `made_for` a text returns tokenizer, task and configuration.

    Derived in chapter 10.

    Attributes:
        data: How a text becomes the input of a model.
        model: Fields of `ModelConfig`; or "from", and any others then agree with that model's.
        training: How the model is trained.
    """

    data: DataConfig
    model: Mapping[str, Any]
    training: TrainingConfig

    @classmethod
    def from_toml(cls, text: str, changes: Sequence[str] = ()) -> "Recipe":
        """Returns the recipe in a file, with `changes` such as "training.steps=500" applied to it.

        "model.attention_scale=", without a value, takes the entry out, so that the field has its default.

        Raises:
            ValueError: the text is not TOML, or a part, field or change is unknown or breaks a rule.
            TypeError: a field holds the wrong kind of thing.
        """
        given = toml_tables(text, "the recipe")
        parts = [f.name for f in fields(cls)]
        for name, value in given.items():
            if name not in parts or not isinstance(value, dict):
                raise ValueError(f"[{name}] is not a part of a recipe; its parts are {', '.join(parts)}")
        parts_given = {part: dict(given.get(part, {})) for part in parts}
        unset: dict[str, list[str]] = {part: [] for part in parts}
        for change in changes:
            part, field, value = _parsed(change, parts)
            if value is None:
                unset[part].append(field)
                parts_given[part].pop(field, None)
            else:
                parts_given[part][field] = value
        data, model, training = (parts_given[part] for part in parts)
        checks.fields("[data]", [*data, *unset["data"]], [f.name for f in fields(DataConfig)])
        known = [f for f in fields(ModelConfig) if f.name not in FROM_THE_DATA]
        required = [f.name for f in known if f.default is MISSING]
        if FROM in model:
            checks.instance(FROM, model[FROM], str)
            data.setdefault("tokenizer", None)
            required = []
        names = [FROM, *(f.name for f in known)]
        if "context_length" in (*model, *unset["model"]):
            raise ValueError("[model] has no field 'context_length': it is length in [data]")
        checks.fields("[model]", [*model, *unset["model"]], names)
        checks.fields("[model]", model, names, required)
        checks.fields("[training]", unset["training"], [f.name for f in fields(TrainingConfig)])
        return cls(data=DataConfig(**data), model=model, training=TrainingConfig.from_fields(training))

    @classmethod
    def of_the_book(cls, name: str, changes: Sequence[str] = ()) -> "Recipe":
        """Returns the book's recipe of that name, with changes as for `from_toml`.

        Raises:
            ValueError: there is no such recipe, or a change breaks a rule.
            TypeError: a field holds the wrong kind of thing.
        """
        return cls.from_toml(toml_of(name), changes)

    def to_toml(self) -> str:
        """Returns the recipe as the text of a file, with the value of every field of [data] and [training]."""
        parts = {"data": asdict(self.data), "model": self.model, "training": asdict(self.training)}
        lines = []
        for part, values in parts.items():
            given = {name: value for name, value in values.items() if value is not None}
            lines += [f"[{part}]", *(f"{name} = {toml_value(value)}" for name, value in given.items()), ""]
        return "\n".join(lines)

    def with_whole_path(self) -> "Recipe":
        """Returns the same recipe with the absolute paths of its files, so that it works from every folder."""
        text, pairs = self.data.text, self.data.pairs
        for name in [text] if isinstance(text, str) else text or []:
            no_address(name)
        if isinstance(text, list):
            text = [os.path.abspath(name) for name in text]
        elif text is not None:
            text = os.path.abspath(text)
        if pairs is not None and pairs not in PAIRS:
            no_address(pairs)
            pairs = os.path.abspath(pairs)
        return replace(self, data=replace(self.data, text=text, pairs=pairs))

    def made_for(
        self, text: str | Iterable[str], begins_with: Any = None, ids_file: Path | None = None
    ) -> tuple[CharTokenizer | BytePairTokenizer, NextToken | MaskedToken | Pairs, ModelConfig]:
        """Returns the tokenizer of a text, the task of learning it, and the configuration of a suitable model.

        A decoder learns which token comes next, an encoder which tokens were hidden at chosen positions, and
        an encoder–decoder one text of a pair from the other. If there are pairs, `text` is ignored.
        Ids that stand for no text are those of `special_ids`.

        A text that may not fit into memory is an `own_files.OwnText`; if its ids are many, they are kept in `ids_file`.

        A recipe with `from` needs `begins_with`, what `pretrained.load` or `pretrained.stored` opened: its tokenizer,
        its special ids and its configuration are kept, and windows may be shorter than its context.

        Raises:
            FileNotFoundError: there is no such file of pairs.
            ValueError: an encoder–decoder has no pairs, or another family has them; the text is too short; a pair is
                too long or is none, and the message names its line; the configuration breaks a rule; or what the
                recipe says of model or tokenizer is not what `begins_with` has, or its tokenizer lacks a character.
        """
        if (FROM in self.model) != (begins_with is not None):
            raise ValueError(
                "begins_with is for a recipe whose [model] has from, and such a recipe needs it: "
                f"from={self.model.get(FROM)!r}, and begins_with is {'missing' if begins_with is None else 'given'}"
            )
        own = None if begins_with is None else self._kept_of(begins_with)
        family = self.model.get("family", "decoder") if begins_with is None else begins_with.config.family
        if family == "encoder-decoder" and self.data.pairs is None:
            raise ValueError(
                'family="encoder-decoder" learns from pairs of texts, but there is only one text: --set '
                "data.pairs=FILE names your own, a .tsv or .jsonl file, and --set data.pairs=dates the book's dates"
            )
        if family != "encoder-decoder" and self.data.pairs is not None:
            raise ValueError(f'pairs={self.data.pairs!r} needs family="encoder-decoder", not {family!r}')
        pairs = [] if self.data.pairs is None else self._pairs(self.data.pairs)
        texts = [*(pair.source for pair in pairs), *(pair.target for pair in pairs)]
        whole = "".join(texts) if pairs else text
        parts = [whole] if isinstance(whole, str) else whole
        characters: set[str] = set()
        for part in parts:
            characters.update(part)
        if len(characters) == 1:
            raise ValueError(
                f"the text consists of {characters.pop()!r} alone, so there is nothing to predict: it needs two "
                "different characters"
            )
        if own is not None:
            tokenizer = own
            _check_known(parts, characters, tokenizer)
        elif self.data.tokenizer == "characters":
            tokenizer = CharTokenizer.from_text("".join([*characters, self.data.document_end or ""]))
        else:
            assert self.data.vocab_size is not None  # DataConfig has checked this
            ends = [] if self.data.document_end is None else [self.data.document_end]
            tokenizer = BytePairTokenizer.from_text(parts, self.data.vocab_size, ends)
        V = tokenizer.vocab_size
        special = getattr(begins_with, "special_ids", None)
        if special is None or not set(SPECIAL[family]) <= set(special):
            special = special_ids(family, V)
        if self.data.document_end is not None:
            special = special | {"stop": _document_end_of(tokenizer, self.data.document_end)}
            if isinstance(tokenizer, CharTokenizer) and isinstance(text, OwnText):
                text.check_end()
        needed = max([V, *(i + 1 for i in special.values())])
        sizes: dict[str, Any] = {"vocab_size": needed, "context_length": self.data.length}
        config = ModelConfig(**{**self.model, **sizes}) if begins_with is None else begins_with.config
        if needed > config.vocab_size:
            more = f", and needs one more for each of {', '.join(special)}" if special else ""
            raise ValueError(
                f"the tokenizer of {self.model[FROM]} has {V} ids{more}, but its vocab_size={config.vocab_size}: it "
                "was trained otherwise, so `train` cannot train it further"
            )

        seen = (self.training.batch_size, self.training.seed)
        held_out = {"validation": self.data.validation, "test": self.data.test}
        if family == "encoder-decoder":
            # Encode all texts at once, then split the ids again
            ids = np.split(ids_of(tokenizer, parts), np.cumsum([len(text) for text in texts])[:-1])
            sources, targets = ids[: len(pairs)], ids[len(pairs) :]
            start, stop = special["start"], special["stop"]
            # Padding is never attended to, so it needs no id of its own.
            task = Pairs(sources, targets, *seen, start_id=start, stop_id=stop, pad_id=stop, **held_out)
            return tokenizer, task, config
        given = (ids_of(tokenizer, parts, ids_file), self.data.length, *seen)
        if family == "encoder":
            return tokenizer, MaskedToken(*given, mask_id=special["mask"], **held_out), config
        return tokenizer, NextToken(*given, **held_out, stop_id=special.get("stop")), config

    def _kept_of(self, begins_with: Any) -> CharTokenizer | BytePairTokenizer:
        """Returns the tokenizer of the model that training begins with, if the recipe asks for nothing else."""
        name, config, tokenizer = self.model[FROM], begins_with.config, begins_with.tokenizer
        if tokenizer is None:
            raise ValueError(f"from={name!r}: it has no tokenizer, so a text cannot become its ids")
        if not isinstance(
            tokenizer, CharTokenizer | BytePairTokenizer
        ):  # the library's, from a folder of the hub
            try:
                tokenizer = BytePairTokenizer.from_json(tokenizer.to_str())
            except ValueError as error:
                raise ValueError(
                    f"from={name!r}: checkpoints keep characters and byte pairs as GPT-2's, and its tokenizer is "
                    f"of another kind: {error}"
                ) from None
        has = {f"model.{field}": getattr(config, field) for field in self.model if field != FROM}
        asked = {f"model.{field}": value for field, value in self.model.items() if field != FROM}
        if self.data.tokenizer is not None:
            pairs = isinstance(tokenizer, BytePairTokenizer)
            has |= {"data.tokenizer": TOKENIZERS[pairs]}
            has |= {"data.vocab_size": tokenizer.vocab_size if pairs else None}
            asked |= {"data.tokenizer": self.data.tokenizer, "data.vocab_size": self.data.vocab_size}
        for field, value in asked.items():
            if value != has[field]:
                raise ValueError(
                    f"{field}={value!r}, but {name} has {has[field]!r}: a run keeps the configuration and the "
                    "tokenizer of the model that it begins with, so leave this out"
                )
        if self.data.length > config.context_length:
            raise ValueError(
                f"data.length={self.data.length} must be at most context_length={config.context_length} of {name}"
            )
        return tokenizer

    def _pairs(self, name: str) -> Sequence[DatePair | TextPair]:
        """Returns the pairs of that name or in that file, each of which fits into the context."""
        if name in PAIRS:
            return PAIRS[name]()
        pairs = read_pairs(name)
        for i, (source, target) in enumerate(pairs, start=1):
            needed = max(len(source), len(target) + 1)  # the decoder also reads its start
            if needed > self.data.length:
                raise ValueError(
                    f"{name}, line {i} needs length={needed}, but length={self.data.length} in [data]"
                )
        return pairs


def _check_known(
    parts: Iterable[str], characters: set[str], tokenizer: CharTokenizer | BytePairTokenizer
) -> None:
    """Checks that a tokenizer of characters knows those of a text."""
    if isinstance(tokenizer, BytePairTokenizer) or not (unknown := characters - set(tokenizer.characters)):
        return
    line = column = 1
    for part in parts:
        before = "".join(takewhile(lambda character: character not in unknown, part))
        line += before.count("\n")
        column = len(before) - before.rfind("\n") if "\n" in before else column + len(before)
        if before != part:
            listed = " ".join(map(repr, sorted(unknown)[:LISTED])) + " …" * (len(unknown) > LISTED)
            raise ValueError(
                f"{part[len(before)]!r} (line {line}, character {column} of the text) is not one of the "
                f"{tokenizer.vocab_size} characters that the model knows; of all characters of the text, it lacks "
                f"{len(unknown)}: {listed}; replace them"
            )


def _document_end_of(tokenizer: CharTokenizer | BytePairTokenizer, end: str) -> int:
    """Returns the id of the end of a document."""
    if isinstance(tokenizer, BytePairTokenizer):
        kind, ids = "special tokens", tokenizer.special_tokens
    else:
        kind, ids = "characters", {character: i for i, character in enumerate(tokenizer.characters)}
    if end not in ids:
        known = checks.shown("".join(f" {each!r}" for each in ids), checks.MESSAGE)
        raise ValueError(
            f"document_end={end!r} is not one of the {len(ids)} {kind} of the model's tokenizer:{known}"
        )
    return ids[end]


def doubts(config: ModelConfig) -> list[str]:
    """Returns a sentence for each choice that is allowed, but is likely to be a mistake in a new model.

    There are two such choices: sinusoids, whose root mean square is √½, added to much smaller token vectors; and, with
    norms of queries and keys, a scale of attention that belongs to another width of the heads.

    The first is measured in chapter 04.
    """
    found = []
    size, waves = DRAWN_AT * config.embedding_scale, math.sqrt(0.5)
    if config.positions == "sinusoidal" and size < TOO_SMALL * waves:
        found.append(
            f"embedding_scale={config.embedding_scale:g} makes token vectors of size {size:.2g}, and the sinusoids "
            f"added to them have size {waves:.2g}: the model can hardly see its tokens and learns very slowly. Try a "
            f"larger model.embedding_scale ({waves / DRAWN_AT:.3g} makes both equally large at first), and compare the "
            "sizes again after some training, because token vectors grow"
        )
    factor = config.attention_scale * math.sqrt(config.d_head)
    usual = any(math.isclose(factor, one, rel_tol=0.01) for one in (1, NORMED_SCALE))
    if config.qk_norm is True and config.kinds is None and not usual:
        found.append(
            f"attention_scale={config.attention_scale:g} is {factor:.2g}/√d_head with d_head={config.d_head}, and the "
            f"book's recipes that normalize queries and keys have {NORMED_SCALE}/√d_head: "
            f"--set model.attention_scale={NORMED_SCALE / math.sqrt(config.d_head):.4g}"
        )
    return found


def toml_value(value: Any) -> str:
    """Writes a number, boolean, string or list of them in TOML, which has no None.

    Raises:
        ValueError: a string contains half a surrogate pair, which UTF-8 cannot encode.
    """
    written = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # JSON's, with one exception
    try:
        written.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{value!r} cannot be written in UTF-8") from None
    return written


def toml_of(name: str) -> str:
    """Returns the file of one of the book's recipes.

    Raises:
        ValueError: there is no such recipe.
    """
    checks.one_of("name", name, (*NAMES, FURTHER))
    return (resources.files("glassformer") / "assets" / "recipes" / f"{name}.toml").read_text(
        encoding="utf-8"
    )


def _parsed(change: str, parts: Sequence[str]) -> tuple[str, str, Any]:
    """Splits `training.steps=500` into a part, a field and a value: a number, true or false, a word, or None."""
    change = change.strip("\r\n")  # of a script with Windows' line ends
    name, equals, value = change.partition("=")
    part, dot, field = name.strip().partition(".")
    if len(change.splitlines()) > 1:  # TOML would read the second line as another entry
        raise ValueError(f"{change!r} is not a change: it has a line break; write each change by itself")
    if not equals or not dot or part not in parts:
        raise ValueError(
            f"{change!r} is not a change: write PART.FIELD=VALUE, where PART is one of {', '.join(parts)}"
        )
    if not value.strip():
        return part, field, None
    try:
        return part, field, toml_tables(f"value = {value}", change)["value"]
    except ValueError:
        word = value.strip()
        if word[:1] + word[-1:] in ("[]", "{}"):  # no word, but a list or a table in which something is wrong
            raise
        if word in ("True", "False"):  # as Python writes them
            return part, field, word == "True"
        if word.lstrip("+-").isdecimal() and len(word) < 300:
            raise ValueError(f"{name.strip()}={word!r} is not a number as TOML writes it") from None
        return part, field, _too_large(word) or word


def _too_large(value: str) -> float | int | None:
    """Returns a number that TOML refuses as inf, -inf, nan or a huge integer, so that messages treat it as a number."""
    if value.lstrip("+-").isdecimal():  # more digits than Python reads
        return -(10**400) if value.startswith("-") else 10**400
    try:
        number = float(value)
    except ValueError:
        return None
    return None if math.isfinite(number) else number
