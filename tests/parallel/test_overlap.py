"""Overlap policies: price = simulation, bounds that nothing beats, golden values, brute-force optima."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from importlib import import_module
from pkgutil import walk_packages
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.base.errors import BadInput
from lockstep.simulate.collectives import PlainLink, pricer
from lockstep.simulate.parallel.data import Layers, Units, buckets, optimum, peak_gathered_B, sharded, sweep
from lockstep.simulate.parallel.group import Traffic, collective_s, on_link
from lockstep.simulate.parallel.lanes import COMM, COMPUTE, Op, run
from lockstep.simulate.parallel.overlapped import Overlapped
from lockstep.simulate.parallel.tensor import chunked
from lockstep.simulate.parallel.tensor.chunked import Product, best_chunks
from lockstep.simulate.play import simulate
from lockstep.simulate.program import Program, Timeline

EXAMPLES = settings(max_examples=50, derandomize=True, deadline=None)
times = st.floats(1e-4, 1e-1)
sizes = st.floats(1e4, 1e8)
links = st.builds(PlainLink, st.floats(0, 1e-4), st.floats(1e9, 1e11))
levels = st.tuples(st.integers(2, 4), st.floats(0, 1e-4), st.floats(1e9, 1e11), st.just(0.0))
traffics = st.one_of(
    st.builds(Traffic, st.builds(on_link, st.integers(1, 9), links), st.just("ring")),
    st.builds(Traffic, st.tuples(levels, levels), st.sampled_from(["", "ring", "hierarchical"])),
)
efficiencies = st.one_of(st.just(1.0), st.floats(0.3, 0.99))


@st.composite
def layer_lists(draw: Any) -> Layers:
    """A few layers with times and gradients of their own."""
    number = draw(st.integers(1, 7))
    lists = st.lists(times, min_size=number, max_size=number)
    bytes_ = st.lists(sizes, min_size=number, max_size=number)
    return Layers(tuple(draw(lists)), tuple(draw(bytes_)), draw(st.floats(0, 0.1)))


@st.composite
def unit_lists(draw: Any) -> Units:
    """A few sharded units."""
    number = draw(st.integers(1, 6))
    lists = st.lists(times, min_size=number, max_size=number)
    return Units(tuple(draw(lists)), tuple(draw(lists)), tuple(draw(st.lists(sizes, min_size=number, max_size=number))))


def ring(ranks: int, link: PlainLink) -> Traffic:
    return Traffic(on_link(ranks, link), "ring")


def simulated(program: Program, traffic: Traffic) -> Timeline:
    """On one link priced by `pricer`; across levels every collective for itself, by its name, ranks and bytes."""
    if len(traffic.group) == 1:
        link = PlainLink(*traffic.group[0][1:])
        return simulate(program, link, price=pricer(link))

    def price(op: str, algorithm: str, ranks: Sequence[int], size_B: float) -> float:
        assert len(ranks) == traffic.ranks
        return float(collective_s(op, traffic.group, size_B, algorithm))

    return simulate(program, price=price)


def check(step: Overlapped, timeline: Timeline) -> None:
    """The price is the simulation: makespan and exposed communication; and no price beats its bound."""
    assert timeline.makespan_s == pytest.approx(float(step.step_s), rel=1e-12)
    scale = float(step.step_s)
    assert timeline.exposed_s == pytest.approx(
        np.full(timeline.program.ranks, float(step.exposed_comm_s)), abs=1e-12 * scale
    )
    assert float(step.step_s) >= float(step.bound_s) * (1 - 1e-12)
    assert float(step.bound_s) >= max(float(step.compute_s), float(step.comm_s)) * (1 - 1e-12)
    assert 0 <= step.overlap_frac <= 1


POLICIES = (buckets, chunked, sharded)


def test_every_overlap_policy_is_tested_against_its_simulation() -> None:
    """A module with a price and a program of lanes is one of those below."""
    package = import_module("lockstep.simulate.parallel")
    names = [
        found.name
        for found in walk_packages(package.__path__, "lockstep.simulate.parallel.")
        if ".pipeline" not in found.name
    ]
    modules = [import_module(name) for name in names]
    assert {m for m in modules if hasattr(m, "price") and hasattr(m, "program")} == set(POLICIES)


@EXAMPLES
@given(layer_lists(), traffics, efficiencies, st.floats(1e-3, 1e3))
def test_times_scale_with_the_unit_of_time(layers: Layers, traffic: Traffic, efficiency: float, unit: float) -> None:
    """Everything that is a time times `unit`, rates divided by it: the step times `unit`."""
    group = [(ranks, link[0] * unit, link[1] / unit, 0.0, None) for ranks, *link in traffic.group]
    longer = Layers(tuple(t * unit for t in layers.backward_s), layers.gradient_B, layers.forward_s * unit)
    counts = layers.buckets(3e7)
    one = buckets.price(layers, traffic, counts, efficiency=efficiency)
    two = buckets.price(longer, Traffic(group, traffic.algorithm), counts, efficiency=efficiency)
    assert float(two.step_s) == pytest.approx(float(one.step_s) * unit, rel=1e-12)


@EXAMPLES
@given(layer_lists(), traffics, efficiencies, st.floats(1e4, 3e8), st.booleans())
def test_the_price_of_buckets_equals_their_simulation(
    layers: Layers, traffic: Traffic, efficiency: float, bucket_B: float, overlap: bool
) -> None:
    counts = layers.buckets(bucket_B)
    step = buckets.price(layers, traffic, counts, efficiency=efficiency, overlap=overlap)
    program = buckets.program(layers, traffic, counts, efficiency=efficiency, overlap=overlap)
    check(step, simulated(program, traffic))


@EXAMPLES
@given(layer_lists(), traffics, efficiencies, st.floats(1e4, 3e8))
def test_the_bucket_timeline_of_one_device_equals_that_of_all(
    layers: Layers, traffic: Traffic, efficiency: float, bucket_B: float
) -> None:
    counts = layers.buckets(bucket_B)
    alone = buckets.timeline(layers, traffic, counts, efficiency=efficiency)
    check(buckets.price(layers, traffic, counts, efficiency=efficiency), alone)
    every = simulated(buckets.program(layers, traffic, counts, efficiency=efficiency), traffic)
    assert alone.makespan_s == pytest.approx(every.makespan_s, rel=1e-12)


@EXAMPLES
@given(unit_lists(), traffics, efficiencies, st.integers(0, 3), st.booleans())
def test_the_price_of_sharded_overlap_equals_its_simulation(
    units: Units, traffic: Traffic, efficiency: float, prefetch: int, keep: bool
) -> None:
    options: dict[str, Any] = {"prefetch": prefetch, "keep": keep, "efficiency": efficiency}
    timeline = simulated(sharded.program(units, traffic, **options), traffic)
    step = sharded.price(units, traffic, **options)
    if traffic.ranks == 1:
        assert timeline.makespan_s == pytest.approx(float(step.compute_s), rel=1e-12)
    check(step, timeline)
    assert (timeline.peak_memory_B() <= peak_gathered_B(units, prefetch, keep) * (1 + 1e-9)).all()


@EXAMPLES
@given(times, sizes, traffics, efficiencies, st.integers(1, 6), st.booleans(), st.floats(0, 1e-4))
def test_the_price_of_chunks_equals_their_simulation(
    compute_s: float, size_B: float, traffic: Traffic, efficiency: float, chunks: int, gather: bool, overhead_s: float
) -> None:
    product = Product(compute_s, size_B, "all-gather" if gather else "reduce-scatter", overhead_s, gather)
    program = chunked.program(product, traffic, chunks, efficiency=efficiency)
    check(chunked.price(product, traffic, chunks, efficiency=efficiency), simulated(program, traffic))


@EXAMPLES
@given(layer_lists(), traffics, st.floats(1e4, 3e8))
def test_without_overlap_a_step_is_computing_plus_communicating(
    layers: Layers, traffic: Traffic, bucket_B: float
) -> None:
    step = buckets.price(layers, traffic, layers.buckets(bucket_B), overlap=False)
    assert step.step_s == pytest.approx(float(step.compute_s + step.comm_s), rel=1e-12)
    assert step.exposed_comm_s == pytest.approx(float(step.comm_s), rel=1e-9, abs=1e-15)


@EXAMPLES
@given(unit_lists(), traffics)
def test_without_prefetch_nothing_is_hidden(units: Units, traffic: Traffic) -> None:
    """Gathers wait for the pass before: exactly computing plus communicating."""
    step = sharded.price(units, traffic, prefetch=0)
    assert step.step_s == pytest.approx(float(step.compute_s + step.comm_s), rel=1e-12)


@EXAMPLES
@given(layer_lists(), traffics, efficiencies, st.floats(1e4, 3e8))
def test_the_last_bucket_is_always_exposed(
    layers: Layers, traffic: Traffic, efficiency: float, bucket_B: float
) -> None:
    """max(backward, communication) is a bound; a step is longer by the last bucket, whatever the rest hides."""
    counts = layers.buckets(bucket_B)
    step = buckets.price(layers, traffic, counts, efficiency=efficiency)
    last_s = float(traffic.time_s("all-reduce", layers.in_buckets(counts)[1][-1]))
    assert float(step.exposed_comm_s) >= last_s * (1 - 1e-9)
    assert float(step.step_s) >= (float(step.compute_s) + last_s) * (1 - 1e-12)
    if last_s > 0:
        assert float(step.step_s) > max(float(step.compute_s), float(step.comm_s))


@EXAMPLES
@given(unit_lists(), traffics)
def test_deeper_prefetch_is_never_slower(units: Units, traffic: Traffic) -> None:
    """In the forward pass with kept parameters, where gathers compete with nothing else."""
    steps = [float(sharded.price(units, traffic, prefetch=k, keep=True).step_s) for k in range(4)]
    assert all(b <= a * (1 + 1e-12) for a, b in itertools.pairwise(steps))


@EXAMPLES
@given(layer_lists(), traffics)
def test_the_best_bucket_size_beats_every_partition(layers: Layers, traffic: Traffic) -> None:
    number = len(layers.backward_s)
    best = float(buckets.price(layers, traffic, optimum(layers, traffic)).step_s)
    for cuts in itertools.product((0, 1), repeat=number - 1):
        edges = [0, *(i + 1 for i, cut in enumerate(cuts) if cut), number]
        counts = [b - a for a, b in itertools.pairwise(edges)]
        assert best <= float(buckets.price(layers, traffic, counts).step_s) * (1 + 1e-12)


@pytest.mark.parametrize(("each", "milliseconds"), [(1, 550.38), (2, 486.26), (4, 487.42), (16, 494.40), (96, 540.88)])
def test_bucket_times_match_golden_values(each: int, milliseconds: float) -> None:
    """96 layers of 5 ms, 700 MB, ring of 256 at 10 us and 25 GB/s: a max-plus recursion done by hand elsewhere."""
    layers = Layers.equal(96, 0.48, 700e6)
    step = buckets.price(layers, ring(256, PlainLink(10e-6, 25e9)), (each,) * (96 // each))
    assert float(step.step_s) * 1e3 == pytest.approx(milliseconds, abs=0.005)


def test_exposed_time_over_bucket_size_has_an_interior_minimum() -> None:
    answer = sweep(Layers.equal(96, 0.48, 700e6), ring(256, PlainLink(10e-6, 25e9)))
    steps = [float(row.step.step_s) for row in answer.rows]
    assert answer.best.bucket_B == pytest.approx(2 * 700e6 / 96)
    assert steps[0] > min(steps) < steps[-1] == pytest.approx(answer.no_overlap_s)
    assert answer.optimum_s <= min(steps)
    keys = {"bucket_B", "step_s", "exposed_comm_s", "overlap_frac"}
    assert all(keys <= set(row) for row in answer.to_dict()["rows"])


def test_buckets_close_once_full_in_order_of_readiness() -> None:
    layers = Layers((1.0,) * 4, (8.0, 1.0, 3.0, 2.0))
    assert layers.buckets(4.0) == (2, 2)
    assert layers.buckets(5.5) == (3, 1)
    assert layers.buckets(1e9) == (4,)
    assert layers.in_buckets((2, 2))[1].tolist() == [5.0, 9.0]


def test_the_shared_core_recurrence_equals_the_event_simulation() -> None:
    """Two buckets by hand: 2 s of work beside a 3 s collective at half rate takes 3 s, half of it done; 0.5 s more."""
    ops = [Op(COMPUTE, 1.0), Op(COMPUTE, 2.0), Op(COMM, 3.0, (0,), "all-reduce"), Op(COMM, 1.0, (1,), "all-reduce")]
    _, end = run(ops, 0.5)
    assert end == pytest.approx([1.0, 4.5, 4.0, 5.5])
    step = buckets.price_seconds(0.0, (1.0, 2.0), (3.0, 1.0), 0.5)
    assert (step.step_s, step.slowdown_s, step.exposed_comm_s) == pytest.approx((5.5, 1.5, 1.0))


def test_prices_broadcast_over_links() -> None:
    latencies = np.array([0.0, 1e-5, 1e-3])
    layers, units = Layers.equal(8, 0.1, 1e8, 0.05), Units((0.01,) * 4, (0.02,) * 4, (1e8,) * 4)
    product = Product(1e-2, 1e8)
    policies: list[Callable[[Traffic], Overlapped]] = [
        lambda t: buckets.price(layers, t, (2, 2, 4)),
        lambda t: sharded.price(units, t, prefetch=1),
        lambda t: chunked.price(product, t, 4),
    ]
    for priced in policies:
        whole = priced(ring(8, PlainLink(latencies, 25e9)))
        for i, latency_s in enumerate(latencies.tolist()):
            assert whole.step_s[i] == pytest.approx(float(priced(ring(8, PlainLink(latency_s, 25e9))).step_s))


def test_an_optimal_number_of_chunks_exists() -> None:
    product, traffic = Product(2e-3, 1e8, overhead_s=5e-6), ring(8, PlainLink(2e-6, 300e9))
    best = best_chunks(product, traffic)
    assert 1 < best < 64
    assert float(chunked.price(product, traffic, best).step_s) < float(chunked.price(product, traffic, 1).step_s)


@pytest.mark.parametrize(
    "make",
    [
        lambda: Layers((), ()),
        lambda: Layers((1.0,), (1.0, 2.0)),
        lambda: Layers((-1.0,), (1.0,)),
        lambda: Layers.equal(0, 1.0, 1.0),
        lambda: Layers.equal(2, 1.0, 1.0).buckets(0.0),
        lambda: Layers.equal(2, 1.0, 1.0).in_buckets((3,)),
        lambda: Units((1.0,), (1.0, 2.0), (1.0,)),
        lambda: sharded.operations(Units((1.0,), (1.0,), (1.0,)), ring(2, PlainLink(0.0, 1.0)), prefetch=-1),
        lambda: run([], 0.0),
        lambda: chunked.price(Product(1.0, 1.0), ring(2, PlainLink(0.0, 1.0)), 0),
        lambda: sweep(Layers.equal(2, 1.0, 0.0), ring(2, PlainLink(0.0, 1.0))),
    ],
)
def test_bad_input_is_refused(make: Any) -> None:
    with pytest.raises(BadInput):
        make()


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize("prefetch", [0, 1, 5])
def test_kept_parameters_are_gathered_once(keep: bool, prefetch: int) -> None:
    units = Units((1.0, 2.0, 3.0), (2.0, 4.0, 6.0), (10.0, 20.0, 30.0))
    listed = sharded.operations(units, ring(4, PlainLink(0.0, 1.0)), prefetch=prefetch, keep=keep)
    names = [task.label for task in listed]
    gathers = [name for name in names if name.startswith("gather")]
    assert gathers == ["gather0", "gather1", "gather2", *([] if keep else ["gather2", "gather1", "gather0"])]
    passes = [name for name in names if name[0] in "FBs"]
    assert passes == ["F0", "F1", "F2", "B2", "scatter2", "B1", "scatter1", "B0", "scatter0"]
    assert sum(task.held_B for task in listed) == 0
    after_forward = sum(task.held_B for task in listed[: names.index("F2") + 1])
    assert after_forward == (60.0 if keep else 0.0)
