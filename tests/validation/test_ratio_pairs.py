"""Ratios of two published steps: which pairs count, the fit of their errors, and the constants in use."""

from dataclasses import replace

import numpy as np
import pytest

from effort import ALL
from fit_scripts import fit_script
from lockstep.check.validation import TABLES
from lockstep.check.validation.coverage import observed
from lockstep.decide.planner.comparison import known_shared

ratios = fit_script("pairs")


def test_pairs_share_model_software_and_device() -> None:
    cases = TABLES["narayanan_sc21"].cases()
    found = list(ratios.pairs(cases))
    keys = [(case.job.model, case.job.recipe.software.name, case.cluster.device.name) for case in cases]
    most = sum(keys.count(key) * (keys.count(key) - 1) // 2 for key in dict.fromkeys(keys))
    assert 0 < len(found) <= most
    assert all(0 <= pair.shift_frac <= 1 for pair in found)


def test_an_error_is_the_difference_of_two_errors() -> None:
    one, other = TABLES["korthikanti_2022"].cases()[:2]
    other = replace(other, job=replace(other.job, model=one.job.model))
    (pair,) = ratios.pairs([one, other])
    assert pair.error == pytest.approx(abs(observed(one).log_error - observed(other).log_error))
    assert list(ratios.pairs([one, one])) == [], "a step and itself"


def test_large_numbers_of_pairs_are_sampled() -> None:
    (case, *_) = TABLES["korthikanti_2022"].cases()
    many = [replace(case, layout=replace(case.layout, micro_batch=1 << place)) for place in range(6)] * 6
    assert 0 < len(list(ratios.pairs(many))) <= ratios.MOST


def test_the_fit_recovers_the_quantile_of_simulated_errors() -> None:
    generator, found = np.random.default_rng(3), []
    for program in range(4):
        for shift_frac in generator.uniform(0.0, 0.5, 1500):
            error = generator.uniform(0.0, (0.1 + 2.0 * shift_frac) / 0.9)
            found.append(ratios.Pair(f"program {program}", float(error), float(shift_frac)))
    assert ratios.fitted(found, 0.9) == pytest.approx([0.1, 2.0], abs=0.1)
    assert ratios.left_out(found, 0.9) == pytest.approx(0.9, abs=0.02)


@pytest.mark.skipif(not ALL, reason="prices every published step four times: --long")
def test_the_constants_are_the_optimum_of_the_fit() -> None:
    timed = [table for table in TABLES.values() if table.quantity == "step_time_s"]
    found = list(ratios.pairs([case for table in timed for case in table.cases()]))
    known = known_shared()
    assert ratios.fitted(found, known.level_frac) == pytest.approx([known.shared, known.shared_per_shift], rel=0.1)
    assert ratios.left_out(found, known.level_frac) == pytest.approx(known.level_frac, abs=0.05)
