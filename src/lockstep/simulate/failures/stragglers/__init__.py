"""Slow workers: what waiting costs, what helps and at which price, and how to split work over unequal workers."""

from lockstep.simulate.failures.stragglers import bounded
from lockstep.simulate.failures.stragglers.asynchronous import Asynchronous, asynchronous
from lockstep.simulate.failures.stragglers.balance import Balance, balance, gradient_variance
from lockstep.simulate.failures.stragglers.bounded import Bounded
from lockstep.simulate.failures.stragglers.cost import MITIGATIONS, StragglerCost, parse_mitigation, stragglers
from lockstep.simulate.failures.stragglers.late import FoundLate, LateRank, find_late, parse_late
from lockstep.simulate.failures.stragglers.local import Local
from lockstep.simulate.failures.stragglers.mitigation import Mitigation, Paid
from lockstep.simulate.failures.stragglers.waiting import Backup, Barrier, Drop, any_above_frac, order_quantile_s

__all__ = [
    "MITIGATIONS",
    "Asynchronous",
    "Backup",
    "Balance",
    "Barrier",
    "Bounded",
    "Drop",
    "FoundLate",
    "LateRank",
    "Local",
    "Mitigation",
    "Paid",
    "StragglerCost",
    "any_above_frac",
    "asynchronous",
    "balance",
    "bounded",
    "find_late",
    "gradient_variance",
    "order_quantile_s",
    "parse_late",
    "parse_mitigation",
    "stragglers",
]
