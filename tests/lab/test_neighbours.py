"""Settings around the defaults: no experiment disagrees with a law that is not for them.

One setting of every second experiment is halved or doubled here, a whole number only halved, which is quicker; the
others are tried at the ends of their settings (`test_extremes.py`). `python tests/lab/neighbours.py` tries all
settings, and pairs.
"""

from __future__ import annotations

import random

import pytest

from effort import ALL, share
from lab.neighbours import Trial, answer, numeric, pairs, singles
from lockstep.base.settings import allowed
from lockstep.learn.lab import EXPERIMENTS

SLOW = ("critical-batch-digits", "algorithmic-stability", "tolerable-delay", "compression-noise", "large-batch")
"""Experiments whose runs take several seconds, or more where a setting is doubled: the script alone tries these."""
QUICK = tuple(name for name in EXPERIMENTS if name not in SLOW)


LONGER = (
    "time-to-accuracy", "trajectory-divergence", "compression-time", "error-feedback", "implicit-bias-epochs",
    "summation-error", "reduction-orders", "delay-stability", "implicit-bias", "local-digits",
)  # fmt: skip
"""Experiments of two seconds or more: a whole number halved, unless all cases are tried."""


def drawn(name: str) -> Trial:
    """One setting of an experiment, halved or doubled; every run of the tests draws the same."""
    counts = {one.name for one in numeric(name) if "whole" in allowed(one)}
    halved, doubled = singles(name, (0.5,)), singles(name, (2.0,))
    halved = list(halved)
    if name in LONGER and not ALL:
        return random.Random(name).choice([trial for trial in halved if counts & set(trial.settings)])
    return random.Random(name).choice([*halved, *(trial for trial in doubled if not counts & set(trial.settings))])


@pytest.mark.parametrize("experiment", [name for name in share(EXPERIMENTS, 3) if name in QUICK])
def test_non_default_settings_raise_no_false_alarm(experiment: str) -> None:
    said = answer(drawn(experiment))
    assert said == "agrees" or said.startswith("refused: --set"), f"{drawn(experiment)}: {said}"


def test_trials_change_only_the_named_settings_within_their_limits() -> None:
    assert {trial.experiment for name in EXPERIMENTS for trial in singles(name)} == set(EXPERIMENTS)
    some = list(pairs(200, seed=3))
    assert len({trial.experiment for trial in some}) > 40
    assert all(len(trial.settings) == 2 for trial in some)
    assert str(Trial("hogwild", {"delay": 7, "densities": (0.01, 0.5)}, seed=2)) == (
        "hogwild --set delay=7 --set densities=0.01,0.5 --seed 2"
    )
