"""Shows the book's model as a switchboard: what is lost without a head, a sublayer, or several at once?"""

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from traitlets import Int, List, TraitError, Unicode, default, validate

from glassformer import inside
from glassformer.experiments import stored
from glassformer.experiments.inside import N_TARGETS, sample
from glassformer.generate import generate
from glassformer.text import corpus, inputs_and_targets, split
from glassformer.widgets.engine.model import ModelView, Source
from glassformer.widgets.engine.mulberry import mulberry32
from glassformer.widgets.kit.view import Number

N_CHARACTERS = 512  # of the validation text, on which the loss is measured in the page
N_NEW = 60  # characters that the model writes, or half its context if that is less


class _Draws(np.random.Generator):
    """Draws the same random numbers as the page."""

    def __init__(self, seed: int) -> None:
        super().__init__(np.random.PCG64(seed))
        self._uniform = mulberry32(seed)

    def random(self, size: Any = None, *_: Any, **__: Any) -> Any:
        return np.array([next(self._uniform) for _ in range(size)])


class AblationBoard(ModelView, module="ablation_board"):
    """Switches off any head, attention or feed-forward network of the shipped model, and shows what that costs.

    A part that is off writes nothing to the stream: its rows of W_o, or all of W_down, are zero. The loss
    is measured on 512 characters of the validation text and on the reader's own text. Next to each switch is
    the effect of that part alone, in nats per character, as the experiment `inside` measured it on 32,768
    characters.

    Derived in chapter 07.

    Traits in addition to those of `ModelView` (the model reads as much of the text as fits its context):
        off: the parts that are off, such as "block 0: head 2" or "block 3: feed-forward". "block 0: attention" means
            all of its heads.
        temperature: temperature of the continuation, from 0 (always the likeliest) to 1.5.
        seed: seed of its random numbers, which are the same with and without the parts.

    Raises:
        TraitError: there is no such part, or a number is outside its range.
    """

    off = List(Unicode()).tag(sync=True)
    temperature = Number(0.0, min=0, max=1.5).tag(sync=True)
    seed = Int(0, min=0).tag(sync=True)

    _families = ("decoder",)
    _shortest = 2  # with one character, there is no next one to predict

    def losses(self, off: Sequence[str] | None = None) -> dict[str, float | None]:
        """Returns the mean loss in nats on the 512 characters and on the text, computed with `scratch`.

        `off` replaces the trait. In a text of a single character there is nothing to predict, so its
        loss is None.
        """
        text = self.text[: self._source.config.context_length]
        return _losses(self._source, text, tuple(self.off if off is None else off))

    def writes(self, off: Sequence[str] | None = None) -> str:
        """Returns what the model writes after the text; `off` is as for `losses`."""
        context = self._source.config.context_length
        n_new = min(N_NEW, context // 2)
        prompt = self.text[:context][-(context - n_new) :]
        off = tuple(self.off if off is None else off)
        return _writes(self._source, prompt, n_new, off, self.temperature, self.seed)

    @default("_stored")
    def _default_stored(self) -> dict[str, Any]:
        texts, _ = _validation(self._source)
        alone = _alone(self._source)
        is_measured = not self._source.own
        worth = stored("inside", part="ablations")[0].found if is_measured else alone
        now = {"losses": self.losses(), "writes": self.writes()}
        return {
            "text": self.text,
            "windows": texts,
            "alone": {
                name: round(loss, 5) for name, loss in alone.items()
            },  # the loss without it, and nothing else
            "worth": {name: round(loss - worth["nothing"], 4) for name, loss in worth.items()},
            "worth_of": N_TARGETS if is_measured else sum(len(text) - 1 for text in texts),
            "now": now,
            "intact": {"losses": self.losses(()), "writes": self.writes(())} if self.off else now,
            "state": [self.off, self.temperature, self.seed],
        }

    @validate("off")
    def _validate_off(self, proposal: dict) -> list[str]:
        config = self._source.config
        parts = [
            (f"block {block}: {part}", f"block {block}: attention")
            for block in range(config.n_layers)
            for part in (*(f"head {head}" for head in range(config.n_heads)), "feed-forward")
        ]
        given = set(proposal["value"])
        wholes = {whole for _, whole in parts}
        if strange := sorted(given - {part for part, _ in parts} - wholes):
            raise TraitError(
                f"off contains {strange[0]!r}; each entry must be 'block …: attention', 'block …: head …' or "
                f"'block …: feed-forward', and the model has {config.n_layers} blocks with {config.n_heads} heads"
            )
        return [part for part, whole in parts if part in given or (whole in given and "head" in part)]


@lru_cache(8)
def _losses(source: Source, text: str, off: tuple[str, ...]) -> dict[str, float | None]:
    inputs, targets = inputs_and_targets(source.tokenizer.encode(text)[None])
    with inside.without(source.model, off) as model:
        found: dict[str, float | None] = {
            "validation": inside.mean_loss(model, _validation(source)[1]),
            "text": None,
        }
        if len(text) > 1:
            found["text"] = inside.mean_loss(model, [({"ids": inputs}, targets)])
    return {what: loss if loss is None else round(float(loss), 5) for what, loss in found.items()}


@lru_cache(8)
def _writes(
    source: Source, prompt: str, n_new: int, off: tuple[str, ...], temperature: float, seed: int
) -> str:
    tokenizer = source.tokenizer
    with inside.without(source.model, off) as model:
        [ids] = generate(
            model, tokenizer.encode(prompt), n_new, temperature=temperature, generator=_Draws(seed)
        )
    return tokenizer.decode(ids[len(prompt) :])


@lru_cache(8)
def _validation(source: Source) -> tuple[list[str], list]:
    """Returns stretches of the text that the model was not trained on, as text and as batches."""
    known, T = set(source.tokenizer.characters), source.config.context_length
    ids = source.tokenizer.encode("".join(c for c in corpus() if c in known))
    if len(ids) < 20 * T:
        raise TraitError(
            f"this view measures losses in the book's text, of which the model knows only {len(ids)} characters: too "
            f"few for context_length={T}"
        )
    batches = list(sample(split(ids)[1], T, N_CHARACTERS))
    windows = [
        np.append(row, last)
        for inputs, targets in batches
        for row, last in zip(inputs["ids"], targets[:, -1], strict=True)
    ]
    return [source.tokenizer.decode(window) for window in windows], batches


@lru_cache(8)
def _alone(source: Source) -> dict[str, float]:
    """Returns the loss on these stretches without each part."""
    losses = inside.ablations(source.model, _validation(source)[1])
    return {part: float(loss) for part, loss in losses.items()}
