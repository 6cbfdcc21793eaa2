"""Mistakes that are made by changing a line of a right design: what is replaced by what, the stage, and its name."""

import sys
import types
from pathlib import Path

from .more_edits import MORE

SOURCE = Path(__file__).parent / "designs" / "llama.py"


def edited(*changes: tuple[str, str]) -> type:
    """Returns the adapter of the design in which each of these texts is replaced."""
    text = SOURCE.read_text(encoding="utf-8")
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    module = types.ModuleType(f"edited_{len(sys.modules)}_{abs(hash(text))}")
    sys.modules[module.__name__] = module
    exec(compile(text, f"{module.__name__}.py", "exec"), vars(module))
    return module.Mine


SCORES = "scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])\n"
WEIGHTS = "    return a @ v, a"
LOGP = "logp = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))"
LOSS = "return -logp[np.arange(len(targets)), targets].mean()"
SOFT = "    return e / e.sum(axis=-1, keepdims=True)"
DRAWN = "    p = softmax(logits / temperature)\n    return int(rng.choice(len(p), p=p))"
GENERATES = "            logits = self.logits(ids[-self.context_length :])[-1]\n"
APPENDS = "            ids.append(pick(logits, temperature, rng))\n        return ids\n\n    def step"
CACHED = "            ids.append(pick(logits, temperature, rng))\n            new = ids[-1:]\n"
KEPT = "        cache[i] = k, v\n"
RESTARTS = "cache, new = {}, ids[-self.context_length :]\n            for"
LOADS = "        return lambda ids: forward(weights, config, ids)\n"


def loads(new: str) -> tuple[str, str]:
    """Changes the weights or the configuration before they are used."""
    return LOADS, f"        {new}\n{LOADS}"


def of(change: str) -> tuple[str, str]:
    """Changes every weight that `load` receives."""
    return loads(f"weights = {{n: {change} for n, w in weights.items()}}")


EDITS = {
    # tokenizer
    "ends stripped": ("tokenizer", "stripped", ("CHARS[i] for i in ids)", "CHARS[i] for i in ids).strip()")),
    "a vocabulary from the beginning": (
        "tokenizer",
        "shared-id",
        ("sorted(set(corpus()))", "sorted(set(corpus()[:2000]))"),
        ("TO_ID[c] for", "TO_ID.get(c, 0) for"),
        ("vocab_size=len(CHARS)", "vocab_size=65"),
    ),
    # attention
    "a softmax over the whole array": (
        "attention",
        "softmax-of-all",
        (
            "    e = np.exp(x - x.max(axis=-1, keepdims=True))\n" + SOFT,
            "    e = np.exp(x - x.max())\n    return e / e.sum()",
        ),
    ),
    "a softmax without its sum": ("attention", "softmax-unsummed", (SOFT, "    return e")),
    "a sigmoid for the softmax": (
        "attention",
        "sigmoid-weights",
        ("a = softmax(scores)", "a = 1 / (1 + np.exp(-scores))"),
    ),
    "queries compared with queries": (
        "attention",
        "one-for-two",
        (SCORES, SCORES.replace("k.swap", "q.swap")),
    ),
    "keys for values": ("attention", "values-missing", (WEIGHTS, "    return a @ k, a")),
    "the average of the heads": (
        "attention",
        "heads-averaged",
        (WEIGHTS, "    return np.broadcast_to(a.mean(axis=0), a.shape) @ v, a"),
    ),
    "scores without a sign": (
        "attention",
        "scores-without-sign",
        (SCORES, f"{SCORES}    scores = abs(scores)\n"),
    ),
    "a mask for the first head": (
        "attention",
        "mask-of-some",
        (
            "        scores = np.where(hidden",
            "        hidden = hidden & (np.arange(len(q)) == 0)[:, None, None]\n        scores = np.where(hidden",
        ),
    ),
    "a mask of −1": ("attention", "mask-finite", ("hidden, -np.inf, scores", "hidden, -1.0, scores")),
    "a mask that takes away 1": (
        "attention",
        "mask-finite",
        ("hidden, -np.inf, scores", "hidden, scores - 1, scores"),
    ),
    "other weights each time": (
        "attention",
        "dropout-in-evaluation",
        (WEIGHTS, "    return a * (np.random.random(a.shape) > 0.1) @ v, a"),
    ),
    # model
    "a mask for long texts alone": (
        "model",
        "mask-at-times",
        ("    out, a = attend(q, k, v)", "    out, a = attend(q, k, v, len(x) > 6)"),
    ),
    "a block's mask for long texts alone": (
        "block",
        "mask-at-times",
        ("    out, a = attend(q, k, v)", "    out, a = attend(q, k, v, len(x) > 6)"),
    ),
    # loss
    "targets of id 0 ignored": (
        "loss",
        "target-left-out",
        (
            LOSS,
            f"targets = np.asarray(targets)\n    kept = targets != 0\n    {LOSS}".replace(
                ".mean()", "[kept].mean()"
            ),
        ),
    ),
    "targets of id 0 ignored in learn": (
        "training",
        "target-left-out",
        (
            "        return loss\n\n    def generate",
            "        t = np.asarray(targets)\n        return cross_entropy(z[t != 0], t[t != 0])\n\n    def generate",
        ),
        (
            "        loss, grads = backward(self.p, CONFIG, ids, targets)\n        self",
            "        z = self.logits(ids)\n        loss, grads = backward(self.p, CONFIG, ids, targets)\n        self",
        ),
    ),
    "without the first target": ("loss", "target-left-out", (LOSS, LOSS.replace(".mean()", "[1:].mean()"))),
    "divided by V": ("loss", "loss-times", (LOSS, f"{LOSS} / 65")),
    "weights punished": ("loss", "loss-plus", (LOSS, f"{LOSS} + 0.5")),
    "a temperature in the loss": (
        "loss",
        "loss-of-scaled",
        ("    z = logits -", "    logits = logits / 2\n    z = logits -"),
    ),
    "the perplexity": ("loss", "perplexity", (LOSS, LOSS.replace("return -", "return np.exp(-") + ")")),
    "the squared error": (
        "loss",
        "squared-error",
        (LOSS, "return ((np.exp(logp) - np.eye(65)[targets]) ** 2).mean()"),
    ),
    "no logarithm": ("loss", "no-logarithm", (LOGP, LOGP.replace("np.log(", "("))),
    "a softmax along positions": (
        "loss",
        "softmax-over-positions",
        (LOGP, LOGP.replace("axis=-1", "axis=0")),
    ),
    # backward
    "softmax backward without its sum": (
        "loss",
        "gradient-scores",
        ("ds = a * (da - (a * da).sum(axis=-1, keepdims=True))", "ds = a * (1 - a) * da"),
    ),
    "dv without a transpose": ("loss", "gradient-values", ("dv = a.swapaxes(-1, -2) @ do", "dv = a @ do")),
    "dk without a transpose": ("loss", "gradient-of-keys", ("ds.swapaxes(-1, -2) @ q", "ds @ q")),
    "dq with the values": ("loss", "gradient-of-queries", ("dq, dk = ds @ k,", "dq, dk = ds @ v,")),
    "W_o the wrong way round": (
        "loss",
        "gradient-heads",
        (
            'do = heads(dy @ p[n + "attention.W_o.weight"].T, H)',
            'do = heads(dy @ p[n + "attention.W_o.weight"], H)',
        ),
    ),
    "the slope of SiLU": (
        "loss",
        "gradient-activation",
        ("dg = dact * (s + g * s * (1 - s))", "dg = dact * s"),
    ),
    "a residual connection inside a block": ("loss", "gradient-between", ("    dy = dy + dz\n", "")),
    "a residual connection between blocks": (
        "loss",
        "gradient-into-block",
        ("return dx + dy\n", "return dx\n"),
    ),
    "one of three contributions": ("loss", "gradient-of-sum", ("dh1 = dh1 + d @", "dh1 = d @")),
    "a gain's gradient": (
        "loss",
        "gradient-gain",
        ("dg = (dy * x * r).sum(axis=0)", "dg = (dy * x).sum(axis=0)"),
    ),
    "a matrix's gradient, transposed": (
        "loss",
        "gradient-of-one",
        ('.W_o.weight"] = m.T @ dy', '.W_o.weight"] = dy.T @ m'),
    ),
    # training
    "Adam's averages of |g|": (
        "training",
        "sign-lost",
        ("+ (1 - self.b1) * g\n", "+ (1 - self.b1) * abs(g)\n"),
    ),
    # generation
    "nothing cropped": (
        "generation",
        "window-beyond",
        (GENERATES, GENERATES.replace("ids[-self.context_length :]", "ids")),
    ),
    "one id too many": (
        "generation",
        "window-beyond",
        (GENERATES, GENERATES.replace("context_length :", "context_length - 1 :")),
    ),
    "one id too few": (
        "generation",
        "window-short",
        (GENERATES, GENERATES.replace("context_length :", "context_length + 1:")),
    ),
    "half of the context": (
        "generation",
        "window-short",
        (GENERATES, GENERATES.replace("context_length :", "context_length // 2:")),
    ),
    "the last eight ids": (
        "generation",
        "window-short",
        (GENERATES, GENERATES.replace("self.context_length :", "8:")),
    ),
    "the row before the last": ("generation", "first-row", (GENERATES, GENERATES.replace("[-1]", "[-2]"))),
    "the next id": (
        "generation",
        "drawn-next",
        (DRAWN, DRAWN.replace("return int(", "return (1 + ") + " % 65"),
    ),
    "the id before": (
        "generation",
        "drawn-previous",
        (DRAWN, DRAWN.replace("return int(", "return (64 + ") + " % 65"),
    ),
    "new ids that are not read": (
        "generation",
        "new-not-read",
        (APPENDS, APPENDS.replace("ids.append(", "new.append(").replace("return ids", "return [*ids, *new]")),
        (
            "        rng, ids = np.random.default_rng(seed), list(ids)\n        for",
            "        rng, ids, new = np.random.default_rng(seed), list(ids), []\n        for",
        ),
    ),
    "the text in reverse": (
        "generation",
        "reads-backwards",
        (GENERATES, GENERATES.replace(" :])", ":][::-1])")),
    ),
    "no id twice": (
        "generation",
        "repeats-forbidden",
        (GENERATES, f"{GENERATES}            logits[ids] = -1e9\n"),
    ),
    "no cumulative sums": (
        "generation",
        "not-cumulated",
        (DRAWN, DRAWN.replace("rng.choice(len(p), p=p)", "(p > rng.random()).argmax()")),
    ),
    "the square of the temperature": (
        "generation",
        "temperature-other",
        ("logits / temperature", "logits / temperature**2"),
    ),
    "the root of the temperature": (
        "generation",
        "temperature-other",
        ("logits / temperature", "logits / temperature**0.5"),
    ),
    "one id more": (
        "generation",
        "wrong-number",
        (APPENDS, APPENDS.replace("return ids", "return [*ids, 0]")),
    ),
    # cache
    "probabilities of step": (
        "cache",
        "step-probabilities",
        (
            "return forward(self.p, CONFIG, [id], cache=cache)[-1]",
            "return softmax(forward(self.p, CONFIG, [id], cache=cache)[-1])",
        ),
    ),
    "keys in 16 bits": (
        "cache",
        "cache-rounded",
        (KEPT, "        cache[i] = k.astype(np.float16), v.astype(np.float16)\n"),
    ),
    "the last eight keys": ("cache", "cache-drops", (KEPT, "        cache[i] = k[:, -8:], v[:, -8:]\n")),
    "half of the context at a restart": (
        "cache",
        "cache-short",
        (RESTARTS, RESTARTS.replace("context_length :", "context_length // 2:")),
    ),
    "generate reads more, met at the cache": (
        "cache",
        "window-beyond",
        (GENERATES, GENERATES.replace("ids[-self.context_length :]", "ids")),
    ),
    "a generator at a restart": (
        "cache",
        "cached-draws",
        (
            RESTARTS,
            RESTARTS.replace(
                "\n            for", "\n                rng = np.random.default_rng(seed)\n            for"
            ),
        ),
    ),
    "one temperature with the cache": (
        "cache",
        "cached-temperature",
        (CACHED, CACHED.replace("temperature,", "temperature and 1.0,")),
    ),
    "another temperature with the cache": (
        "cache",
        "cached-differs",
        (CACHED, CACHED.replace("temperature,", "2 * temperature,")),
    ),
    # weights
    "load: a residual from x": ("weights", "residual-from-x", ("z = y + (g * s * u)", "z = x + (g * s * u)")),
    "load: queries for values": (
        "weights",
        "qv-exchanged",
        of('weights[n.replace("W_v", "?").replace("W_q", "W_v").replace("?", "W_q")]'),
    ),
    "load: values for the output": (
        "weights",
        "vo-exchanged",
        of('weights[n.replace("W_v", "?").replace("W_o", "W_v").replace("?", "W_o")]'),
    ),
    "load: a weight of zeros": ("weights", "not-loaded", of('0 * w if n.endswith("W_o.weight") else w')),
    "load: a norm's gain": ("weights", "norm-gain", of('0 * w + 1 if n == "decoder.norm.weight" else w')),
    "load: no norm before attention": (
        "weights",
        "norm-skipped",
        ("    q = heads(h1 @", "    h1 = x\n    q = heads(h1 @"),
    ),
    "load: the last norm twice": (
        "weights",
        "norm-twice",
        ("    return h @ p[", '    h = norm(h, p["decoder.norm.weight"], c["eps"])[0]\n    return h @ p['),
    ),
    "load: blocks in reverse": (
        "weights",
        "blocks-order",
        (
            'for i in range(c["n_layers"]):\n        x = block',
            'for i in reversed(range(c["n_layers"])):\n        x = block',
        ),
    ),
    "load: a gate that is added": ("weights", "gate-added", ("z = y + (g * s * u)", "z = y + (g * s + u)")),
    "load: the slowest angle first": (
        "weights",
        "rotation-order",
        ("np.arange(K // 2) * 2 / K", "np.arange(K // 2)[::-1] * 2 / K"),
    ),
    "load: queries for keys": ("weights", "other-weight", of('weights[n.replace("W_k", "W_q")]')),
    "load: one plus the gain": ("weights", "gain-plus-one", of('w + 1 if "norm" in n else w')),
    "load: rows shifted": (
        "weights",
        "row-shifted",
        of('np.roll(w, 1, axis=0) if n == "token_embedding.weight" else w'),
    ),
    "load: vectors times √D": (
        "weights",
        "embedding-scaled",
        of('w * 24**0.5 if n == "token_embedding.weight" else w'),
    ),
    "load: 16 bits": ("weights", "low-precision", of("w.astype(np.float16).astype(np.float64)")),
    "load: logits scaled": (
        "weights",
        "logits-scaled",
        of('w / 24**0.5 if n == "unembedding.weight" else w'),
    ),
    "load: one matrix the wrong way round": (
        "weights",
        "not-transposed",
        of('w.T if n.endswith("W_v.weight") else w'),
    ),
    "load: x · sigmoid(1.702 x)": ("weights", "other-activation", ("np.exp(-g)", "np.exp(-1.702 * g)")),
    "load: a residual connection of attention": ("weights", "residual-dropped", ("y = x + m @", "y = m @")),
    **MORE,
}
