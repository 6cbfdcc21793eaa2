"""The reader's own file from end to end: what chapters 02 to 08 let a reader keep is, put together, a GPT that runs."""

import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest

from glassformer import scratch, shipped
from glassformer.exercises import check, commands, exercises, keep, own_file
from glassformer.exercises.own_file import ENVIRONMENT
from glassformer.exercises.record import ENVIRONMENT as PROGRESS
from glassformer.exercises.record import Record
from glassformer.published import published

from .test_keep import shell  # noqa: F401 - a notebook's kernel

LINE = "A horse! a horse! my kingdom for a horse!"

# As a reader might write them, in the order of the book. Each cell ends in a function that is kept.
CELLS = [
    """
    import math

    import numpy as np
    """,
    """
    def encode(text, characters):
        for place, one in enumerate(text):
            if one not in characters:
                raise ValueError(f"{one!r} at {place} is unknown")
        return np.array([characters.index(one) for one in text], dtype=int)
    """,
    """
    def embed(ids, table):
        for one in np.ravel(ids):
            if not 0 <= one < len(table):
                raise ValueError(f"id {one} is not in 0 … {len(table) - 1}")
        return table[ids]
    """,
    """
    def softmax(x):
        powers = np.exp(x - x.max(axis=-1, keepdims=True))
        return powers / powers.sum(axis=-1, keepdims=True)
    """,
    """
    def causal_mask(n_queries, n_keys):
        return np.tri(n_queries, n_keys, n_keys - n_queries, dtype=bool)
    """,
    """
    def scaled_dot_product_attention(q, k, v, *, mask=None):
        scores = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
        if mask is not None:
            scores = np.where(mask, scores, -np.inf)
        weights = softmax(scores)
        return weights @ v, weights
    """,
    """
    def split_heads(x, n_heads):
        *B, T, D = x.shape
        if D % n_heads:
            raise ValueError(f"{D} numbers for {n_heads} heads")
        return x.reshape(*B, T, n_heads, D // n_heads).swapaxes(-3, -2)
    """,
    """
    def merge_heads(x):
        *B, H, T, K = x.shape
        return x.swapaxes(-3, -2).reshape(*B, T, H * K)
    """,
    """
    def multi_head(x, W_q, W_k, W_v, W_o, n_heads):
        q, k, v = (split_heads(x @ W, n_heads) for W in (W_q, W_k, W_v))
        return merge_heads(scaled_dot_product_attention(q, k, v, mask=causal_mask(len(x), len(x)))[0]) @ W_o
    """,
    """
    def rotary(x, base=10_000.0):
        T, K = x.shape[-2:]
        angles = np.arange(T)[:, None] * base ** (-2 * np.arange(K // 2) / K)
        a, b = x[..., : K // 2], x[..., K // 2 :]
        cos, sin = np.cos(angles), np.sin(angles)
        return np.concatenate([a * cos - b * sin, a * sin + b * cos], axis=-1)
    """,
    """
    def layer_norm(x, weight, bias, eps=1e-5):
        centred = x - x.mean(axis=-1, keepdims=True)
        return centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps) * weight + bias
    """,
    """
    def rms_norm(x, weight, eps=1e-5):
        return x / np.sqrt((x**2).mean(axis=-1, keepdims=True) + eps) * weight
    """,
    """
    def gelu(x):
        return x * (1 + np.vectorize(math.erf, otypes=[float])(x / math.sqrt(2))) / 2
    """,
    """
    def feed_forward(x, W_up, b_up, W_down, b_down):
        return gelu(x @ W_up + b_up) @ W_down + b_down
    """,
    """
    def silu(x):
        return x * np.exp(-np.logaddexp(0, -x))
    """,
    """
    def swiglu(x, W_gate, W_up, W_down):
        return (silu(x @ W_gate) * (x @ W_up)) @ W_down
    """,
    """
    def block(x, weights, n_heads):
        def some(part, *names):
            return [weights[f"{part}.{name}"] for name in names]

        normed = layer_norm(x, *some("norm_attention", "weight", "bias"))
        x = x + multi_head(normed, *some("attention", *(f"W_{n}.weight" for n in "qkvo")), n_heads)
        normed = layer_norm(x, *some("norm_feedforward", "weight", "bias"))
        names = "W_up.weight", "W_up.bias", "W_down.weight", "W_down.bias"
        return x + feed_forward(normed, *some("feedforward", *names))
    """,
    """
    def check_ids(ids, vocab_size, context_length):
        if ids.shape[-1] > context_length:
            raise ValueError(f"{ids.shape[-1]} tokens, but the context is {context_length}")
        for one in (ids.min(), ids.max()):
            if not 0 <= one < vocab_size:
                raise ValueError(f"id {one} is not in 0 … {vocab_size - 1}")
        return ids
    """,
    """
    def gpt(ids, weights, n_heads):
        table, places = weights["token_embedding.weight"], weights["decoder.positions.weight"]
        x = embed(ids, table) + places[: len(ids)]
        i = 0
        while f"decoder.blocks.{i}.norm_attention.weight" in weights:
            at = f"decoder.blocks.{i}."
            x = block(x, {n.removeprefix(at): w for n, w in weights.items() if n.startswith(at)}, n_heads)
            i += 1
        x = layer_norm(x, weights["decoder.norm.weight"], weights["decoder.norm.bias"])
        return x @ table.T
    """,
    """
    def shakespeare(ids, weights, n_heads, scale):
        x = embed(ids, weights["token_embedding.weight"])
        x = rms_norm(x, weights["decoder.embedding_norm.weight"])
        i = 0
        while f"decoder.blocks.{i}.norm_attention.weight" in weights:
            at = f"decoder.blocks.{i}."
            w = {n[len(at) :].removesuffix(".weight"): v for n, v in weights.items() if n.startswith(at)}
            h = rms_norm(x, w["norm_attention"])
            q, k, v = (split_heads(h @ w[f"attention.W_{n}"], n_heads) for n in "qkv")
            q, k = (rotary(rms_norm(y, w[f"attention.norm_{n}"])) for y, n in ((q, "q"), (k, "k")))
            q = q * scale * math.sqrt(q.shape[-1])
            mixed, _ = scaled_dot_product_attention(q, k, v, mask=causal_mask(len(x), len(x)))
            x = x + merge_heads(mixed) @ w["attention.W_o"]
            h = rms_norm(x, w["norm_feedforward"])
            x = x + swiglu(h, *(w[f"feedforward.W_{n}"] for n in ("gate", "up", "down")))
            i += 1
        return rms_norm(x, weights["decoder.norm.weight"]) @ weights["unembedding.weight"]
    """,
]


@pytest.fixture(scope="module")
def own(shell, tmp_path_factory):  # noqa: F811
    """The file, after a reader has written, checked and kept every one of them."""
    named = {exercise.reference.__name__: exercise.name for exercise in exercises()}
    path = tmp_path_factory.mktemp("reader") / "my_transformer.py"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ENVIRONMENT, str(path))
        patch.setattr(commands, "display", lambda panel: None)
        patch.setenv(PROGRESS, str(path.with_name("progress.json")))
        patch.setattr(commands, "_record", Record())
        patch.setattr(commands, "_accepted", {})
        shell.user_ns["__name__"] = "__main__"
        shell.init_user_ns()
        for source in map(textwrap.dedent, CELLS):
            shell.run_cell(source, store_history=True).raise_error()
            for name in re.findall(r"^def (\w+)", source, re.MULTILINE):
                written = shell.user_ns[name]
                assert check(named[name], written) is written, name
                keep(written)
        assert own_file.trouble() == ""
    return path


def test_it_stands_alone_and_has_all_parts(own):
    text = own.read_text(encoding="utf-8")
    kept = re.findall(r"^def (\w+)", text, re.MULTILINE)
    assert kept == [name for cell in CELLS for name in re.findall(r"^    def (\w+)", cell, re.MULTILINE)]
    assert sorted(re.findall(r"^(?:import|from) .*", text, re.MULTILINE)) == [
        "import math",
        "import numpy as np",
    ]


def test_another_python_runs_it_and_gets_the_packages_numbers(own, tmp_path):
    """A kernel that has not seen this book: weights of `scratch` go in, and its logits come out."""
    config = published("gpt2").config.replace(
        vocab_size=65,
        context_length=48,
        d_model=24,
        n_layers=3,
        n_heads=4,
        attention_bias="none",
        feedforward="gelu",
    )
    random = scratch.Transformer(config, generator=np.random.default_rng(0), dtype=np.float64)
    for name, weight in random.named_parameters().items():  # no bias at 0, no gain at 1
        weight += np.random.default_rng(len(name)).normal(size=weight.shape) * 0.1
    model, tokenizer = shipped.load()
    ids = tokenizer.encode(LINE)
    np.savez(tmp_path / "random.npz", **random.named_parameters())
    np.savez(tmp_path / "shipped.npz", **model.named_parameters())
    program = f"""
        import sys
        import numpy as np
        from my_transformer import check_ids, encode, gpt, shakespeare

        ids = check_ids(encode({LINE!r}, {tokenizer.characters!r}), 65, 48)
        np.save("random.npy", gpt(ids, dict(np.load("random.npz")), 4))
        np.save("shipped.npy", shakespeare(ids, dict(np.load("shipped.npz")), 4, {model.config.attention_scale}))
        print("glassformer" in sys.modules)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        cwd=tmp_path, env={"PYTHONPATH": str(own.parent), "OMP_NUM_THREADS": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("False\n", "")
    np.testing.assert_allclose(np.load(tmp_path / "random.npy"), random(ids), rtol=0, atol=1e-10)
    np.testing.assert_allclose(np.load(tmp_path / "shipped.npy"), model(ids), rtol=0, atol=1e-4)
