"""A GPT of PyTorch's small parts in the order of 2017: post-norm, with dropout, bytes, and sinusoids.

It has no cache. The module is its own adapter.
"""

import math

import torch
from torch import nn

WIDTH, LONGEST = 32, 40


def waves(length, width):
    place = torch.arange(length).unsqueeze(1)
    speed = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    table = torch.zeros(length, width)
    table[:, 0::2], table[:, 1::2] = torch.sin(place * speed), torch.cos(place * speed)
    return table


def attend(q, k, v, causal):
    scores = torch.einsum("bhtk,bhsk->bhts", q, k) / math.sqrt(q.shape[-1])
    if causal:
        scores += torch.full(scores.shape[-2:], -1e9).triu(1)
    return torch.einsum("bhts,bhsk->bhtk", scores.softmax(dim=-1), v)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.wide = nn.Sequential(nn.Linear(WIDTH, 64), nn.ReLU(), nn.Linear(64, WIDTH))
        self.norms, self.drop = nn.ModuleList([nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)]), nn.Dropout(0.05)

    def forward(self, x):
        heads = (part.unflatten(-1, (2, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        mixed = attend(*heads, causal=True).transpose(1, 2).flatten(2)
        x = self.norms[0](x + self.drop(self.out(mixed)))
        return self.norms[1](x + self.drop(self.wide(x)))


class Mine(nn.Module):
    vocab_size, context_length = 256, LONGEST
    tensors = True
    batched = True

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.tokens = nn.Embedding(256, WIDTH)
            self.layers = nn.ModuleList([Layer(), Layer()])
            self.to_bytes = nn.Linear(WIDTH, 256)
        self.register_buffer("places", waves(LONGEST, WIDTH))
        self.adam = torch.optim.Adam(self.parameters(), lr=4e-3)
        self.eval()

    def encode(self, text):
        return list(text.encode("utf-8"))

    def decode(self, ids):
        return bytes(ids.tolist()).decode("utf-8", errors="replace")

    def embed(self, ids):
        return self.tokens(ids) * math.sqrt(WIDTH) + self.places[: ids.shape[-1]]

    def attention(self, q, k, v, causal):
        return attend(q, k, v, causal)

    def block(self, x):
        return self.layers[0](x)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.to_bytes(x)

    def logits(self, ids):
        return self(ids)

    def loss(self, ids, targets):
        return nn.functional.cross_entropy(self(ids).flatten(0, 1), targets.flatten()).item()

    def learn(self, ids, targets):
        self.train()
        self.adam.zero_grad()
        loss = nn.functional.cross_entropy(self(ids).flatten(0, 1), targets.flatten())
        loss.backward()
        self.adam.step()
        self.eval()
        return loss.item()

    def generate(self, ids, n, temperature, seed):
        chance = torch.Generator().manual_seed(seed)
        with torch.inference_mode():
            for _ in range(n):
                last = self(ids[:, -LONGEST:])[:, -1]
                if temperature:
                    new = torch.multinomial((last / temperature).softmax(-1), 1, generator=chance)
                else:
                    new = last.argmax(dim=-1, keepdim=True)
                ids = torch.cat((ids, new), dim=-1)
        return ids[0].tolist()
