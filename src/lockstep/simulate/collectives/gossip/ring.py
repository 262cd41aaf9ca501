"""Gossip averaging on a ring: in each round every rank averages its buffer with those of its two neighbours.

    time = k w (alpha + S (beta + gamma)),   w = min(2, n - 1) neighbours,  k = `rounds` (default 1)
Weights are 1/(w + 1) each. The distance to the average shrinks per round by the second largest absolute eigenvalue of
the weight matrix, max over j of |1 + 2 cos(2 pi j / n)| / 3 = 1 - O(1/n^2): no rank ever waits for the whole, but
agreement is slow. The program adds; the division by (w + 1)^k is one scaling of the result.

Source: S. Boyd, A. Ghosh, B. Prabhakar, D. Shah, "Randomized gossip algorithms", IEEE TIT 52 (2006); X. Lian et al.,
"Can decentralized algorithms outperform centralized algorithms?", NIPS 2017.
"""

from __future__ import annotations

import numpy as np

from lockstep.base.types.arrays import Array, Floats, Number, Whole
from lockstep.base.types.plain import Json
from lockstep.simulate.collectives.cost import Counts, LinkLike, Terms
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds, cut
from lockstep.simulate.collectives.shares import Split, whole_choice


def settle(ranks: Number, size_B: Number, link: LinkLike, split: Split, rounds: Number = 1) -> Json:
    """The number of rounds, checked."""
    return {"rounds": whole_choice("rounds", rounds)}


def terms(ranks: Number, size_B: Number, link: LinkLike, split: Split, rounds: Number = 1) -> Terms:
    """One whole buffer from each neighbour per round, added."""
    steps = whole_choice("rounds", rounds) * np.minimum(2.0, np.asarray(ranks) - 1.0)
    return Terms(steps, steps * size_B, steps * size_B)


def counts(ranks: Number, size_B: Number, link: LinkLike, split: Split, rounds: Number = 1) -> Counts:
    """One message per rank and neighbour per round."""
    messages = ranks * terms(ranks, size_B, link, split, rounds).steps
    return Counts(messages, messages * size_B, messages * size_B)


def contraction(ranks: Number) -> Number:
    """Factor by which the distance to the average shrinks per round, in the worst direction; 0 for up to 3 ranks."""
    ranks = np.asarray(ranks, dtype=np.float64)
    # Eigenvalues (1 + 2 cos(2 pi k / n))/3: the largest besides 1 is at k = 1; none of 4 ranks and more is below -1/3.
    return np.where(ranks <= 3, 0.0, (1 + 2 * np.cos(2 * np.pi / ranks)) / 3)


def rounds_to_agree(ranks: Number, remaining_frac: float) -> Number:
    """Rounds until the distance to the average is at most `remaining_frac` of the first, in the worst direction."""
    factor = contraction(ranks)
    with np.errstate(divide="ignore"):
        rounds: Floats = np.ceil(np.log(remaining_frac) / np.log(factor) - 1e-12)
    return np.where(factor == 0, np.minimum(1.0, np.asarray(ranks) - 1), rounds)


def write(rounds_: Rounds, members: Array, start: Whole, stop: Whole, rounds: int = 1) -> None:
    """Per round: keep a copy to send, then right neighbour, then left; everybody adds both."""
    ranks = members.shape[1]
    whole = cut(start, stop, 1)
    first, last = whole[:, :1], whole[:, 1:]
    directions = (1, -1)[: min(2, ranks - 1)]
    for _ in range(int(rounds) if directions else 0):
        rounds_.copies(members, first, last, "data", first, "own")
        for direction in directions:
            neighbour = np.roll(members, -direction, axis=1)
            rounds_.messages(members, neighbour, first, last, reduce=True, buffer="own", to_buffer="data")


RING = register(
    Algorithm(
        op="gossip",
        name="ring",
        terms=terms,
        counts=counts,
        formula="k min(2, n-1) (alpha + S (beta + gamma))",
        source="Boyd et al. 2006; Lian et al. 2017",
        choices=("rounds",),
        examples=({"rounds": 3},),
        settle=settle,
        copies=lambda ranks, rounds=1, **choices: ranks * rounds,
        pieces=lambda ranks, **choices: 1,
        write=write,
    )
)
