"""Slow workers: what waiting costs, what helps and at which price, and how to split work over unequal workers."""

from lockstep.stragglers import bounded
from lockstep.stragglers.asynchronous import Asynchronous, asynchronous
from lockstep.stragglers.balance import Balance, balance, gradient_variance
from lockstep.stragglers.bounded import Bounded
from lockstep.stragglers.cost import MITIGATIONS, StragglerCost, parse_mitigation, stragglers
from lockstep.stragglers.found import FoundLate, find_late
from lockstep.stragglers.late import LateRank, parse_late
from lockstep.stragglers.local import Local
from lockstep.stragglers.mitigation import Mitigation, Paid
from lockstep.stragglers.order import order_quantile_s
from lockstep.stragglers.waiting import Backup, Barrier, Drop

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
