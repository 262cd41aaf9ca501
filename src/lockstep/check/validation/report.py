"""`validate`: published measurements against predictions, signed errors, worst rows first, and a pass or fail.

Beside each table of step times stands what a single constant efficiency does: predicted = FLOPs / (devices x peak x e)
with e the median of the same table, so the constant has seen the answers. Twice: a constant MFU (FLOPs of the model, as
planners usually assume) and a constant HFU (recomputed FLOPs too, which must know the recomputation of each row).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

import numpy as np

from lockstep.base.errors import UnknownName
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Floats
from lockstep.base.types.plain import Json, picked, plain
from lockstep.base.types.progress import Progress
from lockstep.base.types.shown import Shown
from lockstep.check.validation import (
    bert,
    bigscience,
    bigscience_sweep,
    bigscience_v100,
    collectives,
    dgxc,
    expert_layers,
    fine_tuning_open,
    fms_acceleration,
    fms_adapters,
    fms_fsdp,
    h100_steps,
    internevo_memory,
    internlm,
    kernel_rates,
    korthikanti,
    llama3,
    llm_foundry,
    maxtext_tpu,
    megatron_2020,
    megatron_ci,
    memory_finetune,
    nanotron,
    narayanan,
    nemo,
    prime_rl,
    pythia,
    simumax,
    torchao,
    torchtitan,
    vocabulary,
    vtrain,
    zero_bubble,
)
from lockstep.check.validation.case import Case, Table, constant_efficiency_s, step_time_s
from lockstep.check.validation.contradictions import contradicted
from lockstep.check.validation.coverage import observed, sampled
from lockstep.check.validation.ran_out import RanOut, ran_out
from lockstep.check.validation.regret import Regret, regret
from lockstep.check.validation.without_program import without_program
from lockstep.price.layout import memory

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        narayanan.TABLE,
        korthikanti.TIME,
        korthikanti.MEMORY,
        llm_foundry.TABLE,
        llm_foundry.OLDER,
        vtrain.SINGLE,
        vtrain.MULTI,
        nemo.TABLE,
        nemo.LAUNCHED,
        dgxc.TABLE,
        nemo.TUNING,
        dgxc.MAXTEXT,
        dgxc.TUNING,
        maxtext_tpu.TABLE,
        maxtext_tpu.RECIPES,
        llama3.TABLE,
        internlm.TABLE,
        torchtitan.TIME,
        torchtitan.MEMORY,
        torchao.TABLE,
        prime_rl.TIME,
        prime_rl.MEMORY,
        fms_fsdp.TABLE,
        h100_steps.TIME,
        h100_steps.MEMORY,
        fms_acceleration.TIME,
        fms_acceleration.MEMORY,
        fms_adapters.TIME,
        fms_adapters.MEMORY,
        memory_finetune.TIME,
        memory_finetune.TABLE,
        fine_tuning_open.TIME,
        fine_tuning_open.MEMORY,
        internevo_memory.TABLE,
        nanotron.TABLE,
        nanotron.MEMORY,
        simumax.TABLE,
        vocabulary.TIME,
        vocabulary.MEMORY,
        zero_bubble.TIME,
        zero_bubble.MEMORY,
        megatron_2020.TABLE,
        bert.TABLE,
        pythia.TABLE,
        bigscience_sweep.SWEEP,
        bigscience.STATES,
        bigscience_v100.TIME,
        bigscience_v100.MEMORY,
        bigscience_v100.LOGS,
        bigscience_v100.PASSES,
        megatron_ci.STATES,
        megatron_ci.PEAKS,
        megatron_ci.ABOVE,
        expert_layers.EXCHANGE,
        expert_layers.LAYER,
        nemo.EXPERTS,
        dgxc.EXPERTS,
        collectives.TABLE,
        collectives.MICRO,
        kernel_rates.GEMM,
        kernel_rates.STREAM,
    )
}
WORST = 5


@dataclass(frozen=True, slots=True)
class Error:
    """One prediction beside its measurement."""

    row: str
    quantity: str
    measured: float
    predicted: float
    note: str
    stack: str = ""
    left_out: float | None = None
    """Of a step time, the prediction of a fit that knows no row of the same software."""
    covered: bool | None = None
    """Whether the step lies in the interval around that; asked of a share of the rows."""
    fits: bool | None = None
    """Whether the layout, which ran, fits in memory here; asked of the same rows."""

    @property
    def error_frac(self) -> float:
        """Signed: positive when the prediction is larger (slower, more memory) than what was measured."""
        return self.predicted / self.measured - 1.0

    @property
    def left_out_frac(self) -> float | None:
        """The same of a fit that knows no row of the same software."""
        return None if self.left_out is None else self.left_out / self.measured - 1.0

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "row quantity measured predicted error_frac stack left_out_frac note")


@dataclass(frozen=True, slots=True)
class TableReport:
    """All errors of one table, and its verdict."""

    table: Table
    errors: tuple[Error, ...]
    """Worst first; ties in the order of the table."""
    constant_mfu_frac: float | None
    """Median absolute error of one constant MFU; None for tables that hold no step times."""
    constant_hfu_frac: float | None
    """Median absolute error of one constant HFU."""
    regret: Regret | None = None
    """What choosing a layout by its prediction would have cost; None where no question has several layouts."""
    contradicted: tuple[str, ...] = ()
    """Rows that contradict another one."""
    consistent_regret: Regret | None = None
    """The regret without them."""

    @property
    def fracs(self) -> Floats:
        """Signed errors."""
        return np.array([error.error_frac for error in self.errors])

    @property
    def median_abs_frac(self) -> float:
        """Median absolute error: what the tolerance is about."""
        return float(np.median(np.abs(self.fracs)))

    @property
    def left_out_fracs(self) -> Floats:
        """Signed errors of step times when nothing of their software is fitted to."""
        return np.array([error.left_out_frac for error in self.errors if error.left_out_frac is not None])

    @property
    def left_out_median_frac(self) -> float | None:
        """Their median absolute error; None for tables that hold no step times."""
        return float(np.median(np.abs(self.left_out_fracs))) if len(self.left_out_fracs) else None

    @property
    def coverage_frac(self) -> float | None:
        """Share of the rows asked that lie in their interval; None for tables that hold no step times."""
        return _share(error.covered for error in self.errors)

    @property
    def ok(self) -> bool:
        """Whether the median is within the table's tolerance."""
        return self.median_abs_frac <= self.table.tolerance_frac

    def to_dict(self) -> Json:
        """Plain JSON form with the names of the command line."""
        return {
            **picked(self.table, "name quantity source"),
            "rows": len(self.errors),
            "mean_signed_frac": float(np.mean(self.fracs)),
            "median_abs_frac": self.median_abs_frac,
            "max_abs_frac": float(np.max(np.abs(self.fracs))),
            "mean_abs_frac": float(np.mean(np.abs(self.fracs))),
            "left_out_median_abs_frac": self.left_out_median_frac,
            "coverage_frac": self.coverage_frac,
            "constant_mfu_median_abs_frac": self.constant_mfu_frac,
            "constant_hfu_median_abs_frac": self.constant_hfu_frac,
            "fits_frac": _share(error.fits for error in self.errors),
            "regret": plain(self.regret),
            "contradicted": list(self.contradicted),
            "consistent_regret": plain(self.consistent_regret),
            "tolerance_frac": self.table.tolerance_frac,
            "ok": self.ok,
            "worst": plain(self.errors[:WORST]),
        }


@dataclass(frozen=True, slots=True)
class StackReport:
    """Errors of the steps of one software, in the tables that were validated."""

    stack: str
    fracs: Floats
    """Signed errors."""
    left_out_fracs: Floats
    """Those of a fit that knows none of these rows, nor others of the software."""
    coverage_frac: float | None
    """Share of the rows asked that lie in their interval."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        sizes = np.abs(self.left_out_fracs)
        return {
            "stack": self.stack,
            "rows": len(self.fracs),
            "median_abs_frac": float(np.median(np.abs(self.fracs))),
            "left_out_median_abs_frac": float(np.median(sizes)),
            "left_out_p90_abs_frac": float(np.quantile(sizes, 0.9)),
            "left_out_mean_signed_frac": float(np.mean(self.left_out_fracs)),
            "coverage_frac": self.coverage_frac,
        }


@dataclass(frozen=True, slots=True, repr=False)
class Report(Shown):
    """The tables that were validated."""

    tables: tuple[TableReport, ...]

    @property
    def stacks(self) -> tuple[StackReport, ...]:
        """Errors of step times by software, in alphabetical order."""
        errors = [error for table in self.tables for error in table.errors if error.left_out_frac is not None]
        found = []
        for stack in sorted({error.stack for error in errors}):
            here = [error for error in errors if error.stack == stack]
            seen, left_out = ([getattr(one, name) for one in here] for name in ("error_frac", "left_out_frac"))
            found.append(StackReport(stack, np.array(seen), np.array(left_out), _share(one.covered for one in here)))
        return tuple(found)

    @property
    def left_out_median_frac(self) -> float | None:
        """Median over software of its median error when nothing of it is fitted to: what to expect of another."""
        medians = [float(np.median(np.abs(one.left_out_fracs))) for one in self.stacks]
        return float(np.median(medians)) if medians else None

    @property
    def coverage_frac(self) -> float | None:
        """Share of the steps asked that lie in their interval, every program weighing the same."""
        shares = [one.coverage_frac for one in self.stacks if one.coverage_frac is not None]
        return float(np.mean(shares)) if shares else None

    @property
    def fits_frac(self) -> float | None:
        """Share of the steps asked, all of which ran, whose layout fits in memory here."""
        return _share(error.fits for table in self.tables for error in table.errors)

    @property
    def ran_out(self) -> RanOut:
        """Runs that ran out of memory in these tables, and how many of them would fit in memory here."""
        return ran_out(one.table.name for one in self.tables)

    @property
    def ok(self) -> bool:
        """Whether every table is within its tolerance."""
        return all(table.ok for table in self.tables)

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self, "left_out_median_frac coverage_frac fits_frac ran_out stacks tables ok")


def validate(names: Iterable[str] | None = None, progress: Progress | None = None) -> Report:
    """Predicts every row of the named tables (all when None), telling `progress(done, total)`. Raises UnknownName."""
    chosen = list(TABLES) if names is None else list(names)
    for name in chosen:
        if name not in TABLES:
            raise UnknownName("table", name, TABLES)
    found = []
    for done, name in enumerate(chosen, 1):
        found.append(_report(TABLES[name]))
        if progress is not None:
            progress(done, len(chosen))
    return Report(tuple(found))


@cache
def _report(table: Table) -> TableReport:
    cases, timed = table.cases(), table.quantity == "step_time_s"
    asked = {case.row for case in sampled(cases)} if timed else set()
    found = [_error(case, case.row in asked) for case in cases]
    worst = sorted(range(len(found)), key=lambda i: (-abs(found[i].error_frac), i))
    mfu, hfu = (_constant(cases, executed) if timed else None for executed in (False, True))
    errors = tuple(found[i] for i in worst)
    if not timed:
        return TableReport(table, errors, mfu, hfu)
    wrong = contradicted(cases)
    both = [(case, one.predicted) for case, one in zip(cases, found, strict=True)]
    consistent = [pair for pair in both if pair[0].row not in wrong]
    choosing = (regret(*zip(*pairs, strict=True)) if pairs else None for pairs in (both, consistent))
    with_all, without = choosing
    return TableReport(table, errors, mfu, hfu, with_all, wrong, without)


def _error(case: Case, with_interval: bool) -> Error:
    """Predicted with all constants, and of a step time with those that its software had no part in."""
    blind = without_program(case)
    without, covered, fits = None, None, None
    if with_interval:
        one = observed(case)
        without, covered = float(one.ends.step_time_s), one.covered
        fits = bool(memory(case.job, case.cluster, case.layout.grid()).fits)
    # Where nothing was fitted both are the same price, of which one is enough.
    alike = blind is case and case.predict is step_time_s
    predicted = without if alike and without is not None else case.predict(case)
    if case.quantity == "step_time_s" and without is None:
        without = predicted if blind is case else case.predict(blind)
    software = case.job.recipe.software.name
    return Error(case.row, case.quantity, case.measured, predicted, case.note, software, without, covered, fits)


def _share(answers: Iterable[bool | None]) -> float | None:
    """Share of yes among the answers; None without any."""
    asked = [answer for answer in answers if answer is not None]
    return float(np.mean(asked)) if asked else None


def _constant(cases: Sequence[Case], executed: bool) -> float:
    """Median absolute error of one constant efficiency, the median of the same cases."""
    share = np.array([constant_efficiency_s(case, executed) / case.measured for case in cases])
    return float(np.median(np.abs(share / np.median(share) - 1.0)))
