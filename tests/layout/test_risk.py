"""The probability of running out of memory: its law, and the published runs that did and did not."""

import numpy as np
import pytest

import lockstep
from lockstep.base.errors import BadInput, Infeasible
from lockstep.base.units import format_risk
from lockstep.check.validation.ran_out import RAN_OUT
from lockstep.check.validation.report import TABLES
from lockstep.price.layout import memory, out_of_memory_frac
from lockstep.price.layout.risk import EVEN_FRAC, LEAST_FRAC, most_used_frac


def test_it_rises_with_what_is_used_and_is_even_at_one_place() -> None:
    used = np.linspace(0.01, 3, 200)
    risk = out_of_memory_frac(used)
    assert (np.diff(risk) >= 0).all()
    assert (risk[0], risk[-1]) == (LEAST_FRAC, 1 - LEAST_FRAC)
    assert out_of_memory_frac(EVEN_FRAC) == pytest.approx(0.5)


def test_as_many_published_runs_ran_out_as_it_expects_among_full_and_fuller_ones() -> None:
    """The law is fitted to these: expected and counted are within two standard deviations in every class."""
    outcomes = [(case, 1) for table in RAN_OUT for case in RAN_OUT[table]()]
    outcomes += [(case, 0) for table in RAN_OUT for case in TABLES[table].cases()]
    used = np.array([float(memory(case.job, case.cluster, case.layout.grid()).used_frac) for case, _ in outcomes])
    ran_out, risk = np.array([one for _, one in outcomes]), np.asarray(out_of_memory_frac(used))
    assert len(ran_out) > 400
    for low, high in ((0.0, 0.8), (0.8, 0.93), (0.93, 1.0), (1.0, 1.1), (1.1, 9.0)):
        here = (used >= low) & (used < high)
        spread = np.sqrt((risk * (1 - risk))[here].sum())
        assert abs(ran_out[here].sum() - risk[here].sum()) <= 2 * spread + 0.5


def test_memory_says_its_risk() -> None:
    words = {"gpus": 1, "batch": 16, "seq": 2048, "stack": "trl", "train": "lora:r=16", "micro_batch": 4}
    roomy, full = (lockstep.memory(name, "rtx-4090:1", **words) for name in ("qwen3-0.6b", "llama3-8b"))
    assert roomy.memory.out_of_memory_frac == LEAST_FRAC
    assert 0.2 < full.to_dict()["memory"]["out_of_memory_frac"] < 1
    row = lockstep.memory(cluster="rtx-4090:1", train="lora:r=16").rows[0]
    assert row.fit is None or row.fit.out_of_memory_frac < 0.3


@pytest.mark.parametrize(("frac", "said"), [(0.004, "less than 1 %"), (0.26, "26 %"), (0.999, "more than 99 %")])
def test_what_is_not_known_is_not_said(frac: float, said: str) -> None:
    assert format_risk(frac) == said


@pytest.mark.parametrize("risk_frac", [0.01, 0.02, 0.2, 0.5, 0.9, 0.99])
def test_the_largest_use_for_a_risk_has_that_risk(risk_frac: float) -> None:
    assert float(out_of_memory_frac(most_used_frac(risk_frac))) == pytest.approx(risk_frac)


@pytest.mark.parametrize("risk_frac", [0.0, 0.001, 0.995, 1.0, float("nan")])
def test_a_risk_of_which_nothing_is_known_is_refused(risk_frac: float) -> None:
    with pytest.raises(BadInput, match="from 1 % to 99 %"):
        most_used_frac(risk_frac)


def test_plans_keep_to_the_risk_and_lose_time_for_it() -> None:
    asked = {"batch": 256, "seq": 4096, "objective": "time"}
    free, careful = (
        lockstep.plan("llama3-70b", "dgx-h100:4", **asked, **more).best for more in ({}, {"oom_risk": "2%"})
    )
    assert float(free.memory.out_of_memory_frac) > 0.02 >= float(careful.memory.out_of_memory_frac)
    assert careful.step_time_s >= free.step_time_s


def test_what_fits_only_at_a_greater_risk_is_named() -> None:
    """The same question has an answer without a limit of the risk, and with one says what is left of the memory."""
    asked = {"batch": 8, "seq": 4096, "micro_batch": 1, "zero": 3, "recompute": "none", "tp": 1, "pp": 1}
    best = lockstep.plan("llama2-13b", "dgx-a100-40gb:1", **asked).best
    assert float(best.memory.out_of_memory_frac) > 0.01
    with pytest.raises(Infeasible, match="that --oom-risk leaves of"):
        lockstep.plan("llama2-13b", "dgx-a100-40gb:1", **asked, oom_risk=0.01)
