"""Rows of tables, read back from the terminal: the numbers of the answer, in its order, as many as are promised."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
from rich.console import Console

import lockstep
from lockstep.base.units import format_count, format_frac, format_money, format_size, format_time
from lockstep.show.views import balance as balance_view
from lockstep.show.views import campaign as campaign_view
from lockstep.show.views import checkpoint as checkpoint_view
from lockstep.show.views import estimate as estimate_view
from lockstep.show.views import memory as memory_view
from lockstep.show.views import overlap as overlap_view
from lockstep.show.views import plan as plan_view
from lockstep.show.views import scaling as scaling_view
from lockstep.show.views import sensitivity as sensitivity_view
from lockstep.show.views import speedup as speedup_view
from lockstep.show.views.parts.findings_plot import axis_name

LINK: dict[str, Any] = {"latency": "5us", "bandwidth": "25GB/s"}
DAY_S = 86_400
Rows = list[list[str]]


def text(render: Callable[[Any, Console], None], answer: object) -> str:
    out = Console(file=io.StringIO(), width=400)
    render(answer, out)
    return str(out.file.getvalue())  # type: ignore[attr-defined]


def rows(said: str, title: str, header: bool = True) -> Rows:
    """The cells under a heading, without bars."""
    lines = said.splitlines()
    place = next(number for number, line in enumerate(lines) if line.split("  ")[0] == title)
    found: Rows = []
    for line in lines[place + 1 + header :]:
        if not line.strip():
            break
        found.append([cell for cell in re.split(r"\s{2,}", line.strip()) if not set(cell) <= set("█▏▎▍▌▋▊▉")])
    return found


def lengths(said: str, title: str) -> list[float]:
    """Eighths of a cell in the bar of every row under a heading."""
    lines = said.splitlines()
    place = next(number for number, line in enumerate(lines) if line.split("  ")[0] == title)
    found = []
    for line in lines[place + 2 :]:
        if not line.strip():
            break
        found.append(sum(8 if c == "█" else " ▏▎▍▌▋▊▉".index(c) for c in line if c in "█▏▎▍▌▋▊▉"))
    return found


@pytest.mark.parametrize("workers", [3, 16, 17, 40])
def test_at_most_sixteen_workers_are_shown_with_their_shares(workers: int) -> None:
    speeds = [100.0 + 10 * number for number in range(workers)]
    found = lockstep.balance(speeds=speeds, batch=64 * workers)
    said = text(balance_view.render, found)
    waits = [1 - share / speed / found.balanced_s for share, speed in zip(found.shares, speeds, strict=True)]
    expected = [
        [str(place), format_count(speeds[place]), "64", str(found.shares[place]),
         f"{found.shares[place] / 64 / workers:.4f}", format_frac(waits[place], 2)]
        for place in range(min(16, workers))
    ]  # fmt: skip
    assert rows(said, "Workers") == expected
    assert lengths(said, "Workers") == [round(96 * (1 - wait)) for wait in waits[:16]]
    assert (f"first 16 of {workers}" in said) == (workers > 16)
    weighted, plain = 1 / 64 / workers, sum(1 / share for share in found.shares) / workers**2
    assert f"a plain mean of the workers has {plain / weighted:.3g} times the variance" in said
    assert said.startswith(f"{found.static_s / found.balanced_s:.3g} times faster than equal shares\n")


@pytest.mark.parametrize("words", [{}, {"mtbf": "10min"}, {"local_write": "9s", "local_frac": "80%"}])
def test_checkpoint_shows_seven_nearby_intervals_and_the_losses(words: dict[str, Any]) -> None:
    asked: dict[str, Any] = {"mtbf": "6h", "write": "5min", "restart": "10min"} | words
    found = lockstep.checkpoint(**asked)
    said = text(checkpoint_view.render, found)
    around = rows(said, "Nearby intervals")
    points = [[format_time(work_s), format_frac(frac)] for work_s, frac in found.curve]
    places = [points.index(one) for one in around]
    assert places == sorted(places)
    assert len(set(places)) == len(places) in (6, 7, 8)
    assert [format_time(found.interval_s), format_frac(found.overhead_frac)] in around
    steps = {after - before for before, after in pairwise(places)}
    assert len(steps) <= 2
    shares = {"goodput": 1 / (1 + found.overhead_frac)} | found.losses.fracs()
    parts = rows(said, "Where the time goes")
    assert parts[0][0] == "goodput"
    for name, share in parts:
        assert share == format_frac(found.losses.goodput_frac if name == "goodput" else shares[name])
    assert {name for name, share in found.losses.fracs().items() if share} == {name for name, _ in parts[1:]}
    assert ("Formulas" in said) == (found.pattern.every == 1)
    assert said.startswith(
        f"Checkpoint every {format_time(found.interval_s, 4)} of work: {format_frac(found.overhead_frac)}"
    )


def test_formulas_show_the_cost_of_their_intervals_and_mark_short_ones() -> None:
    found = lockstep.checkpoint(mtbf="6h", write="5min", restart="10min")
    three = {"Young": found.young_s, "Daly": found.daly_s, "exact": found.exact_s}
    expected = [
        [name, format_time(work_s, 4), format_frac(float(found.long_run.overhead_frac(work_s)), 4)]
        for name, work_s in three.items()
    ]
    assert rows(text(checkpoint_view.render, found), "Formulas") == expected
    hidden = lockstep.checkpoint(mtbf="1h", write="10min", async_frac="100%")
    said = {name: cell for name, _, cell in rows(text(checkpoint_view.render, hidden), "Formulas")}
    for name, work_s in (("Young", hidden.young_s), ("Daly", hidden.daly_s)):
        assert (said[name] == "writes overlap") == (work_s < 600 * (1 - 1e-9))


def test_estimate_shows_the_parts_of_the_step_and_of_the_memory() -> None:
    found = lockstep.estimate("llama3-8b", "dgx-h100:2", batch=64, tp=2, zero=1)
    said = text(estimate_view.render, found)
    parts = sorted((-seconds, name) for name, seconds in found.step.breakdown_s().items() if seconds > 0)
    shares = [-seconds / found.step_time_s for seconds, _ in parts]
    hidden = {part: [format_time(one.hidden_s), format_time(one.slack_s)] for part, one in found.hiding().items()}
    assert [row[1:] for row in rows(said, "Where the time goes")] == [
        [format_time(-seconds), format_frac(share, 2), *hidden.get(name, [])]
        for (seconds, name), share in zip(parts, shares, strict=True)
    ]
    assert lengths(said, "Where the time goes") == [round(96 * share) for share in shares]
    _device_is_full_of(found.memory, said, "What fills the memory")
    assert sum(line.startswith("  ") and "  " not in line.strip() for line in said.splitlines()) <= 5 + 1


def _device_is_full_of(memory: Any, said: str, title: str) -> None:
    names = ("parameters", "gradients", "optimizer", "activations", "buffers")
    sizes_B = [float(getattr(memory, f"{name}_B")) for name in names]
    expected = [
        [name, format_size(size_B), format_frac(size_B / memory.capacity_B, 2)]
        for name, size_B in zip(names, sizes_B, strict=True)
    ]
    total_B = sum(sizes_B)
    expected.append(["total", format_size(total_B), format_frac(total_B / memory.capacity_B, 3)])
    assert rows(said, title) == expected
    fracs = [min(1, size_B / memory.capacity_B) for size_B in (*sizes_B, total_B)]
    assert lengths(said, title) == [round(96 * frac) for frac in fracs]


@pytest.mark.parametrize(("stages", "shown"), [(1, 0), (2, 2), (16, 12)])
def test_twelve_stages_are_shown_with_their_memory(stages: int, shown: int) -> None:
    found = lockstep.memory("llama3-8b", "dgx-h100:2", batch=64, pp=stages)
    said = text(memory_view.render, found)
    _device_is_full_of(found.memory, said, "What fills the memory")
    assert ("Stages" in said) == (shown > 0)
    assert (f"first 12 of {stages}" in said) == (stages > 12)
    if shown:
        totals = [[str(place), format_size(float(one.total_B))] for place, one in enumerate(found.stages)]
        assert [[row[0], row[-1]] for row in rows(said, "Stages")] == totals[:shown]
    assert f"stage {found.fullest} is the fullest with {format_size(float(found.memory.total_B))}" in said


def test_sizes_have_their_speed_up_time_and_cost() -> None:
    found = lockstep.scaling("gpt2", "dgx-a100-40gb:4", batch=256, tokens="10G", mtbf="12h")
    said = text(scaling_view.render, found)
    expected = []
    for place, one in enumerate(found.sizes):
        added = [format_frac(one.marginal_frac)] if place else []
        cells = [f"{one.devices:,}", format_time(one.estimate.step_time_s), format_frac(one.estimate.mfu_frac)]
        cost = format_money(one.run.cost_usd) if one.run.cost_usd is not None else "?"
        cells += [f"{one.speedup:.4g}", format_frac(one.speedup * found.sizes[0].devices / one.devices), *added]
        expected.append([*cells, format_time(one.run.days * DAY_S), cost])
    assert rows(said, "Strong scaling") == expected


def test_a_speed_up_is_shown_at_about_14_numbers_with_the_best_and_the_last() -> None:
    found = lockstep.speedup(compute=10, size="200MB", serial=0.01, **LINK)
    shown = rows(text(speedup_view.render, found), "Speed-up")
    workers = [int(row[0].replace(",", "")) for row in shown]
    assert workers == sorted(set(workers))
    assert {1, found.best_workers, found.most_workers} <= set(workers)
    assert 8 <= len(workers) <= 16
    for number, row in zip(workers, shown, strict=True):
        speed, amdahl, gustafson = float(found.speedup(number)), 1 / (0.01 + 0.99 / number), 0.01 + 0.99 * number
        laws = [f"{value:,.4g}" for value in (amdahl, gustafson)]
        assert row[:6] == [f"{number:,}", format_time(10 / speed), f"{speed:,.4g}", format_frac(speed / number), *laws]


def test_buckets_are_shown_at_14_sizes_with_the_best() -> None:
    found = lockstep.overlap(layers=24, backward="120ms", gradients="700MB", ranks=64, sweep=True, **LINK)
    every = [
        [format_size(row.bucket_B), str(row.buckets), format_time(float(row.step.step_s), 4),
         format_time(float(row.step.exposed_comm_s)), format_frac(float(row.step.overlap_frac))]
        for row in found.sweep.rows
    ]  # fmt: skip
    shown = rows(text(overlap_view.render, found), "Bucket sizes")
    places = [every.index(row) for row in shown]
    assert places == sorted(set(places))
    assert places[0] == 0
    assert places[-1] == len(every) - 1
    assert 13 <= len(places) <= 14 < len(every)
    assert found.sweep.rows.index(found.sweep.best) in places


def _days(days: float) -> str:
    return f"{days:.4g}"


def test_campaign_shows_lost_days_changes_and_sensitivities() -> None:
    words: dict[str, Any] = {"tokens": "100G", "device_mtbf": "1y", "write": "1min", "power": 400}
    found = lockstep.campaign("gpt2", "dgx-a100-40gb:2", batch=512, **words)
    said = text(campaign_view.render, found)
    wall_s = sum(found.run.parts_s.values())
    parts = sorted((seconds for seconds in found.run.parts_s.values() if seconds >= 5e-4 * wall_s), reverse=True)
    assert [row[1:] for row in rows(said, "Where the days go")] == [
        [f"{seconds / DAY_S:.3g}", format_frac(seconds / wall_s)] for seconds in parts
    ]
    changes = rows(said, "What to change")
    assert [row[0] for row in changes] == [one.what for one in found.changes[:5]]
    assert [row[1:3] for row in changes] == [
        [_days(one.after.days), f"{found.run.days - one.after.days:.3g} d"] for one in found.changes[:5]
    ]
    bars = rows(said, "Sensitivity")
    assert [row[1] for row in bars] == [
        " to ".join("-" if end is None else _days(end.days) for end in (one.low, one.high)) for one in found.tornado[:6]
    ]
    assert lengths(said, "Sensitivity") == [
        round(96 * one.span(found.run) / found.tornado[0].span(found.run)) for one in found.tornado[:6]
    ]


def test_upgrades_and_elasticities_come_strongest_first() -> None:
    found = lockstep.sensitivity("gpt2", "dgx-h100:1", batch=64)
    said = text(sensitivity_view.render, found)
    upgrades = sorted(found.upgrades.by_saving, key=lambda one: -one.saving_frac)[:8]
    shown = rows(said, "Upgrades")
    assert [row[0] for row in shown] == [one.what for one in upgrades]
    now_s = found.estimate.step_time_s
    assert [row[1:3] for row in shown] == [
        [format_time(one.step_time_s), format_frac(1 - one.step_time_s / now_s)] for one in upgrades
    ]
    known = {name: value for name, value in found.sensitivity.elasticity.items() if value is not None}
    ranked = sorted(known.items(), key=lambda pair: (-abs(pair[1]), pair[0]))[:10]
    words = sensitivity_view.WORDS
    assert len(set(words.values())) == len(words)
    assert rows(said, "Elasticity") == [[words.get(name, name), f"{value:+.3f}"] for name, value in ranked]
    assert lengths(said, "Elasticity") == [round(96 * min(1, abs(value))) for _, value in ranked]


def _memory_of(plans: Sequence[Any]) -> list[str]:
    return [format_size(float(one.memory.total_B)) for one in plans]


def test_a_plan_lists_layouts_a_front_that_can_be_read_and_reasons() -> None:
    found = lockstep.plan("llama3-8b", "dgx-h100:2", batch=64, tokens="1T")
    said = text(plan_view.render, found)
    best = rows(said, "Best layouts")
    assert [row[-3] for row in best] == _memory_of(found.plans)
    assert [row[-5] for row in best] == [format_time(one.step_time_s) for one in found.plans]
    near = [one for one in found.front if one.step_time_s <= 2.5 * found.front[0].step_time_s]
    readable: list[Any] = near[:1]
    for one in near:
        if len(readable) < 5 and float(one.memory.total_B) <= 0.85 * float(readable[-1].memory.total_B):
            readable.append(one)
    assert [row[-3] for row in rows(said, "Pareto front: less memory for more time and money")] == _memory_of(readable)
    counts = [int(row[0].replace(",", "")) for row in rows(said, "Why other layouts were rejected")]
    assert sum(counts) == sum(one["count"] for one in found.rejected)
    assert len(counts) == min(5, len(found.rejected))
    assert f"of {sum(counts) + found.findings.feasible:,} layouts rejected" in said


@pytest.mark.parametrize(
    ("name", "said"),
    [("time_s", "time, seconds"), ("seconds_s", "seconds"), ("sent_B", "sent, bytes"), ("local_steps", "local steps")],
)
def test_an_axis_label_states_its_unit_once(name: str, said: str) -> None:
    assert axis_name(name) == said


@pytest.mark.parametrize(("stages", "said"), [(1, ""), (12, ""), (13, "first 12 of 13")])
def test_a_truncated_list_of_stages_is_marked(stages: int, said: str) -> None:
    held: Any = [None] * stages
    assert memory_view._left_out(held) == said
