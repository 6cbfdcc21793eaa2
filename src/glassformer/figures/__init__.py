"""The book's figures, and its source code shown as a figure. Each states its message in words as well."""

from glassformer._checks.extras import matplotlib as _  # noqa: F401 - or say how to install it
from glassformer.figures.attention_map import attention_map
from glassformer.figures.loss_curve import LossCurve, smoothed
from glassformer.figures.machine import machine_so_far, machine_with_notes
from glassformer.figures.page import one_page
from glassformer.figures.placements import placements
from glassformer.figures.source import show_source
from glassformer.figures.style import ROLES, SIGNED, WEIGHTS, figure

__all__ = [
    "ROLES",
    "SIGNED",
    "WEIGHTS",
    "LossCurve",
    "attention_map",
    "figure",
    "machine_so_far",
    "machine_with_notes",
    "one_page",
    "placements",
    "show_source",
    "smoothed",
]
