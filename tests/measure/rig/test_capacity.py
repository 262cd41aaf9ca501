"""What the machine carries is measured, and runs beyond it are said or refused."""

from __future__ import annotations

from pathlib import Path

import pytest

import lockstep
from cli_runner import run
from lockstep.base.errors import BadInput
from lockstep.base.store import RunStore
from lockstep.run.rig import Capacity, Group, entrant, judged, measure_capacity
from lockstep.run.rig import rig as rig_module
from lockstep.run.rig.capacity import behind_s
from lockstep.simulate.play import flat_topology, star_topology
from lockstep.simulate.program import Program, ProgramBuilder
from measure.rig.permission import permitted

from .. import needs_torch as needs_torch

RATE_BPS, DELAY_S, SIZE_B = 12.5e6, 5e-3, 1e6
AMPLE = Capacity(floor_s=1e-5, bandwidth_Bps=1e9)


def messages(pairs: list[tuple[int, int]]) -> Program:
    """All at once, over private links."""
    builder = ProgramBuilder(4)
    for source, target in pairs:
        builder.message(source, target, SIZE_B)
    return builder.build()


@pytest.mark.parametrize("pairs", [[(0, 1)], [(0, 1), (2, 3)], [(0, 1), (1, 0), (2, 3), (3, 2)]])
@pytest.mark.parametrize("carried_frac", [0.2, 0.5, 1.0, 2.0])
def test_the_emulator_lags_by_the_excess_over_its_capacity(pairs: list[tuple[int, int]], carried_frac: float) -> None:
    """k messages at once take S / R on their links and k S / C in the emulator."""
    topology, bandwidth_Bps = flat_topology(4, RATE_BPS, DELAY_S), carried_frac * RATE_BPS
    late_s, whole_s = behind_s(messages(pairs), topology, bandwidth_Bps)
    wire_s = SIZE_B / RATE_BPS
    assert whole_s == pytest.approx(2 * DELAY_S + wire_s, rel=0.02)
    assert late_s == pytest.approx(max(0.0, len(pairs) / carried_frac - 1) * wire_s, rel=0.02)


def test_a_program_without_messages_leaves_the_emulator_idle() -> None:
    builder = ProgramBuilder(2)
    builder.compute(0, 1.0)
    assert behind_s(builder.build(), flat_topology(2, RATE_BPS, DELAY_S), 1.0) == (0.0, 1.0)


def test_programs_well_within_capacity_give_no_warning() -> None:
    programs = [entrant("all-to-all", "direct", Group(4, 4), 65536)]
    assert judged(AMPLE, star_topology(4, RATE_BPS, DELAY_S), 4, programs) == ()


def test_near_limits_warn_and_beyond_limits_refuse() -> None:
    topology, programs = flat_topology(4, RATE_BPS, DELAY_S), [messages([(0, 1), (2, 3)])]
    (said,) = judged(Capacity(1e-3, 1e9), topology, 4, programs)
    assert "1 ms from host to host by itself, measured just now, 20 % of the delay" in said
    (said,) = judged(Capacity(1e-5, 1.9 * RATE_BPS), topology, 4, programs)
    assert "23.8 MB/s in total, measured just now: it falls 3.7" in said
    with pytest.raises(BadInput, match="5 ms cannot be had: this machine takes 6 ms") as refused:
        judged(Capacity(6e-3, 1e9), topology, 4, programs)
    assert refused.value.where == "--delay"
    with pytest.raises(BadInput, match="try a lower rate, fewer ranks or a larger --mtu") as refused:
        judged(Capacity(1e-5, RATE_BPS), topology, 4, programs)
    assert refused.value.where == "--rate"


def test_the_verb_refuses_before_any_rank_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig_module, "why_not", lambda: "this test starts no rig")
    monkeypatch.setattr("lockstep.run.rig.measure_capacity", lambda hosts, mtu_B: Capacity(1e-3, 1e9))
    assert run("rig", "--delay", "500us", "--json").refusal().startswith("--delay: 500 us cannot be had")


@permitted
def test_this_machine_is_measured() -> None:
    found = measure_capacity(3, 9000)
    assert 0 < found.floor_s < 1
    assert found.bandwidth_Bps > 0


@permitted
def test_the_answer_has_what_was_measured_and_is_kept(tmp_path: Path) -> None:
    found = lockstep.rig(ranks=2, size="4KiB", algorithm="tree", repeats=1, root=tmp_path)
    assert isinstance(found.capacity, Capacity)
    answer = found.to_dict()
    assert answer["emulator"]["capacity"] == found.capacity.to_dict()
    assert 0 < answer["emulator"]["busy_frac"] < 1.1
    assert 0 < answer["ranks_busy_frac"] < 1.1
    assert any("it was busy" in said for said in found.assumptions)
    kept = RunStore(tmp_path).read(RunStore(tmp_path).ids()[0])
    assert (kept.verb, kept.status, kept.words["algorithms"]) == ("rig", "finished", ["tree"])
    assert [event["predicted_s"] for event in kept.measurements] == [found.laps[0].predicted_s]
    assert kept.result is not None
    assert kept.result["calibration"] == found.calibration.to_dict()
