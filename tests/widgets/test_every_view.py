"""Tests by which rules all views go, with a line for each view: what they refuse, and that everybody can use them."""

import json
import math

import pytest
from traitlets import TraitError

from glassformer import widgets
from glassformer.anatomy import shelf
from glassformer.chapters.ch02.real_tokens import EXAMPLES
from glassformer.chapters.ch14.diagnose_it import clinic
from glassformer.widgets.engine.model import LINE

TWO = [entry["bug"] for entry in clinic()["patient"]][:2]
TIMES = {"without": [1.0] * 23, "with": [1.0] * 23, "on": "a tortoise"}

# --- what they refuse ---

# Values of each trait that traitlets refuses, in a sentence that names the trait.
BOUNDS = {
    "ShapeTracer": {"length": [0], "array": [13], "n_layers": [129]},
    "BytePairStepper": {"learn_from": ["nothing"], "merges": [-1, 151]},
    "CharacterMap": {"table": ["third"]},
    "AttentionCalculator": {"mask": ["during"], "cell": [["outputs", 0, 2], ["sums", 0, 0]]},
    "AttentionExplorer": {"query": [-1]},
    "ClockHands": {"position": [-1, 201], "step": [21], "d_model": [18], "base": [0.0]},
    "DistanceBias": {
        "method": ["rope"],
        "length": [65, 7],
        "n_heads": [0, 17],
        "n_buckets": [12],
        "max_distance": [16],
    },
    "PositionHeatmap": {"n_positions": [8, 2000], "d_model": [2], "base": [1.0], "row": [-1, 1.5]},
    "RotationPlane": {
        "query_angle": [181, math.nan],
        "key_angle": [-181],
        "query_length": [0.05],
        "key_length": [1.6],
        "query_position": [51, 2.5],
        "key_position": [-1],
        "theta": [0.0001, 1.5, math.nan, "fast"],
    },
    "ShuffleSentence": {"layers": [3]},
    "DepthExplorer": {"depth": [1, 65], "gain": [0.4], "seed": [-1]},
    "LogitLens": {"position": [-1]},
    "NormComparer": {"eps": [2e-5]},
    "NormPlacementExplorer": {"view": ["both"]},
    "ActivationExplorer": {
        "show": ["both"],
        "curve": ["tanh"],
        "x": [4.1],
        "magnified": [2],
        "gate": [-3.1],
        "up": [math.nan],
    },
    "NeuronExplorer": {"position": [-1]},
    "AblationBoard": {"temperature": [2], "seed": [-1]},
    "HeadGradients": {"raised": ["4 0"], "cell": [["grad_q", 0, 3], ["grad", 0, 0]]},
    "NudgeExplorer": {
        "name": ["decoder.W"],
        "at": [[1]],
        "by": [2.1],
        "h": [2.0],
        "sides": ["none"],
        "rate": [0.2],
    },
    "LossWatcher": {"steps": [-1], "smooth": [7], "pace": [1], "axis": ["square"]},
    "ScheduleDesigner": {"peak": [0], "warmup": [-1], "decay": ["step"], "final_share": [1.1], "steps": [0]},
    "BeamTree": {"n_beams": [7], "n_new": [0], "end": ["!"], "length_penalty": [2.5], "node": [[0]]},
    "CacheMovie": {"model": ["gpt3"], "prompt": [0], "step": [-1], "bytes_per_number": [8]},
    "SamplingLab": {"temperature": [math.nan], "top_p": [0], "length": [401]},
    "DateTranslator": {"head": [-2]},
    "FillIn": {"steps": [-1]},
    "WiringSwitcher": {"family": ["rnn"], "mask": ["self"], "padding": [4], "prefix": [-1], "query": [-1]},
    "ConfigReader": {"positions": [0, 10**9], "kind": [-1]},
    "CacheCalculator": {"positions": [0, 10**8, 2.5], "bits": [12]},
    "ParameterBars": {
        **{"model": ["gpt5"], "scale": ["none"], "other": [7], "part": ["tail"]},
        **{"sort": ["name"], "family": ["gpt"]},
    },
    "DiagnoseIt": {"patients": [["no-scale"], []]},
    "LayerCaches": {"position": [-1, 60], "window": [1, 17], "compress": [1, 9], "top_k": [0, 17]},
    "RouterView": {"position": [-1], "guess": ["letters"]},
    "StateWatch": {"position": [0, 25], "decay": [0.4, math.nan], "d_key": [3]},
    "GlassMachine": {
        "position": [-1],
        "temperature": [2.5],
        "step": [7],
        "tour": ["often"],
        "reads": ["syllables"],
    },
    "LiveWriter": {"seed": [-1], "temperature": [2.1]},
    "TrainingLab": {
        **{"name": ["long"], "size": ["large"], "d_model": [48], "n_layers": [0], "steps": [0], "rate": [0]},
        **{"broken": ["head"], "expected": ["nothing"], "weight": [["x", 0, -1]], "head": [[0, True]]},
    },
}

# What a view refuses in a sentence of its own.
SENTENCES = [
    ("ShapeTracer", {"n_heads": 3}, "n_heads=3 does not divide d_model=128"),
    ("BytePairStepper", {"text": "x" * 201}, "text has 201 characters, but must have at most 200"),
    ("BytePairStepper", {"excerpt": "mine"}, "read-only"),
    ("CharacterMap", {"character": "é"}, "character='é' is not one of the model's 65 characters"),
    ("CharacterMap", {"character": ""}, "character=''"),
    ("CharacterMap", {"other": "ab"}, "other='ab'"),
    ("CharacterMap", {"maps": {}}, "read-only"),
    ("AttentionCalculator", {"q": [[1.0, 2.0]]}, r"q=\[\[1.0, 2.0\]\] must be 5 rows of 2 numbers"),
    ("AttentionCalculator", {"k": [[1.0, 10.0]] * 5}, "k=.* has a number outside −9 … 9"),
    ("AttentionCalculator", {"v": [[1.0, math.nan]] * 5}, "v=.* has a number outside −9 … 9"),
    ("AttentionCalculator", {"v": "five"}, r"v=\['five'\] must be 5 rows of 2 numbers"),
    ("AttentionCalculator", {"cell": ["scores", 5, 0]}, r"cell=\['scores', 5, 0\] must be one of q, k, v"),
    ("AttentionExplorer", {"block": 4}, "block=4 is not one of 0 … 3"),
    ("AttentionExplorer", {"head": -1}, "head=-1 is not one of 0 … 3"),
    ("AttentionExplorer", {"text": "é"}, "é"),
    ("ClockHands", {"d_model": 7}, "d_model=7 is odd: sines and cosines come in pairs of dimensions"),
    ("DistanceBias", {"head": -1}, "head=-1 is not in 0 … n_heads − 1 = 7"),
    ("DistanceBias", {"head": 4, "n_heads": 4}, "head=4 is not in 0 … n_heads − 1 = 3"),
    ("DistanceBias", {"query": 32}, "query=32 is not in 0 … length − 1 = 31"),
    ("DistanceBias", {"key": -1}, "key=-1 is not in 0 … length − 1 = 31"),
    ("PositionHeatmap", {"d_model": 7}, "d_model=7 is odd: sines and cosines come in pairs of dimensions"),
    ("PositionHeatmap", {"base": math.nan}, "base=nan is not a number from 10.0 to 1000000.0"),
    ("PositionHeatmap", {"row": 128}, "row=128 is not below n_positions=128"),
    ("ShuffleSentence", {"words": " "}, "words=' ' has 0 words, must have 1 to 12"),
    ("ShuffleSentence", {"words": "a " * 13}, "has 13 words, must have 1 to 12"),
    (
        "ShuffleSentence",
        {"order": [0, 1, 2]},
        r"order=\[0, 1, 2\] must be a permutation of 0 … 4, one index per",
    ),
    ("ShuffleSentence", {"order": [0, 1, 2, 3, 3]}, "must be a permutation"),
    ("ShuffleSentence", {"words": "a b", "order": [0, 1, 2]}, "must be a permutation of 0 … 1, one"),
    ("ShuffleSentence", {"weights": []}, "weights.*read-only"),
    ("DepthExplorer", {"gain": math.nan}, "gain=nan is not a number from 0.5 to 2"),
    ("LogitLens", {"depth": 5}, "depth=5 is not one of 0 … 4"),
    ("LogitLens", {"depth": -1}, "depth=-1 is not one of 0 … 4"),
    ("LogitLens", {"text": "é"}, "é"),
    ("NormComparer", {"x": [1.0]}, r"x=\[1.0\] must be 2 to 8 numbers"),
    ("NormComparer", {"x": [1.0] * 9}, "must be 2 to 8 numbers"),
    ("NormComparer", {"x": [[1.0, 2.0]]}, "must be 2 to 8 numbers"),
    ("NormComparer", {"x": ["a", "b"]}, "must be 2 to 8 numbers"),
    ("NormComparer", {"x": [1.0, 2e6]}, "outside −1,000,000 … 1,000,000"),
    ("NormComparer", {"x": [1.0, math.nan]}, "outside −1,000,000 … 1,000,000"),
    ("NormComparer", {"before": [1.0, 2.0]}, r"must be empty or have as many numbers as x \(4\)"),
    ("NormPlacementExplorer", {"trained_depth": 3}, "trained_depth=3 is not one of 2, 4, 8, 24"),
    ("NormPlacementExplorer", {"learning_rate": 0.5}, "0.5 is not one of 0.0003, .* with trained_depth=8"),
    ("NormPlacementExplorer", {"untrained_depth": 5}, "untrained_depth=5 is not one of 2, 4, 8, 16, 32, 64"),
    ("NormPlacementExplorer", {"init": "glorot"}, "init='glorot' is not one of ours, gpt2, xavier"),
    ("NeuronExplorer", {"block": 4}, "block=4 is not one of 0 … 3"),
    ("NeuronExplorer", {"neuron": 344}, "neuron=344 is not one of 0 … 343"),
    ("NeuronExplorer", {"text": "é"}, "é"),
    ("AblationBoard", {"off": ["block 4: head 0"]}, "off contains 'block 4: head 0'; each entry must be"),
    ("AblationBoard", {"off": ["head 0"]}, "the model has 4 blocks with 4 heads"),
    ("ParameterExplorer", {"preset": "gpt5"}, "preset='gpt5' is not one of gpt2"),
    ("ParameterExplorer", {"fields": {"width": 3}}, "fields contains 'width', but only .*: vocab_size"),
    ("ParameterExplorer", {"fields": {"norm": "batchnorm"}}, "norm='batchnorm' is not one of"),
    ("ParameterExplorer", {"fields": {"pooler": 1}}, "pooler=1 must be True or False"),
    ("ParameterExplorer", {"fields": {"n_segments": 2}}, 'n_segments=2 needs family="encoder"'),
    ("ParameterExplorer", {"part": "tail"}, "'part' .* expected any of .*'token embedding'.* 'tail'"),
    ("HeadGradients", {"q": [[1.0, 2.0]]}, r"q=\[\[1.0, 2.0\]\] must be 4 rows of 3 numbers"),
    ("HeadGradients", {"v": [[1.0, 3.5, 0.0]] * 4}, "v=.* has a number outside −3 … 3"),
    ("HeadGradients", {"cell": ["grad_scores", 4, 0]}, "cell=.* must be one of q, k, v"),
    ("NudgeExplorer", {"at": [4, 0]}, r"at=\[4, 0\] is not an index into .*W_o.weight, of shape \(4, 4\)"),
    ("NudgeExplorer", {"name": "decoder.norm.bias", "at": [0, 1]}, "at="),
    ("LossWatcher", {"landmarks": {"unigram": 0}}, r"landmarks\['unigram'\]=0 must be a positive number"),
    ("LossWatcher", {"landmarks": {"ln V": "four"}}, r"landmarks\['ln V'\]='four' must be"),
    ("BeamTree", {"text": "a" * 101}, "text has 101 characters, but must have 1 to 100"),
    ("CacheMovie", {"text": "a"}, "text has 1 characters, but must have 2 to 24"),
    ("CacheMovie", {"text": "a" * 25}, "text has 25 characters"),
    ("CacheMovie", {"n_kv_heads": 3}, "n_kv_heads=3 does not divide n_heads=4"),
    ("CacheMovie", {"length": 256}, "length=256 is not one of 16, 32, 64, 128"),
    ("CacheMovie", {"measured": {"on": "a tortoise"}}, '"without" and "with", 23 positive numbers each'),
    ("CacheMovie", {"measured": TIMES | {"with": [1.0] * 22}}, "measured has to have"),
    ("CacheMovie", {"measured": TIMES | {"with": [0.0] * 23}}, "measured has to have"),
    ("SamplingLab", {"top_k": 0}, "top_k=0 is not one of 1 … 65"),
    ("SamplingLab", {"other_top_k": 66}, "other_top_k=66 is not one of 1 … 65"),
    ("SamplingLab", {"picked": [[0, "é"]]}, "picked has"),
    ("SamplingLab", {"other_picked": [[-1, "a"]]}, "other_picked has"),
    ("DateTranslator", {"text": "k"}, "k"),
    ("DateTranslator", {"text": "a" * 65}, "65 characters, but must have 1 to 64"),
    ("DateTranslator", {"block": 2}, "block=2 is not one of 0 … 1"),
    ("DateTranslator", {"head": 4}, "head=4 is not one of -1 … 3"),
    ("DateTranslator", {"model": "shakespeare"}, "must be encoder-decoder"),
    ("FillIn", {"covered": [64]}, "covered has 64, which is not one of 0 … 63"),
    ("FillIn", {"covered": [1.5]}, "covered has 1.5"),
    ("FillIn", {"covered": [3, 2]}, r"covered=\[3, 2\] must be in order, each position once"),
    ("FillIn", {"covered": [2, 2]}, "each position once"),
    ("FillIn", {"text": "a" * 65}, "text has 65 .* 1 to 64"),
    ("FillIn", {"text": "é"}, "é"),
    ("FillIn", {"model": "shakespeare"}, "to the family decoder; it must be encoder"),
    ("WiringSwitcher", {"text": ""}, "text has 0 characters, but must have 1 to 12"),
    ("WiringSwitcher", {"source": "a" * 13}, "source has 13 characters"),
    ("ConfigReader", {"text": "x" * 1_000_001}, "text has 1000001 characters"),
    ("CacheCalculator", {"text": "x" * 1_000_001}, "text has 1000001 characters, but must have at most"),
    ("CacheCalculator", {"positions": 0}, "positions=0 is not one of 1 … 10000000"),
    ("DiagnoseIt", {"patients": TWO, "patient": 3}, "patient=3 is not one of 0 … 2"),
    ("DiagnoseIt", {"patients": TWO, "ordered": [["map"]]}, "ordered has 1 entries for 2"),
    ("DiagnoseIt", {"patients": TWO, "ordered": [["hope"], []]}, "'hope'"),
    ("DiagnoseIt", {"patients": ["dropout-in-evaluation"], "ordered": [["map"]]}, "'map'"),
    ("DiagnoseIt", {"patients": TWO, "answers": [[5], []]}, "answers has an option"),
    ("LayerCaches", {"text": ""}, "text has 0 characters, but must have 1 to 60"),
    ("LayerCaches", {"text": "a" * 61}, "text has 61 characters"),
    ("RouterView", {"block": 4}, "block=4 is not one of 0 … 3"),
    ("RouterView", {"expert": 8}, "expert=8 is not one of -1 … 7"),
    ("RouterView", {"text": "é"}, "é"),
    ("RouterView", {"model": "shakespeare"}, "has no experts. RouterView shows a model with experts"),
    ("LogitLens", {"model": "experts"}, "has experts. RouterView shows a model with experts"),
    ("StateWatch", {"pairs": "x" * 601}, "pairs has 601 characters, but must have at most 600"),
    ("GlassMachine", {"part": "guess 5"}, "part='guess 5' is not text, stream or guess 0 to 4"),
    ("GlassMachine", {"part": "head 0 4"}, "for a head which of 4"),
    ("GlassMachine", {"part": "tail"}, "part='tail'"),
    ("GlassMachine", {"reads": "words", "text": "a 7"}, r"text\[2\]='7' is not one of the 65 characters"),
    (
        "GlassMachine",
        {"model": "words"},
        r"is a BytePairTokenizer, but must be.*GlassMachine\(reads='words'\)",
    ),
    ("LiveWriter", {"written": "é"}, "written has 'é', which is not one of the model's 65 characters"),
    ("LiveWriter", {"written": "a" * 801}, "written has 801 characters, but must have at most 800"),
    ("TrainingLab", {"text": "a" * 20_001}, "text has 20001 characters, but at most 20000 can be stored"),
    ("TrainingLab", {"weight": ["x", 0]}, r"weight=\['x', 0\] must be the name of a weight, its row and"),
    ("TrainingLab", {"head": [0]}, r"head=\[0\] must be a block and one of its heads"),
]

DECODERS = {
    *("AblationBoard", "AttentionExplorer", "BeamTree", "GlassMachine"),
    *("LiveWriter", "LogitLens", "NeuronExplorer", "RouterView", "SamplingLab"),
}
REFUSED = [
    *(
        (name, {trait: value}, trait)
        for name in BOUNDS
        for trait in BOUNDS[name]
        for value in BOUNDS[name][trait]
    ),
    *SENTENCES,
    *((name, {"model": "masked"}, "the family encoder; it must be decoder") for name in sorted(DECODERS)),
]


def ids(cases):
    """Returns for each case the chapter and the name of its view, by which the tests of a chapter are found."""
    return [f"{getattr(widgets, name).__module__.split('.')[-2]}-{name}" for name, *_ in cases]


@pytest.mark.parametrize(("name", "traits", "message"), REFUSED, ids=ids(REFUSED))
def test_wrong_traits_are_refused(name, traits, message):
    with pytest.raises(TraitError, match=message):
        getattr(widgets, name)(**traits)


# --- for everybody ---

SCENE = "KING RICHARD III:\nA horse! a horse! my kingdom for a horse!\nSlave, I have set my life upon a cast"
NEARLY_EQUAL = [3.002, 2.999, 3.0, 3.001, 2.998, 3.0]
LONGEST = "to be or not to be that is the incomprehensibilities question indeed"
FILES = {one["name"]: json.dumps(one["config"]) for one in shelf()}
PAIRS = ", ".join(f"hippopotamus{i} colour{i % 5}" for i in range(24))
EXTREME = {name: [[-2.97, 2.95, -2.99]] * 4 for name in "qkv"}

# Views with as much in them as there can be. The tests of those in OTHERS bring them where they are as full.
FULL = [
    ("ShapeTracer", widgets.ShapeTracer()._presets[2][1]),  # GPT-3
    ("ShapeTracer", {"hidden": True, "seen": [1]}),
    ("BytePairStepper", {"text": (LINE + " ") * 4 + "incomprehensibilities 馬", "merges": 0}),
    ("BytePairStepper", {"text": (LINE + " ") * 4 + "incomprehensibilities 馬", "merges": 150}),
    ("CharacterMap", {"table": "embedding"}),
    ("CharacterMap", {"table": "head"}),
    ("RealTokens", {"text": EXAMPLES[3].text}),
    ("AttentionCalculator", {"mask": "after", "q": [[-9.0, -8.75]] * 5, "cell": ["weights", 4, 4]}),
    ("AttentionExplorer", {"block": 3, "head": 2, "text": SCENE, "query": 70}),
    ("ClockHands", {"position": 60, "step": 20, "d_model": 16}),
    ("DistanceBias", {"n_heads": 16, "length": 64}),
    ("DistanceBias", {"method": "t5", "bidirectional": True}),
    ("PositionHeatmap", {"n_positions": 128, "base": 100, "row": 100}),
    ("RotationPlane", {"query_position": 2, "key_position": 9}),
    ("ShuffleSentence", {"words": LONGEST, "causal": True, "layers": 2, "order": list(range(12))[::-1]}),
    ("LogitLens", {"text": SCENE, "position": 33, "depth": 3}),
    ("DepthExplorer", {"gain": 2.0}),
    ("DepthExplorer", {"depth": 8}),
    ("NormComparer", {"x": [each + 1e5 for each in NEARLY_EQUAL], "before": NEARLY_EQUAL}),
    ("NormPlacementExplorer", {"view": "training"}),
    ("NormPlacementExplorer", {"view": "gradients"}),
    ("ActivationExplorer", {"x": 1.2, "magnified": 1000}),
    ("ActivationExplorer", {"show": "gate"}),
    ("NeuronExplorer", {"opened": True}),
    ("AblationBoard", {"off": ["block 1: head 2"]}),
    (
        "ParameterExplorer",
        {"preset": "gpt3", "fields": {"family": "encoder", "pooler": True, "n_segments": 2}},
    ),
    ("HeadGradients", {"raised": "all", **EXTREME, "cell": ["grad_v", 1, 1]}),
    (
        "NudgeExplorer",
        {"name": "decoder.blocks.1.feedforward.W_up.weight", "at": [3, 2], "by": -0.7, "h": 0.1},
    ),
    ("ScheduleDesigner", {"peak": 0.02, "warmup": 0, "steps": 1000, "table": True}),
    ("BeamTree", {"n_beams": 6}),
    ("CacheMovie", {"model": "llama-2-70b", "text": "M" * 24, "step": 14}),
    ("WiringSwitcher", {"family": "encoder-decoder", "text": "M" * 12, "source": "M" * 12, "padding": 3}),
    ("ConfigReader", {}),
    ("ConfigReader", {"text": FILES["DeepSeek-V4-Pro"], "kind": 1}),
    ("ConfigReader", {"text": FILES["Gemma 4 26B-A4B"], "other": FILES["GPT-2"]}),
    ("CacheCalculator", {}),
    ("CacheCalculator", {"text": FILES["Kimi Linear 48B-A3B"], "positions": 10_000_000, "bits": 32}),
    ("ParameterBars", {"other": "bert-base"}),
    ("ParameterBars", {"view": "size", "scale": "gpt3"}),
    ("LayerCaches", {"text": "M" * 60, "position": 58, "top_k": 16}),
    ("RouterView", {}),
    ("RouterView", {"text": SCENE[:128], "block": 2, "expert": 4, "guess": "right after a punctuation mark"}),
    ("StateWatch", {}),
    ("StateWatch", {"pairs": PAIRS, "d_key": 16, "delta": True, "orthogonal": False}),
]
OTHERS = {
    *("DateTranslator", "DiagnoseIt", "FillIn", "GlassMachine", "LiveWriter"),
    *("LossWatcher", "Predict", "Quiz", "SamplingLab", "TrainingLab"),
}


def test_every_view_is_tried_where_it_is_full():
    assert {name for name, _ in FULL} | OTHERS == set(widgets.__all__)


@pytest.mark.sampled(5)
@pytest.mark.parametrize(("name", "traits"), FULL, ids=ids(FULL))
def test_accessible_and_never_wider_than_the_page(mount, shoot, name, traits):
    view = mount(getattr(widgets, name)(**traits), width=360)
    for details in view.root.locator("details").all():
        if details.get_attribute("open") is None:
            details.locator("> summary").press("Enter")
    view.rest()
    shoot(f"{name}-360")
    assert view.overflow() == 0
    assert view.axe_violations() == []
    for target in view.root.locator(".gf-character, .gf-card, .gf-beam-node:visible").all():
        assert min(target.bounding_box()["width"], target.bounding_box()["height"]) >= 24
    view.page.set_viewport_size({"width": 900, "height": 900})
    view.rest()
    shoot(f"{name}-900")
    assert view.overflow() == 0
    heard = view.page.evaluate("mounted[0].model.listening()")
    view.page.evaluate("mounted[0].cleanup()")
    assert view.page.evaluate("mounted[0].model.listening()") < heard
