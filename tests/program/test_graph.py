"""The task graph keeps every dependency, in topological order, with bounded fan-in; its levels are longest paths."""

from __future__ import annotations

import networkx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.simulate.program import Program, ProgramBuilder, longest_path
from lockstep.simulate.program.graph import FAN_IN, _bounded_fan_in
from program.random_programs import programs, random_program


@settings(derandomize=True, max_examples=40, deadline=None)
@given(programs)
def test_edges_point_forward_and_cover_every_dependency(program: Program) -> None:
    graph = program.graph
    assert 1 <= len(graph.before) <= FAN_IN
    for column in graph.before:
        assert (column[1:] < np.arange(1, graph.num_nodes)).all()
        assert (column >= 0).all()
    reached = networkx.DiGraph()
    reached.add_nodes_from(range(graph.num_nodes))
    reached.add_edges_from((int(u), v) for column in graph.before for v, u in enumerate(column) if v and u)
    for i in range(len(program)):
        for j in program[i].after:
            if graph.node[i] != graph.node[j]:
                assert networkx.has_path(reached, int(graph.node[j]), int(graph.node[i]))
    lanes: dict[int, int] = {}
    for i, lane in enumerate(program.lane.tolist()):
        if lane in lanes:
            assert networkx.has_path(reached, int(graph.node[lanes[lane]]), int(graph.node[i]))
        lanes[lane] = i


@settings(derandomize=True, max_examples=40, deadline=None)
@given(programs, st.integers(0, 1000))
def test_longest_path_equals_networkx(program: Program, seed: int) -> None:
    graph = program.graph
    duration = np.random.default_rng(seed).random(graph.num_nodes)
    duration[0] = 0.0
    other = networkx.DiGraph()
    other.add_nodes_from(range(graph.num_nodes))
    for column in graph.before:
        other.add_edges_from((int(u), v, {"weight": duration[v]}) for v, u in enumerate(column) if v)
    end = longest_path(graph.before, duration)
    assert end.max() == pytest.approx(networkx.dag_longest_path_length(other), rel=1e-12)


@settings(derandomize=True, max_examples=20, deadline=None)
@given(programs)
def test_levels_are_longest_paths(program: Program) -> None:
    graph = program.graph
    assert graph.level[0] == 0
    for v in range(1, graph.num_nodes):
        assert graph.level[v] == 1 + max(graph.level[column[v]] for column in graph.before)
    front = graph.wavefront
    assert sorted(front.order.tolist()) == list(range(graph.num_nodes))
    assert front.start[-1] == graph.num_nodes
    assert len(front.start) == graph.depth + 1


@pytest.mark.parametrize(("width", "expected"), [(4, 0), (5, 2), (16, 4), (17, 5 + 2), (33, 9 + 3)])
def test_helper_nodes_divide_the_predecessors_of_a_node(width: int, expected: int) -> None:
    """Of node `width` that follows all others; a helper is ready before the node whose predecessors it joins."""
    tail, head, key = _bounded_fan_in(np.arange(width), np.full(width, width), width + 1)
    helpers = len(key) - width - 1
    assert np.bincount(head).max() <= FAN_IN
    assert helpers == expected
    assert len(tail) == width + helpers
    tree = networkx.DiGraph(zip(tail.tolist(), head.tolist(), strict=True))
    assert networkx.ancestors(tree, width) == {*range(width), *range(width + 1, len(key))}
    assert (key[width + 1 :] < width).all()
    assert (key[width + 1 :] > width - 1).all()


@pytest.mark.parametrize("width", [1, 4, 5, 16, 17, 65, 1000])
def test_wide_barriers_keep_fan_in_small(width: int) -> None:
    builder = ProgramBuilder(width)
    for rank in range(width):
        builder.compute(rank, float(rank))
    ids = builder.barrier(after=range(width))
    graph = builder.build().graph
    assert len(graph.before) <= FAN_IN
    duration = np.zeros(graph.num_nodes)
    duration[graph.node[:width]] = np.arange(width)
    assert longest_path(graph.before, duration)[graph.node[ids[0]]] == width - 1
    assert graph.depth <= 3 + int(np.ceil(np.log(width + 1) / np.log(FAN_IN)))


@pytest.mark.parametrize(("ranks", "rounds"), [(3, 400), (64, 30)])
def test_ids_out_of_topological_order_give_the_same_timeline(ranks: int, rounds: int) -> None:
    # Written rank by rank, a ring of messages is far from topological order: thin and wide graphs sort differently.
    rank_by_rank, round_by_round = ProgramBuilder(ranks), ProgramBuilder(ranks)
    for rank in range(ranks):
        got = ()
        for _ in range(rounds):
            rank_by_rank.send(rank, (rank + 1) % ranks, 8.0, after=got)
            got = (rank_by_rank.recv(rank, (rank - 1) % ranks, 8.0),)
    last: list[tuple[int, ...]] = [()] * ranks
    for _ in range(rounds):
        for rank in range(ranks):
            round_by_round.send(rank, (rank + 1) % ranks, 8.0, after=last[rank])
        last = [(round_by_round.recv(rank, (rank - 1) % ranks, 8.0),) for rank in range(ranks)]
    one, two = rank_by_rank.build().graph, round_by_round.build().graph
    assert one.depth == two.depth == rounds + 1
    assert one.num_nodes == two.num_nodes


def test_an_empty_program_has_an_empty_graph() -> None:
    program = ProgramBuilder(2).build()
    assert len(program) == 0
    assert program.graph.num_nodes == 1
    assert program.graph.depth == 1
    assert random_program(0, 2, 0).num_messages == 0
