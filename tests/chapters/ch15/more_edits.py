"""More mistakes that are made by changing a line of a right design, as in `edits.py`."""

LOSS = "return -logp[np.arange(len(targets)), targets].mean()"
ATTENDED = "    return a @ v, a\n\n\ndef block("
SCORED = "scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])\n"
ENCODED = "    return [TO_ID[c] for c in text]"
DECODED = '    return "".join(CHARS[i] for i in ids)'
HEAD = '    return h @ p["unembedding.weight"]\n'
GRADIENTS = "        loss, grads = backward(self.p, CONFIG, ids, targets)\n"
LEARNS = f"{GRADIENTS}        self.adam.step(self.p, grads)\n        return loss\n"
ROTATES = "q, k = rotate(q, cos, sin), rotate(k, cos, sin)\n"
KEEPS = "        cache[i] = k, v\n"
CHOICE = "    return int(rng.choice(len(p), p=p))"
STARTS = "        rng, ids = np.random.default_rng(seed), list(ids)\n        for _ in range(n):\n"
READS = "            logits = self.logits(ids[-self.context_length :])[-1]\n"
HIDES = "scores = np.where(hidden, -np.inf, scores)"
WRITES = "            ids.append(pick(logits, temperature, rng))\n        return ids\n\n    def step"
ROW = "d[np.arange(len(targets)), targets] -= 1\n"
STEPS = "return forward(self.p, CONFIG, [id], cache=cache)[-1]"
CHAIN = "        x = block(p, c, x, i, start, cache, saved)\n"
NORMED = "r = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)"


def scored(line: str) -> tuple[str, str]:
    """Adds a line after the scores."""
    return SCORED, f"{SCORED}    {line}\n"


def learns(*lines: str) -> tuple[str, str]:
    """Replaces the last line of `learn`."""
    return LEARNS, LEARNS.replace("        return loss\n", "".join(f"        {one}\n" for one in lines))


# Names of weights that say nothing about what they are for.
NUMBERED = (
    (
        "        return self.p\n\n    def gradients",
        "        return {f'a{i}': w for i, w in enumerate(self.p.values())}\n\n    def gradients",
    ),
    (
        "        return backward(self.p, CONFIG, ids, targets)[1]",
        "        found = backward(self.p, CONFIG, ids, targets)[1]\n"
        "        return {f'a{i}': found[n] for i, n in enumerate(self.p)}",
    ),
    ("        return self.p, CONFIG", "        raise NotImplementedError"),
)

MORE = {
    # tokenizer
    "unknown characters are the first": (
        "tokenizer",
        "unknown-taken",
        (ENCODED, "    return [TO_ID.get(c, 0) for c in text]"),
    ),
    "read backwards": ("tokenizer", "order-lost", (DECODED, DECODED.replace("in ids", "in reversed(ids)"))),
    "sorted": ("tokenizer", "order-lost", (ENCODED, ENCODED.replace("in text", "in sorted(text)"))),
    "blanks left out": (
        "tokenizer",
        "characters-lost",
        (ENCODED, ENCODED.replace("in text", 'in text.replace(" ", "")')),
    ),
    "the last character cut off": (
        "tokenizer",
        "characters-lost",
        (ENCODED, ENCODED.replace("in text", "in text[:-1]")),
    ),
    "a list as it is printed": (
        "tokenizer",
        "characters-added",
        (DECODED, "    return str([CHARS[i] for i in ids])"),
    ),
    # attention
    "scores above 0 alone": ("attention", "scores-cut", scored("scores = np.maximum(scores, 0)")),
    "hidden where a score is 0": (
        "attention",
        "mask-by-value",
        (
            HIDES,
            "scores = np.where(hidden, 0, scores)\n        scores = np.where(scores == 0, -np.inf, scores)",
        ),
    ),
    "hidden where a score is 0, by −1e9": (
        "attention",
        "mask-by-value",
        (HIDES, "scores = np.where(hidden, 0, scores)\n        scores = np.where(scores == 0, -1e9, scores)"),
    ),
    "scores by distance": (
        "attention",
        "scores-by-distance",
        scored("scores = -((q[:, :, None] - k[:, None]) ** 2).sum(axis=-1) / np.sqrt(q.shape[-1])"),
    ),
    "weights transposed": (
        "attention",
        "weights-transposed",
        (ATTENDED, ATTENDED.replace("a @ v", "a.swapaxes(-1, -2) @ v")),
    ),
    "values added": ("attention", "values-added", (ATTENDED, ATTENDED.replace("a @ v", "a @ v + v"))),
    "another head's values": ("attention", "other-head", (ATTENDED, ATTENDED.replace("@ v", "@ v[::-1]"))),
    "divided by the heads": (
        "attention",
        "attention-times",
        (ATTENDED, ATTENDED.replace("a @ v", "a @ v / len(q)")),
    ),
    "the average of the heads' scores": (
        "attention",
        "heads-averaged",
        scored("scores = np.repeat(scores.mean(axis=0, keepdims=True), len(q), axis=0)"),
    ),
    "weights rounded": (
        "attention",
        "attention-rounded",
        (ATTENDED, ATTENDED.replace("a @ v", "a.round(2) @ v")),
    ),
    "a mask upside down": (
        "attention",
        "mask-other",
        ("        scores = np.where(hidden,", "        scores = np.where(hidden[::-1],"),
    ),
    "no position sees itself, except the first": (
        "attention",
        "mask-of-self",
        (
            "hidden = np.arange(Tk) > np.arange(Tk - Tq, Tk)[:, None]",
            "hidden = (np.arange(Tk) >= np.arange(Tk - Tq, Tk)[:, None]) & (np.arange(Tk) > 0)",
        ),
    ),
    # model
    "a ReLU on the logits": (
        "model",
        "logits-cut",
        (HEAD, '    return np.maximum(h @ p["unembedding.weight"], 0)\n'),
    ),
    # loss
    "the entropy": (
        "loss",
        "loss-without-targets",
        (LOSS, "return -(np.exp(logp) * logp).sum(axis=-1).mean()"),
    ),
    "every row asked for every target": (
        "loss",
        "loss-not-average",
        (LOSS, "return -logp[:, targets].mean()"),
    ),
    "the logarithm of the average": (
        "loss",
        "loss-not-average",
        (LOSS, "return -np.log(np.exp(logp[np.arange(len(targets)), targets]).mean())"),
    ),
    "a number in the logarithm": (
        "loss",
        "loss-other-function",
        (LOSS, "return -np.log(np.exp(logp[np.arange(len(targets)), targets]) + 1e-2).mean()"),
    ),
    "gradients with the wrong sign": ("loss", "gradient-times", ("d /= len(targets)", "d /= -len(targets)")),
    "gradients of other targets": (
        "loss",
        "gradient-of-logits",
        (ROW, "d[np.arange(len(targets)), ids] -= 1\n"),
    ),
    "a residual connection, among names that say nothing": (
        "loss",
        "gradient",
        *NUMBERED,
        ("    dy = dy + dz\n", ""),
    ),
    "the gradient of one matrix, in all blocks": (
        "loss",
        "gradient-of-one",
        ('.W_up.weight"] = h2.T @ du', '.W_up.weight"] = 2 * h2.T @ du'),
    ),
    # training
    "targets of its own": (
        "training",
        "targets-ignored",
        (LEARNS, f"        targets = np.roll(ids, -1)\n{LEARNS}"),
    ),
    "the ids shifted again": (
        "training",
        "targets-ignored",
        (LEARNS, f"        ids, targets = ids[:-1], ids[1:]\n{LEARNS}"),
    ),
    "the last target dropped": (
        "training",
        "target-left-out",
        (LEARNS, LEARNS.replace("ids, targets", "ids[:-1], targets[:-1]")),
    ),
    "a running average": (
        "training",
        "running-average",
        learns("self.mean = 0.9 * getattr(self, 'mean', loss) + 0.1 * loss", "return self.mean"),
    ),
    "a step in every second call": (
        "training",
        "steps-left-out",
        (
            LEARNS,
            LEARNS.replace(
                "        self.adam",
                "        self.n = getattr(self, 'n', 0) + 1\n        self.n % 2 and self.adam",
            ),
        ),
    ),
    "copies, met in training": (
        "training",
        "weights-copied",
        (
            "    def weights(self):\n        return self.p",
            "    def weights(self):\n        return {n: +w for n, w in self.p.items()}",
        ),
    ),
    "Adam's averages of g, at a rate of 0.2": (
        "training",
        "adam-squares",
        ("(1 - self.b2) * g * g", "(1 - self.b2) * g"),
        ("np.sqrt(vh)", "np.sqrt(abs(vh))"),
        ("lr=3e-3", "lr=0.2"),
    ),
    "steps that end too early": (
        "training",
        "rate-ended",
        ("        self.adam.step(", "        self.adam.t < 9 and self.adam.step("),
        ("lr=3e-3", "lr=3e-4"),
    ),
    "Adam without the root, at a rate of 1e-7": (
        "training",
        "adam-root",
        ("(np.sqrt(vh) + self.eps)", "(vh + self.eps)"),
        ("lr=3e-3", "lr=1e-7"),
    ),
    # generation
    "n for the length of the text": (
        "generation",
        "n-is-total",
        (STARTS, STARTS.replace("range(n)", "range(n - len(ids))")),
    ),
    "positive logits divided": (
        "generation",
        "temperature-other",
        (
            "    p = softmax(logits / temp",
            "    p = softmax(np.where(logits > 0, logits / 1.3, logits) / temp",
        ),
    ),
    "a random number that is not uniform": (
        "generation",
        "drawn-otherwise",
        (CHOICE, "    return int(np.searchsorted(p.cumsum(), rng.random() ** 2))"),
    ),
    "probabilities sorted": (
        "generation",
        "drawn-sorted",
        (CHOICE, "    return int(rng.choice(len(p), p=np.sort(p)[::-1]))"),
    ),
    "an id that ends the text": (
        "generation",
        "stops-early",
        (
            WRITES,
            WRITES.replace("        return", "            if ids[-1] == 55: break\n        return"),
        ),
    ),
    "probabilities sorted, the least first": (
        "generation",
        "drawn-sorted",
        (CHOICE, "    return int(np.searchsorted(np.sort(p).cumsum(), rng.random()).clip(0, len(p) - 1))"),
    ),
    # cache
    "generate reads one id, met at the cache": (
        "cache",
        "plain-differs",
        (READS, READS.replace("ids[-self.context_length :]", "ids[-1:]")),
    ),
    "an id that ends the text, met at the cache": (
        "cache",
        "stops-early",
        (WRITES, WRITES.replace("        return", "            if len(ids) > 8: break\n        return")),
    ),
    "new keys before the old ones": (
        "cache",
        "cache-order",
        ("[cache[i][0], k]", "[k, cache[i][0]]"),
    ),
    "cached keys rotated again": (
        "cache",
        "cache-changed",
        (ROTATES, "q, k = rotate(q, cos, sin), rotate(k, cos, sin) if cache is None else k\n"),
        (
            KEEPS,
            "        k = rotate(k, *angles(np.arange(k.shape[1]), K, c['rope_base']))\n        cache[i] = k, v\n",
        ),
    ),
    "a step without the last norm": (
        "cache",
        "cache-first",
        (
            STEPS,
            STEPS.replace("self.p", 'self.p | {"decoder.norm.weight": 2 * self.p["decoder.norm.weight"]}'),
        ),
    ),
    "keys that stay at position 0": (
        "cache",
        "cache-off-by-one",
        (
            ROTATES,
            "q, k = rotate(q, cos, sin), rotate(k, *angles(np.arange(len(x)), K, c['rope_base']))\n",
        ),
    ),
    "the last sixteen keys": (
        "cache",
        "cache-drops",
        (KEEPS, "        cache[i] = k[:, -16:], v[:, -16:]\n"),
    ),
    # weights
    "load: each block reads the embedding": (
        "weights",
        "not-chained",
        (CHAIN, CHAIN.replace("x = block", "y = block")),
        ('h, r = norm(x, p["decoder.norm', 'h, r = norm(y, p["decoder.norm'),
    ),
    "load: 1 more in the softmax's sum": (
        "weights",
        "softmax-plus-one",
        (
            "    return e / e.sum(axis=-1, keepdims=True)",
            "    return e / (e.sum(axis=-1, keepdims=True) + 1)",
        ),
    ),
    "load: a block twice": (
        "weights",
        "blocks-order",
        (
            'for i in range(c["n_layers"]):\n        x = block',
            "for i in [0, 0, 1, 2]:\n        x = block",
        ),
    ),
    "load: a norm of all positions": ("weights", "norm-of-all", (NORMED, NORMED.replace("axis=-1, ", ""))),
    "load: a tanh on the logits": (
        "weights",
        "part-outside",
        (HEAD, HEAD.replace("return h @", "return np.tanh(h) @")),
    ),
    "load: SiLU of the product": (
        "weights",
        "part-feedforward",
        ("    s = 1 / (1 + np.exp(-g))\n", "    s = 1 / (1 + np.exp(-g * u))\n"),
    ),
    "load: no output matrix": (
        "weights",
        "part-values",
        ('y = x + m @ p[n + "attention.W_o.weight"]', "y = x + m"),
    ),
    "load: something added to the scores": (
        "weights",
        "part-averages",
        scored("scores += np.arange(k.shape[-2])"),
    ),
    "load: queries one position ahead": (
        "weights",
        "part-scores",
        (
            ROTATES,
            f"{ROTATES}    q = rotate(q, *angles(np.ones(len(x)), K, c['rope_base']))\n",
        ),
    ),
    "load: half of what attention adds, for the network": (
        "weights",
        "part-sublayers",
        ("    h2, r2 = norm(y,", "    h2, r2 = norm((x + y) / 2,"),
    ),
    "load: no gate in a block between": (
        "weights",
        "part-blocks",
        ("    s = 1 / (1 + np.exp(-g))\n", "    s = 1 / (1 + np.exp(-g)) if i != 1 else 1.0\n"),
    ),
    "a vocabulary from the beginning, in training": (
        "training",
        "text-unknown",
        ("sorted(set(corpus()))", "sorted(set(corpus()[:10_000]))"),
    ),
    "a division by temperature 0": (
        "generation",
        "divides-by-zero",
        ("    if temperature == 0:\n        return int(np.argmax(logits))\n", ""),
    ),
}
