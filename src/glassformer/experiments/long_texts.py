"""Long texts: what it costs in loss, and in what is found far back, to keep or to read less of the past."""

import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Integer
from torch import Tensor

from glassformer import _checks as checks
from glassformer import inside, nn
from glassformer.config import ModelConfig
from glassformer.experiments.experiment import Experiment, Found, Settings, grid
from glassformer.experiments.positions import RATES, REACH, as_large_as_sinusoids, copy_with, recipe_of
from glassformer.experiments.recall import Recall, recalled
from glassformer.experiments.training import drawn, losses_in, read_in_windows, trained
from glassformer.layers import Indexer, LatentAttention, Sinks
from glassformer.text import corpus
from glassformer.train import Trainer
from glassformer.train.config import TrainingConfig

T = REACH  # the length that models are trained and tested at
WINDOW = T // 8
TOP_K = T // 8  # positions that an indexer chooses
STEPS, BATCH = 300, 8
MORE_STEPS = 50  # in which the indexer learns alone, and as many in which all learn
EQUAL_TIME = {"windows 3:1 with sinks": 140, "latent": 219}  # steps in the time of "full"; others are as fast
EVERY = 16  # only one in so many windows of questions is asked
SEEDS = (0, 1, 2)
ROUNDS = 10  # in which times are measured

NEAR, SINKS = {"sliding_window": WINDOW}, {"sinks": Sinks()}
LATENT = LatentAttention(d_latent=24, d_rotated=8, d_value=16, d_query_latent=48)
INDEXED = LatentAttention(**vars(LATENT) | {"indexer": Indexer(n_heads=4, d_head=16, top_k=TOP_K)})


def of_latents(form: LatentAttention) -> dict[str, Any]:
    """Returns the fields of a model whose layers all have this form; a query has 16 features that do not rotate."""
    return {"kinds": {"latent": {"d_head": 16 + form.d_rotated, "form": form}}}


CONTESTANTS: dict[str, dict[str, Any]] = {
    "full": {},
    "windows 3:1": {"kinds": {"near": NEAR, "far": {}}, "order": "near*3 far"},
    "windows 3:1 with sinks": {"kinds": {"near": NEAR | SINKS, "far": SINKS}, "order": "near*3 far"},
    "windows only": {"kinds": {"near": NEAR}},
    "latent": of_latents(LATENT),
}
"""The models by name, each as changes to the configuration of one with full attention."""

PARTS = ("contestants", "seconds")


def measure(
    part: str,
    seed: int,
    contestant: str = "full",
    steps: int = STEPS,
    more_steps: int = 0,
    every: int = EVERY,
    changes: Sequence[str] = (),
) -> Found:
    """Trains on windows of T characters with marks and questions (see `Recall`), and tests on held-out text.

    "contestants" trains one of them. Results are the "loss" of the plain held-out text, in nats per character; the
    fraction "recalled", in bins of 16 distances; the bytes of the "cache" of T positions in float32; and the number
    of "parameters". With `more_steps`, "latent" then continues in four "ways", by as many steps each: attention reads
    "everything" as before, or only `TOP_K` positions, the "chosen", "random" ones or the "last". What is chosen is up
    to an indexer, which before that learns alone, also for `more_steps`, from an attention that reads everything.
    Results of a way are the same, "at first" and "in the end".

    "seconds" measures, for each contestant and for "chosen", the seconds of the processor for a step of training.

    Derived in chapter 16.

    Raises:
        ValueError: there is no such part or contestant, or one that is not "latent" gets `more_steps`.
    """
    checks.one_of("part", part, PARTS)
    checks.one_of("contestant", contestant, ("latent",) if more_steps else tuple(CONTESTANTS))
    if part == "seconds":
        return {"seconds": seconds(seed, steps, changes)}
    config, task, training = made(contestant, seed, steps, changes)
    model = as_large_as_sinusoids(drawn(config, seed))  # as in `recall`
    trained(model, task, training)
    found = tested(model, task, every)
    if more_steps:
        _, further, training = made(contestant, seed + 1, more_steps, changes)
        training = training.replace(warmup=10)
        slower = {name: getattr(training, name) / 4 for name in RATES}
        ways = ways_on(model, seed)
        learn_to_choose(ways["chosen"], further, training)
        found["ways"] = {}
        for way, one in ways.items():
            at_first = tested(one, task, every)
            Trainer(one, further, training.replace(**slower), progress=False).run()
            found["ways"][way] = {"at first": at_first, "in the end": tested(one, task, every)}
    return found


def made(
    contestant: str, seed: int, steps: int, changes: Sequence[str]
) -> tuple[ModelConfig, Recall, TrainingConfig]:
    """Returns a contestant's configuration, its task, and how it is trained."""
    small = ("model.n_layers=4", "model.qk_norm=false", "model.attention_scale=")
    recipe = recipe_of("rope", T, seed, steps, (*small, f"training.batch_size={BATCH}", *changes))
    tokenizer, text, config = recipe.made_for(corpus())
    task = Recall(tokenizer.encode(corpus()), T, text.batch_size, seed)
    return config.replace(vocab_size=task.vocab_size, **CONTESTANTS[contestant]), task, recipe.training


def tested(model: nn.Transformer, task: Recall, every: int) -> Found:
    """Returns what is measured of a trained model."""
    windows = read_in_windows(task.held_out, T, T, max(1, every // 8), at_a_time=12)
    return {
        "loss": float(np.mean([losses_in(model, some)[0].mean() for some in windows])),
        "recalled": recalled(model, task, every),
        "cache": inside.cache_bytes(model.config, T),
        "parameters": model.config.parameter_count().total,
    }


def ways_on(model: nn.Transformer, seed: int) -> dict[str, nn.Transformer]:
    """Returns copies of a model with latent attention: as it is, and with ways to choose what attention reads."""
    ways = {"everything": copy_with(model)}
    for way in ("chosen", "random", "last"):
        ways[way] = drawn(model.config.replace(**of_latents(INDEXED)), seed)
        ways[way].load_state_dict(model.state_dict(), strict=False)  # all but the indexers
        for attention in attentions(ways[way]) if way != "chosen" else ():
            attention.indexer = ByRule(way, seed, attention.indexer)
    return ways


def attentions(model: nn.Transformer) -> list[Any]:
    """Returns the attention of each layer."""
    stack: Any = model.decoder
    return [block.attention for block in stack.blocks]


class ByRule(nn.Indexer):
    """An indexer that learns nothing: it prefers "random" positions or the "last"."""

    def __init__(self, rule: str, seed: int, other: nn.Indexer) -> None:
        sizes = {name: getattr(other, name) for name in ("d_query", "d_model", "n_heads", "d_head", "top_k")}
        super().__init__(**sizes, generator=None)
        self.rule, self.generator = rule, torch.Generator().manual_seed(seed)

    def forward(
        self,
        query: Float[Tensor, "*B T Q"],
        x: Float[Tensor, "*B T D"],
        k: Float[Tensor, "*B 1 S K"],
        position_ids: Integer[Tensor, "..."] | None = None,
    ) -> Float[Tensor, "*B 1 T S"]:
        """Returns scores that do not depend on the text."""
        shape = (*k.shape[:-2], x.shape[-2], k.shape[-2])
        if self.rule == "random":
            return torch.rand(shape, generator=self.generator)
        return torch.arange(shape[-1], dtype=k.dtype).expand(shape)

    def learn(self, *_: Any, **__: Any) -> None:
        """Adds nothing to the loss."""


def learn_to_choose(model: nn.Transformer, task: Recall, training: TrainingConfig) -> None:
    """Trains the indexers alone, while attention reads everything."""
    for name, weight in model.named_parameters():
        weight.requires_grad_(".indexer." in name)
    for attention in attentions(model):
        attention.indexer.warm_up = True
    Trainer(model, task, training, progress=False).run()
    for attention in attentions(model):
        attention.indexer.warm_up = False
    model.requires_grad_(True)


def seconds(seed: int, steps: int, changes: Sequence[str]) -> dict[str, float]:
    """Returns the median of the processor's seconds for a step of each contestant, and of "chosen"."""
    models = {name: made(name, seed, steps, changes) for name in CONTESTANTS}
    runs = {name: (drawn(config, seed), *rest) for name, (config, *rest) in models.items()}
    model, *rest = runs["latent"]
    return seconds_of(runs | {"chosen": (ways_on(model, seed)["chosen"], *rest)})


def seconds_of(runs: Mapping[str, Sequence[Any]]) -> dict[str, float]:
    """Returns the median of the processor's seconds for a step of each (model, task, training); they take turns."""
    found: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(ROUNDS):
        for name, (model, task, training) in runs.items():
            ends: list[float] = []
            note = lambda _: ends.append(time.process_time())  # noqa: B023, E731
            Trainer(model, task, training, callback=note, progress=False).run()
            found[name] += np.diff(ends[:-1]).tolist()  # the last step is followed by a validation
    return {name: float(np.median(each)) for name, each in found.items()}


def run(**choices: Iterable[Any]) -> tuple[Settings, ...]:
    """Returns the settings of runs of contestants, with all seeds."""
    return grid(part=["contestants"], **choices, seed=SEEDS)


EXPERIMENT = Experiment(
    name="long_texts",
    question="What do windows, sinks, latents and an indexer cost in loss, and in what is found far back?",
    measure=measure,
    runs=(
        {"part": "seconds", "seed": 0, "steps": 4},
        *run(contestant=[name for name in CONTESTANTS if name != "latent"]),
        *run(contestant=["latent"], more_steps=[MORE_STEPS]),
        *(one for name, steps in EQUAL_TIME.items() for one in run(contestant=[name], steps=[steps])),
    ),
    short={
        "steps": 60,
        "every": 80,
        "changes": ["model.n_layers=1", "model.d_ff=64", "training.batch_size=3"],
    },
)
