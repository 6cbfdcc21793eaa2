"""Trains and generates with every mistake of the gallery: what do the loss and the text show?"""

import re
from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64

from glassformer import _checks as checks
from glassformer import nn
from glassformer.bugs import BUGS, before, put_in
from glassformer.config import ModelConfig
from glassformer.experiments import training
from glassformer.experiments.experiment import Experiment, Found, thinned
from glassformer.generate import generate
from glassformer.layers import Experts, KeyValueSharing, LatentAttention, LinearAttention
from glassformer.scratch import in_numpy
from glassformer.tasks import NextToken
from glassformer.text import CharTokenizer, corpus
from glassformer.train import TrainingConfig, initialize, train_in_numpy, validation_loss

PROMPT, NEW = 8, 120  # characters of each prompt, and characters that the model adds
LENGTH, BATCH_SIZE, STEPS = PROMPT + NEW, 6, 250
N_TEXTS = 32
D_MODEL = 64
TEMPERATURE = 0.8
SEEDS = (0, 1)

ROPE: dict[str, Any] = {
    "positions": "rope",
    "n_kv_heads": 2,
}  # also shared heads, for the mistake that needs them
MUON: dict[str, Any] = {
    "optimizer": "muon",
    "learning_rate": 0.02,
    "embedding_rate": 1e-2,
    "norm_rate": 4e-3,
    "weight_decay": 0.0,
}
ADAMW: dict[str, Any] = {"learning_rate": 5e-3}

LATENT = {"d_head": 16, "form": LatentAttention(d_latent=24, d_rotated=8, d_value=16)}
SHARED = {"sharing": KeyValueSharing(values="keys")}
STATE = {"form": LinearAttention(n_heads=4, n_key_heads=4, d_key=16, d_value=16)}
EIGHT: dict[str, Any] = {"n_experts": 8, "top_k": 2}
BALANCED = {"d_ff": 56, "experts": Experts(**EIGHT, balance=0.01)}
BIASED = {"d_ff": 56, "experts": Experts(**EIGHT, scores="sigmoid", choice_bias=True, bias_rate=0.003)}
GATED: dict[str, Any] = ROPE | {"feedforward": "swiglu"}

MODELS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "rope": (ROPE, MUON),
    "drawn": (ROPE, MUON),
    "learned": ({"positions": "learned"}, MUON),
    "sinusoidal": ({"positions": "sinusoidal", "embedding_scale": D_MODEL**0.5}, ADAMW),
    "t5": ({"positions": "t5"}, MUON),
    "dropout": (ROPE | {"dropout": 0.1}, MUON),
    "in NumPy": (ROPE, ADAMW),
    "windows": (ROPE | {"sliding_window": 8}, MUON),
    "latents": ({"positions": "rope", "attention_bias": "none", "kinds": {"latent": LATENT}}, MUON),
    "keys as values": (ROPE | {"kinds": {"shared": SHARED}}, MUON),
    "states": ({"positions": "none", "attention_bias": "none", "kinds": {"state": STATE}}, MUON),
    "experts": (GATED | {"kinds": {"balanced": BALANCED}}, MUON),
    "experts with a bias": (GATED | {"kinds": {"biased": BIASED}}, MUON),
}
"""The models, each with its changes to `ModelConfig` and `TrainingConfig`."""

DRAWN = "drawn"  # the only model without zero_init: all its weights are drawn at random

# Mistakes that PyTorch rules out.
IN_NUMPY_ALONE = [name for name, bug in BUGS.items() if bug.rooms == ("scratch",)]
NEEDS = dict.fromkeys(IN_NUMPY_ALONE, "in NumPy") | {
    "positions-late": "learned",  # an encoding that adds positions to the token vectors
    "tokens-unscaled": "sinusoidal",  # a model whose token vectors have a factor
    "t5-sign": "t5",
    "dropout-in-evaluation": "dropout",
    "residual-dropped": DRAWN,  # without a residual, a zero output would stay zero
    "window-one-more": "windows",
    "latent-rotated": "latents",
    "values-after-rotation": "keys as values",
    "keys-without-norm": "states",
    "decay-after-write": "states",
    "weights-not-renormalized": "experts",
    "bias-in-the-weights": "experts with a bias",
    "router-in-bfloat16": "experts",
}
"""The model that a mistake needs; all others use the first model."""

NOT_APPLICABLE = {
    "padding-on-queries": "windows of one text are all equally long: there is no padding to hide",
    "padding-attended": "windows of one text are all equally long: there is no padding to see",
    "loss-over-padding": "windows of one text are all equally long: every target counts",
    "cache-not-reset": "all texts are written side by side, with a new cache: none is reset",
    "state-not-reset": "all texts are written side by side, with a new cache: none is reset",
    "gate-and-up-halved": "the models begin with drawn weights: no file is read",
}
"""The mistakes that cannot occur here, and why."""

TRAINED = {name: NEEDS.get(name, "rope") for name in BUGS if name not in NOT_APPLICABLE}
"""The mistakes that are trained here, each with its model."""

MISTAKES = before("14")
"""The mistakes that chapter 14 is about: those in what its readers have built."""

CANDIDATES = {name: model for name, model in TRAINED.items() if name in MISTAKES}
"""Those of them that are trained here."""

ALSO = (("residual-dropped", "rope"),)  # with this model it learns nothing at all

RIGHT = "none"  # the correct model, without a bug


def measure(
    bug: str, model: str, seed: int, steps: int = STEPS, characters: int | None = None, n_texts: int = N_TEXTS
) -> Found:
    """Trains a model with the mistake, lets it write with the mistake, and judges the text.

    Returns the curve of the training loss; the validation loss as reported by the wrong code, and as measured
    by the correct code for the same weights; and the results of `judged` for the texts, with the first two
    texts. A run whose loss becomes NaN stops there and returns only its curve. `characters` shortens the
    training text.

    Derived in chapter 14.

    Raises:
        ValueError: there is no such bug or model.
    """
    checks.one_of("bug", bug, (RIGHT, *TRAINED))
    checks.one_of("model", model, tuple(MODELS))
    tokenizer = CharTokenizer.from_text(corpus())
    task = training.text_task(seed, characters, LENGTH, BATCH_SIZE)
    changes, settings = MODELS[model]
    config = training.plan(task, steps=steps, warmup=20, seed=seed, **settings)
    with torch.random.fork_rng([]):  # for dropout that is active in evaluation
        torch.manual_seed(seed)
        with nullcontext() if bug == RIGHT else put_in(bug):
            it = new_model(changes, seed, zero_init=model != DRAWN)
            found = (trained_in_numpy if model == "in NumPy" else trained)(it, task, config)
            if not np.isfinite(found["loss"]).all() or found["reported"] is None:
                return found
            prompts = beginnings(task.held_out, tokenizer, n_texts)
            written = generate(
                it.eval(), prompts, NEW, generator=np.random.default_rng(seed), temperature=TEMPERATURE
            )
    found["validation"] = validation_loss(it, task)
    judge = Judge(tokenizer.decode(task.ids))
    texts = [tokenizer.decode(text) for text in written]
    found |= judge.judged(texts) | {"samples": texts[:2]}
    return found


# Symptoms that show without looking into the code


def looks(found: Found, right: Found) -> str:
    """Classifies the reported validation loss of a run with the mistake, relative to the correct model of that seed.

    "too good" means a validation loss that is lower by more than a half, "worse" one that is higher by more
    than a tenth: no two seeds of the correct model differ by as much. Otherwise it is "normal", or "broken
    off" if the loss became NaN.
    """
    if found["reported"] is None:
        return "broken off"
    off = found["reported"] - right["reported"]
    return "too good" if off < -0.5 else "worse" if off > 0.1 else "normal"


def writes_badly(found: Found, right: Found) -> bool:
    """Returns whether its text surprises the judge by 0.7 nats per character more than the correct model's text.

    Two seeds of the correct model differ by up to 0.58.
    """
    return found["surprise"] > right["surprise"] + 0.7


# Training


def config_of(changes: dict[str, Any]) -> ModelConfig:
    """Returns the configuration of a small GPT for Shakespeare's characters with those changes."""
    sizes: dict[str, Any] = {"d_model": D_MODEL, "n_layers": 2, "n_heads": 4}
    return ModelConfig(vocab_size=65, context_length=LENGTH, **sizes, **changes)


def new_model(changes: dict[str, Any], seed: int, *, zero_init: bool = True) -> nn.Transformer:
    """Makes such a model; with `zero_init` its sublayers add nothing at first, so it learns sooner."""
    model = training.drawn(config_of(changes), seed)
    initialize(model, TrainingConfig(steps=1, batch_size=1, zero_init=zero_init))
    return model


def trained(model: nn.Transformer, task: NextToken, config: TrainingConfig) -> Found:
    """Trains the model in PyTorch and returns the records of training."""
    records = training.trained(model, task, config, may_diverge=True)
    return curves(
        [record["loss"] for record in records],
        [record["gradient_norm"] for record in records],
        records[-1].get("validation_loss"),
    )


def trained_in_numpy(model: nn.Transformer, task: NextToken, config: TrainingConfig) -> Found:
    """Trains the same model with the NumPy loop, from the same weights, and copies the result into the PyTorch model.

    The gradients are those that the optimizer gets; after clipping, none is longer than 1.
    """
    twin = in_numpy(model).eval()
    losses, lengths = [], []
    for loss in train_in_numpy(twin, task, config):
        losses.append(loss)
        lengths.append(float(np.sqrt(sum(np.square(g).sum() for g in twin.gradients().values()))))
    model.load_state_dict({name: torch.from_numpy(weight) for name, weight in twin.state_dict().items()})
    return curves(losses, lengths, validation_loss(model, task))


def curves(losses: Sequence[float], lengths: Sequence[float], reported: float | None) -> Found:
    """Reduces a run to the stored points: each `gradient` is the longest among the steps that a mean loss covers."""
    loss = thinned(losses)
    return {
        "steps": len(losses),
        "loss": loss,
        "gradient": [float(max(some)) for some in np.array_split(lengths, len(loss))],
        "reported": reported,
    }


# Judging


def beginnings(
    ids: Int64[np.ndarray, " T"], tokenizer: CharTokenizer, n_texts: int
) -> list[Int64[np.ndarray, " _"]]:
    """Returns the first characters of paragraphs from all over a text, where the speakers' names are."""
    text = tokenizer.decode(ids)
    starts = [found.end() for found in re.finditer("\n\n", text) if found.end() + LENGTH <= len(text)]
    chosen = np.linspace(0, len(starts) - 1, n_texts).astype(int)
    return [np.asarray(ids[starts[i] : starts[i] + PROMPT]) for i in chosen]


class Judge:
    """Knows one text, and measures how similar others are to it.

    It knows which words occur, and how often each character followed every run of up to five characters: a
    counting model that has nothing in common with a Transformer. For rare or unseen runs it falls back on the
    shorter run: p(c | run) = (count(run + c) + d · p(c | run without its first character)) / (count(run) +
    d), where d is how many different characters followed the run.

    Source: Witten and Bell 1991, "The Zero-Frequency Problem", method C; in this form Chen and Goodman 1999.
    """

    ORDER = 5
    WORD = re.compile(r"[A-Za-z]+(?:['-][A-Za-z]+)*")

    def __init__(self, text: str) -> None:
        self.words = {word.lower() for word in self.WORD.findall(text)}
        self.code = {character: i for i, character in enumerate(sorted(set(text)), start=1)}  # 0: never seen
        self.base = len(self.code) + 1  # a run is a number in this base
        codes = self._codes(text)
        self.runs = [np.unique(self._runs(codes, n), return_counts=True) for n in range(1, self.ORDER + 2)]
        # For each run, how often anything followed it, and how many different characters did
        self.followed = []
        for longer, counts in self.runs[1:]:
            run, first = np.unique(longer // self.base, return_index=True)
            self.followed.append(
                (run, np.add.reduceat(counts, first), np.diff(np.append(first, len(counts))))
            )

    def judged(self, texts: Sequence[str]) -> Found:
        """Judges each text after its first `PROMPT` characters.

        `known_words` is the fraction of words that occur in the judge's text, `different_words` is the
        fraction of distinct words (a repetitive text has few), and `surprise` is the mean −ln p of a
        character. A word that may be cut off by the end of a text is left out; without any words the
        fractions are 0.
        """
        words = [
            word.group().lower()
            for text in texts
            for word in self.WORD.finditer(text)
            if PROMPT < word.end() < len(text)
        ]
        return {
            "known_words": sum(word in self.words for word in words) / max(1, len(words)),
            "different_words": len(set(words)),
            "words": len(words),
            "surprise": float(np.mean([self.surprise(text)[PROMPT:] for text in texts])),
        }

    def surprise(self, text: str) -> Float[np.ndarray, " T"]:
        """Returns −ln p of each character of a text, given those before it."""
        codes = self._codes(text)
        total = self.runs[0][1].sum()
        p = (self._looked_up(codes, *self.runs[0])) / (total + 1) + 1 / len(self.code) / (total + 1)
        for n in range(1, min(self.ORDER, len(codes) - 1) + 1):
            run = self._runs(codes, n)[:-1]  # before character n, n + 1, …
            count = self._looked_up(run * self.base + codes[n:], *self.runs[n])
            followed, different = (
                self._looked_up(run, self.followed[n - 1][0], of) for of in self.followed[n - 1][1:]
            )
            # A run that nothing ever followed gives no information: p stays the same.
            longer = (count + different * p[n:]) / np.maximum(followed + different, 1)
            p[n:] = np.where(followed > 0, longer, p[n:])
        return -np.log(p)

    def _codes(self, text: str) -> Int64[np.ndarray, " T"]:
        return np.array([self.code.get(character, 0) for character in text], dtype=np.int64)

    def _runs(self, codes: Int64[np.ndarray, " T"], n: int) -> Int64[np.ndarray, " _"]:
        """Encodes every run of n characters as one number."""
        windows = np.lib.stride_tricks.sliding_window_view(codes, n)
        return windows @ (self.base ** np.arange(n - 1, -1, -1))

    @staticmethod
    def _looked_up(
        wanted: Int64[np.ndarray, " T"], known: Int64[np.ndarray, " N"], values: Int64[np.ndarray, " N"]
    ) -> Int64[np.ndarray, " T"]:
        """Returns the value of each run, 0 for unknown ones. `known` is sorted."""
        place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        return np.where(known[place] == wanted, values[place], 0)


EXPERIMENT = Experiment(
    name="pitfalls",
    question="What do the loss curve and the text show of each mistake, and what gives it away?",
    measure=measure,
    runs=tuple(
        {"bug": name, "model": model, "seed": seed}
        for seed in SEEDS
        for name, model in (*((RIGHT, model) for model in MODELS), *TRAINED.items(), *ALSO)
    ),
    short={"steps": 50, "characters": 30_000, "n_texts": 2},
)
