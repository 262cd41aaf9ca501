"""The table of verbs: every command, which is a function of the same name, in the order of `lockstep --help`."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verb:
    """A command and its function."""

    name: str
    group: str
    """Its heading in `lockstep --help`."""
    home: str
    """The module of `lockstep.api` that holds the function."""
    figures: tuple[str, ...] = ()
    """Dotted keys of the answer that stand in a table of several answers, the one that a curve shows first."""
    series: tuple[str, str] | None = None
    """Of an answer that is rows: what names a row, and its figure."""
    lists: bool = True
    """Whether numeric options take lists and ranges."""


PLAN, INSIDE, PROGRAMS, RUNS = "Plan", "Look inside", "Programs", "Whole runs"
CONVERGENCE, MEASURE, REFERENCE = "Convergence", "Measure", "Reference"
_PLANNED = ("plans.0.step_time_s", "plans.0.mfu_frac", "plans.0.memory_B", "plans.0.bound_by")

TABLE = (
    Verb("plan", PLAN, "verbs", _PLANNED),
    Verb("estimate", PLAN, "verbs", ("step_time_s", "mfu_frac", "tokens_per_s", "memory.total_B", "memory.fits")),
    Verb("memory", PLAN, "verbs", ("memory.total_B", "memory.activations_B", "memory.optimizer_B", "memory.fits")),
    Verb("guide", PLAN, "guiding", ("step_time_s", "mfu_frac", "slower_frac")),
    Verb("export", PLAN, "verbs", lists=False),
    Verb("roofline", INSIDE, "verbs", ("compute_s", "batch_tokens")),
    Verb("sensitivity", INSIDE, "verbs", ("now.step_time_s",)),
    Verb("trace", INSIDE, "tracing", lists=False),
    Verb("messages", PROGRAMS, "exchanges", series=("program", "messages")),
    Verb("collective", PROGRAMS, "exchanges", series=("algorithm", "time_s")),
    Verb("crossover", PROGRAMS, "exchanges", ("crossover_B", "n_star_B")),
    Verb("pipeline", PROGRAMS, "schedules", ("makespan_s", "utilization_frac", "bubble_frac")),
    Verb("overlap", PROGRAMS, "schedules", ("rows.0.step_s", "rows.0.exposed_comm_s", "rows.0.overlap_frac")),
    Verb("tensor", PROGRAMS, "tensor_layers", ("rows.-1.time_s", "rows.-1.speedup", "kept_B")),
    Verb("experts", PROGRAMS, "workers", ("all_to_all_s", "imbalance_slowdown", "dropped_frac", "load.max")),
    Verb("stragglers", PROGRAMS, "workers", ("mean_step_s", "efficiency_frac", "amplification", "p95_s")),
    Verb("balance", PROGRAMS, "workers", ("balanced_s", "static_s", "speedup")),
    Verb("checkpoint", RUNS, "checkpointing", ("overhead_frac", "interval_s", "young_s", "daly_s")),
    Verb("campaign", RUNS, "campaigns", ("days", "cost", "goodput_frac")),
    Verb("scaling", RUNS, "scalings", ("fastest_gpus", "serial_frac")),
    Verb("speedup", RUNS, "scalings", ("best_speedup", "best_workers", "half_efficiency_workers")),
    Verb("converge", CONVERGENCE, "convergence", lists=False),
    Verb("claims", CONVERGENCE, "claiming", lists=False),
    Verb("train", MEASURE, "training"),
    Verb("reproduce", MEASURE, "reproducing", lists=False),
    Verb("runs", MEASURE, "running", lists=False),
    Verb("execute", MEASURE, "executing"),
    Verb("bench", MEASURE, "benching", lists=False),
    Verb("fit", MEASURE, "fitting", lists=False),
    Verb("rig", MEASURE, "rigs", lists=False),
    Verb("catalog", REFERENCE, "shelves", lists=False),
    Verb("validate", REFERENCE, "shelves", lists=False),
    Verb("case", REFERENCE, "case_studies", lists=False),
    Verb("cite", REFERENCE, "verbs", lists=False),
)  # fmt: skip
VERBS = {verb.name: verb for verb in TABLE}
