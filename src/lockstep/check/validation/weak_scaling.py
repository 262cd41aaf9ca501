"""How much slower a step becomes on more devices, measured and predicted.

    efficiency = seconds of a step on the fewest devices of a series / on the most

A series is rows of one table that differ in nothing but data-parallel ranks and, with them, the batch.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from lockstep.base.records import dataclass, replace
from lockstep.check.validation import dgxc, internlm, llm_foundry
from lockstep.check.validation.case import Case
from lockstep.describe.workload.parameters import parameters

TABLES = {
    "dgxc_nemo": dgxc.cases,
    "dgxc_nemo_experts": dgxc.expert_cases,
    "dgxc_maxtext": dgxc.maxtext_cases,
    "internlm_7b": internlm.cases,
    "llm_foundry_mpt": llm_foundry.cases,
    "llm_foundry_mpt_2023": llm_foundry.older_cases,
}
FEWEST = 3
"""Sizes of a series."""
SMALLEST = 1e9
"""Parameters of a model; what smaller ones lose is mostly traffic."""


@dataclass(frozen=True, slots=True)
class Series:
    """A weak-scaling series."""

    table: str
    model: str
    dtype: str
    smallest: tuple[Case, ...]
    largest: tuple[Case, ...]

    @property
    def devices(self) -> tuple[int, int]:
        """Fewest and most."""
        return self.smallest[0].job.devices, self.largest[0].job.devices

    @property
    def measured_frac(self) -> float:
        """Efficiency, measured."""
        return _mean(case.measured for case in self.smallest) / _mean(case.measured for case in self.largest)

    def predicted_frac(self) -> float:
        """The same predicted."""
        return _mean(case.predict(case) for case in self.smallest) / _mean(case.predict(case) for case in self.largest)


def series() -> tuple[Series, ...]:
    """Every series of the tables that have some."""
    found = []
    for table, cases in TABLES.items():
        kinds: dict[object, dict[int, list[Case]]] = defaultdict(lambda: defaultdict(list))
        for case in cases():
            if parameters(case.job.model).total >= SMALLEST:
                kinds[_kind(case)][case.job.devices].append(case)
        for sizes in kinds.values():
            if len(sizes) >= FEWEST:
                smallest, largest = (tuple(sizes[end]) for end in (min(sizes), max(sizes)))
                one = smallest[0]
                found.append(Series(table, one.job.model.name, one.job.recipe.dtype, smallest, largest))
    return tuple(found)


def _kind(case: Case) -> object:
    """What rows of a series have in common."""
    layout, job = case.layout, case.job
    per_device = job.recipe.batch / job.devices
    return job.model, replace(job.recipe, batch=1), replace(layout, dp=1), per_device


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))
