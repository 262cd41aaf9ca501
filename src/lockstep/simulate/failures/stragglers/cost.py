"""`stragglers(...)`: what slow workers cost per step, with or without a mitigation.

    efficiency    = (gradients used per second) / (gradients the launched workers could deliver without waiting)
    amplification = (mean computing time of a step) / (mean time of one worker)
Without mitigation or communication one is the inverse of the other: E[T] / E[max T]. Expectations and quantiles are
exact where a closed form is known; the interval always comes from simulation.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from lockstep.base.engines import Engine, SweepFile
from lockstep.base.errors import BadInput, UnknownName
from lockstep.base.records import dataclass
from lockstep.base.types.arrays import Floats
from lockstep.base.types.plain import Json, picked
from lockstep.base.types.progress import Progress
from lockstep.base.types.shown import Shown
from lockstep.simulate.failures.stragglers.bounded import Bounded
from lockstep.simulate.failures.stragglers.local import Local
from lockstep.simulate.failures.stragglers.mitigation import Mitigation, Paid
from lockstep.simulate.failures.stragglers.simulated import BLOCK, FRACTIONS, simulate_steps
from lockstep.simulate.failures.stragglers.waiting import Backup, Barrier, Drop, any_above_frac
from lockstep.simulate.play import Law, Normal, Pareto, unseen

MITIGATIONS: dict[str, Callable[[int], Mitigation]] = {
    "none": lambda _: Barrier(),
    "backup": Backup,
    "drop": Drop,
    "bounded": Bounded,
    "local": Local,
}
SHARE = 4
"""Of the numbers drawn for the step time, of at most one block, one in so many is drawn to see who is the slowest."""
ROWS = 10_000
"""Steps at a time, so that memory stays bounded."""


def parse_mitigation(text: str, where: str | None = None) -> Mitigation:
    """The mitigation behind `none`, `backup:2`, `drop:1`, `bounded:4` or `local:8`."""
    name, colon, number = text.strip().partition(":")
    if name not in MITIGATIONS:
        raise UnknownName("mitigation", name, MITIGATIONS, where)
    if name == "none":
        if colon:
            raise BadInput(f"the mitigation none takes no number, got {text!r}", where)
        return Barrier()
    if not number.isascii() or not number.isdigit() or len(number) > 9:
        raise BadInput(f"the mitigation {name} takes a whole number, as {name}:2; got {text!r}", where)
    return MITIGATIONS[name](int(number))


@dataclass(frozen=True, slots=True, repr=False)
class StragglerCost(Shown):
    """Step time under random slowness; communication included."""

    workers: int
    mean_step_s: float
    exact: bool
    """Whether mean_step_s is a closed form; otherwise it is the mean of the simulation."""
    p50_s: float
    p95_s: float
    p99_s: float
    efficiency_frac: float
    amplification: float
    ci95: tuple[float, float]
    simulated_mean_s: float
    mean_worker_s: float
    launched: int
    used: int
    gradients_per_s: float
    asynchronous_s: float
    """Seconds of as many gradients as a step uses from workers that never wait: rates add up."""
    comm_s: float
    """Communication in a step: that of a synchronisation, shared by the steps that make one do."""
    any_above_frac: float | None
    """Probability that any worker computes for longer than the requested time."""
    slowest_slow_frac: float | None
    """Share of steps in which one of the always slow workers is the slowest; None where all are alike."""
    paid: Paid
    assumptions: tuple[str, ...]

    def to_dict(self) -> Json:
        """Plain JSON form with the names of the command line."""
        return picked(self, without="paid") | picked(self.paid)


def stragglers(
    workers: int,
    law: Law,
    mitigation: Mitigation | str = "none",
    *,
    comm_s: float = 0.0,
    slowdown: Sequence[float] = (),
    above_s: float | None = None,
    numbers: int = BLOCK,
    seed: int = 0,
    engine: Engine | None = None,
    file: SweepFile | None = None,
    progress: Progress = unseen,
) -> StragglerCost:
    """Cost of waiting for `workers` whose times follow `law`.

    `comm_s` per synchronisation; `above_s`: a time for `any_above_frac`; `slowdown`: fixed factor of each launched
    worker (persistent slowness), empty = none. About so many `numbers` are drawn, in blocks on `engine` where they are
    more than one; blocks in `file` are not drawn again. `progress` hears (done, total) of the simulation.
    Raises BadInput, and RunFailed when the engine did not answer all blocks.
    """
    chosen = parse_mitigation(mitigation) if isinstance(mitigation, str) else mitigation
    factor = _factors(workers, chosen, slowdown)
    mean_s = law.mean_s
    if not math.isfinite(mean_s) or mean_s <= 0:
        raise BadInput(f"the law has the mean {mean_s:g} s; its mean must be finite and above 0", "law")
    if not 0 <= comm_s < math.inf:
        raise BadInput(f"comm_s must be finite and not negative, got {comm_s}", "comm")
    sample = simulate_steps(chosen, law, factor, comm_s, numbers, seed, engine=engine, file=file, progress=progress)
    alike = bool((factor == 1).all())
    exact_s = chosen.expected_s(law, workers) if alike else None
    waited_s = comm_s * chosen.comm_share()
    step_s = sample.mean_s if exact_s is None else exact_s + waited_s
    quantiles = [chosen.quantile_s(law, workers, f) if alike else None for f in FRACTIONS]
    p50_s, p95_s, p99_s = (
        simulated_s if exact is None else exact + waited_s
        for simulated_s, exact in zip(sample.quantiles_s, quantiles, strict=True)
    )
    used = chosen.used(workers)
    return StragglerCost(
        workers=workers,
        mean_step_s=step_s,
        exact=exact_s is not None,
        p50_s=p50_s,
        p95_s=p95_s,
        p99_s=p99_s,
        efficiency_frac=used / step_s / (float(np.sum(1 / factor)) / mean_s),
        amplification=(step_s - waited_s) / mean_s,
        ci95=sample.interval_s(),
        simulated_mean_s=sample.mean_s,
        mean_worker_s=mean_s,
        launched=len(factor),
        used=used,
        gradients_per_s=used / step_s,
        asynchronous_s=used * mean_s / float(np.sum(1 / factor)),
        comm_s=waited_s,
        any_above_frac=None if above_s is None else _any_above(law, factor, above_s),
        slowest_slow_frac=None if alike else slowest_slow_frac(law, factor, min(numbers, BLOCK) // SHARE, seed),
        paid=chosen.paid(workers),
        assumptions=tuple(_assumptions(law, alike)),
    )


def slowest_slow_frac(law: Law, factor: Floats, numbers: int, seed: int) -> float:
    """Share of simulated steps in which the slowest worker is one with a factor; ties count in part."""
    generator, slow = np.random.default_rng(seed), factor != 1
    steps = max(1000, numbers // len(factor))
    found = 0.0
    for now in np.diff([*range(0, steps, ROWS), steps]):
        times_s = law.draw(generator, int(now) * len(factor)).reshape(int(now), -1) * factor
        last = times_s == times_s.max(axis=1, keepdims=True)
        found += float(((last & slow).sum(axis=1) / last.sum(axis=1)).sum())
    return found / steps


def _any_above(law: Law, factor: Floats, above_s: float) -> float:
    """Probability that any of the workers takes longer, the slower ones included."""
    done = 1.0
    for slow, alike in zip(*np.unique(factor, return_counts=True), strict=True):
        done *= 1 - any_above_frac(law, int(alike), above_s / float(slow))
    return 1 - done


def _factors(workers: int, chosen: Mitigation, slowdown: Sequence[float]) -> Floats:
    """Fixed slowdown of every launched worker."""
    if workers < 1 or workers > 1_000_000:
        raise BadInput(f"the number of workers must be 1 to 1,000,000, got {workers}", "workers")
    chosen.check(workers)
    launched = chosen.launched(workers)
    factor = np.ones(launched) if len(slowdown) == 0 else np.asarray(slowdown, dtype=np.float64)
    if len(factor) != launched:
        raise BadInput(f"{len(factor)} slowdown factors for {launched} workers; give one each", "slowdown")
    if not ((factor > 0) & np.isfinite(factor)).all():
        raise BadInput("slowdown factors must be above 0 and finite", "slowdown")
    return factor


def _assumptions(law: Law, alike: bool) -> list[str]:
    said = ["times of different workers and steps are independent"]
    if not alike:
        said.append("slowdown factors are fixed for the whole run (persistent)")
    if isinstance(law, Normal) and law.std_s > 0.2 * law.mean_s:
        said.append("negative draws of the normal law count as 0 in the simulation, not in the closed form")
    if isinstance(law, Pareto) and law.shape <= 2:
        said.append("this law has no variance: the interval of the simulation cannot be trusted, the closed form can")
    return said
