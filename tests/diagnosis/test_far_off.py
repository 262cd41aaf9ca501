"""A step many times as long as predicted: what would have to be true of it, each said so that it can be looked up."""

import re

import pytest

from cli_runner import run
from lockstep.decide.planner.estimate import estimate
from lockstep.describe.hardware import cluster, devices
from lockstep.describe.workload import model
from lockstep.explain.far_off import FAR, conditions
from lockstep.explain.judge import judge
from lockstep.explain.stated import MFU, RATE, TIME_S, TOKENS, Stated
from lockstep.price.layout import Job, Layout, Recipe

RUN = ("--model", "llama3-8b", "-c", "dgx-h100:1", "--batch", "8", "--zero", "3")


@pytest.fixture(scope="module")
def found():
    machine = cluster("dgx-h100:1")
    return estimate(Job(model("llama3-8b"), Recipe(seq=8192, batch=8), 8), machine, Layout(dp=8, zero=3))


def test_a_confused_unit_is_suggested_besides_another_model():
    """N7: 60 s where 0.86 s are predicted had one explanation, a model of 405 billion parameters."""
    told = run("diagnose", *RUN, "--measured", "60s")
    assert told.code == 0
    said = run("diagnose", *RUN, "--measured", "60s", "--json").json()["judged"]["conditions"]
    for kind in ("another unit", "several steps", "accumulation", "another machine"):
        assert kind in told.out
        assert sum(one.startswith(kind) for one in said) == 1


@pytest.mark.parametrize("quantity", [TIME_S, TOKENS, RATE, MFU])
def test_only_a_step_that_is_far_off_has_conditions(found, quantity):
    """And a unit is asked of times alone."""
    whole = found.interval
    for times, told in ((1.0, False), (0.99 * FAR, False), (1.01 * FAR, True), (1000.0, True)):
        stated = Stated(quantity, Stated(quantity, 1.0).at(times * whole.high, found))
        said = judge(found, [stated]).conditions
        assert bool(said) == told
        assert any("milliseconds" in one for one in said) == (told and quantity == TIME_S)


@pytest.mark.parametrize("steps", [10, 64, 100, 1000])
def test_the_suggested_numbers_of_steps_cover_the_interval(found, steps):
    """The time of so many predicted steps, and a batch so many times as large."""
    _, several, accumulation, _ = conditions(Stated(TIME_S, steps * found.step_time_s), found)
    low, high = (int(one.replace(",", "")) for one in re.findall(r"of ([\d,]+) to ([\d,]+) steps", several)[0])
    assert low <= steps <= high
    assert found.interval.low * high <= steps * found.step_time_s <= found.interval.high * low * (1 + 1 / low)
    assert f"the batch is {8 * low:,} to {8 * high:,} sequences" in accumulation


def test_a_step_in_milliseconds_is_recognised(found):
    """859.1 given as seconds is 859.1 ms."""
    unit = conditions(Stated(TIME_S, 1000 * found.step_time_s), found)[0]
    assert unit.endswith("as predicted")
    assert "more than the device can do" in conditions(Stated(TIME_S, 60.0), found)[0]


def test_suggested_devices_would_give_about_the_measured_step(found):
    """By their peak, at the same share of it."""
    said = conditions(Stated(TIME_S, 7 * found.interval.high), found)[-1]
    names = [one.name for one in devices() if f" {one.name} " in f" {said.partition('as ')[2]} "]
    assert names
    for one in devices():
        if one.name in names:
            step_s = found.step_time_s * found.cluster.device.peak("bf16") / one.peak("bf16")
            assert step_s == pytest.approx(7 * found.interval.high, rel=0.5)


def test_no_suggested_deviation_leaves_more_than_a_factor_of_two(found):
    """Of 600 s, a model with which a step takes 36 s explains nothing."""
    for value in (60.0, 600.0, 6000.0):
        assert all(0.5 < one.value / value < 2 for one in judge(found, [Stated(TIME_S, value)]).candidates)
