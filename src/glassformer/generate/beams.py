"""Beam search: follows several texts at once and returns the best that ended. The axes: B batch, V vocabulary."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from glassformer import _checks as checks
from glassformer.generate.inputs import (
    Ids,
    check_context,
    check_finite,
    check_id,
    prompts_and_sources,
    stop_ids_of,
)
from glassformer.generate.reader import Reader
from glassformer.progress import A_MOMENT, bar
from glassformer.protocols import AnyTransformer
from glassformer.shapes import Float, Int64
from glassformer.trace import see


def beam_search(
    model: AnyTransformer,
    prompt_ids: Ids | None,
    n_new: int,
    *,
    n_beams: int,
    length_penalty: float | int = 1.0,
    early_stopping: bool | str = False,
    n_return: int = 1,
    stop_ids: Iterable[int] = (),
    cache: bool = True,
    source: Ids | None = None,
    start_id: int = 0,
    pad_id: int = 0,
    progress: bool = False,
) -> list[tuple[Int64[np.ndarray, " _"], float]]:
    """Searches for likely texts instead of likely ids: at every step the `n_beams` likeliest texts are continued.

    A text's log-probability is the sum over its new ids. A text ends with a stop id or when it has `n_new`
    new ids; its score is then log-probability / (number of new ids)^`length_penalty`. Log-probabilities are
    negative, so a penalty above 0 favours long texts, and one below 0 favours short ones.

    If `early_stopping` is True, the search is over as soon as `n_beams` texts have ended. If it is False, the
    search continues until no growing text would beat the worst of them if it ended now. `"never"` also
    continues while a growing text could still beat it at a later length, which takes longest and misses
    least.

    With `progress`, a bar counts the new ids if this takes longer than a moment.

    Prompts, `source`, `cache` and the other arguments are those of `generate`. A trace records each step's
    `candidates`, best first: (beam, id, log-probability).

    Source: Graves 2012, "Sequence Transduction with Recurrent Neural Networks", section 2.4; Wu et al. 2016,
    "Google's Neural Machine Translation System", section 7, for dividing by length. All rules are those of
    the library transformers. Derived in chapter 11.

    Returns:
        The `n_return` best (text, score) pairs of the first prompt, best first, then those of the second, and
        so on; fewer if there are not that many different texts.

    Raises:
        ValueError: as for `generate`; or `n_beams` is below 1, `n_return` is not within 1..n_beams,
            `length_penalty` is not finite, or `early_stopping` is none of the three.
        TypeError: an argument is of the wrong kind.
    """
    prompts, sources = prompts_and_sources(model, prompt_ids, source, start_id)
    checks.whole("n_new", n_new)
    checks.whole("n_beams", n_beams)
    checks.whole("n_return", n_return)
    if n_return > n_beams:
        raise ValueError(f"n_return={n_return} must be at most n_beams={n_beams}")
    checks.number("length_penalty", length_penalty, math.isfinite, "finite")
    if early_stopping not in (True, False, "never"):
        raise ValueError(f"early_stopping={early_stopping!r} is not one of True, False, 'never'")
    check_context(prompts, n_new, model.config.context_length)
    stop_ids = stop_ids_of(stop_ids, model.config.vocab_size)
    check_id("pad_id", pad_id, model.config.vocab_size)

    reader = Reader(model, prompts, n_new, sources=sources, cache=cache, pad_id=pad_id, copies=n_beams)
    searches = [
        _Search(n_beams, n_new, frozenset(stop_ids), length_penalty, early_stopping, pad_id) for _ in prompts
    ]
    steps = range(n_new)
    for _ in bar(steps, desc="beam search", unit="id", leave=False, delay=A_MOMENT) if progress else steps:
        logits = reader.next_logits()
        check_finite(logits)
        log_p = _log_softmax(logits.astype(np.float64)).reshape(len(prompts), n_beams, -1)
        moves = [search.step(each) for search, each in zip(searches, log_p, strict=True)]
        if all(search.is_over for search in searches):
            break
        rows = [i * n_beams + beam for i, move in enumerate(moves) for beam, _ in move]
        reader.reorder(np.array(rows))
        reader.append(np.array([token for move in moves for _, token in move]))
    return [
        (np.concatenate([prompt, np.array(text.ids, dtype=np.int64)]), text.score)
        for prompt, search in zip(prompts, searches, strict=True)
        for text in search.ended[:n_return]
    ]


@dataclass(frozen=True)
class _Text:
    """New ids and their score: the log-probability while the text grows, adjusted for length once it has ended."""

    ids: tuple[int, ...]
    score: float


@dataclass
class _Search:
    """The beam search for one prompt: the `n_beams` texts that are growing, and the best that have ended."""

    n_beams: int
    n_new: int
    stop_ids: frozenset[int]
    length_penalty: float | int
    early_stopping: bool | str
    pad_id: int
    growing: list[_Text] = field(default_factory=list)
    ended: list[_Text] = field(default_factory=list)  # best first, at most n_beams
    is_over: bool = False

    def __post_init__(self) -> None:
        # All beams start from the same prompt. Only one counts at first; otherwise all would find the same
        # texts.
        self.growing = [_Text((), 0.0)] + [_Text((), -np.inf)] * (self.n_beams - 1)

    def step(self, log_p: Float[np.ndarray, "beams V"]) -> list[tuple[int, int]]:
        """Extends every text by one id. Returns, for each beam, the beam that it continues and the new id."""
        stay = [(beam, self.pad_id) for beam in range(self.n_beams)]
        if self.is_over:
            return stay
        candidates = self._candidates(log_p)
        see(candidates=np.array(candidates))
        grown, moves = [], []
        for rank, (beam, token, score) in enumerate(candidates):
            text = _Text((*self.growing[beam].ids, token), score)
            if token in self.stop_ids or len(text.ids) == self.n_new:
                if rank < self.n_beams:  # the others only replace texts that end
                    self.ended.append(_Text(text.ids, self._worth(score, len(text.ids))))
            elif len(grown) < self.n_beams:
                grown.append(text)
                moves.append((beam, token))
        self.ended = sorted(self.ended, key=lambda text: -text.score)[: self.n_beams]
        self.is_over = not grown or self._nothing_to_gain(grown[0])
        # A very small vocabulary may not offer n_beams continuations; beams without one are dead.
        n_dead = self.n_beams - len(grown)
        self.growing = grown + [_Text((), -np.inf)] * n_dead
        return moves + stay[len(moves) :]

    def _candidates(self, log_p: Float[np.ndarray, "beams V"]) -> list[tuple[int, int, float]]:
        """Returns the likeliest continuations (beam, id, score), best first: enough for n_beams of them to go on."""
        scores = (np.array([text.score for text in self.growing])[:, None] + log_p).reshape(-1)
        # Each beam has at most one continuation per stop id.
        n = min(self.n_beams * max(2, 1 + len(self.stop_ids)), len(scores))
        best = np.argpartition(-scores, n - 1)[:n]
        best = best[np.argsort(-scores[best], kind="stable")]
        V = log_p.shape[-1]
        return [(i // V, i % V, scores[i].item()) for i in best.tolist() if scores[i] > -np.inf]

    def _nothing_to_gain(self, best: _Text) -> bool:
        """Returns whether enough texts have ended and the best growing text would not beat the worst of them."""
        if len(self.ended) < self.n_beams:
            return False
        if self.early_stopping is True:
            return True
        # The length at which its score would be highest: the maximal one if length helps and the best case
        # counts.
        best_case = self.early_stopping == "never" and self.length_penalty > 0
        length = self.n_new if best_case else len(best.ids)
        return self._worth(best.score, length) <= self.ended[-1].score

    def _worth(self, score: float, length: int) -> float:
        return score / length**self.length_penalty


def _log_softmax(x: Float[np.ndarray, "*B V"]) -> Float[np.ndarray, "*B V"]:
    """Returns log(softmax(x)), computed without probabilities that could round to 0."""
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
