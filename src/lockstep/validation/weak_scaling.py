"""`python -m lockstep.validation.weak_scaling`: how much slower a step becomes on more devices, measured and predicted.

    efficiency = seconds of a step on the fewest devices of a series / on the most

A series is rows of one table that differ in nothing but data-parallel ranks and, with them, the batch. What a series
loses beyond its traffic is taken as devices of unequal speed (`Efficiency.rank_spread_frac`): all ranks wait for the
slowest of them (`parallel/waiting.py`). `fitted_spread` finds the spread with which predictions have no bias.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lockstep.validation import dgxc, internlm, llm_foundry
from lockstep.validation.case import Case
from lockstep.workload.parameters import parameters

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
FITTED = {
    "H100 of clouds": ("dgxc_nemo", "dgxc_nemo_experts", "dgxc_maxtext"),
    "A100 of InternLM": ("internlm_7b",),
    "A100 of Oracle Cloud": ("llm_foundry_mpt", "llm_foundry_mpt_2023"),
}
"""Tables whose series tell the spread of a cluster."""
STEPS = 12
"""Of the bisection: to 0.1 / 2^12."""


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
    def device(self) -> str:
        """The device type."""
        return self.smallest[0].cluster.device.name

    @property
    def measured_frac(self) -> float:
        """Efficiency, measured."""
        return _mean(case.measured for case in self.smallest) / _mean(case.measured for case in self.largest)

    def predicted_frac(self, spread_frac: float | None = None) -> float:
        """The same predicted; of devices whose speeds have this spread, if one is given."""
        ends = []
        for rows in (self.smallest, self.largest):
            asked = [case if spread_frac is None else _on(case, spread_frac) for case in rows]
            ends.append(_mean(case.predict(case) for case in asked))
        return ends[0] / ends[1]


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


def fitted_spread(rows: Sequence[Series]) -> float:
    """The spread with which predicted efficiency errs upwards as often as downwards, by bisection."""
    low, high = 0.0, 0.1
    for _ in range(STEPS):
        middle = (low + high) / 2
        errors = [one.predicted_frac(middle) - one.measured_frac for one in rows]
        low, high = (middle, high) if np.median(errors) > 0 else (low, middle)
    return round(high, 3)


def _kind(case: Case) -> object:
    """What rows of a series have in common."""
    layout, job = case.layout, case.job
    per_device = job.recipe.batch / job.devices
    return job.model, replace(job.recipe, batch=1), replace(layout, dp=1), per_device


def _on(case: Case, spread_frac: float) -> Case:
    return replace(case, cluster=replace(case.cluster, own_rank_spread_frac=spread_frac))


def _mean(values: Iterable[float]) -> float:
    return float(np.mean(list(values)))


def main() -> None:
    """Prints every series, and the spread that fits those of OF_DEVICE."""
    found = series()
    for one in found:
        few, most = one.devices
        print(
            f"{one.table:18} {one.model:16} {one.dtype:5} {few:5d} to {most:5d}  measured {one.measured_frac:.3f}"
            f"  predicted {one.predicted_frac():.3f}"
        )
    errors = np.array([one.predicted_frac() - one.measured_frac for one in found])
    print(f"# median |error| {np.median(np.abs(errors)):.3f}, mean {errors.mean():+.3f}, {len(found)} series")
    for cluster, tables in FITTED.items():
        own = [one for one in found if one.table in tables and one.device.startswith(cluster[:4].lower())]
        print(f"{cluster}: rank_spread_frac = {fitted_spread(own):g} of {len(own)} series")


if __name__ == "__main__":
    main()
