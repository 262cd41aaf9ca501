"""The fit of devices and software together, and what it says of software that it has not seen."""

import numpy as np
import pytest

from effort import ALL
from fit_scripts import fit_script
from lockstep.check.validation import TABLES, validate
from lockstep.check.validation.without_program import left_out, without_program
from lockstep.describe.hardware import efficiency
from lockstep.describe.stacks import stack, stacks

fit = fit_script("fit")
GROUPS = {f"{one.table} {one.device} {one.software}": one for one in fit.groups()}


@pytest.mark.parametrize("name", GROUPS)
def test_evaluating_many_constants_equals_evaluating_each(name: str) -> None:
    group = GROUPS[name]
    cases = [case for case in group.cases if not case.layout.stages][:2]
    start = fit.start()
    places = start.of(group)
    assert places, "a table that no constant depends on is in the fit"
    values = np.exp(start.logs[places])
    moved = values[:, None] * (1.0 + 0.1 * np.eye(len(values)))
    together = fit.log_errors(group, cases, start.named(places, moved))
    for place in range(len(values) if cases else 0):
        alone = fit.log_errors(group, cases, start.named(places, moved[:, place]))
        np.testing.assert_allclose(together[:, place], alone, rtol=1e-12, atol=1e-12)


def test_tables_contribute_at_most_the_stated_rows_to_the_fit() -> None:
    for group in fit.groups():
        assert len(group.fitted) <= fit.MOST
        assert set(group.fitted) <= set(group.cases)


def kept(who: str, what: str) -> float:
    """A constant of the catalog."""
    of = [efficiency(who)] if what in fit.CURVE else [one for one in stacks().values() if one.kernels == who]
    (found,) = {getattr(one, what) for one in of}
    return float(found)


def test_the_catalog_is_the_optimum_of_the_fit() -> None:
    """No step from there, by the slopes there, would lower what is minimised by a hundredth."""
    fitted = [group for group in fit.groups() if group.fitted]
    residuals, slopes = fit.linear(fitted, np.log([kept(*name) for name in fit.start().names]))
    shares = (residuals / fit.SCALE) ** 2
    weights = 1.0 / np.sqrt(1.0 + shares)
    cost = float(np.sum(fit.SCALE**2 * (np.sqrt(1.0 + shares) - 1.0)))
    gradient = slopes.T @ (weights * residuals)
    lower = 0.5 * gradient @ np.linalg.solve(slopes.T @ (weights[:, None] * slopes), gradient)
    assert 0 <= lower < 0.01 * cost


@pytest.mark.skipif(not ALL, reason="the whole fit takes a minute: bash check --long")
def test_catalog_constants_equal_the_fit() -> None:
    """Constants of devices and of libraries of kernels, all from one run."""
    found = fit.fit()
    for name in found.names:
        assert kept(*name) == pytest.approx(found[name], rel=1e-3), name


def test_constants_stay_inside_their_bounds() -> None:
    for who, what in fit.start().names:
        assert fit.LOWEST[what] < kept(who, what) < fit.HIGHEST[what]


def test_leaving_out_a_program_removes_its_rows_from_the_fit() -> None:
    """What is said of a program left out is what its fit without it says."""
    known = left_out()
    assert set(known) == {group.software for group in fit.groups()}
    for group in fit.groups():
        case = group.cases[0]
        blind = without_program(case)
        for name, value in known[group.software].get(group.device, {}).items():
            assert getattr(blind.cluster.device.efficiency, name) == value
        for name, value in known[group.software][stack(group.software).kernels].items():
            assert getattr(blind.job.recipe.software, name) == value
        assert blind.job.recipe.software.switches == stack(group.software).switches


def test_programs_without_fitted_rows_keep_their_prediction() -> None:
    case = TABLES["nanotron_ultrascale"].cases()[0]
    assert without_program(case) is case


@pytest.mark.parametrize("device", ["a100", "h100"])
def test_triton_attention_is_slower_by_the_published_factor(device: str) -> None:
    """1.3 to 1.5 times forward and around twice backward, at any length."""
    rates = efficiency(device).attention
    for tokens in (512, 2048, 65536):
        forward, backward = (
            rates["flash2"].frac(tokens, 128, True, way) / rates["triton"].frac(tokens, 128, True, way)
            for way in (False, True)
        )
        assert 1.3 < forward < 1.5
        assert backward == pytest.approx(2.0, rel=0.05)


def test_errors_by_program_match_its_tables() -> None:
    report = validate(["dgxc_maxtext", "megatron_2020"])
    assert [one.stack for one in report.stacks] == ["maxtext", "megatron-2021"]
    for table, one in zip(report.tables, report.stacks, strict=True):
        assert sorted(table.fracs) == sorted(one.fracs)
        assert table.left_out_median_frac == pytest.approx(float(np.median(np.abs(one.left_out_fracs))))
    medians = [table.left_out_median_frac for table in report.tables]
    assert report.left_out_median_frac == pytest.approx(np.median(medians))
