"""`Comparison`: parts add up, errors that two runs have in common cancel, what is measured has no error."""

import math
import random
from dataclasses import replace

import pytest

import lockstep
from lockstep.base.errors import BadInput
from lockstep.decide.planner.comparison import Comparison, Side, known_shared, predicted, shift_frac

QUESTION = {"model": "llama3-8b", "cluster": "dgx-h100:2", "batch": 64}
LAYOUTS = (
    {"tp": 1, "zero": 1, "recompute": "selective"},
    {"tp": 2, "zero": 1},
    {"tp": 4, "pp": 2, "micro_batch": 2},
    {"pp": 4, "schedule": "zb-h1"},
    {"tp": 2, "cp": 2, "zero": 3},
)


def side(*seconds: float, **fields: object) -> Side:
    """A measured side of a few parts."""
    names = ("compute", "dp_comm", "bubble", "other")
    plain = {"title": "run", "parts_s": dict(zip(names, seconds, strict=False)), "units": 64.0, "unit": "tokens"}
    return Side(**{**plain, "devices": 8, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(6))
def test_parts_add_up_to_the_difference(seed: int) -> None:
    draw = random.Random(seed)
    one, other = draw.sample(LAYOUTS, 2)
    batches = draw.choice(((64, 64), (64, 128)))
    a, b = (
        lockstep.estimate(**{**QUESTION, "batch": n}, **layout) for n, layout in zip(batches, (one, other), strict=True)
    )
    found = lockstep.compare(a, b)
    per_token_s = b.step_time_s / b.job.step_units - a.step_time_s / a.job.step_units
    assert found.difference_s == pytest.approx(a.job.step_units * per_token_s, rel=1e-9)
    assert sum(row["difference_s"] for row in found.parts) == pytest.approx(
        found.difference_s, abs=1e-9 * a.step_time_s
    )
    assert sum(row["a_s"] for row in found.parts) == pytest.approx(a.step_time_s, rel=1e-12)
    memory_B = float(b.memory.total_B) - float(a.memory.total_B)
    assert sum(row["difference_B"] for row in found.memory) == pytest.approx(memory_B, abs=1.0)


@pytest.mark.parametrize("seed", range(4))
def test_swapping_the_runs_inverts_the_ratio(seed: int) -> None:
    one, other = random.Random(seed).sample(LAYOUTS, 2)
    a, b = (predicted(lockstep.estimate(**QUESTION, **layout), "") for layout in (one, other))
    found, turned = Comparison(a, b), Comparison(b, a)
    assert (1 + found.interval.low) * (1 + turned.interval.high) == pytest.approx(1.0)
    assert (1 + found.interval.high) * (1 + turned.interval.low) == pytest.approx(1.0)
    assert found.inconclusive == turned.inconclusive
    assert set(found.causes) == set(turned.causes)


def test_common_errors_of_two_runs_cancel() -> None:
    a, b = (predicted(lockstep.estimate(**QUESTION, **layout), "") for layout in LAYOUTS[:2])
    shared, apart = Comparison(a, b), Comparison(a, replace(b, common="other software"))
    assert shared.in_common
    assert not apart.in_common
    assert shared.interval.low > apart.interval.low
    assert shared.interval.high < apart.interval.high
    assert apart.errors == (math.hypot(b.below, a.above), math.hypot(b.above, a.below))


def test_the_interval_is_never_wider_than_with_independent_errors() -> None:
    a = side(1.0, 0.0, below=0.01, above=0.02, common="x")
    b = side(0.0, 1.0, below=0.03, above=0.01, common="x")
    found = Comparison(a, b)
    assert found.shift_frac == 1.0
    assert found.errors == (math.hypot(0.03, 0.02), math.hypot(0.01, 0.01))


def test_link_errors_affect_both_runs_together() -> None:
    level = known_shared().shared
    a = side(1.0, below=9.0, above=9.0, common="x", links=(0.5, -0.5))
    assert Comparison(a, a).errors == (level, level)
    b = replace(a, links=(0.9, -0.7))
    assert Comparison(a, b).errors == pytest.approx((math.hypot(level, 0.2), math.hypot(level, 0.4)))


def test_measured_runs_have_no_error() -> None:
    found = Comparison(side(1.0, 0.5), side(1.0, 0.6))
    assert (found.interval.low, found.interval.high) == pytest.approx((0.1 / 1.5, 0.1 / 1.5))
    assert not found.inconclusive
    assert found.causes == ["dp_comm"]
    against = Comparison(side(1.0, below=0.2, above=0.1), side(1.1))
    assert against.errors == (0.1, 0.2)
    assert Comparison(side(1.0, below=0.2, above=0.1), side(1.05)).inconclusive


def test_a_run_equals_itself() -> None:
    found = lockstep.compare("llama3-8b", {"tp": 2}, "dgx-h100:2", batch=64, tp=2)
    assert found.same
    assert not found.inconclusive
    assert (found.interval.low, found.interval.high) == pytest.approx((0.0, 0.0))
    assert found.changed == []
    assert found.causes == []


def test_shifts_of_time_shares_are_measured() -> None:
    assert shift_frac({"x": 1.0, "y": 3.0}, {"x": 2.0, "y": 6.0}) == 0.0
    assert shift_frac({"x": 1.0}, {"y": 5.0}) == 1.0
    assert shift_frac({"x": 1.0, "y": 1.0}, {"x": 3.0, "y": 1.0}) == pytest.approx(0.25)


def test_tokens_and_images_are_not_compared() -> None:
    with pytest.raises(BadInput, match="cannot be compared"):
        Comparison(side(1.0), side(1.0, unit="images"))


def test_ways_and_habits_of_software_are_compared_as_settings() -> None:
    """Where only the software differs, what it does otherwise is named beside it."""
    words = {"batch": 64, "zero": 3}
    a, b = (predicted(lockstep.estimate("llama3-8b", "dgx-h100:1", stack=name, **words), name)
            for name in ("megatron-te", "torchtitan"))  # fmt: skip
    differ = {name: (a.settings[name], b.settings[name]) for name in a.settings if a.settings[name] != b.settings[name]}
    assert differ["stack"] == ("megatron-te", "torchtitan")
    assert differ["rotary"] == ("engine", "complex")
    assert differ["distributed_tensors"] == (False, True)
    assert "gate" in a.settings.keys() - differ.keys()


def test_files_of_one_model_with_other_names_share_their_errors() -> None:
    one = lockstep.estimate(**QUESTION, **LAYOUTS[0])
    other = replace(one, job=replace(one.job, model=replace(one.job.model, name="after")))
    found = lockstep.compare(one, other)
    assert found.in_common
    assert [row["setting"] for row in found.changed] == ["model"]
