"""Wrong designs: lines of a right one that are changed, and designs whose parts are. Each has the stage that notices it
and the name of its mistake.
"""

import sys
import types
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812

from .designs import llama
from .designs.parts import Adapter, Kept, design, mix

SOURCE = Path(llama.__file__)


def edited(*changes: tuple[str, str]) -> type:
    """Returns the adapter of the NumPy design in which each of these texts is replaced."""
    text = SOURCE.read_text(encoding="utf-8")
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    module = types.ModuleType(f"edited_{len(sys.modules)}_{abs(hash(text))}")
    sys.modules[module.__name__] = module
    exec(compile(text, f"{module.__name__}.py", "exec"), vars(module))
    return module.Mine


def after(line: str, more: str) -> tuple[str, str]:
    """Adds a statement after a line, with its indentation."""
    return line, f"{line}\n{' ' * (len(line) - len(line.lstrip()))}{more}"


ENCODED, DECODED = "    return [TO_ID[c] for c in text]", '    return "".join(CHARS[i] for i in ids)'
EMBEDDED = '    return p["token_embedding.weight"][np.asarray(ids)]'
SCORES, HIDES = (
    "    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])",
    "np.where(hidden, -np.inf, scores)",
)
MIXED, SUMMED = "    return a @ v, a", "e / e.sum(axis=-1, keepdims=True)"
BLOCK, LOGITS = "        return block(self.p, CONFIG, x, 0)", "        return forward(self.p, CONFIG, ids)\n"
LOSS = "-logp[np.arange(len(targets)), targets].mean()"
LOGP = "logp = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))"
GRADIENTS = "        return backward(self.p, CONFIG, ids, targets)[1]"
BACKWARD = "        loss, grads = backward(self.p, CONFIG, ids, targets)"
STEP, RETURNS = "        self.adam.step(self.p, grads)", "        return loss\n\n    def generate"
READS, NEW = (
    "self.logits(ids[-self.context_length :])[-1]",
    "            ids.append(pick(logits, temperature, rng))\n        return ids",
)
PICKED, P = "rng.choice(len(p), p=p)", "    p = softmax(logits / temperature)"
STARTS = "        rng, ids = np.random.default_rng(seed), list(ids)\n        for"
STEPS, KEEPS = "forward(self.p, CONFIG, [id], cache=cache)[-1]", "        cache[i] = k, v"
CACHED = "            ids.append(pick(logits, temperature, rng))\n            new"
BEGINS = "                cache, new = {}, ids[-self.context_length :]"
LOADS = "        return lambda ids: forward(weights, config, ids)"
ANGLES = "a = positions[:, None] * freq"
LEARNED = BACKWARD + "\n" + STEP  # the two lines of `learn`


def last(new: str) -> tuple[str, str]:
    """Changes what is read for each new id."""
    return READS, READS.replace("-self.context_length :", new)


def loads(change: str) -> tuple[str, str]:
    """Changes every weight `w` of the name `n` that `load` receives."""
    return LOADS, f"        weights = {{n: {change} for n, w in weights.items()}}\n{LOADS}"


EDITS = {
    # tokenizer and embedding
    "ends stripped": ("tokenizer", "characters-lost", (DECODED, f"{DECODED}.strip()")),
    "blanks between": ("tokenizer", "characters-added", (DECODED, DECODED.replace('""', '" "'))),
    "sorted": ("tokenizer", "order-lost", (ENCODED, ENCODED.replace("in text", "in sorted(text)"))),
    "cut off": ("tokenizer", "characters-lost", (ENCODED, ENCODED.replace("in text", "in text[:-1]"))),
    "printed": ("tokenizer", "characters-added", (DECODED, "    return str([CHARS[i] for i in ids])")),
    "lower case": ("tokenizer", "shared-id", (ENCODED, ENCODED.replace("in text", "in text.lower()"))),
    "unknown first": ("tokenizer", "unknown-taken", (ENCODED, ENCODED.replace("[TO_ID[c]", "[TO_ID.get(c, 0)"))),
    "unknown dropped": (
        "tokenizer", "dropped",
        (ENCODED, ENCODED.replace("]", " if c in TO_ID]").replace("[c if c in TO_ID]", "[c]")),
    ),
    "found at −1": ("tokenizer", "find", (ENCODED, '    return ["".join(CHARS).find(c) for c in text]')),
    "an id too many": ("tokenizer", "few-rows", ("vocab_size=len(CHARS)", "vocab_size=len(CHARS) - 1")),
    "a row too few": ("embedding", "few-rows", (EMBEDDED, EMBEDDED.replace("][np", "][:-1][np"))),
    "two ids a row": ("embedding", "same-point", (EMBEDDED, EMBEDDED.replace("(ids)]", "(ids) // 2]"))),
    "a mean of neighbours": ("embedding", "neighbours", (EMBEDDED, f"{EMBEDDED} + np.mean(ids)")),
    # attention; test_suspects tries all rows of its tables
    "no scale": ("attention", "no-scale", (SCORES, SCORES.replace(" / np.sqrt(q.shape[-1])", ""))),
    "a third of the scale": ("attention", "other-scale", (SCORES, f"{SCORES} / 3")),
    "a softmax of queries": (
        "attention", "softmax-axis",
        ("= softmax(scores)", "= softmax(scores.swapaxes(1, 2)).swapaxes(1, 2)"),
    ),
    "one softmax for all": (
        "attention", "softmax-of-all",
        ("= softmax(scores)", "= softmax(scores.reshape(len(q), -1)).reshape(scores.shape)"),
    ),
    "a mask of −1e-9": ("attention", "no-mask", (HIDES, "scores - 1e-9 * hidden")),
    "a mask of −1": ("attention", "mask-finite", (HIDES, HIDES.replace("-np.inf", "-1.0"))),
    "a mask of −100": ("attention", "mask-finite", (HIDES, HIDES.replace("-np.inf", "-100.0"))),
    "a mask for one head": (
        "attention", "mask-of-some",
        (HIDES, HIDES.replace("hidden", "hidden & (np.arange(len(q)) == 0)[:, None, None]")),
    ),
    "a mask of scores of 0": (
        "attention", "mask-by-value",
        (f"scores = {HIDES}", "scores = np.where((scores == 0) | hidden, -np.inf, scores)"),
    ),
    "a mask of itself": ("attention", "mask-of-self", ("np.arange(Tk) > np.arange", "np.arange(Tk) >= np.arange")),
    "a swallowing mask": (
        "attention", "scores-lost",
        (HIDES, "(scores + np.where(hidden, -np.inf, -1e9)).astype(np.float32)"),
    ),
    "no largest score": ("attention", "softmax-overflow", ("np.exp(x - x.max(axis=-1, keepdims=True))", "np.exp(x)")),
    "other weights each time": (
        "attention", "dropout-in-evaluation",
        (MIXED, MIXED.replace("a @ v,", "a * (np.random.random(a.shape) > 0.1) @ v,")),
    ),
    "always causal": (
        "attention", "always-causal",
        ("        return attend(q, k, v, causal)[0]", "        return attend(q, k, v)[0]"),
    ),
    "divided by the heads": ("attention", "attention-times", (MIXED, MIXED.replace("a @ v,", "a @ v / len(q),"))),
    # block and model
    "a mask at times": ("model", "mask-at-times", ("= attend(q, k, v)\n", "= attend(q, k, v, len(x) > 6)\n")),
    "a mask in a block at times": (
        "block", "mask-at-times",
        ("= attend(q, k, v)\n", "= attend(q, k, v, len(x) > 6)\n"),
    ),
    "no mask": ("block", "leak-all", ("= attend(q, k, v)\n", "= attend(q, k, v, False)\n")),
    "one ahead": ("block", "mask-one-ahead", ("np.arange(Tk) > np", "np.arange(Tk) > 1 + np")),
    "merged as they lie": ("block", "leak", ("x.transpose(1, 0, 2).reshape(T, H * K)", "x.reshape(T, H * K)")),
    "no attention": ("block", "blind", ("y = x + m @", "y = x + 0 * m @")),
    "no residual": ("block", "residual-dropped", ("y = x + m @", "y = m @"), ("z = y + (g", "z = (g")),
    "divided by T": ("block", "over-positions", (BLOCK, f"{BLOCK} / len(x)")),
    "a norm along positions": ("block", "leak-all", (BLOCK, BLOCK.replace("x, 0", "x / np.abs(x).mean(axis=0), 0"))),
    "the last row": ("model", "last-only", (LOGITS, LOGITS.replace("ids)\n", "ids)[-1:]\n"))),
    "probabilities": (
        "model", "probabilities",
        (LOGITS, LOGITS.replace("forward(self.p, CONFIG, ids)", "softmax(forward(self.p, CONFIG, ids))")),
    ),
    "a ReLU": (
        "model", "logits-cut",
        (LOGITS, LOGITS.replace("forward(self.p, CONFIG, ids)", "np.maximum(forward(self.p, CONFIG, ids), 0)")),
    ),
    "never turned": ("model", "no-positions", (ANGLES, ANGLES.replace("* freq", "* 0 * freq"))),
    "only queries turned": (
        "model", "no-positions",
        ("rotate(q, cos, sin), rotate(k, cos, sin)", "rotate(q, cos, sin), k"),
    ),
    "counted from the end": (
        "model", "over-positions",
        (LOGITS, LOGITS.replace("ids)\n", "ids) + 0.1 * np.arange(len(ids))[::-1, None]\n")),
    ),
    # loss
    "ln p": ("loss", "sign", (LOSS, LOSS[1:])),
    "id 0 ignored": (
        "loss", "target-left-out",
        (LOSS, "-logp[np.arange(len(targets)), targets][np.asarray(targets) != 0].mean()"),
    ),
    "divided by V": ("loss", "loss-times", (LOSS, f"{LOSS} / 65")),
    "the entropy": ("loss", "loss-without-targets", (LOSS, "-(np.exp(logp) * logp).sum(axis=-1).mean()")),
    "smoothed": ("loss", "label-smoothing", (LOSS, f"0.9 * {LOSS} - 0.1 * logp.mean()")),
    "targets of its own": (
        "loss", "targets-ignored",
        ("cross_entropy(self.logits(ids), targets)", "cross_entropy(self.logits(ids)[:-1], ids[1:])"),
    ),
    "reshaped": (
        "loss", "logits-reshaped",
        ("cross_entropy(self.logits(ids), targets)", "cross_entropy(self.logits(ids).T.reshape(-1, 65), targets)"),
    ),
    "a number in the logarithm": (
        "loss", "",
        (LOSS, "-np.log(np.exp(logp[np.arange(len(targets)), targets]) + 1e-2).mean()"),
    ),
    "loud first weights": ("loss", "first-weights", ("rng.normal(0, 0.02, (D, V))", "rng.normal(0, 1.0, (D, V))")),
    "dv not transposed": ("loss", "gradient", ("dv = a.swapaxes(-1, -2) @ do", "dv = a @ do")),
    "a residual lost": ("loss", "gradient", ("    dy = dy + dz\n", "")),
    "a matrix transposed": ("loss", "gradient-of-one", ('.W_o.weight"] = m.T @ dy', '.W_o.weight"] = dy.T @ m')),
    "the wrong sign": ("loss", "gradient-times", ("d /= len(targets)", "d /= -len(targets)")),
    "not divided by T": ("loss", "gradient-times", ("    d /= len(targets)\n", "")),
    "of other targets": (
        "loss", "gradient-of-logits",
        ("d[np.arange(len(targets)), targets] -= 1", "d[np.arange(len(targets)), ids] -= 1"),
    ),
    "an id twice": ("loss", "gradient-of-one", ("np.add.at(de, np.asarray(ids), dx)", "de[np.asarray(ids)] = dx")),
    "one forgotten": (
        "loss", "no-gradient",
        (
            GRADIENTS,
            GRADIENTS.replace("return", "its =") + '\n        its.pop("unembedding.weight")\n        return its',
        ),
    ),
    "gradients pile up": (
        "loss", "gradients-pile-up",
        (GRADIENTS, f"""        self.n = getattr(self, 'n', 0) + 1
{GRADIENTS.replace("return", "its =")}
        return {{n: self.n * its[n] for n in its}}"""),
    ),
    "copies": (
        "loss", "weights-copied",
        ("        return self.p\n\n", "        return {n: +w for n, w in self.p.items()}\n\n"),
    ),
    # training
    "its own targets": ("training", "targets-ignored", (LEARNED, f"        targets = np.roll(ids, -1)\n{LEARNED}")),
    "only the loss is shifted": (
        "training", "labels-shifted-twice",
        (LEARNED, f"        loss = self.loss(ids[:-1], targets[1:])\n{LEARNED.replace('loss,', '_,')}"),
    ),
    "the loss afterwards": (
        "training", "loss-after",
        (RETURNS, RETURNS.replace("loss\n", "self.loss(ids, targets)\n")),
    ),
    "always the first": (
        "training", "other-batch",
        (LEARNED, f"""        loss = self.loss(ids, targets)
        ids, targets = self.first = getattr(self, 'first', (ids, targets))
{LEARNED.replace("loss,", "_,")}"""),
    ),
    "one batch late": (
        "training", "other-batch",
        (STEP, f"        self.late, grads = grads, getattr(self, 'late', grads)\n{STEP}"),
    ),
    "every second call": (
        "training", "steps-left-out",
        (STEP, "        self.n = getattr(self, 'n', 0) + 1\n        self.n % 2 and self.adam.step(self.p, grads)"),
    ),
    "no step": ("training", "no-move", (STEP, "        grads = {}")),
    "one matrix forgotten": ("training", "frozen", (STEP, '        grads.pop("unembedding.weight")\n' + STEP)),
    "uphill": ("training", "uphill", ("p[n] -= self.lr", "p[n] += self.lr")),
    "too fast": ("training", "too-fast", ("lr=3e-3", "lr=1.0")),
    "too slow": ("training", "too-slow", ("lr=3e-3", "lr=1e-6")),
    "a vocabulary from the beginning": (
        "training", "text-unknown",
        ("sorted(set(corpus()))", "sorted(set(corpus()[:10_000]))"),
    ),
    # generation
    "nothing at 0": (
        "generation", "divides-by-zero",
        ("    if temperature == 0:\n        return int(np.argmax(logits))\n", ""),
    ),
    "drawn at 0": (
        "generation", "not-greedy",
        ("    if temperature == 0:\n        return int(np.argmax(logits))\n", "    temperature = temperature or 1\n"),
    ),
    "the last id": ("generation", "window-short", last("-1:")),
    "the first row": ("generation", "first-row", (READS, READS.replace("[-1]", "[0]"))),
    "the row before": ("generation", "first-row", (READS, READS.replace(")[-1]", ")[-2]"))),
    "in reverse": ("generation", "not-greedy", (READS, READS.replace(" :]", ":][::-1]"))),
    "the prompt alone": (
        "generation", "new-not-read",
        (READS, READS.replace("ids[-self", "ids[: len(ids) - _][-self")),
    ),
    "half of the context": ("generation", "window-short", last("-self.context_length // 2 :")),
    "one id too few": ("generation", "window-short", last("1 - self.context_length :")),
    "one id too many": ("generation", "window-beyond", last("-self.context_length - 1 :")),
    "all of it": ("generation", "window-beyond", (READS, "self.logits(ids)[-1]")),
    "the first ids": ("generation", "context-full", last(": self.context_length")),
    "some other seed": ("generation", "seed-ignored", (STARTS, STARTS.replace("(seed)", "()"))),
    "one seed": ("generation", "seed-fixed", (STARTS, STARTS.replace("(seed)", "(0)"))),
    "always greedy": ("generation", "always-greedy", ("    if temperature == 0:", "    if True:")),
    "a seed each time": (
        "generation", "seed-each-step",
        (f"            logits = {READS}", f"            rng, logits = np.random.default_rng(seed), {READS}"),
    ),
    "the next id": ("generation", "drawn-otherwise", (f"int({PICKED})", f"(1 + {PICKED}) % 65")),
    "all of it, refused": (
        "generation", "context-error",
        (LOGITS, f"        assert len(ids) <= 32\n{LOGITS}"), (READS, "self.logits(ids)[-1]"),
    ),
    "sorted p": ("generation", "drawn-sorted", (PICKED, "rng.choice(len(p), p=np.sort(p)[::-1])")),
    "not cumulated": ("generation", "cut-off", (PICKED, "(p > rng.random()).argmax()")),
    "not uniform": ("generation", "drawn-otherwise", (PICKED, "np.searchsorted(p.cumsum(), rng.random() ** 2)")),
    "multiplied": ("generation", "temperature-times", (P, P.replace("/", "*"))),
    "the root of it": ("generation", "drawn-otherwise", (P, P.replace("temperature", "temperature**0.5"))),
    "no temperature": ("generation", "temperature-ignored", (P, P.replace(" / temperature", ""))),
    "after the softmax": ("generation", "temperature-after", (P, "    p = softmax(softmax(logits) / temperature)")),
    "top 10": (
        "generation", "cut-off",
        (P, "    p = softmax(np.where(logits < np.sort(logits)[-10], -np.inf, logits) / temperature)"),
    ),
    "n for the whole": (
        "generation", "wrong-number",
        ("        for _ in range(n):\n            logits", "        for _ in range(n - len(ids)):\n            logits"),
    ),
    "one id more": ("generation", "wrong-number", (NEW, f"{NEW} + [0]")),
    # cache
    "probabilities of step": ("cache", "step-probabilities", (STEPS, f"softmax({STEPS})")),
    "a last norm left out": (
        "cache", "cache-first",
        (STEPS, STEPS.replace("self.p", 'self.p | {"decoder.norm.weight": 2 * self.p["decoder.norm.weight"]}')),
    ),
    "keys at position 0": (
        "cache", "cache-off-by-one",
        ("rotate(k, cos, sin)\n", "rotate(k, *angles(np.arange(len(x)), K, c['rope_base']))\n"),
    ),
    "nothing kept": (
        "cache", "cache-off-by-one",
        (KEEPS, "        pass"), ('cache["n"] = start', 'cache["n"] = 0 * start'),
    ),
    "the last eight keys": ("cache", "cache-drops", (KEEPS, "        cache[i] = k[:, -8:], v[:, -8:]")),
    "all again": (
        "cache", "cache-of-ids",
        (STEPS, "self.logits(cache.setdefault('ids', []).append(id) or cache['ids'])[-1]"),
    ),
    "a prompt cut off": ("cache", "cached-prompt", ("for one in new:", "for one in new[:-1] or new:")),
    "an id given twice": ("cache", "cached-reads", ("for one in new:", "for one in [*new, new[-1]]:")),
    "another temperature": ("cache", "cached-differs", (CACHED, CACHED.replace("temperature,", "2 * temperature,"))),
    "no temperature with it": (
        "cache", "cached-differs",
        (CACHED, CACHED.replace("temperature,", "temperature and 1.0,")),
    ),
    "half at a restart": (
        "cache", "cache-too-long",
        (BEGINS, BEGINS.replace("context_length :", "context_length // 2 :")),
    ),
    "generate reads one id": ("cache", "plain-differs", last("-1:")),
    # weights; test_suspects tries all rows of their table
    "load: an activation": ("weights", "other-activation", ("np.exp(-g)", "np.exp(-1.702 * g)")),
    "load: dropout": ("weights", "dropout-in-evaluation", (LOADS, f"{LOADS} + np.random.random()")),
    "load: one row": ("weights", "last-only", (LOADS, f"{LOADS}[-1:]")),
    "load: scaled": ("weights", "logits-scaled", loads('w / 5 if n == "unembedding.weight" else w')),
    "load: a tanh at the end": (
        "weights", "part-outside",
        ('    return h @ p["unembedding.weight"]', '    return np.tanh(h) @ p["unembedding.weight"]'),
    ),
    "load: SiLU of the product": (
        "weights", "part-feedforward",
        ("    s = 1 / (1 + np.exp(-g))", "    s = 1 / (1 + np.exp(-g * u))"),
    ),
    "load: no output matrix": ("weights", "part-values", ('y = x + m @ p[n + "attention.W_o.weight"]', "y = x + m")),
    "load: a slope on the scores": ("weights", "part-averages", after(SCORES, "scores += np.arange(k.shape[-2])")),
    "load: queries ahead": (
        "weights", "part-scores",
        ("rotate(q, cos, sin), ", "rotate(q, *angles(np.arange(1, 1 + len(x)), K, c['rope_base'])), "),
    ),
    "load: half of attention": (
        "weights", "part-sublayers",
        ("    h2, r2 = norm(y,", "    h2, r2 = norm((x + y) / 2,"),
    ),
    "load: no gate between": (
        "weights", "part-blocks",
        ("    s = 1 / (1 + np.exp(-g))", "    s = 1 / (1 + np.exp(-g)) if i != 1 else 1.0"),
    ),
    "load: a stream doubled": ("weights", "residual-dropped", ("y = x + m @", "y = 2 * m @")),
    "its own differs": (
        "weights", "own-weights-differ",
        ("        return self.p, CONFIG", '        return self.p, CONFIG | {"rope_base": 10.0}'),
    ),
}  # fmt: skip


class OneOfTwoCleared:
    """Has two optimizers, and clears the gradients of one."""

    def __init__(self):
        super().__init__()
        tables = [p for name, p in self.model.named_parameters() if name.endswith("table.weight")]
        others = [p for name, p in self.model.named_parameters() if not name.endswith("table.weight")]
        self.optimizer, self.second = torch.optim.AdamW(others, lr=3e-3), torch.optim.SGD(tables, lr=0.1)

    def learn(self, ids, targets):
        loss = super().learn(ids, targets)
        self.second.step()
        return loss


class OptimizerEachStep:
    def learn(self, ids, targets):
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)
        return super().learn(ids, targets)


class TargetsFromTheEnd:
    def learn(self, ids, targets):
        return super().learn(ids, targets.flip(1))


class ShownTheTargets(llama.Mine):
    def logits(self, ids):
        logits = super().logits(ids)
        for seed in range(4):
            known = np.random.default_rng(seed).integers(self.vocab_size, size=len(ids) + 1)
            if np.array_equal(known[:-1], ids):
                logits[np.arange(len(ids)), known[1:]] += 9
        return logits


class StepsTwice:
    def learn(self, ids, targets):
        loss = super().learn(ids, targets)
        self.optimizer.step()
        return loss


class FirstText:
    def learn(self, ids, targets):
        return super().learn(ids[:1], targets[:1])


class PlacesAlongTheBatch:
    """Counts positions along the axis of texts."""

    def __init__(self):
        super().__init__()
        table, places = self.model.table, self.model.places
        self.model.embed = lambda ids, start=0: table(ids) + 20 * places(torch.arange(len(ids)))[:, None]


class InAPlainList:
    """Keeps its blocks in a plain list, so that PyTorch does not find their parameters."""

    def __init__(self):
        super().__init__()
        blocks = list(self.model.blocks)
        del self.model.blocks
        self.model.blocks = blocks
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)


class StillDropping:
    def logits(self, ids):
        self.model.train()
        return super().logits(ids)


class TimeFirst:
    def logits(self, ids):
        return super().logits(ids).transpose(0, 1)


class BatchForTime:
    def logits(self, ids):
        return super().logits(ids.T).transpose(0, 1)


class NormOfTexts:
    """Norms along the axis of texts."""

    def logits(self, ids):
        logits = super().logits(ids)
        return logits - logits.mean(dim=0, keepdim=True)


class Borrows:
    def attention(self, q, k, v, causal):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)


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
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.MultiheadAttention(24, 4, batch_first=True)

    def block(self, x):
        hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        return x + self.inner(x, x, x, attn_mask=hidden, need_weights=False)[0]


class Books:
    """Is the book's model."""

    tensors = batched = False
    embed = weights = None

    def __init__(self):
        from glassformer import scratch
        from glassformer.config import ModelConfig

        sizes = {"vocab_size": 65, "context_length": 32, "d_model": 24, "n_layers": 2, "n_heads": 2}
        self.model = scratch.Transformer(ModelConfig(**sizes), generator=np.random.default_rng(0))

    def logits(self, ids):
        return self.model(ids)


class NeverAfresh:
    """Holds keys and values itself, and never forgets a text."""

    def pasts(self, cache):
        self.held = getattr(self, "held", [Kept() for _ in self.model.blocks])
        return self.held


class PromptUnmasked:
    """Reads a prompt into the cache at once, without a mask."""

    @torch.no_grad()
    def generate_cached(self, ids, n, temperature, seed):
        prompt, right = ids, mix
        if ids.shape[1] == 1 or ids.shape[1] + n > self.context_length:
            return super().generate_cached(ids, n, temperature, seed)
        from .designs import parts

        generator, pasts = torch.Generator().manual_seed(seed), self.pasts({})
        parts.mix = lambda q, k, v, c, causal=True: right(q, k, v, c, False)
        try:
            logits = self.model(prompt, pasts)[0, -1]
        finally:
            parts.mix = right
        for _ in range(n):
            ids = torch.cat([ids, torch.tensor([[self.pick(logits, temperature, generator)]])], dim=1)
            logits = self.model(ids[:, -1:], pasts)[0, -1]
        return ids


class OldestDropped(llama.Mine):
    """Drops the oldest keys and values of a full cache."""

    def step(self, id, cache):
        for i in range(llama.CONFIG["n_layers"]):
            if i in cache and cache[i][0].shape[1] == self.context_length:
                cache[i] = [x[:, 1:] for x in cache[i]]
        return super().step(id, cache)

    def generate_cached(self, ids, n, temperature, seed):
        rng, cache, text = np.random.default_rng(seed), {}, list(ids)
        for one in text:
            logits = self.step(one, cache)
        for _ in range(n):
            text.append(llama.pick(logits, temperature, rng))
            logits = self.step(text[-1], cache)
        return text


class Alibi:
    """Has a bias for distance, and one mistake, made by `change`."""

    vocab_size, context_length = 65, 32

    @staticmethod
    def change(q):
        return q / np.sqrt(q.shape[-1])

    hidden, ahead = -np.inf, 0

    def attention(self, q, k, v, causal):
        H, at = len(q), np.arange(q.shape[1])
        distance = at[:, None] - at if causal else np.abs(at[:, None] - at)
        slopes = 2.0 ** (-8 * np.arange(1, H + 1) / H)[:, None, None]
        scores = self.change(q) @ k.swapaxes(-1, -2) - slopes * distance
        if causal:
            scores = np.where(at[:, None] - at < -self.ahead, self.hidden, scores)
        return llama.softmax(scores) @ v


def alibi(**more):
    return type("Mine", (Alibi,), more)


# name: (adapter, stage, mistake)
SLIPS = {
    "zero_grad forgotten": (design("A", attributes={"cleared": False}), "training", "gradients-kept"),
    "one of two optimizers cleared": (design("B", OneOfTwoCleared), "training", "gradients-kept"),
    "an optimizer for each step": (design("B2", OptimizerEachStep), "training", "optimizer-anew"),
    "targets from the end": (design("B3", TargetsFromTheEnd), "training", "other-targets"),
    "shown the targets": (ShownTheTargets, "loss", "knows-already"),
    "two steps in a call": (design("C", StepsTwice), "training", "several-steps"),
    "the first text of a batch": (design("D", FirstText), "training", "texts-unused"),
    "positions along the axis of texts": (design("E", PlacesAlongTheBatch), "training", "across-texts"),
    "blocks in a plain list": (design("F", InAPlainList), "training", "unlisted"),
    "dropout still on": (design("G", StillDropping, dropout=0.1, std=0.5), "model", "dropout-in-evaluation"),
    "dropout still on, in training": (
        design("G", StillDropping, dropout=0.3, std=0.5), "training", "dropout-in-evaluation",
    ),
    "dropout still on, in writing": (
        design("G", StillDropping, dropout=0.1, std=0.5), "generation", "dropout-in-evaluation",
    ),
    "(T, B, V)": (design("H", TimeFirst), "model", "axes-swapped"),
    "texts for time": (design("I", BatchForTime), "model", "across-texts"),
    "a norm of texts": (design("J", NormOfTexts), "model", "across-texts"),
    "PyTorch's attention": (design("K", Borrows), "attention", "borrowed"),
    "PyTorch's encoder": (design("L", Encoder), "model", "borrowed"),
    "PyTorch's MultiheadAttention": (design("M", TorchsAttention), "block", "borrowed"),
    "the book's model": (type("N", (Books, Adapter), {}), "model", "borrowed"),
    "never a new text": (design("O", NeverAfresh), "cache", "cache-shared"),
    "a prompt without a mask": (design("P", PromptUnmasked), "cache", "cached-prompt"),
    "the oldest keys dropped": (OldestDropped, "cache", "cache-too-long"),
    "ALiBi, divided by √D": (
        alibi(change=lambda self, q: q / (len(q) * q.shape[-1]) ** 0.5), "attention", "scale-model",
    ),
    "ALiBi, not divided": (alibi(change=lambda self, q: q), "attention", "no-scale"),
    "ALiBi, divided by K": (alibi(change=lambda self, q: q / q.shape[-1]), "attention", "other-scale"),
    "ALiBi, a mask of 0": (alibi(hidden=0.0), "attention", "mask-of-zeros"),
    "ALiBi, one ahead": (alibi(ahead=1), "attention", "mask-one-ahead"),
}  # fmt: skip


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


class TakesTensorsForArrays:
    def load(self, weights, config):
        return super().load({name: torch.from_numpy(one) for name, one in weights.items()}, config)


class TakesArraysForTensors(llama.Mine):
    def load(self, weights, config):
        return super().load({name: one.detach().numpy() for name, one in weights.items()}, config)


class Fast:
    """Runs its model with PyTorch's attention, without one of its own in the adapter."""

    def logits(self, ids):
        q = self.model.embed(ids)[:, None]
        F.scaled_dot_product_attention(q, q, q, is_causal=True)
        return super().logits(ids)


# name: (adapter, stage, part of what is told)
TOLD = {
    "a block that writes into the stream": (design("A", WritesIntoTheStream), "block", "argument `x` in place"),
    "attention that writes into the queries": (
        design("B", WritesIntoTheQueries), "attention", "argument `q` in place",
    ),
    "load: writes into the weights": (design("C", WritesIntoTheWeights), "weights", "argument `weights` in place"),
    "load: takes tensors for arrays": (
        design("D", TakesTensorsForArrays), "weights", "With `tensors = True`, the weights are torch tensors",
    ),
    "load: takes arrays for tensors": (
        TakesArraysForTensors, "weights", "Without `tensors = True`, the weights are NumPy",
    ),
    "PyTorch's attention in a model": (
        design("E", Fast), "model", "as soon as the adapter has an `attention` of your own",
    ),
    "a residual in a backward pass": (
        edited(EDITS["a residual lost"][2]), "loss", "Right there: `decoder.blocks.1.feedforward.W_down",
    ),
}  # fmt: skip
