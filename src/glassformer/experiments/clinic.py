"""Applies ten cheap tests to the gallery's mistakes of the chapters before 14: which test catches which mistake?"""

import functools
import math
from collections.abc import Callable, Mapping, Set
from contextlib import nullcontext
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from glassformer import _checks as checks
from glassformer.bugs import put_in
from glassformer.config import ModelConfig
from glassformer.experiments.experiment import Experiment, Found, stored
from glassformer.experiments.pitfalls import MISTAKES, MODELS, NEEDS, RIGHT, trained, trained_in_numpy
from glassformer.experiments.training import drawn, plan
from glassformer.scratch import Transformer, cross_entropy, cross_entropy_backward
from glassformer.tasks import NO_TARGET, NextToken
from glassformer.text import inputs_and_targets

SEEDS = (0, 1, 2)
NEAR = 1e-4  # logits that differ by less count as equal: the rounding of float32 over a few blocks

# All sizes differ, so that no axis can be mistaken for another: B 2, T 7, S 5, H 3, K 4, D 12, F 20, V 11
B, T, S, V = 2, 7, 5, 11
SIZES: dict[str, Any] = {
    "vocab_size": V, "context_length": 9, "d_model": 12, "n_layers": 2, "n_heads": 3, "d_ff": 20,
}  # fmt: skip
GPT2 = ModelConfig(**SIZES, dropout=0.1)
LLAMA = GPT2.replace(
    n_heads=6, n_kv_heads=2, d_head=4, positions="rope", norm="rmsnorm", feedforward="swiglu",
    feedforward_bias=False, attention_bias="none", head="untied",
)  # fmt: skip
SINUSOIDS = GPT2.replace(positions="sinusoidal", embedding_scale=SIZES["d_model"] ** 0.5)
BERT = GPT2.replace(family="encoder")
T5 = GPT2.replace(family="encoder-decoder", positions="t5", t5_n_buckets=8, t5_max_distance=9, norm="rmsnorm")
WARD = {"gpt2": GPT2, "llama": LLAMA, "sinusoids": SINUSOIDS, "bert": BERT, "t5": T5}
"""Small models of each kind. A test is applied to all suitable ones, because a mistake shows only where it can occur.

T5 comes last, because it is the only one in which a mistake of the gallery raises an error (the padding of
its source, on the wrong axis, fits no target). By then the models in which that mistake is silent have been
tested.
"""
DECODERS = ("gpt2", "llama", "t5")

STEPS, BATCH_SIZE = 150, 4  # for both tests that train
BY_HEART = 0.1  # below this loss, a batch counts as learned
BELOW = 0.1  # the loss of random characters must not fall further below ln V than this


class Patient(NamedTuple):
    """A model with a text for it."""

    model: Transformer
    inputs: Mapping[str, np.ndarray]

    def logits(self, **changes: Any) -> Float[np.ndarray, "B T V"]:
        """Returns the model's logits for its text, or with some of the inputs replaced."""
        return self.model(**dict(self.inputs) | changes)


def patient(config: ModelConfig, seed: int) -> Patient:
    """Makes a float64 model whose matrices are large enough to matter, and a random text."""
    rng = np.random.default_rng(seed)
    model = Transformer(config, generator=np.random.default_rng(seed), dtype=np.float64).eval()
    weights = {
        name: weight
        if weight.ndim == 1 or "embedding" in name
        else rng.normal(size=weight.shape) * len(weight) ** -0.5
        for name, weight in model.state_dict().items()
    }
    model.load_state_dict(weights)
    inputs = {"ids": rng.integers(0, V, (B, T))}
    if config.family == "encoder":
        inputs |= {"mask": np.arange(T) < np.array([[T], [T - 3]])}
    if config.family == "encoder-decoder":
        inputs |= {
            "source": rng.integers(0, V, (B, S)),
            "source_mask": np.arange(S) < np.array([[S], [S - 2]]),
        }
    return Patient(model, inputs)


def near(a: np.ndarray, b: np.ndarray) -> bool:
    """Returns whether two arrays of logits agree up to rounding; NaN never agrees with anything."""
    return bool(np.abs(a - b).max() < NEAR)


# The tests; each returns whether the code passes


def shapes(seed: int) -> bool:
    """If all sizes differ, shapes are right; the targets of 0 1 2 3 are 1 2 3; and large weights give no NaN."""
    if inputs_and_targets(np.arange(4))[1].tolist() != [1, 2, 3]:
        return False
    for config in WARD.values():
        it = patient(config, seed)
        if it.logits().shape != (B, T, V):
            return False
        state = it.model.state_dict()
        it.model.load_state_dict({name: 1000 * w if "W_q" in name else w for name, w in state.items()})
        if not np.isfinite(it.logits()).all():
            return False
    return True


def start(seed: int) -> bool:
    """An untrained model knows nothing: its loss is within a tenth of ln V. Half of the targets are padding."""
    rng = np.random.default_rng(seed)
    model = Transformer(GPT2.replace(d_model=96, vocab_size=64, context_length=16), generator=rng).eval()
    ids, targets = inputs_and_targets(rng.integers(0, 64, (16, 17)))
    targets = np.where(np.arange(16)[:, None] % 2, NO_TARGET, targets)
    return bool(abs(cross_entropy(model(ids), targets) - math.log(64)) < 0.1)


def future(seed: int) -> bool:
    """Changing the last character leaves the logits before it unchanged."""
    for name in DECODERS:
        it = patient(WARD[name], seed)
        other = it.inputs["ids"].copy()
        other[:, -1] = (other[:, -1] + 1) % V
        if not near(it.logits()[:, :-1], it.logits(ids=other)[:, :-1]):
            return False
    return True


def order(seed: int) -> bool:
    """Shuffling the past of a single block changes the last row with positions, but not without them.

    And with rotary positions, shifting all the positions in a text changes nothing.
    """
    for name in DECODERS:
        for positions in (WARD[name].positions, "none"):
            it = patient(WARD[name].replace(n_layers=1, n_decoder_layers=None, positions=positions), seed)
            shuffled = it.inputs["ids"][:, [*range(T - 2, -1, -1), T - 1]]
            if near(it.logits()[:, -1], it.logits(ids=shuffled)[:, -1]) != (positions == "none"):
                return False
    it = patient(LLAMA, seed)
    return near(it.logits(), it.logits(position_ids=np.arange(T) + 2))


def again(seed: int) -> bool:
    """A text gives the same logits twice, and also when it is padded next to a longer text."""
    it = patient(BERT, seed)
    alone = it.model(it.inputs["ids"][1:, : T - 3])
    return near(it.logits(), it.logits()) and near(it.logits()[1:, : T - 3], alone)


def cache(seed: int) -> bool:
    """Reading character by character with a cache gives the same logits as reading all at once."""
    for name in DECODERS:
        it = patient(WARD[name], seed)
        kept, ids = it.model.new_cache(B, T), it.inputs["ids"]
        steps = [it.logits(ids=ids[:, t : t + 1], cache=kept) for t in range(T)]
        if not near(np.concatenate(steps, axis=1), it.logits()):
            return False
    return True


def gradient(seed: int) -> bool:
    """The gradient written by hand equals the slope of the loss along a random direction.

    It is measured in the second of two steps, as in training.
    """
    for config in (GPT2, LLAMA):
        it = patient(config.replace(dropout=0.0), seed)
        ids, targets = inputs_and_targets(it.inputs["ids"])
        targets = np.where(np.arange(targets.shape[1]) < 2, NO_TARGET, targets)
        for _ in range(2):
            it.model.zero_gradients()
            saved: list[Any] = []
            logits = it.model(ids, saved=saved)
            it.model.backward(cross_entropy_backward(logits, targets), saved)
        claimed, state = it.model.gradients(), it.model.state_dict()
        rng = np.random.default_rng(seed)
        along = {name: rng.normal(size=w.shape) for name, w in state.items()}
        losses = []
        for h in (1e-5, -1e-5):
            it.model.load_state_dict({name: w + h * along[name] for name, w in state.items()})
            losses.append(cross_entropy(it.model(ids), targets))
        slope = (losses[0] - losses[1]) / 2e-5
        by_hand = sum((claimed[name] * along[name]).sum() for name in claimed)
        if abs(slope - by_hand) > 1e-5 * max(1, abs(slope)):
            return False
    return True


class OneBatch(NextToken):
    """The same few windows at every step."""

    def batch(self, step: int, rank: int = 0, world: int = 1) -> Any:
        """Returns the batch of step 0, whatever the step."""
        return super().batch(0, rank, world)


def learned(bug: str, seed: int, kind: type[NextToken], steps: int) -> float:
    """Returns the final loss, in nats, of training on random characters, which nothing can predict.

    It trains in PyTorch, where the gradient belongs to the actual computation; mistakes that PyTorch rules
    out are made in NumPy.
    """
    needs = NEEDS.get(bug, "rope")
    config = ModelConfig(
        vocab_size=V, context_length=16, d_model=32, n_layers=2, n_heads=4, **MODELS[needs][0]
    )
    task = kind(np.random.default_rng(seed).integers(0, V, 40_000), 16, BATCH_SIZE, seed, validation=0.01)
    training = plan(task, steps=steps, learning_rate=1e-2, warmup=10, weight_decay=0.0, seed=seed)
    found = (trained_in_numpy if needs == "in NumPy" else trained)(drawn(config, seed), task, training)
    return found["loss"][-1]


def ward(seed: int) -> list[Patient]:
    """Makes a model of each kind."""
    return [patient(config, seed) for config in WARD.values()]


TESTS = ("shapes", "start", "again", "future", "order", "cache", "gradient", "overfit", "noise", "parity")
"""The tests in the order in which to run them, from a few forward passes to a training run and a reference.

`again` comes before all comparisons: if the same text gives different logits, no comparison means anything.
"""

WITHOUT_A_REFERENCE = tuple(name for name in TESTS if name not in ("gradient", "parity"))
"""The tests that always apply: they need neither a gradient by hand nor weights with known logits."""


def measure(bug: str, seed: int, steps: int = STEPS) -> Found:
    """Applies all tests to the code with this mistake in it.

    Returns "passed" for each test: True, False, or None if the mistake raised an error; and the final losses
    "overfit" and "noise", in nats. The reference for "parity" is the correct code's logits for the same
    weights, which were drawn without the mistake.

    Derived in chapter 14.

    Raises:
        ValueError: there is no such bug.
    """
    checks.one_of("bug", bug, (RIGHT, *MISTAKES))
    patients = ward(seed)
    right = [it.logits() for it in patients]
    one_model: dict[str, Callable[[int], bool]] = {
        test.__name__: test for test in (shapes, start, future, order, again, cache, gradient)
    }
    with nullcontext() if bug == RIGHT else put_in(bug):
        passed = {name: passes(test, seed) for name, test in one_model.items()}
        passed["parity"] = passes(
            lambda _: all(near(it.logits(), known) for it, known in zip(patients, right, strict=True)), seed
        )
        found = {
            "overfit": learned(bug, seed, OneBatch, steps),
            "noise": learned(bug, seed, NextToken, steps),
        }
    passed["overfit"] = found["overfit"] < BY_HEART
    passed["noise"] = found["noise"] > math.log(V) - BELOW
    return {"passed": {name: passed[name] for name in TESTS}, **found}


def passes(test: Callable[[int], bool], seed: int) -> bool | None:
    """Returns whether the code passes, or None if it raises an error."""
    try:
        with np.errstate(all="ignore"):
            return test(seed)
    except ValueError:
        return None


def cover(tests: Mapping[str, Set[str]]) -> list[tuple[str, set[str]]]:
    """Orders the tests greedily: each is the one that catches most of the remaining mistakes (the first, if equal).

    `tests` maps each test to what it catches, as `caught` returns it.
    """
    chosen, left = [], set().union(*tests.values())
    while left:
        best = max(tests, key=lambda test: len(tests[test] & left))
        chosen.append((best, set(tests[best] & left)))
        left -= tests[best]
    return chosen


@functools.cache
def caught() -> dict[str, frozenset[str]]:
    """Returns, for each test, the mistakes that it caught with every seed in the stored runs.

    A test that stops with an error has caught the mistake as well: anyone who runs it sees that.
    """
    runs = stored(EXPERIMENT.name)
    mistakes = {run.settings["bug"] for run in runs} - {RIGHT}
    return {
        test: frozenset(mistakes - {run.settings["bug"] for run in runs if run.found["passed"][test]})
        for test in TESTS
    }


def cheapest(bug: str) -> list[str]:
    """Returns the first test that catches a mistake; if that is `gradient`, also `parity`, which needs none by hand."""
    tests = [test for test in TESTS if bug in caught()[test]]
    return [test for test in tests if test == tests[0] or (tests[0], test) == ("gradient", "parity")]


EXPERIMENT = Experiment(
    name="clinic",
    question="Which cheap test catches which mistake?",
    measure=measure,
    runs=tuple({"bug": bug, "seed": seed} for seed in SEEDS for bug in (RIGHT, *MISTAKES)),
    short={"steps": 5},
)
