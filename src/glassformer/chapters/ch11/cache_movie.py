"""Writing with and without a key–value cache, pass by pass: what is computed again, and what is cached."""

import json
import platform
import time
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from traitlets import Dict, Enum, Int, TraitError, default, observe, validate

from glassformer import shipped
from glassformer.config import ModelConfig
from glassformer.inside import cache_bytes, generation_work
from glassformer.published import published
from glassformer.widgets.kit.view import Made, Text, View

MODELS = {
    "shakespeare": "the book's model",
    "gpt2": "GPT-2 small",
    "llama-2-7b": "LLaMA-2 7B",
    "llama-2-70b": "LLaMA-2 70B",
    "llama-3-8b": "Llama-3 8B",
}
LONGEST = 24  # characters that are drawn
SHORTEST_LENGTH = 16
NUMBERS = {4: "float32", 2: "float16"}  # bytes of a number
TIMES = Path(__file__).with_name("cache_movie.json")  # written by tools/assets/cache_times.py
REPEATS = 20  # of which the fastest counts


@cache
def config_of(name: str) -> ModelConfig:
    """Returns the configuration of one of `MODELS`."""
    return shipped.configuration(name) if name in shipped.NAMES else published(name).config


def sizes_of(name: str) -> dict[str, int]:
    """Returns the sizes for the counts by axis letter.

    `N`: matrices per feed-forward network, `P`: parameters, `W`: parameters for each head of keys and values.
    """
    config = config_of(name)
    total, shared = (config.replace(n_kv_heads=G).parameter_count().total for G in (config.n_kv_heads, 1))
    return {
        "L": config.n_layers,
        "D": config.d_model,
        "H": config.n_heads,
        "G": config.n_kv_heads,
        "K": config.d_head,
        "F": config.d_ff,
        "N": 3 if config.gated else 2,
        "V": config.vocab_size,
        "context": config.context_length,
        "P": total,
        "W": (total - shared) // (config.n_kv_heads - 1),
    }


def lengths(name: str) -> list[int]:
    """Returns the available lengths: powers of two up to the context length."""
    context = config_of(name).context_length
    return [2**i for i in range(context.bit_length()) if SHORTEST_LENGTH <= 2**i <= context]


def measure(repeats: int = REPEATS) -> dict[str, Any]:
    """Measures the passes of the book's model on this computer, with NumPy; each time is the fastest of several.

    Returns:
        the trait `measured` of `CacheMovie`: milliseconds "without" and "with" a cache, and "on" what.

    Derived in chapter 11.
    """
    model, tokenizer = shipped.load("shakespeare")
    ids = tokenizer.encode("A horse! a horse! my kingdom for a horse!")[: LONGEST - 1]
    best = {"without": [float("inf")] * len(ids), "with": [float("inf")] * len(ids)}
    for _ in range(repeats):
        for way, seconds in best.items():
            kept = model.new_cache(1, len(ids)) if way == "with" else None
            for t in range(len(ids)):
                read = ids[None, t if kept else 0 : t + 1]
                start = time.perf_counter()
                model.head(model.hidden(read, cache=kept)[:, -1])
                seconds[t] = min(seconds[t], time.perf_counter() - start)
    milliseconds = {way: [round(1000 * one, 3) for one in seconds] for way, seconds in best.items()}
    return milliseconds | {"on": f"this computer ({platform.machine()})"}


class Counts(NamedTuple):
    """Running totals up to and including a pass: multiply–adds of both lanes, and bytes kept in the cache."""

    without_cache: int
    with_cache: int
    kept: int


class CacheMovie(View, module="cache_movie"):
    """Writes a text with and without a key–value cache: what each pass computes again, and what it costs.

    Pass 0 reads the prompt, and each further pass reads what was written since. The drawing shows one head;
    the counts are for a whole model, from `inside.multiply_adds` and `inside.cache_bytes`. The milliseconds of
    the book's model are those in `measured`. All others are a lower bound for a processor that fetches 2 TB and
    does 156 trillion 16-bit multiply–adds per second, about an A100.

    Derived in chapter 11.

    Traits:
        text: the final text, 2 to 24 characters.
        prompt: how many of these are there at first; at least one is written.
        step: the pass that is seen; beyond the last one, that.
        model: the one whose work is counted, a key of `MODELS`.
        n_kv_heads: its heads of keys and values, a divisor of its heads. Another model begins with its own.
        length: the positions for which the cache is measured, a power of two up to the context.
        bytes_per_number: 4 (float32) or 2 (float16).
        measured: milliseconds of the book's model as it is, in float32. "without" has those of a pass that reads
            1, 2, … 23 positions without a cache, "with" those of a pass that reads one position with 0, 1, … 22
            in the cache, and "on" says in a few words what they were measured on. At first, the stored times;
            `measure` makes new ones.

    Raises:
        TraitError: a trait is outside its range.
    """

    text = Text("A horse! a horse!", shortest=2, longest=LONGEST).tag(sync=True)
    prompt = Int(9, min=1, max=LONGEST - 1).tag(sync=True)
    step = Int(3, min=0, max=LONGEST - 2).tag(sync=True)
    model = Enum(tuple(MODELS), "shakespeare").tag(sync=True)
    n_kv_heads = Int().tag(sync=True)
    length = Int().tag(sync=True)
    bytes_per_number = Enum(tuple(NUMBERS), 4).tag(sync=True)
    measured = Dict().tag(sync=True)
    _models = Made(lambda _: [(name, label, sizes_of(name)) for name, label in MODELS.items()]).tag(sync=True)

    @property
    def config(self) -> ModelConfig:
        """Returns the model with the chosen number of key/value heads."""
        return config_of(self.model).replace(n_kv_heads=self.n_kv_heads)

    def counts(self) -> Counts:
        """Returns the totals of all passes up to the one that is shown."""
        n_prompt = min(self.prompt, len(self.text) - 1)
        step = min(self.step, len(self.text) - n_prompt - 1)
        without, with_cache = (
            generation_work(self.config, n_prompt, step + 1, cache=cache) for cache in (False, True)
        )
        kept = cache_bytes(self.config, n_prompt + step, bytes_per_number=self.bytes_per_number)
        return Counts(without, with_cache, kept)

    @default("n_kv_heads")
    def _default_n_kv_heads(self) -> int:
        return config_of(self.model).n_kv_heads

    @default("length")
    def _default_length(self) -> int:
        return lengths(self.model)[-1]

    @default("measured")
    def _default_measured(self) -> dict[str, Any]:
        return json.loads(TIMES.read_text("utf-8"))

    @validate("n_kv_heads")
    def _validate_n_kv_heads(self, proposal: dict) -> int:
        value, n_heads = proposal["value"], config_of(self.model).n_heads
        if value < 1 or n_heads % value:
            raise TraitError(f"n_kv_heads={value} does not divide n_heads={n_heads}")
        return value

    @validate("length")
    def _validate_length(self, proposal: dict) -> int:
        if proposal["value"] not in (known := lengths(self.model)):
            raise TraitError(f"length={proposal['value']} is not one of {', '.join(map(str, known))}")
        return proposal["value"]

    @validate("measured")
    def _validate_measured(self, proposal: dict) -> dict:
        match proposal["value"]:
            case {"without": list() as without, "with": list() as cached, "on": str()} if (
                len(without) == len(cached) == LONGEST - 1 and min(*without, *cached) > 0
            ):
                return proposal["value"]
        raise TraitError(
            f'measured has to have "without" and "with", {LONGEST - 1} positive numbers each, and "on", a text'
        )

    @observe("model")
    def _fit(self, change: dict) -> None:
        """Replaces settings that do not fit another model by that model's own."""
        if config_of(self.model).n_heads % self.n_kv_heads:
            self.n_kv_heads = config_of(self.model).n_kv_heads
        if self.length not in lengths(self.model):
            self.length = lengths(self.model)[-1]
