"""Judges "From their names to ours" (chapter 13): a name in GPT-2's files becomes the name in this book."""

import re

from glassformer.exercises.catalogue import exercise


def rename(name: str) -> str:
    """Returns this book's name for a name in GPT-2's files."""
    import re

    outside = {"wte": "token_embedding", "wpe": "decoder.positions", "ln_f": "decoder.norm"}
    in_a_block = {
        "ln_1": "norm_attention",
        "attn.c_proj": "attention.W_o",
        "ln_2": "norm_feedforward",
        "mlp.c_fc": "feedforward.W_up",
        "mlp.c_proj": "feedforward.W_down",
    }
    found = re.fullmatch(r"(?:transformer\.)?(?:h\.(\d+)\.)?(.+)\.(weight|bias)", name)
    if found:
        number, part, end = found.groups()
        table, at = (in_a_block, f"decoder.blocks.{number}.") if number else (outside, "")
        if part in table:
            return f"{at}{table[part]}.{end}"
    raise ValueError(f"{name!r} is not one of these names")


names = exercise("real.rename", rename)

names.case("the tables", "wte.weight", want="token_embedding.weight")
names.also("wpe.weight", want="decoder.positions.weight")
names.case("the last norm", "ln_f.bias", want="decoder.norm.bias")
names.case("a norm of block 0", "h.0.ln_1.weight", want="decoder.blocks.0.norm_attention.weight")
names.also("h.3.ln_2.bias", want="decoder.blocks.3.norm_feedforward.bias")
names.case("attention's last matrix", "h.2.attn.c_proj.weight", want="decoder.blocks.2.attention.W_o.weight")
names.case("the feed-forward's first", "h.1.mlp.c_fc.bias", want="decoder.blocks.1.feedforward.W_up.bias")
names.case(
    "its second matrix, which has the same name as attention's last one", "h.1.mlp.c_proj.weight",
    want="decoder.blocks.1.feedforward.W_down.weight",
)  # fmt: skip
names.case("block 11", "h.11.mlp.c_fc.weight", want="decoder.blocks.11.feedforward.W_up.weight")
names.case(
    "with the prefix that some files have", "transformer.h.10.ln_1.bias",
    want="decoder.blocks.10.norm_attention.bias",
)  # fmt: skip
names.also("transformer.wte.weight", want="token_embedding.weight")
names.refuses(
    "a mask, which old files contain, is not a weight: ValueError",
    "h.0.attn.bias",
    what="rename('h.0.attn.bias')",
)
names.refuses("other unknown names", "lm_head.weight")
names.also_refuses("h.0.attn.c_attn.weight")
names.refuses("a table in a block, a block's norm outside", "h.3.wte.weight")
names.also_refuses("ln_1.weight")
names.refuses("another end", "h.0.ln_1.scale")


def _renamed(ours=None, block=lambda number: f"decoder.blocks.{number}.", prefix=r"(?:transformer\.)?",
             number=r"\d+", mend=lambda name: name):  # fmt: skip
    def wrong(name):
        found = re.fullmatch(rf"{prefix}(?:h\.({number})\.)?(.+)\.(weight|bias)", name)
        if not found:
            raise ValueError(f"{name!r} is no weight of a GPT-2")
        part = (ours or {}).get(found[2]) or _part(found[2])
        return mend(f"{block(found[1]) if found[1] else ''}{part}.{found[3]}")

    return wrong


def _part(theirs):
    """Returns this book's name for a part of a block, or for one outside the blocks."""
    try:
        return rename(f"h.0.{theirs}.bias")[len("decoder.blocks.0.") : -len(".bias")]
    except ValueError:
        return rename(f"{theirs}.bias").removesuffix(".bias")


names.mistake("c_proj alike", _renamed({"mlp.c_proj": "attention.W_o"}))
names.mistake("c_proj alike", _renamed({"attn.c_proj": "feedforward.W_down"}))
names.mistake("norms swapped", _renamed({"ln_1": "norm_feedforward", "ln_2": "norm_attention"}))
names.mistake("up and down", _renamed({"mlp.c_fc": "feedforward.W_down", "mlp.c_proj": "feedforward.W_up"}))
names.mistake("counted from 1", _renamed(block=lambda number: f"decoder.blocks.{int(number) + 1}."))
names.mistake("h", _renamed(block=lambda number: f"decoder.h.{number}."))
names.mistake("decoder left out", _renamed(mend=lambda name: name.removeprefix("decoder.")))
names.mistake("one digit", _renamed(block=lambda number: f"decoder.blocks.{number[0]}."))
names.mistake("one table", _renamed())
names.mistake("always weight", _renamed(mend=lambda name: re.sub("bias$", "weight", name)))


@names.mistake("prefix")
def _(name):
    if name.startswith("transformer."):
        return f"transformer.{rename(name)}"
    return rename(name)


@names.mistake("any end")
def _(name):
    path, _, end = name.rpartition(".")
    return f"{rename(f'{path}.weight').removesuffix('weight')}{end}"


@names.mistake("anything goes")
def _(name):
    try:
        return rename(name)
    except ValueError:
        return name
