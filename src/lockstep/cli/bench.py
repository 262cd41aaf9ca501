"""`lockstep bench`: collectives on real ranks, or the kernels of one device."""

from __future__ import annotations

from typing import Any

import typer

from lockstep.cli.completing import ops
from lockstep.cli.options import argument, takes, text
from lockstep.cli.output import EXAMPLES, show_once
from lockstep.cli.program_options import PLOT, RANKS_HELP, RUNS, draw, given, picture_path

_COLLECTIVE, _KERNEL = "Collective", "Kernel, or device for all kernels"
WORDS = {
    "op": argument(
        "OP",
        "Collective: all-reduce, all-gather, send-recv ...; kernel: matmul, memory, attention, optimizer; or device.",
        names=ops,
    ),
    "sizes": text("--sizes", "S", "Sizes as from:to:factor, or a list separated by commas. (default: 1KB:16MB:4)"),
    "ranks": text("--ranks", "N", RANKS_HELP, panel=_COLLECTIVE),
    "backend": text(
        "--backend", "B", "Backend: gloo, or nccl with one GPU per rank. (default: gloo)", panel=_COLLECTIVE
    ),
    "algorithm": text(
        "--algorithm",
        "A",
        "Algorithms: built-in, Lockstep's by name, or all. (default: built-in,ring)",
        panel=_COLLECTIVE,
    ),
    "repeats": text("--repeats", "N", "Repeats per size; fewer for slow sizes. (default: 20)", panel=_COLLECTIVE),
    "warm_up": text("--warm-up", "N", "Number of warm-up runs per size. (default: 3)", panel=_COLLECTIVE),
    "timeout": text("--timeout", "T", "Longest wait for a rank. (default: 60 s)", panel=_COLLECTIVE),
    "csv": text("--csv", "FILE", "Write the rows as CSV, which `lockstep fit` reads.", panel=_COLLECTIVE),
    "device": text("--device", "D", "Device: cpu or cuda. (default: cpu)", panel=_KERNEL),
    "dtype": text(
        "--dtype", "T", "Number format: fp32, bf16, fp16 or fp64. (default: fp32, bf16 on a GPU)", panel=_KERNEL
    ),
    "peak": text(
        "--peak", "R", "Peak rate from the datasheet, e.g. 989TFLOP/s. (default: the best measured)", panel=_KERNEL
    ),
    "memory_bandwidth": text(
        "--memory-bandwidth", "R", "Memory bandwidth from the datasheet. (default: measured)", panel=_KERNEL
    ),
    "curve": text("--curve", "FILE", "Write the efficiency curve for the hardware catalog.", panel=_KERNEL),
    "device_file": text(
        "--device-file",
        "FILE",
        "Put the curve into your hardware YAML, or write a new one; see lockstep plan.",
        panel=_KERNEL,
    ),
}


def register(app: typer.Typer) -> None:
    """Adds the verb."""
    app.command(
        epilog=EXAMPLES
        + "lockstep bench all-reduce --ranks 2 --sizes 1KB:16MB:4 --algorithm built-in,ring --csv ring.csv\n\n"
        + "lockstep bench device --device-file my-device.yaml\n\n"
        + "torchrun --nproc-per-node 8 -m lockstep bench all-reduce --backend nccl"
    )(bench)


@takes(WORDS, RUNS, PLOT)
def bench(as_json: bool, plot: str | None, **words: Any) -> None:
    """Measure collectives as nccl-tests does, built-in and Lockstep's own, or the kernels of a CPU or GPU."""
    from lockstep import api
    from lockstep.report.progress import progress

    picture_path(plot)
    with progress("measuring") as report:
        answer = api.bench(**given(words), progress=report)  # type: ignore[arg-type]

    def picture(path: Any) -> None:
        from lockstep.report.bench_plot import plot_bench

        plot_bench(answer, path)

    draw(plot, picture)
    show_once(answer, as_json, "bench", ok=getattr(answer, "ok", True))
