"""Tests what chapter 10 says about peak, warm-up and decay, on ninety runs of a small decoder."""

import numpy as np

from glassformer.experiments import experiment, spread, stored
from glassformer.experiments.schedules import CURVE, DECAYS, PEAKS, SEEDS, STEPS, WARMUPS


def final(**settings):
    return spread(run.found["validation_loss"] for run in stored("schedules", **settings))


def test_all_runs_came_to_their_end():
    runs = stored("schedules")
    assert len(runs) == len(PEAKS) * len(WARMUPS) * len(DECAYS) * len(SEEDS) == 90
    assert all(run.found["steps"] == STEPS and len(run.found["loss"]) == CURVE for run in runs)


def test_the_peak_matters_most():
    for warmup in WARMUPS:
        for decay in DECAYS:
            by_peak = [final(peak=peak, warmup=warmup, decay=decay).median for peak in PEAKS]
            assert max(by_peak) - min(by_peak) > 0.29
            assert by_peak.index(max(by_peak)) in (0, len(PEAKS) - 1)


def test_decay_costs_at_low_peaks_and_gains_at_high_ones():
    for warmup in WARMUPS:
        for decay in ("linear", "cosine"):
            for peak in (1e-3, 3e-3):
                none, falling = (final(peak=peak, warmup=warmup, decay=one) for one in ("none", decay))
                assert none.highest < falling.lowest - 0.07
            none, falling = (final(peak=1e-1, warmup=warmup, decay=one) for one in ("none", decay))
            assert falling.highest < none.lowest
    best = min(
        (final(peak=p, warmup=w, decay=d).median, p, d) for p in PEAKS for w in WARMUPS for d in DECAYS
    )
    assert best[1:] == (3e-3, "none")


def test_warm_up_gains_at_three_hundredths_and_hardly_matters_below():
    for decay in DECAYS:
        without, with_it = (final(peak=3e-2, warmup=warmup, decay=decay).median for warmup in WARMUPS)
        assert with_it < without - 0.06
        for peak in (1e-3, 3e-3, 1e-2):
            without, with_it = (final(peak=peak, warmup=warmup, decay=decay).median for warmup in WARMUPS)
            assert abs(with_it - without) < 0.025


def test_in_short_too_a_peak_of_a_tenth_is_too_high():
    low, high = (
        experiment("schedules").measure_shortly(
            peak=peak, warmup=0, decay="none", seed=3, steps=40, characters=20_000
        )
        for peak in (1e-2, 1e-1)
    )
    assert low["validation_loss"] < high["validation_loss"]
    assert np.mean(low["loss"][-5:]) < low["loss"][0] - 0.3
