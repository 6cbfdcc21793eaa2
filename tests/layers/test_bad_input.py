"""Tests that each function refuses wrong arguments by name. The messages themselves: `tests/test_checks.py`."""

import jaxtyping
import numpy as np
import pytest

from glassformer import scratch

from .grid import SYSTEMS
from .rooms import METHODS, SCRATCH, Layer, both_rooms


def names_in(room):
    """Returns what the tables below call: everything in that room, and small arrays, layers and models."""
    drawn, layers = room.parameters(), room.layers

    def ones(*shape, dtype="float64"):
        return room.array(np.ones(shape), dtype)

    def model(system="GPT-2", **changed):
        """Returns a model with V = 11, D = 8, H = 2 and a context of 12."""
        return layers.Transformer(SYSTEMS[system].replace(**changed), generator=None)

    def read(*shape, system="GPT-2", **given):
        """Reads ids of that shape, all 0."""
        arrays = {n: room.array(v) if isinstance(v, (np.ndarray, list)) else v for n, v in given.items()}
        return model(system)(room.array(np.zeros(shape, int)), **arrays)

    def attend(q=(5, 4), k=(6, 4), v=(6, 4), **given):
        return layers.scaled_dot_product_attention(ones(*q), ones(*k), ones(*v), **given)

    def attention(**changed):
        return layers.MultiHeadAttention(**{"d_model": 12, "n_heads": 3, **drawn, **changed})

    def t5(n_heads=2, **changed):
        return layers.T5Positions(n_heads, **{"bidirectional": True, **drawn, **changed})

    def loss(logits, targets, **given):
        return layers.cross_entropy(ones(*logits), room.array(targets), **given)

    def loaded(**changed):
        layer = scratch.Linear(2, 3, **drawn)
        state = layer.state_dict() | changed
        layer.load_state_dict({name: values for name, values in state.items() if values is not None})

    return (
        {name: getattr(layers, name) for name in layers.__all__} | {"array": room.array, "np": np} | locals()
    )


# What is called: how the message begins
WRONG_VALUES = {
    "TokenEmbedding(0, 4, **drawn)": "vocab_size=0",
    "TokenEmbedding(3, -4, **drawn)": "d_model=-4",
    "TokenEmbedding(3, 4, **drawn)(array([[0, 2, 1], [2, 3, 7]]))": "ids[1, 1]=3 is outside 0..2 (vocab_size=3)",
    # Positions
    "frequencies(7)": "d=7 is odd",
    "frequencies(8, base=-2.0)": "base=-2.0",
    "sinusoidal(array([0, 1]), 7)": "d_model=7 is odd",
    "sinusoidal(array([0, 1]), 8, base=float('inf'))": "base=inf",
    "sinusoidal(array([[0, 1]]), 8)": "positions has shape (1, 2)",
    "SinusoidalPositions(7)": "d_model=7 is odd",
    "SinusoidalPositions(8, base=0.0)": "base=0.0",
    "SinusoidalPositions(8).embed(ones(5, 6))": "x.shape[-1]=6 does not match d_model=8",
    "SinusoidalPositions(8).embed(ones(8))": "x has shape (8,)",
    "SinusoidalPositions(8).embed(ones(5, 8), array([0, 1]))": "position_ids has 2 entries",
    "LearnedPositions(0, 8, **drawn)": "context_length=0",
    "LearnedPositions(4, 0, **drawn)": "d_model=0",
    "LearnedPositions(4, 8, **drawn).embed(ones(2, 5, 8))": "position_ids[4]=4 is outside 0..3 (context_length=4)",
    "LearnedPositions(4, 8, **drawn).embed(ones(2, 8), array([0, -1]))": "position_ids[1]=-1",
    "LearnedPositions(4, 8, **drawn).embed(ones(2, 6))": "x.shape[-1]=6 does not match d_model=8",
    "rotation_angles(array([0, 1]), 5)": "d_head=5 is odd",
    "rotation_angles(array([0, 1]), 4, interpolation=0.0)": "interpolation=0.0",
    "rotation_angles(array([0, 1]), 4, base=0.0)": "base=0.0",
    "rotation_angles(array(3), 4)": "positions has shape ()",
    "stretch(4, original_context=9, scaling='ntk')": "scaling='ntk' is not one of 'linear', 'llama3', 'yarn'",
    "stretch(4, original_context=0)": "original_context=0",
    "stretch(4, original_context=9, interpolation=0.0)": "interpolation=0.0",
    "stretch(4, original_context=9, slow=0.0)": "slow=0.0",
    "stretch(4, original_context=9, fast=0.0)": "fast=0.0",
    "stretch(4, original_context=9, scaling='llama3', slow=4.0, fast=1.0)": "slow=4.0 must be below fast=1.0",
    "rotate(ones(2, 4), ones(2, 2), layout='halves')": "layout='halves' is not one of 'half', 'interleaved'",
    "rotate(ones(3, 4), ones(1, 2))": "angles.shape[-2:]=(1, 2) does not match (T, d_head/2)=(3, 2)",
    "rotate(ones(3, 5), ones(3, 2))": "d_head=5 is odd",
    "rotate(ones(4), ones(2))": "x has shape (4,)",
    "RotaryPositions(5)": "d_head=5 is odd",
    "RotaryPositions(4, layout='rotary')": "layout='rotary' is not one of 'half', 'interleaved'",
    "RotaryPositions(4, base=-1.0)": "base=-1.0",
    "RotaryPositions(4, interpolation=-1.0)": "interpolation=-1.0",
    "RotaryPositions(4, attention_factor=0.0)": "attention_factor=0.0",
    "RotaryPositions(4, base=1.0, scaling='yarn', original_context=9)": "base=1.0 must exceed 1",
    "RotaryPositions(4).rotate(ones(2, 5, 6))": "x.shape[-1]=6 does not match d_head=4",
    "RotaryPositions(4).rotate(ones(5, 4), array([[0, 1, 2, 3, 4]]))": "position_ids has shape (1, 5)",
    "relative_positions(array([0]), array([[[1]]]))": "key_positions has shape (1, 1, 1)",
    "relative_positions(array(0), array([1]))": "query_positions has shape ()",
    "alibi_slopes(0)": "n_heads=0",
    "AlibiPositions(-1)": "n_heads=-1",
    "t5_bucket(array([1]), bidirectional=True, n_buckets=3)": "n_buckets=3 must be at least 4",
    "t5_bucket(array([1]), bidirectional=False, max_distance=16)": "max_distance=16 must exceed the 16",
    "t5(0)": "n_heads=0",
    "t5(n_buckets=2)": "n_buckets=2",
    # Attention
    "softmax(ones(3, 0))": "x.shape[-1]=0",
    "causal_mask(0)": "n_queries=0",
    "causal_mask(3, 2)": "n_keys=2 must be at least 3",
    "window_mask(0, window=1)": "n_queries=0",
    "window_mask(3, 2, window=1)": "n_keys=2 must be at least 3",
    "window_mask(3, window=0)": "window=0",
    "attend(k=(0, 4), v=(0, 4))": "q (5, 4), k (0, 4), v (0, 4): there is no key",
    "attend(mask=ones(6, 5, dtype='bool'))": "mask of shape (6, 5)",
    "attend(score_bias=ones(3, 5, 6))": "score_bias of shape (3, 5, 6)",
    "split_heads(ones(5, 8), 3)": "d_model=8 is not divisible by n_heads=3",
    "split_heads(ones(8), 2)": "x has shape (8,)",
    "merge_heads(ones(5, 4))": "x has shape (5, 4)",
    "repeat_heads(ones(2, 5, 4), 0)": "times=0",
    "repeat_heads(ones(5, 4), 2)": "x has shape (5, 4)",
    "attention(d_model=50, n_heads=4)": "d_model=50 is not divisible by n_heads=4",
    "attention(n_heads=0)": "n_heads=0",
    "attention(n_kv_heads=2)": "n_heads=3 is not divisible by n_kv_heads=2",
    "attention(bias=True)": "bias=True is not one of 'all', 'qkv', 'none'",
    "attention(position_encoding=AlibiPositions(1))": "position_encoding.n_heads=1 does not match n_heads=3",
    "attention(position_encoding=RotaryPositions(6))": "position_encoding.d_head=6 does not match d_head=4",
    "attention()(ones(5, 10))": "x.shape[-1]=10 does not match d_model=12",
    "attention()(ones(12))": "x has shape (12,)",
    "attention()(ones(0, 12))": "q (3, 0, 4), k (3, 0, 4), v (3, 0, 4): there is no key",
    "attention()(ones(5, 12), position_ids=array([0, 1, 2]))": "position_ids has 3 entries",
    "attention()(ones(2, 5, 12), position_ids=array(np.zeros((3, 5), int)))": "position_ids has shape (3, 5)",
    "attention(causal=True)(ones(2, 5, 12), mask=ones(4, 4, dtype='bool'))": "mask of shape (4, 4)",
    "attention()(ones(5, 12), score_bias=ones(2, 5, 5))": "score_bias of shape (2, 5, 5)",
    # Linear maps, norms, feed-forward network, head
    "Linear(0, 3, **drawn)": "n_in=0",
    "Linear(3, 2, **drawn)(ones(5, 4))": "x.shape[-1]=4 does not match n_in=3",
    **{f"{norm}(0)": "d_model=0" for norm in ("LayerNorm", "RMSNorm")},
    **{f"{norm}(4, eps=0.0)": "eps=0.0" for norm in ("LayerNorm", "RMSNorm")},
    **{
        f"{norm}(4)(ones(3, 5))": "x.shape[-1]=5 does not match d_model=4"
        for norm in ("LayerNorm", "SigmaNorm", "RMSNorm")
    },
    "FeedForward(4, 8, activation='swish', **drawn)": "activation='swish' is not one of 'relu', 'relu2', 'gelu'",
    "FeedForward(4, 0, **drawn)": "n_out=0",
    "FeedForward(4, 8, **drawn)(ones(3, 5))": "x.shape[-1]=5 does not match n_in=4",
    "model().head(ones(3, 7))": "x.shape[-1]=7 does not match d_model=8",
    "model('BERT').pool(ones(8))": "x has shape (8,)",
    # The cache
    "KeyValueCache(0, 2, 5, 4)": "batch_size=0",
    "KeyValueCache(1, 0, 5, 4)": "n_kv_heads=0",
    "KeyValueCache(1, 2, 0, 4)": "capacity=0",
    "KeyValueCache(1, 2, 5, 4).append(ones(1, 2, 3, 5), ones(1, 2, 3, 5))": "the keys have shape (1, 2, 3, 5)",
    "KeyValueCache(1, 2, 5, 4).append(*[ones(1, 2, 6, 4)] * 2)": "the cache has room for capacity=5 positions",
    "model().new_cache(2, 5).reorder([0, 2])": "rows[1]=2 is outside 0..1 (batch_size=2)",
    "model().new_cache(2, 5).reorder([0])": "rows has 1 entries",
    "model().new_cache(1, 0)": "capacity=0",
    "read(1, 3, cache=model('the modern one').new_cache(1, 5))": "the keys have shape (1, 2, 3, 4)",
    "read(1, 3, cache=model().new_cache(2, 5))": "ids of shape (1, 3) do not fit the cache",
    "read(1, 6, cache=model().new_cache(1, 5))": "the cache has room for capacity=5 positions",
    "read(1, 3, system='BERT', cache=model().new_cache(1, 5))": "cache is for a decoder",
    # Models
    "model('BERT').new_cache(1, 5)": "this model has no decoder",
    "model().encode(array([0]))": "this model has no encoder",
    "model(head='none').head(ones(3, 8))": "this model has no head",
    "model().pool(ones(3, 8))": "this model has no pooler",
    "model()(array([0, 11]))": "ids[1]=11 is outside 0..10 (vocab_size=11)",
    "read(13)": "position_ids[12]=12 is outside 0..11 (context_length=12)",
    "read(2, 3, mask=np.ones((2, 4), bool))": "mask.shape=(2, 4) does not match (..., S)=(2, 3)",
    "read(2, 3, system='BLOOM', position_ids=[0, 1])": "position_ids has 2 entries",
    "read(2, 3, segments=np.zeros((2, 3), int))": "segments were given, but n_segments=0",
    "read(3, source=[0, 1])": "source is for an encoder-decoder",
    "read(3, system='BERT', source_mask=np.ones(3, bool))": "source_mask is for an encoder-decoder",
    "read(3, system='T5', memory=np.ones((2, 7), np.float32))": "memory.shape[-1]=7 does not match d_model=8",
    "read(3, system='T5')": "an encoder-decoder needs either source",
    "model('T5').encode(array([0, 1]), mask=ones(3, dtype='bool'))": "mask.shape=(3,) does not match (..., S)=(2,)",
    "model('T5').encode(array([0, -1]))": "source[1]=-1",
    # The loss
    "loss((2, 4, 3), (0, 1))": "targets.shape=(2,) does not match logits.shape[:-1]=(2, 4)",
    "loss((2, 3), (0, -100), ignore_index=-1)": "targets[1]=-100 is outside 0..2 (vocab_size=3)",
}
WRONG_KINDS = {
    "TokenEmbedding(3.0, 4, **drawn)": "vocab_size=3.0",
    "TokenEmbedding(3, 4, **drawn)([0, 1])": "ids must be an array of integers, not list",
    "sinusoidal([0, 1], 8)": "positions must be an array, not list",
    "SinusoidalPositions(8).embed(ones(5, 8, dtype='int64'))": "x must be",
    "LearnedPositions(4, 8, **drawn).embed(ones(2, 8), array([0.0, 1.0]))": "position_ids must be",
    "rotate(ones(3, 4, dtype='int64'), ones(3, 2))": "x must be",
    "RotaryPositions(4).rotate(ones(2, 4), array([0.0, 1.0]))": "position_ids must be",
    "relative_positions(array([0.5]), array([1]))": "query_positions must be",
    "relative_positions(array([0]), array([1.5]))": "key_positions must be",
    "alibi_slopes(2.0)": "n_heads=2.0",
    "t5_bucket(array([0.5]), bidirectional=True)": "relative_positions must be",
    "t5(max_distance=2.5)": "max_distance=2.5",
    "softmax(array([1, 2]))": "x must be",
    "scaled_dot_product_attention(*[ones(2, 4, dtype='int64')] * 3)": "q must be",
    "attend(mask=ones(5, 6))": "mask must be an array of booleans",
    "attend(score_bias=ones(5, 6, dtype='int64'))": "score_bias must be",
    "attention()(ones(5, 12, dtype='int64'))": "x must be",
    "attention().attention_weights(ones(2, 12), position_ids=array([0.0, 1.0]))": "position_ids must be",
    "attention(causal=True)(ones(2, 5, 12), mask=ones(5, 5))": "mask must be an array of booleans",
    "Linear(3, 2.0, **drawn)": "n_out=2.0",
    "Linear(3, 2, generator=0)": "generator must be a",
    "Linear(3, 2, **drawn)(ones(5, 3, dtype='int64'))": "x must be",
    **{
        f"{norm}(4)(ones(3, 4, dtype='int64'))": "x must be" for norm in ("LayerNorm", "SigmaNorm", "RMSNorm")
    },
    "model().head(ones(3, 8, dtype='int64'))": "x must be",
    "KeyValueCache(1, 2, 5, 4.0)": "d_head=4.0",
    "model().new_cache(2, 5).reorder(np.array([0.0, 1.0]))": "rows must be",
    "Transformer(12, generator=None)": "config=12 must be a ModelConfig",
    "model()(ones(2))": "ids must be",
    "read(2, 3, mask=np.ones((2, 3), int))": "mask must be",
    "loss((2, 3), (0.0, 1.0))": "targets must be",
    "cross_entropy(array([[1, 2]]), array([0]))": "logits must be",
}
# What only scratch has
IN_SCRATCH = {
    "loaded(bias=None)": "the state does not fit: bias is missing",
    "loaded(gain=ones(3))": "the state does not fit: gain is not a weight of this layer",
    "loaded(weight=ones(3, 2))": "the state does not fit: weight has shape (3, 2), but must have (2, 3)",
    "Dropout(1.0, generator=None)": "rate=1.0",
    "Dropout(0.1, generator=None)(ones(3))": "rate=0.1 needs a generator to draw what training drops",
    "AdamW(Linear(2, 3, **drawn), learning_rate=0.0)": "learning_rate=0.0",
    "AdamW(Linear(2, 3, **drawn), betas=(0.9, 1.0))": "betas[1]=1.0",
    "AdamW(Linear(2, 3, **drawn), eps=-1e-8)": "eps=-1e-08",
    "AdamW(Linear(2, 3, **drawn), weight_decay=-0.1)": "weight_decay=-0.1",
    "AdamW(Linear(2, 3, **drawn), no_decay=['gain'])": "no_decay='gain' is not one of 'weight', 'bias'",
    "clip_gradients(Linear(2, 3, **drawn), 0.0)": "max_norm=0.0",
    "cross_entropy_backward(ones(2, 3), np.array([0, 3]))": "targets[1]=3",
}


def refuses(room, call, error, begins):
    names = names_in(room)
    with pytest.raises(error) as caught:
        eval(call, names)
    assert str(caught.value).startswith(begins)


@both_rooms
@pytest.mark.parametrize("call", [*WRONG_VALUES, *WRONG_KINDS])
@pytest.mark.usefixtures("as_readers_run_it")
def test_what_is_wrong_is_refused_by_name(room, call):
    if call in WRONG_VALUES:
        refuses(room, call, ValueError, WRONG_VALUES[call])
    else:
        refuses(room, call, TypeError, WRONG_KINDS[call])


@pytest.mark.parametrize("call", IN_SCRATCH)
@pytest.mark.usefixtures("as_readers_run_it")
def test_what_only_scratch_refuses(call):
    refuses(SCRATCH, call, ValueError, IN_SCRATCH[call])


def test_a_layer_without_a_forward_says_so():
    with pytest.raises(NotImplementedError, match=r"^Layer has no forward$"):
        scratch.Layer()(1)


def test_a_state_that_does_not_fit_changes_nothing():
    layer = scratch.Linear(2, 3, **SCRATCH.parameters())
    kept = layer.state_dict()
    with pytest.raises(ValueError, match="bias is missing"):
        layer.load_state_dict({"weight": np.ones((2, 3))})
    np.testing.assert_array_equal(layer.weight, kept["weight"])
    layer.weight[...] = 0  # what state_dict gave is a copy
    assert kept["weight"].any()


@both_rooms
def test_while_the_tests_run_annotations_are_enforced(room, request):
    """The fixture really switches something off: without it a call reaches jaxtyping, with it our own check."""

    def call():
        return room.layers.SinusoidalPositions(8).embed(room.array(np.ones(8)))

    with pytest.raises(jaxtyping.TypeCheckError):
        call()
    request.getfixturevalue("as_readers_run_it")
    with pytest.raises(ValueError, match="needs the axes"):
        call()


@both_rooms
@pytest.mark.parametrize("method", METHODS)
def test_an_input_is_never_changed(room, method):
    x = room.array(np.random.default_rng(0).normal(size=(2, 5, 24)))
    kept = room.numpy(x).copy()
    layer = Layer(room, method)
    weight = room.numpy(layer.method.weight).copy() if hasattr(layer.method, "weight") else None
    positions, mask = room.array(np.arange(5)), room.array(np.tri(5, dtype=bool))
    layer.attention(layer.method.embed(x, positions), position_ids=positions, mask=mask)
    np.testing.assert_array_equal(room.numpy(x), kept)
    np.testing.assert_array_equal(room.numpy(positions), np.arange(5))
    np.testing.assert_array_equal(room.numpy(mask), np.tri(5, dtype=bool))
    if weight is not None:
        np.testing.assert_array_equal(room.numpy(layer.method.weight), weight)


# NaN goes where the docstrings say that it goes


@both_rooms
def test_softmax_of_a_row_with_nan_or_infinity_is_nan(room):
    x = room.array([[1.0, np.nan], [1.0, 2.0], [-np.inf, np.nan]])
    bad = np.isnan(room.numpy(room.layers.softmax(x)))
    np.testing.assert_array_equal(bad, [[1, 1], [0, 0], [1, 1]])
    with np.errstate(invalid="ignore"):
        assert np.isnan(room.numpy(room.layers.softmax(room.array([1.0, np.inf])))).all()


@both_rooms
@pytest.mark.parametrize(
    ("where", "rows"),
    [("q", [0, 0, 1, 0]), ("k", [0, 0, 1, 1]), ("v", [1, 1, 1, 1])],
)
def test_a_mask_is_no_wall_against_nan(room, where, rows):
    """At position 2 of 4, causal: a NaN query stays there, a key affects those that see it, a value affects all."""
    arrays = dict(zip("qkv", np.random.default_rng(0).normal(size=(3, 4, 6)), strict=True))
    arrays[where][2] = np.nan
    output, _ = room.layers.scaled_dot_product_attention(
        *(room.array(arrays[name]) for name in "qkv"), mask=room.layers.causal_mask(4)
    )
    output = np.isnan(room.numpy(output))
    np.testing.assert_array_equal(output, np.array(rows, bool)[:, None] & np.ones(6, bool))


@both_rooms
def test_a_nan_in_one_row_of_the_input_reaches_every_row(room):
    x = np.random.default_rng(0).normal(size=(4, 24))
    x[3, 0] = np.nan
    assert np.isnan(Layer(room, "rope", causal=True)(x)).all()
