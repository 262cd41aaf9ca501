"""A step's collectives by their own sends: all members begin and end together and send the collective's bytes."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import lockstep
from lockstep.base.errors import BadInput, UnknownName
from lockstep.show.verbs.trace import trace_step
from lockstep.simulate.collectives import bus_factor
from lockstep.simulate.program import Kind, Timeline, read_trace

STEPS: dict[str, tuple[str, str, dict[str, Any], set[str]]] = {
    "tensor and pipeline": (
        "llama3-70b", "dgx-h100:8",
        {"batch": 64, "tp": 8, "pp": 4, "zero": 1, "sequence_parallel": True, "overlap_device": "0%"},
        {"tp all-gather", "tp reduce-scatter", "dp reduce-scatter", "dp all-gather"},
    ),
    "sharded": ("llama3-8b", "dgx-h100:2", {"batch": 64, "zero": 3}, {"dp all-gather", "dp reduce-scatter"}),
    "shard groups": (
        "llama3-8b", "dgx-h100:4", {"batch": 64, "zero": 3, "shard": 8}, {"dp all-gather", "dp reduce-scatter"},
    ),
    "context": ("llama3-8b", "dgx-h100:1", {"batch": 8, "cp": 8}, {"cp send", "dp all-reduce"}),
    "experts": (
        "mixtral-8x7b", "dgx-h100:4",
        {"batch": 64, "ep": 8, "tp": 2, "pp": 2, "zero": 1, "sequence_parallel": True},
        {"tp all-gather", "tp reduce-scatter", "ep all-to-all", "etp all-gather", "etp reduce-scatter"},
    ),
}  # fmt: skip
ALL = ("tp", "cp", "ep", "dp")


@pytest.fixture(scope="module", params=STEPS)
def step(request: pytest.FixtureRequest) -> tuple[Timeline, Timeline, set[str]]:
    """A step layer by layer, the same opened, and which collectives it must open."""
    model, cluster, words, expected = STEPS[request.param]
    found = lockstep.estimate(model, cluster, **words)
    return found.timeline(True), found.timeline(True, ALL), expected


def groups(line: Timeline) -> list[np.ndarray[Any, Any]]:
    """The operations of every collective that has several members."""
    start, members = line.program.groups
    found = [members[low:high] for low, high in itertools.pairwise(start)]
    return [ids for ids in found if len(ids) > 1 and line.program.kind[ids[0]] == Kind.COLLECTIVE]


def sends_during(line: Timeline, operation: int, to: bool = False) -> np.ndarray[Any, Any]:
    """The sends of a member, or `to` it, on lanes named after its collective's, while that lasts."""
    program, lane = line.program, line.program.streams[line.program.stream[operation]]
    lanes = [i for i, name in enumerate(program.streams) if name.startswith(f"{lane}:")]
    ids = np.flatnonzero(
        (program.kind == Kind.SEND)
        & ((program.peer if to else program.rank) == program.rank[operation])
        & np.isin(program.stream, lanes)
    )
    within = (line.start_s[ids] >= line.start_s[operation]) & (line.start_s[ids] < line.end_s[operation])
    return ids[within]


def test_a_step_expanded_into_messages_takes_as_long(step: tuple[Timeline, Timeline, set[str]]) -> None:
    whole, opened, _ = step
    assert opened.makespan_s == pytest.approx(whole.makespan_s, rel=1e-9)


def test_members_of_a_collective_begin_and_end_together(step: tuple[Timeline, Timeline, set[str]]) -> None:
    _, line, expected = step
    names = set()
    for ids in groups(line):
        assert np.ptp(line.start_s[ids]) == np.ptp(line.end_s[ids]) == 0
        seconds = line.end_s[ids[0]] - line.start_s[ids[0]]
        last_s = max(line.end_s[sends_during(line, one, to=True)].max() for one in ids)
        assert last_s - line.start_s[ids[0]] == pytest.approx(seconds, rel=1e-6)
        names.add(line.program.name(int(line.program.label[ids[0]])).split(" (")[0])
    assert names == expected


def test_members_send_the_bytes_of_the_bus_factor(step: tuple[Timeline, Timeline, set[str]]) -> None:
    """Bytes of the ring attention's blocks are those that a rank sends; a switch gets all and back its sum's share."""
    _, line, _ = step
    for ids in groups(line):
        op, size_B = line.program.name(int(line.program.op[ids[0]])), float(line.program.size_B[ids[0]])
        for one in ids:
            sends = sends_during(line, one)
            in_switch = line.rank_names[line.program.peer[sends[0]]].startswith("switch")
            times = 1 + 1 / len(ids) if in_switch else bus_factor(op, len(ids))
            assert line.program.size_B[sends].sum() == pytest.approx(times * size_B, rel=1e-9)


def test_each_different_collective_is_expanded_once(step: tuple[Timeline, Timeline, set[str]]) -> None:
    """What a layer does in a pass is one or two rounds of a collective; the bytes of both passes may differ."""
    _, line, _ = step
    program = line.program
    keys = [
        (int(program.stream[ids[0]]), int(program.op[ids[0]]), f"{program.size_B[ids[0]]:.6g}")
        for ids in sorted(groups(line), key=lambda ids: line.start_s[ids[0]])
    ]
    assert all(keys.count(key) <= 1 + 2 for key in keys)


def test_the_trace_names_ranks_and_shows_the_memory_of_stages(tmp_path: Path) -> None:
    found = lockstep.estimate("llama3-70b", "dgx-h100:8", batch=64, tp=8, pp=4, zero=1, sequence_parallel=True)
    path = tmp_path / "step.json"
    line = trace_step(found, path, "messages").timeline
    events = json.loads(path.read_text("utf-8"))["traceEvents"]
    called = [event["args"]["name"] for event in events if event["name"] == "process_name"]
    assert called == [f"stage {i}" for i in range(4)] + [f"rank {i} of stage 0" for i in range(1, 9)]
    assert {event["pid"] for event in events if event["ph"] == "C"} == {0, 1, 2, 3}
    assert any(event["name"] == "send to rank 3 of stage 0" for event in events if event["pid"] == 5)
    again = read_trace(path)
    assert (again.makespan_s, list(again.rank_names)) == (line.makespan_s, called)
    assert again.peak_memory_B().tolist() == line.peak_memory_B().tolist()


def test_a_single_kind_of_group_can_be_expanded(tmp_path: Path) -> None:
    found = lockstep.estimate("llama3-70b", "dgx-h100:8", batch=64, tp=8, pp=4, zero=1, sequence_parallel=True)
    line = trace_step(found, tmp_path / "step.json", "dp").timeline
    assert line.rank_names[4:] == ("rank 8 of stage 0",)
    assert trace_step(found, tmp_path / "step.json", "layers").timeline.program.ranks == 4


def test_refusals_suggest_an_alternative(tmp_path: Path) -> None:
    out = tmp_path / "step.json"
    large = lockstep.estimate("llama3-8b", "dgx-h100:16", batch=256, zero=3)
    with pytest.raises(
        BadInput,
        match=r"about 650,240 operations \(dp 650,240\), and at most 100,000 are written; take --expand layers",
    ):
        trace_step(large, out, "messages")
    with pytest.raises(BadInput, match="no traffic of the first stage is one collective"):
        trace_step(large, out, "tp")
    both = lockstep.estimate("llama3-8b", "dgx-h100:4", batch=64, tp=8)
    with (
        patch("lockstep.simulate.parallel.messages.MOST_OPERATIONS", 100),
        pytest.raises(BadInput, match="take --expand dp"),
    ):
        trace_step(both, out, "messages")
    with pytest.raises(UnknownName, match="unknown expansion 'sends'"):
        trace_step(large, out, "sends")
    assert not out.exists()


def test_a_reducing_switch_has_its_own_lane(tmp_path: Path) -> None:
    """Eight ranks whose all-reduces go through their NVLink switch, and it beside them."""
    found = lockstep.estimate("llama3-8b", "dgx-h100", batch=8, tp=8)
    line = trace_step(found, tmp_path / "step.json", "tp").timeline
    assert line.rank_names == ("stage 0", *(f"rank {i} of stage 0" for i in range(1, 8)), "switch 1")
    assert line.makespan_s == pytest.approx(found.timeline(True).makespan_s, rel=1e-9)
    added = (line.program.kind == Kind.REDUCE) & (line.program.rank == 8)
    assert added.any()
    assert not (line.program.kind == Kind.REDUCE)[~added].any()
