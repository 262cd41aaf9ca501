"""P1, P3 and P4 for every algorithm of the table, and the meta-test that the table is complete."""

from __future__ import annotations

import pkgutil
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from effort import share
from lockstep import collectives
from lockstep.simulate.collectives import PlainLink
from lockstep.simulate.collectives.registry import Algorithm
from lockstep.simulate.program import execute

from .conformance import (
    CASES,
    ELEMENT_B,
    Case,
    elements,
    links,
    promised,
    quick,
    ranks_up_to_64,
    simulated_s,
    symbolic,
)

every_case = pytest.mark.parametrize("case", CASES, ids=str)
SIZES = (1, 2, 3, 5, 8, 12, 64)


def test_every_algorithm_file_registers_and_joins_the_table() -> None:
    root = Path(collectives.__file__).parent
    tested = {(case.algorithm.op, case.algorithm.name) for case in CASES}
    beside = {"levels", "__pycache__"}  # ways across levels have a table of their own
    for folder in sorted(path for path in root.iterdir() if path.is_dir() and path.name not in beside):
        for module in pkgutil.iter_modules([str(folder)]):
            loaded = import_module(f"{collectives.__name__}.{folder.name}.{module.name}")
            own = [value for value in vars(loaded).values() if isinstance(value, Algorithm)]
            own = [a for a in own if a.op.replace("-", "_") == folder.name]
            assert own, f"{folder.name}/{module.name}.py registers no algorithm"
            for algorithm in own:
                assert collectives.get(algorithm.op, algorithm.name) is algorithm
                assert (algorithm.op, algorithm.name) in tested
            assert "Source:" in (loaded.__doc__ or ""), f"{module.name} names no source"


def test_every_option_of_an_algorithm_has_an_example() -> None:
    for op in collectives.ops():
        for name in collectives.algorithms(op):
            algorithm = collectives.get(op, name)
            assert {key for choices in algorithm.examples for key in choices} == set(algorithm.choices)


@every_case
@quick
@given(ranks=ranks_up_to_64, elems=elements, link=links)
def test_price_equals_simulation_on_whole_elements(case: Case, ranks: int, elems: int, link: PlainLink) -> None:
    ranks = case.fitting(ranks)
    price = case.algorithm.price(ranks, elems * ELEMENT_B, link, ELEMENT_B, **case.choices)
    program = case.program(ranks, elems, link)
    assert simulated_s(program, link) == pytest.approx(price.time_s, rel=1e-12, abs=0)
    assert program.num_messages == price.messages
    assert program.sent_B().sum() == pytest.approx(price.total_B, rel=1e-12, abs=0)
    assert program.reduced_B().sum() == pytest.approx(price.total_reduced_B, rel=1e-12, abs=0)
    assert program.sent_B().sum() == program.received_B().sum()


@every_case
@quick
@given(ranks=st.integers(1, 24), size_B=st.floats(1, 1e5), link=links)
def test_price_equals_simulation_on_equal_shares(case: Case, ranks: int, size_B: float, link: PlainLink) -> None:
    ranks = case.fitting(ranks)
    price = case.algorithm.price(ranks, size_B, link, **case.choices)
    program = case.algorithm.program(ranks, size_B, link, **case.choices)
    assert simulated_s(program, link) == pytest.approx(price.time_s, rel=1e-12, abs=0)
    assert program.sent_B().sum() == pytest.approx(price.total_B, rel=1e-12, abs=0)


@pytest.mark.parametrize(
    ("case", "ranks"), [(case, ranks) for i, case in enumerate(CASES) for ranks in share(SIZES, 4, i)], ids=str
)
def test_each_contribution_arrives_exactly_once(case: Case, ranks: int) -> None:
    ranks = case.fitting(ranks)
    for elems in (1, ranks + 3):
        program = case.program(ranks, elems)
        before = symbolic(case.algorithm.op, ranks, program.ranks - ranks, elems)
        for seed in (None, 1) if ranks <= 12 else (None,):
            after = execute(program, {"data": before}, order_seed=seed)
            for buffer, rank, part, value in promised(case, before, ranks, elems):
                # A rank alone moves nothing, so `output` may not exist when there is nothing in it.
                if part.stop > part.start:
                    np.testing.assert_array_equal(after[buffer][rank][part], value)


@pytest.mark.parametrize(
    ("case", "ranks"),
    [(case, ranks) for i, case in enumerate(CASES) for ranks in share((1, 2, 3, 5, 8, 12), 4, i)],
    ids=str,
)
def test_the_program_computes_the_right_result_on_buffers(case: Case, ranks: int) -> None:
    ranks = case.fitting(ranks)
    elems = 3 * ranks + 1
    program = case.program(ranks, elems)
    draw = np.random.default_rng(np.random.SeedSequence(ranks))
    before = [draw.integers(-99, 99, elems).astype(np.float64) for _ in range(ranks)]
    before += [np.zeros(elems) for _ in range(program.ranks - ranks)]
    after = execute(program, {"data": before})
    for buffer, rank, part, value in promised(case, before, ranks, elems):
        np.testing.assert_array_equal(after[buffer][rank][part], value)


@every_case
@quick
@given(ranks=ranks_up_to_64, elems=elements, link=links)
def test_nothing_beats_the_lower_bound(case: Case, ranks: int, elems: int, link: PlainLink) -> None:
    ranks = case.fitting(ranks)
    for element_B in (0.0, ELEMENT_B):
        cost = case.algorithm.price(ranks, elems * ELEMENT_B, link, element_B, **case.choices)
        assert cost.time_s >= cost.lower_bound_s * (1 - 1e-12)
    used = case.algorithm.over(link)
    rate = collectives.bus_bandwidth_Bps(case.algorithm.op, ranks, elems * ELEMENT_B, cost.time_s)
    if case.algorithm.op not in ("parameter-server", "gossip") and not case.algorithm.in_switch:
        assert rate <= case.algorithm.ports * used.bandwidth_Bps * (1 + 1e-12)


@every_case
@quick
@given(ranks=ranks_up_to_64, elems=elements, link=links)
def test_no_rank_sends_or_receives_faster_than_its_ports(case: Case, ranks: int, elems: int, link: PlainLink) -> None:
    """Bytes that cross a rank's link in a time, each way, never more than the rate of its ports times the time."""
    ranks = case.fitting(ranks)
    program, used = case.program(ranks, elems, link), case.algorithm.over(link)
    most_B = simulated_s(program, link) * case.algorithm.ports * used.bandwidth_Bps
    for crossed_B in (program.sent_B(), program.received_B()):
        assert crossed_B[:ranks].max() <= most_B * (1 + 1e-12)


@every_case
def test_no_message_to_self_and_no_rank_sends_and_receives_unequal_totals(case: Case) -> None:
    program = case.program(12, 40)
    assert (program.rank[program.peer >= 0] != program.peer[program.peer >= 0]).all()
    assert program.pair_B().sum() == program.sent_B().sum()


@every_case
@quick
@given(ranks=ranks_up_to_64, size_B=st.floats(1, 1e9), link=links, factor=st.floats(1.0, 10.0), element=st.booleans())
def test_monotone_in_size_latency_and_byte_time(
    case: Case, ranks: int, size_B: float, link: PlainLink, factor: float, element: bool
) -> None:
    ranks = case.fitting(ranks)
    element_B = ELEMENT_B if element else 0.0
    size_B, larger_B = ELEMENT_B * round(size_B), ELEMENT_B * round(size_B * factor)
    alpha, rate, gamma = link.latency_s, link.bandwidth_Bps, link.reduce_s_per_B

    def time_s(size: float, latency: float, bandwidth: float, reduce: float) -> float:
        plain = PlainLink(latency, bandwidth, reduce)
        return float(case.algorithm.price_time_s(ranks, size, plain, element_B, **case.choices)) * (1 + 1e-12)

    base = time_s(size_B, alpha, rate, gamma) * (1 - 1e-11)
    assert base <= time_s(larger_B, alpha, rate, gamma)
    assert base <= time_s(size_B, alpha * factor, rate, gamma)
    assert base <= time_s(size_B, alpha, rate / factor, gamma)
    assert base <= time_s(size_B, alpha, rate, gamma * factor + 1e-12)


@every_case
def test_units_scale_exactly(case: Case) -> None:
    ranks, size_B, link = 12, 3e5, PlainLink(3e-6, 2e10, 1e-11)
    base = case.algorithm.price(ranks, size_B, link, **case.choices).time_s
    in_kilobytes = PlainLink(link.latency_s, link.bandwidth_Bps / 1000, link.reduce_s_per_B * 1000)
    in_milliseconds = PlainLink(link.latency_s * 1e3, link.bandwidth_Bps / 1e3, link.reduce_s_per_B * 1e3)
    assert case.algorithm.price(ranks, size_B / 1000, in_kilobytes, **case.choices).time_s == pytest.approx(
        base, rel=1e-12
    )
    assert case.algorithm.price(ranks, size_B, in_milliseconds, **case.choices).time_s == pytest.approx(
        base * 1e3, rel=1e-12
    )


@every_case
def test_prices_do_not_depend_on_rank_labels(case: Case) -> None:
    link = PlainLink(2e-6, 1e10, 3e-11)
    order = np.random.default_rng(np.random.SeedSequence(7)).permutation(12)
    plain, relabelled = case.program(12, 41, link), case.program(12, 41, link, order=order)
    assert simulated_s(relabelled, link) == simulated_s(plain, link)
    np.testing.assert_array_equal(relabelled.sent_B()[order], plain.sent_B()[:12])


@every_case
def test_stated_bytes_per_rank_equal_the_bytes_of_the_program(case: Case) -> None:
    """A switch that reduces is no rank; helpers such as parameter servers are counted with the workers they serve."""
    link, ranks = PlainLink(1e-6, 1e10), case.fitting(12)
    program = case.program(ranks, 48, link)
    counted = program.sent_B()[: ranks if case.algorithm.in_switch else None].sum()
    cost = case.algorithm.price(ranks, 48 * ELEMENT_B, link, ELEMENT_B, **case.choices)
    assert cost.bytes_sent_per_rank_B == pytest.approx(counted / ranks, rel=1e-12)


@every_case
def test_prices_support_a_hundred_thousand_ranks_and_arrays(case: Case) -> None:
    ranks = np.array([case.fitting(n) for n in (1, 2, 3, 12, 60, 1536, 98_304, 100_000)], dtype=float)
    link = PlainLink(np.full(len(ranks), 1e-6), 1e10, 1e-11)
    for element_B in (0.0, ELEMENT_B):
        cost = case.algorithm.price(ranks, 4e8, link, element_B, **case.choices)
        for name in ("time_s", "messages", "total_B", "lower_bound_s", "bytes_sent_per_rank_B"):
            values = np.broadcast_to(getattr(cost, name), ranks.shape)
            assert np.isfinite(values).all()
            for n, value in zip(ranks, values, strict=True):
                one = case.algorithm.price(int(n), 4e8, PlainLink(1e-6, 1e10, 1e-11), element_B, **case.choices)
                assert getattr(one, name) == pytest.approx(value, rel=1e-12, abs=0)


@every_case
def test_the_fast_path_equals_the_full_price(case: Case) -> None:
    link = PlainLink(1e-6, 1e10, 1e-11)
    ranks = np.array([12.0, 24.0])
    np.testing.assert_array_equal(
        case.algorithm.price_time_s(ranks, 1e6, link, **case.choices),
        case.algorithm.price(ranks, 1e6, link, **case.choices).time_s,
    )
