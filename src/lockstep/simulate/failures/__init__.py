"""How often a job fails, how often to save, and what is left of the time."""

from lockstep.simulate.failures.blocks import simulate_blocks
from lockstep.simulate.failures.checkpoint import Checkpoint, checkpoint
from lockstep.simulate.failures.expected import cycle_time_s, pattern_overhead_frac, run_time_s
from lockstep.simulate.failures.failures import (
    KINDS,
    Cause,
    Failures,
    Interruption,
    Observed,
    composed,
    finish_probability_frac,
    llama3,
    of_cluster,
)
from lockstep.simulate.failures.intervals import (
    Optimum,
    best_cycle,
    daly_s,
    exact_s,
    first_order_overhead_frac,
    interval_time_s,
    optimum,
    overhead_frac,
    young_s,
)
from lockstep.simulate.failures.laws import GapLaw, Weibull, parse_gap_law
from lockstep.simulate.failures.long_run import LongRun, overhead_curve, pool_losses, pool_overhead_frac
from lockstep.simulate.failures.losses import LOSSES, Campaigns, Losses, expected_losses
from lockstep.simulate.failures.pattern import Pattern, incremental, single, two_level
from lockstep.simulate.failures.pool import Pool, Service, in_service, lost_nodes
from lockstep.simulate.failures.saving import Saving, copy_time_s, recoverable_frac, survival_frac, write_time_s
from lockstep.simulate.failures.simulation import intervals_of, simulate_campaigns

__all__ = [
    "KINDS",
    "LOSSES",
    "Campaigns",
    "Cause",
    "Checkpoint",
    "Failures",
    "GapLaw",
    "Interruption",
    "LongRun",
    "Losses",
    "Observed",
    "Optimum",
    "Pattern",
    "Pool",
    "Saving",
    "Service",
    "Weibull",
    "best_cycle",
    "checkpoint",
    "composed",
    "copy_time_s",
    "cycle_time_s",
    "daly_s",
    "exact_s",
    "expected_losses",
    "finish_probability_frac",
    "first_order_overhead_frac",
    "in_service",
    "incremental",
    "interval_time_s",
    "intervals_of",
    "llama3",
    "lost_nodes",
    "of_cluster",
    "optimum",
    "overhead_curve",
    "overhead_frac",
    "parse_gap_law",
    "pattern_overhead_frac",
    "pool_losses",
    "pool_overhead_frac",
    "recoverable_frac",
    "run_time_s",
    "simulate_blocks",
    "simulate_campaigns",
    "single",
    "survival_frac",
    "two_level",
    "write_time_s",
    "young_s",
]
