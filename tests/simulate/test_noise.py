"""Noise: factors reach what they should, draws depend on (seed, number) only, means agree with exact expectations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lockstep.base.errors import BadInput
from lockstep.simulate.play import (
    Constant,
    Exponential,
    LogNormal,
    Noise,
    Normal,
    Sample,
    durations_s,
    engine,
    makespans_s,
    simulate,
)
from lockstep.simulate.program import Program, ProgramBuilder
from program.random_programs import Link, price, programs

EVERYTHING = Noise(
    shared=LogNormal(1.0, 0.2), ranks_per_group=2, per_rank=Exponential(1.0), per_operation=LogNormal(1.0, 0.5),
    message_extra_s=Exponential(1e-6),
)  # fmt: skip


@settings(derandomize=True, max_examples=25, deadline=None)
@given(programs, st.integers(0, 100))
def test_batches_and_number_of_draws_change_nothing(program: Program, seed: int) -> None:
    base_s = durations_s(program, Link(), price)
    many = makespans_s(program, base_s, EVERYTHING, 13, seed)
    few = makespans_s(program, base_s, EVERYTHING, 4, seed)
    np.testing.assert_array_equal(many[:4], few)
    small = engine.BATCH_NUMBERS
    try:
        engine.BATCH_NUMBERS = 3 * program.graph.num_nodes
        np.testing.assert_array_equal(makespans_s(program, base_s, EVERYTHING, 13, seed), many)
    finally:
        engine.BATCH_NUMBERS = small
    timeline = simulate(program, Link(), price=price, noise=EVERYTHING, draws=13, seed=seed)
    assert timeline.makespan_s == many[0]
    np.testing.assert_array_equal(timeline.sample.values_s, many)


@settings(derandomize=True, max_examples=25, deadline=None)
@given(programs)
def test_no_noise_is_exact(program: Program) -> None:
    one = simulate(program, Link(), price=price)
    quiet = Noise(
        shared=Constant(1.0), per_rank=Constant(1.0), per_operation=Constant(1.0), message_extra_s=Constant(0.0)
    )
    for noise in (Noise(), quiet):
        np.testing.assert_array_equal(simulate(program, Link(), price=price, noise=noise).end_s, one.end_s)


def workers(number: int, rounds: int = 1) -> Program:
    """Computations of 1 s on every rank and a barrier, some rounds of it."""
    builder = ProgramBuilder(number)
    met: tuple[int, ...] = ()
    for _ in range(rounds):
        met = builder.barrier(after=[builder.compute(rank, 1.0, after=met) for rank in range(number)])
    return builder.build()


def test_slow_ranks_slow_their_own_computations() -> None:
    timeline = simulate(workers(3), noise=Noise(slowdown=(1.0, 2.5, 1.0)))
    assert timeline.makespan_s == 2.5
    assert timeline.computing_s.tolist() == [1.0, 2.5, 1.0]


def test_shared_factors_hit_whole_groups() -> None:
    noise = Noise(shared=LogNormal(1.0, 1.0), ranks_per_group=3)
    time_s = noise.apply(workers(8), durations_s(workers(8)), seed=0, draws=range(5))[:8]
    for group in (slice(0, 3), slice(3, 6), slice(6, 8)):
        assert (time_s[group] == time_s[group][0]).all()
    assert len(np.unique(time_s)) == 15


def test_messages_are_delayed_once_for_both_ends() -> None:
    builder = ProgramBuilder(3)
    builder.message(0, 1, 0.0, duration_s=1.0)
    builder.collective(range(3), "broadcast", 8.0, duration_s=2.0)
    builder.compute(0, 5.0)
    program = builder.build()
    noise = Noise(message_extra_s=Exponential(1.0))
    time_s = noise.apply(program, durations_s(program), seed=1, draws=range(4))
    assert (time_s[0] == time_s[1]).all()
    assert (time_s[2] == time_s[3]).all()
    assert (time_s[2] == time_s[4]).all()
    assert (time_s[:5] > [[1.0], [1.0], [2.0], [2.0], [2.0]]).all()
    assert (time_s[5] == 5.0).all()


def test_negative_draws_count_as_nothing() -> None:
    noise = Noise(per_operation=Normal(0.0, 1.0), message_extra_s=Normal(0.0, 1.0))
    assert (noise.apply(workers(4), durations_s(workers(4)), seed=0, draws=range(50)) >= 0).all()


@pytest.mark.parametrize("number", [1, 4, 16])
def test_barrier_of_exponentials_costs_the_harmonic_number(number: int) -> None:
    # Mean of 4,000 draws against H_n; 5 standard errors are a false alarm rate of 6e-7 (seed fixed).
    law = Exponential(1.0)
    sample = simulate(workers(number), noise=Noise(per_operation=law), draws=4000, seed=2).sample
    error = sample.std_s / math.sqrt(len(sample))
    assert abs(sample.mean_s - law.expected_max_s(number)) < 5 * error
    low, high = sample.interval_s()
    assert low < sample.mean_s < high


def test_intervals_cover_the_truth() -> None:
    # P16: 2,000 intervals from 20 draws each; a true 95 % leaves 93 to 97 % once in 24,000 seeds.
    rng = np.random.default_rng(5)
    hits = 0
    for _ in range(2000):
        low, high = Sample(rng.normal(3.0, 1.0, 20)).interval_s()
        hits += low <= 3.0 <= high
    assert 0.93 <= hits / 2000 <= 0.97


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (lambda: Noise(ranks_per_group=0), "ranks_per_group"),
        (lambda: Noise(slowdown=(1.0, 0.0)), "positive"),
        (lambda: simulate(workers(3), noise=Noise(slowdown=(1.0, 2.0))), "2 factors for 3 ranks"),
    ],
)
def test_invalid_noise_is_refused(noise: object, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        noise()  # type: ignore[operator]


@pytest.mark.parametrize(("extra_s", "added_s"), [(0.25, 0.25), (0.0, 0.0), (-0.5, 0.0)])
def test_a_message_is_delayed_by_what_is_drawn_and_never_comes_early(extra_s: float, added_s: float) -> None:
    builder = ProgramBuilder(2)
    builder.compute(0, 1.0)
    builder.message(0, 1, 8.0)
    builder.collective(range(2), "all-reduce", 8.0, duration_s=4.0)
    program, base_s = builder.build(), np.array([1.0, 2.0, 2.0, 4.0, 4.0])
    found = Noise(message_extra_s=Constant(extra_s)).apply(program, base_s, 0, [0, 1])
    assert found.T.tolist() == [[1.0, *[2.0 + added_s] * 2, *[4.0 + added_s] * 2]] * 2
