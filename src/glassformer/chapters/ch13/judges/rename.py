"""Judges "From their names to ours" (chapter 13): a name in GPT-2's files becomes the name in this book."""

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
_title = "its second matrix, which has the same name as attention's last one"
names.case(_title, "h.1.mlp.c_proj.weight", want="decoder.blocks.1.feedforward.W_down.weight")
names.case("block 11", "h.11.mlp.c_fc.weight", want="decoder.blocks.11.feedforward.W_up.weight")
_title = "with the prefix that some files have"
names.case(_title, "transformer.h.10.ln_1.bias", want="decoder.blocks.10.norm_attention.bias")
names.also("transformer.wte.weight", want="token_embedding.weight")
names.refuses("a mask, which old files contain, is not a weight: ValueError", "h.0.attn.bias")
names.refuses("other unknown names", "lm_head.weight")
names.also_refuses("h.0.attn.c_attn.weight")
names.refuses("a table in a block, a block's norm outside", "h.3.wte.weight")
names.also_refuses("ln_1.weight")
names.refuses("another end", "h.0.ln_1.scale")
