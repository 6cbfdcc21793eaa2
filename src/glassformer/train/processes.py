"""The processes that train one model together: a single one, or several started by `torchrun`."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import distributed


@dataclass(frozen=True)
class Processes:
    """Knows which process this is and which device it uses."""

    rank: int
    world: int
    device: torch.device

    def total(self, *numbers: float | int | bool) -> list[float | int | bool]:
        """Sums each number over all processes."""
        if self.world == 1:
            return list(numbers)
        summed = torch.tensor(numbers, dtype=torch.float64, device=self.device)
        distributed.all_reduce(summed)
        return summed.tolist()


def device_of(name: str, local_rank: int = 0) -> torch.device:
    """Returns the device of that name; "auto" picks what is available: CUDA, Apple's MPS, or the CPU.

    Raises:
        ValueError: `name` is not the name of a device, or this machine has no such device.
    """
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise ValueError(f"device={name!r} is not a device: {error}") from None
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if not there.get(device.type, False):
        here = ", ".join(kind for kind, is_there in there.items() if is_there)
        raise ValueError(f"device={name!r} is not available: this machine has {here}")
    if device.type == "cuda" and device.index is None:  # with several GPUs, each process takes its own
        device = torch.device("cuda", local_rank)
    return device


def choice_of(name: str, device: torch.device) -> str | None:
    """Returns a sentence about the device that was used for "auto", or None if another name left no choice."""
    if name != "auto":
        return None
    chosen = f'device="auto" has chosen {device.type}'
    if device.type == "mps":
        chosen += (
            ". Apple's GPU rounds differently, and some of its operations have had mistakes, so losses may differ from "
            'those in the book, which were made with device="cpu"'
        )
    return chosen


def world() -> int:
    """Returns how many processes train together, as `torchrun` sets it in the environment."""
    return int(os.environ.get("WORLD_SIZE", 1))


@contextmanager
def processes(device: str) -> Iterator[Processes]:
    """Joins the other processes, if `torchrun` says in the environment that there are any."""
    rank, world, local = (int(os.environ.get(name, default)) for name, default in NAMES.items())
    place = device_of(device, local)
    joins = world > 1 and not distributed.is_initialized()
    if place.type == "cuda":
        torch.cuda.set_device(place)
    if joins:
        distributed.init_process_group("nccl" if place.type == "cuda" else "gloo")
    try:
        yield Processes(rank, world, place)
    finally:
        if joins:
            distributed.destroy_process_group()


NAMES = {"RANK": 0, "WORLD_SIZE": 1, "LOCAL_RANK": 0}  # torchrun's variables, and their defaults without it
