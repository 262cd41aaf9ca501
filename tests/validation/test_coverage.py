"""Intervals cover what they say on software that nothing was fitted to, and their constants are where the fit ends."""

from dataclasses import replace

import numpy as np
import pytest

from effort import ALL
from fit_scripts import fit_script
from lockstep.check.validation import TABLES
from lockstep.check.validation.coverage import MOST, Observed, observed, sampled, without
from lockstep.decide.planner.interval import Ends, known_spread

spread = fit_script("spread")
STEPS = [name for name, table in TABLES.items() if table.quantity == "step_time_s"]


def test_sampled_rows_are_spread_over_a_table() -> None:
    cases = TABLES["dgxc_nemo"].cases()
    found = sampled(cases)
    assert len(found) == len({id(one) for one in found}) == MOST
    assert found[0] == cases[0]
    assert found[-1] == cases[-1]
    assert list(sampled(cases[:3])) == list(cases[:3])
    assert sampled(()) == []


def made(software: str, log_errors: np.ndarray, host_frac: float) -> list[Observed]:
    ends = Ends(1.0, 1.0, 1.0, host_frac)
    return [Observed(software, float(np.exp(error)), ends) for error in log_errors]


def test_the_fit_recovers_the_quantiles_of_simulated_errors() -> None:
    """Errors whose upper end is known to grow with the host's share."""
    generator, rows = np.random.default_rng(1), []
    for place, host in enumerate([0.0, 0.1, 0.2, 0.3]):
        errors = generator.uniform(-0.2, 1.0, 1000)
        up = 0.1 + 1.5 * host
        rows += made(
            f"program {place}",
            np.where(errors > 0, np.log1p(np.maximum(errors, 0.0) * up / 0.94), errors),
            host,
        )
    found = spread.fitted(rows, 0.9)
    assert found["below"] == pytest.approx(0.14, abs=0.015)
    assert found["above"] == pytest.approx(0.1, abs=0.02)
    assert found["above_per_host"] == pytest.approx(1.5, abs=0.1)


def test_every_program_has_equal_weight() -> None:
    generator = np.random.default_rng(2)
    few, many = generator.uniform(0.5, 0.6, 50), generator.uniform(0.0, 0.1, 5000)
    rows = made("few", few, 0.0) + made("many", many, 0.0)
    assert spread.fitted(rows, 0.9)["above"] == pytest.approx(np.expm1(np.quantile(few, 0.9)), abs=0.02)


def test_leaving_out_a_program_changes_the_constants() -> None:
    assert without("torchtitan") != known_spread()
    assert without("no such program") == known_spread()
    assert (
        replace(without("torchtitan"), **{name: getattr(known_spread(), name) for name in spread.CONSTANTS})
        == known_spread()
    )


@pytest.mark.skipif(not ALL, reason="prices every published step four times: --long")
def test_the_constants_are_the_optimum_of_the_fit() -> None:
    rows = [observed(case) for name in STEPS for case in TABLES[name].cases()]
    known = {name: getattr(known_spread(), name) for name in spread.CONSTANTS}
    assert spread.fitted(rows, known_spread().level_frac + spread.LEFT_OUT_FRAC) == pytest.approx(known, rel=0.02)


@pytest.mark.skipif(not ALL, reason="prices every published step: --long")
def test_every_doubt_covers_what_it_says_and_not_everything() -> None:
    """Rows by what is doubted of them, nothing fitted to their software: classes of 20 rows and more."""
    rows: dict[tuple[str, ...], list[bool]] = {}
    for name in STEPS:
        for case in TABLES[name].cases():
            found = observed(case)
            rows.setdefault(found.ends.doubts.names, []).append(found.covered)
    shares = {doubts: sum(inside) / len(inside) for doubts, inside in rows.items() if len(inside) >= 20}
    assert len(shares) >= 4
    assert all(0.80 <= share <= 0.97 for share in shares.values()), shares
