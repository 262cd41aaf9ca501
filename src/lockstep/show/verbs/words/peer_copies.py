"""Words about copies of the state in the memory of other nodes, for the verbs that save."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lockstep.base.errors import BadInput, located
from lockstep.base.records import dataclass
from lockstep.base.units import format_bandwidth, format_frac, parse_bandwidth_Bps
from lockstep.show.verbs.words.quantity import Bandwidth, Quantity
from lockstep.show.verbs.words.question import whole

if TYPE_CHECKING:
    from lockstep.describe.hardware import Cluster
    from lockstep.show.verbs.words.failures import JobFailures


@dataclass(frozen=True, slots=True)
class PeerCopies:
    """Copies of every node's shard of the state, its own included."""

    nodes: int
    copies: int
    node_Bps: float
    """Rate at which a node sends its shard to its peers."""
    serve_frac: float
    """Share of the failures that leave a copy."""

    def write_s(self, size_B: float) -> float:
        """Seconds to send every shard of a state of `size_B` bytes to its peers."""
        from lockstep.simulate.failures import copy_time_s

        return copy_time_s(size_B, self.nodes, self.copies, self.node_Bps)

    def __str__(self) -> str:
        apart = self.nodes // self.copies
        where = f"in the memory of {self.copies} nodes, {apart} apart, sent at {format_bandwidth(self.node_Bps)} a node"
        return (
            f"every shard of the state is {where}; a copy is left after {format_frac(self.serve_frac)} of the failures"
        )


def read_copies(
    machine: Cluster | None, nodes: int | None, failing: JobFailures, copies: Quantity, bandwidth: Bandwidth | None
) -> PeerCopies:
    """The copies in words; without composed causes a failure loses one node. Raises BadInput."""
    from lockstep.simulate.failures import recoverable_frac, survival_frac

    number = whole(copies, "--copies", minimum=2)
    if nodes is None:
        raise BadInput("needs --nodes or --cluster, to know on how many nodes copies can stand", "--copies")
    node_Bps = _node_Bps(machine) if bandwidth is None else parse_bandwidth_Bps(bandwidth, "--copy-bandwidth")
    if not node_Bps:
        raise BadInput("needs the rate of a node, above 0", "--copy-bandwidth")
    with located("--copies"):
        if failing.causes is None:
            return PeerCopies(nodes, number, node_Bps, survival_frac(nodes, number, 1))
        return PeerCopies(nodes, number, node_Bps, recoverable_frac(failing.causes, nodes, number))


def _node_Bps(machine: Cluster | None) -> float:
    """What all devices of a node send at once; 0 where no cluster says."""
    if machine is None or len(machine.levels) < 2:
        return 0.0
    return machine.bandwidth_per_device_Bps(1) * machine.devices_per_unit(0)
