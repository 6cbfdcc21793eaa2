"""Judges "Find two errors" (chapter 08): how far printed parameter counts are from their own formulas."""

import numpy as np

from glassformer.exercises.catalogue import exercise
from glassformer.exercises.expect import expect
from glassformer.shapes import Integer


def audit(
    printed: Integer[np.ndarray, " 4"], vocab_size: int, context_length: int, d_model: int, n_layers: int
) -> tuple[Integer[np.ndarray, " 4"], int]:
    """Returns how far each printed term is above its own formula, and what the formulas leave out of GPT-2."""
    V, T, D = vocab_size, context_length, d_model
    terms = np.array([V * D, T * D, n_layers * (12 * D * D + 9 * D), 2 * D])
    return printed - terms, n_layers * 4 * D


audited = exercise("gpt.audit", audit, parts=("slips", "missing"), axes=("", ""))

_PRINTED = np.array([38_597_376, 786_432, 85_026_816, 1_536])
_GPT2 = (50_257, 1024, 768, 12)
_small = np.array([16, 256, 456, 8])
audited.case(
    "a sum without an error, for a model with V = 4, D = 4 and two blocks",
    _small, 4, 64, 4, 2, want=(np.zeros(4, int), 32), what="the audit of 16 + 256 + 456 + 8",
)  # fmt: skip
audited.case(
    "each term compared with its own formula",
    _small + np.array([0, 4, 0, -8]), 4, 64, 4, 2, want=np.array([0, 4, 0, -8]), part="slips",
    what="the audit of 16 + 260 + 456 + 0",
)  # fmt: skip
audited.case(
    "the printed terms of GPT-2 small",
    _PRINTED, *_GPT2, want=np.array([0, 0, 85_026_816 - 85_017_600, 0]), part="slips",
    what="the audit of GPT-2's terms",
)  # fmt: skip
audited.case(
    "what the formula leaves out: four vectors of biases in every block",
    _PRINTED, *_GPT2, want=12 * (768 + 768 + 768 + 768), part="missing", what="the audit of GPT-2's terms",
)  # fmt: skip


@audited.check("with both errors corrected, the sum is that of GPT-2 small: 124,439,808")
def _(audit):
    slips, missing = audit(_PRINTED, *_GPT2)
    corrected = int(_PRINTED.sum()) - int(np.sum(slips)) + int(missing)
    expect(corrected, 124_439_808, "the printed sum minus the slips plus what is missing")
