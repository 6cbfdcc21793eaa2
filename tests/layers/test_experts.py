"""Tests routed experts: routers by hand, a loop over tokens, the blocks of transformers, and their balance."""

import re
from importlib import import_module

import numpy as np
import pytest
import torch
import transformers
from close import DOUBLE, assert_close
from huggingface.models import all_in_double

from glassformer.auxiliary import auxiliary_losses
from glassformer.layers import Experts
from glassformer.trace import trace

from .grid import SYSTEMS
from .rooms import NN, SCRATCH, both_rooms
from .test_gradients import check
from .twins import build, draw, twins

# Routers


def router(room, n_experts, top_k, **choices):
    """Returns a router whose logits are its input: D is X, and W is the identity."""
    made = room.layers.Router(n_experts, n_experts, top_k, **choices, **room.parameters())
    return room.load(made, W=np.eye(n_experts))


def route(room, made, x, ids=None):
    """Returns experts and weights: NumPy in, NumPy out."""
    with torch.no_grad():
        found = made(room.array(x), None if ids is None else room.array(ids))
    return [room.numpy(array) for array in found]


# Softmax: sevenths and tenths; sigmoid: 1/2, 2/3, 4/5 and 6/7, 3/4, 1/2
ODDS = np.log([[1, 2, 4], [6, 3, 1]])
BEST = [[2, 1], [0, 1]]
BY_HAND = {
    "softmax": ({"renormalize": False}, ODDS, BEST, [[4 / 7, 2 / 7], [0.6, 0.3]]),
    "renormalized": ({"scale": 3.0}, ODDS, BEST, [[2, 1], [2, 1]]),
    "chosen": ({"scores": "chosen", "renormalize": False}, ODDS, BEST, [[2 / 3, 1 / 3]] * 2),
    "sigmoid": ({"scores": "sigmoid", "renormalize": False}, ODDS, BEST, [[4 / 5, 2 / 3], [6 / 7, 3 / 4]]),
    "a sum and eps": (
        {"scores": "sigmoid", "sum_eps": 8 / 15},
        ODDS[:1],
        BEST[:1],
        [[2 / 5, 1 / 3]],  # 4/5 + 2/3 + 8/15 is 2
    ),
    "√softplus": (
        {"scores": "sqrt_softplus", "renormalize": False},
        np.log(np.expm1(np.square([[1.0, 2, 3], [3, 2, 1]]))),
        BEST,
        [[3, 2], [3, 2]],
    ),
    "ties": ({"renormalize": False}, np.zeros((2, 3)), [[0, 1]] * 2, np.full((2, 2), 1 / 3)),
}


@both_rooms
@pytest.mark.parametrize("name", BY_HAND)
def test_two_tokens_and_three_experts_by_hand(room, name):
    choices, x, chosen, weights = BY_HAND[name]
    found = route(room, router(room, 3, 2, **choices), x)
    np.testing.assert_array_equal(found[0], chosen)
    np.testing.assert_allclose(found[1], weights, rtol=1e-14)


@both_rooms
def test_a_choice_bias_chooses_and_does_not_weigh_and_a_table_chooses_by_ids(room):
    made = router(room, 3, 2, scores="sigmoid", choice_bias=True, renormalize=False)
    room.load(made, choice_bias=np.array([0.5, 0, 0]))  # 1, 2/3, 4/5 and 19/14, 3/4, 1/2
    found = route(room, made, ODDS)
    np.testing.assert_array_equal(found[0], [[0, 2], [0, 1]])
    np.testing.assert_allclose(found[1], [[1 / 2, 4 / 5], [6 / 7, 3 / 4]], rtol=1e-14)
    made = router(room, 3, 2, scores="sigmoid", renormalize=False, vocab_size=5)
    room.load(made, table=np.array([[0, 1], [1, 2], [2, 0], [0, 2], [1, 0]]))
    found = route(room, made, ODDS, np.array([3, 1]))
    np.testing.assert_array_equal(found[0], [[0, 2], [1, 2]])
    np.testing.assert_allclose(found[1], [[1 / 2, 4 / 5], [3 / 4, 1 / 2]], rtol=1e-14)
    with pytest.raises(ValueError, match="ids are missing"):
        made(room.array(ODDS))


@both_rooms
@pytest.mark.parametrize(("best", "chosen"), [(1, [0, 1]), (2, [2, 3])])
def test_a_group_is_as_good_as_the_sum_of_its_best(room, best, chosen):
    """The best score is in group 0, and the largest sum in group 1."""
    scores = np.array([[0.9, 0.1, 0.6, 0.5, 0.2, 0.3]])
    groups = {"n_groups": 3, "top_groups": 1, "group_best": best}
    made = router(room, 6, 2, scores="sigmoid", renormalize=False, **groups)
    found = route(room, made, np.log(scores / (1 - scores)))
    np.testing.assert_array_equal(found[0], [chosen])
    np.testing.assert_allclose(found[1], [scores[0, chosen]], rtol=1e-14)


def test_half_precision_routes_as_float32_does():
    """The logits of these tokens are equal when they are rounded to bfloat16, and different in float32."""
    made = NN.layers.Router(2, 3, 1, generator=None, dtype=torch.bfloat16)
    NN.load(made, W=np.array([[1, 1, 1], [0, 1, 2]], np.float32))
    made.to(torch.bfloat16)
    x = torch.tensor([[1, 2**-10], [1, -(2**-10)]], dtype=torch.bfloat16)
    assert made.W(x).unique().tolist() == [1]
    assert made(x)[0].tolist() == [[2], [0]]
    assert made(x)[1].dtype == torch.bfloat16
    with torch.autocast("cpu", torch.bfloat16):
        assert made.float()(x.float())[0].tolist() == [[2], [0]]


# Experts

D, F, T = 6, 4, 9
X = np.random.default_rng(3).normal(size=(2, T, D))
IDS = np.random.default_rng(4).integers(0, 7, (2, T))
SIZES = {"n_experts": 8, "top_k": 3}
VARIANTS = {
    "softmax": {"activation": "swiglu", "scale": 1.5},
    "not renormalized": {"activation": "relu", "renormalize": False, "bias": True},
    "sigmoid, groups, shared": {
        "activation": "swiglu",
        "scores": "sigmoid",
        "choice_bias": True,
        "n_groups": 4,
        "top_groups": 2,
        "group_best": 2,
        "sum_eps": 0.1,
        "d_shared": 5,
        "shared_gate": True,
    },
    "√softplus by token": {
        "activation": "swiglu",
        "scores": "sqrt_softplus",
        "vocab_size": 7,
        "limit": 0.5,
        "d_shared": 3,
    },
    "weights on the input": {
        "activation": "geglu",
        "scores": "sigmoid",
        "renormalize": False,
        "weighs": "input",
        "top_k": 1,
    },
    "norms of their own": {
        "activation": "geglu",
        "d_shared": 5,
        "own_norms": True,
        "norm_eps": 0.1,
        "expert_scale": True,
    },
    "gpt-oss": {
        "activation": "swiglu",
        "scores": "chosen",
        "bias": True,
        "router_bias": True,
        "limit": 0.4,
        "offset": 1.0,
        "sharpness": 1.702,
    },
}
every_variant = pytest.mark.parametrize("variant", VARIANTS)


def make(room, variant, seed=0, **changed):
    made = room.layers.Experts(D, F, **SIZES | VARIANTS[variant] | changed, **room.parameters())
    weights = draw({name: tuple(w.shape) for name, w in dict(made.state_dict()).items()}, seed)
    made.load_state_dict({name: room.array(values) for name, values in weights.items()})
    return made


def apply(room, made, x):
    with torch.no_grad():
        ids = {} if made.router.table is None else {"ids": room.array(IDS)}
        return room.numpy(made(room.array(x), **ids))


def one_by_one(made, x, variant):
    """Computes what a token is given, as the papers write it: a loop over tokens and over the experts of each."""
    usual = {"limit": np.inf, "offset": 0.0, "sharpness": 1.0, "sum_eps": 0.0, "scale": 1.0}
    given = usual | VARIANTS[variant]
    W = {name.replace(".weight", ""): weight for name, weight in made.named_parameters().items()}
    experts, kind = range(SIZES["n_experts"]), given.get("scores", "softmax")
    top_k = given.get("top_k", SIZES["top_k"])

    def sigmoid(z):
        return 1 / (1 + np.exp(-z))

    def norm(i, x):
        eps = given.get("norm_eps")
        return x if eps is None else x / np.sqrt((x**2).mean() + eps) * W[f"norms.{i}"]

    def network(name, x):
        up = x @ W[f"{name}.W_up"] + W.get(f"{name}.W_up.bias", 0)
        if given["activation"] == "relu":
            inner = np.maximum(up, 0)
        else:
            gate = np.minimum(x @ W[f"{name}.W_gate"] + W.get(f"{name}.W_gate.bias", 0), given["limit"])
            up = np.maximum(np.minimum(up, given["limit"]), -given["limit"])
            opened = gate * sigmoid(given["sharpness"] * gate)
            if given["activation"] == "geglu":
                opened = SCRATCH.layers.gelu(gate)
            inner = opened * (up + given["offset"])
        return inner @ W[f"{name}.W_down"] + W.get(f"{name}.W_down.bias", 0)

    def read(x, id):
        stream, x = x, norm(1, x)
        to_router = norm(0, stream) / (np.sqrt(D) if "own_norms" in given else 1)
        z = to_router @ W["router.W"] + W.get("router.W.bias", 0)
        s = {
            "softmax": np.exp(z) / np.exp(z).sum(),
            "sigmoid": sigmoid(z),
            "sqrt_softplus": np.sqrt(np.log(1 + np.exp(z))),
            "chosen": np.exp(z),
        }[kind]
        wanted = s + W.get("router.choice_bias", 0)
        can = list(experts)
        if n_groups := given.get("n_groups"):
            size = len(can) // n_groups
            groups = [can[g * size : (g + 1) * size] for g in range(n_groups)]
            groups.sort(key=lambda group: -sum(sorted(wanted[group])[-given["group_best"] :]))
            can = [i for group in groups[: given["top_groups"]] for i in group]
        chosen = sorted(can, key=lambda i: -wanted[i])[:top_k]
        if "vocab_size" in given:
            chosen = W["router.table"][id]
        total = s[chosen].sum() + given["sum_eps"] if given.get("renormalize", True) else 1.0
        y = 0
        for i in chosen:
            weight = given["scale"] * s[i] / total * W.get("router.expert_scale", np.ones(8))[i]
            if given.get("weighs") == "input":
                y = y + network(f"experts.{i}", weight * x)
            else:
                y = y + weight * network(f"experts.{i}", x)
        y, x = norm(3, y), norm(2, stream)
        if "d_shared" in given:
            y = y + norm(4, network("shared", x)) * (
                sigmoid(x @ W["shared_gate"]) if "shared_gate" in given else 1
            )
        return y

    return np.array(
        [[read(*token) for token in zip(*text, strict=True)] for text in zip(x, IDS, strict=True)]
    )


@both_rooms
@every_variant
def test_a_loop_over_tokens_gives_the_same(room, variant):
    expected = one_by_one(make(SCRATCH, variant), X, variant)
    assert_close(apply(room, make(room, variant), X), expected, DOUBLE)


@pytest.mark.parametrize("balance", [0.0, 0.3])
@every_variant
def test_gradients_are_those_of_differences_and_of_autograd_with_the_balance_in_the_loss(variant, balance):
    made, theirs = (make(room, variant, balance=balance) for room in (SCRATCH, NN))
    x, grad, saved = X.copy(), np.random.default_rng(5).normal(size=X.shape), []
    ids = {} if made.router.table is None else {"ids": IDS}

    def loss():
        with auxiliary_losses() as terms:
            y = made(x, **ids)
        return np.vdot(grad, y) + sum(term for _, term in terms)

    with auxiliary_losses() as terms:
        made(x, saved=saved, **ids)
    assert [name for name, _ in terms] == ["balance"] * (balance > 0)
    to_x = made.backward(grad, saved)
    assert saved == []
    gradients = made.gradients()
    weights = {
        n: w for n, w in made.named_parameters().items() if n not in ("router.choice_bias", "router.table")
    }
    check(loss, {"x": x} | weights, {"x": to_x} | gradients, np.random.default_rng(0))
    tensor = torch.from_numpy(x).requires_grad_()
    with auxiliary_losses() as terms:
        y = theirs(tensor, **{name: torch.from_numpy(values) for name, values in ids.items()})
    ((y * torch.from_numpy(grad)).sum() + sum(term for _, term in terms)).backward()
    assert_close(tensor.grad, to_x, DOUBLE)
    for name, weight in theirs.named_parameters():
        assert (weight.grad is None) == (name not in gradients), name
        if weight.grad is not None:
            assert_close(weight.grad, gradients[name], DOUBLE, what=name)


@both_rooms
def test_an_expert_that_nobody_chooses_has_a_gradient_of_zeros(room):
    """So optimizers do with it what they do with the others, and as if the experts were one array."""
    made = make(room, "√softplus by token")  # experts 6 and 7 are in no row of the table
    if room.is_torch:
        made(room.array(X), ids=room.array(IDS)).sum().backward()
        gradients = {n: w.grad for n, w in made.named_parameters() if w.grad is not None}
    else:
        saved = []
        made.backward(np.ones_like(made(X, saved, IDS)), saved)
        gradients = made.gradients()
    for i in range(8):
        for name in ("W_up", "W_gate", "W_down"):
            assert bool((gradients[f"experts.{i}.{name}.weight"] != 0).any()) == (i < 6), i


@both_rooms
def test_a_table_can_name_an_expert_twice(room):
    made = make(room, "√softplus by token", d_shared=0)
    room.load(made.router, table=np.full((7, 3), 2))
    expected = room.numpy(made.experts[2](room.array(X.reshape(-1, D))))
    assert_close(apply(room, made, X).reshape(-1, D), expected, DOUBLE)  # three thirds of it


# The blocks of transformers

SETTINGS = {
    "hidden_size": D,
    "moe_intermediate_size": F,
    "num_experts_per_tok": 3,
    "n_group": 4,
    "topk_group": 2,
    "routed_scaling_factor": 2.5,
    "n_shared_experts": 2,
    "swiglu_limit": 0.4,
    "experts_implementation": "eager",
}
REFERENCES = {
    "DeepSeek-V3": (
        ("DeepseekV3Config", "DeepseekV3MoE", {"n_routed_experts": 8}),
        {"scores": "sigmoid", "choice_bias": True, "scale": 2.5, "d_shared": 2 * F, "sum_eps": 1e-20}
        | {"n_groups": 4, "top_groups": 2, "group_best": 2},
    ),
    "Qwen3": (("Qwen3MoeConfig", "Qwen3MoeSparseMoeBlock", {"num_experts": 8, "norm_topk_prob": True}), {}),
    "gpt-oss": (
        ("GptOssConfig", "GptOssMLP", {"num_local_experts": 8, "intermediate_size": F}),
        {name: value for name, value in VARIANTS["gpt-oss"].items() if name != "activation"},
    ),
    "Mixtral": (
        ("MixtralConfig", "MixtralSparseMoeBlock", {"num_local_experts": 8, "intermediate_size": F}),
        {},
    ),
}


def named_as_ours(name, weight):
    """Yields the weights of a block of transformers under our names, as matrices (n_in, n_out)."""
    end = ".bias" if name.endswith("bias") else ".weight"
    if name == "gate.e_score_correction_bias":
        yield "router.choice_bias", weight
    elif name.startswith(("gate.", "router.")):
        yield f"router.W{end}", weight if end == ".bias" else weight.T
    elif name.startswith("shared_experts."):
        yield f"shared.W_{re.search('gate|up|down', name)[0]}.weight", weight.T
    else:
        packed = "gate_up" in name
        is_oss = end == ".bias" or weight.shape[1] == (D if packed else F)  # (X, n_in, n_out), rows by turns
        for i, one in enumerate(weight):
            one = one if is_oss else one.T
            if not packed:
                yield f"experts.{i}.W_down{end}", one
                continue
            halves = (one[..., ::2], one[..., 1::2]) if is_oss else np.split(one, 2, axis=-1)
            yield from zip((f"experts.{i}.W_gate{end}", f"experts.{i}.W_up{end}"), halves, strict=True)


@both_rooms
@pytest.mark.parametrize("name", REFERENCES)
def test_the_blocks_of_transformers_compute_the_same(room, name):
    (config, block, own), choices = REFERENCES[name]
    settings = {key: value for key, value in SETTINGS.items() if key not in own}
    their_config = getattr(transformers, config)(**settings | own)
    module = import_module(
        f"transformers.models.{their_config.model_type}.modeling_{their_config.model_type}"
    )
    with all_in_double(), torch.no_grad():
        theirs = getattr(module, block)(their_config)
        values = draw({n: tuple(w.shape) for n, w in theirs.state_dict().items()}, seed=2)
        for n, weight in theirs.state_dict().items():
            weight.copy_(torch.from_numpy(values[n]))
        expected = theirs(torch.from_numpy(X))
    expected = expected[0] if isinstance(expected, tuple) else expected
    ours = room.layers.Experts(D, F, **SIZES, activation="swiglu", **choices, **room.parameters())
    weights = dict(pair for n, weight in values.items() for pair in named_as_ours(n, weight))
    ours.load_state_dict({n: room.array(np.ascontiguousarray(weight)) for n, weight in weights.items()})
    assert_close(apply(room, ours, X), expected.numpy(), DOUBLE)


# How experts are balanced


@both_rooms
def test_the_balance_is_its_factor_if_all_are_used_alike_and_more_if_not(room):
    made = router(room, 4, 1, balance=0.3)
    for x, expected in ((20 * np.eye(4), 0.3), (20 * np.eye(4)[[1] * 4], 1.2), (np.zeros((4, 4)), 0.3)):
        with auxiliary_losses() as terms:
            route(room, made, x)
        assert [name for name, _ in terms] == ["balance"]
        assert float(terms[0][1]) == pytest.approx(expected, abs=1e-7)
    with auxiliary_losses() as terms:
        route(room, made.eval(), x)
    assert terms == []


@both_rooms
def test_the_choice_bias_moves_by_the_choices_since_the_last_update(room):
    made = router(room, 3, 1, scores="sigmoid", choice_bias=True)
    for x in (np.eye(3)[[0, 0]], np.eye(3)[[0, 1, 2, 1]]):  # 3, 2 and 1 of 6
        route(room, made, x)
    route(room, made.eval(), np.eye(3)[[2] * 5])  # is not training
    made.train()
    made.update_choice_bias(0.001)
    np.testing.assert_allclose(room.numpy(made.choice_bias), [-0.001, 0, 0.001], atol=1e-15)
    made.update_choice_bias(0.5)  # nothing was chosen since
    np.testing.assert_allclose(room.numpy(made.choice_bias), [-0.001, 0, 0.001], atol=1e-15)
    with pytest.raises(ValueError, match="no choice_bias"):
        router(room, 3, 1).update_choice_bias(0.001)


# In a model

WITH_EXPERTS = [name for name in SYSTEMS if "experts" in name]


@both_rooms
@pytest.mark.parametrize("name", WITH_EXPERTS)
def test_a_text_at_once_and_token_by_token_chooses_the_same(room, name):
    model = build(room, SYSTEMS[name]).eval()
    ids = room.array(np.random.default_rng(0).integers(0, 11, (2, 9)))
    with trace() as whole, torch.no_grad():
        model(ids)
    cache = model.new_cache(2, 9)
    with trace() as steps, torch.no_grad():
        for t in range(9):
            model(ids[:, t : t + 1], cache=cache)
    n = len(whole.arrays("chosen"))
    assert n > 0
    for i, chosen in enumerate(whole.arrays("chosen")):
        found = np.concatenate([room.numpy(one) for one in steps.arrays("chosen")[i::n]], axis=1)
        np.testing.assert_array_equal(found, room.numpy(chosen))


@pytest.mark.parametrize("name", WITH_EXPERTS)
def test_parameters_that_one_token_uses_are_those_of_the_layers_that_it_reaches(name):
    _, model = twins(name)
    used, modules = set(), list(model.named_modules())
    hooks = [
        module.register_forward_hook(lambda module, given, found, path=path: used.add(path))
        for path, module in modules
    ]
    with torch.no_grad():
        model(torch.tensor([[3]]))
    for hook in hooks:
        hook.remove()
    idle = {path for path, module in modules if isinstance(module, NN.layers.Expert)} - used
    active = sum(
        w.numel() for n, w in model.named_parameters() if not any(n.startswith(f"{path}.") for path in idle)
    )
    count = SYSTEMS[name].parameter_count()
    assert active == count.active < count.total == sum(w.numel() for w in model.parameters())
    assert re.search(rf"used by one token +{active:,} ", str(count))


GIVEN = {"n_experts": 4, "top_k": 2}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"top_k": 5}, "top_k=5 must be at most the experts to choose from, 4"),
        ({"n_groups": 3}, "n_experts=4 is not divisible by n_groups=3"),
        ({"scores": "tanh"}, "scores='tanh' is not one of"),
        ({"weighs": "both"}, "weighs='both' is not one of"),
        ({"bias_rate": 0.001}, "bias_rate=0.001 moves a choice_bias, but choice_bias=False"),
        (
            {"by_token": True, "choice_bias": True},
            "by_token=True leaves a choice_bias or groups without work",
        ),
        ({"shared_gate": True}, "shared_gate=True needs a shared expert, but d_shared=0"),
        ({"balance": -1.0}, "balance=-1.0 must be zero or more"),
        ({"limit": 0.0}, "limit=0.0 must be positive"),
    ],
)
def test_what_contradicts_itself_is_refused(changed, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        Experts(**GIVEN | changed)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"feedforward": "none", "feedforward_bias": False},
            "experts need an activation, but feedforward='none'",
        ),
        ({"feedforward": "relu"}, "limit=7.0, offset=0.0 and sharpness=1.0 need a gate"),
    ],
)
def test_a_layer_without_a_gate_or_network_cannot_have_such_experts(fields, message):
    experts = Experts(**GIVEN, limit=7.0)
    with pytest.raises(ValueError, match=re.escape(f"kinds['all']: {message}")):
        SYSTEMS["GPT-2"].replace(kinds={"all": {"experts": experts}}, **fields)
