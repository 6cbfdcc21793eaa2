"""The models that come with the book: train them, measure them, write their files and their page.

    python tools/models.py             all of them, each from its recipe in assets/recipes
    python tools/models.py dates       one of them
    python tools/models.py --measure   train nothing: measure them again, and write their cards and page
    python tools/models.py --page      only book/models.md, from the cards
    python tools/models.py dates --set training.steps=20 --to FOLDER     a short try; the page stays as it is

On one machine, the same command writes the same bytes. What is measured is the model that readers load: its
weights are rounded to float16 first.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

os.environ["OMP_NUM_THREADS"] = "1"  # sums come out the same however many processors there are

import numpy as np
import torch
from safetensors.numpy import load as arrays_from
from safetensors.numpy import save as bytes_of

from glassformer import nn, shipped, text
from glassformer.checkpoints import MODEL, TOKENIZER, checksum_of, model_of, own_checksum_of
from glassformer.config import ModelConfig
from glassformer.dates import TARGET_PLACES, date_pairs
from glassformer.generate import generate
from glassformer.tasks import NO_TARGET, NextToken
from glassformer.trace import trace
from glassformer.train import Trainer, validation_loss
from glassformer.train.recipe import Recipe, special_ids, toml_of

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "book" / "models.md"
DIGITS = 4  # of what is measured

SHAKESPEARE = """About a million characters of Shakespeare's plays (Andrej Karpathy's "tinyshakespeare"), which are \
in the public domain. The last 10 % are kept for validation."""


# Train


class Made(NamedTuple):
    """A model, what it learned from, and how."""

    name: str
    recipe: Recipe
    tokenizer: Any
    task: Any
    config: ModelConfig
    weights: dict[str, np.ndarray]  # float16


def made(name: str, changes: list[str], place: Path | None = None) -> Made:
    """The model that its recipe makes; or, of such a model that was made before, what lies in `place`."""
    recipe = Recipe.of_the_book(name, [*changes, "training.device=cpu"])
    tokenizer, task, config = recipe.made_for(text.corpus())
    before = None if place is None else arrays_from((place / name / MODEL).read_bytes())
    weights = trained(recipe, task, config) if before is None else before
    return Made(name, recipe, tokenizer, task, config, weights)


def trained(recipe: Recipe, task: Any, config: ModelConfig) -> dict[str, np.ndarray]:
    """The weights after training, rounded. Where a running average is kept, it is taken."""
    model = nn.Transformer(config, generator=torch.Generator().manual_seed(recipe.training.seed))
    trainer = Trainer(model, task, recipe.training)
    trainer.run()
    if trainer.was_interrupted:
        sys.exit("interrupted: nothing is written")
    weights = trainer.average or dict(model.named_parameters())
    return {name: weight.detach().numpy().astype(np.float16) for name, weight in weights.items()}


# Write


def keep(one: Made, changes: list[str], place: Path) -> dict[str, Any]:
    """Measures a model, writes its folder within `place`, and gives its card."""
    about, config = ABOUT[one.name], one.config
    files = {
        MODEL: bytes_of(one.weights),
        shipped.CONFIG: f"{config.to_json()}\n".encode(),
        TOKENIZER: f"{one.tokenizer.to_json()}\n".encode(),
    }
    sizes = {"characters": one.tokenizer.vocab_size, "context_length": config.context_length}
    ids = special_ids(config.family, one.tokenizer.vocab_size)
    model = model_of(config, one.weights, room="nn")
    card = {
        "name": one.name,
        "title": about.title,
        "what": about.what,
        "family": config.family,
        "parameters": config.parameter_count().total,
        **sizes,
        "ids": ids,
        "bytes": sum(map(len, files.values())),
        "data": about.data,
        "recipe": tomllib.loads(toml_of(one.name)),
        "changes": changes,  # to the recipe: none, in the book
        "averaged": one.recipe.training.ema is not None,
        **about.measured(model, one.tokenizer, one.task, ids),
        "limits": [limit.format(**sizes) for limit in about.limits],
        "made_with": {"torch": torch.__version__.split("+")[0], "numpy": np.__version__},
        "files": {file: checksum_of(content) for file, content in files.items()},
    }
    files[shipped.CARD] = _json(card | {"checksum": own_checksum_of(card)}).encode()
    write(place / one.name, files)
    return card


def write(folder: Path, files: dict[str, bytes]) -> None:
    """Puts the files in the folder: all are there, or what was there before."""
    new, old = (folder.with_name(f".{kind}-{folder.name}") for kind in ("new", "old"))
    if old.exists() and not folder.exists():
        os.replace(old, folder)
    for left in (new, old):
        shutil.rmtree(left, ignore_errors=True)
    new.mkdir(parents=True)
    for name, content in files.items():
        (new / name).write_bytes(content)
    if folder.exists():
        os.replace(folder, old)
    os.replace(new, folder)  # an interruption just before leaves what was there under its other name
    shutil.rmtree(old, ignore_errors=True)


# Measure


def measured_decoder(
    model: nn.Transformer, tokenizer: Any, task: NextToken, ids: dict[str, int]
) -> dict[str, Any]:
    """The loss at the model's own context and at 64 characters, landmarks, and a text."""
    everything = np.concatenate([task.ids, task.held_out])
    short = NextToken(everything, min(64, task.length), task.batch_size, task.seed)
    begins, n_new, seed = "ROMEO:\n", 400, 0
    [sample] = generate(
        model,
        tokenizer.encode(begins),
        n_new,
        generator=np.random.default_rng(seed),
        temperature=0.8,
        past_context="slide",
    )
    return {
        "losses": {
            f"{task.length} characters": round(validation_loss(model, task), DIGITS),
            f"{short.length} characters": round(validation_loss(model, short), DIGITS),
        },
        "landmarks": landmarks(task.held_out, tokenizer.vocab_size),
        "sample": {
            "prompt": begins,
            "n_new": n_new,
            "temperature": 0.8,
            "seed": seed,
            "text": tokenizer.decode(sample),
        },
    }


def landmarks(ids: np.ndarray, vocab_size: int) -> dict[str, float]:
    """What guessing costs, in nats a character: blindly, by how frequent each is, by the one before.

    The counts are those of `ids` themselves. So it costs less than with counts from elsewhere: no guess can do better.
    """
    single = np.bincount(ids, minlength=vocab_size)
    pairs = np.bincount(ids[:-1] * vocab_size + ids[1:])
    # The entropy of a pair is that of its first character, and then of the second when the first is known.
    found = {
        "every character alike": np.log(vocab_size),
        "how frequent each character is": entropy(single),
        "the character before": entropy(pairs) - entropy(np.bincount(ids[:-1])),
    }
    return {what: round(float(nats), DIGITS) for what, nats in found.items()}


def entropy(counts: np.ndarray) -> float:
    """−Σ p ln p, in nats."""
    p = counts[counts > 0] / counts.sum()
    return float(-(p * np.log(p)).sum())


@torch.no_grad()
def measured_encoder(model: nn.Transformer, tokenizer: Any, task: Any, ids: dict[str, int]) -> dict[str, Any]:
    """How often the right character is the likeliest, and the loss; and some lines, covered and filled in."""
    right = asked = likely = 0
    most_frequent = np.bincount(task.ids).argmax()
    for inputs, targets in task.validation():
        said = model(torch.from_numpy(inputs["ids"])).argmax(dim=-1).numpy()
        right += int((said == targets).sum())
        likely += int((most_frequent == targets).sum())
        asked += int((targets != NO_TARGET).sum())
    found = landmarks(task.held_out, tokenizer.vocab_size)

    inputs, targets = next(task.validation())
    windows, lines = np.where(targets == NO_TARGET, inputs["ids"], targets)[:4], []
    covered = np.random.default_rng(0).random(windows.shape) < task.share
    filled = model(torch.from_numpy(np.where(covered, ids["mask"], windows).astype(np.int64)))
    filled = np.where(covered, filled.argmax(dim=-1).numpy(), windows)
    for window, hidden, guess in zip(windows, covered, filled, strict=True):
        shown = "".join("_" if h else c for c, h in zip(tokenizer.decode(window), hidden, strict=True))
        lines.append([shown, tokenizer.decode(guess), tokenizer.decode(window)])
    return {
        "losses": {"covered characters": round(validation_loss(model, task), DIGITS)},
        "landmarks": {
            what: found[what] for what in ("every character alike", "how frequent each character is")
        },
        "accuracy": {
            "right": round(right / asked, DIGITS),
            "always the most frequent": round(likely / asked, DIGITS),
            "asked": asked,
        },
        "sample": lines,
    }


@torch.no_grad()
def measured_pairs(model: nn.Transformer, tokenizer: Any, task: Any, ids: dict[str, int]) -> dict[str, Any]:
    """How many dates come out right, to the last digit, and where the decoder looks meanwhile."""

    def read(sources: list[str]) -> list[str]:
        encoded = [tokenizer.encode(source) for source in sources]
        found = generate(
            model, None, 11, temperature=0, source=encoded, start_id=ids["start"], stop_ids=[ids["stop"]]
        )
        return [tokenizer.decode(out[(out != ids["start"]) & (out != ids["stop"])]) for out in found]

    everything = date_pairs()
    pairs = [everything[i] for i in task.held_out]
    answers = []
    for first in range(0, len(pairs), 256):
        answers += read([pair.source for pair in pairs[first : first + 256]])
    wrong = [
        [pair.source, answer, pair.target]
        for pair, answer in zip(pairs, answers, strict=True)
        if answer != pair.target
    ]
    return {
        "losses": {"held-out dates": round(validation_loss(model, task), DIGITS)},
        "accuracy": {
            "right": round(1 - len(wrong) / len(pairs), DIGITS),
            "wrong": len(wrong),
            "asked": len(pairs),
        },
        "mistakes": wrong[:5],
        "alignment": alignment(model, task, pairs),
        "sample": [list(row) for row in zip(STRANGE, read(list(STRANGE)), STRANGE.values(), strict=True)],
    }


def alignment(model: nn.Transformer, task: Any, pairs: list[Any]) -> dict[str, Any]:
    """How often a head, while the year is being written, looks most at the year in the source; month, day alike.

    For each part a list of layers, each a list of heads; and the part of the source that it takes up: what a
    head that looks anywhere would have.
    """
    hits: dict[str, Any] = dict.fromkeys(TARGET_PLACES, 0)
    for first, (inputs, _) in zip(range(0, len(pairs), task.batch_size), task.validation(), strict=True):
        with trace() as seen:
            model(**{name: torch.from_numpy(array) for name, array in inputs.items()})
        # (layers, B, H, T): the position in the source with the largest weight
        top = np.stack([w.argmax(dim=-1).numpy() for w in seen.arrays("weights", "cross-attention")])
        for part, target in TARGET_PLACES.items():
            places = [pair.places[part] for pair in pairs[first : first + task.batch_size]]
            start, stop = (
                np.array([getattr(p, end) for p in places])[:, None, None] for end in ("start", "stop")
            )
            # The decoder's position j says character j of the target.
            at = top[..., target]
            hits[part] += ((at >= start) & (at < stop)).mean(axis=-1).sum(axis=1)
    return {
        part: {
            "heads": np.round(hits[part] / len(pairs), DIGITS).tolist(),
            "anywhere": round(
                float(np.mean([(p.places[part].stop - p.places[part].start) / len(p.source) for p in pairs])),
                DIGITS,
            ),
        }
        for part in TARGET_PLACES
    }


# What nobody taught it; and what would be right
STRANGE = {
    "the day was Friday the 23rd of November, 1984": "1984-11-23",
    "1984 on November 23": "1984-11-23",
    "23 Novembre 1984": "1984-11-23",
    "23-11-1984": "1984-11-23",
    "23 November 1784": "1784-11-23",
    "30 February 2001": "no such day",
    "no date at all": "no date",
}


class About(NamedTuple):
    """What is said of a model, beside what is measured."""

    title: str
    what: str
    data: str
    measured: Callable[..., dict[str, Any]]
    limits: list[str]


ABOUT = {
    "shakespeare": About(
        "a decoder",
        "Continues a text, a character at a time. It is the model that the chapters look into.",
        SHAKESPEARE,
        measured_decoder,
        [
            "It has learned how letters follow each other, and no facts: what it tells of kings and battles is "
            "made up.",
            "It sees {context_length} characters, about three lines. Who is on the stage and what was asked is "
            "soon forgotten.",
            "It has {characters} characters. The only digit is 3, and a letter with an accent is an error.",
            "It speaks as plays of four hundred years ago do, of women, servants and foreigners as well. Nobody should "
            "take its words for anybody's opinion.",
        ],
    ),
    "masked": About(
        "an encoder",
        "Reads a text in which some characters are covered, and says which they were.",
        SHAKESPEARE,
        measured_encoder,
        [
            "It cannot write: it says what is missing, if told where. To continue a text it was never taught.",
            "Its loss does not compare with the decoder's. It sees both sides of what it is asked for, and it is asked "
            "for 15 % of the characters, while the decoder sees one side and is asked for all.",
            "It sees {context_length} characters at a time, and knows {characters} different ones.",
        ],
    ),
    "dates": About(
        "an encoder–decoder",
        "Reads a date as people write it, and writes it as ISO 8601 has it: 1984-11-23.",
        "Made by `glassformer.dates`: every day from 1900 to 2099 once, each in one of 16 ways of writing; some with "
        "short names, some without capitals. The last 10 % in a random order are kept for validation, so that "
        "none of those days is among the others in any form.",
        measured_pairs,
        [
            "It always answers, and always with something like a date. It cannot say that there is none.",
            "It knows 16 ways of writing, the names of English, and the years from 1900 to 2099. Beyond these it "
            "guesses, as the table above shows.",
            "It has learned characters and no calendar: it does not know how many days February has.",
        ],
    ),
}


# The page

HEADING = """# The models of this book

Three small models come with the book, one of each family. Chapters look into them, and so can you: without a
network, without PyTorch, in a moment.

```python
from glassformer import shipped

model, tokenizer = shipped.load()  # the decoder, in NumPy
model, tokenizer = shipped.load("dates", room="nn")  # in PyTorch
```

```
python -m glassformer generate --prompt "ROMEO:" --slide
python -m glassformer generate dates --prompt "the twenty-third of November, 1984"
```

Each was trained on one thread of a CPU by its recipe, a small file in `src/glassformer/assets/recipes/`. `make models`
trains all of them again and writes this page; on one machine, the same bytes. Their weights are kept in float16,
two bytes each, and computed with in float32. All numbers below are of the rounded weights, on what the model has not
learned from. {term}`Losses <loss>` are in {term}`nats <nat>`. For programs, `shipped.card` has the same.
"""


def page(cards: list[dict[str, Any]]) -> str:
    """book/models.md."""
    return "\n".join([HEADING, *(section(card) for card in cards)])


FAMILY = {
    "decoder": "{term}`decoder`",
    "encoder": "{term}`encoder`",
    "encoder-decoder": "{term}`encoder–decoder`",
}


def section(card: dict[str, Any]) -> str:
    """What the page says of one model."""
    model, training = card["recipe"]["model"], card["recipe"]["training"]
    facts = {
        "family": FAMILY[card["family"]],
        "parameters": f"{card['parameters']:,}",
        "on disk": f"{card['bytes'] / 1e6:.2f} MB",
        "recipe": f"`{card['name']}.toml`: {shape(model)}; {training['steps']:,} steps of "
        f"{training['batch_size']} texts, up to {card['context_length']} characters long",
        "weights": "their {term}`running average <average of the weights>`"
        if card["averaged"]
        else "those of the last step",
        "made with": f"PyTorch {card['made_with']['torch']}, NumPy {card['made_with']['numpy']}",
        "learned from": card["data"],
    }
    return "\n".join(
        [
            f"## {card['name']}: {card['title']}\n",
            f"{card['what']}\n",
            *(f"- **{name}**: {value}" for name, value in facts.items()),
            "",
            SHOWN[card["family"]](card),
            "What it cannot do:\n",
            *(f"- {limit}" for limit in card["limits"]),
            "",
        ]
    )


COUNTED = (
    "Who guesses knows the counts of the validation text itself, so that no guess of its kind does better.\n"
)


def shape(model: dict[str, Any]) -> str:
    """The sizes in words."""
    layers = model["n_layers"]
    layers = f"{layers} + {layers}" if model.get("family") == "encoder-decoder" else layers
    return f"{model['d_model']} wide, {layers} layers, {model['n_heads']} heads"


def shown_decoder(card: dict[str, Any]) -> str:
    """The losses beside the landmarks, and a text."""
    sample = card["sample"]
    rows = [
        [f"this model, in windows of {where}", f"**{nats:.3f}**"] for where, nats in card["losses"].items()
    ]
    rows += [[f"guessing: {what}", f"{nats:.3f}"] for what, nats in reversed(card["landmarks"].items())]
    return "\n".join(
        [
            table(["{term}`validation` loss", "nats a character"], rows),
            COUNTED,
            f"What it writes, at {{term}}`temperature` {sample['temperature']}, seed {sample['seed']}:\n",
            fenced(sample["text"]),
        ]
    )


def shown_encoder(card: dict[str, Any]) -> str:
    """The loss and the share of right answers beside the landmarks, and lines with holes."""
    [nats], accuracy = card["losses"].values(), card["accuracy"]
    blind, frequent = card["landmarks"].values()
    rows = [
        ["this model", f"**{nats:.3f}**", f"**{percent(accuracy['right'])}**"],
        ["guessing: the most frequent", f"{frequent:.3f}", percent(accuracy["always the most frequent"])],
        ["guessing: every character alike", f"{blind:.3f}", percent(1 / card["characters"])],
    ]
    lines = [
        f"covered  {covered}\nfilled   {filled}\nright    {right}\n"
        for covered, filled, right in (
            (line.replace("\n", "/") for line in triple) for triple in card["sample"]
        )
    ]
    return "\n".join(
        [
            table([f"{accuracy['asked']:,} validation characters", "nats", "right"], rows),
            COUNTED,
            "As in training, 15 % of the characters are asked for; of these, 80 % are covered, 10 % are another "
            "character, and 10 % are as they were. Four passages with holes (/ is the end of a line):\n",
            fenced("\n".join(lines)),
        ]
    )


def shown_pairs(card: dict[str, Any]) -> str:
    """How many are right, what it makes of strange ones, and where its heads look."""
    accuracy, [nats] = card["accuracy"], card["losses"].values()
    asked, wrong = accuracy["asked"], accuracy["wrong"]
    parts = [
        f"Of {asked:,} days that it has never seen, it writes **{asked - wrong:,}**, or "
        f"{percent(accuracy['right'], 2)}, right to the last digit, if it always takes the likeliest character. "
        f"The validation loss is {nats:.4f} nats a character.\n"
    ]
    if card["mistakes"]:
        parts += [
            "Mistakes:\n" if len(card["mistakes"]) == wrong else "The first mistakes:\n",
            table(["it read", "it wrote", "right"], card["mistakes"]),
        ]
    parts += [
        "What it makes of what it was never taught to read:\n",
        table(["it reads", "it writes", "right"], card["sample"]),
        "Where its decoder looks: how often, while the year is being written, the largest weight of "
        "{term}`cross-attention` is on a character of the year; and month and day alike. Of the heads of a layer, "
        "the best for that part.\n",
    ]
    rows = []
    for part, found in card["alignment"].items():
        best = [f"{percent(max(heads))} (head {heads.index(max(heads))})" for heads in found["heads"]]
        rows.append([part, *best, percent(found["anywhere"])])
    layers = [f"layer {i}" for i in range(len(rows[0]) - 2)]
    parts.append(table(["while it writes the", *layers, "looking anywhere"], rows))
    return "\n".join(parts)


SHOWN = {"decoder": shown_decoder, "encoder": shown_encoder, "encoder-decoder": shown_pairs}


def percent(share: float, digits: int = 1) -> str:
    """As the book writes it."""
    return f"{100 * share:.{digits}f} %"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown, with an empty line after it."""
    lines = [head, [":--"] * len(head), *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def fenced(content: str) -> str:
    """As it stands, in a monospaced font."""
    return f"```text\n{content.strip(chr(10))}\n```\n"


def _json(card: dict[str, Any]) -> str:
    return json.dumps(card, indent=1, ensure_ascii=False) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ABOUT)}; none: all")
    parser.add_argument("--measure", action="store_true", help="measure the weights that are there")
    parser.add_argument("--page", action="store_true", help="train and measure nothing, write the page")
    parser.add_argument("--to", type=Path, metavar="FOLDER", help="keep the models there; write no page")
    parser.add_argument("--set", action="append", default=[], metavar="PART.FIELD=VALUE", dest="changes")
    options = parser.parse_args()
    for name in options.names:
        if name not in ABOUT:
            parser.error(f"{name!r} is not one of {', '.join(ABOUT)}")
    if options.changes and options.to is None:
        parser.error("--set makes another model than the book's: say with --to where it goes")
    torch.set_num_threads(1)
    place = options.to or Path(str(shipped.PLACE))
    for name in [] if options.page else options.names or ABOUT:
        begun = time.monotonic()
        one = made(name, options.changes, place if options.measure else None)
        card = keep(one, options.changes, place)
        words = ", ".join(f"{what} {nats}" for what, nats in card["losses"].items())
        print(f"{name}: {words}; {card['bytes']:,} bytes; {(time.monotonic() - begun) / 60:.1f} minutes")
    if options.to is None:
        PAGE.write_text(page([shipped.card(name) for name in shipped.NAMES]), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
