"""`plan`: the best layouts of a job on a cluster, the Pareto front, and why the others were not chosen."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lockstep.errors import BadInput, Infeasible, UnknownName, Violation
from lockstep.hardware import Cluster
from lockstep.layout import OFFLOAD, Job, Recipe
from lockstep.plan.assumptions import assumptions
from lockstep.plan.estimate import SECONDS_PER_DAY, Estimate, estimates, hourly_price_usd, model_flops
from lockstep.plan.search import MEMORY, Findings, search
from lockstep.plan.space import Space, default_space
from lockstep.units import format_count, format_frac, format_money, format_size, format_time
from lockstep.workload import Model

OBJECTIVES = ("time", "cost")
Progress = Callable[[int, int], None]


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer to "how should this be trained": estimates of the best layouts, best first."""

    job: Job
    cluster: Cluster
    objective: str
    plans: tuple[Estimate, ...]
    front: tuple[Estimate, ...]
    """Layouts that no other beats in step time, memory and cost together."""
    findings: Findings
    elapsed_s: float
    tokens: float | None = None

    @property
    def best(self) -> Estimate:
        """The best layout."""
        return self.plans[0]

    @property
    def rejected(self) -> list[dict[str, Any]]:
        """How many layouts each constraint rejected, most first."""
        counts = sorted(self.findings.rejected.items(), key=lambda item: (-item[1], item[0]))
        return [{"why": why, "count": count} | self._nearest(why) for why, count in counts]

    def _nearest(self, why: str) -> dict[str, Any]:
        """The nearest miss of the memory constraint: how far over, and which layout."""
        miss = self.findings.nearest_miss
        if why != MEMORY or miss is None:
            return {}
        excess_B = miss.memory_B - self.cluster.device.memory_B
        margin_frac = excess_B / self.cluster.device.memory_B
        return {"nearest": {"layout": str(miss.layout), "excess_B": excess_B, "margin_frac": margin_frac}}

    def verdict(self) -> str:
        """The answer in words."""
        best, job = self.best, self.job
        spread = format_frac(best.mfu_frac * best.uncertainty_frac, 2)
        parts = [
            f"{job.model.name} on {job.devices} x {self.cluster.device.name}: {best.layout}",
            f"{format_time(best.step_time_s)} per step of {format_count(job.recipe.batch_tokens)} tokens, "
            f"{format_count(best.tokens_per_s)} tokens/s, {format_frac(best.mfu_frac)} MFU ± {spread}",
            f"{format_size(float(best.memory.total_B))} of {format_size(best.memory.capacity_B)} per device, "
            f"bound by {best.step.bound_by}",
        ]
        if self.tokens is not None:
            days, dollars = best.campaign(self.tokens)
            cost = "price unknown" if dollars is None else format_money(dollars)
            parts.append(f"{format_count(self.tokens)} tokens: {format_time(days * SECONDS_PER_DAY)}, {cost}")
        return "; ".join(parts)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON form in the words of the command line."""
        on_front = {id(one.layout) for one in self.front} | {one.layout for one in self.front}
        plans = [one.to_dict() | _summary(one, one.layout in on_front) for one in self.plans]
        answer: dict[str, Any] = {
            "verdict": self.verdict(),
            "model": self.job.model.name,
            "cluster": self.cluster.name,
            "gpus": self.job.devices,
            "objective": self.objective,
            "plans": plans,
            "front": [{"layout": one.layout.to_dict()} | _summary(one, True) for one in self.front],
            "evaluated": self.findings.evaluated,
            "feasible": self.findings.feasible,
            "complete": self.findings.complete,
            "elapsed_s": self.elapsed_s,
            "rejected": self.rejected,
            "assumptions": list(assumptions(self.job, self.cluster)),
        }
        if self.tokens is not None:
            days, dollars = self.best.campaign(self.tokens)
            answer |= {"tokens": self.tokens, "days": days, "cost": dollars}
        return answer


def _summary(one: Estimate, pareto: bool) -> dict[str, Any]:
    """The numbers by which layouts are compared."""
    return {
        "step_time_s": one.step_time_s,
        "tokens_per_s": one.tokens_per_s,
        "mfu_frac": one.mfu_frac,
        "memory_B": float(one.memory.total_B),
        "memory_frac": float(one.memory.used_frac),
        "bound_by": one.step.bound_by,
        "cost_per_token": one.cost_per_token,
        "pareto": pareto,
    }


def plan(
    model: Model,
    cluster: Cluster,
    recipe: Recipe,
    *,
    tokens: float | None = None,
    deadline_s: float | None = None,
    objective: str = "time",
    top: int = 5,
    offload: str = "none",
    space: Space | None = None,
    prune: bool = True,
    progress: Progress | None = None,
) -> Plan:
    """The best layouts of `model` on `cluster`.

    Args: `tokens` to train on, for days and dollars; `deadline_s` with `tokens` finds the fewest devices, up to the
    cluster's, that finish in time; `objective` "time" uses the whole cluster, "cost" also looks at parts of it and
    takes the cheapest per token; `top` layouts are returned; `offload` holds for all layouts (none, optimizer,
    parameters); `space` replaces the default one. Ctrl-C gives the best of what has been searched.
    Raises BadInput, and Infeasible with every violated constraint when no layout is possible.
    """
    if objective not in OBJECTIVES:
        raise BadInput(f"objective must be one of {', '.join(OBJECTIVES)}, got {objective!r}", "--objective")
    if offload not in OFFLOAD:
        raise UnknownName("offload", offload, OFFLOAD, "--offload")
    if objective == "cost" and hourly_price_usd(cluster) is None:
        raise BadInput(f"no price is known for {cluster.name}; give price_per_hour in a YAML cluster", "--objective")
    if deadline_s is not None and tokens is None:
        raise BadInput("a deadline needs --tokens", "--deadline")
    started = time.perf_counter()
    if objective == "time" and deadline_s is None:
        sizes = [cluster.num_devices]
    else:
        sizes = device_counts(cluster)
    chosen: Plan | None = None
    misses: list[Infeasible] = []
    complete = True
    for devices in sizes:
        if (
            deadline_s is not None
            and tokens is not None
            and _too_few(model, cluster, recipe, tokens, deadline_s, devices)
        ):
            continue
        part = cluster.resized(devices)
        job = Job(model, recipe, devices)
        try:
            chosen_space = space or default_space(job, part.devices_per_unit(0), OFFLOAD.index(offload))
            found = _plan_on(job, part, objective, tokens, top, chosen_space, prune, progress)
        except Infeasible as error:
            misses.append(error)
            continue
        except KeyboardInterrupt:
            complete = False
            break
        complete = found.findings.complete
        if deadline_s is not None and tokens is not None:
            if found.best.campaign(tokens)[0] * SECONDS_PER_DAY <= deadline_s:
                chosen = found
                break
        elif chosen is None or (found.best.cost_per_token or 0.0) < (chosen.best.cost_per_token or 0.0):
            chosen = found
        if not complete:
            break
    if chosen is None and not complete:
        raise KeyboardInterrupt
    if chosen is None:
        raise misses[-1] if misses else _late(cluster, deadline_s or 0.0)
    chosen.findings.complete = complete
    return _timed(chosen, time.perf_counter() - started)


def device_counts(cluster: Cluster) -> list[int]:
    """Device counts to try when fewer than all may do, ascending: parts of a node, then 1, 2, 3, 4, 6, 8, ... nodes."""
    whole = cluster.num_devices
    node = min(cluster.devices_per_unit(0), whole)
    nodes = sorted({factor * 2**power for factor in (1, 3) for power in range(whole.bit_length())})
    inside = [d for d in (1, 2, 4) if d < node and node % d == 0]
    outside = [n * node for n in nodes if n * node < whole and whole % node == 0]
    return [*inside, *(d for d in outside if _fills(cluster, d)), whole]


def _fills(cluster: Cluster, devices: int) -> bool:
    """Whether so many devices fill whole units of every level."""
    try:
        cluster.resized(devices)
    except BadInput:
        return False
    return True


def _too_few(model: Model, cluster: Cluster, recipe: Recipe, tokens: float, deadline_s: float, devices: int) -> bool:
    """Whether even the full peak rate misses the deadline on so many devices: no layout can be faster."""
    peak = cluster.device.peak(recipe.dtype) * cluster.device.efficiency.matmul_max_frac
    flops = model_flops(Job(model, recipe, devices)) * tokens / recipe.batch_tokens
    return flops / 2.0 / (devices * max(peak, cluster.device.peak(recipe.dtype))) > deadline_s


def _late(cluster: Cluster, deadline_s: float) -> Infeasible:
    return Infeasible(
        f"no layout on up to {cluster.num_devices} devices finishes within {format_time(deadline_s)}; try more devices",
        [Violation("deadline", 1.0, deadline_s)],
    )


def _plan_on(
    job: Job,
    cluster: Cluster,
    objective: str,
    tokens: float | None,
    top: int,
    space: Space,
    prune: bool,
    progress: Progress | None,
) -> Plan:
    """The plan on all devices of `cluster`."""
    found = search(job, cluster, space, top=top, prune=prune, progress=progress)
    if not found.best and not found.complete:
        raise KeyboardInterrupt
    if not found.best:
        raise _nothing_fits(job, cluster, found)
    scored = [*found.best, *found.front]
    every = estimates(job, cluster, [one.layout for one in scored])
    plans, front = tuple(every[: len(found.best)]), tuple(every[len(found.best) :])
    return Plan(job, cluster, objective, plans, front, found, 0.0, tokens)


def _timed(found: Plan, elapsed_s: float) -> Plan:
    return Plan(
        found.job, found.cluster, found.objective, found.plans, found.front, found.findings, elapsed_s, found.tokens
    )


def _nothing_fits(job: Job, cluster: Cluster, found: Findings) -> Infeasible:
    """Why there is no layout: every constraint that rejected some, with the margin of the nearest miss."""
    violations = [Violation(why, float(count), 0.0) for why, count in sorted(found.rejected.items())]
    miss = found.nearest_miss
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
        "try more devices, a device with more memory, or --offload optimizer",
        violations,
    )
