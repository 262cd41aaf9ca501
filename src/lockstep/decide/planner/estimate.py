"""`estimate`: one layout of a job on a cluster, with time, memory, throughput, utilisation, cost and assumptions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, field, replace
from lockstep.base.types.plain import Json, plain
from lockstep.base.types.shown import Shown
from lockstep.base.units import SECONDS_PER_DAY, format_flops, format_size, format_time
from lockstep.decide.planner.assumptions import assumptions
from lockstep.decide.planner.batches import OfBatch, shared_with_others
from lockstep.decide.planner.course import Course
from lockstep.decide.planner.from_file import imported
from lockstep.decide.planner.interval import Ends, Interval, spread_on
from lockstep.decide.planner.support import Support, support
from lockstep.decide.planner.together import Together, entry
from lockstep.decide.planner.uncounted import not_counted, said_not_counted
from lockstep.decide.planner.utilisation import Utilisation, model_flops, utilisation
from lockstep.describe.hardware import Cluster
from lockstep.price.kernels.clock import Clock
from lockstep.price.layout import Job, Layout, Memory, Recipe, check, grids_of, group_summary, memory, stage_memory
from lockstep.price.step import Step, price_step, step_timeline
from lockstep.simulate.parallel.piece import Hiding
from lockstep.simulate.program import Timeline

SECONDS_PER_HOUR = 3600.0
MOST_PASSES = 100_000
"""Forward passes of a step that is simulated for its picture: seconds of computing."""


@dataclass(frozen=True, slots=True, repr=False)
class Estimate(Shown):
    """What Lockstep predicts for one layout."""

    job: Job
    cluster: Cluster
    layout: Layout
    step: Step
    memory: Memory
    together: Together | OfBatch = field(compare=False)
    """The layouts or batches whose intervals and hidden traffic are worked out with those of this one."""

    @property
    def step_time_s(self) -> float:
        """Seconds of an optimizer step."""
        return float(self.step.step_time_s)

    @property
    def accumulation_steps(self) -> int:
        """Micro-batches of one replica in a step."""
        return int(self.layout.grid().microbatches(self.job.recipe.batch))

    @property
    def accumulation(self) -> str:
        """The same in words."""
        steps = self.accumulation_steps
        return f"{steps:,} accumulation step{'s' if steps > 1 else ''}"

    @property
    def tokens_per_s(self) -> float:
        """Tokens of all replicas per second (images for a model that reads images)."""
        return self.job.step_units / self.step_time_s

    @property
    def tokens_per_s_per_gpu(self) -> float:
        """Tokens per second and device."""
        return self.tokens_per_s / self.job.devices

    @property
    def model_flops_per_gpu_per_s(self) -> float:
        """FLOPs that the model needs, by the recipe's convention, per second and device."""
        return model_flops(self.job) / (self.step_time_s * self.job.devices)

    @property
    def utilisation(self) -> Utilisation:
        """MFU and HFU, with what they count."""
        return utilisation(self.job, self.layout, self.step_time_s, self.cluster.device)

    @property
    def mfu_frac(self) -> float:
        """Model FLOPs utilisation: of the dense peak in the recipe's format."""
        return self.utilisation.mfu_frac

    @property
    def hfu_frac(self) -> float:
        """Hardware FLOPs utilisation: what kernels execute, recomputation included, of the same peak; at most 1."""
        return self.utilisation.hfu_frac

    @property
    def bound_by(self) -> str:
        """The largest part of the step, or "host", where more of it would be saved without the host's time.

        Computing is counted without what the device waits in it until the host has launched its kernels.
        """
        parts = self.step.breakdown_s()
        parts["host"] = float(self.ends.host_frac) * self.step_time_s
        parts["compute"] -= max(0.0, parts["host"] - parts["other"])
        return max(parts, key=lambda part: parts[part])

    @property
    def ends(self) -> Ends:
        """What the interval depends on."""
        return self.together.ends[self.layout]

    @property
    def interval(self) -> Interval:
        """Between which seconds a step is expected."""
        return self.ends.interval(spread_on(self.cluster.device))

    @property
    def mfu_interval(self) -> Interval:
        """The same of the model FLOPs utilisation."""
        return self.interval.over(self.mfu_frac * self.step_time_s)

    @property
    def said_interval(self) -> str:
        """The interval of the step time in words."""
        return self.interval.said_s

    @property
    def attention_kernel(self) -> str | None:
        """The fused kernel that attention is priced by; None where attention is not fused, or the model has none."""
        recipe = self.job.recipe
        if not self.job.attends or not recipe.flash_attention:
            return None
        return Clock.of(self.cluster.device, recipe).attention[0]

    @property
    def cost_per_token(self) -> float | None:
        """Dollars per token, None where no price is known."""
        price = hourly_price_usd(self.cluster)
        return None if price is None else price * self.job.devices / SECONDS_PER_HOUR / self.tokens_per_s

    def campaign(self, aim: float | Course) -> tuple[float, float | None]:
        """(days, dollars or None) to train on so many tokens, or over a data set, without interruptions."""
        seconds = self._course_s(aim) if isinstance(aim, Course) else aim / self.tokens_per_s
        price = hourly_price_usd(self.cluster)
        cost = None if price is None else price * self.job.devices * seconds / SECONDS_PER_HOUR
        return seconds / SECONDS_PER_DAY, cost

    def _course_s(self, course: Course) -> float:
        """Seconds of all steps over a data set, each with rows of the mean length, and those that end epochs shorter.

        With pipelines a shorter step takes its share of a whole one.
        """
        steps, recipe = course.steps(self.job, self.layout), self.job.recipe
        whole_s = self._step_s(replace(recipe, seq=steps.row_tokens))
        share = steps.closing_microbatches / self.accumulation_steps
        closing_s = whole_s * share
        if steps.closing and self.layout.pp == 1:
            closing_s = self._step_s(replace(recipe, seq=steps.row_tokens, batch=round(recipe.batch * share)))
        return (steps.steps - steps.closing) * whole_s + steps.closing * closing_s

    def _step_s(self, recipe: Recipe) -> float:
        """Seconds of a step with another recipe."""
        if recipe == self.job.recipe:
            return self.step_time_s
        return estimate(replace(self.job, recipe=recipe), self.cluster, self.layout).step_time_s

    @property
    def support(self) -> Support:
        """What the answer rests on: published steps of the same device, software and format, or none."""
        return support(self.cluster.device, self.job.recipe.software, self.job.recipe.dtype)

    def assumptions(self) -> tuple[str, ...]:
        """What it takes for granted, the most important first."""
        return assumptions(self.job, self.cluster, self.layout, self.step, self.ends)

    def hiding(self) -> dict[str, Hiding]:
        """What of its traffic hides beside computing, by part, and how much more would."""
        return self.together.hiding[self.layout]

    def timeline(self, by_layer: bool = False, opened: Collection[str] = ()) -> Timeline:
        """The step simulated: one rank per pipeline stage, standing for all that do the same.

        Of the traffic `opened` (tp, cp, ep, dp) the first stage's collectives are opened into their own sends.
        Raises BadInput for a step of more than MOST_PASSES forward passes.
        """
        passes = self.layout.pp * self.accumulation_steps
        if passes > MOST_PASSES:
            raise BadInput(
                f"a step of {passes:,} forward passes, of all micro-batches on all stages, is too long to be drawn; "
                f"the most is {MOST_PASSES:,}"
            )
        return step_timeline(self.job, self.cluster, self.layout, by_layer, opened)

    def plain_value(self, name: str) -> Any:
        """One value of the plain form, without working out the others; None for a name that it does not have."""
        return PLAIN[name](self) if name in PLAIN else None

    def to_dict(self) -> Json:
        """Plain JSON form with the names of the command line."""
        said = self.job.recipe.software.said
        own: Json = {} if isinstance(said, str) else {"own_stack": said}
        return {name: read(self) for name, read in PLAIN.items()} | own | imported(self.job)

    def __str__(self) -> str:
        fits = "fits" if self.memory.fits else "does not fit"
        left_out = said_not_counted(self.job)
        return (
            f"{self.layout}: {format_time(self.step_time_s)} per step ({self.said_interval}), "
            f"{self.utilisation}, {format_flops(self.model_flops_per_gpu_per_s)} per device, "
            f"{format_size(float(self.memory.total_B))} per device ({fits}), bound by {self.bound_by}"
            + (f". {left_out}" if left_out else "")
        )


def _same(names: str) -> dict[str, Callable[[Estimate], Any]]:
    """Attributes that have the same name in the plain form."""
    return {name: partial(_attribute, name) for name in names.split()}


def _attribute(name: str, one: Estimate) -> Any:
    return plain(getattr(one, name))


PLAIN: Mapping[str, Callable[[Estimate], Any]] = {
    **_same("layout accumulation_steps step_time_s interval tokens_per_s"),
    "tokens_per_s_interval": lambda one: one.interval.over(one.job.step_units).to_dict(),
    **_same("tokens_per_s_per_gpu mfu_frac mfu_interval hfu_frac model_flops_per_gpu_per_s"),
    "stack": lambda one: one.job.recipe.software.name,
    "attention_kernel": lambda one: one.attention_kernel,
    "support": lambda one: one.support.level,
    "mfu_convention": lambda one: one.job.recipe.mfu_convention,
    "causal_mfu_frac": lambda one: one.utilisation.causal_mfu_frac,
    "attention_frac": lambda one: one.utilisation.attention_frac,
    "peak_dtype": lambda one: one.job.recipe.dtype,
    "peak_flops_per_s": lambda one: one.cluster.device.peak(one.job.recipe.dtype),
    "breakdown_s": lambda one: one.step.breakdown_s(),
    "ep_hidden_s": lambda one: float(one.step.ep_hidden_s),
    "waiting_s": lambda one: float(one.step.waiting_s),
    "hidden_s": lambda one: {part: found.hidden_s for part, found in one.hiding().items()},
    "slack_s": lambda one: {part: found.slack_s for part, found in one.hiding().items()},
    "memory": lambda one: one.memory.to_dict(),
    "bound_by": lambda one: one.bound_by,
    "cost_per_token": lambda one: one.cost_per_token,
    "groups": lambda one: group_summary(one.layout, one.cluster),
    "not_counted": lambda one: list(not_counted(one.job)),
    "assumptions": lambda one: list(one.assumptions()),
}
"""How each value of an estimate's plain form is read: intervals and hidden traffic cost as much as several steps."""


def estimate(job: Job, cluster: Cluster, layout: Layout) -> Estimate:
    """The estimate of one layout. Raises BadInput when it breaks a rule; too much memory is reported, not raised."""
    shared = shared_with_others(job, cluster, layout)
    if shared is not None:
        return Estimate(job, cluster, layout, shared.step, shared.memory, shared)
    check(layout, job)
    grid = layout.grid()
    step, held = price_step(job, cluster, grid), memory(job, cluster, grid)
    return Estimate(job, cluster, layout, step, held, Together(job, cluster, [layout]))


def estimates(job: Job, cluster: Cluster, layouts: Sequence[Layout]) -> list[Estimate]:
    """The estimates of several layouts that keep the rules, in order; those in one grid share one pass."""
    together = Together(job, cluster, layouts)
    found: dict[int, Estimate] = {}
    for places, grid in grids_of(layouts):
        step, held = price_step(job, cluster, grid), memory(job, cluster, grid)
        for at, place in enumerate(places):
            one = (step, held) if grid.shape == () else (entry(step, at, len(places)), entry(held, at, len(places)))
            found[place] = Estimate(job, cluster, layouts[place], *one, together)
    return [found[place] for place in range(len(layouts))]


def stage_memories(job: Job, cluster: Cluster, layout: Layout) -> list[Memory]:
    """Memory of one rank of every pipeline stage."""
    check(layout, job)
    grid = layout.grid()
    return [stage_memory(job, cluster, grid, stage) for stage in range(layout.pp)]


def hourly_price_usd(cluster: Cluster) -> float | None:
    """Dollars per device and hour: the cluster's own price, else its device's, else None."""
    return cluster.device.price_per_hour_usd if cluster.price_per_hour_usd is None else cluster.price_per_hour_usd
