"""All-reduce as a binomial reduce to one rank, then a linear broadcast from it.

    time = ceil(log2 n) (alpha + S (beta + gamma)) + (n - 1)(alpha + S beta)

Source: definition; its halves are those of R. Thakur, R. Rabenseifner, W. Gropp, IJHPCA 19 (2005).
"""

from __future__ import annotations

from typing import Any

from lockstep.simulate.collectives import Algorithm, Counts, LinkLike, Terms
from lockstep.simulate.collectives.broadcast import linear
from lockstep.simulate.collectives.reduce import binomial
from lockstep.simulate.collectives.rounds import Rounds
from lockstep.simulate.collectives.shares import Split


def terms(ranks: Any, size_B: Any, link: LinkLike, split: Split) -> Terms:
    """Reduce, then broadcast."""
    return binomial.terms(ranks, size_B, link, split) + linear.terms(ranks, size_B, link, split)


def counts(ranks: Any, size_B: Any, link: LinkLike, split: Split) -> Counts:
    """Reduce, then broadcast."""
    return binomial.counts(ranks, size_B, link, split) + linear.counts(ranks, size_B, link, split)


def write(rounds: Rounds, members: Any, start: Any, stop: Any) -> None:
    """Reduce, then broadcast."""
    binomial.write(rounds, members, start, stop)
    linear.write(rounds, members, start, stop)


HALF_TREE = Algorithm(
    op="all-reduce",
    name="half-tree",
    terms=terms,
    counts=counts,
    formula="log2 n (alpha + S (beta + gamma)) + (n-1)(alpha + S beta)",
    source="definition",
    message_count="2(n-1) of p",
    dominated_by="tree",
    pieces=lambda ranks, **choices: 1,
    write=write,
)
