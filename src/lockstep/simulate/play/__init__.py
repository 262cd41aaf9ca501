"""When a program's operations run: exact postal model, noise, contention, queues."""

from lockstep.simulate.play.engine import makespans_s, simulate
from lockstep.simulate.play.fluid import max_min_rates, simulate_contended
from lockstep.simulate.play.law import (
    Constant,
    Empirical,
    Exponential,
    Law,
    LogNormal,
    Normal,
    Pareto,
    Uniform,
)
from lockstep.simulate.play.law_text import parse_law
from lockstep.simulate.play.network import Network, ring_network, ring_on, star_network, tree_network
from lockstep.simulate.play.noise import Noise
from lockstep.simulate.play.packets import Protocol, simulate_packets
from lockstep.simulate.play.prices import Price, durations_s, links_between, sent_per_level_B
from lockstep.simulate.play.queues import QueueRun, Rounds, circulate, closed_loop, queue, restarting
from lockstep.simulate.play.sample import Sample, mean_interval_s, unseen
from lockstep.simulate.play.shared_cores import SharedCores, Timed, simulate_shared_cores
from lockstep.simulate.play.topology import (
    FifoLink,
    FifoLinks,
    LinkCount,
    Topology,
    flat_topology,
    star_topology,
    uplinks_topology,
)

__all__ = [
    "Constant",
    "Empirical",
    "Exponential",
    "FifoLink",
    "FifoLinks",
    "Law",
    "LinkCount",
    "LogNormal",
    "Network",
    "Noise",
    "Normal",
    "Pareto",
    "Price",
    "Protocol",
    "QueueRun",
    "Rounds",
    "Sample",
    "SharedCores",
    "Timed",
    "Topology",
    "Uniform",
    "circulate",
    "closed_loop",
    "durations_s",
    "flat_topology",
    "links_between",
    "makespans_s",
    "max_min_rates",
    "mean_interval_s",
    "parse_law",
    "queue",
    "restarting",
    "ring_network",
    "ring_on",
    "sent_per_level_B",
    "simulate",
    "simulate_contended",
    "simulate_packets",
    "simulate_shared_cores",
    "star_network",
    "star_topology",
    "tree_network",
    "unseen",
    "uplinks_topology",
]
