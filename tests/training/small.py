"""Makes small models and tasks of every family, the same in every test and in the processes that tests start."""

import faulthandler
import multiprocessing
import os
import sys
from pathlib import Path

import numpy as np
import torch
from torch.distributed import TCPStore

from glassformer import nn, scratch, tasks, train
from glassformer.auxiliary import add_to_loss
from glassformer.config import ModelConfig
from glassformer.scratch.layer import save_for_backward
from tools.shared.browser import PATIENCE

V, T = 13, 8
MASK, START, STOP, PAD = 12, 12, 11, 0

ROOT = Path(__file__).parents[2]

# For processes that tests start. A copy of this one, with its threads, may wait for ever; so the copies are those of a
# process that has imported what they need, and has done nothing else.
PROCESSES = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")
if sys.platform == "linux":
    PROCESSES.set_forkserver_preload(["glassformer.train", "torch.distributed"])


def as_one_of_two(work, rank, port, folder):
    """Runs as one of two processes, with the environment and the store that `torchrun` would provide."""
    os.environ |= {"RANK": f"{rank}", "LOCAL_RANK": f"{rank}", "WORLD_SIZE": "2"}
    os.environ |= {
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": f"{port}",
        "TORCHELASTIC_USE_AGENT_STORE": "True",
    }
    faulthandler.dump_traceback_later(0.9 * PATIENCE)  # where it waits, if it does
    torch.set_num_threads(1)
    work(folder)
    faulthandler.cancel_dump_traceback_later()


def in_two_processes(work, folder):
    """Runs `work(folder)` in two processes and returns the folder, one within the given one.

    In 4 of about 40 runs, one of them waited for ever when both were done; then they are started again, once.
    """
    for attempt in range(2):
        store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
        place = folder / f"{attempt}"
        both = [
            PROCESSES.Process(target=as_one_of_two, args=(work, rank, store.port, place), daemon=True)
            for rank in (0, 1)
        ]
        for process in both:
            process.start()
        for process in both:
            process.join(timeout=PATIENCE)
        codes = [process.exitcode for process in both]
        if None not in codes:
            break
        for process in both:
            process.kill()
    assert codes == [0, 0]
    return place


RNG = np.random.default_rng(0)
# Not quite random: what follows depends on what was, so that there is something to learn.
IDS = np.cumsum(RNG.random(600) < 0.8) % 11
SOURCES = [RNG.integers(1, 11, size) for size in RNG.integers(1, 6, 60)]
TARGETS = [source[::-1] for source in SOURCES]


def model_config(family="decoder", **changes):
    given = {
        "vocab_size": V,
        "context_length": T,
        "d_model": 16,
        "n_layers": 2,
        "n_heads": 4,
        "n_kv_heads": 2,
        "d_ff": 24,
        "family": family,
    }
    return ModelConfig(**given | changes)


def model(family="decoder", dtype=torch.float64, seed=0, **changes):
    generator = torch.Generator().manual_seed(seed)
    return nn.Transformer(model_config(family, **changes), generator=generator, dtype=dtype)


def task(family="decoder", batch_size=4, seed=0, **shares):
    match family:
        case "decoder":
            return tasks.NextToken(IDS, T, batch_size, seed, **shares)
        case "encoder":
            return tasks.MaskedToken(IDS, T, batch_size, seed, mask_id=MASK, **shares)
    ids = {"start_id": START, "stop_id": STOP, "pad_id": PAD}
    return tasks.Pairs(SOURCES, TARGETS, batch_size, seed, **ids, **shares)


def config(**changes):
    given = {
        "steps": 8,
        "batch_size": 4,
        "warmup": 2,
        "learning_rate": 1e-2,
        "evaluate_every": 0,
        "save_every": 0,
        "device": "cpu",
    }
    return train.TrainingConfig(**given | changes)


def trainer(
    family="decoder",
    *,
    folder=None,
    resume=False,
    dtype=torch.float64,
    model_changes=(),
    options=(),
    **changes,
):
    """Returns a `Trainer`; `changes` are fields of TrainingConfig, `options` are the Trainer's own."""
    settings = config(**changes)
    return train.Trainer(
        model(family, dtype, **dict(model_changes)),
        task(family, settings.batch_size),
        settings,
        folder,
        resume=resume,
        **{"progress": False} | dict(options),
    )


def without_time(records):
    return [{name: value for name, value in record.items() if name != "seconds"} for record in records]


FAMILIES = ("decoder", "encoder", "encoder-decoder")
ENOUGH = {"decoder": 60, "encoder": 100, "encoder-decoder": 60}  # steps until each has learned something


# Layers that add to the loss

SHARE = 0.7


class Modest(nn.FeedForward):
    """Adds the mean square of what it writes to the loss, as a router adds its balance."""

    def forward(self, x):
        y = super().forward(x)
        add_to_loss(size=SHARE * (y * y).mean())
        return y


class ModestInNumPy(scratch.FeedForward):
    """Does the same in NumPy."""

    def forward(self, x, saved=None):
        y = super().forward(x, saved)
        counts = add_to_loss(size=SHARE * (y * y).mean())
        save_for_backward(saved, y, counts)
        return y

    def backward(self, grad, saved):
        y, counts = saved.pop()
        return super().backward(grad + counts * SHARE * 2 * y / y.size, saved)


def modest(made):
    """Returns the model of either room, whose feed-forward networks now add to the loss."""
    kind = Modest if isinstance(made, nn.Transformer) else ModestInNumPy
    for stack in filter(None, (made.encoder, made.decoder)):
        for block in stack.blocks:
            block.feedforward.__class__ = kind
    return made
