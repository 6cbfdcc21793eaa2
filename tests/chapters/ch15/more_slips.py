"""More mistakes, remarks and right designs, as in `slips.py` and `right.py`, of all stages."""

import torch
from torch.nn import functional as F  # noqa: N812

from .designs.parts import Adapter, design
from .edits import edited


def adding(model, table):
    """Lets a model add rows of a table to its embeddings, one for each position."""
    right = model.embed
    model.embed = lambda ids, start=0: right(ids, start) + table[start : start + ids.shape[-1]]


class WithABuffer:
    """Adds random rows that are never trained, and shows them in its `state_dict`."""

    def __init__(self):
        super().__init__()
        self.model.register_buffer("wave", 0.02 * torch.randn(32, 24))
        adding(self.model, self.model.wave)

    def weights(self):
        return self.model.state_dict()


class WithAFixedParameter:
    """Adds rows of a parameter that asks for no gradient."""

    def __init__(self):
        super().__init__()
        self.model.wave = torch.nn.Parameter(0.02 * torch.randn(32, 24), requires_grad=False)
        adding(self.model, self.model.wave)


class ForgetsAParameterOfItsState(WithABuffer):
    """Shows its `state_dict`, and does not give its optimizer the table of ids."""

    def __init__(self):
        super().__init__()
        others = [one for name, one in self.model.named_parameters() if name != "table.weight"]
        self.optimizer = torch.optim.AdamW(others, lr=self.rate)


class PlacesByIds:
    """Reads its table of positions at the ids."""

    def __init__(self):
        super().__init__()
        self.by_ids(self.model)

    def by_ids(self, model):
        model.embed = lambda ids, start=0: model.table(ids) + model.places(ids % len(model.places.weight))

    def load(self, weights, config):
        model = super().load(weights, config)
        if hasattr(model, "places"):
            self.by_ids(model)
        return model


class PlacesAlongTheBatch:
    """Counts positions along the axis of texts."""

    def __init__(self):
        super().__init__()
        model = self.model
        model.embed = lambda ids, start=0: (
            model.table(ids) + 20 * model.places(torch.arange(len(ids)))[:, None]
        )


class StepsBeforeBackward:
    def learn(self, ids, targets):
        loss = self.loss(ids, targets)
        self.optimizer.step()
        self.optimizer.zero_grad()
        loss.backward()
        return loss.item()


class KeepsAGraph:
    """Computes a penalty once, from weights that are trained."""

    def __init__(self):
        super().__init__()
        self.penalty = (self.model.table.weight**2).sum()

    def loss(self, ids, targets):
        return super().loss(ids, targets) + 0 * self.penalty


class DropsAfterLoading(Adapter):
    def load(self, weights, config):
        model = super().load(weights, config)
        return lambda ids: F.dropout(model(ids), 0.1)


class FreezesABlock:
    """Trains its first block in its first step alone."""

    def learn(self, ids, targets):
        loss = super().learn(ids, targets)
        for one in self.model.blocks[0].parameters():
            one.requires_grad_(False)
            one.grad = None
        return loss


EMBEDS = '    return p["token_embedding.weight"][np.asarray(ids)]\n'
SHOWS = "        return self.p\n\n    def gradients"


def with_a_table(numbers):
    """Returns the edits of a design that adds such a table, never trains it, and lists it among its weights."""
    return (
        ("\n\ndef encode(", f"\nTABLE = {numbers}\n\n\ndef encode("),
        (EMBEDS, EMBEDS.replace("\n", " + TABLE[: len(ids)]\n")),
        (SHOWS, SHOWS.replace("self.p", "self.p | {'wave': TABLE}")),
    )


ANGLES = "np.arange(32)[:, None] / 10000 ** (np.arange(16) / 16)"
WAVES = edited(*with_a_table(f"0.1 * np.concatenate([np.sin({ANGLES}), np.cos({ANGLES})], axis=1)"))
FIXED = with_a_table("np.random.default_rng(1).normal(size=(32, 32))")
NO_GRADIENTS = ("    def gradients(self", "    def no_gradients(self")

DESIGNS = {
    "a state_dict with a buffer": (design("A9", WithABuffer, positions="none"), ("training",), ()),
    "a parameter that asks for nothing": (
        design("B9", WithAFixedParameter, positions="none"),
        ("training",),
        (),
    ),
    "sinusoids among the weights": (WAVES, ("loss", "training"), ()),
}

SLIPS = {
    "a table left out, in a state_dict": (
        design("C9", ForgetsAParameterOfItsState, positions="none", tied=False), "training", "frozen",
    ),
    "positions read at the ids": (design("D9", PlacesByIds), "model", "positions-by-ids"),
    "load: positions read at the ids": (design("E9", PlacesByIds), "weights", "positions-by-ids"),
    "positions along the axis of texts": (design("I9", PlacesAlongTheBatch), "training", "text-not-learned"),
    "a step before the backward pass": (design("F9", StepsBeforeBackward), "training", "changed-before-backward"),
    "a graph that is used again": (design("G9", KeepsAGraph), "training", "graph-kept"),
    "load: dropout": (DropsAfterLoading, "weights", "dropout-in-evaluation"),
}  # fmt: skip

REMARKED = {
    "a block that stops learning": (design("H9", FreezesABlock), "training", "did not change, although it had changed"),
    "Adam without its corrections": (
        edited(("self.b1**self.t", "self.b1"), ("self.b2**self.t", "self.b2")),
        "training", "divide them by 1 − β₁ᵗ and 1 − β₂ᵗ",
    ),
}  # fmt: skip

CAUSES = {
    "a fixed table of numbers": (edited(*FIXED, NO_GRADIENTS), "training", "leave it out of `weights`"),
    "a fixed table without a gradient": (edited(*FIXED), "loss", "leave it out of `weights`"),
    "a query that does not see its own key": (
        edited(
            (
                "        cache[i] = k, v\n",
                "        cache[i] = k, v\n        if k.shape[1] > 1:\n            k, v = k[:, :-1], v[:, :-1]\n",
            ),
        ),
        "cache", "before its own key and value are in the cache",
    ),
}  # fmt: skip
