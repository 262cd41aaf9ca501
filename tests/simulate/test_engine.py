"""P1, P4, P5, P8: the engine gives the longest path, exactly, by every road and against every oracle."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.base.errors import BadInput
from lockstep.simulate.collectives import get
from lockstep.simulate.play import durations_s, sent_per_level_B, simulate, simulate_contended, tree_network
from lockstep.simulate.play.engine import node_start, wavefront_end
from lockstep.simulate.program import Kind, Program, ProgramBuilder, longest_path
from program.random_programs import Link, oracle, price, programs
from program.test_executor import ring_all_reduce

links = st.builds(
    Link,
    st.sampled_from([0.0, 1e-6, 3.3e-5]),
    st.sampled_from([1e6, 7e9, 4.5e11]),
    st.sampled_from([0.0, 1e-12, 2e-11]),
)


@settings(derandomize=True, max_examples=100, deadline=None)
@given(programs, links)
def test_the_engine_equals_an_independent_longest_path(program: Program, link: Link) -> None:
    timeline = simulate(program, link, price=price)
    start, end = oracle(program, link)
    np.testing.assert_array_equal(timeline.start_s, start)
    np.testing.assert_array_equal(timeline.end_s, end)


@settings(derandomize=True, max_examples=50, deadline=None)
@given(programs, st.integers(0, 1000), st.integers(1, 5))
def test_lists_and_levels_agree_bit_for_bit(program: Program, seed: int, draws: int) -> None:
    graph = program.graph
    duration = np.random.default_rng(seed).random((graph.num_nodes, draws))
    duration[0] = 0.0
    end = wavefront_end(graph, duration)
    for draw in range(draws):
        np.testing.assert_array_equal(end[:, draw], longest_path(graph.before, duration[:, draw]))
        np.testing.assert_array_equal(end[:, draw], wavefront_end(graph, duration[:, draw].copy()))
    np.testing.assert_array_equal((node_start(graph, end) + duration)[1:], end[1:])


def simpy_ends(program: Program, link: Link) -> list[float]:
    """Event simulation with one process per lane; a message, barrier or collective is a meeting of its members."""
    environment = simpy.Environment()
    time_s = durations_s(program, link, price).tolist()
    finished = [environment.event() for _ in range(len(program))]
    arrived: dict[object, list[int]] = {}
    end = [0.0] * len(program)

    def key(i: int) -> tuple[object, int]:
        if program.match[i] >= 0:
            return ("message", min(i, int(program.match[i]))), 2
        group = int(program.group[i])
        return (("group", group), int((program.group == group).sum())) if group >= 0 else (("alone", i), 1)

    def complete(members: list[int], seconds: float):  # type: ignore[no-untyped-def]
        yield environment.timeout(seconds)
        for i in members:
            end[i] = environment.now
            finished[i].succeed()

    def lane(ids: list[int]):  # type: ignore[no-untyped-def]
        for i in ids:
            for j in program[i].after:
                yield finished[j]
            meeting, number = key(i)
            present = arrived.setdefault(meeting, [])
            present.append(i)
            if len(present) == number:
                environment.process(complete(present, time_s[i]))
            yield finished[i]

    for number in np.unique(program.lane):
        environment.process(lane(np.flatnonzero(program.lane == number).tolist()))
    environment.run()
    return end


@settings(derandomize=True, max_examples=40, deadline=None)
@given(programs)
def test_the_engine_equals_simpy(program: Program) -> None:
    timeline = simulate(program, Link(), price=price)
    np.testing.assert_allclose(timeline.end_s, simpy_ends(program, Link()), rtol=1e-12, atol=1e-20)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(st.integers(1, 24), st.integers(1, 300), links)
def test_a_simulated_ring_equals_its_formula(ranks: int, parts: int, link: Link) -> None:
    size_B = 4.0 * parts * ranks
    formula = (
        2 * (ranks - 1) * link.latency_s
        + 2 * (ranks - 1) / ranks * size_B / link.bandwidth_Bps
        + (ranks - 1) / ranks * size_B * link.reduce_s_per_B
    )
    makespan_s = simulate(ring_all_reduce(ranks, parts * ranks), link).makespan_s
    assert makespan_s == pytest.approx(formula, rel=1e-12, abs=0)


@settings(derandomize=True, max_examples=60, deadline=None)
@given(programs, links)
def test_never_below_work_or_any_path(program: Program, link: Link) -> None:
    timeline = simulate(program, link, price=price)
    assert timeline.makespan_s >= max(timeline.busy_s().values(), default=0.0) * (1 - 1e-12)
    assert timeline.makespan_s >= durations_s(program, link, price).max(initial=0.0)


@settings(derandomize=True, max_examples=40, deadline=None)
@given(programs, st.integers(0, 59), st.floats(0.0, 1.0))
def test_more_time_never_helps(program: Program, which: int, extra_s: float) -> None:
    # Lane orders are fixed, so Graham's anomaly cannot happen.
    if not len(program):
        return
    columns = {name: np.array(program.columns[name]) for name in program.columns}
    if program.kind[which % len(program)] != Kind.COMPUTE:
        return
    columns["duration_s"][which % len(program)] += extra_s
    slower = Program(
        program.ranks, program.streams, program.names, columns, program.match, program.after_start, program.after
    )
    one, two = (simulate(p, Link(), price=price) for p in (program, slower))
    assert (two.end_s >= one.end_s).all()


@settings(derandomize=True, max_examples=40, deadline=None)
@given(programs, st.sampled_from([0.5, 4.0, 1024.0]))
def test_scaling_time_scales_every_time_exactly(program: Program, factor: float) -> None:
    link = Link()
    columns = dict(program.columns) | {"duration_s": program.duration_s * factor}
    scaled = Program(
        program.ranks, program.streams, program.names, columns, program.match, program.after_start, program.after
    )
    slow = Link(link.latency_s * factor, link.bandwidth_Bps / factor, link.reduce_s_per_B * factor)
    one = simulate(program, link, price=price)
    two = simulate(scaled, slow, price=lambda *key: price(*key) * factor)
    # Powers of two scale without rounding.
    np.testing.assert_array_equal(one.start_s * factor, two.start_s)
    np.testing.assert_array_equal(one.end_s * factor, two.end_s)


def test_relabelling_ranks_relabels_the_timeline() -> None:
    one, two = ProgramBuilder(3), ProgramBuilder(3)
    for builder, name in ((one, (0, 1, 2)), (two, (2, 0, 1))):
        builder.compute(name[0], 1.0)
        builder.message(name[0], name[1], 1e6, after=0)
        builder.message(name[1], name[2], 2e6, after=2)
    np.testing.assert_array_equal(simulate(one.build(), Link()).end_s, simulate(two.build(), Link()).end_s)


def test_full_duplex_and_one_port_per_lane() -> None:
    link = Link(1.0, 1.0)
    both, shared = ProgramBuilder(2), ProgramBuilder(2)
    for builder, stream in ((both, None), (shared, "comm")):
        builder.message(0, 1, 4.0, stream=stream)
        builder.message(1, 0, 4.0, stream=stream)
    assert simulate(both.build(), link).makespan_s == 5.0
    assert simulate(shared.build(), link).makespan_s == 10.0


def test_durations_in_the_program_override_the_link() -> None:
    builder = ProgramBuilder(2)
    builder.message(0, 1, 4.0, duration_s=0.25)
    builder.reduce(0, 4.0, duration_s=0.5)
    builder.copy(1, 4.0, duration_s=0.75)
    builder.copy(1, 4.0)
    builder.collective((0, 1), "all-reduce", 4.0, duration_s=2.0)
    assert durations_s(builder.build()).tolist() == [0.25, 0.25, 0.5, 0.75, 0.0, 2.0, 2.0]


def test_collectives_start_together_at_the_last_member() -> None:
    builder = ProgramBuilder(3)
    for rank in range(3):
        builder.compute(rank, float(rank))
    ids = builder.collective((2, 0, 1), "all-gather", 6.0, algorithm="ring", after=(0, 1, 2))
    asked = []

    def recording(op: str, algorithm: str, ranks: tuple[int, ...], size_B: float) -> float:
        asked.append((op, algorithm, ranks, size_B))
        return 10.0

    timeline = simulate(builder.build(), price=recording)
    assert asked == [("all-gather", "ring", (0, 1, 2), 6.0)]
    assert set(timeline.start_s[list(ids)]) == {2.0}
    assert timeline.makespan_s == 12.0


def cluster() -> SimpleNamespace:
    """Two nodes of four devices."""
    levels = [SimpleNamespace(size=4), SimpleNamespace(size=2)]
    rates = [Link(1.0, 100.0), Link(5.0, 10.0)]
    return SimpleNamespace(
        name="toy", levels=levels, num_devices=8,
        devices_per_unit=lambda level: (4, 8)[level], link_per_device=lambda level: rates[level],
    )  # fmt: skip


def test_the_link_is_that_of_the_innermost_common_level() -> None:
    builder = ProgramBuilder(8)
    for source, target in ((0, 3), (3, 4), (7, 4), (0, 7)):
        builder.message(source, target, 100.0)
    assert durations_s(builder.build(), cluster())[::2].tolist() == [2.0, 15.0, 2.0, 15.0]
    assert sent_per_level_B(builder.build(), cluster()).tolist() == [200.0, 200.0]
    late = ProgramBuilder(9)
    late.message(0, 8, 1.0)
    with pytest.raises(BadInput, match="rank 8 needs 9 devices; cluster toy has 8"):
        simulate(late.build(), cluster())


def test_pairs_may_have_individual_links() -> None:
    network = SimpleNamespace(
        link_between=lambda a, b: SimpleNamespace(latency_s=0.5 * a, bandwidth_Bps=np.where(b > a, 10.0, 20.0))
    )
    builder = ProgramBuilder(3)
    builder.message(0, 2, 100.0)
    builder.message(2, 1, 100.0)
    assert durations_s(builder.build(), network).tolist() == [10.0, 10.0, 6.0, 6.0]


@pytest.mark.parametrize(
    ("link", "cost", "message"),
    [
        (None, price, "needs a link"),
        (Link(), None, "pass price="),
        (Link(-1.0), price, "latency_s must be finite and not negative"),
        (Link(1.0, 0.0), price, "bandwidth_Bps positive"),
        (Link(), lambda *_: float("nan"), "price of all-reduce on 2 ranks is nan"),
    ],
)
def test_invalid_programs_are_refused_with_a_reason(link: Link | None, cost: object, message: str) -> None:
    builder = ProgramBuilder(2)
    builder.message(0, 1, 1.0)
    builder.collective((0, 1), "all-reduce", 4.0)
    with pytest.raises(BadInput, match=message):
        simulate(builder.build(), link, price=cost)  # type: ignore[arg-type]


def test_draws_must_be_positive() -> None:
    with pytest.raises(BadInput, match="draws"):
        simulate(ProgramBuilder(1).build(), draws=0)


SCRIPT = """
from lockstep.simulate.program import trace_events
from lockstep.simulate.play import Noise, parse_law, simulate
from program.random_programs import Link, price, random_program
noise = Noise(per_operation=parse_law("lognormal:mean=1,cv=0.5"), message_extra_s=parse_law("exponential:mean=1us"))
timeline = simulate(random_program(3, 5, 80), Link(), price=price, noise=noise, draws=20, seed=7)
print(list(trace_events(timeline)), timeline.to_dict())
"""


def test_same_seed_same_bytes_in_every_process() -> None:
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT], env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True, check=True,
        ).stdout
        for seed in ("0", "1")
    }  # fmt: skip
    assert len(outputs) == 1
    assert len(outputs.pop()) > 10_000


def test_memory_per_operation_is_bounded() -> None:
    """At most 400 bytes per operation built and simulated, whatever the number: 10^7 operations fit in 4 GB."""
    for ranks in (64, 192):
        tracemalloc.start()
        program = get("all-reduce", "ring").program(ranks, 4.0 * ranks, element_B=4.0)
        simulate(program, Link())
        peak_B = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert peak_B < 400 * len(program)


def test_importing_the_package_stays_light() -> None:
    code = (
        "import sys, lockstep.simulate.play, lockstep.show.views.parts.timelines;"
        "print([m for m in ('simpy', 'scipy', 'matplotlib', 'networkx', 'torch') if m in sys.modules])"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert result.stdout.strip() == "[]"


def two_nodes(inside: float, outside: float, name: str = "toy") -> SimpleNamespace:
    """Two nodes of two devices; `inside` and `outside` seconds to reduce a byte that came over either link."""
    links = [SimpleNamespace(latency_s=0.0, bandwidth_Bps=1.0, reduce_s_per_B=gamma) for gamma in (inside, outside)]
    levels = [SimpleNamespace(link=link, size=2, links_per_child=i, name=str(i)) for i, link in enumerate(links, 1)]
    return SimpleNamespace(
        name=name, num_devices=4, levels=levels,
        devices_per_unit=lambda level: 2 << level, link_per_device=lambda level: links[level],
    )  # fmt: skip


@pytest.mark.parametrize("order", [(1, 2), (2, 1)])
def test_a_reduction_is_charged_by_the_link_of_its_operand(order: tuple[int, int]) -> None:
    """Rank 0 adds what rank 1 sent inside the node and what rank 2 sent from the other, from two places of a buffer."""
    builder = ProgramBuilder(4)
    place = {1: (0, 4), 2: (4, 8)}
    for sender in (1, 2):
        builder.message(sender, 0, 4.0, chunk=(0, 4), to_chunk=place[sender], to_buffer="inbox")
    added = {sender: builder.reduce(0, 4.0, chunk=(0, 4), source_start=place[sender][0]) for sender in order}
    own = builder.reduce(0, 4.0, chunk=(0, 4), source="spare")
    time_s = durations_s(builder.build(), two_nodes(3.0, 50.0))
    assert (time_s[added[1]], time_s[added[2]], time_s[own]) == (12.0, 200.0, 12.0)


def test_the_last_message_into_a_place_counts() -> None:
    builder = ProgramBuilder(4)
    ids = []
    for sender in (2, 1, 3):
        builder.message(sender, 0, 4.0, chunk=(0, 4), to_buffer="inbox")
        ids.append(builder.reduce(0, 4.0, chunk=(0, 4)))
    assert durations_s(builder.build(), two_nodes(3.0, 50.0))[ids].tolist() == [200.0, 12.0, 200.0]


@pytest.mark.parametrize("way", ["ring", "recursive-doubling", "tree"])
def test_an_uncongested_shared_network_reduces_as_the_engine_does(way: str) -> None:
    cluster = two_nodes(3.0, 50.0)
    program = get("all-reduce", way).program(4, 32.0, element_B=4.0)
    alone, shared = simulate(program, cluster), simulate_contended(program, tree_network(cluster))
    assert shared.makespan_s == pytest.approx(alone.makespan_s, rel=1e-12)
    assert alone.makespan_s > simulate(program, two_nodes(3.0, 3.0)).makespan_s
