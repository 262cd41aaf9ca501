"""The experiments of the lab. One joins by a file in `experiments/` that defines `EXPERIMENT`, and a line here."""

from __future__ import annotations

from importlib import import_module

from lockstep.converge.experiment import Experiment
from lockstep.errors import UnknownName

EXPERIMENTS = (
    "objectives",
    "sgd-bound",
    "consistency",
    "hogwild",
    "nonconvex-delay",
    "stale-descent",
    "delay-stability",
    "delay-floor",
    "delay-iterations",
    "varying-delay",
    "async-momentum",
    "async-staleness",
    "staleness-bounds",
    "staleness-weights",
    "delay-adaptive",
    "tolerable-delay",
    "local-identity",
    "local-drift",
    "local-bias",
    "client-sampling",
    "outer-momentum",
    "local-period",
    "local-digits",
    "time-to-accuracy",
    "gradient-variance",
    "data-parallel",
    "noise-scale",
    "critical-batch",
    "learning-rate-scaling",
    "large-batch",
    "generalization-gap",
    "norm-steps",
    "implicit-bias",
    "implicit-bias-epochs",
    "compression-factors",
    "compression-stability",
    "compression-noise",
    "aggregation-error",
    "error-feedback",
    "layerwise-compression",
    "compression-time",
    "index-bits",
    "communication-bound",
    "gradient-range",
    "loss-scaling",
    "master-weights",
    "overflow",
    "reduction-orders",
    "summation-error",
    "trajectory-divergence",
)  # fmt: skip
"""Names in the order of the list that a person sees; the file has underscores for hyphens."""


def find_experiment(name: str, where: str = "EXPERIMENT") -> Experiment:
    """The experiment of that name; `UnknownName` with close ones."""
    wanted = name.replace("_", "-")
    if wanted not in EXPERIMENTS:
        raise UnknownName("experiment", name, EXPERIMENTS, where)
    found: Experiment = import_module(f"lockstep.converge.experiments.{wanted.replace('-', '_')}").EXPERIMENT
    return found


def all_experiments() -> tuple[Experiment, ...]:
    """All of them."""
    return tuple(find_experiment(name) for name in EXPERIMENTS)
