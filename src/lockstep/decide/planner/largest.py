"""`trainable`: of every family of models the largest that a machine trains, by each method, and what the next needs.

A model is trained where a layout is safe (`layout.is_safe`); the fastest of these is the one shown. Models are asked
from the largest down, so every larger one of a family has been refused: by its states alone, or with every layout of
the space. Of the next larger one the layout with least memory is asked again with changes, each alone, then one after
another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json
from lockstep.decide.planner.candidates import Sized, candidates
from lockstep.decide.planner.course import Course
from lockstep.decide.planner.estimate import SECONDS_PER_HOUR, hourly_price_usd
from lockstep.decide.planner.pins import Pins
from lockstep.decide.planner.software import of_class
from lockstep.decide.planner.trainable import Fit, Larger, Method, Row, Trainable
from lockstep.describe.hardware import Cluster, machines
from lockstep.describe.workload import Transformer, families
from lockstep.price.layout import (
    OFFLOAD,
    SAFE_USED_FRAC,
    Job,
    Layout,
    Memory,
    host_capacity_B,
    is_safe,
    memory,
    out_of_memory_frac,
    state_bytes,
)

KEEP, PAGED, _, PARAMETERS = OFFLOAD
SEQ = "--seq"
EIGHT_B = 8.0
"""Bytes of optimizer states per parameter that 8-bit states replace: two moments in fp32."""
MOST_CHANGES = 3
"""Together: a longer list is no advice."""
NARROWEST_B = 0.5
"""Bytes of a parameter that no change leaves less of: 4 bits."""
OFFLOADED = dict.fromkeys(("parameters", "gradients", "optimizer", "buffers"), 1.0)
"""What may leave the device with the optimizer: all of it, at most."""
LESS_SLACK = 1.1
"""Bytes that are saved for each byte in use that is: what the allocator holds beside it is less too; a bound."""
SHORTEST = 512
"""Tokens down to which a change shortens sequences."""
STATES_FRAC = 0.9
"""Of the states' bytes by parameter, what a model is refused by before its layouts are asked; less than all, as some
parameters may take less than matrices do."""


def trainable(cluster: Cluster, methods: Sequence[Method], pins: Pins, words: Json, course: Course) -> Trainable:
    """What `cluster` trains by each method, with layouts that agree with `pins`.

    `words` are keywords of `memory` that every row shares, the cluster among them. Raises BadInput where no model reads
    such sequences, and where none has such a layout.
    """
    asked = _Asked(cluster, pins, words, course)
    seq = methods[0].recipe.seq
    every = {name: [one for one in models if one[1].max_positions >= seq] for name, models in families().items()}
    each = ((one, name, [of for of in models if one.takes(of[1])]) for one in methods for name, models in every.items())
    rows = [asked.row(name, models, one) for one, name, models in each if models]
    if not rows:
        raise BadInput(f"no model of the catalog reads sequences of {seq:,} tokens", "--seq")
    if all(row.fit is None and row.larger is None for row in rows):
        batch = methods[0].recipe.batch
        raise BadInput(f"no layout on {asked.devices:,} devices has these options with a batch of {batch:,} sequences")
    first = methods[0].recipe
    data: Json = {"samples": course.count, "sample_tokens": first.sample_tokens, "epochs": course.epochs}
    return Trainable(cluster, tuple(methods), data, tuple(rows))


@dataclass(frozen=True, slots=True)
class _Model:
    """A model of a family, and its layouts; none where its states alone are too large."""

    parameters: int
    job: Job
    method: Method
    found: list[Sized]


class _Asked:
    """What is asked of every family and method."""

    def __init__(self, cluster: Cluster, pins: Pins, words: Json, course: Course) -> None:
        self.cluster, self.pins, self.words, self.course = cluster, pins, words, course
        self.devices, self.capacity_B = cluster.num_devices, cluster.device.memory_B
        self.machines = machines(self.devices)
        self.sized = dict[tuple[object, ...], list[Sized]]()
        self.changed = dict[tuple[object, ...], tuple[str, ...]]()

    def row(self, family: str, models: Sequence[tuple[int, Transformer]], method: Method) -> Row:
        """The largest of `models`, which are in order of size, that fits, and the one after it."""
        above: _Model | None = None
        least_B = self._states_B(method)
        for size, model in reversed(models):
            job = Job(model, of_class(method.recipe, model), self.devices)
            found = self._sized(job) if size * least_B <= self.capacity_B * self.devices else []
            asked = _Model(size, job, method, found)
            fit = self._fit(asked)
            if fit is not None:
                return Row(family, method.name, fit, None if above is None else self._larger(above))
            above = asked
        return Row(family, method.name, None, None if above is None else self._larger(above))

    def _sized(self, job: Job) -> list[Sized]:
        """The layouts with their memory, which methods share that hold the same; of pairs, with whole pairs in each."""
        key, pair = _held(job), job.recipe.objective.pair
        if key not in self.sized:
            space = self.pins.space(job, self.cluster.devices_per_unit(0))
            self.sized[key] = [one for each in candidates(job, space) for one in each.grids]
        found = self.sized[key]
        return [replace(one, valid=one.valid & (one.grid.micro_batch % pair == 0)) for one in found]

    def _states_B(self, method: Method) -> float:
        """Bytes per parameter that all devices hold together at least."""
        given = method.recipe
        if PARAMETERS in self.pins.offload:
            return 0.0
        if given.adapters is not None or self.pins.offload != (KEEP,):
            return given.base_B
        # Only of those that quantise or treat all matrices alike is a matrix's share the least.
        known = given.states.tensor_B is None or given.states.table_B is not None
        own_B = given.states.matrix_states_B if known else 0.0
        least = state_bytes(given, Layout(dp=self.devices, zero=3).grid(), own_B)
        return STATES_FRAC * float(least.parameter_B + least.optimizer_B)

    def _fit(self, asked: _Model) -> Fit | None:
        """The fastest layout with memory to spare; None where there is none."""
        job, best = asked.job, list[tuple[float, float, Layout]]()
        for one in asked.found:
            fits = one.valid & is_safe(one.memory_B, self.capacity_B) & (one.host_B <= host_capacity_B(self.cluster))
            if np.any(fits):
                seconds = np.where(fits, one.step_time_s(job, self.cluster), np.inf)
                flat = np.lexsort((one.memory_B.reshape(-1), seconds.reshape(-1)))[:1]
                layout = one.grid.layouts(flat)[0]
                best.append((float(seconds.flat[flat[0]]), float(one.memory_B.flat[flat[0]]), layout))
        if not best:
            return None
        step_time_s, memory_B, layout = min(best, key=lambda one: one[:2])
        if layout.offload == PAGED:  # What finds room on the device is there.
            memory_B = float(memory(job, self.cluster, layout.grid()).total_B)
        price, tokens_per_s = hourly_price_usd(self.cluster), job.step_units / step_time_s
        time_s = self.course.tokens(job.recipe) / tokens_per_s
        cost = None if price is None else price * self.devices * time_s / SECONDS_PER_HOUR
        speed, words = (step_time_s, tokens_per_s, time_s, cost), self._words(asked, layout)
        risk = float(out_of_memory_frac(memory_B / self.capacity_B))
        return Fit(job.model.name, asked.parameters, layout, memory_B, risk, *speed, words)

    def _words(self, asked: _Model, layout: Layout) -> Json:
        """Keywords of `memory` that ask for one layout of a model."""
        plainest, own = Layout().to_dict(), layout.to_dict()
        differing = {name: value for name, value in own.items() if value != plainest[name] and name != "dp"}
        said: Json = {"model": asked.job.model.name, **self.words, **asked.method.words}
        usual = {"micro_batch": layout.micro_batch, "recompute": layout.recompute}  # Software may have others.
        return {**said, "seq": asked.job.recipe.seq, **usual, **differing}

    def _larger(self, asked: _Model) -> Larger | None:
        """What is known of a model that does not fit; None where no layout is possible."""
        job = asked.job
        grids = asked.found or self._sized(job)
        sizes = [np.where(one.valid, one.memory_B, np.inf).reshape(-1) for one in grids]
        places = [(float(np.min(each)), at, int(np.argmin(each))) for at, each in enumerate(sizes)]
        least_B, at, flat = min(places, default=(np.inf, 0, 0))
        if not np.isfinite(least_B):
            return None
        layout = grids[at].grid.layouts(np.array([flat]))[0]
        key = (*_held(job), layout)
        if key not in self.changed:
            self.changed[key] = self._changed(asked, layout)
        changes = self.changed[key]
        pairs = (one.removeprefix("--").split() for one in changes)
        words = self._words(asked, layout) | {name.replace("-", "_"): value for name, value in pairs}
        larger = (
            name for name, one in self.machines.items() if _runs(one, job) and is_safe(least_B, one.device.memory_B)
        )
        tight = least_B <= self.capacity_B and not is_safe(least_B, self.capacity_B)
        return Larger(
            job.model.name, asked.parameters, least_B, tight, changes, next(larger, None), words if changes else None
        )

    def _changed(self, asked: _Model, layout: Layout) -> tuple[str, ...]:
        """The fewest changes with which `layout` fits."""
        if asked.parameters * NARROWEST_B > self.capacity_B * self.devices and PARAMETERS not in self.pins.offload:
            return ()
        held = memory(asked.job, self.cluster, layout.grid())
        excess_B = float(held.total_B) - SAFE_USED_FRAC * self.capacity_B
        changes = [(one.most_B(held), one) for one in _changes(asked.job, layout)]
        if sum(saved_B for saved_B, _ in changes) < excess_B:
            return ()
        for saved_B, one in changes:
            if saved_B >= excess_B and self._fits(asked.job, layout, [one]):
                return (one.words,)
        # Shorter sequences last, as they change what is learned.
        ranked = sorted(changes, key=lambda one: (one[1].flag == SEQ, 0.0 if one[1].flag == SEQ else -one[0]))
        first = ranked[:MOST_CHANGES]
        enough = sum(saved_B for saved_B, _ in first) >= excess_B
        return self._together(asked.job, layout, [one for _, one in first]) if enough else ()

    def _together(self, job: Job, layout: Layout, changes: Sequence[Change]) -> tuple[str, ...]:
        """The first of the changes with which `layout` fits, without those that it fits without."""
        made: list[Change] = []
        for change in changes:
            made = [*(one for one in made if one.flag != change.flag), change]
            if len(made) > 1 and self._fits(job, layout, made):
                for one in made[:-1]:
                    others = [other for other in made if other is not one]
                    made = others if self._fits(job, layout, others) else made
                return tuple(one.words for one in made)
        return ()

    def _fits(self, job: Job, layout: Layout, made: Sequence[Change]) -> bool:
        """Whether a layout fits with changes, with memory to spare."""
        fields = {name: value for one in made for name, value in one.fields.items()}
        moved = replace(layout, offload=fields.pop("offload", layout.offload))
        found = memory(replace(job, recipe=job.recipe.having(**fields)), self.cluster, moved.grid())
        return bool(found.fits) and not bool(found.tight)


@dataclass(frozen=True, slots=True)
class Change:
    """Something to train otherwise."""

    words: str
    """As on the command line."""
    fields: Json
    """Of the recipe, and of the layout."""
    saves_frac: Mapping[str, float]
    """By category of memory, what may be saved of it at most."""

    def most_B(self, held: Memory) -> float:
        """Bytes that may be saved of `held` at most."""
        return LESS_SLACK * sum(frac * float(getattr(held, f"{name}_B")) for name, frac in self.saves_frac.items())

    @property
    def flag(self) -> str:
        """The option, without its value."""
        return self.words.split()[0]


def _changes(job: Job, layout: Layout) -> Iterator[Change]:
    """Changes that are not made already; those first that cost least."""
    given, adapters = job.recipe, job.recipe.adapters
    full = adapters is None
    if given.loss_kind != "chunked":
        yield Change("--cross-entropy chunked", {"cross_entropy": "chunked"}, {"buffers": 1.0})
    if adapters is not None and adapters.above_narrow and given.base is None:
        yield Change("--base nf4", {"base": "nf4"}, {"parameters": 0.75})
    if full and given.gradient_B > 2:
        yield Change("--gradient-bytes 2", {"gradient_B": 2.0}, {"gradients": 0.5, "buffers": 1.0})
    if full and given.states.matrix_states_B >= EIGHT_B:
        yield Change("--optimizer adamw-8bit", {"optimizer": "adamw-8bit"}, {"optimizer": 0.75, "buffers": 1.0})
    for times, frac in ((2, 0.75), (4, 1.0)):  # Scores that are stored grow with the square.
        if given.seq // times >= SHORTEST:
            seq = given.seq // times
            yield Change(f"{SEQ} {seq}", {"seq": seq}, {"activations": frac, "buffers": frac})
    if full and layout.offload == KEEP:
        yield Change("--offload optimizer", {"offload": "optimizer"}, OFFLOADED)


def _held(job: Job) -> tuple[object, ...]:
    """What the memory of a job depends on; methods that agree in it differ in time alone."""
    given, objective = job.recipe, job.recipe.objective
    return job.model.name, given.adapters, given.base, objective.models, objective.frozen


def _runs(machine: Cluster, job: Job) -> bool:
    """Whether the software of a job runs on a machine, which computes in its format."""
    given = job.recipe
    return machine.device.vendor in given.software.vendors and given.dtype in machine.device.peak_flops
