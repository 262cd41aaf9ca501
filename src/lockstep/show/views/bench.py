"""`lockstep bench`: collectives on real ranks, or the kernels of one device."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.text import Text

from lockstep.base.units import format_bandwidth, format_flops, format_frac, format_time
from lockstep.run.bench import CollectiveBench
from lockstep.show.views.parts.command import Command
from lockstep.show.views.parts.figure import PALETTE, make_figure
from lockstep.show.views.parts.terminal import heading, indented, small_print, table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from rich.console import Console

    from lockstep.base.types.plain import Json
    from lockstep.run.kernels import DeviceBench


GB = 1e9
US = 1e-6


def render(found: CollectiveBench | DeviceBench, out: Console) -> None:
    """Prints the verdict and the rows."""
    if isinstance(found, CollectiveBench):
        _collective(found, out)
    else:
        _device(found, out)
    if found.assumptions:
        small_print(out, "Mind", found.assumptions, len(found.assumptions))


def _collective(found: CollectiveBench, out: Console) -> None:
    records = found.records()
    largest = max(record["size_B"] for record in records)
    best = max((r for r in records if r["size_B"] == largest), key=lambda r: float(r["busbw_Bps"]))
    rate = format_bandwidth(best["busbw_Bps"])
    out.print(
        Text(f"{found.op} on {found.ranks} ranks: {best['algorithm']}, bus {rate} at {largest:,} B", style="bold")
    )
    if found.stopped:
        out.print(Text(f"stopped: {found.stopped}", style="bold red"))
    wrong = sum(record["wrong"] for record in records)
    out.print(f"{found.backend}, float32; {wrong} wrong elements; time is the median, with its quartiles.")
    titles = [("size", "right"), ("count", "right"), ("redop", "left"), ("time", "right"), ("25 %", "right"),
              ("75 %", "right"), ("algbw", "right"), ("busbw", "right"), ("#wrong", "right")]  # fmt: skip
    for name in dict.fromkeys(record["algorithm"] for record in records):
        heading(out, name, "B, elements, us, GB/s")
        rows = [_row(record) for record in records if record["algorithm"] == name]
        indented(out, table(titles, rows))


def _row(record: Json) -> list[str]:
    times = [f"{record[name] / US:.1f}" for name in ("time_s", "q25_s", "q75_s")]
    rates = [f"{record[name] / GB:.3f}" for name in ("algbw_Bps", "busbw_Bps")]
    return [str(record["size_B"]), str(record["count"]), record["redop"], *times, *rates, str(record["wrong"])]


def _device(found: DeviceBench, out: Console) -> None:
    rows = [row.to_dict() for row in found.rows]
    fastest = max(row["flops_per_s"] for row in rows)
    widest = max(row["bandwidth_Bps"] for row in rows if not row["flops"]) if any(not r["flops"] for r in rows) else 0
    said = [format_flops(fastest) if fastest else "", format_bandwidth(widest) if widest else ""]
    out.print(Text(f"{found.name}, {found.dtype}: {', '.join(text for text in said if text)} at best", style="bold"))
    titles = [("kernel", "left"), ("shape", "left"), ("time", "right"), ("min", "right"), ("FLOP/s", "right"),
              ("bandwidth", "right")]  # fmt: skip
    heading(out, "Kernels", "median of the repetitions")
    indented(out, table(titles, (_kernel(row) for row in rows)))
    if found.curve is not None:
        heading(out, "Efficiency curve", "see lockstep catalog devices; errors of products below")
        indented(out, Text(found.curve.to_toml().rstrip()))
        typical = format_frac(found.curve.efficiency.typical_error_frac, 2)
        out.print(f"  its typical error on the products measured is {typical}")


def _kernel(row: Json) -> list[str]:
    return [
        row["kernel"],
        row["shape"],
        format_time(row["time_s"]),
        format_time(row["min_s"]),
        format_flops(row["flops_per_s"]) if row["flops"] else "-",
        format_bandwidth(row["bandwidth_Bps"]) if row["size_B"] else "-",
    ]


MARKERS = (("o", "-"), ("s", "--"), ("^", ":"))


def plot_bench(found: CollectiveBench | DeviceBench) -> Figure:
    """The picture."""
    if isinstance(found, CollectiveBench):
        title = f"{found.op} on {found.ranks} ranks, {found.backend}: median and quartiles"
        return make_figure(title, lambda axes: _draw_collective(found, axes))
    else:
        return make_figure(f"{found.name}, {found.dtype}: median and range", lambda axes: _draw_device(found, axes))


def _draw_collective(found: CollectiveBench, axes: Axes) -> None:
    records = found.records()
    for place, name in enumerate(dict.fromkeys(record["algorithm"] for record in records)):
        rows = [record for record in records if record["algorithm"] == name]
        sizes = [row["size_B"] for row in rows]
        time_us = [row["time_s"] * 1e6 for row in rows]
        spread = [
            [(row["time_s"] - row["q25_s"]) * 1e6 for row in rows],
            [(row["q75_s"] - row["time_s"]) * 1e6 for row in rows],
        ]
        _spread_line(axes, place, name, sizes, time_us, spread)
    axes.set(xscale="log", yscale="log", xlabel="size, bytes", ylabel="time, microseconds")
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))


def _spread_line(
    axes: Axes, place: int, name: str, x: list[float], middle: list[float], spread: list[list[float]]
) -> None:
    """The line of the `place`-th name: another colour, and once these are used up another marker and dash."""
    turn, colour = divmod(place, len(PALETTE))
    marker, dash = MARKERS[turn % len(MARKERS)]
    axes.errorbar(x, middle, spread, marker=marker, linestyle=dash, capsize=3, color=PALETTE[colour], label=name)


def _draw_device(found: DeviceBench, axes: Axes) -> None:
    rows = [row.to_dict() for row in found.rows]
    for place, name in enumerate(dict.fromkeys(row["kernel"] for row in rows)):
        ours = [row for row in rows if row["kernel"] == name]
        work = [row["flops"] or row["size_B"] or row["repeats"] for row in ours]
        middle = [row["time_s"] * 1e6 for row in ours]
        spread = [
            [(row["time_s"] - row["min_s"]) * 1e6 for row in ours],
            [(row["max_s"] - row["time_s"]) * 1e6 for row in ours],
        ]
        _spread_line(axes, place, name, work, middle, spread)
    axes.set(xscale="log", yscale="log", xlabel="FLOPs, or bytes where there are none", ylabel="time, microseconds")
    axes.legend(fontsize=8, frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))


_COLLECTIVE, _KERNEL = "Collective", "Kernel, or device for all kernels"


COMMAND = Command(
    examples=(
        "lockstep bench all-reduce --ranks 2 --sizes 1KB:16MB:4 --algorithm built-in,ring --csv ring.csv",
        "lockstep bench device --device-file my-device.yaml",
        "torchrun --nproc-per-node 8 -m lockstep bench all-reduce --backend nccl",
    ),
    render=render,
    picture=plot_bench,
    doing="measuring",
    ok=lambda answer: getattr(answer, "ok", True),
    by_ranks=True,
    lists=False,
)
