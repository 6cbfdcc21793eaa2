"""A GPT in NumPy alone, in the style of picoGPT: functions of arrays, one text at a time, with LLaMA's kind of block.

Its gradient is derived by hand, backwards through the same lines.
"""

import numpy as np

from glassformer.text import corpus

VOCAB = "".join(sorted(set(corpus())))


def softmax(x):
    exp_x = np.exp(x - np.max(x, axis=-1, keepdims=True))
    return exp_x / np.sum(exp_x, axis=-1, keepdims=True)


def rms(x, g):
    return x * g / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-5)


def rms_back(dy, x, g):
    r = 1 / np.sqrt(np.mean(x * x, -1, keepdims=True) + 1e-5)
    d = dy * g
    return r * d - x * r**3 * np.mean(d * x, -1, keepdims=True), (dy * x * r).sum(tuple(range(x.ndim - 1)))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def angles(n, d, start=0, base=10000.0):
    a = np.outer(np.arange(start, start + n), base ** (-np.arange(0, d, 2) / d))
    return np.cos(a), np.sin(a)


def turn(x, cs, back=False):
    c, s = cs
    s = -s if back else s
    a, b = np.split(x, 2, -1)
    return np.concatenate([a * c - b * s, b * c + a * s], -1)


def attend(q, k, v, mask):
    return softmax(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]) + mask) @ v


def heads(x, h):
    return x.reshape(len(x), h, -1).transpose(1, 0, 2)


def flat(x):
    return x.transpose(1, 0, 2).reshape(x.shape[1], -1)


def block(x, p, h, cs=None, kept=None, tape=None, scale=None, normed=False, base=10000.0):
    """Maps (T, D) to (T, D). `kept` is a list of past keys and values; `tape` saves what the backward pass needs."""
    a = rms(x, p["g1"])
    q, k, v = (heads(a @ p[n], h) for n in ("wq", "wk", "wv"))
    if normed:
        q, k = rms(q, p["gq"]), rms(k, p["gk"])
    past = kept[0].shape[1] if kept else 0
    cs = cs or angles(len(x), q.shape[-1], past, base)
    q, k = turn(q, cs), turn(k, cs)
    if kept is not None:
        if kept:
            k, v = np.concatenate([kept[0], k], 1), np.concatenate([kept[1], v], 1)
        kept[:] = [k, v]
    mask = np.triu(np.full((len(x), k.shape[1]), -np.inf), 1 + past)
    q = q if scale is None else q * scale * np.sqrt(q.shape[-1])
    o = flat(attend(q, k, v, mask))
    y = x + o @ p["wo"]
    b = rms(y, p["g2"])
    gate, up = b @ p["wg"], b @ p["wu"]
    s = sigmoid(gate)
    if tape is not None:
        tape.append((x, a, q, k, v, mask, cs, o, y, b, gate, up, s))
    return y + (gate * s * up) @ p["wd"]


def block_back(dz, p, h, saved):
    x, a, q, k, v, mask, cs, o, y, b, gate, up, s = saved
    d = {}
    m = gate * s * up
    d["wd"], dm = m.T @ dz, dz @ p["wd"].T
    dup, dgate = dm * gate * s, dm * up * s * (1 + gate * (1 - s))
    d["wu"], d["wg"] = b.T @ dup, b.T @ dgate
    dy, d["g2"] = rms_back(dup @ p["wu"].T + dgate @ p["wg"].T, y, p["g2"])
    dy = dy + dz
    d["wo"], do = o.T @ dy, heads(dy @ p["wo"].T, h)
    w = softmax(q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]) + mask)
    dv, dw = np.swapaxes(w, -1, -2) @ do, do @ np.swapaxes(v, -1, -2)
    ds = w * (dw - (dw * w).sum(-1, keepdims=True)) / np.sqrt(q.shape[-1])
    dq, dk = turn(ds @ k, cs, True), turn(np.swapaxes(ds, -1, -2) @ q, cs, True)
    da = 0
    for n, g in (("wq", dq), ("wk", dk), ("wv", dv)):
        d[n] = a.T @ flat(g)
        da = da + flat(g) @ p[n].T
    dx, d["g1"] = rms_back(da, x, p["g1"])
    return dx + dy, d


def gpt(ids, p, h, tape=None, kept=None, **more):
    x = p["wte"][ids]
    if "g0" in p:
        x = rms(x, p["g0"])
    for i, one in enumerate(p["blocks"]):
        x = block(x, one, h, tape=tape, kept=None if kept is None else kept[i], **more)
    if tape is not None:
        tape.append(x)
    return rms(x, p["gf"]) @ p["head"]


def gpt_back(ids, targets, p, h):
    tape = []
    logits = gpt(ids, p, h, tape)
    probs = softmax(logits)
    loss = -np.mean(np.log(probs[np.arange(len(ids)), targets]))
    probs[np.arange(len(ids)), targets] -= 1
    probs /= len(ids)
    x = tape.pop()
    d = {"head": rms(x, p["gf"]).T @ probs, "blocks": []}
    dx, d["gf"] = rms_back(probs @ p["head"].T, x, p["gf"])
    for one in reversed(p["blocks"]):
        dx, db = block_back(dx, one, h, tape.pop())
        d["blocks"].insert(0, db)
    d["wte"] = np.zeros_like(p["wte"])
    np.add.at(d["wte"], ids, dx)
    return loss, d


def init(n_vocab, d=24, layers=2, f=40):
    """Returns initial weights; those of layers that write to the stream are 0."""
    rng = np.random.default_rng(42)

    def mat(*s):
        return rng.standard_normal(s) * s[0] ** -0.5

    def one():
        p = {n: mat(d, d) for n in ("wq", "wk", "wv")} | {"wo": np.zeros((d, d)), "wd": np.zeros((f, d))}
        return p | {"wg": mat(d, f), "wu": mat(d, f), "g1": np.ones(d), "g2": np.ones(d)}

    blocks = [one() for _ in range(layers)]
    wte, head = rng.standard_normal((n_vocab, d)), 0.02 * mat(d, n_vocab)
    return {"wte": wte, "blocks": blocks, "gf": np.ones(d), "head": head}


def named(p):
    rest = {n: w for n, w in p.items() if n != "blocks"}
    return rest | {f"{i}.{n}": w for i, b in enumerate(p["blocks"]) for n, w in b.items()}


class Mine:
    vocab_size = len(VOCAB)
    context_length = 48

    def __init__(self):
        self.params = init(self.vocab_size)
        self.m = {n: 0 * w for n, w in named(self.params).items()}
        self.v, self.t = {n: 0 * w for n, w in named(self.params).items()}, 0

    def encode(self, text):
        found = [VOCAB.index(c) for c in text]
        return np.array(found, dtype=np.int32)

    def decode(self, ids):
        return "".join(VOCAB[i] for i in ids)

    def embed(self, ids):
        return self.params["wte"][ids]

    def attention(self, q, k, v, causal):
        T = q.shape[-2]
        return attend(q, k, v, np.triu(np.full((T, T), -np.inf), 1) if causal else 0)

    def block(self, x):
        return block(x, self.params["blocks"][1], 2)

    def logits(self, ids):
        return gpt(ids, self.params, 2)

    def loss(self, ids, targets):
        log_p = np.log(softmax(self.logits(ids)))
        return -log_p[np.arange(len(ids)), targets].mean()

    def weights(self):
        return named(self.params)

    def gradients(self, ids, targets):
        return named(gpt_back(ids, targets, self.params, 2)[1])

    def learn(self, ids, targets):
        loss, d = gpt_back(ids, targets, self.params, 2)
        self.t += 1
        mine = named(self.params)
        for n, g in named(d).items():
            self.m[n] = 0.9 * self.m[n] + 0.1 * g
            self.v[n] = 0.95 * self.v[n] + 0.05 * g * g
            hat = self.m[n] / (1 - 0.9**self.t) / (np.sqrt(self.v[n] / (1 - 0.95**self.t)) + 1e-8)
            mine[n] -= 5e-3 * hat
        return loss

    def generate(self, ids, n, temperature, seed):
        rng, out = np.random.default_rng(seed), []
        text = list(ids)
        for _ in range(n):
            logits = self.logits(np.array(text[-self.context_length :]))[-1]
            out.append(self.pick(logits, temperature, rng))
            text.append(out[-1])
        return out

    def pick(self, logits, temperature, rng):
        if temperature == 0:
            return int(np.argmax(logits))
        return int(rng.choice(len(logits), p=softmax(logits / temperature)))

    def step(self, id, cache):
        kept = cache.setdefault("kv", [[] for _ in self.params["blocks"]])
        return gpt(np.array([id]), self.params, 2, kept=kept)

    def generate_cached(self, ids, n, temperature, seed):
        rng, text, unread, held = np.random.default_rng(seed), list(ids), list(ids), self.context_length
        for _ in range(n):
            if held + len(unread) > self.context_length:  # the window slides: begin a new cache
                cache, unread, held = {}, text[-self.context_length :], 0
            for one in unread:
                logits = self.step(one, cache)[-1]
            held += len(unread)
            text.append(self.pick(logits, temperature, rng))
            unread = text[-1:]
        return text[len(ids) :]

    def load(self, weights, config):
        if config["kind"] == "gpt2":
            raise NotImplementedError("LayerNorm and a table of positions: not mine")
        names = {"wq": "attention.W_q", "wk": "attention.W_k", "wv": "attention.W_v", "wo": "attention.W_o",
                 "wg": "feedforward.W_gate", "wu": "feedforward.W_up", "wd": "feedforward.W_down",
                 "g1": "norm_attention", "g2": "norm_feedforward"}  # fmt: skip
        normed = config["kind"] == "shakespeare"
        if normed:
            names |= {"gq": "attention.norm_q", "gk": "attention.norm_k"}
        p = {"wte": weights["token_embedding.weight"], "gf": weights["decoder.norm.weight"],
             "head": weights["unembedding.weight"]}  # fmt: skip
        if normed:
            p["g0"] = weights["decoder.embedding_norm.weight"]
        p["blocks"] = [
            {mine: weights[f"decoder.blocks.{i}.{theirs}.weight"] for mine, theirs in names.items()}
            for i in range(config["n_layers"])
        ]
        scale = config["attention_scale"] if normed else None
        more = {"normed": normed, "scale": scale, "base": config["rope_base"]}
        return lambda ids: gpt(ids, p, config["n_heads"], **more)
