"""`Pool`: the nodes of a job, its spares, and lost nodes on their way back.

A failure loses nodes; spares replace them at the restart that follows anyway. Where spares have run out, the job either
waits for a repair, or goes on with fewer nodes ("shrinks") down to `fewest`. It takes repaired nodes back ("grows") at
the restart that the next failure brings, or by a planned one: at the next checkpoint, or at once (`growth`).

    speed_k = whole replicas that k lost nodes leave / all replicas        work per second, 1 while spares last
    MTBF_k  = MTBF / speed_k                                               fewer nodes fail less often
Repairs take an exponential time of mean r each, all at once. k nodes broken at a restart are j at the next failure with

    P(k -> j) = prod over i = j+1 .. k of  (i M_k / r) / (1 + i M_k / r)   x   1 / (1 + j M_k / r)
(i repairs race one failure). With one node per failure, no detection time and no shrinking, the share of time spent
waiting is Erlang's loss formula B(spares + 1, r / M).

Source: A. K. Erlang, 1917, in D. Gross et al., Fundamentals of Queueing Theory, 4th ed. 2008, section 2.5 (loss
formula); the embedded chain is our own.

`Nodes`: the nodes of many simulated campaigns: broken, under repair, and how fast each job therefore is.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.simulate.failures.failures import Failures
from lockstep.simulate.failures.growth import AT_FAILURE, POLICIES, Gaps, grown_gaps
from lockstep.simulate.failures.pattern import Pattern

MOST_NODES = 1_000_000
MOST_STATES = 2000
TAIL = 20.0
"""Standard deviations of the number of broken nodes beyond which states are left out (probability below 1e-12)."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes of a job and what replaces them."""

    nodes: int
    spares: int
    repair_s: float
    fewest: int | None = None
    """Fewest nodes on which the job continues; None means all of them, so that it waits."""
    replica_nodes: int = 1
    """Nodes of a data-parallel replica: a lost one stops the whole replica."""
    lost: tuple[tuple[int, float], ...] = ((1, 1.0),)
    """(nodes lost, share of the failures), shares adding up to 1."""
    grows: str = AT_FAILURE
    """When a job that shrank takes repaired nodes back: one of `growth.POLICIES`."""

    def __post_init__(self) -> None:
        if not 1 <= self.nodes <= MOST_NODES:
            raise BadInput(f"a job has 1 to {MOST_NODES:,} nodes, got {self.nodes}", "nodes")
        if not 0 <= self.spares <= MOST_NODES:
            raise BadInput(f"must be 0 to {MOST_NODES:,}, got {self.spares}", "spares")
        if not 0 < self.repair_s < math.inf:
            raise BadInput(f"a repair takes a finite time above 0, got {self.repair_s:g} s", "repair")
        if self.nodes % self.replica_nodes:
            raise BadInput(
                f"{self.nodes} nodes are not a whole number of replicas of {self.replica_nodes}", "replica-nodes"
            )
        if self.fewest is not None and not 1 <= self.fewest <= self.nodes:
            raise BadInput(f"must be 1 to {self.nodes} nodes, got {self.fewest}", "fewest-nodes")
        if self.grows not in POLICIES:
            raise UnknownName("time to grow", self.grows, POLICIES, "grow")
        if self.grows != AT_FAILURE and (self.replica_nodes > 1 or not self.shrinks):
            raise BadInput(
                "only for jobs that can shrink one node at a time: set --fewest-nodes, with replicas that fit one node",
                "grow",
            )
        if any(number < 0 or frac < 0 for number, frac in self.lost) or not math.isclose(
            math.fsum(frac for _, frac in self.lost), 1.0
        ):
            raise BadInput("shares of the failures must not be negative and add up to 1", "replaced")

    @property
    def shrinks(self) -> bool:
        """Whether the job goes on with fewer nodes."""
        return self.fewest is not None and self.fewest < self.nodes

    @property
    def most_broken(self) -> int:
        """Broken nodes with which the job still runs."""
        fewest = self.nodes if self.fewest is None else self.fewest
        return self.nodes + self.spares - math.ceil(fewest / self.replica_nodes) * self.replica_nodes

    def speed_frac(self, broken: Array) -> Array:
        """Work per second [...], of that on all nodes, with `broken` [...] nodes (at most `most_broken`) away."""
        left = np.minimum(self.nodes, self.nodes + self.spares - np.asarray(broken))
        return np.asarray(left // self.replica_nodes * self.replica_nodes / self.nodes)


@dataclass(frozen=True, eq=False, slots=True)
class Service:
    """A pool in the long run, seen at the restarts of its job."""

    share: Array
    """Of the restarts, by number of broken nodes."""
    share_before: Array
    """The same just before a failure, which is any moment of the up time (gaps are exponential)."""
    speed_frac: Array
    mtbf_s: Array
    wait_s: float
    """Mean wait for repairs per gap, when nothing runs."""
    gaps: Gaps | None = None
    """Where planned restarts end gaps too."""


def lost_nodes(failures: Failures, nodes: int) -> tuple[tuple[int, float], ...]:
    """(nodes lost, share of the failures) for `Pool.lost`: a rack takes all of its nodes at once."""
    shares: dict[int, float] = {}
    for cause in failures.causes:
        number = min(nodes, cause.nodes_lost)
        shares[number] = shares.get(number, 0.0) + cause.rate_per_s / failures.rate_per_s
    return tuple(sorted(shares.items()))


@lru_cache(maxsize=64)
def in_service(pool: Pool, pattern: Pattern, mtbf_s: float, work_s: float = math.nan) -> Service:
    """The stationary state of `pool` under failures every `mtbf_s` of all nodes, noticed as `pattern` says.

    `work_s` between checkpoints matters to a pool that grows by planned restarts.
    """
    top = _top(pool, mtbf_s)
    broken = np.arange(top + 1)
    speed = pool.speed_frac(broken)
    mtbfs_s = mtbf_s / speed
    left, gaps = _at_failure(mtbfs_s, pool.repair_s), None
    if pool.grows != AT_FAILURE:
        gaps = grown_gaps(pattern, pool.grows, pool.repair_s, mtbfs_s, speed, left, work_s)
        left = gaps.failing
    most_lost = max(number for number, _ in pool.lost)
    struck = np.zeros((top + 1, top + most_lost + 1))
    for number, frac in pool.lost:
        struck[:, number : number + top + 1] += frac * left
    noticed = struck @ _after_detection(pool, pattern, struck.shape[1])
    repairs_s = pool.repair_s * np.array(
        [math.fsum(1 / i for i in range(top + 1, k + 1)) for k in range(noticed.shape[1])]
    )
    chain = noticed[:, : top + 1].copy()
    chain[:, top] += noticed[:, top + 1 :].sum(axis=1)
    share = _stationary(chain if gaps is None else chain + gaps.growing)
    before = share @ left
    return Service(share, before / before.sum(), speed, mtbfs_s, float(share @ noticed @ repairs_s), gaps)


def _top(pool: Pool, mtbf_s: float) -> int:
    """The largest number of broken nodes worth a state. Raises BadInput when there are too many."""
    biggest = max(1, *(number for number, _ in pool.lost))
    mean = pool.repair_s / mtbf_s * math.fsum(number * frac for number, frac in pool.lost)
    top = min(pool.most_broken, math.ceil(mean + TAIL * math.sqrt(mean * biggest) + TAIL * biggest))
    if top > MOST_STATES:
        raise BadInput(
            f"about {mean:,.0f} nodes would be down at once, more than the model supports; use a shorter --repair",
            "repair",
        )
    return top


def _at_failure(mtbfs_s: Array, repair_s: float) -> Array:
    """P(k -> j): j of the k nodes broken at a restart are still broken when the next failure strikes."""
    size = len(mtbfs_s)
    chances = np.zeros((size, size))
    for k, mtbf_s in enumerate(mtbfs_s):
        race = np.arange(k + 1) * mtbf_s / repair_s
        passed = np.append(np.cumprod((race / (1 + race))[:0:-1])[::-1], 1.0)
        chances[k, : k + 1] = passed / (1 + race)
    return chances


def _after_detection(pool: Pool, pattern: Pattern, size: int) -> Array:
    """P(k -> j) over the time until a failure is noticed: every repair ends with 1 - e^(-D / r)."""
    loud = (1 - pattern.silent_frac) * _binomials(size, math.exp(-pattern.detection_s / pool.repair_s))
    if not pattern.silent_frac:
        return loud
    return loud + pattern.silent_frac * _binomials(size, math.exp(-pattern.silent_delay_s / pool.repair_s))


def _binomials(size: int, probability: float) -> Array:
    """P(Binomial(k, probability) = j) for k, j < size, row by row: each row adds one trial to the one above."""
    rows = np.zeros((size, size))
    rows[0, 0] = 1.0
    for k in range(1, size):
        rows[k] = (1 - probability) * rows[k - 1]
        rows[k, 1:] += probability * rows[k - 1, :-1]
    return rows


def _stationary(chain: Array) -> Array:
    """The row vector p = p chain with sum 1."""
    size = len(chain)
    equations = np.vstack([(chain.T - np.eye(size))[:-1], np.ones(size)])
    found = np.linalg.solve(equations, np.append(np.zeros(size - 1), 1.0))
    # Shares of 1e-16 come out on either side of 0.
    return np.asarray(np.maximum(found, 0.0) / np.maximum(found, 0.0).sum())


class Nodes:
    """Broken nodes of every campaign that is alive, drawn at first as at any moment of a long run."""

    def __init__(
        self, pool: Pool, pattern: Pattern, mtbf_s: float, campaigns: int, work_s: float, generator: np.random.Generator
    ) -> None:
        self.pool, self.generator = pool, generator
        share = in_service(pool, pattern, mtbf_s, work_s if pool.grows != AT_FAILURE else math.nan).share_before
        self.broken = generator.choice(len(share), size=campaigns, p=share)
        self.lost, self.shares = (np.array(one) for one in zip(*pool.lost, strict=True))

    @property
    def speed_frac(self) -> Array:
        """Work per second of each campaign, of that on all nodes: [campaigns]."""
        return self.pool.speed_frac(self.broken)

    def first_repair_s(self) -> Array:
        """Seconds until the first repair of a node that the job misses [campaigns]; infinite where it misses none."""
        waited_s = self.generator.exponential(self.pool.repair_s / np.maximum(self.broken, 1))
        return np.where(self.speed_frac < 1, waited_s, np.inf)

    def repaired(self, after_s: Array, first_s: Array | None, going: Array) -> None:
        """Repairs in campaigns `going` [campaigns] over `after_s` [going], the first at `first_s` [going] or None."""
        broken = self.broken[going]
        if first_s is None:
            self.broken = self.generator.binomial(broken, np.exp(-after_s / self.pool.repair_s))
            return
        came, missed = first_s <= after_s, np.isfinite(first_s)
        since_s = np.where(missed, np.where(came, after_s - first_s, 0.0), after_s)
        self.broken = self.generator.binomial(np.where(came, broken - 1, broken), np.exp(-since_s / self.pool.repair_s))

    def struck(self, noticed_s: Array, failed: Array) -> Array:
        """Seconds waited for repairs [failed] in campaigns `failed` [campaigns], noticed at `noticed_s` [failed]."""
        broken = self.broken[failed] + self.generator.choice(self.lost, size=int(failed.sum()), p=self.shares)
        broken = self.generator.binomial(broken, np.exp(-noticed_s / self.pool.repair_s))
        waited_s = np.zeros(len(broken))
        while (waiting := broken > self.pool.most_broken).any():
            waited_s[waiting] += self.generator.exponential(self.pool.repair_s / broken[waiting])
            broken = broken - waiting
        self.broken[failed] = broken
        return waited_s
