"""What the settings of the lab allow: round numbers, and small ones for the reason that stands beside them here."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import Field, fields
from typing import Any

import pytest

from lockstep.base.errors import BadInput
from lockstep.base.settings import read_settings
from lockstep.learn.lab import EXPERIMENTS, find_experiment

LEAST: dict[str, tuple[int, str]] = {
    "no delay, no momentum, no noise, no waiting: the plain method": (
        0,
        "bound bounds curvature delays exponential_rate latency_s momenta moments momentum noise_std oldest "
        "optimum_std powers proximal slow_steps_frac start_power static_power threshold",
    ),
    "one of them is enough": (
        1,
        "batch batches delay dimension hidden interval lab_ranks most_doublings participants period periods "
        "problems servers small small_batch worker_batch",
    ),
    "the smaller over the larger": (1, "condition ratios"),
    "two are compared, averaged or scattered": (
        2,
        "axes elems equations large_batch layers orders ranks repetitions runs starts terms trials workers",
    ),
}
"""Lowest values that are small: reason, value, names."""
ABOVE = {
    "nothing at all": (
        0,
        "bandwidth_Bps compress_Bps compute_s concentration convex_step_size curvature curvatures exchange_s gap "
        "inside_frac keep_frac keep_fracs momentum noise noise_std penalty_frac rate size size_B slowdowns step_size "
        "step_sizes steps_of_smoothness target target_frac width",
    ),
    "no slow direction; no mean": (1, "condition shape"),
}
BELOW = {
    "all of it; the step that arrives at once": (
        1,
        "correlation inside_frac keep_fracs momentum penalty_frac target target_frac targets",
    ),
    "the edge of plain descent, 2 / L": (2, "rate step_size step_sizes"),
}
MOST = {
    "all of it; the step 1 / L": (
        1,
        "convex_step_size curvature curvatures densities keep_frac noisy_gap penalty slow_steps_frac step_size "
        "steps_of_smoothness",
    ),
    "the edge of plain descent, 2 / L": (2, "rate"),
}
OTHERS = {
    ("least", "communication-bound", "elems"): 1,
    ("least", "compression-noise", "ranks"): 1,
    ("least", "compression-stability", "ranks"): 1,
    ("least", "gradient-variance", "workers"): 1,
    ("least", "gradient-variance", "batch"): 2,
    ("least", "gradient-variance", "large"): 2,
    ("least", "varying-delay", "delays"): 2,
    ("least", "time-to-accuracy", "period"): 2,
    ("least", "implicit-bias-epochs", "unknowns"): 3,
    ("least", "generalization-gap", "batches"): 4,
    ("least", "data-parallel", "batch"): 4,
    ("least", "trajectory-divergence", "hidden"): 2,
    ("least", "tolerable-delay", "beyond"): 4,
    ("least", "critical-batch-digits", "hidden"): 4,
    ("least", "layerwise-compression", "repetitions"): 4,
    ("least", "compression-time", "bits"): 2,
    ("least", "data-parallel", "steps"): 5,
    ("least", "delay-iterations", "step"): 0,
    ("most", "delay-iterations", "step"): 2,
    ("least", "compression-noise", "repetitions"): 6,
    ("least", "generalization-gap", "examples"): 6,
    ("least", "consistency", "trials"): 8,
    ("least", "local-digits", "steps"): 8,
    ("least", "local-identity", "steps"): 8,
    ("below", "aggregation-error", "step_size"): 1,
    ("below", "client-sampling", "step_size"): 1,
    ("below", "master-weights", "step_size"): 1,
    ("below", "outer-momentum", "step_size"): 1,
    ("most", "local-period", "curvatures"): 4,
    ("most", "tolerable-delay", "step_size"): 2,
    ("most", "implicit-bias", "powers"): 4,
    ("most", "local-bias", "proximal"): 9,
}
"""A law of delays that vary, unequal workers, Student's t with few runs: what one experiment alone needs."""
ODD = {
    ("objectives", "batch", "most"): "the digits are 1797",
    ("critical-batch-digits", "examples", "most"): "the digits are 1797",
    ("critical-batch-digits", "target", "most"): "below the 2.3 of equal chances",
    ("staleness-bounds", "slow_factor", "least"): "a tenth slower",
    ("gradient-range", "most_doublings", "most"): "2^120 times 1e-4 is still a float of 32 bits",
}
"""Ends that are no round numbers."""
ODD_DEFAULTS = {
    ("consistency", "rounds"): 250,
    ("hogwild", "delay"): 16 - 1,
    ("delay-adaptive", "shape"): 1.3,
    ("tolerable-delay", "inside_frac"): 1 / 4,
    ("staleness-bounds", "slow_factor"): 3 / 2,
    ("local-period", "penalty_frac"): 0.056,
    ("local-digits", "steps"): 240,
    ("compression-noise", "keep_frac"): 1 / 4,
    ("compression-noise", "repetitions"): 12,
    ("layerwise-compression", "ratios"): 3 / 2,
    ("compression-time", "bandwidth_Bps"): 10e9 / 8,
    ("large-batch", "epochs"): 15,
    ("implicit-bias", "powers"): 3 / 2,
    ("time-to-accuracy", "bandwidth_Bps"): 10e9 / 8,
    ("time-to-accuracy", "steps"): 240,
}
"""Defaults that are no round numbers: 16 workers, halves and quarters, 10 Gbit/s, multiples of many periods."""


def ends(name: str) -> Iterator[tuple[Field[Any], str, float]]:
    """Every end of every setting of an experiment."""
    for one in fields(find_experiment(name).settings):
        for end in ("least", "most", "above", "below"):
            if one.metadata[end] is not None:
                yield one, end, one.metadata[end]


def is_round(value: float) -> bool:
    """One digit and zeros, a power of two, or as near to 1: 0.98."""
    digits = f"{abs(value):.12e}".partition("e")[0].replace(".", "").rstrip("0")
    near = f"{1 - value:.12e}".partition("e")[0].replace(".", "").rstrip("0") if 0.9 < value < 1 else "00"
    return len(digits) <= 1 or math.log2(abs(value)).is_integer() or len(near) == 1


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_settings_have_round_ends_and_defaults_and_small_ends_have_their_reason(name: str) -> None:
    _ends_are_round_and_values_beyond_them_are_refused(name)
    _small_ends_are_those_of_their_reason(name)
    _defaults_are_allowed_and_round(name)


def _ends_are_round_and_values_beyond_them_are_refused(name: str) -> None:
    kind = find_experiment(name).settings
    for one, end, value in ends(name):
        assert is_round(value) or (name, one.name, end) in ODD, f"{name} {one.name} {end} {value}"
        several = isinstance(one.default, tuple)
        whole = isinstance(one.default[0] if several else one.default, int)
        apart = -1 if end in ("least", "above") else 1
        beyond = value + apart if whole else math.nextafter(value, apart * math.inf)
        outside = value if end in ("above", "below") else beyond
        with pytest.raises(BadInput, match=f"--set {one.name}"):
            read_settings(kind, {one.name: (outside,) if several else outside})
        if end in ("least", "most"):
            read_settings(kind, {one.name: (value,) if several else value})


def _small_ends_are_those_of_their_reason(name: str) -> None:
    reasons = {"least": LEAST, "above": ABOVE, "below": BELOW, "most": MOST}
    for one, end, value in ends(name):
        if abs(value) >= 10 or value != int(value):
            continue
        usual = [number for number, names in reasons[end].values() if one.name in names.split()]
        key = (end, name, one.name)
        assert ([OTHERS[key]] if key in OTHERS else usual) == [value], f"{key} {value}"


def _defaults_are_allowed_and_round(name: str) -> None:
    kind = find_experiment(name).settings
    assert read_settings(kind, {one.name: one.default for one in fields(kind)}) == kind()
    for one in fields(kind):
        for value in one.default if isinstance(one.default, tuple) else (one.default,):
            if isinstance(value, int | float):
                assert value == 0 or is_round(value) or ODD_DEFAULTS[name, one.name] == value
