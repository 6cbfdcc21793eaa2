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
(`adapter`), and tests how these behave. `judge` runs the checks of a stage. There are three rooms:

    stages      one file for each stage: its checks, in teaching order
    measures    what they measure with: comparing, loud weights, steps, drawings, whose code runs
    diagnosis   which mistake explains what was measured: tables of suspects, and one engine that tries them

`weights` makes the models that `load` is given. All words are in ``capstone.toml``.
"""

from .commands import built, card, check, hint, kinds, rules, start

__all__ = ["built", "card", "check", "hint", "kinds", "rules", "start"]
