"""Rows of `collective` and `messages`: counted integers, cross-node bytes, simulation beside the price."""

from __future__ import annotations

import json

import pytest

from lockstep.base.errors import BadInput, UnknownName
from lockstep.simulate.collectives import (
    PlainLink,
    algorithms,
    compare,
    compare_on_levels,
    get,
    message_programs,
    messages,
)
from lockstep.simulate.play import simulate
from lockstep.simulate.program import Kind, Program

LINK = PlainLink(2e-6, 1e10, 1e-11)


def cross_node_B(program: Program, node_ranks: int) -> float:
    """Bytes of all messages whose ends are on different nodes of `node_ranks` consecutive ranks."""
    sends = program.kind == Kind.SEND
    crossing = sends & (program.rank // node_ranks != program.peer // node_ranks)
    return float(program.size_B[crossing].sum())


def row(workers: int, params: int, program: str) -> tuple[int, int]:
    found = messages(workers, params, program).rows[0]
    assert found.counted
    assert found.message_elems * found.messages == pytest.approx(found.total_elems)
    return found.messages, found.total_elems


@pytest.mark.parametrize("workers", [1, 2, 3, 8, 13])
def test_message_counts_match_the_formulas_of_three_paradigms(workers: int) -> None:
    params, n = 5 * 7 * workers, workers
    assert row(n, params, "all-to-all") == (n * (n - 1), n * (n - 1) * params)
    assert row(n, params, "parameter-server") == (2 * n, 2 * n * params)
    assert row(n, params, "ring") == (2 * n * (n - 1), 2 * (n - 1) * params)
    assert [r.program for r in messages(n, params).rows] == ["all-to-all", "parameter-server", "ring"]
    if n > 1:
        assert messages(n, params, "ring").rows[0].message_elems == params // n


def test_integers_counted_over_real_sockets_by_hand() -> None:
    p = 4_194_304
    assert row(8, p, "all-to-all") == (56, 234_881_024)
    assert row(8, p, "naive") == (14, 58_720_256)
    assert row(8, p, "ring") == (112, 14 * p)
    assert row(8, p, "rabenseifner") == (48, 14 * p)
    assert row(8, p, "recursive-doubling") == (24, 24 * p)
    assert row(8, p, "tree") == (14, 14 * p)
    assert row(8, p, "direct") == (112, 14 * p)


def test_every_all_reduce_has_a_message_row() -> None:
    named = set(message_programs()) - {"parameter-server", "all-to-all"} | {"full-exchange"}
    assert named == set(algorithms("all-reduce"))
    for found in messages(5, 17, "all").rows:
        assert found.formula
        assert found.total_elems >= 2 * 4 * 17


def test_large_programs_are_counted_by_the_closed_form() -> None:
    found = messages(4096, 10**9, "ring").rows[0]
    assert not found.counted
    assert found.messages == 2 * 4096 * 4095
    assert found.total_elems == 2 * 4095 * 10**9


def test_rows_carry_price_simulation_and_bound() -> None:
    found = compare("all-reduce", 12, 1.2e6, LINK, simulate=lambda program, link: simulate(program, link).makespan_s)
    assert [r.algorithm for r in found.rows] == [
        n for n in algorithms("all-reduce") if not get("all-reduce", n).in_switch
    ]
    for r in found.rows:
        assert r.simulated_s == pytest.approx(r.time_s, rel=1e-12)
        assert r.lower_bound_s <= r.time_s
        assert r.bus_bandwidth_Bps <= r.ports * LINK.bandwidth_Bps
    one_port = [r for r in found.rows if r.ports == 1]
    assert found.best == min(one_port, key=lambda r: r.time_s).algorithm
    json.dumps(found.to_dict(), allow_nan=False)


def test_one_rank_takes_no_time_and_stays_finite() -> None:
    for op in ("all-reduce", "all-gather", "all-to-all", "broadcast"):
        for r in compare(op, 1, 100.0, LINK).rows:
            assert (r.time_s, r.messages, r.bus_bandwidth_Bps) == (0.0, 0, 0.0)


@pytest.mark.parametrize(("ranks", "node_ranks"), [(64, 8), (12, 3), (16, 4), (9, 3), (8, 8), (8, 1)])
def test_bytes_that_cross_nodes(ranks: int, node_ranks: int) -> None:
    nodes, size_B = ranks // node_ranks, 64.0 * 9
    flat = cross_node_B(get("all-reduce", "ring").program(ranks, size_B), node_ranks)
    crossing_edges = nodes if nodes > 1 else 0
    assert flat == pytest.approx(crossing_edges * 2 * (ranks - 1) / ranks * size_B)
    levels = get("all-reduce", "hierarchical").program(ranks, size_B, levels=(node_ranks,))
    assert cross_node_B(levels, node_ranks) == pytest.approx(2 * (nodes - 1) * size_B)
    assert levels.sent_B().sum() == pytest.approx(2 * (ranks - 1) * size_B)
    if nodes > 1 and node_ranks > 1:
        per_node = (flat / nodes) / (2 * (nodes - 1) / nodes * size_B)
        assert per_node == pytest.approx((ranks - 1) / (ranks - node_ranks))


def test_scattered_rank_numbering_crosses_nodes_g_times_as_often() -> None:
    ranks, node_ranks = 64, 8
    order = [node * 8 + local for local in range(8) for node in range(8)]
    ring = get("all-reduce", "ring").program(ranks, 6400.0, order=order)
    assert cross_node_B(ring, node_ranks) == pytest.approx(ring.sent_B().sum())


def test_invalid_arguments_are_refused_at_their_name() -> None:
    with pytest.raises(BadInput, match="workers"):
        messages(0, 10)
    with pytest.raises(BadInput, match="params"):
        messages(3, 0)
    with pytest.raises(UnknownName, match="did you mean ring"):
        messages(3, 10, "rings")
    with pytest.raises(UnknownName, match="way of all-reduce over levels"):
        compare_on_levels("all-reduce", [(8, 0.0, 1e9), (2, 0.0, 1e9)], 1.0, ["rabenseifner"])


def test_an_asynchronous_server_is_never_ranked_best() -> None:
    """It is cheaper because a worker does not wait for the others' gradients: another result, not a faster one."""
    found = compare("parameter-server", 3, 1e6, PlainLink(1e-6, 1e9), ("synchronous", "asynchronous"))
    times = {row.algorithm: row.time_s for row in found.rows}
    assert times["asynchronous"] < times["synchronous"]
    assert found.best == "synchronous"


@pytest.mark.parametrize("ranks", [4, 6, 8])
def test_pairs_swap_where_the_ranks_are_a_power_of_two(ranks: int) -> None:
    """In round t rank i sends to i xor t, which sends to i; otherwise to i + t."""
    program = get("all-to-all", "pairwise").program(ranks, 8.0 * ranks)
    for rank in range(ranks):
        peers = program.peer[(program.kind == Kind.SEND) & (program.rank == rank)].tolist()
        pairs, ring = [rank ^ turn for turn in range(1, ranks)], [(rank + turn) % ranks for turn in range(1, ranks)]
        assert peers == (ring if ranks == 6 else pairs)
