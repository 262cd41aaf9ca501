"""What engines cost and how far they reach, as ratios within one run.

    python benchmarks/sweeps.py overhead [--batches 100]     Dask over processes, one worker, batches of 200 ms
    python benchmarks/sweeps.py workers [--batches 2560] [--processes 1]
                                                             64 worker threads over an ideal 64, sleeping batches
    python benchmarks/sweeps.py memory [--trials 1000000]    memory of the client of so many trials
    python benchmarks/sweeps.py plans [--models 30 --clusters 20 --batches 5] [--part 1/6 --sums FILE] [--store FILE]
                                                             listed plans on two processes over each asked alone
    python benchmarks/sweeps.py table [--models 30 --clusters 20 --batches 5] [--store FILE] [--plot FILE]
                                                             which cluster for which model: docs/use/engines.md

A part of n has every n-th model. Each appends its seconds to the file of sums; what is printed is of all parts there.
Times of engines count from their first answer to their last, without the start of their processes. In `memory` answers
come at once from an engine that computes nothing, so that only the client is measured.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any, ClassVar

import lockstep
from lockstep.base.engines import Answered, Asking, Batch, Engine, Questions, batches, find_engine
from lockstep.base.engines.packing import packed
from lockstep.base.errors import LockstepError
from lockstep.learn.lab.sweep import Trial, run_trial, sweep

BATCH_S, ROUNDS = 0.2, 2
EXPERIMENT = "communication-bound"
BATCH = (256, 512, 1024, 2048, 4096)
MODELS = (
    "gpt2-xl", "gpt3-13b", "gpt3-175b", "opt-175b", "bloom-176b", "falcon-40b", "falcon-180b", "llama2-7b",
    "llama2-13b", "llama2-70b", "llama3-8b", "llama3-70b", "llama3-405b", "llama3.2-1b", "mistral-7b", "mixtral-8x7b",
    "mixtral-8x22b", "qwen2.5-7b", "qwen2.5-32b", "qwen2.5-72b", "qwen3-8b", "qwen3-30b-a3b", "qwen3-235b-a22b",
    "phi-4", "gemma2-27b", "gemma3-27b", "olmo2-13b", "deepseek-v2-lite", "gpt-oss-120b", "nemotron4-340b",
)  # fmt: skip
CLUSTERS = (
    "dgx-v100:16", "dgx-2:8", "dgx-a100-40gb:16", "dgx-a100-80gb:8", "dgx-a100-80gb:64", "dgx-h100:4", "dgx-h100:16",
    "dgx-h100:64", "dgx-h200:8", "dgx-h200:64", "hgx-h800:32", "hgx-h20:32", "dgx-b200:8", "dgx-b200:32", "dgx-b300:16",
    "mi300x-8:16", "mi325x-8:16", "mi355x-8:16", "aws-p4d:32", "aws-p5:32",
)  # fmt: skip
"""Of at most 512 devices."""


def run_s(engine: Engine, tasks: int, nap_s: float) -> tuple[float, float]:
    """(seconds until the first answer, seconds from there to the last) of so many naps."""
    began_s, first_s = time.perf_counter(), 0.0
    for _ in Asking(Questions(time.sleep, [nap_s] * tasks, {}), engine):
        first_s = first_s or time.perf_counter()
    return first_s - began_s, time.perf_counter() - first_s


def overhead(number: int) -> None:
    """Prints for both engines the time of a run over the time in which the worker was busy."""
    each: dict[str, list[float]] = {}
    for name in ("processes:1", "dask:1") * ROUNDS:
        given = iter([Batch((place,), (BATCH_S,)) for place in range(number)])
        busy_s = first_s = last_s = 0.0
        for answered in find_engine(name).run(time.sleep, given):
            last_s = time.perf_counter()
            busy_s += answered.seconds if first_s else 0.0
            first_s = first_s or last_s
        each.setdefault(name, []).append((last_s - first_s) / busy_s)
    for name, ratios in each.items():
        print(f"{name:<12} {number} batches of {BATCH_S * 1e3:g} ms: {min(ratios):.4f} of the time its worker was busy")
    print(f"load of this machine meanwhile: {os.getloadavg()[0]:.1f}")


def workers(number: int, processes: int) -> None:
    """Prints how much longer 64 threads that are there already take than batches / 64."""
    from distributed import Client

    from lockstep.base.engines.cluster import local_cluster

    ideal_s = number * batches.TARGET_S / 64
    with local_cluster(processes, threads=64 // processes) as scheduler:
        with Client(scheduler) as client:
            client.wait_for_workers(processes)
        start_s, rest_s = run_s(find_engine(f"dask:{scheduler.scheduler_address}"), number, batches.TARGET_S)
    rest_frac, all_frac = rest_s / ideal_s, (start_s + rest_s) / ideal_s
    print(
        f"64 threads of Dask, {number} sleeping batches: {rest_frac:.3f} of the ideal from the first answer to the last"
    )
    print(f"{all_frac:.3f} with the {start_s:.2f} s before the first; load of this machine: {os.getloadavg()[0]:.1f}")


class Instant(Engine):
    """Answers every task with the outcome of the first."""

    name: ClassVar[str] = "instant"

    def run(self, function: Callable[[Any], Any], given: Iterator[Batch]) -> Iterator[Answered]:
        """Every batch at once."""
        answer = packed(run_trial(Trial(EXPERIMENT, (), 0)))
        for batch in given:
            yield Answered(batch, [answer] * len(batch.places), batches.TARGET_S)


def memory(trials: int, seeds: int | None) -> None:
    """Starts a client of its own, of 1,000 seeds at each point; with `seeds` it is that client."""
    if seeds is None:
        for one in (1000, trials):
            subprocess.run(
                [sys.executable, __file__, "memory", "--trials", str(trials), "--seeds", str(one)], check=True
            )
        return
    batches.MOST_GROWTH = 1000
    before_B = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    points = trials // seeds
    began_s = time.perf_counter()
    sweep(EXPERIMENT, {}, {"elems": tuple(range(8, 8 + points))}, Instant(), seeds=seeds, most_s=1e9)
    peak_B = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    took_s = time.perf_counter() - began_s
    print(
        f"{points} points of {seeds} seeds: peak {peak_B / 1e6:.0f} MB, {before_B / 1e6:.0f} before; "
        f"{took_s / trials * 1e6:.0f} us a trial",
        flush=True,
    )


def plans(models: Sequence[str], clusters: int, sizes: int, store: str | None, sums: Path | None) -> None:
    """Prints processor and wall time of the list over the processor time of plans asked one by one.

    Every other plan is asked alone before the list, the others after it, so that a machine whose other programs come
    and go slows both.
    """
    asked: dict[str, Any] = {"model": list(models), "cluster": list(CLUSTERS[:clusters])}
    asked |= {"batch": list(BATCH[:sizes])}
    points = [dict(zip(asked, point, strict=True)) for point in product(*asked.values())]
    one_by_one_s(points[:1])
    alone_s = one_by_one_s(points[::2])
    before_s, wall_s = used_s(), time.perf_counter()
    found = lockstep.plan(**asked, engine="processes:2", store=store)
    list_s, wall_s = used_s() - before_s, time.perf_counter() - wall_s
    alone_s += one_by_one_s(points[1::2])
    answered = sum(row.answer is not None for row in found.rows)
    said(
        [*earlier(sums), {"plans": len(points), "answered": answered, "alone_s": alone_s, "list_s": list_s,
                          "wall_s": wall_s, "load": os.getloadavg()[0]}], sums,
    )  # fmt: skip


def earlier(sums: Path | None) -> list[dict[str, float]]:
    """The seconds of the parts that were run before."""
    return [] if sums is None or not sums.exists() else [json.loads(line) for line in sums.read_text().splitlines()]


def said(parts: Sequence[dict[str, float]], sums: Path | None) -> None:
    """Prints the ratios of all parts together, and keeps the seconds of each."""
    if sums is not None:
        sums.write_text("".join(f"{json.dumps(one)}\n" for one in parts))
    total = {name: sum(one[name] for one in parts) for name in parts[0]}
    alone_s = total["alone_s"]
    list_frac, wall_frac = (total[name] / alone_s for name in ("list_s", "wall_s"))
    print(f"{total['plans']} plans, {total['answered']} with an answer: {alone_s:.1f} s of processor one by one")
    print(f"as lists on two processes: {list_frac:.3f} of it in processor time, {list_frac / 2:.3f} on each process")
    print(f"in wall time {wall_frac:.3f} of it, at a mean load of {total['load'] / len(parts):.1f}")


def table(models: Sequence[str], clusters: int, sizes: int, store: str | None, plot: str | None) -> int:
    """Asks the command line for the same plans; its exit code."""
    lists = [models, CLUSTERS[:clusters], [str(size) for size in BATCH[:sizes]]]
    names, machines, batches = (",".join(one) for one in lists)
    command = ["plan", names, "--cluster", machines, "--batch", batches, "--engine", "processes"]
    more = [*(["--store", store] if store else []), *(["--plot", plot] if plot else [])]
    return subprocess.run([sys.executable, "-m", "lockstep", *command, *more]).returncode


def one_by_one_s(points: Sequence[dict[str, Any]]) -> float:
    """Processor seconds of plans asked one by one, each with its whole answer."""
    began_s = time.process_time()
    for point in points:
        with suppress(LockstepError):
            lockstep.plan(**point).to_dict()
    return time.process_time() - began_s


def used_s() -> float:
    """Processor seconds of this process and of those that it waited for."""
    return sum(sum(resource.getrusage(who)[:2]) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


def main() -> int:
    """Runs one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("overhead", "workers", "memory", "plans", "table"))
    for name, usual in (("batches", None), ("trials", 1_000_000), ("seeds", None), ("models", 30), ("clusters", 20),
                        ("processes", 1)):  # fmt: skip
        parser.add_argument(f"--{name}", type=int, default=usual)
    for name in ("store", "plot"):
        parser.add_argument(f"--{name}")
    parser.add_argument("--part", default="1/1", metavar="K/N")
    parser.add_argument("--sums", type=Path)
    given = parser.parse_args()
    if given.what == "overhead":
        overhead(given.batches or 100)
    elif given.what == "workers":
        workers(given.batches or 2560, given.processes)
    elif given.what == "memory":
        memory(given.trials, given.seeds)
    else:
        part, parts = map(int, given.part.split("/"))
        models, batches = MODELS[: given.models][part - 1 :: parts], given.batches or len(BATCH)
        if given.what == "table":
            return table(models, given.clusters, batches, given.store, given.plot)
        plans(models, given.clusters, batches, given.store, given.sums)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
