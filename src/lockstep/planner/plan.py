"""`plan`: the best layouts of a job on a cluster, the Pareto front, and why the others were not chosen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lockstep.errors import Infeasible, Violation
from lockstep.hardware import Cluster
from lockstep.layout import OFFLOAD, OFFLOAD_OPTIMIZER, Job, Layout, Recipe, host_capacity_B
from lockstep.planner.alike import TOGETHER
from lockstep.planner.estimate import estimates
from lockstep.planner.goal import Goal, check_tokens
from lockstep.planner.interval import Ends
from lockstep.planner.pins import FREE, Pins
from lockstep.planner.result import Plan
from lockstep.planner.robust import robust_order
from lockstep.planner.search import HOST_MEMORY, MEMORY, Findings, Miss, Progress, Takes, search
from lockstep.planner.software import Software
from lockstep.planner.space import Space
from lockstep.planner.together import Together
from lockstep.units import format_frac, format_size
from lockstep.workload import Model


def plan(
    model: Model,
    cluster: Cluster,
    recipe: Recipe,
    *,
    tokens: float | None = None,
    deadline_s: float | None = None,
    objective: str = "time",
    top: int = 5,
    pins: Pins = FREE,
    software: Software | None = None,
    space: Space | None = None,
    prune: bool = True,
    progress: Progress | None = None,
) -> Plan:
    """The best layouts of `model` on `cluster`.

    Args: `tokens` to train on, for days and dollars; `deadline_s` with `tokens` finds the fewest devices, up to the
    cluster's, that finish in time; `objective` "time" uses the whole cluster, "robust" too, and takes of the layouts
    that are nearly as fast the one that loses least when links and software are slow (`robust.py`), "cost" also looks
    at parts of it and takes the cheapest per token; `top` layouts are returned; `pins` are decided already;
    `software` is what must be able to run them; `space` replaces that of the pins. Ctrl-C gives the
    best of what has been searched.
    Raises BadInput, and Infeasible with every violated constraint when no layout is possible.
    """
    goal = Goal(objective, tokens, deadline_s)
    if tokens is not None:
        check_tokens(tokens, Job(model, recipe, cluster.num_devices).step_units)
    goal.check(cluster)

    def space_of(job: Job, part: Cluster) -> Space:
        wanted = space or pins.space(job, part.devices_per_unit(0))
        return wanted if software is None else software.narrowed(wanted)

    def takes_of(job: Job) -> Takes | None:
        if software is None:
            return None
        software.check(job)
        return software.takes(job)

    def searched(job: Job, part: Cluster) -> Findings:
        together, takes = TOGETHER.get(), takes_of(job)
        found = together.find(job, part, space_of, takes_of, top) if together is not None and prune else None
        if found is None:
            found = search(job, part, space_of(job, part), top=top, prune=prune, progress=progress, takes=takes)
        if software is not None and found.refused is not None and not found.best:
            raise software.nothing(job, found.refused.layout)
        return found

    return replace(_preferred(goal, model, recipe, cluster, searched), software=software)


def _preferred(
    goal: Goal, model: Model, recipe: Recipe, cluster: Cluster, searched: Callable[[Job, Cluster], Findings]
) -> Plan:
    """The plan that `goal` prefers of the sizes that it looks at. Raises Infeasible with why there is none."""
    chosen: Plan | None = None
    failure: Infeasible | None = None
    planned_s: list[float] = []
    complete = True
    for devices in goal.sizes(cluster):
        job, part = Job(model, recipe, devices), cluster.resized(devices)
        if goal.hopeless(job, part):
            continue
        try:
            found = _plan_on(job, part, goal, searched(job, part))
        except Infeasible as error:
            failure = error
            continue
        except KeyboardInterrupt:
            complete = False
            break
        complete = found.findings.complete
        planned_s.append(goal.planned_s(found))
        if goal.prefers(found, chosen):
            chosen = found
        if not complete or goal.reached(found):
            break
    if chosen is None:
        if not complete:
            raise KeyboardInterrupt
        missed = goal.missed(Job(model, recipe, cluster.num_devices), cluster, min(planned_s, default=None))
        raise missed if planned_s or failure is None else failure
    chosen.findings.complete = complete
    return chosen


def _plan_on(job: Job, cluster: Cluster, goal: Goal, found: Findings) -> Plan:
    """The plan on all devices of `cluster` from what a search has found. Raises Infeasible when that is nothing."""
    if not found.best and not found.complete:
        raise KeyboardInterrupt
    if not found.best:
        raise _nothing_fits(job, cluster, found)
    best, ends = found.best, dict[Layout, Ends]()
    if goal.objective == "robust":
        ends = Together(job, cluster, [one.layout for one in (*found.near, *best)]).ends
        first = robust_order(cluster, found.near, ends)
        best = [*first, *(one for one in best if one not in first)][: len(best)]
    every = estimates(job, cluster, [one.layout for one in (*best, *found.front)])
    together = Together(job, cluster, [one.layout for one in best], ends)
    plans = tuple(replace(one, together=together) for one in every[: len(best)])
    return Plan(job, cluster, goal.objective, plans, tuple(every[len(best) :]), found, goal.tokens)


def _nothing_fits(job: Job, cluster: Cluster, found: Findings) -> Infeasible:
    """Why there is no layout: every constraint that rejected some, with the margin of the nearest miss."""
    violations = [Violation(why, float(count), 0.0) for why, count in sorted(found.rejected.items())]
    miss = found.nearest_miss
    if found.host_miss is not None:
        return _host_full(job, cluster, found.host_miss, violations)
    if miss is None:
        return Infeasible(
            f"no layout of {job.model.name} on {job.devices} devices keeps the rules; most are rejected by: "
            + (max(found.rejected, key=lambda why: found.rejected[why]) if found.rejected else "nothing"),
            violations,
        )
    capacity_B = cluster.device.memory_B
    violations = [
        Violation(MEMORY, miss.memory_B - capacity_B, capacity_B),
        *(v for v in violations if v.why != MEMORY),
    ]
    return Infeasible(
        f"{job.model.name} does not fit on {job.devices} x {cluster.device.name}: the smallest layout ({miss.layout}) "
        f"needs {format_size(miss.memory_B)} of {format_size(capacity_B)}, "
        f"{format_frac(violations[0].margin_frac)} too much; "
        f"try {_levers(miss.layout.offload)}",
        violations,
    )


def _levers(offload: str) -> str:
    """What makes more layouts fit, without what is on already."""
    further = OFFLOAD[max(OFFLOAD_OPTIMIZER, OFFLOAD.index(offload) + 1) :]
    if not further:
        return "more devices, or a device with more memory"
    return f"more devices, a device with more memory, or --offload {further[0]}"


def _host_full(job: Job, cluster: Cluster, miss: Miss, violations: list[Violation]) -> Infeasible:
    """Why no layout that fits on the devices is possible: its offloaded states exceed the hosts' memory."""
    devices = cluster.devices_per_host
    smaller = "an optimizer with smaller states" if miss.layout.offload != "none" else "fewer --offload-layers"
    needed_B, capacity_B = devices * miss.memory_B, devices * host_capacity_B(cluster)
    return Infeasible(
        f"{job.model.name} does not fit on {job.devices} x {cluster.device.name} with offloading: {miss.layout} keeps "
        f"{format_size(needed_B)} in the memory of each host, which has {format_size(capacity_B)} for it; "
        f"try more hosts, more host memory, or {smaller}",
        [
            Violation(HOST_MEMORY, needed_B - capacity_B, capacity_B),
            *(one for one in violations if one.why != HOST_MEMORY),
        ],
    )
