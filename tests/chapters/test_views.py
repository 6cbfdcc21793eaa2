"""Tests what is alike in the views of chapters 09 to 14: which values they refuse, and that they fit a narrow page."""

import math

import pytest
from traitlets import TraitError

from glassformer.chapters.ch11.cache_movie import CacheMovie
from glassformer.chapters.ch13.config_reader import LONGEST, ConfigReader, examples
from glassformer.widgets import (
    BeamTree,
    DateTranslator,
    DiagnoseIt,
    FillIn,
    HeadGradients,
    LossWatcher,
    NudgeExplorer,
    ParameterBars,
    SamplingLab,
    ScheduleDesigner,
    WiringSwitcher,
)

TIMES = CacheMovie().measured
TWO = ["labels-unshifted", "softmax-axis"]
REFUSED = {
    HeadGradients: [
        ({"q": [[1.0, 2.0]]}, r"q=\[\[1.0, 2.0\]\] must be 4 rows of 3 numbers"),
        ({"v": [[1.0, 3.5, 0.0]] * 4}, "v=.* has a number outside −3 … 3"),
        ({"raised": "4 0"}, "raised"), ({"cell": ["grad_scores", 4, 0]}, "cell=.* must be one of q, k, v"),
        ({"cell": ["grad_q", 0, 3]}, "cell="), ({"cell": ["grad", 0, 0]}, "cell="),
    ],
    NudgeExplorer: [
        ({"at": [4, 0]}, r"at=\[4, 0\] is not an index into decoder.blocks.0.attention.W_o.weight, of shape \(4, 4\)"),
        ({"at": [1]}, "at="), ({"name": "decoder.norm.bias", "at": [0, 1]}, "at="), ({"name": "decoder.W"}, "name"),
        ({"by": 2.1}, "by"), ({"h": 2.0}, "h"), ({"sides": "none"}, "sides"), ({"rate": 0.2}, "rate"),
    ],
    LossWatcher: [
        ({"landmarks": {"unigram": 0}}, r"landmarks\['unigram'\]=0 must be a positive number"),
        ({"landmarks": {"ln V": "four"}}, r"landmarks\['ln V'\]='four' must be"),
        ({"steps": -1}, "steps"), ({"smooth": 7}, "smooth"), ({"pace": 1}, "pace"), ({"axis": "square"}, "axis"),
    ],
    ScheduleDesigner: [
        ({"peak": 0}, "peak"), ({"warmup": -1}, "warmup"), ({"decay": "step"}, "decay"),
        ({"final_share": 1.1}, "final_share"), ({"steps": 0}, "steps"),
    ],
    BeamTree: [
        ({"n_beams": 7}, "n_beams"), ({"n_new": 0}, "n_new"), ({"end": "!"}, "end"), ({"node": [0]}, "node"),
        ({"length_penalty": 2.5}, "length_penalty"),
        ({"text": "a" * 101}, "text has 101 characters, but must have 1 to 100"),
        ({"model": "masked"}, "model='masked' belongs to the family encoder; it must be decoder"),
    ],
    CacheMovie: [
        ({"text": "a"}, "text has 1 characters, must have 2 to 24"), ({"text": "a" * 25}, "text has 25 characters"),
        ({"prompt": 0}, "prompt"), ({"step": -1}, "step"), ({"model": "gpt3"}, "model"),
        ({"n_kv_heads": 3}, "n_kv_heads=3 does not divide n_heads=4"), ({"bytes_per_number": 8}, "bytes_per_number"),
        ({"length": 256}, "length=256 is not one of 16, 32, 64, 128"),
        ({"measured": {"on": "a tortoise"}}, 'measured has to have "without" and "with", 23 positive numbers each'),
        ({"measured": TIMES | {"with": [1.0] * 22}}, "measured has to have"),
        ({"measured": TIMES | {"with": [0.0] * 23}}, "measured has to have"),
    ],
    SamplingLab: [
        ({"top_k": 0}, "top_k=0 is not one of 1 … 65"), ({"other_top_k": 66}, "other_top_k=66 is not one of 1 … 65"),
        ({"temperature": math.nan}, "temperature"), ({"top_p": 0}, "top_p"), ({"length": 401}, "length"),
        ({"picked": [[0, "é"]]}, "picked has"), ({"other_picked": [[-1, "a"]]}, "other_picked has"),
        ({"model": "masked"}, "must be decoder"),
    ],
    DateTranslator: [
        ({"text": "k"}, "k"), ({"text": "a" * 65}, "65 characters, but must have 1 to 64"), ({"head": -2}, "head"),
        ({"block": 2}, "block=2 is not below 2"), ({"head": 4}, "head=4 is not below 4"),
        ({"model": "shakespeare"}, "must be encoder-decoder"),
    ],
    FillIn: [
        ({"covered": [64]}, "covered has 64, which is not one of 0 … 63"), ({"covered": [1.5]}, "covered has 1.5"),
        ({"covered": [3, 2]}, r"covered=\[3, 2\] must be in order, each position once"),
        ({"covered": [2, 2]}, "each position once"), ({"text": "é"}, "é"), ({"steps": -1}, "steps"),
        ({"text": "a" * 65}, "text has 65 characters, but must have 1 to 64: the model reads it all in one go"),
        ({"model": "shakespeare"}, "to the family decoder; it must be encoder"),
    ],
    WiringSwitcher: [
        ({"text": ""}, "text has 0 characters, but must have 1 to 12"), ({"source": "a" * 13}, "source has 13 char"),
        ({"family": "rnn"}, "family"), ({"mask": "self"}, "mask"), ({"padding": 4}, "padding"),
        ({"prefix": -1}, "prefix"), ({"query": -1}, "query"),
    ],
    ConfigReader: [({"text": "x" * (LONGEST + 1)}, "text has 20001 characters"), ({"part": "tail"}, "part")],
    ParameterBars: [
        ({"model": "gpt5"}, "model"), ({"scale": "none"}, "scale"), ({"other": 7}, "other"), ({"part": "tail"}, "part"),
        ({"sort": "name"}, "sort"), ({"family": "gpt"}, "family"),
    ],
    DiagnoseIt: [
        ({"patients": ["no-scale"]}, "patients="), ({"patients": []}, "patients="),
        ({"patients": TWO, "patient": 3}, "patient=3 is not one of 0 … 2"),
        ({"patients": TWO, "ordered": [["map"]]}, "ordered has 1 entries for 2"),
        ({"patients": TWO, "ordered": [["hope"], []]}, "'hope'"),
        ({"patients": ["dropout-in-evaluation"], "ordered": [["map"]]}, "'map'"),
        ({"patients": TWO, "answers": [[5], []]}, "answers has an option"),
    ],
}  # fmt: skip


def of(view):
    """Returns the chapter and the view: `make test CHAPTER=09` selects by the chapter."""
    chapter = view.__module__.split(".")[2]
    return f"{chapter}-{view.__qualname__}"


@pytest.mark.parametrize("view", REFUSED, ids=of)
def test_impossible_values_are_refused(view):
    for traits, message in REFUSED[view]:
        with pytest.raises(TraitError, match=message):
            view(**traits)


RUN = {
    "losses": [(step, 4.2 - step / 60) for step in range(120)],
    "landmarks": {"ln V": 4.17, "bigram": 2.46},
}
NARROW = [
    (HeadGradients, {"raised": "all"}),
    (NudgeExplorer, {"name": "decoder.blocks.1.feedforward.W_up.weight", "at": [3, 2], "by": -0.7, "h": 0.1}),
    (LossWatcher.recorded, {"at": 110, "axis": "log", **RUN, "samples": [(50, "my kingdom " * 9)]}),
    (ScheduleDesigner, {"peak": 0.02, "warmup": 0, "steps": 1000, "table": True}),
    (CacheMovie, {"model": "llama-2-70b", "text": "M" * 24, "step": 14}),
    (WiringSwitcher, {"family": "encoder-decoder", "text": "M" * 12, "source": "M" * 12, "padding": 3}),
    (ConfigReader, {}),
    (ConfigReader, {"text": next(text for _, name, text in examples() if name == "dynamic stretching")}),
    (ParameterBars, {"other": "bert-base"}),
    (ParameterBars, {"other": "bert-base", "view": "size", "scale": "gpt3"}),
]


@pytest.mark.parametrize(("view", "traits"), NARROW, ids=lambda one: of(one) if callable(one) else "")
def test_accessible_and_never_wider_than_a_phone(mount, shoot, view, traits):
    w = mount(view(**traits), width=360)
    assert w.tables()
    assert w.overflow() == 0
    assert w.axe_violations() == []
    shoot(f"{of(view)}-360-{len(str(traits))}")
