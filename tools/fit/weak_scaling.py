"""`python tools/fit/weak_scaling.py`: how unequal the speeds of a cluster's devices are, from weak-scaling series.

What a series (`check/validation/weak_scaling.py`) loses beyond its traffic is taken as devices of unequal speed
(`Efficiency.rank_spread_frac`): all ranks wait for the slowest of them (`simulate/parallel/waiting.py`).
`fitted_spread` finds the spread with which predictions have no bias.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from lockstep.check.validation.case import Case
from lockstep.check.validation.weak_scaling import Series, series

FITTED = {
    "H100 of clouds": ("dgxc_nemo", "dgxc_nemo_experts", "dgxc_maxtext"),
    "A100 of InternLM": ("internlm_7b",),
    "A100 of Oracle Cloud": ("llm_foundry_mpt", "llm_foundry_mpt_2023"),
}
"""Tables whose series tell the spread of a cluster."""
STEPS = 12
"""Of the bisection: to 0.1 / 2^12."""


def fitted_spread(rows: Sequence[Series]) -> float:
    """The spread with which predicted efficiency errs upwards as often as downwards, by bisection."""
    low, high = 0.0, 0.1
    for _ in range(STEPS):
        middle = (low + high) / 2
        errors = [on_devices_of(middle, one).predicted_frac() - one.measured_frac for one in rows]
        low, high = (middle, high) if np.median(errors) > 0 else (low, middle)
    return round(high, 3)


def on_devices_of(spread_frac: float, one: Series) -> Series:
    """The series on devices whose speeds have this spread."""
    smallest, largest = (tuple(_on(case, spread_frac) for case in rows) for rows in (one.smallest, one.largest))
    return replace(one, smallest=smallest, largest=largest)


def _device(one: Series) -> str:
    return one.smallest[0].cluster.device.name


def _on(case: Case, spread_frac: float) -> Case:
    return replace(case, cluster=replace(case.cluster, own_rank_spread_frac=spread_frac))


def main() -> None:
    """Prints every series, and the spread that fits those of each cluster of FITTED."""
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
        own = [one for one in found if one.table in tables and _device(one).startswith(cluster[:4].lower())]
        print(f"{cluster}: rank_spread_frac = {fitted_spread(own):g} of {len(own)} series")


if __name__ == "__main__":
    main()
