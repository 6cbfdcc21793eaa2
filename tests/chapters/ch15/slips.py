"""Mistakes of many kinds in designs that are otherwise right: the stage that notices each, and how it is named."""

import math
from types import SimpleNamespace

import numpy as np
import torch

from glassformer import scratch
from glassformer.config import ModelConfig
from glassformer.text import CharTokenizer, corpus

from . import more_slips
from .designs import functions
from .designs.parts import Adapter, Kept, design, mix, turned
from .edits import edited
from .right import Attends


class NormedStream:
    """Adds to the normed stream."""

    def block(self, x):
        one = self.model.blocks[0]
        x = one.one(x)
        x = x + one.attention(x)
        return x + one.network(one.two(x))


class NewAdam(functions.Mine):
    """Forgets its running averages after each step."""

    def learn(self, ids, targets):
        self.m, self.v = ({n: 0 * w for n, w in functions.named(self.params).items()} for _ in range(2))
        self.t = 0
        return super().learn(ids, targets)


class OneOfTwoCleared:
    """Has two optimizers, and clears the gradients of one."""

    def __init__(self):
        super().__init__()
        tables = [p for name, p in self.model.named_parameters() if name.endswith("table.weight")]
        others = [p for name, p in self.model.named_parameters() if not name.endswith("table.weight")]
        self.optimizer = torch.optim.AdamW(others, lr=3e-3)
        self.second = torch.optim.SGD(tables, lr=0.1)

    def learn(self, ids, targets):
        self.optimizer.zero_grad()
        loss = self.loss(ids, targets)
        loss.backward()
        self.optimizer.step()
        self.second.step()
        return loss.item()


class StepsFirst:
    """Takes its step before the gradient of its batch is there: with that of the batch before."""

    def learn(self, ids, targets):
        self.optimizer.step()
        self.optimizer.zero_grad()
        loss = self.loss(ids, targets)
        loss.backward()
        return loss.item()


class DividedByContext:
    def loss(self, ids, targets):
        logits = self.logits(ids).flatten(0, -2)
        summed = torch.nn.functional.cross_entropy(logits, targets.flatten(), reduction="sum")
        return summed / self.context_length


class RootOfLength:
    """Divides scores by the root of the number of keys."""

    def attention(self, q, k, v, causal):
        return super().attention(q * (q.shape[-1] / k.shape[-2]) ** 0.5, k, v, causal)


class OptimizerEachStep:
    def learn(self, ids, targets):
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)
        return super().learn(ids, targets)


class TimeFirst:
    """Returns (T, B, V)."""

    def logits(self, ids):
        return super().logits(ids).transpose(0, 1)


class BatchForTime:
    """Takes the axis of texts for that of time."""

    def logits(self, ids):
        return super().logits(ids.T).transpose(0, 1)


class Transposed:
    def logits(self, ids):
        return super().logits(ids).mT


class IdsOnTheModel:
    """Computes the whole text again, whose ids it holds itself."""

    def step(self, id, cache):
        self.read = [*self.read, id] if cache else [id]
        cache["read"] = torch.randn(3)  # numbers with fractions, which have nothing to do with it
        return self.logits(torch.tensor([self.read]))[0, -1]


class NeverAfresh:
    """Holds keys and values itself, and never forgets a text."""

    def pasts(self, cache):
        self.held = getattr(self, "held", [Kept() for _ in self.model.blocks])
        return self.held


class Standing:
    """Adds keys and values, but counts no position."""

    class Uncounted(Kept):
        length = property(lambda self: 0, lambda self, value: None)
        __slots__ = ()

    def pasts(self, cache):
        return cache.setdefault("pasts", [Standing.Uncounted() for _ in self.model.blocks])


class ValuesRotated:
    def attention(self, q, k, v, causal):
        q, k, v = (turned(x, 0, self.choices) for x in (q, k, v))
        return mix(q, k, v, self.choices, causal)


class AThirdOfTheScale:
    def attention(self, q, k, v, causal):
        return super().attention(q / 3, k, v, causal)


class HeadsFirst:
    def attention(self, q, k, v, causal):
        return super().attention(q, k, v, causal).transpose(1, 2)


class Borrows:
    def attention(self, q, k, v, causal):
        return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal)


class Encoder:
    """Is torch's own encoder, with a causal mask."""

    def __init__(self):
        super().__init__()
        layer = torch.nn.TransformerEncoderLayer(24, 2, 48, dropout=0.0, batch_first=True)
        self.body = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()

    def logits(self, ids):
        mask = torch.nn.Transformer.generate_square_subsequent_mask(ids.shape[1])
        return self.model.head(self.body(self.model.embed(ids), mask=mask, is_causal=True))


class TorchsAttention:
    """Has torch's MultiheadAttention in its block."""

    def __init__(self):
        super().__init__()
        self.inner = torch.nn.MultiheadAttention(24, 4, batch_first=True)

    def block(self, x):
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return x + self.inner(x, x, x, attn_mask=hidden, need_weights=False)[0]


class Books:
    """Is the book's model."""

    tensors = batched = False

    def __init__(self):
        sizes = {"vocab_size": 65, "context_length": 32, "d_model": 24, "n_layers": 2, "n_heads": 2}
        self.model = scratch.Transformer(ModelConfig(**sizes), generator=np.random.default_rng(0))

    embed = None

    def logits(self, ids):
        return self.model(ids)


class OwnGone(functions.Mine):
    """Loads weights as it should, and exports its own with the wrong scale."""

    def export(self):
        config = {"kind": "llama", "vocab_size": 65, "context_length": 48, "d_model": 24, "n_layers": 2,
                  "n_heads": 4, "d_ff": 40, "eps": 1e-5, "rope_base": 10000.0, "attention_scale": 0.3}  # fmt: skip
        names = {"wq": "attention.W_q", "wk": "attention.W_k", "wv": "attention.W_v", "wo": "attention.W_o",
                 "wg": "feedforward.W_gate", "wu": "feedforward.W_up", "wd": "feedforward.W_down",
                 "g1": "norm_attention", "g2": "norm_feedforward"}  # fmt: skip
        p = self.params
        its = {f"decoder.blocks.{i}.{theirs}.weight": block[mine]
               for i, block in enumerate(p["blocks"]) for mine, theirs in names.items()}  # fmt: skip
        its |= {
            "token_embedding.weight": p["wte"],
            "decoder.norm.weight": p["gf"],
            "unembedding.weight": p["head"],
        }
        return its, config


class PilesUp(functions.Mine):
    def gradients(self, ids, targets):
        found = super().gradients(ids, targets)
        self.sum = {name: g + getattr(self, "sum", {}).get(name, 0) for name, g in found.items()}
        return self.sum


class StillDropping:
    """Writes and reads with dropout on."""

    def logits(self, ids):
        self.model.train()
        return super().logits(ids)


class LikeliestTen:
    def pick(self, logits, temperature, generator):
        return super().pick(
            logits.masked_fill(logits < logits.topk(10).values[-1], -math.inf), temperature, generator
        )


class WritesIntoTheStream:
    @torch.no_grad()
    def block(self, x):
        x += self.model.blocks[0].attention(x)
        return x


class WritesIntoTheQueries:
    def attention(self, q, k, v, causal):
        q *= q.shape[-1] ** -0.5
        return mix(q, k, v, SimpleNamespace(**vars(self.choices) | {"scale": 1.0}), causal)


class WritesIntoTheWeights:
    def load(self, weights, config):
        if config["kind"] != "gpt2":
            raise NotImplementedError
        weights["decoder.norm.weight"] *= 1.0001
        return super().load(weights, config)


class OneKindRaises:
    """Reads LLaMA's kind, and breaks at the other."""

    def load(self, weights, config):
        weights["unembedding.weight"]
        return super().load(weights, config)


class TakesTensorsForArrays:
    def load(self, weights, config):
        return super().load({name: torch.from_numpy(one) for name, one in weights.items()}, config)


class TakesArraysForTensors(functions.Mine):
    def load(self, weights, config):
        return super().load({name: one.detach().numpy() for name, one in weights.items()}, config)


class BlendsPositions(functions.Mine):
    """Has a norm that runs along positions."""

    def block(self, x):
        y = (x - x.mean(axis=0)) / (x.std(axis=0) + 1e-5)
        return x + functions.block(y, self.params["blocks"][0], 2)


class MaskTimes:
    """Multiplies scores by the mask."""

    def attention(self, q, k, v, causal):
        scores = q @ k.mT / q.shape[-1] ** 0.5
        if causal:
            scores = scores * torch.ones(scores.shape[-2:]).tril()
        return scores.softmax(-1) @ v


class StepsTwice:
    def learn(self, ids, targets):
        loss = super().learn(ids, targets)
        self.optimizer.step()
        return loss


class RisesForever:
    """Trains until the loss is 0, which it never is."""

    def learn(self, ids, targets):
        while super().learn(ids, targets) > 0:
            pass


class Accumulates(functions.Mine):
    """Adds each gradient to those before, and never begins anew."""

    def gradient(self, ids, targets):
        loss, d = functions.gpt_back(ids, targets, self.params, 2)
        self.all = {n: g + getattr(self, "all", {}).get(n, 0) for n, g in functions.named(d).items()}
        return loss, self.all

    def learn(self, ids, targets):
        loss, found = self.gradient(ids, targets)
        size = sum((g * g).sum() for g in found.values()) ** 0.5
        for n, weight in functions.named(self.params).items():
            weight -= 0.1 * found[n] / max(1.0, size)
        return loss


class OneBatchLate(Accumulates):
    """Uses the gradient of the batch before."""

    def gradient(self, ids, targets):
        loss, d = functions.gpt_back(ids, targets, self.params, 2)
        last, self.last = getattr(self, "last", functions.named(d)), functions.named(d)
        return loss, last


class FirstBatch(Accumulates):
    """Works on its first batch for ever, and returns the loss of each."""

    def gradient(self, ids, targets):
        self.first = getattr(self, "first", (ids, targets))
        d = functions.gpt_back(*self.first, self.params, 2)[1]
        return self.loss(ids, targets), functions.named(d)


class FirstBatchsLoss(FirstBatch):
    """Returns the loss of its first batch, too."""

    def gradient(self, ids, targets):
        found = super().gradient(ids, targets)[1]
        return self.loss(*self.first), found


class RandomForSome(Accumulates):
    """Draws the gradients of queries and keys."""

    def gradient(self, ids, targets):
        loss, d = functions.gpt_back(ids, targets, self.params, 2)
        rng = np.random.default_rng(0)
        return loss, {
            n: rng.normal(0, 0.01, g.shape) if n.endswith(("wq", "wk")) else g
            for n, g in functions.named(d).items()
        }


class LossAfterwards(functions.Mine):
    def learn(self, ids, targets):
        super().learn(ids, targets)
        return self.loss(ids, targets)


class ReturnsOthersLoss(functions.Mine):
    """Learns what it should, and returns the loss of targets that are shifted again."""

    def learn(self, ids, targets):
        log_p = np.log(functions.softmax(self.logits(ids)))
        super().learn(ids, targets)
        return -log_p[np.arange(len(ids) - 1), targets[1:]].mean()


class NotDividedByT(functions.Mine):
    def gradients(self, ids, targets):
        return {n: len(ids) * g for n, g in super().gradients(ids, targets).items()}


class ShowsCopies(functions.Mine):
    """Has weights that nobody can change from outside."""

    def weights(self):
        return {n: w.copy() for n, w in super().weights().items()}


class DoublesOne:
    """Hands over PyTorch's gradients, one of them doubled."""

    def gradients(self, ids, targets):
        self.model.zero_grad()
        self.loss(ids, targets).backward()
        found = {n: p.grad.clone() for n, p in self.model.named_parameters()}
        name = next(n for n in found if n.endswith("attention.q.weight"))
        return found | {name: 2 * found[name]}


class NeverBegunAnew(functions.Mine):
    """Lets its cache grow beyond the context."""

    def generate_cached(self, ids, n, temperature, seed):
        rng, cache, text = np.random.default_rng(seed), {}, list(ids)
        for one in text:
            logits = self.step(one, cache)[-1]
        for _ in range(n):
            text.append(self.pick(logits, temperature, rng))
            logits = self.step(text[-1], cache)[-1]
        return text


class OldestDropped(NeverBegunAnew):
    """Drops the oldest keys and values of a full cache."""

    def step(self, id, cache):
        for kept in cache.get("kv", []):
            if kept and kept[0].shape[1] == self.context_length:
                kept[:] = [x[:, 1:] for x in kept]
        return super().step(id, cache)


class OldestDroppedLoudTable(OldestDropped):
    """Drops the oldest keys, in a model whose fresh attention contributes so little that few texts depend on it."""

    def __init__(self):
        super().__init__()
        self.params["wte"] *= 12


class SeesWhatFollows(functions.Mine):
    """Lets a part of every row leak into all of them."""

    def logits(self, ids):
        found = super().logits(ids)
        return found + 0.1 * found.mean(axis=0)


class DividesByLength(functions.Mine):
    """Depends on how long the text is, but not on which ids follow."""

    def logits(self, ids):
        return super().logits(ids) / np.sqrt(len(ids))


class LongPromptWhole(functions.Mine):
    """Reads a prompt as a whole that is longer than the context."""

    def generate_cached(self, ids, n, temperature, seed):
        if len(ids) <= self.context_length:
            return super().generate_cached(ids, n, temperature, seed)
        rng, cache = np.random.default_rng(seed), {}
        for one in ids:
            logits = self.step(one, cache)[-1]
        first = self.pick(logits, temperature, rng)
        return [first, *(super().generate_cached([*ids, first], n - 1, temperature, seed) if n > 1 else [])]


def cutting(keep):
    """Makes a generation that cuts off some ids: `keep` maps their probabilities, sorted, to those that stay."""

    def pick(self, logits, temperature, rng):
        if temperature == 0:
            return int(logits.argmax())
        p = functions.softmax(logits / temperature)
        order = np.argsort(-p, kind="stable")
        stays = np.zeros_like(p)
        stays[order[keep(p[order])]] = p[order[keep(p[order])]]
        return int(rng.choice(len(p), p=stays / stays.sum()))

    return type("Mine", (functions.Mine,), {"pick": pick})


class InAPlainList:
    """Keeps its blocks in a plain list, so that PyTorch does not find their parameters."""

    def __init__(self):
        super().__init__()
        blocks = list(self.model.blocks)
        del self.model.blocks
        self.model.blocks = blocks
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)


class HeadsAsTheyLie(functions.Mine):
    """Splits and merges heads without swapping axes. No position sees a later one, as if by chance."""

    def block(self, x):
        p = self.params["blocks"][1]
        q, k, v = ((functions.rms(x, p["g1"]) @ p[n]).reshape(2, len(x), -1) for n in ("wq", "wk", "wv"))
        mask = np.triu(np.full((len(x),) * 2, -np.inf), 1)
        return x + functions.attend(q, k, v, mask).reshape(x.shape)


class LeavesOutABlock(functions.Mine):
    """Has a step that does not run the last block."""

    def step(self, id, cache):
        shorter = self.params | {"blocks": self.params["blocks"][:1]}
        return functions.gpt(np.array([id]), shorter, 2, kept=cache.setdefault("kv", [[]]))


class MaskOfItsOwnRows(functions.Mine):
    """Hides all keys but the first from a step's single query, as a mask of (T, T) does that begins at row 0."""

    def step(self, id, cache):
        right = functions.attend
        functions.attend = lambda q, k, v, mask: right(q, k[:, :1], v[:, :1], 0)
        try:
            return super().step(id, cache)
        finally:
            functions.attend = right


class WarmsUpForever(functions.Mine):
    """Has a schedule that begins at 0 and never moves on."""

    def learn(self, ids, targets):
        return functions.gpt_back(ids, targets, self.params, 2)[0]


class TooSteep(functions.Mine):
    """Has a gradient of the gate that is too large, as a wrong slope of the activation makes it."""

    def gradients(self, ids, targets):
        return {n: 1.5 * g if n.endswith("wg") else g for n, g in super().gradients(ids, targets).items()}


class CountedFromTheEnd(functions.Mine):
    """Adds a number to its logits that depends on how many ids follow."""

    def logits(self, ids):
        return super().logits(ids) + 0.1 * np.arange(len(ids))[::-1, None]


class OneMaximum:
    """Subtracts the largest score of the whole table."""

    vocab_size, context_length = 65, 32

    def attention(self, q, k, v, causal):
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        if causal:
            scores = np.where(np.tri(q.shape[-2], dtype=bool), scores, -np.inf)
        e = np.exp(scores - scores.max())
        with np.errstate(all="ignore"):
            return e / e.sum(axis=-1, keepdims=True) @ v


class MaskOfMinus100:
    vocab_size, context_length = 65, 32

    def attention(self, q, k, v, causal):
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        if causal:
            scores = np.where(np.tri(q.shape[-2], dtype=bool), scores, -100.0)
        return functions.softmax(scores) @ v


class BaseFixed(functions.Mine):
    def load(self, weights, config):
        return super().load(weights, config | {"rope_base": 10000.0})


class TwoBlocks(functions.Mine):
    def load(self, weights, config):
        return super().load(weights, config | {"n_layers": 2})


class OnlyCounts:
    """Knows lines that it has read, and of others how frequent each id is."""

    vocab_size, context_length = 65, 32

    def __init__(self):
        self.counts, self.read = np.ones(65), {}

    def loss(self, ids, targets):
        p = (self.counts / self.counts.sum())[targets]
        times = [self.read.get((bytes(ids[: t + 1]), one), 0) for t, one in enumerate(targets.tolist())]
        return -np.log(np.where(times, 1 - 0.5 ** np.array(times), p)).mean()

    def learn(self, ids, targets):
        loss = self.loss(ids, targets)
        for t, one in enumerate(targets.tolist()):
            self.counts[one] += 1
            key = bytes(ids[: t + 1]), one
            self.read[key] = self.read.get(key, 0) + 1
        return loss


def loading(kind, **choices):
    return design("Mine", attributes={"loads": {kind: choices}}, positions="halves", norm="rms", gate=True,
                  activation="silu", tied=False)  # fmt: skip


def only(kind, base):
    """An adapter whose `load` reads this kind alone."""

    def load(self, weights, config):
        if config["kind"] != kind:
            raise NotImplementedError
        return base.load(self, weights, config)

    return type("Mine", (base,), {"load": load})


def slip(kind, **choices):
    return only(kind, loading(kind, **choices))


class FirstText:
    """Learns the first text of each batch."""

    def learn(self, ids, targets):
        return super().learn(ids[:1], targets[:1])


class WithoutLastBias(Adapter):
    def load(self, weights, config):
        if config["kind"] != "gpt2":
            raise NotImplementedError
        return super().load({n: w for n, w in weights.items() if n != "decoder.norm.bias"}, config)


class JoinsTexts:
    def logits(self, ids):
        return super().logits(ids.reshape(1, -1))


class ReshapesLogits:
    def loss(self, ids, targets):
        logits = self.logits(ids)
        return torch.nn.functional.cross_entropy(logits.view(len(ids), -1, ids.shape[-1]), targets)


# name: (adapter, stage, mistake)
SLIPS = {
    "zero_grad forgotten, Adam": (
        design("A", attributes={"cleared": False, "clipped": False}), "training", "gradients-kept",
    ),
    "zero_grad forgotten, Adam, clipped": (design("B", attributes={"cleared": False}), "training", "gradients-kept"),
    "one of two optimizers cleared": (design("C", OneOfTwoCleared), "training", "gradients-kept"),
    "a step before its gradient": (design("C2", StepsFirst), "training", "batch-before"),
    "the root of T": (design("C3", RootOfLength, Attends), "attention", "scale-length"),
    "a sum divided by the context": (design("C4", DividedByContext), "loss", "divided-by-context"),
    "two steps in a call": (design("C6", StepsTwice), "training", "several-steps"),
    "an optimizer for each step": (design("D", OptimizerEachStep), "training", "optimizer-anew"),
    "a rate of 0.3": (design("E", attributes={"rate": 0.3}), "training", "too-fast"),
    "a mask that hides itself, −∞": (design("F", diagonal=0), "model", "mask-of-self"),
    "a mask that hides itself, −1e9": (design("G", diagonal=0, hide=-1e9, std=0.5), "block", "mask-of-self"),
    "a mask that hides itself, in attention": (
        design("H", Attends, diagonal=0, hide=-1e9), "attention", "mask-of-self",
    ),
    "(T, B, V)": (design("I", TimeFirst), "model", "axes-swapped"),
    "texts for time": (design("J", BatchForTime), "model", "axes-swapped"),
    "(V, T)": (design("K", Transposed), "model", "axes-swapped"),
    "heads and positions exchanged": (design("L", HeadsFirst, Attends), "attention", "axes-swapped"),
    "ids kept on the model": (design("M", IdsOnTheModel), "cache", "cache-of-ids"),
    "never a new text": (design("N", NeverAfresh), "cache", "cache-shared"),
    "positions that stand still": (design("O", Standing), "cache", "cache-off-by-one"),
    "values rotated in attention": (
        design("P", ValuesRotated, positions="halves"), "attention", "attention-values-rotated",
    ),
    "a third of the scale": (design("Q", AThirdOfTheScale, Attends), "attention", "other-scale"),
    "a mask that multiplies": (design("R", MaskTimes), "attention", "mask-of-zeros"),
    "PyTorch's attention": (design("S", Borrows), "attention", "borrowed"),
    "PyTorch's encoder": (design("T", Encoder), "model", "borrowed"),
    "PyTorch's MultiheadAttention": (design("U", TorchsAttention), "block", "borrowed"),
    "the book's model": (type("V", (Books, Adapter), {}), "model", "borrowed"),
    "its own weights differ": (OwnGone, "weights", "own-weights-differ"),
    "gradients that pile up": (PilesUp, "loss", "gradients-pile-up"),
    "dropout still on": (design("X", StillDropping, dropout=0.1, std=0.5), "model", "dropout-in-evaluation"),
    "the likeliest ten": (design("Y", LikeliestTen), "generation", "cut-off"),
    "a norm along positions": (BlendsPositions, "block", "leak-all"),
    "gradients added up": (Accumulates, "training", "gradients-kept"),
    "the gradient of the batch before": (OneBatchLate, "training", "batch-before"),
    "always the first batch": (FirstBatch, "training", "other-batch"),
    "always the first batch, and its loss": (FirstBatchsLoss, "training", "other-batch"),
    "random gradients of queries and keys": (RandomForSome, "training", "other-gradient"),
    "the loss after the step": (LossAfterwards, "training", "loss-after"),
    "only the loss is shifted": (ReturnsOthersLoss, "training", "labels-shifted-twice"),
    "a gradient that is not divided by T": (NotDividedByT, "loss", "gradient-summed"),
    "copies of the weights": (ShowsCopies, "loss", "weights-copied"),
    "a gradient of PyTorch's, doubled": (design("Z", DoublesOne), "loss", "gradient-of-one"),
    "a cache that is never begun anew": (NeverBegunAnew, "cache", "cache-too-long"),
    "the oldest keys dropped": (OldestDropped, "cache", "cache-too-long"),
    "the oldest keys dropped, which a fresh model hardly shows": (OldestDroppedLoudTable, "cache", "cache-too-long"),
    "no mask, met at the cache": (SeesWhatFollows, "cache", "leak-all"),
    "rows that depend on the length, met at the cache": (DividesByLength, "cache", "over-positions"),
    "a long prompt read whole": (LongPromptWhole, "cache", "cache-too-long"),
    "top-p 0.95": (cutting(lambda p: np.cumsum(p) - p < 0.95), "generation", "cut-off"),
    "top-k 62": (cutting(lambda p: np.arange(len(p)) < 62), "generation", "cut-off"),
    "top-k 10": (cutting(lambda p: np.arange(len(p)) < 10), "generation", "cut-off"),
    "one maximum for the whole table": (OneMaximum, "attention", "softmax-one-max"),
    "a mask of −100": (MaskOfMinus100, "attention", "mask-finite"),
    "only queries rotated": (
        design("A2", positions="halves", rotate_keys=False), "model", "positions-in-queries",
    ),
    "blocks in a plain list": (design("B2", InAPlainList), "training", "unlisted"),
    "load: a base of 10,000": (BaseFixed, "weights", "other-base"),
    "load: always two blocks": (TwoBlocks, "weights", "one-block"),
    "load: ε": (slip("llama", eps=1e-6), "weights", "other-eps"),
    "load: ε of GPT-2": (slip("gpt2", eps=1e-12), "weights", "other-eps"),
    "load: base": (slip("llama", base=500000.0), "weights", "other-base"),
    "load: GELU for SiLU": (slip("llama", activation="gelu"), "weights", "other-activation"),
    "load: ReLU for GELU": (slip("gpt2", activation="relu"), "weights", "other-activation"),
    "load: no activation": (slip("gpt2", activation="none"), "weights", "no-activation"),
    "load: LayerNorm for RMSNorm": (slip("llama", norm="layer"), "weights", "layernorm-for-rmsnorm"),
    "load: RMSNorm for LayerNorm": (slip("gpt2", norm="rms"), "weights", "rmsnorm-for-layernorm"),
    "load: scale": (slip("llama", scale=24**-0.5), "weights", "loaded-scale"),
    "load: rotated backwards": (slip("llama", sign=-1), "weights", "rotation-backwards"),
    "load: only queries rotated": (slip("llama", rotate_keys=False), "weights", "rotation-of-one"),
    "load: queries and values rotated": (
        slip("llama", rotate_keys=False, rotate_values=True), "weights", "values-for-keys-rotated",
    ),
    "load: the second of two kinds": (
        design("D2", attributes={"loads": {"llama": {"activation": "relu"}}}), "weights", "other-activation",
    ),
    "load: the first of two kinds": (
        design("E2", attributes={"loads": {"gpt2": {"activation": "relu"}}}), "weights", "other-activation",
    ),
    "load: not rotated": (slip("llama", positions="none"), "weights", "no-rotation"),
    "load: the table for a head": (slip("llama", head_of_table=True), "weights", "head-of-embedding"),
    "load: no positions": (slip("gpt2", positions="none"), "weights", "positions-left-out"),
    "load: one block": (slip("llama", layers=1), "weights", "one-block"),
    "load: four heads": (slip("gpt2", heads=4, kv_heads=4), "weights", "other-heads"),
    "load: two heads": (slip("llama", heads=2, kv_heads=2, scale=None), "weights", "other-heads"),
    "load: a norm by the sum": (slip("llama", norm="sum"), "weights", "norm-of-sum"),
    "load: keys rotated backwards": (slip("llama", key_sign=-1), "weights", "rotation-backwards"),
    "logits reshaped for the loss": (design("C5", ReshapesLogits), "loss", "logits-reshaped"),
    "the first text of a batch": (design("F2", FirstText), "training", "texts-unused"),
    "texts joined to one": (design("G2", JoinsTexts), "model", "across-texts"),
    "load: without the last norm's bias": (WithoutLastBias, "weights", "bias-left-out"),
    "load: no network": (slip("gpt2", network=False), "weights", "no-feedforward"),
    **more_slips.SLIPS,
}  # fmt: skip

# name: (adapter, stage, part of the remark)
REMARKED = {
    "the normed stream": (design("N", NormedStream, std=0.3), "block", "add to the *normed* stream"),
    **more_slips.REMARKED,
    "a new Adam in each step": (NewAdam, "training", "the same amount in each step"),
    "no feed-forward": (design("A", network=False), "block", "no feed-forward network"),
    "a network without an activation": (design("B", activation="none"), "block", "no feed-forward network"),
    "no feed-forward, post-norm": (
        design("B2", network=False, place="post"), "block", "no feed-forward network",
    ),
    "no last norm": (design("C", last_norm=False), "model", "no norm before the head"),
    "a copied head": (design("D", tied=False, copied=True), "training", "one is a copy of the other"),
    "values rotated in a block": (
        design("E", positions="halves", rotate_values=True), "block", "rotated along with queries and keys",
    ),
    "load: one of two kinds breaks": (
        design("I", OneKindRaises), "weights", 'cannot take "gpt2": `load` raised KeyError: \'unembedding.weight\'',
    ),
    "Adam's averages of g, which learns": (
        edited(("(1 - self.b2) * g * g", "(1 - self.b2) * g"), ("np.sqrt(vh)", "np.sqrt(abs(vh))")),
        "training", "divided by the root of the gradient's size",
    ),
    "another loss": (
        edited(("        return loss\n\n    def generate", "        return loss**0.5\n\n    def generate")),
        "training", "this is another number",
    ),
    "learning that stops": (
        edited(("        self.adam.step(", "        self.adam.t < 60 and self.adam.step(")),
        "training", "changed no weight",
    ),
    "frequencies and no more": (OnlyCounts, "training", "Is the rate too small, or too large?"),
    "the book's tokenizer": (
        type("G", (), {"vocab_size": 65, "context_length": 32, "encode": CharTokenizer.from_text(corpus()).encode,
                       "decode": CharTokenizer.from_text(corpus()).decode}),
        "tokenizer", "the book's tokenizer",
    ),
}  # fmt: skip

# name: (adapter, stage, part of what is told): one of several causes that show alike
CAUSES = {
    "heads split and merged as they lie": (HeadsAsTheyLie, "block", "heads that are split or merged without swapping"),
    "a block left out of the steps": (LeavesOutABlock, "cache", "a part of the model that `step` leaves out"),
    "a mask of (T, T) on a single query": (MaskOfItsOwnRows, "cache", "a mask that hides some of them from the query"),
    "a schedule that is never stepped": (WarmsUpForever, "training", "its rate is 0"),
    "the slope of an activation": (TooSteep, "loss", "a factor, a transpose"),
    "a text of one id": (CountedFromTheEnd, "model", "the first row changes if all later ones are removed."),
    **more_slips.CAUSES,
}  # fmt: skip

# name: (adapter, stage, part of what is told): a failure that needs no chapter
TOLD = {
    "a block that writes into the stream": (design("A", WritesIntoTheStream), "block", "argument `x` in place"),
    "attention that writes into the queries": (
        design("B", WritesIntoTheQueries, Attends), "attention", "argument `q` in place",
    ),
    "load: writes into the weights": (design("C", WritesIntoTheWeights), "weights", "argument `weights` in place"),
    "load: takes tensors for arrays": (
        design("D", TakesTensorsForArrays), "weights", "With `tensors = True`, the weights are torch tensors",
    ),
    "load: takes arrays for tensors": (
        TakesArraysForTensors, "weights", "Without `tensors = True`, the weights are NumPy arrays",
    ),
}  # fmt: skip
