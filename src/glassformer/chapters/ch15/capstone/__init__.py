"""The capstone: a GPT of the reader's own, from an empty notebook, judged stage by stage by what it does.

    from glassformer.exercises import capstone

    capstone.start()               # puts an adapter into the notebook, for the reader to fill in
    capstone.check(Mine)           # all stages; capstone.check("attention", Mine): one, check by check
    capstone.hint("attention")
    capstone.rules()               # what may be imported
    capstone.kinds()               # the models that `load` may be given: parts, names, shapes
    capstone.card("runs/mine")     # a run of the reader's own beside the book's model
    capstone.built(Mine)           # what they built, part by part, beside GPT-2

Readers design their GPT as they like. The checker sees it through an adapter, a few functions of the reader's own
(`adapter`), and tests how these behave. Each file has the checks of one stage, or of two (`reading`, `attention`,
`thinking`, `learning`, `training`, `writing`, `caching`, `weights`). `origin` looks whose code runs, `watch` looks
at PyTorch's gradients and optimizers, `window` finds out what is read of a long text, `culprits` where a backward pass
goes wrong, and `suspects` tries mistakes in loading (`changes` makes them). All words are in ``capstone.toml``.
"""

from .commands import built, card, check, hint, kinds, rules, start

__all__ = ["built", "card", "check", "hint", "kinds", "rules", "start"]
