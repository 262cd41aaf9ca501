"""The auxiliary load-balancing loss and what it is at balance.

    loss = E sum over experts of f_e P_e,   f_e share of the assignments, P_e mean router probability
Exactly 1 at balance. Where assignments follow the probabilities, f = P, it is E sum P_e^2 >= 1 (Cauchy-Schwarz) with
equality at balance only, so gradient descent on P flattens the load. For f and P that disagree it can be below 1: it is
a loss, not a measure of imbalance; for that take the coefficient of variation of the load.

Source: W. Fedus et al., "Switch Transformers", JMLR 2022, equations 4 to 6.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Array
from lockstep.simulate.parallel.expert.routing import Routing


def balance_loss(routing: Routing) -> float:
    """Auxiliary loss of a routing, without its small coefficient."""
    return loss_of(routing.load / routing.choice.size, routing.probability)


def loss_of(assigned: Array, probability: Array) -> float:
    """E sum f_e P_e of two distributions [experts]."""
    return float(len(assigned) * np.dot(assigned, probability))
