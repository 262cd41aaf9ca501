"""Every schedule passes the same suite, each within the domain that its own file states; registering is joining.

Overlapped messages are never longer than a pass: longer ones queue on their link, which no closed form here knows.
"""

from __future__ import annotations

import pkgutil
from collections import Counter
from fractions import Fraction
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pipeline_oracle import position, replay

from effort import ALL, drawn, share
from lockstep.simulate.parallel import pipeline as pipelines
from lockstep.simulate.parallel.pipeline import Times
from lockstep.simulate.parallel.pipeline import schedules as folder
from lockstep.simulate.play import simulate

NAMES = list(pipelines.names())
WIDEST_FRAC = (-0.15, 0.25)
"""Largest error that a schedule may claim for its estimates: the formulas are for ranking."""
examples = settings(max_examples=min(drawn(20), settings.default.max_examples), derandomize=True, deadline=None)


def test_every_schedule_file_registers_its_schedule() -> None:
    modules = [import_module(f"{folder.__name__}.{module.name}") for module in pkgutil.iter_modules(folder.__path__)]
    defined = {
        value.name for module in modules for value in vars(module).values() if isinstance(value, pipelines.Schedule)
    }
    assert defined == set(pipelines.REGISTRY.own)
    assert [pipelines.code(name) for name in NAMES] == list(range(len(NAMES)))
    assert all("Source:" in (module.__doc__ or "") for module in modules)


@pytest.mark.parametrize("name", NAMES)
def test_every_schedule_is_exact_for_equal_passes_and_nearly_exact_elsewhere(name: str) -> None:
    """All are exact for equal passes and enough micro-batches, and no estimate is allowed to be far off."""
    domain = pipelines.get(name).domain
    assert domain.when(4, 64, 1, 1, 1)
    assert WIDEST_FRAC[0] <= domain.error_frac[0] <= 0 <= domain.error_frac[1] <= WIDEST_FRAC[1]


@st.composite
def sizes(draw: Any, name: str) -> tuple[int, int, int]:
    """Valid (stages, micro-batches, chunks) of a schedule."""
    schedule = pipelines.get(name)
    stages = draw(st.integers(1, 8))
    chunks = schedule.num_chunks or draw(st.integers(2, 4))
    allowed = [m for m in range(1, (4 if ALL else 2) * stages + 4) if schedule.valid(stages, m, chunks)]
    if not allowed:
        stages, allowed = stages + 1, [m for m in range(1, 40) if schedule.valid(stages + 1, m, chunks)]
    return stages, draw(st.sampled_from(allowed)), chunks


@st.composite
def cases(draw: Any, name: str) -> tuple[tuple[int, int, int], dict[str, Any]]:
    """Sizes and times inside the exact domain of a schedule; times are whole numbers divisible by the chunks."""
    schedule, domain = pipelines.get(name), pipelines.get(name).domain
    p, m, v = draw(sizes(name))
    f, i, w = (12 * draw(st.integers(1, 20)) for _ in range(3))
    low, high = min(f, i, w), max(f, i)
    enough = next(n for n in range(max(m, 2 * p - 1), 99) if schedule.valid(p, n, v))
    near = ((m, f, i, w), (m, high, low, low), (m, low, low, low), (enough, high, low, low), (enough, low, low, low))
    m, f, i, w = next(case for case in near if domain.when(p, *case))
    times: dict[str, Any] = {"forward_s": f, "backward_s": i + w, "weight_s": w}
    if schedule.cells is not None:
        # A cell is as long as either of its passes: the traffic of each fits beside the computing of the other.
        times["forward_comm_s"] = draw(st.integers(0, min(f, i) // 4)) * v
        times["backward_comm_s"] = draw(st.integers(0, min(f, i) // 4)) * v
        times["comm_device_frac"] = draw(st.sampled_from([0, 0.25]))
    if domain.held or domain.overlapped:
        times["blocking"] = draw(st.booleans()) if domain.held and domain.overlapped else domain.held
        times["transfer_s"] = draw(st.integers(0, min(f, i + w) // v))
    for end in domain.ends:
        times |= {f"{end}_forward_s": draw(st.integers(0, 90)), f"{end}_backward_s": draw(st.integers(0, 90))}
    return (p, m, v), times


def seconds_of(name: str, p: int, v: int, times: dict[str, Any]) -> Any:
    """(pass, device, chunk) -> seconds as a Fraction, from the meaning of the times."""
    schedule = pipelines.get(name)
    share = 1 if schedule.copies == 2 else v
    hold = times.get("transfer_s", 0) if times.get("blocking", True) and p > 1 else 0
    weight = Fraction(times["weight_s"], times["backward_s"])

    def seconds(step: str, device: int, chunk: int) -> Fraction:
        _, place, last = position(schedule.placement.value, p, v, device, chunk)
        kind = "forward_s" if step == "F" else "backward_s"
        whole = Fraction(times[kind], share)
        whole += times.get(f"first_{kind}", 0) * (place == 0) + times.get(f"last_{kind}", 0) * (place == last)
        part = {"F": 1, "B": 1, "I": 1 - weight, "W": weight}[step]
        return whole * part + (hold if step != "W" else 0)

    return seconds


def cell_of(name: str, p: int, v: int, times: dict[str, Any]) -> Any:
    """(F, B, device) -> seconds of the two as a cell: the longer of their computing, slowed, and their traffic."""
    share = 1 if pipelines.get(name).copies == 2 else v
    seconds = seconds_of(name, p, v, times | {"transfer_s": 0})
    hold = times.get("transfer_s", 0) if times.get("blocking", True) and p > 1 else 0
    comm = Fraction(times.get("forward_comm_s", 0) + times.get("backward_comm_s", 0), share)
    slowed = Fraction(times.get("comm_device_frac", 0)) * comm

    def cell(forward: Any, backward: Any, device: int) -> Fraction:
        both = sum(seconds(step, device, chunk) for step, _, chunk in (forward, backward))
        return max(comm, both - comm + slowed) + 2 * hold

    return cell


def oracle(name: str, p: int, m: int, v: int, times: dict[str, Any]) -> tuple[Fraction, Fraction]:
    schedule = pipelines.get(name)
    delay = 0 if times.get("blocking", True) else times.get("transfer_s", 0)
    order = schedule.order_for(p, m, v, Times(**times))
    seconds = seconds_of(name, p, v, times)
    cells = schedule.cells(p, m, v) if schedule.cells else None
    return replay(order, schedule.placement.value, v, seconds, delay, cells, cell_of(name, p, v, times))


@pytest.mark.parametrize("name", NAMES)
def test_closed_form_equals_replay_and_engine(name: str) -> None:
    @examples
    @given(cases(name))
    def check(case: Any) -> None:
        (p, m, v), times = case
        schedule = pipelines.get(name)
        cost = schedule.price(p, m, chunks=v, **times)
        makespan, stage = oracle(name, p, m, v, times)
        timeline = simulate(pipelines.program(schedule, p, m, chunks=v, times=Times(**times)))
        assert cost.makespan_s == pytest.approx(float(makespan), rel=1e-12)
        assert cost.stage_s == pytest.approx(float(stage), rel=1e-12)
        assert timeline.makespan_s == pytest.approx(float(makespan), rel=1e-12)

    check()


@pytest.mark.parametrize("name", NAMES)
def test_the_program_equals_the_replay_outside_the_exact_domain(name: str) -> None:
    @examples
    @given(sizes(name), st.data())
    def check(size: tuple[int, int, int], data: Any) -> None:
        p, m, v = size
        w, i = (12 * data.draw(st.integers(1, 20)) for _ in range(2))
        times = {"forward_s": 12 * data.draw(st.integers(1, 20)), "backward_s": i + w, "weight_s": w}
        times |= {"transfer_s": data.draw(st.integers(0, 3)), "blocking": data.draw(st.booleans())}
        times |= {
            f"{end}_{kind}_s": data.draw(st.integers(0, 50))
            for end in ("first", "last")
            for kind in ("forward", "backward")
        }
        makespan, stage = oracle(name, p, m, v, times)
        built = pipelines.program(pipelines.get(name), p, m, chunks=v, times=Times(**times))
        assert simulate(built).makespan_s == pytest.approx(float(makespan), rel=1e-12)
        answer = pipelines.pipeline(name, p, m, chunks=v, **times)
        assert answer.makespan_s == pytest.approx(float(makespan), rel=1e-12)
        assert answer.stage_s == pytest.approx(float(stage), rel=1e-12)

    check()


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("blocking", [True, False])
def test_replaying_an_order_takes_as_long_as_its_program(name: str, blocking: bool) -> None:
    """Pass by pass without the program: messages that hold devices or travel, and heavier ends."""
    schedule, (p, m) = pipelines.get(name), (4, 8)
    v = schedule.num_chunks or 2
    for transfer_s, first_s in ((0.0, 0.0), (0.3, 0.0), (0.3, 0.7), (4.0, 0.7)):
        times = Times(3.0, 5.0, 2.0, transfer_s, blocking, first_forward_s=first_s, last_backward_s=2 * first_s)
        order = schedule.order(p, m, v)
        program = pipelines.program_of(schedule, order, v, times)
        known = pipelines.spans_s(program), pipelines.order_spans_s(schedule, order, v, times)
        np.testing.assert_allclose(known[0], known[1], rtol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_each_pass_exactly_once_and_forward_before_backward_before_weights(name: str) -> None:
    @examples
    @given(sizes(name))
    def check(size: tuple[int, int, int]) -> None:
        p, m, v = size
        schedule = pipelines.get(name)
        for lane in schedule.order(p, m, v):
            count = Counter(lane)
            assert set(count.values()) == {1}
            at = {step: k for k, step in enumerate(lane)}
            passes = {(i, c) for kind, i, c in lane if kind == "F"}
            # With two copies each micro-batch takes one of them, else every chunk of the device.
            want = (
                {(i, i % 2) for i in range(m)} if schedule.copies == 2 else {(i, c) for i in range(m) for c in range(v)}
            )
            assert passes == want
            assert len(lane) == sum(2 + (("W", i, c) in at) for i, c in passes)
            for i, c in passes:
                back = at.get(("B", i, c), at.get(("I", i, c)))
                assert back is not None
                assert at["F", i, c] < back
                assert (("W", i, c) in at) == (("I", i, c) in at)
                assert back < at.get(("W", i, c), len(lane))

    check()


@pytest.mark.parametrize("name", NAMES)
def test_peak_live_micro_batches_of_the_program_equal_the_formula(name: str) -> None:
    schedule = pipelines.get(name)
    for p in range(1, 9):
        for m in share((1, 2, 3, 5, 7, 8, 9, 12, 15, 16, 24, 31, 32), 3, p):
            for v in (2, 3) if schedule.num_chunks is None else (schedule.num_chunks,):
                if not schedule.valid(p, m, v):
                    continue
                times = Times(3.0, 6.0, 3.0)
                peak = simulate(pipelines.program(schedule, p, m, chunks=v, times=times)).peak_memory_B()
                assert peak == pytest.approx(schedule.peak_live(p, m, v, np.arange(p)), rel=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_no_schedule_beats_the_physical_bounds(name: str) -> None:
    """Never below the work of the busiest device, nor below one micro-batch going down and up alone."""

    @examples
    @given(sizes(name), st.data())
    def check(size: tuple[int, int, int], data: Any) -> None:
        p, m, v = size
        f, i, w, head, embedding = (data.draw(st.integers(1, 30)) for _ in range(5))
        times = {
            "forward_s": f,
            "backward_s": i + w,
            "weight_s": w,
            "last_forward_s": head,
            "first_forward_s": embedding,
        }
        makespan, stage = oracle(name, p, m, v, times)
        cost = pipelines.get(name).price(p, m, chunks=v, **times)
        seconds = seconds_of(name, p, v, times)
        lanes = pipelines.get(name).order(p, m, v)
        busiest = max(sum(seconds(step, s, c) for step, _, c in lane) for s, lane in enumerate(lanes))
        alone = p * (f + i) + head + embedding
        assert makespan >= max(busiest, alone)
        assert stage >= busiest
        assert cost.makespan_s >= float(busiest) * (1 - 1e-12)
        assert cost.stage_s <= cost.makespan_s * (1 + 1e-12)
        assert 0 <= cost.bubble_frac < 1

    check()


@pytest.mark.parametrize("name", NAMES)
def test_estimates_stay_within_their_error(name: str) -> None:
    @settings(max_examples=drawn(80), derandomize=True, deadline=None)
    @given(sizes(name), st.data())
    def check(size: tuple[int, int, int], data: Any) -> None:
        p, m, v = size
        f, i, w = (data.draw(st.integers(60, 120)) for _ in range(3))
        times = {"forward_s": f, "backward_s": i + w, "weight_s": w}
        times |= {"transfer_s": data.draw(st.integers(0, 5)), "blocking": data.draw(st.booleans())}
        times |= {
            f"{end}_{kind}_s": data.draw(st.integers(0, 40))
            for end in ("first", "last")
            for kind in ("forward", "backward")
        }
        makespan, _ = oracle(name, p, m, v, times)
        error = pipelines.get(name).price(p, m, chunks=v, **times).makespan_s / float(makespan) - 1
        low, high = pipelines.get(name).domain.error_frac
        assert low - 1e-12 <= error <= high + 1e-12

    check()


@pytest.mark.parametrize("name", NAMES)
def test_prices_broadcast_and_scale(name: str) -> None:
    schedule = pipelines.get(name)
    stages, microbatches = np.array([[2], [4], [100_000]]), np.array([8, 400_000])
    v = schedule.num_chunks or 2
    cost = schedule.price(
        stages, microbatches, chunks=v, forward_s=np.array([1.0, 2.0]), backward_s=3.0, transfer_s=0.1
    )
    assert cost.makespan_s.shape == cost.bubble_frac.shape == (3, 2)
    assert np.isfinite(cost.makespan_s).all()
    one = schedule.price(4, 400_000, chunks=v, forward_s=2.0, backward_s=3.0, transfer_s=0.1)
    assert float(one.makespan_s) == cost.makespan_s[1, 1]
    scaled = schedule.price(4, 400_000, chunks=v, forward_s=2e6, backward_s=3e6, transfer_s=1e5)
    assert float(scaled.makespan_s) == pytest.approx(1e6 * float(one.makespan_s), rel=1e-12)
    assert schedule.peak_live(stages, microbatches, v, 0).shape == (3, 2)


def test_mixed_codes_equal_each_schedule() -> None:
    rng = np.random.default_rng(np.random.SeedSequence(7))
    num = 3_000
    codes, stages, microbatches = rng.integers(0, len(NAMES), num), rng.integers(1, 17, num), rng.integers(1, 65, num)
    chunks = np.array([pipelines.SCHEDULES[c].num_chunks or 3 for c in codes])
    forward_s, last_s = rng.random(num), rng.random(num)
    times = {"backward_s": 2.0, "transfer_s": 0.01}
    cost = pipelines.price_by_code(
        codes, stages, microbatches, chunks=chunks, forward_s=forward_s, last_forward_s=last_s, **times
    )
    live = pipelines.peak_live_by_code(codes, stages, microbatches, chunks=chunks)
    valid = pipelines.valid(codes, stages, microbatches, chunks)
    for k in range(0, num, 17):
        schedule, p, m, v = pipelines.SCHEDULES[codes[k]], int(stages[k]), int(microbatches[k]), int(chunks[k])
        alone = schedule.price(p, m, chunks=v, forward_s=forward_s[k], last_forward_s=last_s[k], **times)
        assert cost.makespan_s[k] == pytest.approx(float(alone.makespan_s), rel=1e-12)
        assert live[k] == schedule.peak_live(p, m, v, 0)
        assert valid[k] == schedule.valid(p, m, v)
