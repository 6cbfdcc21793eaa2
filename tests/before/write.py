"""Writes the files that a reader had before version 0.2, and what they meant then, with the package of that time.

    git archive 2423624 src | tar -x -C OLD
    PYTHONPATH=OLD/src python tests/before/write.py

`test_before.py` opens them with the package of today. Files of an old version cannot be written anew by a new one: to
cover another, add to these.
"""

import json
import os
import shutil
import signal
import textwrap
from pathlib import Path

import numpy as np
import torch

BEFORE = Path(__file__).parent
EXPECTED, MINE, PROGRESS = BEFORE / "expected.json", BEFORE / "my_transformer.py", BEFORE / "progress.json"
STEPS, STOPPED = 6, 3

MODEL = {"vocab_size": 8, "context_length": 6, "d_model": 8, "n_layers": 1, "n_heads": 2, "d_ff": 8}
# What is stored of each way of training: other weights, other states of the optimizer
RUNS = {
    "adamw": {
        "model": {"positions": "learned", "norm": "layernorm", "attention_bias": "all"},
        "training": {},
    },
    "muon": {
        "model": {"family": "encoder-decoder", "positions": "t5", "t5_n_buckets": 8, "t5_max_distance": 12}
        | {"qk_norm": True, "n_kv_heads": 1, "feedforward": "swiglu", "head": "untied"},
        "training": {"optimizer": "muon", "ema": 0.9, "decay": "cosine", "clip": 0.5},
    },
}
TEXT = np.arange(80) ** 2 % 7
SOURCES = [np.arange(1, 2 + i % 4) for i in range(24)]
IDS = {"ids": np.array([[1, 4, 2, 0, 2]])}
SOURCE = {"source": np.array([[1, 2, 3, 4]]), "source_mask": np.array([[True, True, True, False]])}

# What a reader wrote in a notebook: an exercise, and a cell that answers it
CELLS = {
    "attention.softmax": """
        import numpy as np

        def softmax(x, axis=-1):
            weights = np.exp(x - x.max(axis=axis, keepdims=True))
            return weights / weights.sum(axis=axis, keepdims=True)
        """,
    "attention.attention": """
        import math

        def scaled_dot_product_attention(q, k, v, *, mask=None):
            scores = q @ k.swapaxes(-1, -2) / math.sqrt(q.shape[-1])
            weights = softmax(scores if mask is None else np.where(mask, scores, -np.inf))
            return weights @ v, weights
        """,
    "attention.split_heads": """
        def split_heads(x, n_heads):
            *B, T, D = x.shape
            return x.reshape(*B, T, n_heads, D // n_heads).swapaxes(-3, -2)
        """,
    "stream.rms_norm": """
        def rms_norm(x, weight, eps=1e-5):
            return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight
        """,
    "attention.multi_head": """
        from glassformer.scratch import causal_mask, merge_heads

        def multi_head(x, W_q, W_k, W_v, W_o, n_heads):
            q, k, v = (split_heads(x @ W, n_heads) for W in (W_q, W_k, W_v))
            mixed, _ = scaled_dot_product_attention(q, k, v, mask=causal_mask(len(x)))
            return merge_heads(mixed) @ W_o
        """,
    "gpt.shakespeare": """
        from glassformer.scratch import RotaryPositions, silu

        def shakespeare(ids, weights, n_heads, scale):
            x = rms_norm(weights["token_embedding.weight"][ids], weights["decoder.embedding_norm.weight"])
            for i in range(sum(name.endswith("norm_attention.weight") for name in weights)):
                own = f"decoder.blocks.{i}."
                w = {name.removeprefix(own): value for name, value in weights.items() if name.startswith(own)}
                y = rms_norm(x, w["norm_attention.weight"])
                q, k, v = (split_heads(y @ w[f"attention.W_{name}.weight"], n_heads) for name in "qkv")
                rotation = RotaryPositions(q.shape[-1])
                q = rotation.rotate(rms_norm(q, w["attention.norm_q.weight"]), np.arange(len(x)))
                k = rotation.rotate(rms_norm(k, w["attention.norm_k.weight"]), np.arange(len(x)))
                q = q * (scale * math.sqrt(q.shape[-1]))
                mixed, _ = scaled_dot_product_attention(q, k, v, mask=causal_mask(len(x)))
                x = x + merge_heads(mixed) @ w["attention.W_o.weight"]
                y = rms_norm(x, w["norm_feedforward.weight"])
                gate, up, down = (w[f"feedforward.W_{name}.weight"] for name in ("gate", "up", "down"))
                x = x + (silu(y @ gate) * (y @ up)) @ down
            return rms_norm(x, weights["decoder.norm.weight"]) @ weights["unembedding.weight"]
        """,
}
# One that the reader typed into the file afterwards: it is wrong, and not marked as done
TYPED = """

def silu_by_hand(x):
    return x / (1 + np.exp(-x))


def gelu(x):  # not exact
    return silu_by_hand(1.702 * x) / 1.702
"""
TRIED, REVEALED = "feedforward.gelu", "positions.rotary"


def trainer(run, folder, *, resume=False, callback=None):
    """The training of one of the RUNS. Both packages are asked for the same."""
    from glassformer import nn, tasks
    from glassformer.config import ModelConfig
    from glassformer.train import Trainer, TrainingConfig

    config = ModelConfig(**MODEL | RUNS[run]["model"])
    sizes = {"steps": STEPS, "batch_size": 4, "warmup": 2, "learning_rate": 1e-2, "device": "cpu"}
    model = nn.Transformer(config, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    if config.family == "decoder":
        task = tasks.NextToken(TEXT, 6, 4, 0)
    else:
        targets = [source[::-1] for source in SOURCES]
        task = tasks.Pairs(SOURCES, targets, 4, 0, start_id=5, stop_id=6, pad_id=0)
    settings = TrainingConfig(**sizes | RUNS[run]["training"])
    return Trainer(model, task, settings, folder, resume=resume, callback=callback, progress=False)


def logits(folder, run, room):
    """What the last checkpoint in the folder makes of some ids, in one of the rooms."""
    from glassformer import checkpoints

    inputs = IDS | (SOURCE if "family" in RUNS[run]["model"] else {})
    if room == "nn":
        inputs = {name: torch.tensor(array) for name, array in inputs.items()}
    with torch.no_grad():
        return np.asarray(checkpoints.load_model(folder, room=room)(**inputs))


def losses(records):
    """Of every step that was made, what was measured and does not depend on the machine's speed."""
    return [{name: value for name, value in record.items() if name != "seconds"} for record in records]


def verdicts():
    """What `check` finds about each function in the reader's file: "right" or "wrong"."""
    from glassformer.exercises import mine
    from glassformer.exercises.attempt import attempt
    from glassformer.exercises.catalogue import find

    return {name: attempt(find(name), mine(name), 60.0).status for name in (*CELLS, TRIED)}


def main():
    for run in RUNS:
        shutil.rmtree(BEFORE / run, ignore_errors=True)
    for path in (MINE, PROGRESS):
        path.unlink(missing_ok=True)
    os.environ |= {"GLASSFORMER_MINE": str(MINE), "GLASSFORMER_PROGRESS": str(PROGRESS)}
    expected = {"logits": {}, "losses": {}}

    def stop(record):
        if record["step"] == STOPPED:
            signal.raise_signal(signal.SIGINT)

    for run in RUNS:
        trainer(run, BEFORE / run, callback=stop).run()
        expected["logits"][run] = logits(BEFORE / run, run, "scratch").tolist()
        shutil.copytree(BEFORE / run, BEFORE / "again")
        expected["losses"][run] = losses(trainer(run, BEFORE / "again", resume=True).run())
        expected["logits"][f"{run}, finished"] = logits(BEFORE / "again", run, "scratch").tolist()
        shutil.rmtree(BEFORE / "again")

    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    quiet = Config()
    quiet.HistoryManager.enabled = False
    notebook = InteractiveShell.instance(config=quiet)
    notebook.run_cell("from glassformer.exercises import check, keep, mine, reveal").raise_error()
    for name, cell in CELLS.items():
        notebook.run_cell(textwrap.dedent(cell).strip(), store_history=True).raise_error()
        function = name.split(".")[1].replace("attention", "scaled_dot_product_attention")
        notebook.run_cell(f'{function} = check("{name}", {function}); keep({function})').raise_error()
    MINE.write_text(MINE.read_text() + TYPED)
    notebook.run_cell(f'gelu = check("{TRIED}", mine("{TRIED}")); reveal("{REVEALED}")').raise_error()

    from glassformer.exercises.record import Record

    expected |= {"verdicts": verdicts(), "progress": Record().load()}
    EXPECTED.write_text(json.dumps(expected, indent=1) + "\n")


if __name__ == "__main__":
    main()
