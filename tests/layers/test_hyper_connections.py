"""Tests several residual streams: Sinkhorn's iterations, their gradient, and DeepSeek-V4 of transformers."""

import numpy as np
import pytest
import torch
from close import DOUBLE, assert_close
from ledger import TRANSFORMERS, record

from glassformer import scratch
from glassformer.layers import Experts, Residual, Streams, StreamScale

from .grid import GPT2
from .rooms import NN, SCRATCH, both_rooms
from .test_compressed import all_in_double
from .test_gradients import check_function, check_layer, normal
from .twins import build, draw, gradients, run

D, M = 6, 4
IDS = np.random.default_rng(1).integers(0, GPT2.vocab_size, (2, 5))
ONE = GPT2.replace(norm="rmsnorm")
SEVERAL = ONE.replace(streams=Streams(n_streams=M))


def drawn(room, layer, seed=0):
    """Gives a layer weights of which none is as at first."""
    weights = draw({name: tuple(w.shape) for name, w in dict(layer.state_dict()).items()}, seed)
    layer.load_state_dict({name: room.array(values) for name, values in weights.items()})
    return layer


@both_rooms
@pytest.mark.parametrize("size", [1, 2, 5])
def test_rows_and_columns_sum_to_1(room, size):
    weights = room.numpy(room.layers.sinkhorn(room.array(normal(3, size, size)), 20))
    assert (weights > 0).all()
    for axis in (-1, -2):
        np.testing.assert_allclose(weights.sum(axis=axis), 1, rtol=0, atol=1e-6)


@both_rooms
def test_two_streams_have_a_closed_form(room):
    """Scaling rows and columns keeps the ratio of the products of both diagonals."""
    z = normal(7, 2, 2)
    stays = 1 / (1 + np.exp((z[:, 0, 1] + z[:, 1, 0] - z[:, 0, 0] - z[:, 1, 1]) / 2))
    expected = np.stack([np.stack([stays, 1 - stays], -1), np.stack([1 - stays, stays], -1)], -2)
    assert_close(room.numpy(room.layers.sinkhorn(room.array(z), 200)), expected, DOUBLE)


@pytest.mark.parametrize("eps", [0.0, 0.1])
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_the_gradient_goes_through_every_division(steps, eps):
    check_function(
        lambda z: scratch.sinkhorn(z, steps, eps),
        lambda grad, z: [scratch.sinkhorn_backward(grad, z, steps, eps)],
        normal(2, 3, 3),
    )


class Around(scratch.Layer):
    """A hyper-connection with a linear map as its sublayer."""

    def __init__(self, **options):
        self.connection = scratch.HyperConnection(D, M, **options)
        self.sublayer = scratch.Linear(D, D, **SCRATCH.parameters())

    def forward(self, x, saved):
        read, *weights = self.connection(x, saved)
        return self.connection.write(x, self.sublayer(read, saved), *weights, saved)

    def backward(self, grad, saved):
        grad, to_y, *to_weights = self.connection.write_backward(grad, saved)
        to_read = self.sublayer.backward(to_y, saved)
        return grad + self.connection.backward((to_read, *to_weights), saved)


@pytest.mark.parametrize("shape", [(M, D), (2, 3, M, D)], ids=str)
def test_gradients(shape):
    x = normal(*shape)
    around = Around(steps=3, eps=0.1, norm_eps=0.01, **SCRATCH.parameters())
    check_layer(around, lambda saved: around(x, saved), {"x": x})
    streams = scratch.Streams(D, M, eps=0.1, **SCRATCH.parameters())
    check_layer(streams, lambda saved: streams(x, saved), {"x": x})


def theirs_and_ours(room, library, seed):
    """Returns a hyper-connection and a sum of the library, in float64, and ours with the same weights."""
    sizes = {"hc_mult": M, "hidden_size": D, "hc_sinkhorn_iters": 5, "hc_eps": 0.01, "rms_norm_eps": 0.1}
    config = library.DeepseekV4Config(**sizes)
    pairs = []
    eps = {"eps": 0.01, "norm_eps": 0.1}
    for theirs, ours, begin in (
        (
            library.DeepseekV4HyperConnection,
            lambda **o: room.layers.HyperConnection(D, M, steps=5, **eps, **o),
            "",
        ),
        (library.DeepseekV4HyperHead, lambda **o: room.layers.Streams(D, M, **eps, **o), "hc_"),
    ):
        theirs, ours = theirs(config), ours(**room.parameters())
        found, generator = {}, torch.Generator().manual_seed(seed)
        for their_name, name in (("fn", "W.weight"), ("base", "bias"), ("scale", "scale")):
            weight = getattr(theirs, begin + their_name)
            with torch.no_grad():
                weight.normal_(generator=generator)
            found[f"numbers.{name}"] = room.array(weight.detach().numpy().T.copy())
        ours.load_state_dict(found)
        pairs.append((theirs, ours))
    return pairs


@both_rooms
@pytest.mark.parametrize("seed", range(3))
def test_they_are_those_of_deepseek_v4(room, seed):
    x, y = normal(2, 3, M, D, seed=seed), normal(2, 3, D, seed=seed + 9)
    with all_in_double() as library, torch.no_grad():
        (around, ours), (last, streams) = theirs_and_ours(room, library, seed)
        post, mix, read = around(torch.from_numpy(x))
        written = post[..., None] * torch.from_numpy(y)[..., None, :] + mix.mT @ torch.from_numpy(x)
        total = last(torch.from_numpy(x))
    our_read, *weights = ours(room.array(x))
    our_written = ours.write(room.array(x), room.array(y), *weights)
    pairs = ((our_read, read), (our_written, written), (streams(room.array(x)), total))
    difference = max(np.abs(room.numpy(one) - other.numpy()).max() for one, other in pairs)
    name = "nn" if room.is_torch else "scratch"
    record(
        "DeepSeek-V4's hyper-connections", TRANSFORMERS, "float64", name, difference, DOUBLE, section="Layers"
    )


@both_rooms
def test_what_is_mixed_keeps_its_sum(room):
    connection = drawn(room, room.layers.HyperConnection(D, M, eps=0.0, **room.parameters()))
    x = normal(2, 3, M, D)
    _, post, mix = connection(room.array(x))
    after = room.numpy(connection.write(room.array(x), room.array(0 * x[..., 0, :]), post, mix))
    assert_close(after.sum(axis=-2), x.sum(axis=-2), 1e-6)
    assert np.abs(after - x).max() > 0.1


@both_rooms
def test_one_stream_that_reads_and_writes_all_is_the_usual_residual(room):
    one, streams = build(room, ONE), build(room, ONE.replace(streams=Streams(n_streams=1, eps=0.0)))
    fixed = {
        name: room.array(np.zeros(tuple(weight.shape)) + 40 * name.endswith("numbers.bias"))
        for name, weight in dict(streams.state_dict()).items()
        if ".numbers." in name
    }
    for name in fixed:
        if name.endswith("numbers.bias") and "blocks" in name:
            fixed[name][1:] = 0  # 2σ(0) = 1; the softmax of one number is 1
    streams.load_state_dict({**dict(one.state_dict()), **fixed})
    assert_close(run(room, streams, {"ids": IDS}), run(room, one, {"ids": IDS}), DOUBLE)


@both_rooms
def test_a_model_begins_nearly_as_one_with_one_stream(room):
    streams = room.layers.Transformer(SEVERAL, **room.parameters("float64"))
    one = build(room, ONE)
    state = {n: w for n, w in dict(streams.state_dict()).items() if ".streams" not in n}
    one.load_state_dict(state)
    before, after = run(room, one, {"ids": IDS}), run(room, streams, {"ids": IDS})
    assert 1e-6 < np.abs(before - after).max() < 0.03 * np.abs(before).max()


def test_ids_reach_a_router_among_streams_and_both_rooms_agree():
    experts = Experts(n_experts=4, top_k=2, by_token=True)
    config = SEVERAL.replace(feedforward="swiglu", kinds={"all": {"experts": experts}})
    models = {room: build(room, config) for room in (SCRATCH, NN)}
    table = np.random.default_rng(2).permuted(np.tile(np.arange(4), (11, 1)), axis=1)[:, :2]
    for room, model in models.items():
        model.load_state_dict(
            {n: room.array(table) if n.endswith("table") else w for n, w in dict(model.state_dict()).items()}
        )
    one, other = (run(room, model, {"ids": IDS}) for room, model in models.items())
    assert_close(one, other, DOUBLE)
    grad = normal(*one.shape)
    ours, theirs = (gradients(room, model, {"ids": IDS}, grad) for room, model in models.items())
    largest = max(np.abs(gradient).max() for gradient in theirs.values())
    for name, gradient in ours.items():
        assert_close(gradient, theirs[name], 0, beside=4 * DOUBLE * largest, what=name)


@pytest.mark.usefixtures("as_readers_run_it")
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"norm_placement": "post"}, "norm_placement must not be 'post'"),
        ({"kinds": {"all": {"residual": Residual(placement="post")}}}, "must not be 'post'"),
        ({"kinds": {"all": {"stream_scale": StreamScale()}}}, "stream_scale beside streams is not built"),
        ({"family": "encoder-decoder"}, "a model of two stacks cannot have streams"),
    ],
)
def test_what_does_not_go_together_is_refused(changes, message):
    with pytest.raises((ValueError, TypeError), match=message):
        SEVERAL.replace(**changes)


@both_rooms
@pytest.mark.usefixtures("as_readers_run_it")
def test_wrong_inputs_are_refused_by_name(room):
    with pytest.raises(ValueError, match=r"z\.shape\[-2\]=2 does not match z\.shape\[-1\]=3"):
        room.layers.sinkhorn(room.array(normal(2, 3)), 2)
    connection = room.layers.HyperConnection(D, M, **room.parameters())
    with pytest.raises(ValueError, match=r"x\.shape\[-2\]=3 does not match n_streams=4"):
        connection(room.array(normal(3, D)))
