"""Ranks whose clocks differ, over links whose delays do: recovered offsets and drifts, spans in a possible order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import permutations
from subprocess import PIPE
from typing import Any

import numpy as np
import pytest

from lockstep.run.bench import bench_collective
from lockstep.run.execute import execute
from lockstep.run.execute.clock import Alignment, Reading
from lockstep.run.execute.worker import Report, Work, run_rank
from lockstep.run.launch import Clock, launch
from lockstep.run.launch.rank import SKEWS, clock_of
from lockstep.run.rig import Rig, inside
from lockstep.run.rig.namespace import INTERFACE
from lockstep.simulate.collectives import PlainLink, get
from lockstep.simulate.play import FifoLink, Topology, flat_topology
from lockstep.simulate.program import Kind
from measure.rig.permission import permitted

from .. import needs_torch as needs_torch

CLOCKS = (Clock(), Clock(2.5, 1e-4), Clock(-1.25, -5e-5))
"""Seconds apart, and drifting like the worst quartz."""
DELAYS_S = {(0, 1): 4e-3, (1, 0): 4e-3, (0, 2): 1e-3, (2, 0): 9e-3, (1, 2): 5e-3, (2, 1): 5e-3}
"""One way; rank 2 hears rank 0 soon and is heard late."""
ELEMS = 6000
REPEATS = 8
WAIT_S = 120.0
LONG_S = 280.0
"""Of four processes that import torch, on a machine with other work."""
PORT = 29400
"""In a network that the test made, nobody else listens."""
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


def skews(clocks: Sequence[Clock] = CLOCKS) -> dict[str, str]:
    return {SKEWS: json.dumps([(clock.ahead_s, clock.drift_frac) for clock in clocks])}


def uneven() -> Topology:
    """Private links of the delays above."""
    pairs = list(permutations(range(3), 2))
    links = tuple(FifoLink(f"{a} -> {b}", 12.5e6, DELAYS_S[a, b]) for a, b in pairs)
    paths = tuple(tuple((pairs.index((a, b)),) if a != b else () for b in range(3)) for a in range(3))
    return Topology("uneven", links, paths)


def machine_ns(clock: Clock, times_ns: Any) -> Any:
    """What the machine's own clock showed, which here is rank 0's, when a shifted one showed `times_ns`."""
    return (times_ns - 1e9 * clock.ahead_s) / (1 + clock.drift_frac)


@pytest.fixture(scope="module")
def reports() -> list[Report]:
    """Three ranks run a ring many times; reports of each."""
    program = get("all-reduce", "ring").program(3, 4.0 * ELEMS, element_B=4.0)
    work = Work(program, "all-reduce", "ring", 3, ELEMS, seed=0, warm_up=1, repeats=REPEATS)
    with Rig(uneven()) as rig:
        return launch(run_rank, 3, (work,), hosts=rig.hosts, environment=skews(), timeout_s=WAIT_S)


@permitted
@pytest.mark.parametrize("rank", [1, 2])
def test_offset_and_drift_are_recovered_to_within_the_stated_error(rank: int, reports: list[Report]) -> None:
    clock, found = CLOCKS[rank], reports[rank].clock
    assert reports[0].clock == Alignment(), "rank 0 is the scale"
    there_s, back_s = DELAYS_S[rank, 0], DELAYS_S[0, rank]
    for reading in (found.before, found.after):
        wrong_ns = reading.at_ns + reading.offset_ns - machine_ns(clock, reading.at_ns)
        assert reading.error_ns >= 1e9 * (there_s + back_s) / 2, "half of a round trip"
        # Hosts add to both ways, which is in the stated error; a drift of 1e-4 shifts a round trip by microseconds.
        asymmetry_ns, hosts_ns = 1e9 * (there_s - back_s) / 2, reading.error_ns - 1e9 * (there_s + back_s) / 2
        assert abs(wrong_ns - asymmetry_ns) <= hosts_ns + 5_000
    expected_frac = 1 / (1 + clock.drift_frac) - 1
    assert abs(found.drift_frac - expected_frac) <= found.drift_error_frac


@permitted
def test_spans_are_on_the_clock_of_rank_0_within_the_stated_error(reports: list[Report]) -> None:
    for clock, report in zip(CLOCKS, reports, strict=True):
        for spans in report.runs:
            for times_ns in (np.array(spans.start_ns), np.array(spans.end_ns)):
                wrong_ns = report.clock.on_rank_0(times_ns) - machine_ns(clock, times_ns)
                assert np.abs(wrong_ns).max() <= report.clock.error_ns + 1_000


@permitted
def test_no_message_arrives_before_it_was_sent(reports: list[Report]) -> None:
    program = get("all-reduce", "ring").program(3, 4.0 * ELEMS, element_B=4.0)
    sends = np.flatnonzero(program.kind == Kind.SEND)
    for run in range(REPEATS):
        start, end = (np.zeros(len(program), dtype=np.int64) for _ in range(2))
        for report in reports:
            spans = report.runs[run]
            start[list(spans.ids)] = report.clock.on_rank_0(np.array(spans.start_ns))
            end[list(spans.ids)] = report.clock.on_rank_0(np.array(spans.end_ns))
        for send in sends.tolist():
            recv = int(program.match[send])
            sender, receiver = int(program.rank[send]), int(program.rank[recv])
            error_ns = reports[sender].clock.error_ns + reports[receiver].clock.error_ns
            on_the_way_ns = end[recv] - start[send] - 1e9 * DELAYS_S[sender, receiver]
            assert on_the_way_ns >= -error_ns - 2_000


@permitted
def test_the_answer_states_the_error_of_its_clocks() -> None:
    program = get("all-reduce", "ring").program(2, 4000.0, element_B=4.0)
    with Rig(flat_topology(2, 12.5e6, 3e-3)) as rig:
        words: dict[str, Any] = {"op": "all-reduce", "algorithm": "ring", "elems": 1000, "repeats": 2}
        words |= {"link": PlainLink(3e-3, 12.5e6), "hosts": rig.hosts, "timeout_s": WAIT_S}
        apart = execute(program, **words, environment=skews())
        same = execute(program, **words)
        swept = bench_collective("all-reduce", 2, [4096], hosts=rig.hosts, repeats=2, timeout_s=WAIT_S)
    assert apart.ok
    assert [clock["error_s"] for clock in apart.to_dict()["clocks"]] == [0.0, apart.clocks[1].error_ns / 1e9]
    assert apart.clocks[1].error_ns >= 3e6
    assert any("half the shortest round trip" in said for said in apart.assumptions)
    assert not apart.machine.loopback
    assert same.clocks == (Alignment(), Alignment()), "one machine, one clock, whatever the network"
    assert not any("clock" in said for said in same.assumptions)
    assert swept.clock_error_s == 0.0
    assert swept.machine is not None
    assert (swept.machine.loopback, swept.machine.congestion_control) == (False, "reno")


def test_times_between_two_readings_are_interpolated_linearly() -> None:
    found = Alignment(Reading(1000, 500, 10.0), Reading(3000, 700, 30.0))
    assert found.on_rank_0(np.array([1000, 2000, 3000])).tolist() == [1500, 2600, 3700]
    assert (found.error_ns, found.drift_frac, found.drift_error_frac) == (30.0, 0.1, 0.02)


def test_clocks_follow_the_injected_skew_or_the_machine() -> None:
    assert clock_of(1, {}) == Clock()
    assert clock_of(1, skews()) == CLOCKS[1]
    assert CLOCKS[1].name(1) != CLOCKS[0].name(1)
    assert CLOCKS[0].name(1) == CLOCKS[0].name(0)
    before = CLOCKS[2].now_ns()
    between = Clock().now_ns()
    after = CLOCKS[2].now_ns()
    assert machine_ns(CLOCKS[2], before) - 1 <= between <= machine_ns(CLOCKS[2], after) + 1


@permitted
def test_torchrun_on_two_nodes_runs_the_same_command() -> None:
    """Two nodes joined by a link of 2 ms, each with a clock of its own."""
    clocks = (Clock(), Clock(7.0, 2e-5))
    command = ["-m", "lockstep", "execute", "all-reduce", "--ranks", "2", "--size", "64KiB", "--algorithm", "ring"]
    environment = {**ENVIRONMENT, "GLOO_SOCKET_IFNAME": INTERFACE, **skews(clocks)}
    with Rig(flat_topology(2, 12.5e6, 2e-3)) as rig, ExitStack() as ended:
        nodes = []
        for number, host in enumerate(rig.hosts):
            meet = ["--nnodes", "2", "--node-rank", str(number), "--nproc-per-node", "1"]
            meet += ["--master-addr", rig.hosts[0].address, "--master-port", str(PORT)]
            whole = [sys.executable, "-m", "torch.distributed.run", *meet, *command, "--json"]
            with inside(str(host.namespace)):
                nodes.append(subprocess.Popen(whole, stdout=PIPE, stderr=PIPE, text=True, env=environment))
            # An agent takes its rank with it; after a good end there is nobody left.
            ended.callback(nodes[-1].terminate)
        answers = [node.communicate(timeout=LONG_S) for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0], answers
    assert not answers[1][0], "rank 0 speaks for all"
    found = json.loads(answers[0][0])
    assert (found["ok"], found["counts_agree"], found["wrong"]) == (True, True, 0)
    assert found["machine"]["loopback"] is False
    mine, other = found["clocks"]
    assert mine["error_s"] == 0.0
    assert other["error_s"] >= 2e-3, "half of a round trip"
    # The other clock is ahead by 7 s and by what its drift has added since the machine started.
    drifted_s = 2e-5 * time.monotonic()
    assert other["offset_s"] == pytest.approx(-7.0 - drifted_s, abs=other["error_s"] + 2e-5 * LONG_S)
