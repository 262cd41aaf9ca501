"""`plan`: the best layouts of a job on a cluster, the Pareto front, and why the others were not chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from math import inf

from lockstep.base.errors import BadInput, Infeasible, Violation
from lockstep.base.records import dataclass, replace
from lockstep.base.types.progress import Progress
from lockstep.base.units import format_frac, format_size
from lockstep.decide.planner.alike import TOGETHER
from lockstep.decide.planner.course import Course
from lockstep.decide.planner.estimate import Estimate, estimates
from lockstep.decide.planner.goal import Goal, check_tokens
from lockstep.decide.planner.interval import Ends
from lockstep.decide.planner.neighbours import NEAR_FRAC, Neighbour, narrowed, neighbours
from lockstep.decide.planner.pins import FREE, Pins
from lockstep.decide.planner.result import Plan
from lockstep.decide.planner.robust import robust_among, robust_order
from lockstep.decide.planner.search import HOST_MEMORY, MEMORY, Findings, Miss, Scored, Takes, search, searches
from lockstep.decide.planner.software import Software
from lockstep.decide.planner.space import Space
from lockstep.decide.planner.together import Together
from lockstep.describe.hardware import Cluster
from lockstep.describe.workload import Model
from lockstep.price.layout import OFFLOAD, OFFLOAD_OPTIMIZER, Job, Layout, Recipe, host_capacity_B, is_safe


def plan(
    model: Model,
    cluster: Cluster,
    recipe: Recipe,
    *,
    tokens: float | None = None,
    course: Course | None = None,
    deadline_s: float | None = None,
    objective: str = "time",
    top: int = 5,
    pins: Pins = FREE,
    software: Software | None = None,
    space: Space | None = None,
    prune: bool = True,
    progress: Progress | None = None,
    batch_frac: float = NEAR_FRAC,
) -> Plan:
    """The best layouts of `model` on `cluster`.

    Args: `tokens` to train on, for days and dollars, or `course`, passes over a data set; `deadline_s` with either
    finds the fewest devices, up to the cluster's, that finish in time; `objective` "time" uses the whole cluster,
    "robust" too, and takes of the layouts that are nearly as fast the one that loses least when links and software are
    slow (`robust.py`), "cost" also looks at parts of it and takes the cheapest per token; `top` layouts are returned;
    `pins` are decided already; `software` is what must be able to run them; `space` replaces that of the pins. Ctrl-C
    gives the best of what has been searched; `batch_frac` how far off a batch is still a neighbour (`neighbours.py`), 0
    where an error is to name none.
    Raises BadInput, and Infeasible with every violated constraint when no layout is possible.
    """
    if course is not None:
        recipe, tokens = course.recipe(recipe), course.tokens(recipe)
    goal = Goal(objective, tokens, deadline_s, course)
    if tokens is not None and course is None:
        check_tokens(tokens, Job(model, recipe, cluster.num_devices).step_units)
    goal.check(cluster)
    asked = _Asked(goal, pins, software, space, prune, top, progress, batch_frac)
    try:
        found = _preferred(goal, model, recipe, cluster, asked.searched)
    except Infeasible as error:
        if (
            not goal.alone
            or not batch_frac
            or not (beside := asked.beside(Job(model, recipe, cluster.num_devices), cluster, None))
        ):
            raise
        raise Infeasible(f"{error}; {'; '.join(map(str, beside))}", error.violations) from error
    if found.findings.complete:
        found = replace(found, find_neighbours=cache(partial(asked.beside, found.job, found.cluster, found.best)))
    return replace(found, software=software)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is wanted of any job that a plan searches."""

    goal: Goal
    pins: Pins
    software: Software | None
    space: Space | None
    prune: bool
    top: int
    progress: Progress | None
    batch_frac: float

    def space_of(self, job: Job, part: Cluster) -> Space:
        """The layouts to search."""
        wanted = self.space or self.pins.space(job, part.devices_per_unit(0))
        return wanted if self.software is None else self.software.narrowed(wanted)

    def takes_of(self, job: Job) -> Takes | None:
        """What the software is able to run; None where no software is selected."""
        if self.software is None:
            return None
        self.software.check(job)
        return self.software.takes(job)

    def searched(self, job: Job, part: Cluster) -> Findings:
        """What a search of all layouts finds."""
        together, takes = TOGETHER.get(), self.takes_of(job)
        found = None
        if together is not None and self.prune:
            found = together.find(job, part, self.space_of, self.takes_of, self.top)
        if found is None:
            space, top, prune = self.space_of(job, part), self.top, self.prune
            also_B = None if self.software is None else self.software.also_B(job)
            found = search(job, part, space, top=top, prune=prune, progress=self.progress, takes=takes, also_B=also_B)
        if self.software is not None and found.refused is not None and not found.best:
            raise self.software.nothing(job, found.refused.layout)
        return found

    def quickly(self, jobs: Sequence[Job], part: Cluster) -> list[float]:
        """Seconds of the fastest layout in a part of the space (`neighbours.StepTimes`). Passes on a Ctrl-C."""
        try:
            spaces = [narrowed(self.space_of(job, part)) for job in jobs]
            cuts = [space.micro_batch for space in spaces]
            whole, *others = (replace(space, micro_batch=tuple(sorted(set().union(*cuts)))) for space in spaces)
            if not others or (not whole.split and all(one == whole for one in others)):
                takes = [self.takes_of(job) for job in jobs]
                several = searches(jobs, part, whole, takes, top=1, cuts=cuts)
                if not all(found.complete for found in several):
                    raise KeyboardInterrupt
                return [next((one.step_time_s for one in found.best), inf) for found in several]
        except (BadInput, Infeasible):
            if len(jobs) == 1:
                return [inf]
        return [self.quickly([job], part)[0] for job in jobs]

    def planned(self, job: Job, part: Cluster) -> Estimate:
        """The best layout by the same goal on all devices. Raises Infeasible, and passes on a Ctrl-C."""
        goal, found = self.goal if self.goal.alone else Goal("time"), self.searched(job, part)
        if not found.complete:
            raise KeyboardInterrupt
        return _plan_on(job, part, goal, found).best

    def beside(self, job: Job, part: Cluster, best: Estimate | None) -> tuple[Neighbour, ...]:
        """The questions close to the one answered by `best` that have a much better answer."""
        token = TOGETHER.set(None)
        try:
            quiet = replace(self, progress=None)
            return neighbours(job, part, best, self.batch_frac, self.goal.alone, quiet.quickly, quiet.planned)
        finally:
            TOGETHER.reset(token)


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
        near = robust_among(found)
        ends = Together(job, cluster, [one.layout for one in (*near, *best)], found.find_ends()).ends
        first = robust_order(cluster, near, ends)
        best = [*first, *(one for one in best if one not in first)][: len(best)]
    layouts = [one.layout for one in best]
    together = Together(job, cluster, layouts, ends)
    plans = tuple(replace(one, together=together) for one in estimates(job, cluster, layouts))
    front = cache(partial(_estimates_of, job, cluster, found.front))
    if goal.course is not None and goal.course.pads:
        plans = _soonest(goal.course, (*plans, *front()))[: len(plans)]
    return Plan(job, cluster, goal.objective, plans, found, goal.tokens, goal.course, find_front=front)


def _soonest(course: Course, among: Sequence[Estimate]) -> tuple[Estimate, ...]:
    """The layouts in the order of their time for a data set; those with memory to spare first."""
    each = {one.layout: one for one in among}.values()
    safe = {one.layout: is_safe(float(one.memory.total_B), one.memory.capacity_B) for one in each}
    return tuple(sorted(each, key=lambda one: (not safe[one.layout], one.campaign(course)[0])))


def _estimates_of(job: Job, cluster: Cluster, scored: Sequence[Scored]) -> tuple[Estimate, ...]:
    """The estimates of layouts that a search has found."""
    return tuple(estimates(job, cluster, [one.layout for one in scored]))


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
    capacity_B, share = cluster.device.memory_B, found.space.memory_frac
    left_of = "" if share == 1 else f" that --oom-risk leaves of {format_size(capacity_B)}"
    capacity_B = share * capacity_B
    violations = [
        Violation(MEMORY, miss.memory_B - capacity_B, capacity_B),
        *(v for v in violations if v.why != MEMORY),
    ]
    return Infeasible(
        f"{job.model.name} does not fit on {job.devices} x {cluster.device.name}: the smallest layout ({miss.layout}) "
        f"needs {format_size(miss.memory_B)} of {format_size(capacity_B)}{left_of}, "
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
