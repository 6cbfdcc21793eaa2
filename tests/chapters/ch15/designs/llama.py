"""A LLaMA in plain NumPy, one text at a time, with a backward pass. `wrong.py` changes its text into mistakes."""

import numpy as np

from glassformer.text import corpus

CHARS = sorted(set(corpus()))
TO_ID = {c: i for i, c in enumerate(CHARS)}
CONFIG = dict(
    kind="llama",
    vocab_size=len(CHARS),
    context_length=32,
    d_model=32,
    n_layers=2,
    n_heads=2,
    d_ff=64,
    eps=1e-5,
    rope_base=10000.0,
)


def encode(text):
    return [TO_ID[c] for c in text]


def decode(ids):
    return "".join(CHARS[i] for i in ids)


def softmax(x):
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def norm(x, g, eps):
    r = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps)
    return x * r * g, r


def norm_back(dy, x, r, g):
    dg = (dy * x * r).sum(axis=0)
    dh = dy * g
    dx = r * dh - x * r**3 * (dh * x).mean(axis=-1, keepdims=True)
    return dx, dg


def angles(positions, K, base):
    freq = base ** (-np.arange(K // 2) * 2 / K)
    a = positions[:, None] * freq
    return np.cos(a), np.sin(a)


def rotate(x, cos, sin):
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


def heads(x, H):
    T, D = x.shape
    return x.reshape(T, H, D // H).transpose(1, 0, 2)


def merge(x):
    H, T, K = x.shape
    return x.transpose(1, 0, 2).reshape(T, H * K)


def attend(q, k, v, causal=True):
    scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    if causal:
        Tq, Tk = scores.shape[-2:]
        hidden = np.arange(Tk) > np.arange(Tk - Tq, Tk)[:, None]
        scores = np.where(hidden, -np.inf, scores)
    a = softmax(scores)
    return a @ v, a


def block(p, c, x, i, start=0, cache=None, saved=None):
    n = f"decoder.blocks.{i}."
    H, K = c["n_heads"], c["d_model"] // c["n_heads"]
    h1, r1 = norm(x, p[n + "norm_attention.weight"], c["eps"])
    q = heads(h1 @ p[n + "attention.W_q.weight"], H)
    k = heads(h1 @ p[n + "attention.W_k.weight"], H)
    v = heads(h1 @ p[n + "attention.W_v.weight"], H)
    if n + "attention.norm_q.weight" in p:  # the book's model
        q, k = (norm(x, p[f"{n}attention.norm_{w}.weight"], c["eps"])[0] for w, x in (("q", q), ("k", k)))
        q = q * c["attention_scale"] * np.sqrt(K)
    cos, sin = angles(np.arange(start, start + len(x)), K, c["rope_base"])
    q, k = rotate(q, cos, sin), rotate(k, cos, sin)
    if cache is not None:
        if i in cache:
            k = np.concatenate([cache[i][0], k], axis=1)
            v = np.concatenate([cache[i][1], v], axis=1)
        cache[i] = k, v
    out, a = attend(q, k, v)
    m = merge(out)
    y = x + m @ p[n + "attention.W_o.weight"]
    h2, r2 = norm(y, p[n + "norm_feedforward.weight"], c["eps"])
    g = h2 @ p[n + "feedforward.W_gate.weight"]
    u = h2 @ p[n + "feedforward.W_up.weight"]
    s = 1 / (1 + np.exp(-g))
    z = y + (g * s * u) @ p[n + "feedforward.W_down.weight"]
    if saved is not None:
        saved.append((x, h1, r1, q, k, v, cos, sin, a, m, y, h2, r2, g, u, s))
    return z


def block_back(p, c, dz, i, saved, grads):
    n = f"decoder.blocks.{i}."
    H = c["n_heads"]
    x, h1, r1, q, k, v, cos, sin, a, m, y, h2, r2, g, u, s = saved
    act = g * s
    grads[n + "feedforward.W_down.weight"] = (act * u).T @ dz
    df = dz @ p[n + "feedforward.W_down.weight"].T
    du, dact = df * act, df * u
    dg = dact * (s + g * s * (1 - s))
    grads[n + "feedforward.W_up.weight"] = h2.T @ du
    grads[n + "feedforward.W_gate.weight"] = h2.T @ dg
    dh2 = du @ p[n + "feedforward.W_up.weight"].T + dg @ p[n + "feedforward.W_gate.weight"].T
    dy, grads[n + "norm_feedforward.weight"] = norm_back(dh2, y, r2, p[n + "norm_feedforward.weight"])
    dy = dy + dz
    grads[n + "attention.W_o.weight"] = m.T @ dy
    do = heads(dy @ p[n + "attention.W_o.weight"].T, H)
    dv = a.swapaxes(-1, -2) @ do
    da = do @ v.swapaxes(-1, -2)
    ds = a * (da - (a * da).sum(axis=-1, keepdims=True))
    ds = ds / np.sqrt(q.shape[-1])
    dq, dk = ds @ k, ds.swapaxes(-1, -2) @ q
    dq, dk = rotate(dq, cos, -sin), rotate(dk, cos, -sin)
    dq, dk, dv = merge(dq), merge(dk), merge(dv)
    dh1 = 0
    for w, d in zip("qkv", (dq, dk, dv), strict=True):
        grads[n + f"attention.W_{w}.weight"] = h1.T @ d
        dh1 = dh1 + d @ p[n + f"attention.W_{w}.weight"].T
    dx, grads[n + "norm_attention.weight"] = norm_back(dh1, x, r1, p[n + "norm_attention.weight"])
    return dx + dy


def embed(p, ids):
    return p["token_embedding.weight"][np.asarray(ids)]


def forward(p, c, ids, cache=None, saved=None):
    start = cache.get("n", 0) if cache is not None else 0
    x = embed(p, ids)
    if "decoder.embedding_norm.weight" in p:
        x, _ = norm(x, p["decoder.embedding_norm.weight"], c["eps"])
    for i in range(c["n_layers"]):
        x = block(p, c, x, i, start, cache, saved)
    if cache is not None:
        cache["n"] = start + len(ids)
    h, r = norm(x, p["decoder.norm.weight"], c["eps"])
    if saved is not None:
        saved.append((x, h, r))
    return h @ p["unembedding.weight"]


def cross_entropy(logits, targets):
    z = logits - logits.max(axis=-1, keepdims=True)
    logp = z - np.log(np.exp(z).sum(axis=-1, keepdims=True))
    return -logp[np.arange(len(targets)), targets].mean()


def backward(p, c, ids, targets):
    saved, grads = [], {}
    logits = forward(p, c, ids, saved=saved)
    loss = cross_entropy(logits, targets)
    d = softmax(logits)
    d[np.arange(len(targets)), targets] -= 1
    d /= len(targets)
    x, h, r = saved.pop()
    grads["unembedding.weight"] = h.T @ d
    dx, grads["decoder.norm.weight"] = norm_back(
        d @ p["unembedding.weight"].T, x, r, p["decoder.norm.weight"]
    )
    for i in reversed(range(c["n_layers"])):
        dx = block_back(p, c, dx, i, saved.pop(), grads)
    de = np.zeros_like(p["token_embedding.weight"])
    np.add.at(de, np.asarray(ids), dx)
    grads["token_embedding.weight"] = de
    return loss, grads


def fresh(c, seed=0):
    rng = np.random.default_rng(seed)
    V, D, F = c["vocab_size"], c["d_model"], c["d_ff"]
    p = {
        "token_embedding.weight": rng.normal(0, 0.1, (V, D)),
        "decoder.norm.weight": np.ones(D),
        "unembedding.weight": rng.normal(0, 0.02, (D, V)),
    }
    for i in range(c["n_layers"]):
        n = f"decoder.blocks.{i}."
        p[n + "norm_attention.weight"] = np.ones(D)
        p[n + "norm_feedforward.weight"] = np.ones(D)
        for w in "qkvo":
            p[n + f"attention.W_{w}.weight"] = rng.normal(0, D**-0.5, (D, D))
        p[n + "feedforward.W_up.weight"] = rng.normal(0, D**-0.5, (D, F))
        p[n + "feedforward.W_gate.weight"] = rng.normal(0, D**-0.5, (D, F))
        p[n + "feedforward.W_down.weight"] = rng.normal(0, F**-0.5, (F, D))
    return p


class Adam:
    def __init__(self, p, lr=3e-3, betas=(0.9, 0.99), eps=1e-8):
        self.lr, self.b1, self.b2, self.eps, self.t = lr, *betas, eps, 0
        self.m = {n: np.zeros_like(w) for n, w in p.items()}
        self.v = {n: np.zeros_like(w) for n, w in p.items()}

    def step(self, p, grads):
        self.t += 1
        for n, g in grads.items():
            self.m[n] = self.b1 * self.m[n] + (1 - self.b1) * g
            self.v[n] = self.b2 * self.v[n] + (1 - self.b2) * g * g
            mh = self.m[n] / (1 - self.b1**self.t)
            vh = self.v[n] / (1 - self.b2**self.t)
            p[n] -= self.lr * mh / (np.sqrt(vh) + self.eps)


def pick(logits, temperature, rng):
    if temperature == 0:
        return int(np.argmax(logits))
    p = softmax(logits / temperature)
    return int(rng.choice(len(p), p=p))


class Mine:
    vocab_size, context_length = CONFIG["vocab_size"], CONFIG["context_length"]
    d_model = CONFIG["d_model"]

    def __init__(self):
        self.p = fresh(CONFIG)
        self.adam = Adam(self.p)

    def encode(self, text):
        return encode(text)

    def decode(self, ids):
        return decode(ids)

    def embed(self, ids):
        return embed(self.p, ids)

    def attention(self, q, k, v, causal):
        return attend(q, k, v, causal)[0]

    def block(self, x):
        return block(self.p, CONFIG, x, 0)

    def logits(self, ids):
        return forward(self.p, CONFIG, ids)

    def loss(self, ids, targets):
        return cross_entropy(self.logits(ids), targets)

    def weights(self):
        return self.p

    def gradients(self, ids, targets):
        return backward(self.p, CONFIG, ids, targets)[1]

    def learn(self, ids, targets):
        loss, grads = backward(self.p, CONFIG, ids, targets)
        self.adam.step(self.p, grads)
        return loss

    def generate(self, ids, n, temperature, seed):
        rng, ids = np.random.default_rng(seed), list(ids)
        for _ in range(n):
            logits = self.logits(ids[-self.context_length :])[-1]
            ids.append(pick(logits, temperature, rng))
        return ids

    def step(self, id, cache):
        return forward(self.p, CONFIG, [id], cache=cache)[-1]

    def generate_cached(self, ids, n, temperature, seed):
        rng, ids = np.random.default_rng(seed), list(ids)
        cache, new = {}, ids[-self.context_length :]
        for _ in range(n):
            if cache.get("n", 0) + len(new) > self.context_length:
                cache, new = {}, ids[-self.context_length :]
            for one in new:
                logits = self.step(one, cache)
            ids.append(pick(logits, temperature, rng))
            new = ids[-1:]
        return ids

    def load(self, weights, config):
        if config["kind"] == "gpt2":
            raise NotImplementedError("LayerNorm and a table of positions: not mine")
        return lambda ids: forward(weights, config, ids)

    def export(self):
        return self.p, CONFIG
