"""A GPT in PyTorch, in the style of nanoGPT: one module that maps (B, T) to a tuple of logits and loss."""

import math

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from glassformer.text import corpus

CHARS = sorted(set(corpus()))
STOI = {c: i for i, c in enumerate(CHARS)}


class SelfAttention(nn.Module):
    def __init__(self, n_embd, n_head, block_size):
        super().__init__()
        self.n_head = n_head
        self.c_attn = nn.Linear(n_embd, 3 * n_embd, bias=False)
        self.c_proj = nn.Linear(n_embd, n_embd, bias=False)
        self.register_buffer("mask", torch.ones(block_size, block_size, dtype=torch.bool).tril())

    def mix(self, q, k, v, causal, offset=0):
        att = q @ k.transpose(-2, -1) / math.sqrt(q.size(-1))
        if causal:
            T, S = att.shape[-2:]
            att = att.masked_fill(~self.mask[offset : offset + T, :S], float("-inf"))
        return att.softmax(dim=-1) @ v

    def forward(self, x, past=None):
        B, T, C = x.size()
        q, k, v = (y.view(B, T, self.n_head, -1).transpose(1, 2) for y in self.c_attn(x).split(C, dim=2))
        n = 0
        if past is not None:
            if past:
                k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
            past[:] = [k, v]
            n = k.size(2) - T
        y = self.mix(q, k, v, True, n)
        return self.c_proj(y.transpose(1, 2).reshape(B, T, C))


class Block(nn.Module):
    def __init__(self, n_embd, n_head, block_size):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(n_embd), nn.LayerNorm(n_embd)
        self.attn = SelfAttention(n_embd, n_head, block_size)
        self.c_fc, self.c_proj = nn.Linear(n_embd, 4 * n_embd), nn.Linear(4 * n_embd, n_embd)

    def forward(self, x, past=None):
        x = x + self.attn(self.ln_1(x), past)
        return x + self.c_proj(F.gelu(self.c_fc(self.ln_2(x))))


class GPT(nn.Module):
    def __init__(self, vocab_size=65, block_size=32, n_layer=2, n_head=4, n_embd=32):
        super().__init__()
        self.block_size = block_size
        self.wte, self.wpe = nn.Embedding(vocab_size, n_embd), nn.Embedding(block_size, n_embd)
        self.h = nn.ModuleList([Block(n_embd, n_head, block_size) for _ in range(n_layer)])
        self.ln_f = nn.LayerNorm(n_embd)
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        self.wte.weight = self.lm_head.weight
        for p in self.parameters():
            if p.dim() == 2:
                nn.init.normal_(p, std=0.02)

    def embed(self, idx, first=0):
        return self.wte(idx) + self.wpe(torch.arange(first, first + idx.size(1)))

    def forward(self, idx, targets=None, pasts=None):
        _, T = idx.size()
        assert self.block_size >= T
        first = pasts[0][0].size(2) if pasts and pasts[0] else 0
        x = self.embed(idx, first)
        for i, block in enumerate(self.h):
            x = block(x, pasts[i] if pasts is not None else None)
        logits = self.lm_head(self.ln_f(x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))
        return logits, loss


class Mine:
    vocab_size, context_length = 65, 32
    tensors = batched = True

    def __init__(self):
        torch.manual_seed(1337)
        self.model = GPT()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)

    def encode(self, text):
        return [STOI[c] for c in text]

    def decode(self, ids):
        return "".join(CHARS[int(i)] for i in ids)

    def embed(self, ids):
        return self.model.embed(ids)

    def attention(self, q, k, v, causal):
        return self.model.h[0].attn.mix(q, k, v, causal)

    def block(self, x):
        return self.model.h[0](x)

    def logits(self, ids):
        return self.model(ids)

    def loss(self, ids, targets):
        return self.model(ids, targets)

    def weights(self):
        return dict(self.model.named_parameters())

    def learn(self, ids, targets):
        _, loss = self.model(ids, targets)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss

    @torch.no_grad()
    def generate(self, ids, n, temperature, seed):
        generator = torch.Generator().manual_seed(seed)
        for _ in range(n):
            logits, _ = self.model(ids[:, -self.context_length :])
            ids = torch.cat([ids, self.choose(logits[:, -1], temperature, generator)], dim=1)
        return ids

    def choose(self, logits, temperature, generator):
        if temperature == 0:
            return logits.argmax(-1, keepdim=True)
        return torch.multinomial(torch.softmax(logits / temperature, -1), 1, generator=generator)

    @torch.no_grad()
    def step(self, id, cache):
        pasts = cache.setdefault("pasts", [[] for _ in self.model.h])
        return self.model(torch.tensor([[id]]), pasts=pasts)[0][:, -1]

    @torch.no_grad()
    def generate_cached(self, ids, n, temperature, seed):
        generator, unread, held = torch.Generator().manual_seed(seed), ids[0].tolist(), self.context_length
        for _ in range(n):
            if held + len(unread) > self.context_length:  # the window slides: begin a new cache
                cache, unread, held = {}, ids[0, -self.context_length :].tolist(), 0
            for one in unread:
                logits = self.step(one, cache)
            held += len(unread)
            ids = torch.cat([ids, self.choose(logits, temperature, generator)], dim=1)
            unread = ids[0, -1:].tolist()
        return ids

    def load(self, weights, config):
        if config["kind"] != "gpt2":
            raise NotImplementedError
        model = GPT(
            config["vocab_size"],
            config["context_length"],
            config["n_layers"],
            config["n_heads"],
            config["d_model"],
        )
        w, state = weights, {}
        state["wte.weight"] = state["lm_head.weight"] = w["token_embedding.weight"]
        state["wpe.weight"] = w["decoder.positions.weight"]
        for end in ("weight", "bias"):
            state[f"ln_f.{end}"] = w[f"decoder.norm.{end}"]
        for i in range(config["n_layers"]):
            here, there = f"h.{i}.", f"decoder.blocks.{i}."
            state[here + "attn.mask"] = model.h[i].attn.mask
            state[here + "attn.c_attn.weight"] = torch.cat(
                [w[f"{there}attention.W_{n}.weight"] for n in "qkv"], dim=1
            ).T
            state[here + "attn.c_proj.weight"] = w[there + "attention.W_o.weight"].T
            for end in ("weight", "bias"):
                state[here + "ln_1." + end] = w[there + "norm_attention." + end]
                state[here + "ln_2." + end] = w[there + "norm_feedforward." + end]
            for ours, theirs in (("c_fc", "W_up"), ("c_proj", "W_down")):
                state[f"{here}{ours}.weight"] = w[f"{there}feedforward.{theirs}.weight"].T
                state[f"{here}{ours}.bias"] = w[f"{there}feedforward.{theirs}.bias"]
        model.load_state_dict(state)
        return model
