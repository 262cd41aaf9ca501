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
from lockstep.decide.planner.doubts import doubts_on
from lockstep.decide.planner.interval import Ends, spread_on
from lockstep.describe.captured import Captured, Operation
from lockstep.describe.hardware import Cluster
from lockstep.price.kernels.captured import WITHIN, Priced, priced_calls
from lockstep.price.kernels.clock import Work
from lockstep.price.layout.captured import captured_memory
from lockstep.price.layout.memory import CATEGORIES
from lockstep.price.step.captured import StepTime, captured_time


def captured_side(captured: Captured, cluster: Cluster, title: str) -> Side:
    """The side of a step on a cluster. Raises as `captured_time` does."""
    priced, program = priced_calls(captured, cluster.device), captured.program
    time = captured_time(captured, cluster, priced)
    parts_s = captured_parts_s(captured, priced, time)
    between, spread = captured_ends(captured, cluster, priced, time), spread_on(cluster.device)
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


def captured_parts_s(captured: Captured, priced: Priced, time: StepTime) -> dict[str, float]:
    """Exposed seconds of a step by part; they add up to the step."""
    parts_s = _kernels_s(captured, priced) | {"other_comm.": time.exposed_communication_s}
    return parts_s | {"idle.host": time.step_time_s - sum(parts_s.values())}


def captured_ends(captured: Captured, cluster: Cluster, priced: Priced, time: StepTime) -> Ends:
    """What the interval of a step depends on. Raises as `captured_time` does."""
    step_s, host_s = time.step_time_s, captured_parts_s(captured, priced, time)["idle.host"]
    slow_s, fast_s = (
        step_s if one is cluster or not time.communication_s else captured_time(captured, one, priced).step_time_s
        for one in cluster.links_range
    )
    return Ends(step_s, slow_s, fast_s, max(0.0, host_s) / step_s, doubts_on(cluster.device))


def _kernels_s(captured: Captured, priced: Priced) -> dict[str, float]:
    """Seconds of kernels by part."""
    found: dict[str, float] = {}
    for one, work in zip(captured.operations, priced.works, strict=True):
        for name, seconds in _parts(one, work):
            found[name] = found.get(name, 0.0) + float(seconds)
    return found


def _parts(one: Operation, work: Work) -> list[tuple[str, float]]:
    """What a call adds to which part."""
    if one.phase in ("optimizer", "recompute"):
        return [(one.phase, float(work.device_s))]
    kinds = {"compute.matmul": work.matmul_s, "compute.attention": work.attention_s, "compute.stream": work.stream_s}
    return [(name, float(seconds)) for name, seconds in kinds.items()]
