"""A GPT in PyTorch with many choices, each of which somebody makes: positions, norms, heads, masks, caches.

`design` makes an adapter of some of them. Nothing here is the book's code, or PyTorch's attention.
"""

import math
from types import SimpleNamespace

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from glassformer.text import corpus

CHARS = sorted(set(corpus()))
RIGHT = {
    "positions": "learned", "base": 10000.0, "norm": "layer", "eps": 1e-5, "place": "pre", "last_norm": True,
    "layers": 2,
    "heads": 4, "kv_heads": 4, "width": 24, "d_ff": 48, "qk_norm": False, "cap": None, "window": None, "sink": False,
    "hide": -math.inf, "activation": "gelu", "gate": False, "bias": True, "tied": True, "rotate_values": False,
    "scale": None, "std": 0.02, "context": 32, "dropout": 0.0,
}  # fmt: skip


def turned(x, start, c):
    n, half = x.shape[-2], x.shape[-1] // 2
    places = torch.arange(start, start + n, dtype=x.dtype)
    angles = places[:, None] * c.base ** (-torch.arange(half, dtype=x.dtype) / half)
    cos, sin = angles.cos(), angles.sin()
    if c.positions == "halves":
        a, b = x[..., :half], x[..., half:]
        return torch.cat([a * cos - b * sin, a * sin + b * cos], dim=-1)
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack([a * cos - b * sin, a * sin + b * cos], dim=-1).flatten(-2)


class Rms(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return x * (x.pow(2).mean(-1, keepdim=True) + self.eps).rsqrt() * self.weight


def normed(c, width):
    return {"layer": nn.LayerNorm, "rms": Rms}[c.norm](width, c.eps)


def mix(q, k, v, c, causal=True):
    """Maps (B, H, T, K), (B, G, S, K), (B, G, S, K) to (B, H, T, K)."""
    k, v = (y.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for y in (k, v))
    T, S = q.shape[-2], k.shape[-2]
    scores = q @ k.mT * (q.shape[-1] ** -0.5 if c.scale is None else c.scale)
    if c.cap:
        scores = c.cap * torch.tanh(scores / c.cap)
    distance = torch.arange(S - T, S)[:, None] - torch.arange(S)
    if c.positions == "alibi":
        slopes = 2.0 ** (-8 * torch.arange(1, q.shape[1] + 1) / q.shape[1])
        scores = scores - slopes[:, None, None] * distance.abs()
    if causal:
        scores = scores.masked_fill(distance < 0, c.hide)
    if c.window:
        scores = scores.masked_fill(distance >= c.window, c.hide)
    if c.sink:
        top = scores.amax(-1, keepdim=True).clamp(min=0)
        e = (scores - top).exp()
        return e / (e.sum(-1, keepdim=True) + (-top).exp()) @ v
    return scores.softmax(-1) @ v


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, K = c, c.width // c.heads
        self.q, self.o = nn.Linear(c.width, c.width, bias=False), nn.Linear(c.width, c.width, bias=False)
        self.k, self.v = (nn.Linear(c.width, c.kv_heads * K, bias=False) for _ in range(2))
        if c.qk_norm:
            self.norm_q, self.norm_k = Rms(K, c.eps), Rms(K, c.eps)

    def forward(self, x, past=None):
        c = self.c
        q, k, v = (
            layer(x).unflatten(-1, (n, -1)).transpose(1, 2)
            for layer, n in ((self.q, c.heads), (self.k, c.kv_heads), (self.v, c.kv_heads))
        )
        if c.qk_norm:
            q, k = self.norm_q(q), self.norm_k(k)
        start = past.length if past is not None else 0
        if c.positions in ("halves", "neighbours"):
            q, k = turned(q, start, c), turned(k, start, c)
            v = turned(v, start, c) if c.rotate_values else v
        if past is not None:
            k, v = past.add(k, v)
        return self.o(mix(q, k, v, c).transpose(1, 2).flatten(-2))


class Network(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.up, self.down = nn.Linear(c.width, c.d_ff, c.bias), nn.Linear(c.d_ff, c.width, c.bias)
        self.gate = nn.Linear(c.width, c.d_ff, bias=False) if c.gate else None
        acts = {"gelu": F.gelu, "silu": F.silu, "relu": F.relu, "square": lambda x: F.relu(x) ** 2}
        self.act = acts[c.activation]

    def forward(self, x):
        up = self.up(x)
        return self.down(self.act(up) if self.gate is None else self.act(self.gate(x)) * up)


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c, self.one, self.two = c, normed(c, c.width), normed(c, c.width)
        self.attention = Attention(c)
        self.network = Network(c)
        self.drop = nn.Dropout(c.dropout)

    def forward(self, x, past=None):
        if self.c.place == "post":
            x = self.one(x + self.drop(self.attention(x, past)))
            return self.two(x + self.drop(self.network(x)))
        if self.c.place == "parallel":
            y = self.one(x)
            return x + self.attention(y, past) + self.network(y)
        x = x + self.drop(self.attention(self.one(x), past))
        return x + self.drop(self.network(self.two(x)))


class Kept:
    """The keys and values of a block, in lists that grow."""

    __slots__ = ("keys", "length", "values")

    def __init__(self):
        self.keys, self.values, self.length = [], [], 0

    def add(self, k, v):
        self.keys.append(k)
        self.values.append(v)
        self.length += k.shape[2]
        return torch.cat(self.keys, dim=2), torch.cat(self.values, dim=2)


class Allocated:
    """The same in arrays that are there from the beginning."""

    def __init__(self):
        self.length, self.k = 0, None

    def add(self, k, v):
        if self.k is None:
            shape = (*k.shape[:2], 256, k.shape[3])
            self.k, self.v = torch.zeros(shape), torch.zeros(shape)
        end = self.length + k.shape[2]
        self.k[:, :, self.length : end], self.v[:, :, self.length : end] = k, v
        self.length = end
        return self.k[:, :, :end], self.v[:, :, :end]


class GPT(nn.Module):
    def __init__(self, V, c):
        super().__init__()
        self.c, self.table = c, nn.Embedding(V, c.width)
        if c.positions == "learned":
            self.places = nn.Embedding(c.context, c.width)
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.layers))
        self.norm = normed(c, c.width) if c.last_norm else nn.Identity()
        self.head = nn.Linear(c.width, V, bias=False)
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=c.std)
        if c.tied:
            self.head.weight = self.table.weight

    def embed(self, ids, start=0):
        x = self.table(ids)
        if self.c.positions == "learned":
            return x + self.places(torch.arange(start, start + ids.shape[-1]))
        if self.c.positions == "waves":
            p, i = torch.arange(start, start + ids.shape[-1])[:, None], torch.arange(0, self.c.width, 2)
            angle = p * 10000 ** (-i / self.c.width)
            return x * math.sqrt(self.c.width) + torch.stack([angle.sin(), angle.cos()], -1).flatten(-2)
        return x

    def forward(self, ids, pasts=None):
        x = self.embed(ids, pasts[0].length if pasts else 0)
        for i, block in enumerate(self.blocks):
            x = block(x, pasts[i] if pasts else None)
        return self.head(self.norm(x))


class Adapter:
    """An adapter of a GPT of these parts; `design` sets its choices."""

    vocab_size, context_length, tensors, batched = len(CHARS), 32, True, True
    choices, cleared = SimpleNamespace(**RIGHT), True

    def __init__(self):
        torch.manual_seed(3)
        self.model = GPT(self.vocab_size, self.choices)
        self.model.eval()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)

    def encode(self, text):
        return [CHARS.index(one) for one in text]

    def decode(self, ids):
        return "".join(CHARS[int(i)] for i in ids)

    def embed(self, ids):
        return self.model.embed(ids)

    def block(self, x):
        return self.model.blocks[0](x)

    def logits(self, ids):
        return self.model(ids)

    def loss(self, ids, targets):
        return F.cross_entropy(self.logits(ids).flatten(0, -2), targets.flatten())

    def weights(self):
        return dict(self.model.named_parameters(remove_duplicate=False))

    def learn(self, ids, targets):
        self.model.train()
        loss = self.loss(ids, targets)
        if self.cleared:
            self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.model.eval()
        return loss.item()

    def pick(self, logits, temperature, generator):
        if temperature == 0:
            return int(logits.argmax())
        return int(torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator))

    @torch.no_grad()
    def generate(self, ids, n, temperature, seed):
        generator, ids = torch.Generator().manual_seed(seed), ids.flatten().tolist()
        for _ in range(n):
            logits = self.logits(torch.tensor([ids[-self.context_length :]]))[0, -1]
            ids.append(self.pick(logits, temperature, generator))
        return ids

    def pasts(self, cache):
        """The keys and values of the text that this cache is of."""
        return cache.setdefault("pasts", [Kept() for _ in self.model.blocks])

    @torch.no_grad()
    def step(self, id, cache):
        return self.model(torch.tensor([[id]]), self.pasts(cache))[0, -1]

    @torch.no_grad()
    def generate_cached(self, ids, n, temperature, seed):
        generator, ids, held = (
            torch.Generator().manual_seed(seed),
            ids.flatten().tolist(),
            self.context_length,
        )
        unread, caches = ids, []  # a cache may be known by its identity, so each lives as long as the text
        for _ in range(n):
            if held + len(unread) > self.context_length:  # the window slides: begin a new cache
                caches.append({})
                unread, held = ids[-self.context_length :], 0
            for one in unread:
                logits = self.step(one, caches[-1])
            held += len(unread)
            ids = [*ids, self.pick(logits, temperature, generator)]
            unread = ids[-1:]
        return ids

    def load(self, weights, config):
        if config["kind"] not in ("gpt2", "llama"):
            raise NotImplementedError
        llama = config["kind"] == "llama"
        c = SimpleNamespace(**RIGHT | {
            "positions": "halves" if llama else "learned", "norm": "rms" if llama else "layer", "bias": not llama,
            "activation": "silu" if llama else "gelu", "gate": llama, "tied": not llama, "heads": config["n_heads"],
            "kv_heads": config["n_heads"], "width": config["d_model"], "d_ff": config["d_ff"],
            "layers": config["n_layers"], "context": config["context_length"], "base": config["rope_base"],
            "scale": config["attention_scale"],
        })  # fmt: skip
        model, w = GPT(config["vocab_size"], c).eval(), weights
        state = {"table.weight": w["token_embedding.weight"], "norm.weight": w["decoder.norm.weight"]}
        state["head.weight"] = w["token_embedding.weight"] if c.tied else w["unembedding.weight"].T
        if "decoder.norm.bias" in w:
            state["norm.bias"] = w["decoder.norm.bias"]
        if c.positions == "learned":
            state["places.weight"] = w["decoder.positions.weight"]
        names = {"one": "norm_attention", "two": "norm_feedforward", "attention.q": "attention.W_q",
                 "attention.k": "attention.W_k", "attention.v": "attention.W_v", "attention.o": "attention.W_o",
                 "network.up": "feedforward.W_up", "network.gate": "feedforward.W_gate",
                 "network.down": "feedforward.W_down"}  # fmt: skip
        for i in range(c.layers):
            for ours, theirs in names.items():
                for end in ("weight", "bias"):
                    found = w.get(f"decoder.blocks.{i}.{theirs}.{end}")
                    if found is not None:
                        turned_over = found.T if found.ndim == 2 else found
                        state[f"blocks.{i}.{ours}.{end}"] = turned_over
        model.load_state_dict(state, strict=False)
        return model


def design(name, *bases, attributes=None, **choices):
    """Makes an adapter class with these choices."""
    c = SimpleNamespace(**RIGHT | choices)
    return type(name, (*bases, Adapter), {"choices": c, "context_length": c.context} | (attributes or {}))
