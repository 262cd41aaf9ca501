"""How many operations per second the engine simulates, beside SimPy on the same task graphs in the same run.

    python benchmarks/engine.py [--large]

Columns: `build` makes and checks the program (sends matched, no circle) and its task graph, once per program; `first`
is the first simulation; the second one finds the levels of wide graphs, and `again` is the median of five after that;
`64 draws` counts operations x draws with random times (drawing them included). SimPy runs the same fused task graph,
one process per node, on the smaller cases only. --large adds 10^7 operations and prints the peak memory.
"""

from __future__ import annotations

import argparse
import gc
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from lockstep.simulate.play import LogNormal, Noise, durations_s, makespans_s, simulate
from lockstep.simulate.program import Kind, Program, ProgramBuilder


@dataclass(frozen=True)
class Postal:
    """Link of the benchmark: 10 us, 25 GB/s, reductions at 1 TB/s."""

    latency_s: float = 1e-5
    bandwidth_Bps: float = 25e9
    reduce_s_per_B: float = 1e-12


def ring_all_reduce(ranks: int, size_B: float = 1e9, rounds: int | None = None) -> Program:
    """Ring all-reduce: 2 (n - 1) rounds of send, receive and (first half) reduce on every rank."""
    builder = ProgramBuilder(ranks)
    rank = np.arange(ranks)
    ready = np.full(ranks, -1)
    part_B = size_B / ranks
    for step in range(2 * (ranks - 1) if rounds is None else rounds):
        builder.extend(Kind.SEND, rank, peer=(rank + 1) % ranks, size_B=part_B, after=ready)
        ready = builder.extend(Kind.RECV, rank, peer=(rank - 1) % ranks, size_B=part_B)
        if step < ranks - 1:
            ready = builder.extend(Kind.REDUCE, rank, size_B=part_B, after=ready)
    return builder.build()


def one_f_one_b(stages: int, microbatches: int) -> Program:
    """1F1B pipeline, every stage written out in its own order (so that ids are not in topological order)."""
    builder = ProgramBuilder(stages)
    for stage in range(stages):
        warmup = min(microbatches, stages - stage)
        order = [("F", i) for i in range(warmup)]
        for i in range(microbatches):
            order += [("B", i)] + ([("F", warmup + i)] if warmup + i < microbatches else [])
        for name, _ in order:
            source, target = (stage - 1, stage + 1) if name == "F" else (stage + 1, stage - 1)
            tag = int(name == "B")
            got = (builder.recv(stage, source, 1e7, tag=tag),) if 0 <= source < stages else ()
            done = builder.compute(stage, 1e-3 if name == "F" else 2e-3, label=name, after=got)
            if 0 <= target < stages:
                builder.send(stage, target, 1e7, tag=tag, after=done)
    return builder.build()


def random_graph(operations: int, ranks: int, fan_in: int = 3, window: int = 4000, seed: int = 0) -> Program:
    """Random computations on random ranks, each after up to `fan_in` of the `window` operations before it."""
    generator = np.random.default_rng(seed)
    builder = ProgramBuilder(ranks)
    ids = np.arange(operations)
    back = generator.integers(1, window, (operations, fan_in))
    after = np.where(back <= ids[:, np.newaxis], ids[:, np.newaxis] - back, -1)
    rank = generator.integers(0, ranks, operations)
    builder.extend(Kind.COMPUTE, rank, duration_s=generator.exponential(1e-3, operations), after=after)
    return builder.build()


def simpy_makespan_s(program: Program, time_s: np.ndarray) -> float:
    """The same task graph on SimPy: one process per node that waits for its predecessors and then for its time."""
    import simpy

    graph = program.graph
    duration = np.zeros(graph.num_nodes)
    duration[graph.node] = time_s
    previous = [sorted({p for p in row if p}) for row in np.stack(graph.before, axis=1).tolist()]
    environment = simpy.Environment()
    nodes: list[simpy.Process | None] = [None] * graph.num_nodes

    def work(before: list[int], seconds: float):  # type: ignore[no-untyped-def]
        for u in before:
            if not nodes[u].processed:
                yield nodes[u]
        yield environment.timeout(seconds)

    for v in range(graph.num_nodes):
        nodes[v] = environment.process(work(previous[v], float(duration[v])))
    environment.run()
    return float(environment.now)


def timed(action: Callable[[], object]) -> tuple[float, object]:
    """(seconds, result) of one call."""
    gc.collect()
    begin = time.perf_counter()
    result = action()
    return time.perf_counter() - begin, result


def measure(name: str, make: Callable[[], Program], simpy_too: bool, draws: int = 64) -> None:
    """Prints one row of the table."""
    link = Postal()
    build_s, program = timed(make)
    assert isinstance(program, Program)
    number = len(program)
    first_s, timeline = timed(lambda: simulate(program, link))
    simulate(program, link)
    again_s = statistics.median(timed(lambda: simulate(program, link))[0] for _ in range(5))
    cells = [f"{name:<34}{number:>11,}{program.graph.depth:>9,}", f"{number / build_s / 1e6:>8.2f}"]
    cells += [f"{number / seconds / 1e6:>8.2f}" for seconds in (first_s, again_s)]
    time_s = durations_s(program, link)
    if draws:
        noise = Noise(per_operation=LogNormal(1.0, 0.2))
        draws_s, _ = timed(lambda: makespans_s(program, time_s, noise, draws, seed=0))
        cells.append(f"{number * draws / draws_s / 1e6:>10.1f}")
    else:
        cells.append(f"{'':>10}")
    if simpy_too:
        simpy_s, makespan_s = timed(lambda: simpy_makespan_s(program, time_s))
        agree = abs(makespan_s / timeline.makespan_s - 1) < 1e-9  # type: ignore[attr-defined, operator]
        cells.append(f"{number / simpy_s / 1e6:>8.3f}{simpy_s / first_s:>8.0f}x{simpy_s / again_s:>8.0f}x  {agree}")
    print("".join(cells), flush=True)


def main() -> None:
    """Runs all cases."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--large", action="store_true", help="also 10^7 operations")
    large = parser.parse_args().large
    print("million operations per second, one core; the last columns are SimPy, its ratio, and whether results agree")
    print(f"{'':<34}{'operations':>11}{'levels':>9}{'build':>8}{'first':>8}{'again':>8}{'64 draws':>10}{'SimPy':>8}"
          f"{'first':>9}{'again':>9}  same")  # fmt: skip
    measure("ring all-reduce, 256 ranks", lambda: ring_all_reduce(256), True)
    measure("ring all-reduce, 1024 ranks", lambda: ring_all_reduce(1024), False, draws=0)
    measure("ring all-reduce, 4 ranks x 20,000", lambda: ring_all_reduce(4, rounds=20_000), True)
    measure("1F1B, 64 stages, 512 micro-batches", lambda: one_f_one_b(64, 512), True)
    measure("1F1B, 8 stages, 4096 micro-batches", lambda: one_f_one_b(8, 4096), True)
    measure("random graph, 512 ranks", lambda: random_graph(200_000, 512), True)
    measure("random graph, 8 ranks (thin)", lambda: random_graph(200_000, 8), True)
    measure("one chain of computations", lambda: random_graph(200_000, 1, fan_in=1), True)
    if large:
        measure("ring all-reduce, 1300 ranks", lambda: ring_all_reduce(1300, rounds=3200), False, draws=0)
        peak_GiB = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        print(f"peak memory of the process: {peak_GiB:.2f} GiB")


if __name__ == "__main__":
    main()
