"""What pictures show, read back from their axes: the numbers of the answer, in the units of the axis."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import lockstep
from lockstep.base.units import format_size, format_time
from lockstep.check.validation.cases import TOLERANCE_FRAC, names, survey
from lockstep.run.bench.bench import CollectiveBench
from lockstep.run.bench.collective import Row
from lockstep.show.verbs.crossover import best_algorithms
from lockstep.show.verbs.pipeline import pipeline_choices
from lockstep.show.views.bench import plot_bench
from lockstep.show.views.campaign import plot_tornado
from lockstep.show.views.case import plot_cases
from lockstep.show.views.checkpoint import plot_overhead
from lockstep.show.views.collective import plot_sizes
from lockstep.show.views.crossover import plot_map
from lockstep.show.views.overlap import plot_buckets
from lockstep.show.views.parts.figure import save_figure
from lockstep.show.views.parts.reading import PART_WORDS
from lockstep.show.views.pipeline import plot_choices
from lockstep.show.views.plan import plot_plan
from lockstep.show.views.scaling import plot_scaling
from lockstep.show.views.speedup import plot_speedup
from lockstep.show.views.tensor import plot_tensor
from lockstep.show.views.train import plot_losses
from lockstep.show.views.validate import plot_validate
from lockstep.simulate.collectives import lower_bound_s

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LINK: dict[str, Any] = {"latency": "5us", "bandwidth": "25GB/s"}
Look = Callable[..., list["Axes"]]


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """The panels of a picture, which can be written."""

    def panels(plot: Callable[[Any], Figure], answer: object) -> list[Axes]:
        figure = plot(answer)
        save_figure(figure, tmp_path / "picture.svg")
        return list(figure.axes)

    return panels


def lines(axes: Axes) -> dict[str, tuple[list[float], list[float]]]:
    """x and y of every line that has a name, by it."""
    named = [line for line in axes.lines if not str(line.get_label()).startswith("_")]
    assert len({line.get_label() for line in named}) == len(named)
    return {str(line.get_label()): (_list(line.get_xdata()), _list(line.get_ydata())) for line in named}


def _list(values: Any) -> list[float]:
    return [float(value) for value in values]


def same(found: tuple[list[float], list[float]], x: Any, y: Any) -> None:
    assert found[0] == pytest.approx(_list(x))
    assert found[1] == pytest.approx(_list(y))


def test_collective_plot_marks_the_times_of_the_answer(look: Look) -> None:
    """Sizes of the curves are sixth roots of powers of two, so 1 MiB is one of them."""
    found = lockstep.collective("all-reduce", ranks=12, size="1MiB", **LINK)
    (axes,) = look(plot_sizes, found)
    curves = [line for line in axes.lines if len(_list(line.get_xdata())) > 1]
    marks = [line for line in axes.lines if len(_list(line.get_xdata())) == 1]
    dots, circles = ([one for one in marks if (one.get_fillstyle() == "none") is empty] for empty in (False, True))
    assert len(curves) == len(dots) == len(found.comparison.rows)
    assert [_list(one.get_ydata()) for one in circles] == [[min(row.time_s for row in found.comparison.rows)]]
    table = np.array([_list(curve.get_ydata()) for curve in curves])
    fastest = {int(place) for place in np.argmin(table, axis=0)} | {
        int(np.argmin([row.time_s for row in found.comparison.rows]))
    }
    for place, (row, dot, curve) in enumerate(zip(found.comparison.rows, dots, curves, strict=True)):
        sizes_B, time_s = _list(curve.get_xdata()), _list(curve.get_ydata())
        own_name = row.algorithm if row.ports == 1 else f"{row.algorithm} ({row.ports} ports)"
        assert (curve.get_label() == own_name) == (place in fastest), "named where it is fastest somewhere"
        assert dot.get_color() == curve.get_color()
        same((_list(dot.get_xdata()), _list(dot.get_ydata())), [2**20], [row.time_s])
        assert (sizes_B[0], sizes_B[-1]) == (2**10, 2**32)
        assert min(abs(np.log(sizes_B) - np.log(2**20))) == pytest.approx(0, abs=1e-9)
        assert np.interp(2**20, sizes_B, time_s) == pytest.approx(row.time_s)
    corners = axes.collections[0].get_paths()[0].vertices
    bound_s = lower_bound_s("all-reduce", 12, corners[:, 0], found.network.link)
    lowest_s = min(bound_s) / 3
    assert all(y == pytest.approx(upper) or y == pytest.approx(lowest_s)
               for y, upper in zip(corners[:, 1], bound_s, strict=True))  # fmt: skip


@pytest.mark.parametrize(
    ("op", "words"),
    [
        ("parameter-server", {"ranks": 64, "shards": 4, "density": 0.01, **LINK}),
        ("all-reduce", {"ranks": 8, "algorithm": "ring", "slow_link": "2GB/s", **LINK}),
        ("all-reduce", {"ranks": 16, "algorithm": "ring", "order": "round-robin", "cluster": "dgx-h100:2"}),
    ],
)
def test_collective_curves_pass_through_the_answer(op: str, words: dict[str, Any], look: Look) -> None:
    """Of one algorithm whose time is not its price: the mark lies on the curve, and other sizes are other answers."""
    found = lockstep.collective(op, size=2.0**20, **words)
    (axes,) = look(plot_sizes, found)
    curve, mark = lines(axes).values()
    same(mark, [2**20], [found.comparison.rows[0].time_s])
    assert np.interp(2.0**20, *curve) == pytest.approx(mark[1][0], rel=0.1)
    assert curve[1][3] == pytest.approx(lockstep.collective(op, size=curve[0][3], **words).comparison.rows[0].time_s)


def test_the_crossover_map_shows_the_best_algorithm_everywhere(look: Look) -> None:
    found = best_algorithms("all-reduce", ranks=64, **LINK)
    (axes,) = look(plot_map, found)
    (image,) = axes.images
    colours = image.cmap(image.norm(image.get_array()))
    legend = axes.get_legend()
    pairs = zip(legend.texts, legend.get_patches(), strict=True)
    named = {text.get_text(): patch.get_facecolor() for text, patch in pairs}
    assert len(set(named.values())) == len(named) > 1
    for place, name in np.ndenumerate(found.algorithm):
        assert tuple(colours[place]) == named[str(name)]
    for place, text in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True):
        assert text.get_text() == format_size(found.sizes_B[int(place)])
    assert axes.get_xticks()[0] == 0
    assert [text.get_text() for text in axes.get_yticklabels()] == [str(ranks) for ranks in found.ranks]


def test_the_bucket_plot_shows_step_times_and_both_bounds(look: Look) -> None:
    asked: dict[str, Any] = {"layers": 24, "backward": "120ms", "gradients": "700MB", "ranks": 64}
    found = lockstep.overlap(**asked, **LINK, sweep=True)
    (axes,) = look(plot_buckets, found)
    drawn, best = lines(axes), found.sweep.best
    rows = [(row.bucket_B, float(row.step.step_s)) for row in found.sweep.rows]
    assert len(rows) > 4
    same(drawn["step"], *zip(*rows, strict=True))
    same(drawn["best"], [best.bucket_B], [min(step_s for _, step_s in rows)])
    assert set(drawn["no overlap"][1]) == {found.sweep.no_overlap_s}
    (both_s,) = set(drawn["max(compute, communication): a bound"][1])
    assert both_s == max(float(best.step.compute_s), float(best.step.comm_s)) <= min(drawn["step"][1])


def test_the_schedule_plot_shows_dots_below_the_front(look: Look) -> None:
    found = pipeline_choices(stages=4, microbatches="8,16")
    panels = look(plot_choices, found)
    assert len(panels) == 2
    for axes, microbatches in zip(panels, (8, 16), strict=True):
        points = [one for one in found.points if one.microbatches == microbatches]
        places = sorted((one.live_models, one.utilization_frac) for one in points)
        assert sorted(tuple(one.get_offsets()[0]) for one in axes.collections) == places
        assert {name for text in axes.texts for name in text.get_text().strip().split(", ")} == {
            point.schedule for point in points
        }
        (front,) = axes.lines
        memory, busy = _list(front.get_xdata())[:-1], _list(front.get_ydata())[:-1]
        assert busy == sorted(busy)
        for x, y in places:
            assert y <= max(best for held, best in zip(memory, busy, strict=True) if held <= x)
        assert {*zip(memory, busy, strict=True)} <= {*places}
        low, high = axes.get_ylim()
        assert low == 0
        assert 1 < high < 1.1


@pytest.mark.parametrize("words", [{}, {"delta_write": "9s"}, {"async_frac": "20%", "simulate": True}])
def test_overhead_in_per_cent_over_work_in_seconds(words: dict[str, Any], look: Look) -> None:
    found = lockstep.checkpoint(mtbf="6h", write="5min", restart="10min", **words)
    (axes,) = look(plot_overhead, found)
    drawn = lines(axes)
    same(drawn["exact"], [work_s for work_s, _ in found.curve], [100 * frac for _, frac in found.curve])
    same(drawn["this interval"], [found.interval_s], [100 * found.overhead_frac])
    young = drawn.get("first order, free restart (Young)")
    assert (young is None) == ("delta_write" in words)
    if young:
        blocking_s = found.pattern.costs_s[-1] * (1 - found.pattern.hidden_frac)
        assert young[1] == pytest.approx([100 * (blocking_s / x + x / 2 / found.mtbf_s) for x in young[0]])
    assert len(axes.containers) == ("simulate" in words)
    for bar in axes.containers:
        ((below, above),) = bar[2][0].get_segments()
        assert [below[1], above[1]] == pytest.approx([100 * end for end in found.simulated.overhead.interval_s()])
        same((_list(bar[0].get_xdata()), _list(bar[0].get_ydata())), [found.interval_s], [(below[1] + above[1]) / 2])
    ticks_s = axes.get_xticks()
    assert len(ticks_s) > 1
    assert found.curve[0][0] <= min(ticks_s) < max(ticks_s) <= found.curve[-1][0]
    assert [text.get_text() for text in axes.get_xticklabels()] == [format_time(tick_s) for tick_s in ticks_s]
    assert ("those between" in axes.get_title(loc="left")) == ("delta_write" in words)


def test_a_plan_has_a_bar_per_layout_and_a_dot_per_step_of_its_front(look: Look) -> None:
    found = lockstep.plan("llama3-8b", "dgx-h100:2", batch=64)
    bars, front = look(plot_plan, found)
    for row, one in enumerate(found.plans):
        own = [bar for bar in bars.patches if round(bar.get_y() + bar.get_height() / 2) == row]
        parts = one.step.breakdown_s()
        shown = {words: parts[part] for part, words in PART_WORDS.items()}
        widths = {str(box.get_label()): box[row].get_width() for box in bars.containers}
        assert widths == pytest.approx({name: shown[name] for name in widths})
        assert sum(widths.values()) >= one.step_time_s * (1 - 0.002 * len(parts))
        ends = list(accumulate(bar.get_width() for bar in own))
        assert [bar.get_x() + bar.get_width() for bar in own] == pytest.approx(ends)
        assert bars.texts[row].get_text().startswith(f" {format_time(one.step_time_s)}, ")
        assert bars.texts[row].get_position() == (pytest.approx(ends[-1]), row)
    (behind, *named, capacity) = front.lines
    near = [one for one in found.front if one.step_time_s <= 2.5 * found.front[0].step_time_s]
    same((_list(behind.get_xdata()), _list(behind.get_ydata())), [float(one.memory.total_B) / 2**30 for one in near],
         [one.step_time_s for one in near])  # fmt: skip
    every = {str(one.layout): (float(one.memory.total_B) / 2**30, one.step_time_s) for one in near}
    assert {str(dot.get_label()): (*dot.get_xdata(), *dot.get_ydata()) for dot in named}.items() <= every.items()
    assert set(capacity.get_xdata()) == {found.best.memory.capacity_B / 2**30}
    assert front.get_xlim()[1] > capacity.get_xdata()[0]


def test_published_runs_are_dots_around_one(look: Look) -> None:
    found = survey(names()[::4])
    (axes,) = look(plot_cases, found)
    labels = [text.get_text() for text in axes.get_yticklabels()]
    assert sorted(labels) == sorted(one.study.name for one in found.comparisons)
    dots = {(labels[round(y)], x) for some in axes.collections for x, y in np.asarray(some.get_offsets()).tolist()}
    expected = set()
    for one in found.comparisons:
        for row in one.rows:
            if row.predicted is not None:
                ratio = row.predicted / row.published.value
                slower = ratio if row.published.quantity in ("step_time_s", "days", "gpu_hours") else 1 / ratio
                expected.add((one.study.name, slower))
    assert dots == expected
    (band,) = axes.patches
    assert (band.get_x(), band.get_x() + band.get_width()) == pytest.approx((1 - TOLERANCE_FRAC, 1 + TOLERANCE_FRAC))
    assert _list(axes.lines[0].get_xdata()) == [1, 1]


@pytest.mark.parametrize("tables", [["narayanan_sc21", "fms_fsdp"], ["korthikanti_2022_memory"]])
def test_published_rows_are_dots_by_software_or_table(tables: list[str], look: Look) -> None:
    report = lockstep.validate(tables)
    rows, errors = look(plot_validate, report)
    expected: dict[str, list[tuple[float, float]]] = {}
    for one in report.tables:
        for error in one.errors:
            name, predicted = (error.stack, error.left_out) if error.left_out else (one.table.name, error.predicted)
            expected.setdefault(name, []).append((error.measured, predicted))
    drawn = {str(line.get_label()): sorted(zip(_list(line.get_xdata()), _list(line.get_ydata()), strict=True))
             for line in rows.lines if not str(line.get_label()).startswith("_")}  # fmt: skip
    assert drawn == {name: sorted(pairs) for name, pairs in expected.items()}
    labels = [text.get_text() for text in errors.get_yticklabels()]
    assert sorted(labels) == sorted(f"{name} ({len(pairs)})" for name, pairs in expected.items())


@pytest.mark.parametrize("words", [{"tokens": "10G", "mtbf": "12h"}, {"weak": True}])
def test_the_scaling_plot_lies_below_the_ideal_line(words: dict[str, Any], look: Look) -> None:
    found = lockstep.scaling("gpt2", "ethernet-25-v100:8", batch=256, **words)
    (axes,) = look(plot_scaling, found)
    devices, drawn = [one.devices for one in found.sizes], lines(axes)
    same(drawn["ideal"], devices, [number / devices[0] for number in devices])
    same(drawn["planned"], devices, [one.speedup for one in found.sizes])
    same(drawn["last that helps"], [found.last_helping.devices], [found.last_helping.speedup])
    assert [text.get_text() for text in axes.get_xticklabels()] == [str(number) for number in devices]
    assert [note.xy for note in axes.texts] == [(one.devices, one.speedup) for one in found.sizes]
    said = [format_time(one.run.wall_s) if one.run else f"{100 * one.efficiency_frac:.0f}%" for one in found.sizes]
    assert [note.get_text() for note in axes.texts] == said
    assert axes.get_title(loc="left").startswith("Weak" if words.get("weak") else "Strong")


@pytest.mark.parametrize("serial", [0.0, 0.01])
def test_the_speedup_plot_lies_between_its_laws(serial: float, look: Look) -> None:
    found = lockstep.speedup(compute=10, size="200MB", serial=serial, **LINK)
    (axes,) = look(plot_speedup, found)
    drawn = lines(axes)
    exact = next(curve for name, curve in drawn.items() if name.startswith("exact, "))
    workers = np.array(exact[0])
    assert (workers[0], workers[-1]) == (1, found.most_workers)
    assert len(workers) > 50
    same(exact, workers, [float(found.speedup(number)) for number in workers])
    same(drawn["ideal"], workers, workers)
    assert ("Amdahl" in drawn) == ("Gustafson" in drawn) == (serial > 0)
    if serial:
        same(drawn["Amdahl"], workers, 1 / (serial + (1 - serial) / workers))
        same(drawn["Gustafson"], workers, serial + (1 - serial) * workers)
    fastest = float(found.speedup(found.best_workers))
    same(drawn[f"best: {found.best_workers:,} workers"], [found.best_workers], [fastest])
    assert fastest >= max(exact[1])


def test_losses_over_steps_seconds_and_megabytes(look: Look) -> None:
    """Of 120 steps a window has 120 / 20 = 6 beside its middle, three on each side."""
    loss = [float(number % 7) for number in range(120)]
    one = SimpleNamespace(loss=loss, time_s=[0.5] * 120, sent_B=[2e6] * 120, method="local-sgd", ranks=2,
                          task=SimpleNamespace(model="mlp", batch=8))  # fmt: skip
    panels = look(plot_losses, SimpleNamespace(runs=[one], names=["local-sgd"]))
    assert [axes.get_xlabel() for axes in panels] == ["steps", "seconds", "MB sent by all ranks"]
    for axes, each in zip(panels, (1.0, 0.5, 2.0), strict=True):
        faint, strong = axes.lines
        places = [each * number for number in range(1, 121)]
        same((_list(faint.get_xdata()), _list(faint.get_ydata())), places, loss)
        means = [np.mean(loss[max(0, place - 3) : place + 4]) for place in range(120)]
        same((_list(strong.get_xdata()), _list(strong.get_ydata())), places, means)
        assert axes.get_ylim()[0] == 0
        assert (axes.get_legend() is None) == (axes is not panels[0])


def test_a_benchmark_has_its_medians_and_quartiles_in_microseconds(look: Look) -> None:
    times_s = (1e-6, 2e-6, 4e-6, 8e-6, 16e-6)
    names = [f"algorithm {number}" for number in range(8)]
    rows = tuple(Row(name, size_B, times_s, 0) for name in names for size_B in (1024, 4096))
    (axes,) = look(plot_bench, CollectiveBench("all-reduce", 2, "gloo", rows, None, "2026-01-02"))
    assert [str(bar.get_label()) for bar in axes.containers] == names
    for bar in axes.containers:
        same((_list(bar[0].get_xdata()), _list(bar[0].get_ydata())), [1024, 4096], [4, 4])
        ends = [sorted(end[1] for end in segment) for segment in bar[2][0].get_segments()]
        assert ends == [pytest.approx([2, 8])] * 2
    styles = {(bar[0].get_color(), bar[0].get_marker(), bar[0].get_linestyle()) for bar in axes.containers}
    assert len(styles) == len(names)


def test_ticks_of_a_layer_are_its_numbers_of_ranks(look: Look) -> None:
    layer = {"hidden": 512, "heads": 8, "seq": 256, "flops": "100T", "latency": "5us", "bandwidth": "25GB/s"}
    found = lockstep.tensor(ranks=4, **layer)
    for axes in look(plot_tensor, found):
        assert [text.get_text() for text in axes.get_xticklabels()] == [f"{row.ranks:,}" for row in found.rows]


def test_ticks_of_nearly_equal_values_are_distinguishable() -> None:
    found = lockstep.plan("llama3-8b", "dgx-h100:2", batch=[64, 128], tp=1, pp=1)
    for axes in found.plot().axes:
        axes.figure.canvas.draw()
        low, high = axes.get_ylim()
        ticks = [(at, text.get_text()) for at, text in zip(axes.get_yticks(), axes.get_yticklabels(), strict=True)]
        said = [text for at, text in ticks if low <= at <= high]
        assert len(said) > 2
        assert len(set(said)) == len(said)


@pytest.mark.parametrize(("stages", "microbatches"), [(4, 8), (8, 32)])
def test_schedule_labels_overlap_no_dots_or_labels(look: Look, stages: int, microbatches: int) -> None:
    from matplotlib.text import Text

    (axes,) = look(plot_choices, pipeline_choices(stages=stages, microbatches=microbatches))
    axes.figure.canvas.draw()
    boxes = [Text.get_window_extent(text) for text in axes.texts]
    assert len(boxes) > 5
    for place, box in enumerate(boxes):
        assert not any(box.overlaps(other) for other in boxes[place + 1 :])
        dots = (axes.transData.transform(dot) for dots in axes.collections for dot in dots.get_offsets())
        assert not any(box.contains(*dot) for dot in dots)


def test_tornado_labels_do_not_overlap(look: Look) -> None:
    (axes,) = look(plot_tornado, lockstep.campaign("llama3-8b", "dgx-h100:2", batch=64, tokens="1G"))
    axes.figure.canvas.draw()
    boxes = [text.get_window_extent() for text in axes.texts]
    assert not any(box.overlaps(other) for place, box in enumerate(boxes) for other in boxes[place + 1 :])


def test_leading_spaces_of_labels_are_preserved(tmp_path: Path) -> None:
    """Programs that show an SVG drop ordinary blanks at the ends of a text."""
    save_figure(lockstep.messages(workers=8, params="25M").plot(), tmp_path / "picture.svg")
    said = re.findall(r"<text[^>]*>([^<]*)</text>", (tmp_path / "picture.svg").read_text("utf-8"))
    assert "\u00a0350M\u00a0" in said
    assert [one for one in said if one != one.strip(" ")] == []
