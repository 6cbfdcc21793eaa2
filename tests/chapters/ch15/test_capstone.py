"""Tests the capstone's checker: other designs pass, and each mistake is caught at its stage, with its own message."""

import math
import sys
import types

import numpy as np
import pytest
import torch

from glassformer.chapters.ch15.capstone.judge import OPEN, RIGHT, STAGES, WRONG, judge
from glassformer.chapters.ch15.capstone.template import adapter_source
from glassformer.chapters.ch15.capstone.words import mistakes
from glassformer.exercises.source import MODULE
from tests.exercises.test_machine import all_written

from .designs import functions, library, module
from .edits import EDITS
from .slips import SLIPS

# The fourth is the reader's own file after chapter 11, in the adapter that `start` writes for it.
own = types.ModuleType("own")
exec(all_written(), vars(own))
own.decode = lambda ids, characters: "".join(characters[i] for i in ids)
sys.modules[MODULE] = own
try:
    exec(adapter_source(vars(own)), vars(own))
finally:
    del sys.modules[MODULE]

AMPLE = 300.0  # seconds; the machine that tests may be busy
LEFT_OUT = {
    module: {"shipped"},
    functions: set(),
    library: {"cache", "weights", "shipped"},
    own: set(),
}
DESIGNS = pytest.mark.parametrize("design", list(LEFT_OUT), ids=lambda design: design.__name__.split(".")[-1])


@pytest.fixture(autouse=True)
def on_one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@DESIGNS
def test_a_design_of_someone_else_passes_every_stage_that_it_has(design):
    for name in STAGES:
        found = judge(design.Mine, name, AMPLE)
        expected = OPEN if name in LEFT_OUT[design] else RIGHT
        assert (name, found.status, found.message if expected == RIGHT else "") == (name, expected, "")


class WithBuffers(module.Mine):
    """A design that lists the mask among its weights, as its `state_dict` does."""

    def weights(self):
        return dict(self.model.state_dict())

    def learn(self, ids, targets):
        return {"loss": super().learn(ids, targets)}


class ByTables(module.Mine):
    """A design with two dictionaries, as in many lectures; a tensor cannot be a key of the second."""

    def decode(self, ids):
        table = dict(enumerate(module.CHARS))
        return "".join([table[i] for i in ids])


class Biased(torch.nn.Module):
    """A design whose keys have a bias. The softmax ignores it, so no step of SGD changes it."""

    def __init__(self):
        super().__init__()
        self.k = torch.nn.Linear(8, 8)
        self.e, self.head = torch.nn.Embedding(65, 8), torch.nn.Linear(8, 65)

    def forward(self, ids):
        x = self.e(ids)
        scores = x @ self.k(x).mT / 8**0.5
        scores = scores.masked_fill(torch.ones(scores.shape[-2:]).triu(1) > 0, -torch.inf)
        return self.head(x + scores.softmax(-1) @ x)


class BySgd:
    vocab_size, context_length = 65, 32
    tensors = batched = True

    def __init__(self):
        torch.manual_seed(2)
        self.model = Biased()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1.0)

    def logits(self, ids):
        return self.model(ids)

    def loss(self, ids, targets):
        return torch.nn.functional.cross_entropy(self.model(ids).flatten(0, 1), targets.flatten())

    def weights(self):
        return dict(self.model.named_parameters())

    def learn(self, ids, targets):
        self.optimizer.zero_grad()
        loss = self.loss(ids, targets)
        loss.backward()
        self.optimizer.step()
        return loss.item()


class Sure(module.Mine):
    """A design with torch's own initial weights: so confident that at temperature 1 every seed writes the same text."""

    def __init__(self):
        super().__init__()
        with torch.no_grad():
            self.model.wte.weight *= 2000


class Slopes(torch.nn.Module):
    """A design with penalties for distance (ALiBi), whose stream has the axis of positions first: (T, B, D)."""

    def __init__(self):
        super().__init__()
        self.e = torch.nn.Embedding(65, 32)
        self.into = torch.nn.ModuleList(torch.nn.Linear(32, 96) for _ in range(2))
        self.out = torch.nn.ModuleList(torch.nn.Linear(32, 32) for _ in range(2))
        self.networks = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.Linear(32, 128), torch.nn.GELU(), torch.nn.Linear(128, 32))
            for _ in range(2)
        )
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(32) for _ in range(5))

    def forward(self, ids):
        n_batch, n = ids.shape
        distance = torch.arange(n)[:, None] - torch.arange(n)
        slopes = 2.0 ** (-2 * torch.arange(1, 5))[:, None, None]
        bias = (-slopes * distance).masked_fill(distance < 0, -torch.inf)
        x = self.e(ids.T)
        for i in range(2):
            q, k, v = (
                y.reshape(n, n_batch, 4, 8).permute(1, 2, 0, 3)
                for y in self.into[i](self.norms[i](x)).chunk(3, dim=-1)
            )
            mixed = (q @ k.mT / 8**0.5 + bias).softmax(-1) @ v
            x = x + self.out[i](mixed.permute(2, 0, 1, 3).reshape(n, n_batch, 32))
            x = x + self.networks[i](self.norms[2 + i](x))
        return (self.norms[4](x) @ self.e.weight.T / 8).transpose(0, 1)


class ByDistance(BySgd):
    def __init__(self):
        torch.manual_seed(0)
        self.model = Slopes()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)


@pytest.mark.parametrize(
    ("design", "stage"),
    [
        (WithBuffers, "training"),
        (ByTables, "tokenizer"),
        (BySgd, "training"),
        (Sure, "generation"),
        (ByDistance, "model"),
        (ByDistance, "loss"),
        (ByDistance, "training"),
    ],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_what_is_unusual_and_right_passes(design, stage):
    found = judge(design, stage, AMPLE)
    assert (found.status, found.message) == (RIGHT, "")


def test_a_context_that_is_too_short_is_told_before_anything_else():
    found = judge(type("Mine", (module.Mine,), {"context_length": 8}), "model", AMPLE)
    assert "`context_length` should be a whole number of at least 16" in found.message


# Mistakes: each makes one of the designs wrong, and says where and how that is told.

MUTANTS = []
SLOW = {"training", "generation"}


def wrong(stage, mistake, design=functions):
    """Registers a function that makes one mistake in a design's module, using pytest's monkeypatch."""

    def add(function):
        function.everywhere = getattr(function, "everywhere", True)
        MUTANTS.append(pytest.param(function, stage, mistake, design, id=f"{stage}-{function.__name__}"))
        return function

    return add


@pytest.mark.parametrize(("spoil", "stage", "mistake", "design"), MUTANTS)
def test_a_mistake_is_caught_at_its_stage_and_named(spoil, stage, mistake, design, monkeypatch):
    spoil(monkeypatch, design)
    # What is no method of the adapter's alone may be met by an earlier stage.
    before = [name for name in list(STAGES)[: list(STAGES).index(stage)] if name not in SLOW]
    for name in before[-3:] if spoil.everywhere else ():
        assert judge(design.Mine, name, AMPLE).status in (RIGHT, OPEN), name
    found = judge(design.Mine, stage, AMPLE)
    assert (found.status, found.mistake) == (WRONG, mistake), found.message
    assert mistakes()[mistake].says in found.message


def method(name, stage, mistake, design=functions):
    """Returns a mistake that replaces the method with that name."""

    def add(function):
        def spoil(patch, module):
            patch.setattr(module.Mine, name, function)

        spoil.__name__, spoil.everywhere = function.__name__, False
        wrong(stage, mistake, design)(spoil)
        return function

    return add


def test_every_sentence_is_one_that_a_mistake_is_told_and_no_two_are_alike():
    told = {one.values[2] for one in MUTANTS} | {mistake for _, _, mistake in SLIPS.values()}
    told |= {mistake for _, mistake, *_ in EDITS.values()}
    assert told == set(mistakes())
    for text in ("says", "instead"):
        assert all(getattr(one, text) for one in mistakes().values())
    assert len({one.says for one in mistakes().values()}) == len(mistakes())


# Tokens


@method("encode", "tokenizer", "dropped")
def unknown_left_out(self, text):
    return np.array([functions.VOCAB.index(c) for c in text if c in functions.VOCAB])


@method("encode", "tokenizer", "find")
def found_at_minus_one(self, text):
    return np.array([functions.VOCAB.find(c) for c in text])


@method("decode", "tokenizer", "joined", module)
def with_blanks(self, ids):
    return " ".join(module.CHARS[int(i)] for i in ids)


@wrong("tokenizer", "few-rows")
def one_id_too_few(patch, design):
    patch.setattr(design.Mine, "vocab_size", 64)


@method("embed", "embedding", "few-rows")
def a_row_too_few(self, ids):
    return self.params["wte"][:-1][ids]


@method("embed", "embedding", "same-point")
def two_ids_a_row(self, ids):
    return self.params["wte"][ids // 2]


@method("embed", "embedding", "neighbours", module)
def normed_along_positions(self, ids):
    x = self.model.embed(ids)
    return x + x.mean(dim=1, keepdim=True)


# Attention


def attends(mistake):
    def add(function):
        def attention(self, q, k, v, causal):
            return function(q, k, v, causal, np.tri(q.shape[-2], dtype=bool))

        attention.__name__ = function.__name__
        return method("attention", "attention", mistake)(attention)

    return add


def scores_of(q, k):
    return q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])


def hide(scores, causal, seen, value=-np.inf):
    return np.where(seen, scores, value) if causal else scores


@attends("no-scale")
def not_divided(q, k, v, causal, seen):
    return functions.softmax(hide(q @ k.swapaxes(-1, -2), causal, seen)) @ v


@attends("scale-k")
def divided_by_k(q, k, v, causal, seen):
    return functions.softmax(hide(q @ k.swapaxes(-1, -2) / q.shape[-1], causal, seen)) @ v


@attends("scale-times")
def multiplied(q, k, v, causal, seen):
    return functions.softmax(hide(scores_of(q, k) * q.shape[-1], causal, seen)) @ v


@attends("scale-model")
def divided_by_the_model(q, k, v, causal, seen):
    return functions.softmax(hide(scores_of(q, k) / math.sqrt(len(q)), causal, seen)) @ v


@attends("softmax-axis")
def along_queries(q, k, v, causal, seen):
    scores = hide(scores_of(q, k), causal, seen)
    return functions.softmax(scores.swapaxes(-1, -2)).swapaxes(-1, -2) @ v


@attends("softmax-axis")
def along_heads(q, k, v, causal, seen):
    e = np.exp(hide(scores_of(q, k), causal, seen))
    return e / e.sum(axis=0) @ v


@attends("no-softmax")
def plain_scores(q, k, v, causal, seen):
    return hide(scores_of(q, k), causal, seen, 0) @ v


@attends("keys-ask")
def the_other_way_round(q, k, v, causal, seen):
    return functions.softmax(hide(scores_of(k, q), causal, seen)) @ v


@attends("always-causal")
def blind_to_the_argument(q, k, v, causal, seen):
    return functions.softmax(hide(scores_of(q, k), True, seen)) @ v


@attends("no-mask")
def never_hidden(q, k, v, causal, seen):
    return functions.softmax(scores_of(q, k)) @ v


@attends("no-mask")
def hidden_by_too_little(q, k, v, causal, seen):
    return functions.softmax(scores_of(q, k) - 1e-9 * causal * ~seen) @ v


@attends("mask-transposed")
def the_other_triangle(q, k, v, causal, seen):
    return functions.softmax(hide(scores_of(q, k), causal, seen.T)) @ v


@attends("mask-one-ahead")
def one_ahead(q, k, v, causal, seen):
    return functions.softmax(hide(scores_of(q, k), causal, np.tri(len(seen), k=1, dtype=bool))) @ v


@attends("mask-after-softmax")
def hidden_too_late(q, k, v, causal, seen):
    return functions.softmax(scores_of(q, k)) * (seen | (not causal)) @ v


@attends("mask-of-self")
def not_even_itself(q, k, v, causal, seen):
    with np.errstate(invalid="ignore"):
        return functions.softmax(hide(scores_of(q, k), causal, np.tri(len(seen), k=-1, dtype=bool))) @ v


@attends("mask-of-zeros")
def hidden_with_zero(q, k, v, causal, seen):
    return functions.softmax(hide(scores_of(q, k), causal, seen, 0)) @ v


@attends("softmax-overflow")
def largest_not_subtracted(q, k, v, causal, seen):
    with np.errstate(all="ignore"):
        e = np.exp(hide(scores_of(q, k), causal, seen))
        return e / e.sum(axis=-1, keepdims=True) @ v


# The block


@wrong("block", "leak")
def heads_merged_as_they_lie(patch, design):
    patch.setattr(design, "flat", lambda x: x.reshape(x.shape[1], -1))
    patch.setattr(design.Mine, "__init__", trained_a_little(design.Mine.__init__))


def trained_a_little(init):
    """Trains a few steps, so that what a block adds is not 0."""

    def begin(self):
        init(self)
        rng = np.random.default_rng(1)
        for block in self.params["blocks"]:
            block["wo"] += rng.normal(size=block["wo"].shape) * 0.2
            block["wd"] += rng.normal(size=block["wd"].shape) * 0.2

    return begin


def mixing(mistake, stage="block"):
    def add(mask_of):
        def spoil(patch, design):
            def attend(q, k, v, mask):
                return functions.softmax(scores_of(q, k) + mask_of(q.shape[-2], k.shape[-2])) @ v

            patch.setattr(design, "attend", attend)
            patch.setattr(design.Mine, "__init__", trained_a_little(design.Mine.__init__))

        spoil.__name__ = mask_of.__name__
        spoil.everywhere = False  # attention has it, too: it is looked at in the block
        return wrong(stage, mistake)(spoil)

    return add


@mixing("leak-all")
def without_a_mask(T, S):
    return 0


@mixing("mask-one-ahead")
def a_mask_one_ahead(T, S):
    return np.where(np.tri(T, S, S - T + 1), 0, -np.inf)


@mixing("blind")
def itself_alone(T, S):
    return np.where(np.eye(T, S, S - T), 0, -np.inf)


@wrong("block", "mask-transposed")
def a_block_that_looks_ahead(patch, design):
    right = design.block
    patch.setattr(design.Mine, "block", lambda self, x: right(x[::-1], self.params["blocks"][1], 2)[::-1])
    patch.setattr(design.Mine, "__init__", trained_a_little(design.Mine.__init__))


@method("block", "block", "residual-dropped")
def in_place_of_the_stream(self, x):
    p = self.params["blocks"][1]
    a = functions.rms(x, p["g1"])
    q, k, v = (functions.heads(a @ p[n], 2) for n in ("wq", "wk", "wv"))
    y = functions.flat(functions.attend(q, k, v, np.triu(np.full((len(x),) * 2, -np.inf), 1)))
    b = functions.rms(y @ p["wq"], p["g2"])
    return (b @ p["wg"]) * (b @ p["wu"]) @ p["wd"][:, :] + y @ p["wv"]


@wrong("block", "dropout-in-evaluation", library)
def never_told_to_evaluate(patch, design):
    patch.setattr(design.Mine, "eval", lambda self: self.train())


@method("block", "block", "over-positions")
def divided_by_how_many(self, x):
    return x + (functions.block(x, self.params["blocks"][1], 2) - x + np.cumsum(x, axis=0) * 0.3) / len(x)


@method("block", "block", "leak-all")
def a_norm_along_positions(self, x):
    return functions.block(x / np.sqrt((x * x).mean(axis=0) + 1e-5), self.params["blocks"][1], 2)


# The model


@method("logits", "model", "last-only")
def the_last_row(self, ids):
    return functions.gpt(ids, self.params, 2)[-1:]


@method("logits", "model", "probabilities")
def already_probabilities(self, ids):
    return functions.softmax(functions.gpt(ids, self.params, 2))


@wrong("model", "no-positions")
def never_turned(patch, design):
    patch.setattr(design, "turn", lambda x, cs, back=False: x)


@method("logits", "model", "across-texts", module)
def less_the_mean_of_all_texts(self, ids):
    logits, _ = self.model(ids)
    return logits - logits.mean(dim=0, keepdim=True) * (len(logits) > 1)


@method("logits", "model", "leak-all")
def normed_over_the_text(self, ids):
    logits = functions.gpt(ids, self.params, 2)
    return logits - logits.mean(axis=0)


# The loss


def losing(mistake):
    def add(function):
        def loss(self, ids, targets):
            log_p = np.log(functions.softmax(self.logits(ids)))
            return function(log_p, ids, targets, np.arange(len(ids)))

        loss.__name__ = function.__name__
        return method("loss", "loss", mistake)(loss)

    return add


@losing("sign")
def below_zero(log_p, ids, targets, rows):
    return log_p[rows, targets].mean()


@losing("summed")
def a_sum(log_p, ids, targets, rows):
    return -log_p[rows, targets].sum()


@losing("base-2")
def in_bits(log_p, ids, targets, rows):
    return -log_p[rows, targets].mean() / math.log(2)


@losing("label-smoothing")
def a_tenth_for_all(log_p, ids, targets, rows):
    return -0.9 * log_p[rows, targets].mean() - 0.1 * log_p.mean()


@losing("of-probability")
def without_a_logarithm(log_p, ids, targets, rows):
    return np.exp(log_p[rows, targets]).mean()


@losing("softmax-twice")
def softmax_of_softmax(log_p, ids, targets, rows):
    return -np.log(functions.softmax(np.exp(log_p)))[rows, targets].mean()


@losing("labels-unshifted")
def asked_for_what_it_sees(log_p, ids, targets, rows):
    return -log_p[rows, ids].mean()


@losing("labels-shifted-twice")
def shifted_again(log_p, ids, targets, rows):
    return -log_p[rows[:-1], targets[1:]].mean()


@losing("last-target")
def of_the_last(log_p, ids, targets, rows):
    return -log_p[-1, targets[-1]]


@wrong("loss", "first-weights", module)
def normal_first_weights(patch, design):
    normal = torch.nn.init.normal_
    patch.setattr(design.nn.init, "normal_", lambda p, std=1.0: normal(p))


@method("logits", "loss", "knows-already")
def shown_the_targets(self, ids):
    """Replaces `_asked` by a model that has already seen what it is asked."""
    logits = functions.gpt(ids, self.params, 2)
    for seed in range(4):
        known = np.random.default_rng(seed).integers(self.vocab_size, size=len(ids) + 1)
        if np.array_equal(known[:-1], ids):
            logits[np.arange(len(ids)), known[1:]] += 9
    return logits


@wrong("loss", "gradient-into-block")
def without_the_norms_second_term(patch, design):
    def back(dy, x, g):
        r = 1 / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-5)
        return r * dy * g, (dy * x * r).sum(tuple(range(x.ndim - 1)))

    patch.setattr(design, "rms_back", back)


@wrong("loss", "gradient-into-block")
def without_the_gain_which_is_1_at_first(patch, design):
    def back(dy, x, g):
        r = 1 / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-5)
        d = r * dy - x * r**3 * np.mean(dy * x, -1, keepdims=True)
        return d, (dy * x * r).sum(tuple(range(x.ndim - 1)))

    patch.setattr(design, "rms_back", back)


@method("gradients", "loss", "no-gradient")
def one_forgotten(self, ids, targets):
    found = functions.named(functions.gpt_back(ids, targets, self.params, 2)[1])
    return {name: g for name, g in found.items() if name != "head"}


@method("gradients", "loss", "no-gradient")
def one_that_stays_zero(self, ids, targets):
    found = functions.named(functions.gpt_back(ids, targets, self.params, 2)[1])
    return found | {"gf": 0 * found["gf"], "head": 0 * found["head"]}


@wrong("loss", "id-twice")
def added_once_for_an_id_that_stands_twice(patch, design):
    class Adding:
        @staticmethod
        def at(table, ids, by):
            table[ids] = by

    class Without:
        add = Adding

        def __getattr__(self, name):
            return getattr(np, name)

    patch.setattr(design, "np", Without())


def with_gradients(change):
    """Returns a mistake in the gradient of the tied table, as the reader's own `gpt_gradients` returns it."""

    def spoil(patch, design):
        def gpt_gradients(ids, targets, weights, n_heads, right=design.gpt_gradients):
            loss, found = right(ids, targets, weights, n_heads)
            x = weights["token_embedding.weight"]
            return loss, found | {"token_embedding.weight": change(found, ids, np.zeros_like(x))}

        patch.setattr(design, "gpt_gradients", gpt_gradients)

    spoil.__name__ = change.__name__
    wrong("loss", "tied-gradient-overwritten", own)(spoil)
    return change


@with_gradients
def the_head_alone(found, ids, share):
    np.add.at(share, ids, found["decoder.positions.weight"][: len(ids)])
    return found["token_embedding.weight"] - share


@with_gradients
def the_lookup_alone(found, ids, share):
    np.add.at(share, ids, found["decoder.positions.weight"][: len(ids)])
    return share


# Training


@method("learn", "training", "no-move", module)
def without_a_step(self, ids, targets):
    _, loss = self.model(ids, targets)
    loss.backward()
    return loss


@method("learn", "training", "uphill")
def along_the_gradient(self, ids, targets):
    loss, found = functions.gpt_back(ids, targets, self.params, 2)
    own = functions.named(self.params)
    for name, g in functions.named(found).items():
        own[name] += 0.1 * g
    return loss


@wrong("training", "too-fast", module)
def far_too_fast(patch, design):
    adam = torch.optim.AdamW
    patch.setattr(design.torch.optim, "AdamW", lambda weights, lr: adam(weights, lr=1.5))


@wrong("training", "too-slow", module)
def far_too_slow(patch, design):
    adam = torch.optim.AdamW
    patch.setattr(design.torch.optim, "AdamW", lambda weights, lr: adam(weights, lr=1e-6))
    patch.setattr("glassformer.chapters.ch15.capstone.training.BY_HEART", 40)


@wrong("training", "frozen", module)
def a_part_left_out(patch, design):
    adam = torch.optim.AdamW
    patch.setattr(design.torch.optim, "AdamW", lambda weights, lr: adam([*weights][2:], lr=lr))


@method("learn", "training", "other-targets", module)
def targets_from_the_end(self, ids, targets):
    _, loss = self.model(ids, targets.flip(1))
    self.optimizer.zero_grad()
    loss.backward()
    self.optimizer.step()
    return loss


@method("learn", "training", "labels-shifted-twice", module)
def shifted_once_more(self, ids, targets):
    _, loss = self.model(ids[:, :-1], targets[:, 1:].contiguous())
    self.optimizer.zero_grad()
    loss.backward()
    self.optimizer.step()
    return loss


@method("learn", "training", "learns-last", module)
def the_last_position_alone(self, ids, targets):
    logits, loss = self.model(ids, targets)
    self.optimizer.zero_grad()
    torch.nn.functional.cross_entropy(logits[:, -1], targets[:, -1]).backward()
    self.optimizer.step()
    return loss


@wrong("training", "decay", module)
def a_decay_of_thirty(patch, design):
    adam = torch.optim.AdamW
    patch.setattr(design.torch.optim, "AdamW", lambda weights, lr: adam(weights, lr=lr, weight_decay=30.0))


@wrong("training", "row-frozen", module)
def a_row_without_a_gradient(patch, design):
    def untied(self, *args, **more):
        right(self, *args, **more)
        self.wte = torch.nn.Embedding(65, self.wte.embedding_dim, padding_idx=1)
        torch.nn.init.normal_(self.wte.weight, std=0.02)

    right = design.GPT.__init__
    patch.setattr(design.GPT, "__init__", untied)


# Writing


def choosing(mistake):
    def add(function):
        function_ = lambda self, logits, temperature, rng: function(logits, temperature, rng)  # noqa: E731
        function_.__name__ = function.__name__
        method("pick", "generation", mistake)(function_)
        return function

    return add


def drawn(p, rng):
    return int(rng.choice(len(p), p=p / p.sum()))


@choosing("temperature-times")
def multiplied_by_it(logits, temperature, rng):
    return drawn(functions.softmax(logits * temperature), rng) if temperature else int(logits.argmax())


@choosing("temperature-ignored")
def whatever_it_is(logits, temperature, rng):
    return drawn(functions.softmax(logits), rng) if temperature else int(logits.argmax())


@choosing("temperature-after")
def after_the_softmax(logits, temperature, rng):
    p = functions.softmax(logits)
    return drawn(functions.softmax(p / temperature), rng) if temperature else int(logits.argmax())


@choosing("temperature-ignored")
def divided_and_summed_to_one(logits, temperature, rng):
    return drawn(functions.softmax(logits) / temperature, rng) if temperature else int(logits.argmax())


@choosing("always-greedy")
def never_drawn(logits, temperature, rng):
    return int(logits.argmax())


@choosing("not-greedy")
def never_greedy(logits, temperature, rng):
    return drawn(functions.softmax(logits / (temperature or 1)), rng)


@choosing("seed-ignored")
def from_somewhere(logits, temperature, rng):
    return drawn(functions.softmax(logits / temperature), np.random) if temperature else int(logits.argmax())


@choosing("seed-fixed")
def from_one_seed(logits, temperature, rng):
    if not temperature:
        return int(logits.argmax())
    return drawn(functions.softmax(logits / temperature), np.random.default_rng(0))


@choosing("seed-each-step")
def from_the_first_number(logits, temperature, rng):
    if not temperature:
        return int(logits.argmax())
    ends = np.cumsum(functions.softmax(logits / temperature))
    first = np.random.Generator(type(rng.bit_generator)(rng.bit_generator.seed_seq)).random()
    return min(int(np.searchsorted(ends, first)), len(ends) - 1)


@choosing("cut-off")
def of_the_forty_likeliest(logits, temperature, rng):
    if not temperature:
        return int(logits.argmax())
    return drawn(
        functions.softmax(np.where(logits < np.sort(logits)[-40], -np.inf, logits) / temperature), rng
    )


@choosing("cut-off")
def of_the_five_likeliest(logits, temperature, rng):
    if not temperature:
        return int(logits.argmax())
    return drawn(
        functions.softmax(np.where(logits < np.sort(logits)[-5], -np.inf, logits) / temperature), rng
    )


@choosing("cut-off")
def of_all_but_the_last(logits, temperature, rng):
    if not temperature:
        return int(logits.argmax())
    return drawn(functions.softmax(logits / temperature)[:-1], rng)


def reading(mistake):
    def add(function):
        def generate(self, ids, n, temperature, seed):
            rng, text = np.random.default_rng(seed), list(ids)
            for _ in range(n):
                text.append(self.pick(function(self, text), temperature, rng))
            return text

        generate.__name__ = function.__name__
        method("generate", "generation", mistake)(generate)
        return function

    return add


@reading("first-row")
def of_the_first_id(self, text):
    return self.logits(np.array(text[-48:]))[0]


@reading("reads-only-new")
def of_the_last_id(self, text):
    return self.logits(np.array(text[-1:]))[-1]


@method("generate", "generation", "context-error", module)
def with_all_of_the_text(self, ids, n, temperature, seed):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(n):
        ids = torch.cat([ids, self.choose(self.model(ids)[0][:, -1], temperature, generator)], dim=1)
    return ids


@reading("context-full")
def of_the_first_that_fit(self, text):
    return self.logits(np.array(text[:48]))[-1]


@method("generate", "generation", "context-full", module)
@torch.no_grad()
def of_the_first_that_fit_in_tensors(self, ids, n, temperature, seed):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(n):
        logits, _ = self.model(ids[:, : self.context_length])
        ids = torch.cat([ids, self.choose(logits[:, -1], temperature, generator)], dim=1)
    return ids


@method("step", "cache", "cache-of-ids")
def all_again_beside_a_number_with_a_fraction(self, id, cache):
    cache.setdefault("ids", []).append(id)
    cache["last"] = self.logits(np.array(cache["ids"]))[-1]
    return cache["last"]


@wrong("cache", "cache-off-by-one")
def a_position_late(patch, design):
    right = design.angles
    patch.setattr(design, "angles", lambda n, d, start, *base: right(n, d, max(0, start - 1), *base))


@method("step", "cache", "cache-forgets")
def nothing_of_the_past(self, id, cache):
    cache["kv"] = [[] for _ in self.params["blocks"]]
    return functions.gpt(np.array([id]), self.params, 2, kept=cache["kv"])


@method("step", "cache", "cache-of-ids")
def all_again(self, id, cache):
    cache.setdefault("ids", []).append(id)
    return self.logits(np.array(cache["ids"]))[-1]


@method("step", "cache", "cache-shared")
def kept_elsewhere(self, id, cache):
    self.kept = getattr(self, "kept", [[] for _ in self.params["blocks"]])
    return functions.gpt(np.array([id]), self.params, 2, kept=self.kept)


@wrong("cache", "cache-of-all-blocks")
def one_list_for_all_blocks(patch, design):
    def step(self, id, cache):
        kept = cache.setdefault("kv", [[]] * len(self.params["blocks"]))
        return functions.gpt(np.array([id]), self.params, 2, kept=kept)

    patch.setattr(design.Mine, "step", step)


@method("generate_cached", "cache", "cached-reads")
def all_of_the_prompt_but_its_last_id(self, ids, n, temperature, seed):
    return functions.Mine.generate(self, ids[:-1], n, temperature, seed)


@method("generate_cached", "cache", "cached-draws")
def one_number_drawn_too_many(self, ids, n, temperature, seed):
    rng, cache, out = np.random.default_rng(seed), {}, []
    rng.random()
    for one in ids:
        logits = self.step(one, cache)[-1]
    for _ in range(n):
        out.append(self.pick(logits, temperature, rng))
        logits = self.step(out[-1], cache)[-1]
    return out


# Weights of others


@wrong("weights", "eps-outside", module)
def epsilon_beside_the_root(patch, design):
    def forward(self, x):
        x = x - x.mean(-1, keepdim=True)
        return x / (x.pow(2).mean(-1, keepdim=True).sqrt() + 1e-5) * self.weight + self.bias

    patch.setattr(design.nn.LayerNorm, "forward", forward)


@wrong("weights", "sigma-unbiased", module)
def one_less_than_d(patch, design):
    def forward(self, x):
        return (x - x.mean(-1, keepdim=True)) / torch.sqrt(
            x.var(-1, keepdim=True) + 1e-5
        ) * self.weight + self.bias

    patch.setattr(design.nn.LayerNorm, "forward", forward)


@wrong("weights", "other-gelu", module)
def by_tanh(patch, design):
    class Functions:
        def __getattr__(self, name):
            return getattr(torch.nn.functional, name)

        def gelu(self, x):
            return torch.nn.functional.gelu(x, approximate="tanh")

    patch.setattr(design, "F", Functions())


def loading(stage, mistake, **changes):
    """Returns a mistake that replaces a function of the NumPy design before weights are loaded."""

    def add(function):
        def spoil(patch, design):
            right = design.Mine.load

            def load(self, weights, config):
                run = right(self, weights, config)

                def logits(ids):
                    with pytest.MonkeyPatch.context() as inner:
                        function(inner, design, config)
                        return run(ids)

                return logits

            patch.setattr(design.Mine, "load", load)

        spoil.__name__ = function.__name__
        wrong(stage, mistake)(spoil)
        return function

    return add


@loading("weights", "rope-layout")
def neighbours_turned(patch, design, config):
    def turn(x, cs, back=False):
        (c, s), a, b = cs, x[..., 0::2], x[..., 1::2]
        return np.stack([a * c - b * s, b * c + a * s], -1).reshape(x.shape)

    patch.setattr(design, "turn", turn)


@loading("weights", "no-scale")
def not_divided_at_all(patch, design, config):
    right = design.attend
    patch.setattr(design, "attend", lambda q, k, v, mask: right(q * math.sqrt(q.shape[-1]), k, v, mask))


@loading("weights", "one-head")
def a_single_head(patch, design, config):
    right = design.heads
    patch.setattr(design, "heads", lambda x, h: right(x, 1))


@loading("weights", "interleaved-heads")
def heads_in_turns(patch, design, config):
    patch.setattr(design, "heads", lambda x, h: x.reshape(len(x), -1, h).transpose(2, 0, 1))
    patch.setattr(design, "flat", lambda x: x.transpose(1, 2, 0).reshape(x.shape[1], -1))


@loading("weights", "interleaved-heads")
def heads_split_in_turns_and_merged_as_usual(patch, design, config):
    patch.setattr(design, "heads", lambda x, h: x.reshape(len(x), -1, h).transpose(2, 0, 1))


@loading("weights", "eps-outside")
def epsilon_beside_the_root_of_an_rms_norm(patch, design, config):
    def rms(x, g):
        return x * g / (np.sqrt(np.mean(x * x, -1, keepdims=True)) + 1e-5)

    patch.setattr(design, "rms", rms)


@loading("weights", "heads-not-swapped")
def heads_as_they_lie(patch, design, config):
    patch.setattr(design, "flat", lambda x: x.reshape(x.shape[1], -1))


def with_weights(stage, mistake):
    def add(change):
        def spoil(patch, design):
            right = design.Mine.load
            patch.setattr(
                design.Mine, "load", lambda self, w, config: right(self, change(w, config), dict(config))
            )

        spoil.__name__ = change.__name__
        wrong(stage, mistake)(spoil)
        return change

    return add


@with_weights("weights", "gate-up")
def the_gate_is_up(w, config):
    if config["kind"] == "gpt2":
        return w
    other = {"W_gate": "W_up", "W_up": "W_gate"}

    def named(name):
        return next((name.replace(one, two) for one, two in other.items() if one in name), name)

    return {name: w[named(name)] for name in w}


@with_weights("weights", "not-transposed")
def square_ones_as_they_lie(w, config):
    return {name: a.T if ".W_" in name and a.shape == a.T.shape else a for name, a in w.items()}


@with_weights("weights", "qk-exchanged")
def queries_for_keys(w, config):
    other = {"W_q": "W_k", "W_k": "W_q"}
    return {name: w[next((name.replace(q, k) for q, k in other.items() if q in name), name)] for name in w}


@wrong("weights", "other-base")
def half_the_exponent(patch, design):
    right = design.Mine.load
    patch.setattr(
        design.Mine,
        "load",
        lambda self, w, config: right(self, w, dict(config) | {"rope_base": config["rope_base"] ** 0.5}),
    )


@with_weights("weights", "kv-exchanged")
def keys_for_values(w, config):
    other = {"W_k": "W_v", "W_v": "W_k"}
    return {name: w[next((name.replace(k, v) for k, v in other.items() if k in name), name)] for name in w}


@with_weights("weights", "norms-exchanged")
def the_other_sublayers_norm(w, config):
    other = {"norm_attention": "norm_feedforward", "norm_feedforward": "norm_attention"}
    return {name: w[next((name.replace(a, b) for a, b in other.items() if a in name), name)] for name in w}


@with_weights("weights", "norms-exchanged")
def one_norm_for_both(w, config):
    return {name: w[name.replace("norm_attention", "norm_feedforward")] for name in w}


def changed_weights(mistake):
    def add(change):
        def spoil(patch, design):
            right = design.Mine.load
            patch.setattr(
                design.Mine,
                "load",
                lambda self, w, config: right(self, {name: change(name, a) for name, a in w.items()}, config),
            )

        spoil.__name__ = change.__name__
        wrong("weights", mistake, module)(spoil)
        return change

    return add


@changed_weights("not-transposed")
def what_merges_the_heads_as_it_lies(name, a):
    return a.T if name.endswith("W_o.weight") else a


@changed_weights("bias-left-out")
def the_norms_without_a_bias(name, a):
    return 0 * a if "norm" in name and name.endswith("bias") else a


def loaded_model(mistake):
    def add(change):
        def spoil(patch, design):
            right = design.Mine.load

            def load(self, weights, config):
                model = right(self, weights, config)
                change(model)
                return model

            patch.setattr(design.Mine, "load", load)

        spoil.__name__ = change.__name__
        wrong("weights", mistake, module)(spoil)
        return change

    return add


@loaded_model("unmasked")
def everybody_is_seen(model):
    for block in model.h:
        block.attn.mask[...] = True


@loaded_model("other-eps")
def another_epsilon(model):
    for one in model.modules():
        if isinstance(one, torch.nn.LayerNorm):
            one.eps = 1e-6


@loaded_model("one-block")
def the_first_alone(model):
    del model.h[1:]


@loading("weights", "no-last-norm")
def no_norm_at_the_end(patch, design, config):
    right, calls = design.rms, []

    def rms(x, g):
        calls.append(g)
        return x if len(calls) == 2 * config["n_layers"] + 1 else right(x, g)

    patch.setattr(design, "rms", rms)


@wrong("weights", "positions-late", module)
def added_after_a_block(patch, design):
    def forward(self, idx, targets=None, pasts=None):
        x = self.wte(idx)
        for i, block in enumerate(self.h):
            x = block(x)
            if i == 0:
                x = x + self.wpe(torch.arange(idx.size(1)))
        return self.lm_head(self.ln_f(x)), None

    right = design.Mine.load

    def load(self, weights, config):
        model = right(self, weights, config)
        return lambda ids: forward(model, ids)

    patch.setattr(design.Mine, "load", load)


@wrong("weights", "post-norm", module)
def normed_after_the_sum(patch, design):
    right = design.Mine.load

    def forward(self, x):
        x = self.ln_1(x + self.attn(x))
        return self.ln_2(x + self.c_proj(torch.nn.functional.gelu(self.c_fc(x))))

    def load(self, weights, config):
        model = right(self, weights, config)

        def logits(ids):
            x = model.embed(ids)
            for block in model.h:
                x = forward(block, x)
            return model.lm_head(model.ln_f(x))

        return logits

    patch.setattr(design.Mine, "load", load)


@loaded_model("parallel-block")
def both_sublayers_read_the_same_stream(model):
    def forward(block):
        def run(x, past):
            return (
                x
                + block.attn(block.ln_1(x))
                + block.c_proj(torch.nn.functional.gelu(block.c_fc(block.ln_2(x))))
            )

        return run

    for block in model.h:
        block.forward = forward(block)


@loaded_model("residual-of-norm")
def a_sublayer_is_added_to_the_normed_stream(model):
    def forward(block):
        def run(x, past):
            x = x + block.attn(block.ln_1(x))
            normed = block.ln_2(x)
            return normed + block.c_proj(torch.nn.functional.gelu(block.c_fc(normed)))

        return run

    for block in model.h:
        block.forward = forward(block)


@wrong("weights", "tied-reshaped", module)
def reshaped_and_not_transposed(patch, design):
    right = design.Mine.load

    def load(self, weights, config):
        model = right(self, weights, config)
        table = weights["token_embedding.weight"]

        def logits(ids):
            x = model.embed(ids)
            for block in model.h:
                x = block(x)
            return model.ln_f(x) @ table.reshape(table.shape[1], -1)

        return logits

    patch.setattr(design.Mine, "load", load)


@loading("weights", "rope-on-values")
def values_turned_too(patch, design, config):
    right, base = design.attend, config["rope_base"]

    def attend(q, k, v, mask):
        return right(q, k, functions.turn(v, functions.angles(v.shape[1], v.shape[2], base=base)), mask)

    patch.setattr(design, "attend", attend)


@loading("shipped", "usual-scale")
def the_scale_of_others(patch, design, config):
    if config["kind"] == "shakespeare":
        right = design.attend
        factor = config["attention_scale"] * math.sqrt(config["d_model"] / config["n_heads"])
        patch.setattr(design, "attend", lambda q, k, v, mask: right(q / factor, k, v, mask))


@loading("shipped", "no-qk-norm")
def heads_not_normed(patch, design, config):
    right = design.rms
    patch.setattr(design, "rms", lambda x, g: x if x.ndim == 3 else right(x, g))


@loading("shipped", "qk-norm-late")
def heads_normed_after_the_rotation(patch, design, config):
    if config["kind"] != "shakespeare":
        return
    right_rms, right_turn, gains = design.rms, design.turn, []

    def rms(x, g):
        if x.ndim < 3:
            return right_rms(x, g)
        gains.append(g)
        return x

    patch.setattr(design, "rms", rms)
    patch.setattr(design, "turn", lambda x, cs: right_rms(right_turn(x, cs), gains.pop(0)))


@loading("shipped", "no-embedding-norm")
def embedding_not_normed(patch, design, config):
    if config["kind"] == "shakespeare":
        right, calls = design.rms, []

        def rms(x, g):
            calls.append(g)
            return x if len(calls) == 1 else right(x, g)

        patch.setattr(design, "rms", rms)


@changed_weights("norm-gain")
def gains_of_one(name, a):
    return 1 + 0 * a if "norm" in name and name.endswith("weight") else a


@changed_weights("block-repeated")
def a_block_twice(name, a, first={}):  # noqa: B006 - filled block by block
    rest = name.partition("blocks.")[2][2:]
    return first.setdefault(rest, a) if rest else a
