"""A GPT made of torch's own parts: TransformerEncoderLayer (post-norm, with dropout), bytes, and sinusoids of 2017.

It shows no attention weights and has no cache. The module is its own adapter.
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


class Mine(nn.Module):
    vocab_size, context_length = 256, LONGEST
    tensors = True
    batched = True

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(0)
            self.tokens = nn.Embedding(256, WIDTH)
            layer = nn.TransformerEncoderLayer(
                WIDTH, nhead=2, dim_feedforward=64, dropout=0.05, batch_first=True
            )
            self.body = nn.TransformerEncoder(layer, num_layers=2, enable_nested_tensor=False)
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

    def unseen(self, n):
        return nn.Transformer.generate_square_subsequent_mask(n)

    def block(self, x):
        return self.body.layers[0](x, src_mask=self.unseen(x.shape[1]), is_causal=True)

    def forward(self, ids):
        return self.to_bytes(self.body(self.embed(ids), mask=self.unseen(ids.shape[1]), is_causal=True))

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
