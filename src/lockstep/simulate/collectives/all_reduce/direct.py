"""All-reduce by direct exchange: direct reduce-scatter, then direct all-gather.

    time = 2 (n - 1) (alpha + c beta) + (n - 1) c gamma,   c = largest share = S/n
Same messages, bytes and price as the ring on one port; the network must carry all pairs. This is also the parameter
server with one shard on every worker.

Source: E. Chan et al., CCPE 19 (2007); M. Li et al., "Scaling distributed machine learning with the parameter server",
OSDI 2014.
"""

from __future__ import annotations

from lockstep.base.types.arrays import Array, Whole
from lockstep.simulate.collectives.all_gather import direct as all_gather
from lockstep.simulate.collectives.all_reduce.ring import counts, terms
from lockstep.simulate.collectives.reduce_scatter import direct as reduce_scatter
from lockstep.simulate.collectives.registry import Algorithm, register
from lockstep.simulate.collectives.rounds import Rounds


def write(rounds: Rounds, members: Array, start: Whole, stop: Whole) -> None:
    """Direct reduce-scatter, then direct all-gather."""
    reduce_scatter.write(rounds, members, start, stop)
    all_gather.write(rounds, members, start, stop)


DIRECT = register(
    Algorithm(
        op="all-reduce",
        name="direct",
        terms=terms,
        counts=counts,
        formula="2(n-1)(alpha + S/n beta) + (n-1)/n S gamma",
        source="Chan et al. 2007",
        message_count="2n(n-1) of p/n",
        dominated_by="ring",
        write=write,
    )
)
