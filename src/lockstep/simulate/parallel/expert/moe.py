"""`experts(...)`: one mixture-of-experts layer: load, drops, bytes per link, all-to-all balanced and skewed.

The all-to-all reported is one dispatch. A layer makes four such exchanges per step: dispatch and combine forward, both
again backward; combine sends every byte back, so it is the transposed exchange.

    leaving a rank, balanced   d k (n - 1) / n assignments of d tokens per rank: flat in n and in the experts
    slowdown                   all-to-all of the real loads / all-to-all of the same assignments spread evenly
The rank with the most popular experts receives more than it sends on average: for large messages the slowdown tends to
its load over the mean load. Shared experts work on every token where it is: no traffic, and a base load for all.

Source: D. Lepikhin et al., "GShard", ICLR 2021; D. Dai et al., "DeepSeekMoE", ACL 2024 (shared experts).
"""

from __future__ import annotations

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json, picked, plain
from lockstep.base.types.shown import Shown
from lockstep.base.units import format_bandwidth, format_size, format_time
from lockstep.simulate.collectives import LinkLike, get
from lockstep.simulate.parallel.expert import exchange
from lockstep.simulate.parallel.expert.capacity import capacities, kept, shares
from lockstep.simulate.parallel.expert.loss import balance_loss
from lockstep.simulate.parallel.expert.placement import place
from lockstep.simulate.parallel.expert.routing import route

SHOWN_RANKS = 64


@dataclass(frozen=True, slots=True)
class Load:
    """Assignments per expert or rank: largest, mean, coefficient of variation (population)."""

    max: float
    mean: float
    cv: float

    @staticmethod
    def of(counts: Array) -> Load:
        """Of `counts` [experts] or [ranks]."""
        mean = float(np.mean(counts))
        return Load(float(np.max(counts)), mean, float(np.std(counts)) / mean if mean else 0.0)


@dataclass(frozen=True, slots=True, repr=False)
class MoeLayer(Shown):
    """Routing of one layer and what it costs on `ranks` ranks."""

    experts: int
    top_k: int
    tokens: int
    ranks: int
    load: Load
    rank_load: Load
    """After drops and placement."""
    capacity: int | None
    """Assignments that one expert takes, of all ranks together."""
    dropped: int
    dropped_frac: float
    balance_loss: float
    all_to_all_s: float
    balanced_all_to_all_s: float
    imbalance_slowdown: float
    hierarchical_s: float | None
    layer_all_to_all_s: float
    """Dispatch and combine, forward and backward."""
    imbalance_comm_s: float
    """What the layer's four exchanges take beyond balanced ones."""
    lower_bound_s: float
    """What the busiest port alone needs."""
    compute_slowdown: float
    """Expert work of the busiest rank over the mean, shared experts included."""
    sent_per_rank_B: float
    most_received_B: float
    cross_node_B: float | None
    assumptions: tuple[str, ...]
    """The links, and the size of a token on them."""
    size_B: Array
    """Bytes from rank to rank, the diagonal without link."""

    def to_dict(self) -> Json:
        """Plain JSON form with the names of the command line; the matrix of bytes for few ranks only."""
        pair_B = plain(self.size_B) if self.ranks <= SHOWN_RANKS else None
        return picked(self, without="size_B") | {"pair_B": pair_B}


def experts(
    experts: int,
    top_k: int,
    tokens: int,
    ranks: int,
    link: LinkLike,
    *,
    skew: float = 0.0,
    capacity_factor: float | None = None,
    token_B: float = 8192.0,
    shared: int = 0,
    temperature: float = 1.0,
    noise: float = 1.0,
    placement: str = "contiguous",
    node_ranks: int | None = None,
    outer: LinkLike | None = None,
    seed: int = 0,
) -> MoeLayer:
    """Routes `tokens` (of all ranks together) and prices the exchange.

    `link` joins the ranks, or those of one node of `node_ranks` when `outer` joins the nodes. `capacity_factor` None
    drops nothing; else every rank drops of its own tokens. Raises BadInput, UnknownName.
    """
    if shared < 0 or not 0 <= token_B < np.inf:
        raise BadInput(f"shared experts ({shared}) and bytes per token ({token_B}) cannot be negative", "shared")
    if tokens < ranks:
        raise BadInput(f"{tokens} tokens on {ranks} ranks; every rank needs at least one", "tokens")
    routing = route(experts, top_k, tokens, skew=skew, temperature=temperature, noise=noise, seed=seed)
    most = None if capacity_factor is None else capacities(tokens, top_k, experts, capacity_factor, ranks)
    mask = kept(routing, most)
    owner = place(placement, routing.load, ranks)
    assigned = assignments(owner[routing.choice], mask, ranks)
    size_B = assigned * token_B
    work = assigned.sum(axis=0) + shared * tokens / ranks
    flat_s = exchange.time_s(exchange.flat(size_B, link, outer, node_ranks))
    back_s = exchange.time_s(exchange.flat(size_B.T, link, outer, node_ranks))
    even_s = _even_s(float(size_B.sum()) / ranks, ranks, link, outer, node_ranks)
    port_B = np.maximum(_leaving(size_B).sum(axis=1), _leaving(size_B).sum(axis=0))
    fastest_Bps = max(link.bandwidth_Bps, (outer or link).bandwidth_Bps)
    two_level_s = None
    if node_ranks is not None and outer is not None:
        two_level_s = exchange.time_s(exchange.hierarchical(size_B, link, outer, node_ranks))
    dropped = int(mask.size - np.count_nonzero(mask))
    return MoeLayer(
        experts=experts,
        top_k=top_k,
        tokens=tokens,
        ranks=ranks,
        load=Load.of(routing.load),
        rank_load=Load.of(assigned.sum(axis=0)),
        capacity=None if most is None else int(most.sum()),
        dropped=dropped,
        dropped_frac=dropped / mask.size,
        balance_loss=balance_loss(routing),
        all_to_all_s=flat_s,
        balanced_all_to_all_s=even_s,
        imbalance_slowdown=flat_s / even_s if even_s else 1.0,
        hierarchical_s=two_level_s,
        layer_all_to_all_s=2 * (flat_s + back_s),
        imbalance_comm_s=2 * (flat_s + back_s) - 4 * even_s,
        lower_bound_s=float(port_B.max() / fastest_Bps),
        compute_slowdown=float(work.max() / work.mean()) if work.any() else 1.0,
        sent_per_rank_B=float(_leaving(size_B).sum()) / ranks,
        most_received_B=float(_leaving(size_B).sum(axis=0).max()),
        cross_node_B=None if node_ranks is None else cross_node_B(size_B, node_ranks),
        assumptions=_assumptions(token_B, ranks, link, outer, node_ranks),
        size_B=size_B,
    )


def _assumptions(
    token_B: float, ranks: int, link: LinkLike, outer: LinkLike | None, node_ranks: int | None
) -> tuple[str, ...]:
    """What the exchange is priced on."""
    inside, across = (None if one is None else _told(one) for one in (link, outer))
    sent = f"a token takes {format_size(token_B)} on the link"
    if node_ranks is None or across is None:
        return f"{ranks} ranks on one link of {inside}", sent
    return f"{ranks} ranks, {node_ranks} to a node: {inside} inside a node, {across} between nodes", sent


def _told(link: LinkLike) -> str:
    return f"{format_time(float(link.latency_s))} and {format_bandwidth(float(link.bandwidth_Bps))}"


def assignments(owner: Array, mask: Array, ranks: int) -> Array:
    """Assignments [from rank, to rank]."""
    home = np.repeat(np.arange(ranks), shares(len(owner), ranks))
    pair = np.repeat(home[:, np.newaxis], owner.shape[1], axis=1) * ranks + owner
    return np.bincount(pair[mask], minlength=ranks**2).reshape(ranks, ranks)


def cross_node_B(size_B: Array, node_ranks: int) -> float:
    """Bytes between different nodes, of `size_B` [ranks, ranks]."""
    node = np.arange(len(size_B)) // node_ranks
    return float(size_B[node[:, np.newaxis] != node].sum())


def _leaving(size_B: Array) -> Array:
    return np.asarray(size_B * (1 - np.eye(len(size_B))))


def _even_s(rank_B: float, ranks: int, link: LinkLike, outer: LinkLike | None, node_ranks: int | None) -> float:
    """The exchange when every rank has the same for every other: the collective's own price on one link."""
    if outer is None or node_ranks is None:
        return float(get("all-to-all", "direct").price_time_s(ranks, rank_B, link))
    return exchange.time_s(exchange.flat(np.full((ranks, ranks), rank_B / ranks), link, outer, node_ranks))
