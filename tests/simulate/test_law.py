"""Laws: text form, quantiles, means and order statistics against exact values and scipy."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from effort import ALL
from lockstep.base.errors import BadInput
from lockstep.simulate.play import Constant, Empirical, Exponential, Law, LogNormal, Normal, Pareto, Uniform, parse_law
from lockstep.simulate.play.law import at_least

SIGMA = math.sqrt(math.log1p(0.09))
# One line per law: the law and the same law in scipy.
LAWS = [
    (Normal(0.05, 0.01), scipy.stats.norm(0.05, 0.01)),
    (LogNormal(0.05, 0.3), scipy.stats.lognorm(SIGMA, scale=0.05 / math.exp(SIGMA**2 / 2))),
    (Exponential(0.05), scipy.stats.expon(scale=0.05)),
    (Uniform(0.04, 0.06), scipy.stats.uniform(0.04, 0.02)),
    (Pareto(0.03, 3.5), scipy.stats.pareto(3.5, scale=0.03)),
]


@pytest.mark.parametrize(("law", "other"), LAWS)
def test_laws_match_their_means_and_quantiles(law: Law, other: object) -> None:
    assert law.mean_s == pytest.approx(other.mean(), rel=1e-12)  # type: ignore[attr-defined]
    for fraction in (0.01, 0.5, 0.95, 0.999):
        assert law.quantile_s(fraction) == pytest.approx(other.ppf(fraction), rel=1e-9)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("law", "other"), LAWS)
@pytest.mark.parametrize(("k", "n"), [(1, 1), (1, 8), (5, 8), (8, 8), (62, 64), (1000, 1000)])
def test_order_statistics_match_numerical_integration(law: Law, other: object, k: int, n: int) -> None:
    # E = integral of quantile(u) times the Beta(k, n - k + 1) density, with u = 1 - exp(-t) to tame the upper tail.
    constant = math.lgamma(n + 1) - math.lgamma(k) - math.lgamma(n - k + 1)

    def integrand(t: float) -> float:
        log_density = constant + (k - 1) * math.log(-math.expm1(-t)) - (n - k + 1) * t
        return float(other.isf(math.exp(-t))) * math.exp(log_density)  # type: ignore[attr-defined]

    pieces = [1e-300, 1e-3, 0.1, 1.0, 3.0, 6.0, 9.0, 15.0, 30.0, 60.0, 200.0]
    expected = math.fsum(
        scipy.integrate.quad(integrand, low, high, limit=200, epsabs=1e-14)[0]
        for low, high in itertools.pairwise(pieces)
    )
    assert law.expected_order_s(k, n) == pytest.approx(expected, rel=1e-8)


def test_expected_maxima_match_known_values() -> None:
    harmonic = math.fsum(1 / i for i in range(1, 1001))
    assert Exponential(2.0).expected_max_s(1000) == pytest.approx(2 * harmonic, rel=1e-14)
    # Largest of 2, 3 standard normals: 1 / sqrt(pi), 3 / (2 sqrt(pi)).
    assert Normal(0.0, 1.0).expected_max_s(2) == pytest.approx(1 / math.sqrt(math.pi), rel=1e-12)
    assert Normal(0.0, 1.0).expected_max_s(3) == pytest.approx(1.5 / math.sqrt(math.pi), rel=1e-12)
    assert Uniform(0.0, 1.0).expected_max_s(4) == 0.8
    assert Constant(3.0).expected_max_s(9) == 3.0
    assert Pareto(1.0, 0.5).mean_s == math.inf
    assert Pareto(1.0, 0.5).expected_max_s(3) == math.inf
    assert math.isfinite(Pareto(1.0, 0.5).expected_order_s(1, 3))


@pytest.mark.parametrize("law", [law for law, _ in LAWS] + [Empirical((0.1, 0.2, 0.2, 0.7))])
def test_order_statistics_are_ordered_and_sum_to_the_mean(law: Law) -> None:
    values = [law.expected_order_s(k, 7) for k in range(1, 8)]
    assert values == sorted(values)
    assert math.fsum(values) / 7 == pytest.approx(law.mean_s, rel=1e-9)
    assert law.expected_max_s(1) == pytest.approx(law.mean_s, rel=1e-9)


def test_empirical_order_statistics_match_enumeration() -> None:
    trace = Empirical((0.3, 0.1, 0.2))
    triples = [(a, b, c) for a in trace.times_s for b in trace.times_s for c in trace.times_s]
    for k in (1, 2, 3):
        assert trace.expected_order_s(k, 3) == pytest.approx(np.mean([sorted(t)[k - 1] for t in triples]), rel=1e-12)
    assert (trace.quantile_s(0.0), trace.quantile_s(0.5), trace.quantile_s(1.0)) == (0.1, 0.2, 0.3)


@pytest.mark.parametrize("law", [law for law, _ in LAWS] + [Empirical((0.1, 0.2, 0.7)), Constant(0.5)])
def test_draws_follow_the_law(law: Law) -> None:
    # Kolmogorov-Smirnov type bound (Dvoretzky-Kiefer-Wolfowitz): false alarm rate 1e-6 per law, seed fixed.
    n = 20_000
    values = law.draw(np.random.default_rng(0), n)
    bound = math.sqrt(math.log(2 / 1e-6) / (2 * n))
    for fraction in (0.1, 0.5, 0.9, 0.99):
        limit = law.quantile_s(fraction)
        assert (
            np.mean(values < limit * (1 - 1e-12)) - bound <= fraction <= np.mean(values <= limit * (1 + 1e-12)) + bound
        )


@pytest.mark.parametrize(
    ("text", "law"),
    [
        ("constant:value=2s", Constant(2.0)),
        ("normal:mean=50ms,cv=0.2", Normal(0.05, 0.2 * 0.05)),
        ("normal: mean = 50ms , std = 10ms", Normal(0.05, 0.01)),
        ("Lognormal:mean=50ms,cv=0.2", LogNormal(0.05, 0.2)),
        ("lognormal:mean=50ms,std=10ms", LogNormal(0.05, 0.01 / 0.05)),
        ("exponential:mean=1", Exponential(1.0)),
        ("uniform:low=1us,high=2us", Uniform(1e-6, 2e-6)),
        ("pareto:minimum=30ms,shape=2.5", Pareto(0.03, 2.5)),
        ("pareto:mean=50ms,shape=2.5", Pareto(0.05 * 1.5 / 2.5, 2.5)),
    ],
)
def test_laws_are_parsed_from_text(text: str, law: Law) -> None:
    assert parse_law(text) == law


@pytest.mark.parametrize(
    "text",
    [
        "", "gaussian:mean=1", "normal", "normal:mean=1", "normal:mean=1,cv=0.1,std=1", "normal:mean=1,mean=2,cv=1",
        "normal:mean=-1,cv=0.2", "exponential:mean=0", "exponential:rate=3", "exponential:mean=3GB",
        "uniform:low=2,high=1",
        "pareto:mean=1,shape=1", "pareto:minimum=0,shape=2", "exponential:mean", "exponential:mean=nan",
        "trace:/does/not/exist.csv",
        "lognormal:mean=1,cv=1e300",
        "lognormal:mean=1us,std=1e9",
    ],
)  # fmt: skip
def test_malformed_laws_are_refused(text: str) -> None:
    with pytest.raises(BadInput):
        parse_law(text)


def test_empirical_laws_are_read_from_files(tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    path.write_text("step,time_s\n1,30ms\n2,0.01\n\n")
    assert parse_law(f"trace:{path}") == Empirical((0.01, 0.03))
    path.write_text("5ms\n7ms\n")
    assert Empirical.read(path).times_s == (0.005, 0.007)
    path.write_text("time_s\n")
    with pytest.raises(BadInput, match="at least one time"):
        Empirical.read(path)
    path.write_text("time_s\nsoon\n")
    with pytest.raises(BadInput, match="row 1"):
        Empirical.read(path)
    path.write_bytes(b"\xff\xfe\x00\x01")
    with pytest.raises(BadInput):
        Empirical.read(path)


@pytest.mark.parametrize(
    ("k", "n"), [(1, 1), (1, 9), (9, 9), (5, 9), (900, 1000), (1000, 1000), (1, 1000), (333, 1000)]
)
def test_a_binomial_tail_is_the_exact_sum_of_its_terms(k: int, n: int) -> None:
    ways = [math.comb(n, j) for j in range(n + 1)]
    parts = range(0, 41, 1 if ALL or n < 100 else 5)
    exact = [
        float(Fraction(sum(ways[j] * i**j * (40 - i) ** (n - j) for j in range(k, n + 1)), 40**n)) for i in parts
    ]  # fmt: skip
    assert at_least(k, n, np.array(parts) / 40) == pytest.approx(exact, rel=1e-10, abs=1e-14)


def test_a_large_trace_of_many_workers_is_ordered() -> None:
    """The mean of k-th smallest of 20,000 of uniform times is k / (n + 1)."""
    times = Empirical(tuple((i + 0.5) / 100_000 for i in range(100_000)))
    assert times.expected_order_s(18_000, 20_000) == pytest.approx(18_000 / 20_001, rel=1e-6)


@pytest.mark.parametrize("time", ["1e308", "1e-308", "1e61"])
def test_times_outside_the_range_of_floats_are_refused(time: str, tmp_path: Path) -> None:
    (tmp_path / "times.csv").write_text(f"time_s\n1\n{time}\n")
    with pytest.raises(BadInput, match=r"times\.csv: row 2: must be 0 or from 1e-60 to 1e\+60"):
        Empirical.read(tmp_path / "times.csv")
    for text in (f"constant:value={time}", f"normal:mean={time},cv=0.1", f"uniform:low=0,high={time}"):
        with pytest.raises(BadInput, match="must be 0 or from 1e-60"):
            parse_law(text, "--law")


def test_a_malformed_csv_is_refused_at_its_line(tmp_path: Path) -> None:
    (tmp_path / "times.csv").write_text("time_s\n1\n" + "9" * 200_000)
    with pytest.raises(BadInput, match=r"times\.csv:3: is not a CSV file of times: field larger"):
        Empirical.read(tmp_path / "times.csv")
    with pytest.raises(BadInput, match=r"shape of at least 0\.2"):
        parse_law("pareto:minimum=1s,shape=0.01")
