"""Seconds, bytes and rounds of collectives and parameter servers.

Sources of the physics: the files of `lockstep.simulate.collectives` and `lockstep.simulate.parallel.expert`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import combinations, count, permutations, product

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.types.arrays import Array
from lockstep.check.evidence.claims.deciders import decides
from lockstep.simulate.collectives import PlainLink, among_ranks, crossover, get, lower_bound_s, messages
from lockstep.simulate.collectives.levels import program_on_levels, times_on_levels
from lockstep.simulate.collectives.orders import crossing_B, rank_order
from lockstep.simulate.parallel.expert import Routing, capacity, experts, kept, route
from lockstep.simulate.parallel.group import Levels, on_link
from lockstep.simulate.play import ring_network, simulate, simulate_contended

ALL = "all-reduce"
FREE = PlainLink(latency_s=0.0, bandwidth_Bps=1.0)
"""Of ratios and counts, which depend on no rate."""


@decides("priced")
def time_s(
    ranks: int, size_B: float, latency_s: float, bandwidth_Bps: float, algorithm: str = "ring", op: str = ALL
) -> float:  # fmt: skip
    """Seconds of a collective on one link, by its closed form."""
    return float(get(op, algorithm).price_time_s(ranks, size_B, PlainLink(latency_s, bandwidth_Bps)))


@decides("simulated")
def simulated_s(ranks: int, size_B: float, latency_s: float, bandwidth_Bps: float, algorithm: str = "ring") -> float:
    """Seconds of an all-reduce, by the event simulation of its program."""
    link = PlainLink(latency_s, bandwidth_Bps)
    return float(simulate(get(ALL, algorithm).program(ranks, size_B, link), link).makespan_s)


@decides("simulated")
def slow_link_s(ranks: int, size_B: float, bandwidth_Bps: float, slow_Bps: float) -> float:
    """Seconds of a ring in which one of the links, from the first rank to its neighbour, is slower than the others."""
    network = ring_network(ranks, bandwidth_Bps, first_Bps=slow_Bps)
    return float(simulate_contended(get(ALL, "ring").program(ranks, size_B), network).makespan_s)


@decides("priced")
def added_B(ranks: int, size_B: float, algorithm: str = "ring", op: str = ALL) -> float:
    """Bytes that a rank adds to others, in series: what a second for each of them adds to the time."""
    free, adding = (PlainLink(0.0, 1.0, reduce_s_per_B) for reduce_s_per_B in (0.0, 1.0))
    return float(
        get(op, algorithm).price_time_s(ranks, size_B, adding) - get(op, algorithm).price_time_s(ranks, size_B, free)
    )


@decides("counted")
def sent_B(ranks: int, size_B: float, algorithm: str = "ring", op: str = ALL) -> float:
    """Bytes that the rank which sends most sends, counted on the program."""
    return float(get(op, algorithm).program(ranks, size_B).sent_B().max())


@decides("counted")
def total_B(ranks: int, size_B: float, algorithm: str = "ring", op: str = ALL) -> float:
    """Bytes of all messages, counted on the program."""
    return float(get(op, algorithm).program(ranks, size_B).sent_B().sum())


@decides("counted")
def least_sent_over_bound(ranks: int) -> float:
    """Least over all registered all-reduces of what some rank sends, as a multiple of 2 (n - 1) / n of the buffer."""
    found = []
    for name in among_ranks(ALL):
        try:
            found.append(sent_B(ranks, 1.0, name))
        except BadInput:
            continue  # not for this number of ranks
    return min(found) / (2 * (ranks - 1) / ranks)


@decides("solved")
def fewest_sent(ranks: int) -> int:
    """Fewest entries that some rank must send to sum a vector of n entries over n ranks, by trying every schedule.

    Each entry is summed by its own messages, which carry all that their sender knows of it. The shortest sequences of
    messages are tried for every entry, in all combinations.
    """
    sends = _sends_of_one_entry(ranks)
    return min(int(np.add.reduce(chosen).max()) for chosen in product(sends, repeat=ranks))


def _sends_of_one_entry(ranks: int) -> list[tuple[int, ...]]:
    """How often each rank sends in the shortest message sequences after which all ranks know the sum of one entry."""
    known = tuple(frozenset([rank]) for rank in range(ranks))
    states = {(known, (0,) * ranks)}
    while not (done := {sends for known, sends in states if all(len(one) == ranks for one in known)}):
        states = {after for state in states for after in _after_a_message(*state)}
    return sorted(done)


def _after_a_message(
    known: tuple[frozenset[int], ...], sends: tuple[int, ...]
) -> Iterator[tuple[tuple[frozenset[int], ...], tuple[int, ...]]]:
    for source, target in permutations(range(len(known)), 2):
        told = [have | known[source] if rank == target else have for rank, have in enumerate(known)]
        yield tuple(told), tuple(count + (rank == source) for rank, count in enumerate(sends))


@decides("counted")
def first_sum(ranks: int) -> int:
    """Chunk that rank 0 holds the sum of after the first half of a ring in which rank i sends chunk i first.

    In round s rank i sends chunk i - s to its neighbour, which adds it: entry r counts what came from rank r.
    """
    held = np.stack([np.eye(ranks, dtype=int)] * ranks, axis=1)
    places = np.arange(ranks)
    for turn in range(ranks - 1):
        chunks = (places - turn) % ranks
        held[(places + 1) % ranks, chunks] += held[places, chunks]
    (whole,) = np.flatnonzero((held[0] == 1).all(axis=1))
    return int(whole)


@decides("solved")
def coding_gain() -> float:
    """Fewest messages that tell two ranks both of two bits, sent as they are over those with sums modulo 2 as well.

    Each rank has one of the bits, the sender both; every set of messages is tried. A message is the number of whose
    binary digits it is the sum.
    """
    plain, coded = (
        next(number for number in count(1) if any(map(_tells_both, combinations(range(1, 3 + sums), number))))
        for sums in (False, True)
    )
    return plain / coded


def _tells_both(messages: tuple[int, ...]) -> bool:
    """Whether each bit is in a message."""
    return all(any(one >> bit & 1 for one in messages) for bit in (0, 1))


@decides("priced")
def steps(ranks: int) -> float:
    """Messages in series of a ring all-reduce."""
    return float(get(ALL, "ring").price(ranks, ranks, FREE).latency_steps)


@decides("priced")
def latency_steps(ranks: int, op: str, algorithm: str) -> float:
    """Messages in series of a collective."""
    return float(get(op, algorithm).price(ranks, ranks, FREE).latency_steps)


@decides("priced")
def hierarchical_steps(ranks: int, node: int) -> float:
    """Messages in series of an all-reduce in rings that sums inside nodes of `node` ranks first."""
    found = get(ALL, "hierarchical").price(ranks, ranks, FREE, levels=(node,), inner="ring", outer="ring")
    return float(found.latency_steps)


def _levels(node: int, nodes: int, inner: PlainLink, outer: PlainLink | None = None) -> Levels:
    """Levels of `nodes` nodes of `node` ranks, innermost first."""
    return (*on_link(node, inner), *on_link(nodes, outer or inner))


@decides("priced")
def hierarchical_s(
    node: int,
    nodes: int,
    size_B: float,
    inner_Bps: float,
    outer_Bps: float,
    inner_s: float,
    outer_s: float,
    algorithm: str = "hierarchical",
) -> float:
    """Seconds of an all-reduce that sums inside nodes first; `outer_Bps`: what one rank has of its node's NICs.

    `algorithm` `ring`: as many rings as a node has ranks, each over an adapter of its own.
    """
    levels = _levels(node, nodes, PlainLink(inner_s, inner_Bps), PlainLink(outer_s, outer_Bps))
    return float(times_on_levels(ALL, levels, size_B, [algorithm])[algorithm])


@decides("priced")
def hierarchy_gain(
    node: int, nodes: int, size_B: float, inner_Bps: float, outer_Bps: float, inner_s: float, outer_s: float
) -> float:
    """Time of rings rotated over all adapters, the strongest flat rival, over that of a hierarchy."""
    given = (node, nodes, size_B, inner_Bps, outer_Bps, inner_s, outer_s)
    return hierarchical_s(*given, algorithm="ring") / hierarchical_s(*given)


@decides("solved")
def tie_B(ranks: int, latency_s: float, bandwidth_Bps: float) -> float:
    """Size at which a ring and a tree take equally long."""
    found = crossover(ALL, ranks, PlainLink(latency_s, bandwidth_Bps), ("ring", "tree")).crossover_B
    return math.nan if found is None else found


@decides("priced")
def bound_frac(ranks: int, size_B: float, algorithm: str = "ring") -> float:
    """Time of an all-reduce without latency over the least that any algorithm takes."""
    found_s = get(ALL, algorithm).price_time_s(ranks, size_B, FREE)
    return float(found_s / lower_bound_s(ALL, ranks, size_B, FREE))


def _crossing_B(ranks: int, node: int, order: str = "node") -> float:
    """Bytes of a ring in this order of ranks, for a buffer of one byte, that leave a node of `node` ranks."""
    places = rank_order(order, ranks, node).tolist()
    return crossing_B(get(ALL, "ring").program(ranks, 1.0, order=places), node)


@decides("counted")
def crossing(ranks: int, node: int, order: str = "node") -> float:
    """Buffers that a ring sends between nodes when ranks stand node by node (`node`) or round-robin in it."""
    return _crossing_B(ranks, node, order)


@decides("counted")
def random_crossing(ranks: int, node: int, orders: int, seed: int) -> Array:
    """Buffers that rings in random orders of the ranks send between nodes."""
    return np.array([_crossing_B(ranks, node, f"random:{seed + more}") for more in range(orders)])


@decides("counted")
def hierarchical_crossing(nodes: int, node: int) -> float:
    """Buffers that a hierarchical all-reduce sends between nodes, counted on its program."""
    program, *_ = program_on_levels(ALL, _levels(node, nodes, FREE), 1.0, "hierarchical")
    return crossing_B(program, node)


@decides("counted")
def server_total_elems(workers: int, params: int, program: str = "parameter-server") -> float:
    """Elements of all messages of one synchronisation."""
    return float(messages(workers, params, program).rows[0].total_elems)


@decides("counted")
def server_messages(workers: int, params: int, program: str = "parameter-server") -> float:
    """Messages of one synchronisation."""
    return float(messages(workers, params, program).rows[0].messages)


@decides("priced")
def server_s(workers: int, size_B: float, bandwidth_Bps: float, shards: int, latency_s: float) -> float:
    """Seconds to push all gradients to a parameter server and to pull the sum, one after the other."""
    return _served_s(workers, size_B, PlainLink(latency_s, bandwidth_Bps), shards)


def _served_s(workers: int, size_B: float, link: PlainLink, shards: int) -> float:
    return float(get("parameter-server", "synchronous").price_time_s(workers, size_B, link, shards=shards))


@decides("solved")
def break_even_density(workers: int, shards: int, index_frac: float) -> float:
    """Share of entries below which sparse pushes and pulls at a parameter server beat a dense ring.

    A sparse exchange carries values and indices, `index_frac` bytes of index for a byte of value, through the server's
    shards: density (1 + index_frac) of the dense server's time.
    """
    dense_s = _served_s(workers, workers, FREE, shards)
    return float(get(ALL, "ring").price_time_s(workers, workers, FREE) / (dense_s * (1 + index_frac)))


@decides("simulated")
def received_tokens(ranks: int, tokens: int, top_k: int, skew: float) -> float:
    """Tokens that the rank with the most popular experts receives; every rank routes `tokens`, one expert a rank."""
    found = experts(ranks, top_k, tokens * ranks, ranks, FREE, skew=skew, token_B=1.0)
    return float(found.most_received_B)


@decides("priced")
def shard_gain(workers: int, shards: int) -> float:
    """Time of a parameter server of several shards over that of one."""
    several_s, alone_s = (_served_s(workers, workers, FREE, number) for number in (shards, 1))
    return several_s / alone_s


@decides("counted")
def crossing_ratio(nodes: int, node: int) -> float:
    """Bytes between nodes of a ring in node order over those of a hierarchical all-reduce."""
    return _crossing_B(nodes * node, node) / hierarchical_crossing(nodes, node)


@decides("counted")
def all_to_all_growth(ranks: int, other: int, tokens: int) -> float:
    """Tokens that a worker of `ranks` sends in an all-to-all over those of a worker of `other`."""
    few, many = (sent_B(number, float(tokens), "direct", "all-to-all") for number in (other, ranks))
    return many / few


@decides("counted")
def uplink_s(nodes: int, node: int, size_B: float, bandwidth_Bps: float) -> float:
    """Seconds that the uplink of a node is busy for a ring in node order."""
    return _crossing_B(nodes * node, node) / nodes * size_B / bandwidth_Bps


def _routings(number: int, tokens: int, times: int, seed: int) -> list[Routing]:
    """Tokens routed to one of `number` experts each at random, `times` times."""
    return [route(number, 1, tokens, seed=seed + more) for more in range(times)]


@decides("simulated")
def random_load(number: int, tokens: int, times: int, seed: int) -> Array:
    """Largest loads of `number` experts over the mean."""
    return np.array([one.load.max() / one.load.mean() for one in _routings(number, tokens, times, seed)])


@decides("simulated")
def random_drops(number: int, tokens: int, factor: float, times: int, seed: int) -> Array:
    """Shares of tokens that experts with that capacity factor drop."""
    most = capacity(tokens, 1, number, factor)
    return np.array([1 - kept(one, most).mean() for one in _routings(number, tokens, times, seed)])


@decides("solved")
def tie_growth(ranks: int, latency_s: float, times: float, bandwidth_Bps: float) -> float:
    """Size at which ring and tree tie at a latency that is `times` as long, over the size before."""
    return tie_B(ranks, latency_s * times, bandwidth_Bps) / tie_B(ranks, latency_s, bandwidth_Bps)


@decides("counted")
def node_egress_MB(nodes: int, node: int, size_MB: float) -> float:
    """MB that a node sends to others in a hierarchical all-reduce."""
    return hierarchical_crossing(nodes, node) / nodes * size_MB


@decides("counted")
def crossing_share(ranks: int, node: int) -> float:
    """Share of a ring's bytes that leave a node, in node order."""
    return _crossing_B(ranks, node) / total_B(ranks, 1.0)


@decides("simulated")
def expert_volume_B(number: int, top_k: int, tokens: int, ranks: int, token_B: float) -> float:
    """Bytes that a rank sends to others in an exchange with `number` experts, routed at random."""
    return float(experts(number, top_k, tokens, ranks, FREE, token_B=token_B).sent_per_rank_B)
