"""Tests ModelConfig: derived values, errors, JSON, and a parameter count that equals that of a built model."""

import copy
import dataclasses
import json
import math
import pickle
import re
from collections import Counter

import numpy as np
import pytest
from layers.grid import GRID

from glassformer import config as choices
from glassformer.config import ModelConfig
from glassformer.layers import (
    KeyValueSharing,
    LinearAttention,
    OutputGate,
    Residual,
    Rotation,
    Sinks,
    SoftCap,
)
from glassformer.parameters import Part, evaluate, spell

STATE = LinearAttention(n_heads=2, n_key_heads=1, d_key=3, d_value=2)
TINY = {"vocab_size": 11, "context_length": 6, "d_model": 8, "n_layers": 2, "n_heads": 2}


def tiny(**changed):
    return ModelConfig(**{**TINY, **changed})


def two_kinds(order):
    return {"kinds": {"near": {}, "far": {}}, "order": order}


# What is derived


def test_what_is_left_out_is_derived():
    config = tiny()
    assert (config.n_kv_heads, config.d_head, config.d_ff) == (2, 4, 32)
    assert config.attention_scale == 0.5
    assert config.n_decoder_layers is None


def test_what_is_given_stays():
    config = tiny(n_heads=4, n_kv_heads=2, d_head=3, d_ff=5, attention_scale=1.0)
    assert (config.n_kv_heads, config.d_head, config.d_ff, config.attention_scale) == (2, 3, 5, 1.0)
    assert tiny(n_heads=3, d_head=4).d_head == 4  # heads need not divide the width then
    assert tiny(family="encoder-decoder").n_decoder_layers == 2
    assert tiny(family="encoder-decoder", n_decoder_layers=5).n_decoder_layers == 5


def test_which_feedforwards_have_a_gate():
    gated = {name for name in choices.FEEDFORWARDS if tiny(feedforward=name, feedforward_bias=False).gated}
    assert gated == {"swiglu", "geglu", "geglu_tanh"}


def test_equal_configs_are_equal_and_have_one_hash():
    assert tiny() == tiny(d_ff=32, n_kv_heads=2)
    assert len({tiny(), tiny(d_ff=32), tiny(d_ff=33)}) == 2


def test_whole_numbers_and_numpy_numbers_become_plain_ones():
    config = tiny(d_model=np.int64(8), n_segments=0, dropout=0, rope_base=np.float32(100))
    kinds = [type(getattr(config, name)) for name in ("d_model", "d_ff", "dropout", "rope_base")]
    assert kinds == [int, int, float, float]
    json.loads(config.to_json())


BUILT_WITH = {
    "none": {},
    "sinusoidal": {"d_model": 8},
    "learned": {"context_length": 6, "d_model": 8, "generator": "drawn by it"},
    "rope": {},
    "alibi": {"n_heads": 2},
    "t5": {
        "n_heads": 2,
        "bidirectional": True,
        "n_buckets": 8,
        "max_distance": 20,
        "generator": "drawn by it",
    },
}
ROTATION = {"d_head": 4, "base": 50.0, "layout": "interleaved", "scaling": "yarn", "interpolation": 2.0} | {
    "original_context": 3,
    "slow": 0.5,
    "fast": 9.0,
    "attention_factor": 1.5,
}


@pytest.mark.parametrize("positions", choices.POSITIONS)
def test_what_a_position_encoding_is_built_with(positions):
    """Both rooms take it from here, so that no comparison of the two would show a mistake."""
    rope = {f"rope_{name}": value for name, value in ROTATION.items() if name != "d_head"}
    config = tiny(positions=positions, t5_n_buckets=8, t5_max_distance=20, **rope)
    assert config.position_arguments(False, generator="drawn by it") == BUILT_WITH[positions]
    rotation = config.layer(0).attention.rotation
    assert rotation == (Rotation(**ROTATION) if positions == "rope" else None)


# Replacing


def test_replace_derives_anew_what_was_derived():
    changed = tiny().replace(d_model=12, n_heads=3)
    assert (changed.d_ff, changed.d_head, changed.n_kv_heads) == (48, 4, 3)
    assert tiny(family="encoder-decoder").replace(n_layers=7).n_decoder_layers == 7
    assert tiny().replace(d_head=16).attention_scale == 0.25


def test_replace_keeps_what_was_given():
    changed = tiny(d_ff=20, d_head=6, attention_scale=1.0).replace(d_model=12)
    assert (changed.d_ff, changed.d_head, changed.attention_scale) == (20, 6, 1.0)


def test_replace_remembers_through_copies_and_further_replacing():
    for config in (
        tiny().replace(n_layers=3),
        copy.deepcopy(tiny(n_layers=3)),
        pickle.loads(pickle.dumps(tiny(n_layers=3))),
    ):
        assert config.replace(d_model=16) == tiny(n_layers=3, d_model=16)


def test_replace_leaves_the_original_alone_and_accepts_none():
    config = tiny(d_ff=20)
    assert config.replace(d_ff=None).d_ff == 32
    assert config.d_ff == 20
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.d_model = 16


def test_replace_holds_the_result_to_the_rules():
    with pytest.raises(ValueError, match="d_model=9 is not divisible by n_heads=2"):
        tiny().replace(d_model=9)
    with pytest.raises(TypeError, match="n_layer"):
        tiny().replace(n_layer=3)


# What is refused: the fields, and how the message begins; the rest is in test_checks.py, unless config.py says it

WHOLE = ("vocab_size", "context_length", "d_model", "n_layers", "n_heads", "n_kv_heads", "d_head", "d_ff")
POSITIVE = ("rope_base", "rope_interpolation", "norm_eps", "attention_scale", "embedding_scale", "head_scale")
POSITIVE += ("rope_slow", "rope_fast", "rope_attention_factor", "rope_share")
FLAGS = ("qk_norm", "feedforward_bias", "embedding_norm", "head_bias", "head_transform", "pooler")
FLAGS += ("rope_proportional", "rope_truncate")

LENDS, BORROWS = KeyValueSharing(), KeyValueSharing(borrows="far")

WRONG_VALUES = [
    *[({name: 0}, f"{name}=0 must") for name in WHOLE],
    *[({name: 0.0}, f"{name}=0.0 must") for name in POSITIVE],
    *[
        ({name: "x"}, f"{name}='x' is not one of '{options[0]}', ")
        for name, options in choices.CHOICES.items()
    ],
    ({"head": None}, "head=None is not one of 'tied', 'untied', 'none'"),
    ({"n_segments": -1}, "n_segments=-1 must be at least 0"),
    ({"t5_n_buckets": 0}, "t5_n_buckets=0"),
    ({"dropout": 1.0}, "dropout=1.0"),
    ({"rope_original_context": 0}, "rope_original_context=0"),
    (
        {"rope_scaling": "llama3", "rope_slow": 5, "rope_fast": 5.0},
        "rope_slow=5.0 must be below rope_fast=5.0",
    ),
    ({"rope_scaling": "yarn", "rope_base": 1.0}, 'rope_base=1.0 must exceed 1 with rope_scaling="yarn"'),
    ({"sliding_window": 0}, "sliding_window=0"),
    *[
        (
            {"sliding_window": 3, "family": family},
            f"sliding_window=3 needs family=\"decoder\", not '{family}': "
            "a window covers the positions just before a query",
        )
        for family in ("encoder", "encoder-decoder")
    ],
    ({"d_model": 9}, "d_model=9 is not divisible by n_heads=2"),
    ({"n_heads": 4, "n_kv_heads": 3}, "n_heads=4 is not divisible by n_kv_heads=3"),
    ({"n_kv_heads": 4}, "n_heads=2 is not divisible by n_kv_heads=4"),
    ({"positions": "rope", "d_head": 3}, "d_head=3 is odd"),
    ({"positions": "rope", "d_model": 6}, "d_head=3 is odd"),
    ({"positions": "sinusoidal", "d_model": 9, "n_heads": 3}, "d_model=9 is odd"),
    ({"positions": "t5", "t5_n_buckets": 1}, "t5_n_buckets=1 must be at least 2"),
    ({"positions": "t5", "family": "encoder", "t5_n_buckets": 2}, "t5_n_buckets=2 must be at least 4"),
    (
        {"positions": "t5", "family": "encoder-decoder", "t5_max_distance": 16},
        "t5_max_distance=16 must exceed the 16",
    ),
    ({"positions": "t5", "family": "encoder", "t5_max_distance": 8}, "t5_max_distance=8 must exceed the 8"),
    (
        {"n_decoder_layers": 2},
        "n_decoder_layers=2 needs family=\"encoder-decoder\", not 'decoder': "
        "with a single stack, n_layers is its depth",
    ),
    ({"family": "encoder-decoder", "n_decoder_layers": 0}, "n_decoder_layers=0"),
    (
        {"n_segments": 2},
        "n_segments=2 needs family=\"encoder\", not 'decoder': generated text belongs to no segment",
    ),
    (
        {"pooler": True, "family": "encoder-decoder"},
        "pooler=True needs family=\"encoder\", not 'encoder-decoder': "
        "the first position of a causal stack sees only itself",
    ),
    ({"head": "none", "head_bias": True}, 'head_bias=True needs a head, but head="none"'),
    ({"head": "none", "head_transform": True}, 'head_transform=True needs a head, but head="none"'),
    ({"head": "none", "head_scale": 0.5}, 'head_scale=0.5 needs a head, but head="none"'),
    ({"head": "none", "logit_cap": 5.0}, 'logit_cap=5.0 needs a head, but head="none"'),
    ({"logit_cap": 0.0}, "logit_cap=0.0 must"),
    ({"order": "near"}, "order='near' needs kinds"),
    ({"kinds": {"near": {}, "far": {}}}, "order is missing: in which order do near, far come?"),
    (two_kinds("near*0 far"), "order='near*0 far' has 'near*0': after the * must come a number of layers"),
    (two_kinds("near far*"), "order='near far*' has 'far*': after the * must come a number of layers"),
    (two_kinds("near for"), "order='near for' names 'for', but kinds has near, far"),
    (two_kinds("near"), "order='near' never names far, which kinds has"),
    (two_kinds(""), "order='' never names near, far"),
    ({"kinds": {"a b": {}}}, "kinds has the name 'a b', which must be a word such as 'near'"),
    ({"kinds": {"near": {"window": 3}}}, "kinds['near'] has 'window'; a kind of layer can have n_heads, "),
    ({"kinds": {"near": {"d_model": 3}}}, "kinds['near'] has 'd_model'; a kind of layer can have n_heads, "),
    ({"kinds": {"near": {"n_kv_heads": 3}}}, "kinds['near']: n_heads=2 is not divisible by n_kv_heads=3"),
    ({"kinds": {"near": {"sliding_window": 0}}}, "kinds['near']: sliding_window=0 must be at least 1"),
    (
        {"kinds": {"near": {"positions": "rope"}}},
        "kinds['near']: positions='rope' cannot differ from layer to layer, except between 'rope' and 'none'; the "
        "model has 'learned'",
    ),
    (
        {"positions": "alibi", "kinds": {"near": {"n_heads": 4, "d_head": 2}}},
        "kinds['near']: n_heads=4 differs from the model's 2, but with positions='alibi' all layers share one bias",
    ),
    (
        {"positions": "rope", "d_head": 4, "rope_share": 0.25},
        "rope_share=0.25 of d_head=4 is 1 features: it must be an even number, at most d_head",
    ),
    (
        {"positions": "rope", "d_head": 4, "rope_share": 1.5},
        "rope_share=1.5 of d_head=4 is 6 features: it must be an even number, at most d_head",
    ),
    (
        {"kinds": {"near": {"sinks": Sinks(), "scores": SoftCap(2.0)}}},
        "kinds['near']: sinks beside changed scores are not built: no published model has both",
    ),
    *[
        (
            {"attention_bias": "none", "kinds": {"near": {"form": STATE, **own}}, **changed},
            f"kinds['near']{ends}",
        )
        for own, changed, ends in (
            (
                {"scores": SoftCap(2.0)},
                {},
                ": scores=SoftCap(cap=2.0) means nothing for a layer with a state",
            ),
            ({"sliding_window": 3}, {}, ": sliding_window=3 means nothing for a layer with a state"),
            ({"sinks": Sinks()}, {}, ": sinks=Sinks() is not built for LinearAttention: it must be None"),
            (
                {},
                {"attention_bias": "qkv"},
                ": bias='qkv' is not built for LinearAttention: it must be 'none'",
            ),
            ({}, {"qk_norm": True}, ": qk_norm=True is not built for LinearAttention: it must be False"),
            ({}, {"family": "encoder"}, ": a state only looks back, which family='encoder' does not"),
            ({}, {"family": "encoder-decoder"}, " has form, which a model of two stacks cannot have"),
            ({}, {"positions": "alibi"}, " has form, which cannot have positions='alibi'"),
        )
    ],
    *[
        ({"feedforward": "none", **changed}, f"{name}=True needs an activation, but feedforward='none'")
        for name, changed in (
            ("feedforward_bias", {}),
            ("head_transform", {"feedforward_bias": False, "head_transform": True}),
        )
    ],
    (
        {"kinds": {"near": {"gate": OutputGate()}}, "family": "encoder-decoder"},
        "kinds['near'] has gate, which a model of two stacks cannot have",
    ),
    *[
        (
            {"kinds": {"far": {"sharing": far}, "near": {"sharing": near, **own}}, "order": order},
            f"{begins}",
        )
        for far, near, own, order, begins in (
            (
                LENDS,
                KeyValueSharing(borrows="near"),
                {},
                "far near",
                "kinds['near'] borrows from 'near', which is no",
            ),
            (
                LENDS,
                KeyValueSharing(borrows="x"),
                {},
                "far near",
                "kinds['near'] borrows from 'x', which is no kind",
            ),
            (
                None,
                BORROWS,
                {},
                "far near",
                "kinds['near'] borrows from 'far', which is no kind with keys of its own",
            ),
            (
                LENDS,
                BORROWS,
                {"d_head": 3},
                "far near",
                "kinds['near'] has d_head=3, but borrows from 'far' with d",
            ),
            (
                LENDS,
                BORROWS,
                {},
                "near far",
                "order='near far' has 'near' before 'far', from which it borrows",
            ),
        )
    ],
]
WRONG_KINDS = [
    ({"kinds": {}}, "kinds={} must have at least one kind of layer by its name"),
    ({"kinds": ["near"]}, "kinds=['near'] must have at least one kind of layer by its name"),
    ({"kinds": {"near": 3}}, "kinds['near']=3 must be a dictionary"),
    ({"kinds": {"near": {"scores": 50.0}}}, "kinds['near']: scores=50.0 must be a SoftCap or PositionScale"),
    (
        {"kinds": {"near": {"scores": Residual()}}},
        "kinds['near']: scores=Residual(placement='pre', scale=1.0) must be a SoftCap or PositionScale",
    ),
    ({"kinds": {"near": {"sliding_window": 2.0}}}, "kinds['near']: sliding_window=2.0 must"),
    (two_kinds(3), "order must be a string such as 'near*5 far', not int"),
    ({"logit_cap": "x"}, "logit_cap='x' must"),
    ({"streams": 4}, "streams=4 must be a Streams"),
    ({"layer_embeddings": 4}, "layer_embeddings=4 must be a LayerEmbeddings"),
    *[({name: 2.0}, f"{name}=2.0 must") for name in (*WHOLE, "n_segments", "sliding_window")],
    *[({name: None}, f"{name}=None must") for name in WHOLE[:5]],
    *[({name: "1"}, f"{name}='1' must") for name in (*POSITIVE, "dropout")],
    *[({name: 1}, f"{name}=1 must") for name in FLAGS],
    ({"t5_max_distance": 1.5}, "t5_max_distance=1.5"),
]


@pytest.mark.parametrize(
    ("fields", "begins"), [*WRONG_VALUES, *WRONG_KINDS], ids=lambda value: str(value)[:60]
)
def test_it_is_refused_and_the_message_says_why(fields, begins):
    with pytest.raises(ValueError if (fields, begins) in WRONG_VALUES else TypeError) as caught:
        tiny(**fields)
    assert str(caught.value).startswith(begins)


def test_every_field_is_refused_something():
    refused = {name for fields, _ in [*WRONG_VALUES, *WRONG_KINDS] for name in fields}
    assert refused == {f.name for f in dataclasses.fields(ModelConfig)}


@pytest.mark.parametrize(
    "fields",
    [
        {"positions": "learned", "d_head": 3},  # odd widths matter to rotations alone
        {"positions": "t5", "t5_n_buckets": 2, "t5_max_distance": 2},
        {"positions": "t5", "t5_n_buckets": 7},
        {"positions": "t5", "family": "encoder", "t5_max_distance": 9},
        {"positions": "none", "t5_n_buckets": 7, "t5_max_distance": 1},
        {"family": "encoder", "n_segments": 1},  # RoBERTa's
        {"family": "encoder", "head": "none", "pooler": True},
        {"family": "encoder", "head": "tied", "pooler": True},
        {"dropout": 0.999},
    ],
)
def test_what_is_allowed_at_the_edge(fields):
    tiny(**fields)


# JSON


every_config = pytest.mark.parametrize("config", GRID.values(), ids=GRID)


@every_config
def test_json_brings_every_config_back(config):
    text = config.to_json()
    assert ModelConfig.from_json(text) == config
    assert ModelConfig.from_json(text).to_json() == text


def test_json_holds_every_field_in_order_and_derived_sizes_as_numbers():
    text = tiny().to_json()
    assert text.startswith('{\n  "vocab_size": 11,\n  "context_length": 6,\n')
    before = [f.name for f in dataclasses.fields(ModelConfig) if f.name not in choices.LATER]
    assert list(json.loads(text)) == before
    later = json.loads(tiny(logit_cap=30.0, kinds={"only": {"scores": SoftCap(5.0)}}).to_json())
    assert later["logit_cap"] == 30.0
    assert later["kinds"] == {"only": {"scores": {"SoftCap": {"cap": 5.0}}}}
    assert json.loads(text)["d_ff"] == 32


def test_fields_with_a_default_may_be_missing():
    assert ModelConfig.from_json(json.dumps(TINY)) == tiny()


def without(name):
    return json.dumps({key: value for key, value in TINY.items() if key != name})


NOT_A_CONFIG = [
    ("d_model: 8", "text is not JSON: Expecting value: line 1 column 1 (char 0)"),
    ("[1, 2]", "text must be a JSON object of fields, not [1, 2]"),
    (42, "text must be a string of JSON, not int"),
    (without("d_model"), "ModelConfig needs the field 'd_model'"),
    (json.dumps(TINY | {"n_layer": 2}), "ModelConfig has no field 'n_layer'; did you mean 'n_layers'?"),
    (json.dumps(TINY | {"norm_eps": 0}), "norm_eps=0 must be positive and finite"),
    (
        json.dumps(TINY | {"norm_eps": math.nan}),
        "text: norm_eps=nan must be finite, at most 1.8e+308 in absolute value",
    ),
]


@pytest.mark.parametrize(("text", "message"), NOT_A_CONFIG, ids=lambda value: str(value)[:40])
def test_what_is_no_config_is_refused(text, message):
    with pytest.raises((ValueError, TypeError), match=f"^{re.escape(message)}$"):
        ModelConfig.from_json(text)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (TINY | {"zzz": 1}, "; it has 47 others"),
        ({"emb_dim": 8, **json.loads(without("d_model"))}, ", and needs d_model"),
    ],
)
def test_an_unknown_field_that_resembles_none_is_not_answered_by_a_list_of_47(given, message):
    with pytest.raises(ValueError, match=rf"^ModelConfig has no field '\w+'{message}$"):
        ModelConfig.from_json(json.dumps(given))


# Counting, by hand: V = 11, T = 6, D = 8, F = 32, H = 2, K = 4, two blocks


BY_HAND = {
    "decoder": (
        {},
        {
            "token embedding": 88, "positions": 48, "final norm": 16, "head": 0,
            "attention": 2 * (4 * 64 + 4 * 8),  # four matrices (8, 8), each with a bias
            "feed-forward": 2 * (8 * 32 + 32 + 32 * 8 + 8),
            "norms": 2 * 2 * 16,
        },
    ),
    "encoder": (
        {
            "family": "encoder", "norm_placement": "post", "embedding_norm": True, "n_segments": 2, "pooler": True,
            "head_bias": True, "head_transform": True,
        },
        {
            "token embedding": 88, "positions": 48, "segments": 16, "embedding norm": 16, "attention": 576,
            "feed-forward": 1104, "norms": 64, "pooler": 72,
            "head": 72 + 16 + 11,  # linear layer, norm, bias
        },
    ),
    "encoder-decoder": (
        {
            "family": "encoder-decoder", "n_decoder_layers": 3, "positions": "t5", "norm": "rmsnorm",
            "attention_bias": "none", "feedforward": "geglu_tanh", "feedforward_bias": False, "d_ff": 10,
            "head": "untied",
        },
        {
            "token embedding": 88, "final norm": 16, "head": 88,
            "positions": 2 * 32 * 2,  # a table for each stack, 32 buckets for 2 heads
            "attention": 5 * 256, "cross-attention": 3 * 256, "feed-forward": 5 * 240,
            "norms": 2 * 2 * 8 + 3 * 3 * 8,
        },
    ),
    "grouped heads": (
        {
            "n_heads": 4, "n_kv_heads": 2, "d_head": 6, "attention_bias": "qkv", "qk_norm": True, "positions": "rope",
            "norm": "rmsnorm", "feedforward": "swiglu", "d_ff": 10,
        },
        {
            "token embedding": 88, "positions": 0, "norms": 32, "final norm": 8, "head": 0,
            # W_q and W_o are (8, 24) and (24, 8), W_k and W_v (8, 12); biases 24 + 12 + 12; gains 6 + 6
            "attention": 2 * (192 + 192 + 96 + 96 + 48 + 12),
            "feed-forward": 2 * (3 * 80 + 10 + 10 + 8),
        },
    ),
    "kinds of layers": (
        {
            "n_layers": 5, "attention_bias": "none", "feedforward_bias": False, "norm": "rmsnorm", "positions": "rope",
            "order": "near*2 far",
            "kinds": {
                "near": {"d_ff": 10, "residual": Residual(placement="sandwich")},
                "far": {"n_kv_heads": 1, "qk_norm": "width"},
            },
        },
        {
            "token embedding": 88, "positions": 0, "final norm": 8, "head": 0,
            # near, near, far, near, near: 4 of near, with W_k and W_v (8, 8), and one of far, with (8, 4), gains 8 + 4
            "attention, near": 4 * 4 * 64, "attention, far": 2 * 64 + 2 * 32 + 8 + 4,
            "feed-forward, near": 4 * 2 * 80, "feed-forward, far": 2 * 256,
            "norms": 4 * 4 * 8 + 2 * 8,
        },
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_HAND)
def test_counts_worked_by_hand(name):
    fields, expected = BY_HAND[name]
    count = tiny(**fields).parameter_count()
    assert {part.name: part.count for part in count.parts} == expected
    assert count.total == sum(expected.values())


def test_an_absent_part_is_named_with_those_there_are():
    count = tiny().parameter_count()
    with pytest.raises(
        KeyError, match="'pooler' is not a part of this model; its parts are token embedding, pos"
    ):
        count["pooler"]


# The table


def as_python(formula):
    """Turns a printed formula into Python: "12 × (4D² + 2D·F)" becomes 12 * (4*D**2 + 2*D*F)."""
    formula = re.sub(r"(\d)([A-Z])", r"\1*\2", formula)
    formula = re.sub(r"([²³])([A-Z])", r"\1*\2", formula)
    return formula.replace("×", "*").replace("·", "*").replace("²", "**2").replace("³", "**3")


@every_config
def test_every_printed_formula_has_the_printed_value(config):
    count = config.parameter_count()
    kinds = {name: layer for name, (layer, _) in config.layers(config.n_layers).items()}
    for part in count.parts:
        if part.formula:
            of = kinds.get(part.name.rpartition(", ")[2], kinds[next(iter(kinds))])
            own = count.sizes | of.attention.sizes | of.feedforward.sizes
            assert eval(as_python(str(part)), {}, own) == part.count
        else:
            assert part.note
            assert part.count == 0
    of_blocks = {
        kind: eval(as_python(line.split(": ")[1].split(" = ")[0]), {}, count.own_sizes[kind])
        for kind, line in zip(count.blocks, count._block_lines(), strict=True)
    }
    n_blocks = {}
    for kind in kinds:
        which = f"{kind} " if config.kinds else ""
        for stack, n in (
            ("encoder", config.n_layers),
            ("decoder", config.n_decoder_layers or config.n_layers),
        ):
            n_blocks[f"{which}{stack}"] = config.layers(n)[kind][1]
    in_blocks = ("attention", "cross-attention", "feed-forward", "norms")
    in_blocks += ("hyper-connections", "their sublayers", "stream scales")
    in_parts = sum(part.count for part in count.parts if part.name.split(",")[0] in in_blocks)
    assert sum(n_blocks[kind] * of_blocks[kind] for kind in of_blocks) == in_parts


def test_the_table_of_gpt2():
    gpt2 = ModelConfig(vocab_size=50257, context_length=1024, d_model=768, n_layers=12, n_heads=12)
    assert str(gpt2.parameter_count()) == TABLE.strip("\n")


TABLE = """
part             formula                           each   parameters     share
──────────────────────────────────────────────────────────────────────────────
token embedding  V·D                                      38,597,376   31.02 %
positions        T·D                                         786,432    0.63 %
attention        12 × (4D² + 4D)              2,362,368   28,348,416   22.78 %
feed-forward     12 × (2D·F + F + D)          4,722,432   56,669,184   45.54 %
norms            24 × 2D                          1,536       36,864    0.03 %
final norm       2D                                            1,536    0.00 %
head             tied to the token embedding                       0    0.00 %
──────────────────────────────────────────────────────────────────────────────
total                                                    124,439,808  100.00 %

one decoder block: 12D² + 13D = 7,087,872
V = vocab_size = 50,257, T = context_length = 1,024, D = d_model = 768, F = d_ff = 3,072
"""


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        (
            {"n_heads": 4, "n_kv_heads": 1, "attention_bias": "none"},
            "one decoder block: 10D² + 2D·K + 9D = 744",
        ),
        ({}, "one decoder block: 12D² + 13D = 872"),
        ({"attention_bias": "none"}, "one decoder block: 12D² + 9D = 840"),
        ({"d_ff": 12}, "one decoder block: 4D² + 2D·F + 9D + F = 532"),
        ({"family": "encoder", "d_ff": 8}, "one encoder block: 6D² + 10D = 464"),
    ],
)
def test_a_block_in_one_formula(fields, line):
    assert line in str(tiny(**fields).parameter_count()).splitlines()


@pytest.mark.parametrize("positions", ["sinusoidal", "rope", "alibi"])
def test_positions_that_are_not_learned_say_so(positions):
    count = tiny(positions=positions).parameter_count()
    assert f"\npositions        {positions}: computed, not learned " in str(count)
    assert count["positions"] == tiny(positions="none").parameter_count()["positions"] == 0


def test_a_formula_is_spelled_and_evaluated():
    formula = Counter(D=4, DD=4, DGK=1)
    assert spell(formula) == "D·G·K + 4D² + 4D"
    assert evaluate(formula, {"D": 10, "G": 2, "K": 3}) == 60 + 400 + 40
    assert spell(Counter()) == "0"
    assert str(Part("norms", 2, Counter(D=2), 20)) == "2 × 2D"
    with pytest.raises(KeyError, match="F"):
        evaluate(Counter(F=1), {"D": 10})
