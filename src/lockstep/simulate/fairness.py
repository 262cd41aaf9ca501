"""Max-min fair rates of flows that share capacities (progressive filling).

    Raise all rates together; when a resource is full, its flows are settled at the rate reached; go on with the others.

The result is the only allocation in which every flow crosses a full resource on which no other flow is faster.
Source: D. Bertsekas and R. Gallager, Data Networks, 2nd ed. 1992, section 6.5.2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def max_min_rates(capacity_Bps: Array, flow: Array, resource: Array, num_flows: int) -> Array:
    """Rate of each flow in B/s; flow[i] uses resource[i] (one entry per pair). A flow without resources is
    unlimited.
    """
    rate = np.full(num_flows, np.inf)
    left = np.array(capacity_Bps, dtype=np.float64)
    active = np.ones(len(flow), dtype=bool)
    while active.any():
        users = np.bincount(resource[active], minlength=len(left))
        share = np.divide(left, users, out=np.full(len(left), np.inf), where=users > 0)
        lowest = share.min()
        # Equal shares up to rounding are settled together, so that symmetric flows get the same rate exactly.
        full = share <= lowest * (1 + 1e-12)
        settled = np.unique(flow[active & full[resource]])
        rate[settled] = lowest
        done = np.isin(flow, settled) & active
        left -= lowest * np.bincount(resource[done], minlength=len(left))
        np.maximum(left, 0.0, out=left)
        active &= ~done
    return rate
