"""What all ranks saw as one answer: means, medians, sums and slowest ranks, with numbers counted by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from lockstep.base.errors import BadInput
from lockstep.run.machine import BUSY_CORES, Load, LoadMeter, Machine, with_load
from lockstep.run.train import StoppedRun, Task, TrainRun, find_method
from lockstep.run.train.result import Lateness, Outcome, Step, is_late, refuse_straggler
from lockstep.simulate.failures.stragglers import parse_late

MACHINE = Machine("here", "a processor", 2, "other", "reno", "2.13", loopback=True)
LOAD = Load(10.0, 6.0, 15.0, "here")


def outcome(steps: list[tuple[float | None, float, int]], **words: Any) -> Outcome:
    usual: dict[str, Any] = {
        "steps": tuple(Step(loss, time_s, sent_B) for loss, time_s, sent_B in steps), "test_loss": 0.5,
        "accuracy_frac": 0.75, "weights": np.arange(4.0), "notes": {}, "machine": MACHINE, "load": LOAD,
    }  # fmt: skip
    return Outcome(**(usual | words))


def answer(*outcomes: Outcome, **words: Any) -> TrainRun:
    method = find_method("synchronous")
    return TrainRun.of(method, Task(), method.settings(), list(outcomes), **words)


TWO = (
    outcome([(1.0, 9.0, 10), (2.0, 1.0, 20), (3.0, 2.0, 30), (None, 4.0, 40)]),
    outcome([(3.0, 1.0, 10), (None, 3.0, 0), (5.0, 1.0, 30), (8.0, 4.0, 40)]),
)


def test_a_step_has_the_mean_loss_the_slowest_time_and_the_sum_of_bytes() -> None:
    found = answer(*TWO)
    assert found.loss == (2.0, 2.0, 4.0, 8.0)
    assert found.time_s == (9.0, 3.0, 2.0, 4.0)
    assert found.sent_B == (20, 20, 60, 80)
    assert found.final_loss == 8.0
    assert found.step_time_s == 3.0, "the median without the first, which warms up"
    assert found.step_sent_B == (20 + 20 + 60 + 80) / 4 / 2
    assert found.ranks == 2
    assert np.isnan(answer(outcome([(None, 1.0, 0)])).loss[0])


def test_medians_of_one_and_of_no_step() -> None:
    assert answer(outcome([(1.0, 7.0, 1)])).step_time_s == 7.0
    nothing = answer(outcome([]))
    assert (nothing.final_loss, nothing.step_time_s, nothing.step_sent_B) == (None, None, None)


def test_the_target_is_reached_when_a_window_mean_is_low_enough() -> None:
    """A loss of 3 for ten steps, then 1: the mean of 20 steps is 2 after 20, and 1.5 five later; each takes 0.5 s."""
    run = answer(outcome([(3.0, 0.5, 1)] * 10 + [(1.0, 0.5, 1)] * 30))
    assert run.reached(2.0) == (20, 10.0)
    assert run.reached(1.5) == (25, 12.5)
    assert run.reached(0.9) is None
    assert run.reached(9.0) == (20, 10.0), "a window has to be full"


def test_replicas_are_equal_where_all_bits_are() -> None:
    assert answer(*TWO).replicas_equal
    assert not answer(TWO[0], replace(TWO[1], weights=np.array([0.0, 1.0, 2.0, 3.0 + 1e-15 * 4]))).replicas_equal
    assert not answer(TWO[0], replace(TWO[1], weights=np.array([-0.0, 1.0, 2.0, 3.0]))).replicas_equal


def test_checkpoints_sum_their_bytes_and_take_the_slowest_rank() -> None:
    first = {"saves": 2, "write_s": 1.0, "blocking_s": 0.5, "size_B": 100}
    second = {"saves": 2, "write_s": 3.0, "blocking_s": 0.25, "size_B": 40}
    none = {"saves": 0, "write_s": 9.0, "blocking_s": 9.0, "size_B": 900}
    for ranks in ((first, second), (first, none, second)):
        found = answer(*(outcome([], saves=one) for one in ranks))
        assert found.saves == {"saves": 2, "write_s": 3.0, "blocking_s": 0.5, "size_B": 140}
    assert answer(outcome([], saves=none)).saves == none
    assert answer(outcome([])).to_dict()["checkpoints"] is None


def test_a_summary_is_the_answer_without_its_steps() -> None:
    found = answer(*TWO)
    whole = found.to_dict()
    assert {name: whole[name] for name in ("loss", "time_s", "sent_B")} == {
        "loss": list(found.loss), "time_s": list(found.time_s), "sent_B": list(found.sent_B),
    }  # fmt: skip
    assert found.summary() == {name: value for name, value in whole.items() if name not in ("loss", "time_s", "sent_B")}
    assert (whole["parameters"], whole["bytes_per_step_B"], whole["final_loss"]) == (4, 22.5, 8.0)


def test_lateness_compares_even_and_odd_steps_without_the_first() -> None:
    """Rank 0 is late; of steps 1 to 6 the others' medians are 50, 3, 1, 5, 2, 4, and the first is left out."""
    late = parse_late("0:2s")
    steps = [[(None, time_s, 0) for time_s in times_s] for times_s in (
        (9, 9, 9, 9, 9, 9), (50, 3, 1, 5, 2, 4), (50, 3, 1, 5, 2, 4),
    )]  # fmt: skip
    found = answer(*map(outcome, steps), straggler=late).lateness
    assert found == Lateness(0, 2.0, 1.5, 4.0)
    assert (found.growth_s, found.predicted_s) == (2.5, 3.5)
    again = answer(*(outcome(one, first_step=3) for one in steps), straggler=late).lateness
    assert again == Lateness(0, 2.0, 4.0, 1.5), "steps are numbered from where the run goes on"
    few = answer(*(outcome(one[:3]) for one in steps), straggler=late)
    assert few.lateness is None
    assert few.assumptions[-1] == "the late rank was not measured: 3 steps were left to do, 4 are needed"
    assert answer(*(outcome(one[:4]) for one in steps), straggler=late).lateness is not None


def test_the_late_rank_is_late_in_every_second_step_and_must_be_one_of_several() -> None:
    assert [number for number in range(1, 8) if is_late(number)] == [2, 4, 6]
    refuse_straggler(parse_late("1:2s"), 2, 4)
    for text, ranks, steps in (("1:3x", 2, 4), ("2:2s", 2, 4), ("0:2s", 1, 4), ("1:2s", 2, 3)):
        with pytest.raises(BadInput):
            refuse_straggler(parse_late(text), ranks, steps)


@pytest.mark.parametrize(
    ("busy_s", "machines", "foreign_cores"),
    [
        (15.0, ("here", "here"), 0.3),
        (15.0, ("here", "there"), 0.9),
        (11.0, ("here", "here"), 0.0),
        (None, ("here",), None),
    ],
)
def test_foreign_load_is_busy_time_minus_that_of_the_ranks(
    busy_s: float | None, machines: tuple[str, ...], foreign_cores: float | None
) -> None:
    """In 10 s; two ranks of 6 s each leave 3 of 15 busy seconds to others."""
    loads = [Load(10.0, 6.0, busy_s, machine) for machine in machines]
    found = with_load(MACHINE, loads)
    assert found.foreign_cores == (None if foreign_cores is None else pytest.approx(foreign_cores))
    assert with_load(MACHINE, [replace(loads[0], wall_s=0.0)]) == MACHINE


@pytest.mark.parametrize(
    ("ranks", "loopback", "foreign_cores", "said"),
    [(1, True, None, []), (2, True, None, ["loopback"]), (3, True, None, ["share 2 cores"]), (3, False, None, []),
     (1, True, BUSY_CORES, []), (1, True, 0.21, ["other processes"]), (3, True, 1.0, ["share 2 cores", "other"])],
)  # fmt: skip
def test_a_machine_warns_of_shared_cores_loopback_and_a_fifth_of_a_core_of_others(
    ranks: int, loopback: bool, foreign_cores: float | None, said: list[str]
) -> None:
    warnings = replace(MACHINE, loopback=loopback, foreign_cores=foreign_cores).warnings(ranks)
    assert len(warnings) == len(said)
    assert all(words in warning for words, warning in zip(said, warnings, strict=True))
    assert BUSY_CORES == 0.2


def test_a_stopped_run_counts_the_steps_of_earlier_runs() -> None:
    steps = (Step(1.0, 0.5, 8), Step(None, 0.25, 16))
    run = StoppedRun("synchronous", Task(), 2, {}, 10, steps)
    assert (run.done, run.loss) == (12, (1.0, None))
    said = run.to_dict()
    assert (said["steps_done"], said["first_step"], said["time_s"], said["sent_B"]) == (12, 10, [0.5, 0.25], [8, 16])


def test_a_meter_counts_from_its_creation(monkeypatch: pytest.MonkeyPatch) -> None:
    for before, after, used in ((50.0, 62.0, 12.0), (None, 62.0, None), (50.0, None, None)):
        busy = iter([before, after])
        monkeypatch.setattr("lockstep.run.machine._busy_s", lambda busy=busy: next(busy))
        clocks = {"monotonic": iter([100.0, 110.0]), "process_time": iter([7.0, 9.5])}
        for name, values in clocks.items():
            monkeypatch.setattr(f"lockstep.run.machine.time.{name}", lambda values=values: next(values))
        load = LoadMeter().read()
        assert (load.wall_s, load.own_s, load.busy_s) == (10.0, 2.5, used)
