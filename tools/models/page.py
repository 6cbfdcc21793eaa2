"""Writes the page "The models of this book" from the cards alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

HEADING = Path(__file__).with_name("heading.md")
COUNTED = "The guesses use counts from the part itself, so no other guess of the same kind can do better.\n"
PARTS = {"validation": "[validation](glossary.md#validation)", "test": "[test](glossary.md#test-part)"}


def page(cards: list[dict[str, Any]]) -> str:
    """Returns the text of book/models.md."""
    return "\n".join([HEADING.read_text(encoding="utf-8"), *(section(card) for card in cards)])


FAMILY = {
    "decoder": "[decoder](glossary.md#decoder)",
    "encoder": "[encoder](glossary.md#encoder)",
    "encoder-decoder": "[encoder-decoder](glossary.md#encoder-decoder)",
}


def section(card: dict[str, Any]) -> str:
    """Writes the page's section about one model."""
    model, training = card["recipe"]["model"], card["recipe"]["training"]
    facts = {
        "family": FAMILY[card["family"]],
        "parameters": f"{card['parameters']:,}"
        + (f", of which each token uses {card['active']:,}" if "active" in card else ""),
        "on disk": f"{card['bytes'] / 1e6:.2f} MB",
        "recipe": f"`{card['name']}.toml`: {shape(model)}; {training['steps']:,} steps of "
        f"{training['batch_size']} texts, up to {card['context_length']} "
        f"{'characters' if 'characters' in card else 'tokens'} long",
        "weights": "their [running average](glossary.md#average-of-the-weights)"
        if card["averaged"]
        else "those of the last step",
        "made with": f"PyTorch {card['made_with']['torch']}, NumPy {card['made_with']['numpy']}",
        "learned from": card["data"].replace(" %", "%"),
    }
    return "\n".join(
        [
            f"## {card['name']}: {card['title']}\n",
            f"{card['what']}\n",
            *(f"- **{name}**: {value}" for name, value in facts.items()),
            "",
            SHOWN[card["family"]](card),
            "What it cannot do:\n",
            *(f"- {limit}".replace(" %", "%") for limit in card["limits"]),
            "",
        ]
    )


def shape(model: dict[str, Any]) -> str:
    """Returns the sizes in words."""
    layers = model["n_layers"]
    layers = f"{layers} + {layers}" if model.get("family") == "encoder-decoder" else layers
    return f"{model['d_model']} wide, {layers} layers, {model['n_heads']} heads"


def shown_decoder(card: dict[str, Any]) -> str:
    """Writes the losses next to the landmarks, and a text."""
    sample = card["sample"]
    parts = card["landmarks"]
    characters = card.get("characters_per_token", {})  # only of a model that reads byte pairs
    each = "character" if "characters" in card else "token"
    rows = [
        [f"this model, in windows of {where}", *(f"**{nats[part]:.3f}**" for part in parts)]
        for where, nats in card["losses"].items()
    ]
    rows += [
        [f"guessing: {what}", *(f"{parts[part][what]:.3f}" for part in parts)]
        for what in reversed(parts["validation"])
    ]
    if characters:
        [nats] = card["losses"].values()
        shares = (f"**{nats[part] / characters[part]:.3f}**" for part in parts)
        rows.insert(1, ["the same, in nats a character", *shares])
    return "\n".join(
        [
            table([f"nats a {each}", *(PARTS[part] for part in parts)], rows),
            COUNTED,
            f"What it writes, at [temperature](glossary.md#temperature) {sample['temperature']}, "
            f"seed {sample['seed']}:\n",
            fenced(sample["text"]),
        ]
    )


def shown_encoder(card: dict[str, Any]) -> str:
    """Writes the loss and the share of right answers next to the landmarks, and lines with masked characters."""
    [nats], parts = card["losses"].values(), card["accuracy"]
    head, rows = [""], [["this model"], ["guessing: the most frequent"], ["guessing: every character alike"]]
    for part, accuracy in parts.items():
        blind, frequent = card["landmarks"][part].values()
        head += [f"{PARTS[part]}: nats", f"right, of {accuracy['asked']:,}"]
        rows[0] += [f"**{nats[part]:.3f}**", f"**{percent(accuracy['right'])}**"]
        rows[1] += [f"{frequent:.3f}", percent(accuracy["always the most frequent"])]
        rows[2] += [f"{blind:.3f}", percent(1 / card["characters"])]
    lines = [
        f"covered  {covered}\nfilled   {filled}\nright    {right}\n"
        for covered, filled, right in (
            (line.replace("\n", "/") for line in triple) for triple in card["sample"]
        )
    ]
    return "\n".join(
        [
            table(head, rows),
            COUNTED,
            "As in training, the model has to predict 15% of the characters. Of these, 80% are covered, 10% are "
            "replaced by another character, and 10% stay as they are, so the loss is not only about covered "
            "characters. "
            "Here are four passages with gaps (/ is the end of a line):\n",
            fenced("\n".join(lines)),
        ]
    )


def shown_pairs(card: dict[str, Any]) -> str:
    """Writes how many dates are right, what the model makes of unusual ones, and where its heads look."""
    accuracy, [nats] = card["accuracy"], card["losses"].values()
    asked, wrong = (sum(part[what] for part in accuracy.values()) for what in ("asked", "wrong"))
    rows = [
        [
            PARTS[name],
            f"{part['asked']:,}",
            f"**{part['asked'] - part['wrong']:,}**",
            f"{nats[name]:.4f}" if nats[name] else "below 0.0001",
        ]
        for name, part in accuracy.items()
    ]
    parts = [
        f"Of {asked:,} days that it has never seen, it writes **{asked - wrong:,}**, or "
        f"{percent(1 - wrong / asked, 2)}, correctly to the last digit if it always takes the likeliest character.\n",
        table(["part", "days", "right", "nats a character"], rows),
    ]
    if card["mistakes"]:
        parts += [
            "Mistakes:\n" if len(card["mistakes"]) == wrong else "The first mistakes:\n",
            table(["it read", "it wrote", "right"], card["mistakes"]),
        ]
    parts += [
        "What it makes of texts that it was never trained to read:\n",
        table(["it reads", "it writes", "right"], card["sample"]),
        "Where its decoder looks: while it writes the year, how often is the largest weight of "
        "[cross-attention](glossary.md#cross-attention) on a character of the year? And the same for month and day. "
        "Each number is that of the layer's best head for this part.\n",
    ]
    rows = []
    for part, found in card["alignment"].items():
        best = [f"{percent(max(heads))} (head {heads.index(max(heads))})" for heads in found["heads"]]
        rows.append([part, *best, percent(found["anywhere"])])
    layers = [f"layer {i}" for i in range(len(rows[0]) - 2)]
    parts.append(table(["while it writes the", *layers, "at random"], rows))
    return "\n".join(parts)


SHOWN = {"decoder": shown_decoder, "encoder": shown_encoder, "encoder-decoder": shown_pairs}


def percent(share: float, digits: int = 1) -> str:
    """Writes a percentage as the book does."""
    return f"{100 * share:.{digits}f}%"


def table(head: list[str], rows: list[list[str]]) -> str:
    """Returns a table in Markdown, with an empty line after it."""
    lines = [head, [":--"] * len(head), *rows]
    return "".join("| " + " | ".join(cells) + " |\n" for cells in lines)


def fenced(content: str) -> str:
    """Writes a text in a fenced block, in a monospaced font."""
    return f"```text\n{content.strip(chr(10))}\n```\n"
