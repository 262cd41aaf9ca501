"""`fit_products`: the device's curve of matrix products, refitted to the shapes that a trace recorded.

The curve (`describe/hardware/device.py`) is linear in u = 1/e and c:

    t = u flops / peak + c bytes / bandwidth

so both follow by least squares on relative errors over the shapes, one time each, the median of its runs. Shapes of one
model are often too alike to tell both, so the curve as it was counts as further evidence, with standard deviations of
`PRIOR_FRAC` of u and c: what the shapes do not tell stays near it, and the intervals say how near. No product is faster
than the datasheet's peak: e is at most 1.

    minimise  sum_i ((u a_i + c b_i - t_i) / (s t_i))^2 + sum over u, c of ((x - x0) / d)^2
    d         max(PRIOR_FRAC x0, PRIOR_LEAST)

s is the spread of the relative errors. Left out are products that take less than `LEAST_S`, in which a kernel's start
and end count, those that read and write for longer than they multiply, which the curve prices by their bytes alone, and
those that a fit to all misses by more than `OUTLIER` robust standard deviations, as where a shape has a bad kernel.

Source: T. Hastie, R. Tibshirani, J. Friedman, "The Elements of Statistical Learning" (2009), 3.4.1, for least squares
with a normal prior.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Bools, Floats
from lockstep.base.types.plain import Json, picked
from lockstep.describe.hardware import Device
from lockstep.explain.read.products import Product

LEAST_SHAPES = 6
LEAST_S = 10e-6
PRIOR_FRAC = np.array((0.1, 0.5))
"""Assumed: how far e and c of one device and run lie from those of its curve, which is a mean over runs."""
PRIOR_LEAST = np.array((0.0, 0.5))
OUTLIER, LEAST_OUTLIER_FRAC, MAD_TO_SIGMA = 6.0, 0.2, 1.4826
"""Assumed: nobody's curve is right to a fifth at every shape."""
LEAST_SPREAD = 0.01
ROUNDS = 5
SIGMAS = 1.96
Interval = tuple[float, float]


@dataclass(frozen=True, slots=True)
class ProductFit:
    """The constants of a device's products as a run shows them, with 95 % intervals."""

    max_frac: float
    max_frac_ci95: Interval
    bytes_factor: float
    bytes_factor_ci95: Interval
    products: tuple[Product, ...]
    """All that the fit rests on, those that took longest first."""
    before_frac: tuple[float, ...]
    """Signed error at every product of the curve as it was."""
    after_frac: tuple[float, ...]
    """The same of the fitted curve."""
    left_out: tuple[tuple[Product, float], ...] = ()
    """(product, how many times as long as the curve says it takes) of those that do not follow it."""

    def to_dict(self) -> Json:
        """Plain JSON form."""
        found = picked(self, without="left_out")
        return found | {"left_out": [one.to_dict() | {"times": times} for one, times in self.left_out]}


def fit_products(products: Sequence[Product], device: Device, beside: float = 1.0) -> ProductFit:
    """The constants on a device by recorded shapes. Raises BadInput, in words, where too few are recorded.

    `beside` is what products take in the step that was recorded over what they take alone
    (`describe/hardware/power.py`), as the curve is that of products alone.
    """
    chosen = [one for one in products if _tells(one, device)]
    if len(chosen) < LEAST_SHAPES:
        raise BadInput(
            f"{len(chosen)} shapes of matrix products that take {LEAST_S * 1e6:.0f} us or more are recorded, "
            f"{LEAST_SHAPES} are needed; profile with record_shapes=True"
        )
    terms = np.array([_terms(one, device) for one in chosen])
    time_s = np.array([one.time_s for one in chosen]) / beside
    before = np.array((1 / device.efficiency.matmul_max_frac, device.efficiency.matmul_bytes_factor))
    kept = _following(terms, time_s, _constants(terms / time_s[:, np.newaxis], before)[0])
    found, deviation = _constants((terms / time_s[:, np.newaxis])[kept], before)
    times = 1 / (1 + np.array(_errors(terms, time_s, found)))
    low, high = found - SIGMAS * deviation, found + SIGMAS * deviation
    return ProductFit(
        max_frac=float(1 / found[0]),
        max_frac_ci95=(float(1 / high[0]), float(1 / max(1.0, low[0]))),
        bytes_factor=float(found[1]),
        bytes_factor_ci95=(float(max(0.0, low[1])), float(high[1])),
        products=tuple(chosen[i] for i in np.flatnonzero(kept).tolist()),
        before_frac=_errors(terms[kept], time_s[kept], before),
        after_frac=_errors(terms[kept], time_s[kept], found),
        left_out=tuple((chosen[i], float(times[i])) for i in np.flatnonzero(~kept).tolist()),
    )


def _following(terms: Floats, time_s: Floats, constants: Floats) -> Bools:
    """Which products are near a fitted curve; all where too few would be left."""
    errors = np.log1p(_errors(terms, time_s, constants))
    away = np.abs(errors - np.median(errors))
    found: Bools = away <= max(LEAST_OUTLIER_FRAC, OUTLIER * MAD_TO_SIGMA * float(np.median(away)))
    return found if found.sum() >= LEAST_SHAPES else np.ones(len(time_s), dtype=bool)


def _tells(one: Product, device: Device) -> bool:
    """Whether a product's time is that of its arithmetic, in a format whose unit is known."""
    # Which unit multiplies fp32 is a setting of torch, where a device has one for TF32.
    if one.dtype not in device.peak_flops or (one.dtype == "fp32" and "tf32" in device.peak_flops):
        return False
    at_peak_s, moved_s = _terms(one, device)
    return one.time_s >= LEAST_S and at_peak_s > moved_s


def _terms(one: Product, device: Device) -> tuple[float, float]:
    """Seconds at the peak, and of the bytes at the datasheet's bandwidth."""
    return one.flops / device.peak_flops[one.dtype], one.size_B / device.memory_bandwidth_Bps


def _constants(relative: Floats, before: Floats) -> tuple[Floats, Floats]:
    """(u, c) and their standard deviations; `relative`: both terms over the time, `[products, 2]`."""
    usual = np.diag(1 / np.maximum(PRIOR_FRAC * before, PRIOR_LEAST))
    found, spread = before, LEAST_SPREAD
    for _ in range(ROUNDS):
        rows = np.vstack((relative / spread, usual))
        wanted = np.concatenate((np.ones(len(relative)) / spread, usual @ before))
        found = np.asarray(np.linalg.lstsq(rows, wanted, rcond=None)[0], dtype=np.float64)
        for place, least in ((0, 1.0), (1, 0.0)):
            if found[place] < least:
                other, found[place] = 1 - place, least
                column = rows[:, other]
                found[other] = column @ (wanted - least * rows[:, place]) / (column @ column)
        spread = max(LEAST_SPREAD, float(np.std(relative @ found - 1, ddof=min(2, len(relative) - 1))))
    rows = np.vstack((relative / spread, usual))
    return found, np.sqrt(np.diag(np.linalg.inv(rows.T @ rows)))


def _errors(terms: Floats, time_s: Floats, constants: Floats) -> tuple[float, ...]:
    """Signed relative errors of a curve."""
    return tuple((np.maximum(terms @ constants, terms[:, 1]) / time_s - 1).tolist())
