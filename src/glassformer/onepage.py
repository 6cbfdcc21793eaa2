"""A GPT on one page: reads a trained model and writes text. [03]: see chapter 03.

Run it: python -m glassformer.onepage "A horse! a horse! my kingdom for"
"""

import json
import sys
from pathlib import Path

import numpy as np


def softmax(x):  # [03]
    """Returns positive numbers that sum to 1, in proportion to exp(x)."""
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def rotate(x, first):  # [04]
    """Rotates pair i (features i, i + K/2) of row p by the angle p · speed_i."""
    a, b = np.split(x, 2, axis=-1)
    speeds = 10_000.0 ** (-np.arange(a.shape[-1]) / a.shape[-1])
    angles = (first + np.arange(x.shape[-2]))[:, None] * speeds
    cos, sin = np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)
    return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)


def norm(x, gain):  # [05]
    """Scales each row to a mean square of 1, then applies a gain per feature."""
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5) * gain


class GPT:
    def __init__(self, path):  # [13]
        """A model's config, alphabet and weights, from a folder or a file."""
        raw = (path / "model.safetensors" if path.is_dir() else path).read_bytes()
        header_end = 8 + int.from_bytes(raw[:8], "little")
        header = json.loads(raw[8:header_end])
        texts = header.pop("__metadata__", {})  # of one file: both texts
        for name in {"config", "tokenizer"} - texts.keys():
            texts[name] = (path / f"{name}.json").read_bytes()
        self.config, self.w = json.loads(texts["config"]), {}
        self.alphabet = list(json.loads(texts["tokenizer"])["characters"])
        for name, at in header.items():
            start, end = (header_end + offset for offset in at["data_offsets"])
            x = np.frombuffer(raw[start:end], f"float{at['dtype'][1:]}")
            part, _, name = name.removesuffix(".weight").rpartition(".")
            self.w.setdefault(part, {})[name] = np.float32(x.reshape(at["shape"]))

    def attention(self, x, w, cache):  # [03]
        """Each position mixes the values of all positions up to itself."""
        T, H = len(x), self.config["n_heads"]  # T of S are new; H heads
        rows = x @ w["W_q"], x @ w["W_k"], x @ w["W_v"]  # (T, D) each
        q, k, v = (r.reshape(T, H, -1).swapaxes(0, 1) for r in rows)  # (H, T, K)
        past = cache[0].shape[1] if cache else 0
        q = rotate(norm(q, w["norm_q"]), past)
        k = rotate(norm(k, w["norm_k"]), past)
        if cache:  # [11] keys and values of the past are not computed again
            k, v = np.append(cache[0], k, 1), np.append(cache[1], v, 1)
        cache[:] = k, v  # (H, S, K)
        scores = q @ k.swapaxes(1, 2) * self.config["attention_scale"]
        scores[:, ~np.tri(T, past + T, past, dtype=bool)] = -np.inf  # not ahead
        return (softmax(scores) @ v).swapaxes(0, 1).reshape(T, -1) @ w["W_o"]

    def feedforward(self, x, w):  # [06]
        """Widens each position's vector, gates it and maps it back."""
        gate = x @ w["W_gate"]
        return gate / (1 + np.exp(-gate)) * (x @ w["W_up"]) @ w["W_down"]

    def __call__(self, ids, caches):  # [08]
        """Returns logits (T, V) for what follows each new character."""
        ends, stack = self.w[""], self.w["decoder"]
        x = norm(ends["token_embedding"][ids], stack["embedding_norm"])  # [02]
        for i, cache in enumerate(caches):  # [07]
            block = f"decoder.blocks.{i}"
            normed = norm(x, self.w[block]["norm_attention"])
            x = x + self.attention(normed, self.w[block + ".attention"], cache)
            normed = norm(x, self.w[block]["norm_feedforward"])
            x = x + self.feedforward(normed, self.w[block + ".feedforward"])
        return norm(x, stack["norm"]) @ ends["unembedding"]

    def write(self, prompt, n, temperature=0.8, top_k=20, seed=None):  # [11]
        """Continues for n characters; temperature 0 takes the likeliest."""
        rng, C = np.random.default_rng(seed), self.config["context_length"]
        ids, new, caches = [self.alphabet.index(char) for char in prompt], [], []
        for _ in range(n):
            if not caches or caches[0][0].shape[1] == C:  # none yet, or full
                new = ids[max(0, (C - len(ids)) // (C // 2) * -(C // 2)) :]
                caches = [[] for _ in range(self.config["n_layers"])]
            logits = self(new, caches)[-1].astype(float) / (temperature or 1)
            best = np.argsort(-logits)[: top_k if temperature else 1]
            ids.append(rng.choice(best, p=softmax(logits[best])))
            yield self.alphabet[ids[-1]]
            new = ids[-1:]


if __name__ == "__main__":
    folder = Path(__file__).parent / "assets" / "models" / "shakespeare"
    for text in GPT(folder).write(" ".join(sys.argv[1:]) or "\n", 500):
        print(text, end="", flush=True)
