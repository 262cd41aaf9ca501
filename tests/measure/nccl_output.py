"""Output of nccl-tests and rccl-tests as their sources print it, with times of a link that is known.

Source: github.com/NVIDIA/nccl-tests, src/util.cu (writeDeviceReport, writeResultHeader, writeBenchmarkLineBody).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

SIZES_B = tuple(4**power for power in range(10, 16))
TURNS = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0}
"""Times the number of ranks less one: messages in series of a ring."""
DEVICE = "#  Rank {rank:2d} Group  0 Pid {pid:6d} on {host:>10} device {device:2d} [0000:{device:02x}:00] NVIDIA H100"
HEADER = (
    "#                                                              out-of-place                       in-place\n"
    "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  "
    "#wrong\n"
    "#        (B)    (elements)                               ({unit})  (GB/s)  (GB/s)             ({unit})  (GB/s)  "
    "(GB/s)"
)
UNITS_S = {"us": 1e-6, "ms": 1e-3}


def ring_s(name: str, ranks: int, size_B: float, latency_s: float, bandwidth_Bps: float) -> float:
    """Time of a ring: its turns, each a latency and a part of the message."""
    turns = TURNS[name] * (ranks - 1)
    return turns * (latency_s + size_B / ranks / bandwidth_Bps)


def devices(ranks: int, hosts: int = 1) -> list[str]:
    """A line per rank, as many of them on every host."""
    each = ranks // hosts
    return [
        DEVICE.format(rank=rank, pid=4000 + rank, host=f"node-{rank // each}", device=rank % each)
        for rank in range(ranks)
    ]


def rows(
    name: str, ranks: int, latency_s: float, bandwidth_Bps: float, *,
    unit: str = "us", kind: str = "float", wrong: Mapping[int, tuple[str, str]] | None = None,
) -> list[str]:  # fmt: skip
    """A row per size; `wrong` are the two cells of #wrong by the place of the row."""
    found = []
    for place, size_B in enumerate(SIZES_B):
        time_s = ring_s(name, ranks, size_B, latency_s, bandwidth_Bps)
        rate = size_B / time_s / 1e9
        cells = f"{time_s / UNITS_S[unit]:9.5f} {rate:7.2f} {rate * TURNS[name] * (ranks - 1) / ranks:7.2f}"
        out_of_place, in_place = (wrong or {}).get(place, ("0", "0"))
        redop = "sum" if "reduce" in name else "none"
        start = f"{size_B:12d}  {size_B // 4:12d}  {kind:>8}  {redop:>6}  {-1:>6}"
        found.append(f"{start} {cells} {out_of_place:>6} {cells} {in_place:>6}")
    return found


def run(
    name: str, ranks: int, latency_s: float, bandwidth_Bps: float, *,
    starting: str = "# Collective test starting: {}", hosts: int = 1, **cells: object,
) -> list[str]:  # fmt: skip
    """The lines of one run; `starting` names the program in the line before."""
    unit = str(cells.get("unit", "us"))
    return [
        starting.format(f"{name}_perf"),
        "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 1073741824 step: 4(factor) warmup iters: 5 iters: 20",
        "#",
        "# Using devices",
        *devices(ranks, hosts),
        "#",
        *HEADER.format(unit=unit).split("\n"),
        *rows(name, ranks, latency_s, bandwidth_Bps, **cells),  # type: ignore[arg-type]
        "# Out of bounds values : 0 OK",
        "# Avg bus bandwidth    : 200.000",
        "#",
    ]


def labelled(lines: Sequence[str], label: str) -> str:
    """Every line behind a label, in which `{n}` is the number of the line."""
    return "".join(f"{label.replace('{n}', str(100 + number))}{line}\n" for number, line in enumerate(lines))
