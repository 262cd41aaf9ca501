"""Quantiles of order statistics: how long the k-th fastest of n takes in 1, 5 or 50 % of the steps.

    P(k-th smallest of n <= x) = P(at least k of n trials succeed with probability F(x))
so its quantile is the law's own quantile at the p that solves  P(Binomial(n, p) >= k) = fraction;  p = fraction^(1/n)
for the slowest.

Source: H. A. David and H. N. Nagaraja, Order Statistics, 3rd ed. 2003, section 2.1.
"""

from __future__ import annotations

from lockstep.simulate import Law
from lockstep.simulate.law import at_least


def order_quantile_s(law: Law, k: int, n: int, fraction: float) -> float:
    """Time below which the k-th smallest of n independent times lies in `fraction` of all cases."""
    return law.quantile_s(fraction ** (1 / n) if k == n else _probability(k, n, fraction))


def _probability(k: int, n: int, fraction: float) -> float:
    """p with P(Binomial(n, p) >= k) = fraction: bisection down to neighbouring floats."""
    low, high = 0.0, 1.0
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if float(at_least(k, n, middle)) < fraction else (low, middle)
    return low
