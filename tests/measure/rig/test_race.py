"""A race on real ranks: right results, every byte on the right links, predictions made; how it is shown."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

import lockstep
from cli_runner import run
from lockstep.run.machine import Machine
from lockstep.run.rig import Counts, Group, Lap, Race, Rig, calibrate, entrant, race, trials
from lockstep.run.rig import rig as rig_module
from lockstep.run.rig.calibration import BURSTS_B, ROUNDS, SIZES_B
from lockstep.run.rig.result import crossings
from lockstep.show.views.parts.figure import save_figure
from lockstep.show.views.parts.terminal import console
from lockstep.show.views.rig import plot_race, render
from lockstep.simulate.collectives import get
from lockstep.simulate.play import LinkCount, Protocol, simulate_packets, star_topology, uplinks_topology
from measure.rig.permission import permitted

from .. import needs_torch as needs_torch

ROW = {
    "algorithm", "size_B", "predicted_s", "measured_s", "error_frac", "fastest_s", "slowest_s", "wrong",
}  # fmt: skip
KEYS = {
    "op", "topology", "ranks", "hosts", "repeats", "mtu_B", "ok", "median_error_frac", "calibration", "rows",
    "crossovers", "links", "emulator", "machine", "assumptions",
}  # fmt: skip
CONTROL_B = 4096.0
"""What a turn's barrier and agreement may put on one link, acknowledgements of the data aside."""


@permitted
def test_two_nodes_add_up_and_the_uplinks_carry_the_bytes_of_the_programs() -> None:
    group, sizes_B, algorithms = Group(4, 2), (4096, 32768), ("ring", "hierarchical", "ring-scattered")
    heard: list[tuple[int, int]] = []

    def report(done: int, total: int) -> None:
        heard.append((done, total))

    with Rig(uplinks_topology([2, 2, 1], 12.5e6, 5e-3, 125e6, 1e-4)) as rig:
        found = race(
            rig, "all-reduce", group, algorithms, sizes_B, repeats=2, warm_up=1, report=lambda *step: heard.append(step)
        )
    assert found.ok
    assert [(lap.size_B, lap.algorithm) for lap in found.laps] == [
        (size, name) for size in sizes_B for name in algorithms
    ]
    assert all(lap.fastest_s <= lap.measured_s <= lap.slowest_s for lap in found.laps)
    runs = 6 * len(trials(rig.topology, 4)) + 3 * len(found.laps)
    assert heard == [(done, runs) for done in range(1, runs + 1)]
    assert (found.machine.congestion_control, found.machine.loopback) == ("reno", False)
    assert any("TCP reno" in said for said in found.assumptions)

    payload_B = 3 * sum(leaving_first_node_B(name, group, size_B) for size_B in sizes_B for name in algorithms)
    payload_B += 6 * sum(2 * ROUNDS * size_B - ROUNDS * size_B // 2 for size_B in SIZES_B)
    payload_B += 6 * ROUNDS * sum(BURSTS_B)
    up = next(link for link in found.counts.links if link.name == "node 0 up")
    assert payload_B < up.size_B < 1.03 * payload_B + runs * CONTROL_B
    server_up = next(link for link in found.counts.links if link.name == "node 2 up")
    assert server_up.size_B == 0, "nobody was on the server's host"


def leaving_first_node_B(name: str, group: Group, size_B: int) -> float:
    """Bytes that ranks 0 and 1 send to ranks 2 and 3."""
    return float(entrant("all-reduce", name, group, size_B).pair_B()[:2, 2:].sum())


def test_theory_of_the_bytes_between_nodes() -> None:
    """Per node: hierarchical n, ring 1.5 n, scattered ring 3 n, of n bytes on 2 nodes of 2."""
    group = Group(4, 2)
    for name, times in (("hierarchical", 1.0), ("ring", 1.5), ("ring-scattered", 3.0)):
        assert leaving_first_node_B(name, group, 4096) == times * 4096


@permitted
def test_a_parameter_server_has_its_own_host() -> None:
    with Rig(star_topology(3, 12.5e6, 1e-3)) as rig:
        found = race(rig, "all-reduce", Group(2, 2), ("parameter-server",), (4096,), repeats=1, warm_up=0)
    assert found.ok
    up = {link.name: link.size_B for link in found.counts.links}
    assert up["host 2 up"] > 2 * 4096
    assert get("parameter-server", "synchronous").program(2, 4096, element_B=4).ranks == 3


@permitted
def test_the_verb_prints_one_object() -> None:
    words = ("--ranks", "2", "--size", "4KiB", "--algorithm", "direct,bruck", "--delay", "1ms", "--repeats", "1")
    session = run("rig", "all-to-all", *words, "--json")
    assert session.code == 0, session.err
    answer = session.json()
    assert set(answer) >= KEYS
    assert set(answer["rows"][0]) >= ROW
    assert [row["algorithm"] for row in answer["rows"]] == ["direct", "bruck"]
    assert (answer["op"], answer["ok"], answer["hosts"]) == ("all-to-all", True, 2)


# How it is shown, without any rig.


@cache
def made_race(sizes_B: tuple[int, ...] = (4096, 262144), wrong: int = 0) -> Race:
    star, group = star_topology(5, 12.5e6, 5e-3), Group(4, 4)
    known = trials(star, 4)
    times_s = [1.01 * simulate_packets(trial.program, star).makespan_s for trial in known]
    names = ("ring", "tree", "parameter-server")
    laps = []
    for size_B in sizes_B:
        for name in names:
            predicted_s = simulate_packets(entrant("all-reduce", name, group, size_B), star).makespan_s
            laps.append(Lap(name, size_B, predicted_s, 0.95 * predicted_s, 0.9 * predicted_s, predicted_s, wrong))
    counts = Counts(tuple(LinkCount(link.name) for link in star.links), 3e-5, 2e-3, 0, 1.0)
    machine = Machine("here", "a processor", 2, "rr", "reno", "2.13", loopback=False, foreign_cores=0.5)
    fitted = calibrate(known, times_s, star, Protocol())
    return Race("all-reduce", star, 4, 5, 9000, fitted, tuple(laps), crossings(laps), counts, "fifo", machine, 0.1, 0.2)


@pytest.mark.parametrize("width", [80, 120])
def test_the_table_starts_with_the_error_of_the_prediction(
    width: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    render(made_race(), console())
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines) <= 50
    assert lines[0] == "Predicted within 5.3 % (median), +5.3 % at worst"
    assert any("ring, tree" in line for line in lines), "the ring overtakes the tree within the sizes"
    assert any("other processes used 0.5 cores" in line for line in lines)


def test_measurements_on_a_busy_machine_are_marked() -> None:
    found = made_race()
    assert found.disturbances == ()
    late = replace(found, counts=replace(found.counts, mean_late_s=5e-4))
    busy = replace(found, emulator_busy_frac=0.8)
    slow = replace(found, calibration=replace(found.calibration, rate_frac=0.7))
    for one, words in ((late, "late by 10 % of the delay"), (busy, "busy 80 %"), (slow, "70 % of the rate")):
        (said,) = one.disturbances
        assert words in said
        assert said in one.assumptions


def test_wrong_results_exit_with_1() -> None:
    assert made_race().ok
    assert not made_race(wrong=3).ok


def test_errors_are_signed_and_crossovers_lie_where_lines_cross() -> None:
    found = made_race()
    assert found.median_error_frac == pytest.approx(1 / 0.95 - 1)
    assert all(lap.error_frac == pytest.approx(1 / 0.95 - 1) for lap in found.laps)
    (tie,) = [one for one in found.crossings if (one.first, one.second) == ("ring", "tree")]
    assert 4096 < tie.predicted_B < 262144
    assert tie.measured_B == pytest.approx(tie.predicted_B)
    assert set(found.to_dict()) >= KEYS
    assert math.isfinite(found.to_dict()["emulator"]["mean_late_s"])


@pytest.mark.parametrize("sizes_B", [(65536,), (4096, 262144)])
def test_the_race_plot_is_deterministic(sizes_B: tuple[int, ...], tmp_path: Path) -> None:
    for name in ("one.svg", "two.svg"):
        save_figure(plot_race(made_race(sizes_B)), tmp_path / name)
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


REFUSED = [
    ("OP", "all-redcue"),
    ("--topology", "--topology", "stra"),
    ("--ranks", "--ranks", "1"),
    ("--ranks", "--ranks", "17"),
    ("--nodes", "--topology", "uplinks", "--nodes", "3"),
    ("--nodes", "--nodes", "2"),
    ("--nodes", "--nodes", "-1"),
    ("--nodes", "--topology", "flat", "--nodes", "many"),
    ("--inner-delay", "--inner-delay", "[/red]"),
    ("--inner-rate", "--topology", "flat", "--inner-rate", "1Gbit/s"),
    ("--size", "--size", "10B"),
    ("--size", "--size", "4KiB,1GB"),
    ("--size", "--size", "16MB", "--rate", "1Mbit/s"),
    ("--rate", "--rate", "1TB/s"),
    ("--delay", "--delay", "1h"),
    ("--jitter", "--jitter", "5GB"),
    ("--jitter", "--topology", "uplinks", "--jitter", "1ms"),
    ("--loss", "--loss", "60%"),
    ("--algorithm", "--algorithm", "rnig"),
    ("--repeats", "--repeats", "1000"),
    ("--mtu", "--mtu", "100"),
    ("--seed", "--seed", "x"),
    ("--plot", "--plot", "picture.txt"),
]


@pytest.mark.parametrize("words", REFUSED, ids=" ".join)
def test_invalid_options_are_refused_at_their_flag(words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig_module, "why_not", lambda: "this test starts no rig")
    where, *arguments = words
    assert run("rig", *arguments, "--json").refusal().startswith(f"{where}: ")


def test_a_machine_without_permissions_gets_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rig_module, "why_not", lambda: "no TUN here")
    assert run("rig").refusal() == "rig: links cannot be shaped here: no TUN here"
    with pytest.raises(lockstep.base.errors.BadInput, match="no TUN here"):
        lockstep.rig()
