"""Steps in blocks: the same on every engine, kept in a file, merged as if they had been drawn together."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

import lockstep
from lockstep.base.engines import Processes, Serial, SweepFile
from lockstep.base.types.arrays import Floats
from lockstep.simulate.failures.blocks import block_seed
from lockstep.simulate.failures.stragglers import Barrier, Bounded, Local, Mitigation, simulated
from lockstep.simulate.failures.stragglers.simulated import BIN_FRAC, FRACTIONS, Simulated, simulate_steps
from lockstep.simulate.play import LogNormal, Sample, parse_law

LAW, COMM_S = LogNormal(1.0, 0.3), 0.1
FACTOR = np.array([1.0, 1.0, 1.0, 2.0])
NUMBERS, SMALL = 50_000, 12_000


@pytest.fixture
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Five blocks, the last smaller."""
    monkeypatch.setattr(simulated, "BLOCK", SMALL)


def drawn(mitigation: Mitigation) -> list[tuple[Floats, Floats]]:
    """What the mitigation itself says of every block."""
    sizes = [*[SMALL] * (NUMBERS // SMALL), NUMBERS % SMALL]
    generators = [np.random.Generator(np.random.PCG64(block_seed(3, at))) for at in range(len(sizes))]
    pairs = zip(sizes, generators, strict=True)
    return [mitigation.steps_s(LAW, FACTOR, COMM_S, size, generator) for size, generator in pairs]


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("mitigation", [Barrier(), Bounded(2), Local(4)], ids=lambda one: type(one).__name__)
def test_merged_blocks_equal_one_large_draw(mitigation: Mitigation) -> None:
    found, blocks = simulate_steps(mitigation, LAW, FACTOR, COMM_S, NUMBERS, 3), drawn(mitigation)
    whole = Sample(np.concatenate([means for means, _ in blocks]))
    assert found.means == len(whole)
    assert (found.mean_s, found.std_s) == pytest.approx((whole.mean_s, whole.std_s), rel=1e-12)
    assert found.interval_s() == pytest.approx(whole.interval_s(), rel=1e-12)
    singles = np.sort(np.concatenate([steps for _, steps in blocks]))
    for frac, quantile_s in zip(FRACTIONS, found.quantiles_s, strict=True):
        inside = singles[int(np.ceil(frac * len(singles))) - 1]
        assert quantile_s == pytest.approx(inside, rel=0.51 * BIN_FRAC)


def test_a_single_block_is_exact_and_uses_the_seed_directly() -> None:
    means, singles = Barrier().steps_s(LAW, FACTOR, COMM_S, SMALL, np.random.default_rng(3))
    whole = Sample(means)
    quantiles = tuple(float(np.quantile(singles, frac)) for frac in FRACTIONS)
    assert simulate_steps(Barrier(), LAW, FACTOR, COMM_S, SMALL, 3) == Simulated(
        len(whole), whole.mean_s, whole.std_s, quantiles
    )


def test_steps_of_zero_time_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the draws of this law 42 % are negative, which count as 0."""
    monkeypatch.setattr(simulated, "BLOCK", 1000)
    monkeypatch.setattr(simulated, "FRACTIONS", (0.4, 0.45))
    law = parse_law("normal:mean=1ms,std=5ms")
    below_s, above_s = simulate_steps(Barrier(), law, np.ones(1), 0.0, 50_000, 0).quantiles_s
    assert below_s == 0.0 < above_s


@pytest.mark.usefixtures("small_blocks")
def test_engines_and_sweep_files_give_the_same_answer(tmp_path: Path) -> None:
    asked = (Barrier(), LAW, FACTOR, COMM_S, NUMBERS, 3)
    here = simulate_steps(*asked, engine=Serial())
    assert here == simulate_steps(*asked, engine=Processes(2))
    with SweepFile(tmp_path / "a.sweep") as file:
        assert here == simulate_steps(*asked, file=file)
        assert len(file) == 5
        more = simulate_steps(*asked[:4], 2 * SMALL + NUMBERS // SMALL * SMALL, 3, file=file)
        assert len(file) == 7
        assert more.means > here.means


def test_memory_does_not_grow_with_the_number_of_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times the draws in a tenth more."""
    monkeypatch.setattr(simulated, "BLOCK", 200_000)
    peaks_B = []
    for blocks in (4, 40):
        tracemalloc.start()
        simulate_steps(Barrier(), LAW, FACTOR, COMM_S, blocks * 200_000, 0)
        peaks_B.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert peaks_B[1] < 1.1 * peaks_B[0]


def test_stragglers_accepts_draws_engine_and_store(tmp_path: Path) -> None:
    asked = {"workers": 16, "law": "lognormal:mean=50ms,cv=0.3", "slow": 1, "draws": "9M"}
    here = lockstep.stragglers(**asked)
    assert here == lockstep.stragglers(**asked, store=tmp_path / "a.sweep")
    few = lockstep.stragglers(**{**asked, "draws": "4M"})
    assert few == lockstep.stragglers(**{name: value for name, value in asked.items() if name != "draws"})
    spreads = [one.ci95[1] - one.ci95[0] for one in (few, here)]
    assert spreads[1] == pytest.approx(spreads[0] * (4 / 9) ** 0.5, rel=0.05)
