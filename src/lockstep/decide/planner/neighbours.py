"""`neighbours`: questions close to the one asked that have a much better answer.

The degrees of a layout multiply to the number of devices, its replicas share out the batch, and its tensor and context
parallel ranks share out a sequence. A prime batch, an odd sequence length or 63 nodes therefore leave few layouts, and
the best of them can be several times slower than that of a question next to it. Looked at are

    batch      at most NEAR_FRAC away (NEAR_TOKENS_FRAC where it was given in tokens), with a factor in common with the
               devices that the batch asked for lacks
    sequence   at most NEAR_FRAC away, a multiple of a larger power of two, or of an odd number that divides the devices
    devices    one node (or rack) fewer and one more, and where the number of nodes has a large odd factor, down to
               LEAST_FRAC of them that a power of two divides; with a batch that they can share out

first in a part of the space. What trains WORTH_FRAC more tokens a second and device there, and fewer devices that
train more tokens altogether, are then planned as the question itself was.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, islice
from math import ceil, floor, gcd, inf
from typing import TYPE_CHECKING

from lockstep.base.errors import BadInput, Infeasible
from lockstep.base.records import dataclass, replace
from lockstep.base.types.plain import Json
from lockstep.base.units import format_count, format_frac
from lockstep.decide.planner.space import ALL_RANKS, Space
from lockstep.describe.hardware import Cluster
from lockstep.price.layout import Job, divisors

if TYPE_CHECKING:
    from lockstep.decide.planner.estimate import Estimate

NEAR_FRAC = 0.05
NEAR_TOKENS_FRAC = 1 / 6
"""Of a batch given in tokens: beyond what rounding moves two neighbours apart, a sixteenth up and one down."""
WORTH_FRAC = 0.08
SPARE_FRAC = 0.01
"""Share of the devices that are worth naming when they are spared."""
FASTER_FRAC = 0.03
"""Fewer devices are named where they train this share more tokens altogether."""
MOST_BATCHES, MOST_PARTS, LEAST_FRAC = 4, 4, 0.85
PART_BATCHES = 3
"""Batches that are looked at on another number of nodes beside the one asked for."""
MICRO_BATCHES = 4
"""Micro-batches that the first look tries, from the smallest."""
LENGTH_UNIT = 128
"""Context and tensor parallel ranks share out multiples of it as finely as the planner asks."""
MOST_ODD = 15
"""Ranks of an odd number that may share out a sequence, at most."""
REUSE = 16
"""Micro-batches per replica whose common factors with the batch matter."""

StepTimes = Callable[[Sequence[Job], Cluster], Sequence[float]]
"""Seconds of the fastest layout in a part of the space, of jobs that differ in their batch; infinity without one."""
Planned = Callable[[Job, Cluster], "Estimate"]


@dataclass(frozen=True, slots=True)
class Neighbour:
    """A question close to the one asked, and what is better there."""

    asked: Job
    best: Estimate
    units: tuple[str, int, int]
    """What the devices come in (node, rack), how many of them were asked for, and how many there are here."""
    asked_tokens_per_s: float | None
    """None where nothing fits for the original question."""

    @property
    def tokens_per_s_frac(self) -> float | None:
        """Tokens per second beyond those of the question asked, as a share of them."""
        return None if self.asked_tokens_per_s is None else self.best.tokens_per_s / self.asked_tokens_per_s - 1.0

    @property
    def per_device_frac(self) -> float | None:
        """The same per device."""
        more = self.tokens_per_s_frac
        return None if more is None else (1.0 + more) * self.asked.devices / self.best.job.devices - 1.0

    @property
    def changes(self) -> str:
        """What is asked differently, in words."""
        (unit, before, now), asked, here = self.units, self.asked.recipe, self.best.job.recipe
        parts = []
        if now != before:
            parts.append(f"on {now:,} of the {before:,} {unit}s" if now < before else f"on {now:,} {unit}s")
        if here.batch != asked.batch:
            things = "images" if self.best.job.unit == "images" else "sequences"
            parts.append(f"with a batch of {here.batch:,} {things} instead of {asked.batch:,}")
        if here.seq != asked.seq:
            parts.append(f"with sequences of {here.seq:,} tokens instead of {asked.seq:,}")
        return " ".join(parts)

    def __str__(self) -> str:
        more, each, things = self.tokens_per_s_frac, self.per_device_frac, self.best.job.unit
        if more is None or each is None:
            return f"{self.changes} it fits: {format_count(self.best.tokens_per_s)} {things}/s with {self.best.layout}"
        unit, before, now = self.units
        device = "" if now == before else f" ({_more(each)} per device)"
        spare = f" and leaves {before - now:,} {unit}{'s' if before - now > 1 else ''} spare" if now < before else ""
        return f"{self.changes} it trains {_more(more)} {things}/s{device}{spare}"

    def to_dict(self) -> Json:
        """Plain JSON form."""
        here = self.best.job
        return {
            "text": str(self),
            "gpus": here.devices,
            "batch": here.recipe.batch,
            "seq": here.recipe.seq,
            "layout": self.best.layout.to_dict(),
            "step_time_s": self.best.step_time_s,
            "tokens_per_s": self.best.tokens_per_s,
            "tokens_per_s_frac": self.tokens_per_s_frac,
            "tokens_per_s_per_gpu_frac": self.per_device_frac,
        }


def _more(frac: float) -> str:
    return f"{format_frac(abs(frac))} {'more' if frac >= 0 else 'fewer'}"


def neighbours(
    job: Job,
    cluster: Cluster,
    best: Estimate | None,
    batch_frac: float,
    resizes: bool,
    quick: StepTimes,
    planned: Planned,
) -> tuple[Neighbour, ...]:
    """The neighbours of a question that are worth naming: a batch, a sequence length, numbers of devices.

    `best` is the answer to the question, None where nothing fits; batches are looked at up to `batch_frac` away;
    `resizes` says whether other numbers of devices are
    asked for too.
    """
    own = 0.0 if best is None else best.tokens_per_s
    found: list[Neighbour] = []
    for several in (_batches(job, batch_frac), _lengths(job)):
        found += _planned(job, cluster, own, _better(several, cluster, quick, own), planned)
    named_rate = 0.0
    for pair, rate in _resized(job, cluster, batch_frac, quick, own)[:MOST_PARTS] if resizes else ():
        if rate > (1 + WORTH_FRAC / 2) * named_rate and (more := _planned(job, cluster, own, [pair], planned)):
            named_rate = rate
            found += [one for one in more if not any(_beats(other, one) for other in found)]
    return tuple(found)


def _beats(one: Neighbour, other: Neighbour) -> bool:
    """Whether one that is named already trains more than another, altogether and per device, and it spares next to no
    devices.
    """
    if other.best.job.devices < (1 - SPARE_FRAC) * one.asked.devices:
        return False
    (more, each), (less, fewer) = ((of.tokens_per_s_frac, of.per_device_frac) for of in (one, other))
    if more is None or each is None or less is None or fewer is None:
        return False
    return more > less and each > fewer


def _planned(
    job: Job, cluster: Cluster, own: float, pairs: Iterable[tuple[Job, Cluster]], planned: Planned
) -> list[Neighbour]:
    """Of questions that a part of the space made look better, those that are."""
    unit, named = cluster.devices_per_unit(0), []
    for one, part in pairs:
        try:
            there = planned(one, part)
        except Infeasible:
            continue
        units = cluster.levels[0].name, job.devices // unit, part.num_devices // unit
        named.append(Neighbour(job, there, units, own or None))
    return [one for one in named if _worth(one)]


def _worth(one: Neighbour) -> bool:
    """Whether what was found in part of the space holds in all of it."""
    more, each = one.tokens_per_s_frac, one.per_device_frac
    if more is None or each is None:
        return True
    return each >= WORTH_FRAC or (one.best.job.devices < one.asked.devices and more >= FASTER_FRAC)


def _rates(asked: Iterable[tuple[Job, Cluster]], quick: StepTimes) -> dict[tuple[Job, Cluster], float]:
    """Tokens per second, 0 where there is no answer; what differs in its batch alone is looked at together."""
    rates = dict[tuple[Job, Cluster], float]()
    for _, alike in groupby(asked, key=lambda pair: (pair[0].devices, pair[0].recipe.seq)):
        pairs = list(alike)
        seconds = quick([job for job, _ in pairs], pairs[0][1])
        rates |= {pair: pair[0].step_units / one_s for pair, one_s in zip(pairs, seconds, strict=True)}
    return rates


def _better(asked: Iterable[Job], cluster: Cluster, quick: StepTimes, own: float) -> list[tuple[Job, Cluster]]:
    """The question with the most tokens per second, where these are clearly more than `own`."""
    rates = _rates(((job, cluster) for job in asked), quick)
    best = max(rates, key=lambda pair: rates[pair], default=None)
    return [best] if best is not None and rates[best] > (1 + WORTH_FRAC / 2) * own else []


def _resized(
    job: Job, cluster: Cluster, batch_frac: float, quick: StepTimes, own: float
) -> list[tuple[tuple[Job, Cluster], float]]:
    """Other numbers of whole nodes and their rates per device: fewer that train most before one more or one fewer."""
    unit = cluster.devices_per_unit(0)
    rates = _rates(_parts(job, cluster, batch_frac), quick)
    each = {pair: rate / pair[0].devices for pair, rate in rates.items()}
    worth = (1 + WORTH_FRAC / 2) * own / job.devices
    fewer = [pair for pair in rates if pair[0].devices < job.devices and rates[pair]]
    fewer = [pair for pair in fewer if each[pair] > worth or rates[pair] > (1 + FASTER_FRAC / 2) * own]
    beside = [pair for pair in rates if own and abs(pair[0].devices - job.devices) == unit and each[pair] > worth]
    found = [*sorted(fewer, key=lambda pair: -rates[pair])[:2], *sorted(beside, key=lambda pair: -each[pair])]
    return [(pair, each[pair]) for pair in dict.fromkeys(found)]


def _parts(job: Job, cluster: Cluster, batch_frac: float) -> Iterator[tuple[Job, Cluster]]:
    """The same question on other numbers of whole nodes, with the batches nearby that these can share out best."""
    unit = cluster.devices_per_unit(0)
    for units in near_units(job.devices // unit) if job.devices % unit == 0 else ():
        try:
            part = cluster.resized(units * unit)
        except BadInput:
            continue
        there = replace(job, devices=units * unit)
        for near in (there, *islice(_batches(there, batch_frac), PART_BATCHES)):
            yield near, part


def near_units(units: int) -> list[int]:
    """Numbers of nodes beside `units` that may serve much better, ascending."""
    odd, found = units // (units & -units), {units - 1, units + 1}
    if odd > 3:
        rounder = {units - units % (1 << power) for power in range(1, units.bit_length())}
        found |= set(sorted(one for one in rounder if LEAST_FRAC * units <= one < units)[:MOST_PARTS])
    return sorted(found - {0})


def _batches(job: Job, batch_frac: float) -> Iterator[Job]:
    """The same question with batches nearby that the devices can share out in more ways."""
    for batch in near_batches(job.recipe.batch, job.devices, batch_frac):
        yield replace(job, recipe=replace(job.recipe, batch=batch))


def near_batches(batch: int, devices: int, near_frac: float = NEAR_FRAC) -> list[int]:
    """Batches at most `near_frac` from `batch` that share factors with `devices` which it lacks, most factors first."""
    wanted = REUSE * devices
    own, found = gcd(batch, wanted), list[int]()
    for side_frac in (-near_frac, near_frac):
        nearest = dict[int, int]()
        for unit in divisors(wanted, int(batch * (1 + near_frac))):
            near = max(1, floor(batch / unit) if side_frac < 0 else ceil(batch / unit)) * unit
            shared = gcd(near, wanted)
            if abs(near - batch) <= near_frac * batch and own % shared:
                nearest[shared] = min(nearest.get(shared, near), near, key=lambda one: abs(one - batch))
        found += [nearest[one] for one in nearest if not any(other != one and other % one == 0 for other in nearest)]
    return sorted(dict.fromkeys(found), key=lambda one: (-gcd(one, wanted), abs(one - batch)))[:MOST_BATCHES]


def _lengths(job: Job) -> Iterator[Job]:
    """The same question with sequence lengths nearby that more ranks can share out."""
    transformer = job.transformer
    if transformer is None or job.images:
        return
    longest = transformer.max_positions if job.recipe.seq <= transformer.max_positions else inf
    for length in near_lengths(job.recipe.seq, job.devices):
        if length <= longest:
            yield replace(job, recipe=replace(job.recipe, seq=length))


def near_lengths(seq: int, devices: int = 1) -> list[int]:
    """Sequence lengths at most NEAR_FRAC from `seq`: the nearest that LENGTH_UNIT divides, and the roundest; and the
    nearest of which odd numbers of ranks have equal parts, where these divide the devices.
    """
    own, found = seq & -seq, list[int]()
    for power in range(1, seq.bit_length() + 1):
        near = round(seq / 2**power) * 2**power
        if near and abs(near - seq) <= NEAR_FRAC * seq and near & -near > own:
            found.append(near)
    even = [one for one in found if one % LENGTH_UNIT == 0]
    chosen = [*even[:1], *found[-1:]] if own < LENGTH_UNIT else []
    for ranks in divisors(devices, MOST_ODD):
        near = round(seq / (ranks * LENGTH_UNIT)) * ranks * LENGTH_UNIT
        if ranks > 1 and ranks % 2 and seq % ranks and near and abs(near - seq) <= NEAR_FRAC * seq:
            chosen.append(near)
    return list(dict.fromkeys(chosen))


def narrowed(space: Space) -> Space:
    """A part of `space` in which its best layout, or one nearly as fast, usually lies, a tenth of its size."""
    schedules = tuple(one for one in space.schedules if one != "gpipe") or space.schedules
    sharding = tuple(one for one in space.sharding if one[0] != 2 and one[1] == ALL_RANKS) or space.sharding
    return replace(space, micro_batch=space.micro_batch[:MICRO_BATCHES], schedules=schedules, sharding=sharding)
