"""Readings and deviations: what is put in comes out."""

import math
import random
from dataclasses import replace

import pytest

from lockstep.base.errors import BadInput
from lockstep.decide.planner.estimate import estimate
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import model
from lockstep.explain import deviations as deviations_module
from lockstep.explain.deviations import OUTSIDE, candidates, deviations
from lockstep.explain.deviations import _changed as changed
from lockstep.explain.deviations import _slowed as slowed
from lockstep.explain.judge import AS_PREDICTED, FASTER, SLOWER, judge
from lockstep.explain.readings import EVERY, SAME, explaining
from lockstep.explain.stated import MFU, RATE, TIME_S, TOKENS, Stated, read, read_like
from lockstep.price.layout import Job, Layout, Recipe

LAYOUTS = {
    "8b": ("llama3-8b", "dgx-h100:2", {"dp": 16, "zero": 3, "micro_batch": 1}, 128),
    "70b": ("llama2-70b", "dgx-h100:16", {"tp": 8, "pp": 8, "dp": 2, "zero": 1, "sequence_parallel": True}, 512),
    "a100": ("llama2-13b", "dgx-a100-80gb:4", {"tp": 2, "dp": 16, "zero": 1, "recompute": "full"}, 256),
}


def run(name):
    named, machine, layout, batch = LAYOUTS[name]
    computer = cluster(machine)
    job = Job(model(named), Recipe(seq=4096, batch=batch), computer.num_devices)
    return estimate(job, computer, Layout(**layout))


@pytest.fixture(scope="module", params=LAYOUTS)
def found(request):
    return run(request.param)


@pytest.mark.parametrize("quantity", [TIME_S, TOKENS, RATE, MFU])
def test_a_step_within_its_own_interval_is_as_predicted(found, quantity):
    """And nothing is offered to explain it; outside of it, it is slower or faster."""
    drawn, whole = random.Random(quantity), found.interval
    for _ in range(20):
        step_s = drawn.uniform(whole.low * 1.0001, whole.high * 0.9999)
        judged = judge(found, [Stated(quantity, Stated(quantity, 1.0).at(step_s, found))])
        assert judged.verdict == AS_PREDICTED
        assert judged.step_time_s == pytest.approx(step_s)
        assert judged.candidates == ()
        assert judged.readings == ()
    for step_s, verdict in ((whole.low * 0.98, FASTER), (whole.high * 1.02, SLOWER)):
        assert judge(found, [Stated(quantity, Stated(quantity, 1.0).at(step_s, found))]).verdict == verdict


def test_a_number_in_another_convention_is_explained_by_the_convention(found):
    """Of two numbers of one run, one is counted so: that reading, or one with the same factor, is the first named."""
    factors = [(one, one.factor(found)) for one in EVERY]
    telling = [(one, factor) for one, factor in factors if factor is not None and abs(math.log(factor)) > SAME]
    assert len(telling) > len(EVERY) / 2
    for factor, quantity in ((factor, quantity) for one, factor in telling for quantity in one.of):
        true = Stated(quantity, 1.0).at(found.step_time_s, found)
        stated = Stated(quantity, true / factor)
        named = explaining(stated, factor, found)[0]
        other = next(one for one in EVERY if one.name == named.name)
        assert other.factor(found) == pytest.approx(factor, rel=other.tolerance)
        assert named.true == pytest.approx(true, rel=other.tolerance)


def test_mfu_of_the_peak_of_bf16_is_known_where_products_run_in_fp8():
    """As torchtitan prints it."""
    job = Job(model("llama3-8b"), Recipe(seq=8192, batch=64, dtype="fp8"), 8)
    found = estimate(job, cluster("dgx-h100:1"), Layout(dp=8, zero=3))
    assert explaining(Stated(MFU, 2 * found.mfu_frac), 0.5, found)[0].name == "bf16 peak"


def test_numbers_that_agree_contradict_nothing(found):
    """Time, tokens, FLOP/s and MFU of one step."""
    step_s = found.step_time_s * 1.07
    numbers = [Stated(quantity, Stated(quantity, 1.0).at(step_s, found)) for quantity in (TIME_S, TOKENS, RATE, MFU)]
    assert judge(found, numbers).contradictions == ()


def test_the_injected_deviation_is_among_the_fitting_candidates(found):
    """With other fields it gives the measured time itself; nothing that fits better is far from it."""
    for one in deviations():
        if one.factor:
            continue
        try:
            job, layout = changed(one, found)
            other = estimate(job, found.cluster, layout)
        except BadInput:
            continue
        if abs(math.log(other.step_time_s / found.step_time_s)) < 0.02:
            continue
        named = {each.name: each for each in candidates(Stated(TIME_S, other.step_time_s), found)}
        assert named[one.name].value == pytest.approx(other.step_time_s)
        assert named[one.name].fit == pytest.approx(math.log(one.prior))


@pytest.mark.parametrize("factor", [1.3, 2.5])
def test_an_injected_factor_is_recovered(found, factor):
    """Slower links, kernels and hosts: solved for, the factor is the one that was put in."""
    for one in deviations():
        if one.factor in ("", OUTSIDE):
            continue
        level = {"inner": 0, "outer": len(found.cluster.levels) - 1}.get(one.factor)
        slower = slowed(found, one.factor, level, factor)
        assert slower == estimate(found.job, slower.cluster, found.layout)
        step_s = slower.step_time_s
        if step_s < found.step_time_s * 1.001:
            continue
        named = {each.name: each for each in candidates(Stated(TIME_S, step_s), found)}
        # A factor on little of the step is known less well than the step.
        known = max(1e-5, 1e-6 / math.log(step_s / found.step_time_s))
        assert named[one.name].factor == pytest.approx(factor, rel=known)
        assert named[one.name].value == pytest.approx(step_s, rel=1e-6)


def test_formats_that_the_device_lacks_are_not_suggested():
    """A V100 has no TF32; what else would explain the number is found all the same."""
    computer = cluster("dgx-v100:1")
    job = Job(model("gpt2-xl"), Recipe(seq=1024, batch=64, dtype="fp16"), 8)
    found = estimate(job, computer, Layout(dp=8))
    named = {each.name for each in candidates(Stated(TIME_S, 1.6 * found.step_time_s), found)}
    assert "wide-products" not in named
    assert "slow-kernels" in named


def test_no_variant_is_priced_twice(found, monkeypatch):
    """Deviations and changes share their prices, and so do two numbers of one run; each pricing may be ended before."""
    asked, slow = [], Stated(TIME_S, 1.6 * found.step_time_s)
    price = deviations_module.estimates
    monkeypatch.setattr(deviations_module, "estimates", lambda *run: asked.append(run[::2]) or price(*run))
    deviations_module._priced.cache_clear()
    first = judge(found, [slow])
    assert asked
    assert len(asked) == len(set(asked))
    count = len(asked)
    assert judge(found, [slow]) == first
    judge(found, [Stated(TIME_S, 1.9 * found.step_time_s)])
    assert len(asked) == count

    def end() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judge(found, [slow], heed=end)


def test_equally_good_explanations_are_both_listed(found):
    """Marks of equality follow the fits."""
    judged = candidates(Stated(TIME_S, found.step_time_s * 1.5), found)
    best = judged[0].fit
    assert all(one.equal == (best - one.fit < 0.5) for one in judged[1:])
    assert [one.fit for one in judged] == sorted((one.fit for one in judged), reverse=True)


def test_mfu_of_another_peak_is_converted():
    """21.2 % of the sparse peak are 42.4 % of the dense one, as seconds."""
    found = run("8b")
    sparse = Stated(MFU, found.mfu_frac / 2, 2 * found.cluster.device.peak("bf16"))
    assert sparse.step_time_s(found) == pytest.approx(found.step_time_s)


def test_measured_numbers_are_parsed_with_units():
    """A plain FLOP rate is in TFLOP/s; the unit of an expected number says what it is."""
    like = Stated(RATE, 296.5e12)
    assert read(RATE, "296.5", "x") == like
    assert read_like("420.5", like, "x") == replace(like, value=420.5e12)
    assert read_like("45%", like, "x") == Stated(MFU, 0.45)
    assert read_like("12 s", like, "x") == Stated(TIME_S, 12.0)
    for quantity, given in ((MFU, "45"), (RATE, "0"), (TIME_S, "nan"), (TOKENS, "many")):
        with pytest.raises(BadInput):
            read(quantity, given, "x")
    with pytest.raises(BadInput, match="is not a number like"):
        read_like("12 GiB", like, "x")
