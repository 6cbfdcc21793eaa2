"""The characters of the shipped model as a map: which of their vectors are alike?"""

from functools import cache
from typing import Any

import numpy as np
from jaxtyping import Float
from traitlets import Enum, TraitError, Unicode, validate

from glassformer import shipped
from glassformer.widgets.kit.view import Made, View


def plane(rows: Float[np.ndarray, "V D"]) -> tuple[Float[np.ndarray, "V 2"], float]:
    """Projects rows onto the plane that keeps most of their variance; returns the points and the share it keeps.

    The plane of the first two principal components; of each, the entry farthest from 0 is made positive.

    Source: Pearson 1901, "On Lines and Planes of Closest Fit to Systems of Points in Space".
    """
    left, spread, _ = np.linalg.svd(rows - rows.mean(axis=0), full_matrices=False)
    points = left[:, :2] * spread[:2]
    points = points * np.sign(points[np.abs(points).argmax(axis=0), [0, 1]])
    return points, float((spread[:2] ** 2).sum() / (spread**2).sum())


@cache
def _tables() -> tuple[str, dict[str, Float[np.ndarray, "V D"]]]:
    """The shipped model's characters, and its two tables with a row for each."""
    model, tokenizer = shipped.load()
    tables = {"embedding": model.token_embedding.weight, "head": model.unembedding.weight.T}
    characters = tokenizer.decode(np.arange(tokenizer.vocab_size))
    return characters, {name: np.asarray(rows, np.float64) for name, rows in tables.items()}


class CharacterMap(View, module="character_map"):
    """A map of the vectors of the 65 characters in the model `shakespeare`: which are the neighbours of *e*?

    Each character is a row of 128 numbers. The similarity of two is their cosine in all 128 dimensions. The
    map shows each row's direction on the plane that keeps most of the variance of the directions, and says
    how little that is.

    Derived in chapter 02.

    Traits:
        table: "embedding", the rows with which characters are read, or "head", those by which the next is guessed.
        character: the one whose neighbours are shown.
        other: another one, to be compared with it, or "" for none.
        characters: all of them, in the order of their ids. Read-only.
        maps: for each table the `points` (V, 2), the `share` of the variance that the plane keeps, the `lengths`
            (V) of the rows, and the `cosines` of all pairs i < j in ten-thousandths, row by row. Read-only.

    Raises:
        TraitError: another table, or a character that the model does not know.
    """

    table = Enum(["embedding", "head"], "embedding").tag(sync=True)
    character = Unicode("e").tag(sync=True)
    other = Unicode("E").tag(sync=True)
    characters = Made(lambda _: _tables()[0], read_only=True).tag(sync=True)
    maps = Made(lambda _: {name: _map(rows) for name, rows in _tables()[1].items()}, read_only=True).tag(
        sync=True
    )

    @validate("character", "other")
    def _known(self, proposal: dict) -> str:
        given, name = proposal["value"], proposal["trait"].name
        if given == "" and name == "other":
            return given
        if len(given) != 1 or given not in self.characters:
            raise TraitError(f"{name}={given!r} is not one of the model's {len(self.characters)} characters")
        return given


def _map(rows: Float[np.ndarray, "V D"]) -> dict[str, Any]:
    """Returns the view's data about a table, with few digits so that the stored notebook stays small."""
    lengths = np.linalg.norm(rows, axis=1)
    directions = rows / lengths[:, None]
    points, share = plane(directions)
    upper = np.triu_indices(len(rows), k=1)
    return {
        "points": points.round(3).tolist(),
        "share": round(share, 4),
        "lengths": lengths.round(2).tolist(),
        "cosines": (10_000 * (directions @ directions.T)[upper]).round().astype(int).tolist(),
    }
