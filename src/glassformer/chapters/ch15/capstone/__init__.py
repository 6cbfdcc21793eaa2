"""The capstone: a GPT of the reader's own, from an empty notebook, judged stage by stage by what it does.

    from glassformer.exercises import capstone

    capstone.start()               # puts an adapter into the notebook, for the reader to fill in
    capstone.check(Mine)           # all stages; capstone.check("attention", Mine): one, check by check
    capstone.hint("attention")
    capstone.card("runs/mine")     # a run of the reader's own beside the book's model
    capstone.built(Mine)           # what they built, chapter by chapter, beside GPT-2

The reader's design is free. The checker sees it through an adapter, a few functions of the reader's own
(`adapter`), and asks how these behave: a file of checks for each part of the way (`reading`, `thinking`,
`learning`, `writing`, `weights`). What is said stands in ``capstone.toml``.
"""

from .commands import built, card, check, hint, start

__all__ = ["built", "card", "check", "hint", "start"]
