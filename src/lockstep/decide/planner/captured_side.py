"""A captured step as a side of a comparison: where its time goes, by the words of a diagnosis.

    kernels        seconds of products, attention and the rest, forward and backward; recomputation; the update
    collectives    their seconds while no kernel runs
    host           what is left of the step: the device waits for launches

Of kernels of several streams at once the sum is said, and what they have in common is taken off the host's part.
The interval is that of an estimate (`interval.py`) with this device, these links and this share of the host.
"""

from __future__ import annotations

import math

from lockstep.decide.planner.comparison import STEPS, Side
from lockstep.decide.planner.interval import Ends, spread_on
from lockstep.describe.captured import Captured, Operation
from lockstep.describe.hardware import Cluster
from lockstep.price.kernels.captured import WITHIN, priced_calls
from lockstep.price.kernels.clock import Work
from lockstep.price.layout.captured import captured_memory
from lockstep.price.layout.memory import CATEGORIES
from lockstep.price.step.captured import captured_time


def captured_side(captured: Captured, cluster: Cluster, title: str) -> Side:
    """The side of a step on a cluster. Raises as `captured_time` does."""
    time, program = captured_time(captured, cluster), captured.program
    parts_s = _kernels_s(captured, cluster) | {"other_comm.": time.exposed_communication_s}
    parts_s["idle.host"] = time.step_time_s - sum(parts_s.values())
    between, spread = _ends(captured, cluster, time.step_time_s, parts_s["idle.host"]), spread_on(cluster.device)
    memory = captured_memory(captured, cluster)
    names = "script parameters trained_parameters ranks rank torch"
    return Side(
        title,
        parts_s,
        units=1.0,
        unit=STEPS,
        devices=captured.ranks,
        below=float(between.below(spread)),
        above=float(between.above(spread)),
        links=(math.log(between.slow_s / between.step_time_s), math.log(between.fast_s / between.step_time_s)),
        common=(cluster.device, "captured"),
        settings={
            "arguments": " ".join(program["arguments"]),
            "cluster": cluster.name,
            **{name: program[name] for name in names.split()},
            "FLOPs": captured.flops,
        },
        memory_B={name.removesuffix("_B"): float(getattr(memory, name)) for name in CATEGORIES},
        capacity_B=float(memory.capacity_B),
        assumptions=(f"of eager kernels: 35 steps measured on one H100 are off by {WITHIN}",),
    )


def _ends(captured: Captured, cluster: Cluster, step_s: float, host_s: float) -> Ends:
    """What the interval depends on."""
    slow_s, fast_s = (
        step_s if one is cluster else captured_time(captured, one).step_time_s for one in cluster.links_range
    )
    error_frac = cluster.device.efficiency.error_frac_on(cluster.device.name)
    return Ends(step_s, slow_s, fast_s, max(0.0, host_s) / step_s, error_frac)


def _kernels_s(captured: Captured, cluster: Cluster) -> dict[str, float]:
    """Seconds of kernels by part."""
    found: dict[str, float] = {}
    for one, work in zip(captured.operations, priced_calls(captured, cluster.device).works, strict=True):
        for name, seconds in _parts(one, work):
            found[name] = found.get(name, 0.0) + float(seconds)
    return found


def _parts(one: Operation, work: Work) -> list[tuple[str, float]]:
    """What a call adds to which part."""
    if one.phase in ("optimizer", "recompute"):
        return [(one.phase, float(work.device_s))]
    kinds = {"compute.matmul": work.matmul_s, "compute.attention": work.attention_s, "compute.stream": work.stream_s}
    return [(name, float(seconds)) for name, seconds in kinds.items()]
