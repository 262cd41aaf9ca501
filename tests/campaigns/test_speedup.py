"""Speed-up: the laws' own values, the best number of workers against closed forms and brute force, what is no bound."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lockstep
from cli_runner import run
from lockstep.base.errors import BadInput
from lockstep.decide.campaigns import SpeedUp, amdahl, gustafson, karp_flatt
from lockstep.simulate.collectives import PlainLink

EXAMPLES = settings(max_examples=50, derandomize=True, deadline=None)
QUESTION = ("speedup", "--compute", "10s", "--size", "200MB", "--latency", "10us", "--bandwidth", "25GB/s")


@EXAMPLES
@given(workers=st.integers(1, 10_000), share=st.fractions(0, 1))
def test_amdahl_and_gustafson_match_their_formulas(workers: int, share: Fraction) -> None:
    assert float(amdahl(workers, float(share))) == pytest.approx(float(1 / (share + (1 - share) / workers)), rel=1e-12)
    assert float(gustafson(workers, float(share))) == pytest.approx(float(share + (1 - share) * workers), rel=1e-9)
    assert amdahl(workers, float(share)) * (1 + 1e-12) >= 1
    assert amdahl(workers, float(share)) <= gustafson(workers, float(share)) * (1 + 1e-9)


@EXAMPLES
@given(workers=st.integers(2, 10_000), share=st.floats(1e-6, 1))
def test_karp_and_flatt_find_amdahls_share(workers: int, share: float) -> None:
    assert karp_flatt(workers, amdahl(workers, share)) == pytest.approx(share, rel=1e-6, abs=1e-9)


def test_a_constant_exchange_is_amdahls_law_and_not_an_upper_bound() -> None:
    """S = n (1 + rho) / (1 + n rho); n = 8: 4.889 for rho = 0.1 and 1.778 for 1, above n / (1 + (n - 1) rho)."""
    for rho, want in ((0.05, 6.0), (0.1, 44 / 9), (1.0, 16 / 9)):
        speedup = float(amdahl(8, rho / (1 + rho)))
        assert speedup == pytest.approx(8 * (1 + rho) / (1 + 8 * rho))
        assert speedup == pytest.approx(want)
        assert speedup > 8 / (1 + 7 * rho)


@EXAMPLES
@given(
    compute_s=st.floats(0.1, 100), latency_s=st.floats(1e-6, 1e-3), transfer_s=st.floats(0, 0.04),
    serial=st.floats(0, 0.5),
)  # fmt: skip
def test_the_best_ring_is_the_root_rounded_to_a_neighbour(
    compute_s: float, latency_s: float, transfer_s: float, serial: float
) -> None:
    found = SpeedUp(compute_s, transfer_s, PlainLink(latency_s, 1.0), "ring", serial, 100_000)
    root = math.sqrt(max(0.0, (1 - serial) * compute_s - 2 * transfer_s) / (2 * latency_s))
    if 3 <= root <= 99_999:
        assert found.best_workers in (math.floor(root), math.ceil(root))


def test_the_best_parameter_server() -> None:
    found = SpeedUp(10.0, 1e6, PlainLink(1e-4, 1e9), "parameter-server")
    root = math.sqrt(10.0 / (2 * (1e-4 + 1e6 / 1e9)))
    assert found.best_workers in (math.floor(root), math.ceil(root))


@pytest.mark.parametrize("exchange", ["ring", "tree", "recursive-doubling", "parameter-server"])
def test_no_other_number_of_workers_is_faster(exchange: str) -> None:
    found = SpeedUp(2.0, 1e8, PlainLink(1e-5, 25e9), exchange, 0.01, 2000)
    times_s = [float(found.time_s(number)) for number in range(1, 2001)]
    assert found.best_workers == 1 + int(np.argmin(times_s))
    assert times_s[0] == 2.0
    assert all(found.speedup(number) <= amdahl(number, 0.01) * (1 + 1e-12) for number in (2, 10, 500))
    half = found.workers_at(0.5)
    assert found.speedup(half) / half >= 0.5


def test_command_and_function_give_the_same_answer() -> None:
    answer = run(*QUESTION, "--json").json()
    found = lockstep.speedup(compute=10, size="200MB", latency="10us", bandwidth="25GB/s")
    assert (
        answer["best_workers"] == found.best_workers == max(answer["rows"], key=lambda row: row["speedup"])["workers"]
    )
    assert answer["rows"][0] == {
        "workers": 1, "time_s": 10.0, "speedup": 1.0, "efficiency_frac": 1.0, "amdahl": 1.0, "gustafson": 1.0,
        "karp_flatt_frac": 0.0,
    }  # fmt: skip
    assert run(*QUESTION).out.startswith(f"Fastest on {found.best_workers:,} workers: more are slower")
    assert "the most tried" in run(*QUESTION, "--workers", "16").out


def test_the_curves_are_drawn(tmp_path: Path) -> None:
    picture = tmp_path / "speedup.svg"
    assert run(*QUESTION, "--serial", "1%", "--plot", str(picture), "--json").code == 0
    assert picture.read_text().lstrip().startswith("<?xml")


@pytest.mark.parametrize(
    ("words", "flag"),
    [(("--exchange", "pigeon"), "--exchange"), (("--serial", "2"), "--serial"), (("--workers", "0"), "--workers"),
     (("--workers", "2G"), "--workers"), (("--cluster", "dgx-h100:2"), "--cluster")],
)  # fmt: skip
def test_bad_input_names_its_flag(words: tuple[str, ...], flag: str) -> None:
    assert run(*QUESTION, *words).refusal().startswith(f"{flag}: ")


def test_bad_numbers_are_refused() -> None:
    with pytest.raises(BadInput):
        SpeedUp(0.0, 1.0, PlainLink(1.0, 1.0))
