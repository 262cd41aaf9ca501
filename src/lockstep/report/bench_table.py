"""What a benchmark measured, for a person: the columns of nccl-tests, or the rates of kernels."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.text import Text

from lockstep.measure.bench import CollectiveBench
from lockstep.measure.kernels import DeviceBench
from lockstep.report.terminal import heading, indented, small_print, table
from lockstep.units import format_bandwidth, format_flops, format_frac, format_time

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


def _row(record: dict[str, Any]) -> list[str]:
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


def _kernel(row: dict[str, Any]) -> list[str]:
    return [
        row["kernel"],
        row["shape"],
        format_time(row["time_s"]),
        format_time(row["min_s"]),
        format_flops(row["flops_per_s"]) if row["flops"] else "-",
        format_bandwidth(row["bandwidth_Bps"]) if row["size_B"] else "-",
    ]
