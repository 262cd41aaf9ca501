"""Sheets about collectives and servers: C.1, C.4, C.11, C.17 and C.18."""

from __future__ import annotations

from lockstep.check.evidence.claims.deciders import network, tensors
from lockstep.check.evidence.grading.sheet import Answer, Given, Input, Sheet, Slip, whole
from lockstep.simulate.collectives import get


def ring_sent_B(ranks: float, size: float, op: str = network.ALL) -> float:
    """Bytes that a rank of a ring sends."""
    return float(get(op, "ring").price(whole(ranks), size, network.FREE).bytes_sent_per_rank_B)


def _reduced_s(algorithm: str, ranks: float, size: float, latency: float, bandwidth: float) -> float:
    return network.time_s(whole(ranks), size, latency, bandwidth, algorithm)


def _ring_s(ranks: float, size: float, latency: float, bandwidth: float) -> float:
    return _reduced_s("ring", ranks, size, latency, bandwidth)


def _tree_s(ranks: float, size: float, latency: float, bandwidth: float) -> float:
    return _reduced_s("tree", ranks, size, latency, bandwidth)


def _halving_s(ranks: float, size: float, latency: float, bandwidth: float) -> float:
    return _reduced_s("rabenseifner", ranks, size, latency, bandwidth)


def _rings_s(node: float, nodes: float, size: float, inner: float, outer: float, waits: tuple[float, float]) -> float:
    return network.hierarchical_s(whole(node), whole(nodes), size, inner, outer, *waits, algorithm="ring")


def _tiers_s(node: float, nodes: float, size: float, inner: float, outer: float, waits: tuple[float, float]) -> float:
    """Reduce-scatter inside, all-reduce of the shard outside, all-gather inside, all in rings."""
    inside = sum(
        network.time_s(whole(node), size, waits[0], inner, "ring", op) for op in ("reduce-scatter", "all-gather")
    )
    return inside + network.time_s(whole(nodes), size / node, waits[1], outer)


def _layer_B(hidden: float, ranks: float, batch: float, seq: float) -> float:
    return tensors.layer_sent_B(whole(hidden), whole(ranks), whole(batch), whole(seq))


LATENCY = Given("latency", "latency of a message", "time", "us", (10, 4, 6, 15, 20, 25))
BANDWIDTH = Given("bandwidth", "bandwidth of a rank, one way", "bandwidth", "GB/s", (50, 12.5, 20, 25, 40, 100))
RANKS = (256, 16, 32, 64, 128, 512)
SHEETS = (
    Sheet(
        "C.1",
        "A data-parallel step computes, then sums the gradients in one ring over all ranks; nothing overlaps. The "
        "batch of a rank stays the same. Give for each number of ranks the time of the all-reduce, the time of the "
        "step, the share of the step in which a rank computes, and the speed-up over one rank.",
        (
            Given("size", "gradients of a rank", "size", "MB", (700, 200, 350, 500, 1000, 1400)),
            Given("compute", "forward and backward pass", "time", "ms", (125, 60, 80, 150, 200, 240)),
            LATENCY,
            Given("bandwidth", "bandwidth of a rank, one way", "bandwidth", "GB/s", (25, 10, 12.5, 20, 40, 50)),
        ),
        (Input("ranks", "ranks", "count", "", (
            (2, 4, 8, 16, 32, 64, 128, 256), (2, 6, 12, 24, 48, 96, 192), (4, 8, 16, 40, 80, 160, 320),
        ), ("n", "workers", "gpus", "world size")),),
        (
            Answer("all_reduce", "time of the all-reduce", "time", "ms", _ring_s,
                   ("all reduce", "allreduce", "comm", "communication", "exchange", "ring")),
            Answer("step", "time of a step", "time", "ms", lambda compute, all_reduce: compute + all_reduce,
                   ("step", "iteration")),
            Answer("efficiency", "share of the step in which a rank computes", "share", "",
                   lambda compute, step: compute / step, ("efficiency", "compute share", "eff")),
            Answer("speedup", "speed-up over one rank", "number", "", lambda ranks, efficiency: ranks * efficiency,
                   ("speedup", "speed up")),
        ),
        (
            Slip("the all-reduce hidden behind the computing: the larger of the two for their sum",
                 {"step": lambda compute, all_reduce: max(compute, all_reduce)}),
            Slip("the whole buffer in every round of the ring instead of a part", {
                "all_reduce": lambda ranks, size, latency, bandwidth: 2 * (ranks - 1) * (latency + size / bandwidth)}),
            Slip("one latency for all rounds of the ring",
                 {"all_reduce": lambda ranks, size, latency, bandwidth: latency + _ring_s(ranks, size, 0, bandwidth)}),
            Slip("the computing divided by the ranks: strong scaling for weak scaling",
                 {"step": lambda compute, all_reduce, ranks: compute / ranks + all_reduce}),
        ),
    ),
    Sheet(
        "C.4",
        "An all-reduce over all ranks on a flat network, each rank sending and receiving at once. Give for each "
        "size the time of a ring, of a binomial tree (reduce, then broadcast) and of recursive halving and "
        "doubling, and the bytes that each rank of the ring sends.",
        (Given("ranks", "ranks", "count", "", RANKS), LATENCY, BANDWIDTH),
        (Input("size", "buffer of a rank", "size", "MB", (
            (1, 10, 17, 50, 100, 500, 1000), (0.1, 1, 5, 20, 80, 320, 640), (0.5, 2, 8, 30, 120, 240, 960),
        ), ("size", "message", "buffer", "bytes", "d")),),
        (
            Answer("ring", "time of the ring", "time", "ms", _ring_s, ("ring",)),
            Answer("tree", "time of the tree", "time", "ms", _tree_s, ("tree", "binomial", "binomial tree")),
            Answer("halving", "time of halving and doubling", "time", "ms", _halving_s,
                   ("halving", "halving doubling", "halving and doubling", "rabenseifner", "hd")),
            Answer("sent", "bytes that a rank of the ring sends", "size", "MB", ring_sent_B,
                   ("sent", "sent by rank", "bytes sent", "volume")),
        ),
        (
            Slip("the whole buffer in every round instead of a part", {
                "ring": lambda ranks, size, latency, bandwidth: 2 * (ranks - 1) * (latency + size / bandwidth),
                "halving": _tree_s, "sent": lambda ranks, size: 2 * (ranks - 1) * size}),
            Slip("one latency for all rounds", {
                name: lambda ranks, size, latency, bandwidth, law=law: latency + law(ranks, size, 0.0, bandwidth)
                for name, law in (("ring", _ring_s), ("tree", _tree_s), ("halving", _halving_s))
            }),
            Slip("the tree without its log2 of the ranks rounds: as if its buffer went once",
                 {"tree": lambda size, latency, bandwidth: 2 * (latency + size / bandwidth)}),
        ),
    ),
    Sheet(
        "C.11",
        "All workers push dense gradients to a parameter server of several shards and pull the sum, one after the "
        "other; each shard has one link of the given bandwidth, and latency does not count. Give for each number "
        "of shards the time of the server, that of a ring all-reduce over the workers, the quotient of the two, "
        "and the density of sparse gradients below which the server is faster, with an index as long as a value.",
        (
            Given("workers", "workers", "count", "", (256, 288, 320, 384, 512)),
            Given("size", "dense gradients", "size", "MB", (700, 200, 400, 500, 1000, 1400)),
            Given("bandwidth", "bandwidth of a link, one way", "bandwidth", "GB/s", (200, 12.5, 25, 50, 100)),
        ),
        (Input("shards", "shards", "count", "", ((1, 2, 4, 16, 64, 256), (1, 3, 8, 12, 24, 32)),
               ("s", "shard")),),
        (
            Answer("server", "time of the server", "time", "ms",
                   lambda workers, size, bandwidth, shards: network.server_s(
                       whole(workers), size, bandwidth, whole(shards), 0.0),
                   ("server", "parameter server", "ps")),
            Answer("ring", "time of the ring", "time", "ms",
                   lambda workers, size, bandwidth: _ring_s(workers, size, 0.0, bandwidth), ("ring",)),
            Answer("ratio", "server over ring", "number", "", lambda server, ring: server / ring,
                   ("ratio", "quotient", "server over ring", "server / ring", "slowdown")),
            Answer("density", "density below which the server is faster", "share", "",
                   lambda workers, shards: network.break_even_density(whole(workers), whole(shards), 1.0),
                   ("density", "break even density", "break even")),
        ),
        (
            Slip("the bytes of the indices forgotten", {
                "density": lambda workers, shards: network.break_even_density(whole(workers), whole(shards), 0.0)}),
            Slip("the shards forgotten: one server", {
                "server": lambda workers, size, bandwidth: network.server_s(whole(workers), size, bandwidth, 1, 0.0)}),
        ),
    ),
    Sheet(
        "C.17",
        "A transformer layer whose feed-forward block is four times as wide as its hidden size is split over "
        "ranks, with ring all-reduces of activations in 16 bits in the forward and the backward pass. Give for "
        "each number of ranks the bytes that a rank sends for a layer, those of all layers, and the time of "
        "sending over the time of the layer's matrix products, without the core of attention.",
        (
            Given("hidden", "hidden size", "count", "", (12288, 4096, 8192, 16384)),
            Given("seq", "tokens of a sequence", "count", "", (2048, 1024, 4096, 8192)),
            Given("batch", "sequences", "count", "", (1, 2, 4)),
            Given("layers", "layers", "count", "", (96, 32, 40, 48, 80)),
            Given("rate", "rate of the products", "flops", "TFLOP/s", (312, 125, 200, 400, 600)),
            Given("bandwidth", "bandwidth of a rank, one way", "bandwidth", "GB/s", (300, 100, 200, 450)),
        ),
        (Input("ranks", "ranks that share a layer", "count", "", ((2, 4, 8, 16, 32), (2, 4, 16, 32)),
               ("k", "tp", "ranks", "gpus")),),
        (
            Answer("layer", "bytes that a rank sends for a layer", "size", "MB",
                   _layer_B,
                   ("layer", "bytes layer", "sent layer", "per layer")),
            Answer("model", "bytes that a rank sends for all layers", "size", "GB",
                   lambda layer, layers: layer * layers, ("model", "all layers", "all", "total")),
            Answer("share", "time of sending over that of the products", "share", "",
                   lambda hidden, ranks, batch, seq, rate, bandwidth, layer: tensors.product_traffic_frac(
                       whole(hidden), whole(ranks), whole(batch), whole(seq), rate, bandwidth)
                   * layer / _layer_B(hidden, ranks, batch, seq),
                   ("share", "comm over compute", "traffic over computing", "quotient", "ratio")),
        ),
        (
            Slip("whole activations once for each all-reduce, without the 2 (k - 1) / k of a ring", {
                "layer": lambda hidden, ranks, batch, seq: _layer_B(hidden, ranks, batch, seq)
                * ranks / (2 * (ranks - 1))}),
            Slip("products of the forward pass alone", {
                "share": lambda hidden, ranks, batch, seq, rate, bandwidth, layer: 3 * tensors.product_traffic_frac(
                    whole(hidden), whole(ranks), whole(batch), whole(seq), rate, bandwidth)
                * layer / _layer_B(hidden, ranks, batch, seq)}),
        ),
    ),
    Sheet(
        "C.18",
        "An all-reduce over nodes of several ranks, each with an adapter of its own, in two ways: rings rotated "
        "over all adapters, whose hops between nodes are the slowest, and a hierarchy that reduces and scatters in "
        "a ring inside a node, sums the shards over the nodes in rings, and gathers in a ring inside the node. "
        "Give for each number of nodes both times and the gain of the hierarchy.",
        (
            Given("node", "ranks of a node", "count", "", (8, 4)),
            Given("size", "buffer of a rank", "size", "MB", (700, 200, 350, 500, 1000)),
            Given("inner", "bandwidth of a rank inside a node, one way", "bandwidth", "GB/s", (600, 300, 450, 900)),
            Given("outer", "bandwidth of an adapter, one way", "bandwidth", "GB/s", (25, 12.5, 20)),
            Given("inner_latency", "latency inside a node", "time", "us", (1, 2, 3)),
            Given("outer_latency", "latency between nodes", "time", "us", (10, 5, 20)),
        ),
        (Input("nodes", "nodes", "count", "", ((4, 8, 16, 32, 64, 128), (2, 6, 12, 24, 48, 96)), ("nodes", "n")),),
        (
            Answer("rings", "time of the rotated rings", "time", "ms",
                   lambda node, nodes, size, inner, outer, inner_latency, outer_latency: _rings_s(
                       node, nodes, size, inner, outer, (inner_latency, outer_latency)),
                   ("rings", "ring", "flat", "rotated rings")),
            Answer("hierarchy", "time of the hierarchy", "time", "ms",
                   lambda node, nodes, size, inner, outer, inner_latency, outer_latency: _tiers_s(
                       node, nodes, size, inner, outer, (inner_latency, outer_latency)),
                   ("hierarchy", "hierarchical")),
            Answer("gain", "time of the rings over that of the hierarchy", "number", "",
                   lambda rings, hierarchy: rings / hierarchy, ("gain", "speedup", "speed up", "ratio")),
        ),
        (
            Slip("one adapter for the whole node", {
                "hierarchy": lambda node, nodes, size, inner, outer, inner_latency, outer_latency: _tiers_s(
                    node, nodes, size, inner, outer / node, (inner_latency, outer_latency))}),
        ),
    ),
)  # fmt: skip
