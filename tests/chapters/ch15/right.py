"""Right designs of many kinds, each with the stages that it passes and what it is told."""

from types import SimpleNamespace

import numpy as np
import torch

from .designs import library, llama
from .designs.parts import RIGHT, Allocated, Block, Kept, Rms, design, mix, turned
from .wrong import edited

# What a design is tried on: the parts that it does its own way.
WRITES, THINKS, LEARNS = ("generation", "cache"), ("block", "model", "loss"), ("training",)
ALL = (*THINKS, *LEARNS, *WRITES)


class Attends:
    """Shows the attention of its model."""

    def attention(self, q, k, v, causal):
        return mix(q, k, v, self.choices, causal)


class AddsItsBiasWithTheMask:
    """Adds penalties for distance (ALiBi) in the step that hides later positions, and so only there."""

    def attention(self, q, k, v, causal):
        return mix(q, k, v, self.choices if causal else SimpleNamespace(**RIGHT), causal)


class InDoublePrecision:
    def __init__(self):
        super().__init__()
        self.model.double()


class RotatesInside:
    def attention(self, q, k, v, causal):
        return mix(turned(q, 0, self.choices), turned(k, 0, self.choices), v, self.choices, causal)


class NormsInside:
    def attention(self, q, k, v, causal):
        norm = Rms(q.shape[-1], 1e-6)
        return mix(norm(q), norm(k), v, self.choices, causal)


class Alone(Attends):
    """Takes one text, without an axis of texts."""

    batched = False

    def embed(self, ids):
        return super().embed(ids[None])[0]

    def block(self, x):
        return super().block(x[None])[0]

    def logits(self, ids):
        return self.model(ids.reshape(1, -1))[0] if ids.ndim == 1 else self.model(ids)

    def attention(self, q, k, v, causal):
        return super().attention(q[None], k[None], v[None], causal)[0]

    def generate(self, ids, n, temperature, seed):
        generator, ids = torch.Generator().manual_seed(seed), ids.tolist()
        for _ in range(n):
            logits = self.logits(torch.tensor(ids[-self.context_length :]))[-1]
            ids.append(self.pick(logits, temperature, generator))
        return ids


class InTuples:
    def logits(self, ids):
        return super().logits(ids), None

    def loss(self, ids, targets):
        logits, _ = self.logits(ids)
        return logits, torch.nn.functional.cross_entropy(logits.flatten(0, -2), targets.flatten())

    def learn(self, ids, targets):
        _, loss = self.loss(ids, targets)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return {"loss": loss.item()}

    def generate(self, ids, n, temperature, seed):
        generator, ids = torch.Generator().manual_seed(seed), ids.flatten().tolist()
        for _ in range(n):
            logits = self.logits(torch.tensor([ids[-self.context_length :]]))[0][0, -1]
            ids.append(self.pick(logits, temperature, generator))
        return ids


class ClearsAfterwards:
    """Sets gradients to zero after the step, in place, and adds those of each text."""

    def learn(self, ids, targets):
        losses = [self.loss(one[None], other[None]) for one, other in zip(ids, targets, strict=True)]
        for loss in losses:
            (loss / len(losses)).backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=False)
        return sum(loss.item() for loss in losses) / len(losses)


class ByHand:
    """Its optimizer is SGD with momentum, written by hand; gradients come from `torch.autograd.grad`."""

    def learn(self, ids, targets):
        weights = list(self.model.parameters())
        loss = self.loss(ids, targets)
        found = torch.autograd.grad(loss, weights)
        self.speed = getattr(self, "speed", [torch.zeros_like(one) for one in weights])
        with torch.no_grad():
            for weight, gradient, speed in zip(weights, found, self.speed, strict=True):
                speed.mul_(0.9).add_(gradient)
                weight.sub_(0.2 * speed)
        return loss.item()


class CacheOnTheModel:
    """Holds the keys and values itself, and starts afresh when a new text begins."""

    def pasts(self, cache):
        if not cache:
            self.held = [Kept() for _ in self.model.blocks]
        cache["read"] = cache.get("read", 0) + 1
        return self.held


class CacheByIdentity:
    """Knows the texts by the identity of their caches, in which it writes nothing."""

    def __init__(self):
        super().__init__()
        texts = {}

        def pasts(cache):
            # With the cache itself: otherwise a new one could be where an old one was.
            return texts.setdefault(id(cache), (cache, [Kept() for _ in self.model.blocks]))[1]

        self.pasts = pasts


class CacheAllocated:
    def pasts(self, cache):
        return cache.setdefault("pasts", [Allocated() for _ in self.model.blocks])


class CacheOfTheBook:
    """Keeps keys and values in the book's container, of which it is free to make use."""

    def pasts(self, cache):
        from glassformer.nn.cache import KeyValueCache

        class Held:
            def __init__(self, c):
                self.of = KeyValueCache(1, c.kv_heads, 64, c.width // c.heads)

            length = property(lambda self: self.of.length)

            def add(self, k, v):
                return self.of.append(k, v)

        return cache.setdefault("pasts", [Held(self.choices) for _ in self.model.blocks])


class PositionsFromZero:
    """Its table of positions starts at zero, as minGPT's does."""

    def __init__(self):
        super().__init__()
        torch.nn.init.zeros_(self.model.places.weight)


class InItsOwnWay(llama.Mine):
    """Begins with sublayers that add nothing and with large embeddings, and returns only what it has to."""

    context_length, export = 48, None

    def __init__(self):
        super().__init__()
        for name, w in self.p.items():
            if name.endswith(("W_o.weight", "W_down.weight")):
                w[...] = 0
        self.p["token_embedding.weight"] *= 10

    def tensors(self):
        """A helper of its own, and no flag."""

    def encode(self, text):
        return np.array(super().encode(text), dtype=np.int32)

    def block(self, x):
        return llama.block(self.p, llama.CONFIG, x, 1)

    def generate(self, ids, n, temperature, seed):
        return super().generate(ids, n, temperature, seed)[len(ids) :]

    def generate_cached(self, ids, n, temperature, seed):
        return super().generate_cached(ids, n, temperature, seed)[len(ids) :]


class HeadFromZero(llama.Mine):
    """Has a head that starts at zero, so the ids that it has not met yet are equally likely.

    With the cache it takes the last of the likeliest ids, and without it the first.
    """

    def __init__(self):
        super().__init__()
        self.p["unembedding.weight"][...] = 0

    def generate_cached(self, ids, n, temperature, seed):
        if temperature:
            return super().generate_cached(ids, n, temperature, seed)
        text = list(ids)
        for _ in range(n):
            cache = {}
            for one in text[-self.context_length :]:
                logits = self.step(one, cache)
            text.append(int(np.flatnonzero(logits >= logits.max() - 1e-9)[-1]))
        return text


class ScaledSublayers(llama.Mine):
    """Multiplies what its sublayers add by a factor that starts near 0, as LayerScale does."""

    def __init__(self):
        super().__init__()
        for name, w in self.p.items():
            if name.endswith(("W_o.weight", "W_down.weight")):
                w *= 1e-5


class NewTensorsEachStep:
    """Trains functions of tensors, and replaces the tensors in each step; some are fixed."""

    weights = None

    def __init__(self):
        super().__init__()
        self.w = {n: p.detach().requires_grad_("norm" not in n) for n, p in self.model.named_parameters()}

    def logits(self, ids):
        return torch.func.functional_call(self.model, self.w, (ids,))

    def learn(self, ids, targets):
        loss = self.loss(ids, targets)
        trained = {n: p for n, p in self.w.items() if p.requires_grad}
        for (n, p), g in zip(trained.items(), torch.autograd.grad(loss, list(trained.values())), strict=True):
            self.w[n] = (p - g).detach().requires_grad_()
        return loss.item()


class Undisclosed:
    """Shows no weights and does not learn, so the checker cannot change it."""

    weights = learn = None


class LoadsByOtherCode:
    """Its own design is one that `load` cannot read, so `load` has code of its own."""

    def load(self, weights, config):
        if config["kind"] != "llama":
            raise NotImplementedError
        run = llama.Mine().load({name: one.numpy() for name, one in weights.items()}, config)
        return lambda ids: run(ids[0].numpy())


class CacheWithoutWeights:
    """Shows no weights, so the checker has to change them by training."""

    weights = None


class InLists(llama.Mine):
    """Returns lists wherever it can."""

    def logits(self, ids):
        return super().logits(ids).tolist()

    def loss(self, ids, targets):
        log_p = np.log(llama.softmax(np.array(self.logits(ids))))
        return [float(-log_p[np.arange(len(ids)), targets].mean())]

    def generate(self, ids, n, temperature, seed):
        rng, text = np.random.default_rng(seed), list(ids)
        for _ in range(n):
            logits = np.array(self.logits(np.array(text[-self.context_length :])))[-1]
            text.append(llama.pick(logits, temperature, rng))
        return [int(one) for one in text]


def numpy_attention(scores_of, hide=-np.inf):
    """Makes an adapter with an attention in NumPy alone."""

    def attention(self, q, k, v, causal):
        scores = scores_of(q, k)
        if causal:
            scores = np.where(np.tri(q.shape[-2], dtype=bool), scores, hide)
        return llama.softmax(scores) @ v

    return type("Mine", (), {"vocab_size": 65, "context_length": 32, "attention": attention})


def capped(q, k):
    return 20 * np.tanh(q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) / 20)


def unit(x):
    return x / np.linalg.norm(x, axis=-1, keepdims=True).clip(1e-12)


def far_is_little(q, k):
    """A bias by distance with slopes of its own, as T5 or KERPLE learn one."""
    T = q.shape[-2]
    distance = np.abs(np.arange(T)[:, None] - np.arange(T))
    return q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1]) - np.linspace(0.1, 0.9, len(q))[
        :, None, None
    ] * np.log1p(distance)


def far_is_much(q, k):
    """ALiBi with the wrong sign."""
    distance = np.abs(np.arange(q.shape[-2])[:, None] - np.arange(q.shape[-2]))
    return (
        q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        + np.linspace(0.1, 0.9, len(q))[:, None, None] * distance
    )


class OneKindRaises:
    """Reads LLaMA's kind, and breaks at the other."""

    def load(self, weights, config):
        weights["unembedding.weight"]
        return super().load(weights, config)


class WithGradients:
    """Hands over PyTorch's gradients."""

    def gradients(self, ids, targets):
        self.model.zero_grad()
        self.loss(ids, targets).backward()
        return {name: p.grad.clone() for name, p in self.model.named_parameters()}


class InSinglePrecision(llama.Mine):
    """Keeps weights of single precision, with small embeddings before a norm."""

    def __init__(self):
        super().__init__()
        self.p = {n: w.astype(np.float32) for n, w in self.p.items()}
        self.p["token_embedding.weight"] *= np.float32(0.2)


class FromZero(Block):
    """A block whose sublayers are multiplied by numbers that start at 0 (ReZero)."""

    def forward(self, x, past=None):
        x = x + self.first * self.attention(self.one(x), past)
        return x + self.second * self.network(self.two(x))


class ReZero:
    start = (0.0, 0.0)

    def __init__(self):
        super().__init__()
        for one in self.model.blocks:
            one.first, one.second = (torch.nn.Parameter(torch.tensor(number)) for number in self.start)
            one.__class__ = FromZero
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)


class OptimizerMadeOfAnother:
    """Has an optimizer whose step calls that of its base class."""

    def __init__(self):
        super().__init__()

        class Own(torch.optim.AdamW):
            def step(self, closure=None):
                return super().step(closure)

        # from now on, PyTorch watches the base class, too
        torch.optim.AdamW([torch.nn.Parameter(torch.zeros(1))])
        self.optimizer = Own(self.model.parameters(), lr=3e-3)


class DropsInLearn:
    """Has dropout in `learn` alone, with a rate that begins small (a warm-up)."""

    def __init__(self):
        super().__init__()
        self.plan = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda t: min(1.0, (t + 1) / 30))

    def learn(self, ids, targets):
        loss = super().learn(ids, targets)
        self.plan.step()
        return loss


class WithoutNorms:
    """Has no norms, and so forgets slowly what it has learned by heart."""

    def __init__(self):
        super().__init__()
        for block in self.model.blocks:
            block.one = block.two = torch.nn.Identity()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)


class WithABuffer:
    """Adds random rows that are never trained, and shows them in its `state_dict`."""

    def __init__(self):
        super().__init__()
        self.model.register_buffer("wave", 0.02 * torch.randn(32, 24))
        right = self.model.embed
        self.model.embed = lambda ids, start=0: (
            right(ids, start) + self.model.wave[start : start + ids.shape[-1]]
        )

    def weights(self):
        return self.model.state_dict()


ANGLES = "np.arange(32)[:, None] / 10000 ** (np.arange(16) / 16)"
WAVES = edited(
    ("\n\ndef encode(", f"\nTABLE = 0.1 * np.concatenate([np.sin({ANGLES}), np.cos({ANGLES})], 1)\n\n\ndef encode("),
    ('    return p["token_embedding.weight"][np.asarray(ids)]\n',
     '    return p["token_embedding.weight"][np.asarray(ids)] + TABLE[: len(ids)]\n'),
    ("        return self.p\n\n    def gradients", "        return self.p | {'wave': TABLE}\n\n    def gradients"),
)  # fmt: skip
UNKNOWN_IDS = edited(
    ("sorted(set(corpus()))", '[*sorted(set(corpus())), "\\ufffd"]'), ("TO_ID[c] for", "TO_ID.get(c, 65) for")
)
LLAMA = {"positions": "halves", "norm": "rms", "gate": True, "activation": "silu", "tied": False}

# name: (adapter, stages that are right, part of each remark)
DESIGNS = {
    "learned positions, tied": (design("A", Attends), ("attention", *ALL), ()),
    "RoPE in halves, RMSNorm, SwiGLU, untied, GQA": (
        design("B", Attends, kv_heads=2, **LLAMA), ("attention", *THINKS, "weights"), (),
    ),
    "RoPE in pairs of neighbours, one key head": (
        design("C", CacheAllocated, positions="neighbours", kv_heads=1), (*THINKS, "cache"), (),
    ),
    "ALiBi, inside attention, too": (
        design("D", Attends, positions="alibi"), ("attention", *THINKS, "cache"), ("a bias on the scores",),
    ),
    "ALiBi, inside attention only under the mask": (
        design("D", AddsItsBiasWithTheMask, positions="alibi"), ("attention", *THINKS), ("a bias on the scores",),
    ),
    "double precision in PyTorch": (design("A", InDoublePrecision), ("embedding", *THINKS, *LEARNS), ()),
    "sinusoids, post-norm, no last norm, dropout": (
        design("E", positions="waves", place="post", last_norm=False, dropout=0.1), (*THINKS, *LEARNS), (),
    ),
    "a parallel block with squared ReLU": (design("F", place="parallel", activation="square"), THINKS, ()),
    "a window of six and a soft cap": (
        design("G", window=6, cap=20.0, positions="halves"), THINKS,
        (),
    ),
    "QK-norm, −1e9 for a mask": (
        design("H", NormsInside, qk_norm=True, hide=-1e9), ("attention", *THINKS), ("a norm on queries",),
    ),
    "a sink": (design("I", Attends, sink=True), ("attention", *THINKS), ("a sink", "rows are all equal")),
    "RoPE inside attention": (
        design("J", RotatesInside, positions="halves"), ("attention", "model"), ("rotary positions",),
    ),
    "without an axis of texts": (design("K", Alone), ("attention", *THINKS, *WRITES), ()),
    "in tuples": (design("L", InTuples), ("model", "loss", "generation"), ()),
    "gradients cleared afterwards": (design("M", ClearsAfterwards), LEARNS, ()),
    "momentum by hand": (design("N", ByHand), LEARNS, ()),
    "dropout in `learn`, a warm-up": (design("N2", DropsInLearn, dropout=0.1), LEARNS, ()),
    "no norms": (design("N3", WithoutNorms, last_norm=False), LEARNS, ()),
    "a table of positions that starts at zero": (design("U", PositionsFromZero), ("model",), ()),
    "a table that starts at zero, weights unseen": (
        design("W", PositionsFromZero, CacheWithoutWeights), ("model",), (),
    ),
    "a permitted design, beside a `load` of others' weights": (
        design("X", LoadsByOtherCode, positions="alibi"), ("weights",), ("and 0 of them run in your own model",),
    ),
    "a cache on the model": (design("O", CacheOnTheModel), ("cache",), ("one text at a time",)),
    "a cache in a closure": (design("P", CacheByIdentity), ("cache",), ()),
    "a head that starts at zero": (HeadFromZero, WRITES, ()),
    "what is added starts near zero": (ScaledSublayers, ("block",), ()),
    "tensors that are new in each step": (design("T2", NewTensorsEachStep, std=0.1), LEARNS, ()),
    "the book's container": (design("Q", CacheOfTheBook, positions="halves"), ("cache",), ()),
    "a cache, but no weights": (design("R", CacheWithoutWeights), ("cache",), ()),
    "a wide model, large first embeddings": (
        design("S", width=72, std=0.3, tied=False, layers=1), ("block", "model"), (),
    ),
    "gradients of PyTorch's, with ReLU": (
        design("U", WithGradients, activation="relu", place="post", std=0.1), ("loss",), (),
    ),
    "gradients in single precision": (InSinglePrecision, ("loss",), ()),
    "sublayers that start at 0": (
        design("Z1", ReZero, positions="halves", norm="rms", bias=False), (*THINKS, *LEARNS), (),
    ),
    "an optimizer made of another": (design("Z5", OptimizerMadeOfAnother), LEARNS, ()),
    "a state_dict with a buffer": (design("A9", WithABuffer, positions="none"), LEARNS, ()),
    "sinusoids among the weights": (WAVES, ("loss", *LEARNS), ()),
    "bytes, sinusoids in a buffer, its own adapter": (library.Mine, ("attention", *THINKS, *LEARNS, "generation"), ()),
    "an id for unknown characters": (UNKNOWN_IDS, ("tokenizer",), ()),
    "lists": (InLists, ("model", "loss", "generation"), ()),
    "NumPy, a soft cap inside": (numpy_attention(capped), ("attention",), ("a soft cap",)),
    "NumPy, unit vectors times ten": (
        numpy_attention(lambda q, k: 10 * unit(q) @ unit(k).swapaxes(-1, -2)), ("attention",), ("a norm on queries",),
    ),
    "NumPy, a bias of its own, −1e9": (
        numpy_attention(far_is_little, -1e9), ("attention",), ("a bias on the scores",),
    ),
    "NumPy, a bias for what is far": (
        numpy_attention(far_is_much), ("attention",), ("a bias on the scores", "the farther back it is"),
    ),
    "values rotated in a block": (
        design("V2", positions="halves", rotate_values=True), ("block",), ("rotated along with queries and keys",),
    ),
    "load: one of two kinds breaks": (
        design("V3", OneKindRaises), ("weights",), ('cannot take "gpt2": `load` raised KeyError',),
    ),
}  # fmt: skip

# Checks that have nothing to look at: (adapter, stage, title, part of the reason)
UNSEEN = {
    "one text at a time": (
        llama.Mine, "model", "texts in a batch do not influence each other",
        "If yours can take several, write `batched = True`",
    ),
    "no loss": (
        type("Mine", (llama.Mine,), {"loss": None}), "training",
        "what it learns from a text holds for lines that it has not read", "no `loss`",
    ),
    "no export, but the same lines": (
        InItsOwnWay, "weights", "your own trained model gives the same logits through `load`",
        "no `export`, which would hand over your trained weights. Of the",
    ),
}  # fmt: skip

# Right or not: it cannot be told, so the stage stays open. (adapter, stage, parts of what is told)
OPEN_YET = {
    "a table that starts at zero": (
        design("A", PositionsFromZero, Undisclosed), "model", ("or they start at zero", "`weights` or `learn` first"),
    ),
}  # fmt: skip
