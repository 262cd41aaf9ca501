"""`converge` over many settings and seeds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from lockstep.api.calling import strict
from lockstep.api.quantity import Quantity, Time
from lockstep.api.question import whole

if TYPE_CHECKING:
    from lockstep.lab.sweep import Sweep


@strict
def sweep(
    experiment: str,
    swept: Mapping[str, object] | None = None,
    settings: Mapping[str, object] | None = None,
    *,
    seeds: Quantity = 1,
    seed: Quantity = 0,
    engine: str = "serial",
    limit: Time = "1h",
    progress: Callable[[int, int], None] | None = None,
) -> Sweep:
    """Runs an experiment of the lab at every combination of the `swept` values, with `seeds` seeds from `seed` on.

    Values of a key are a sequence, or text with commas or ranges (`16..256x2`). `engine` is serial, processes,
    processes:N, dask, dask:N or dask:ADDRESS; the answer does not depend on it. `settings` are the same for all runs.
    `limit`: longest time that the whole may take by a forecast from its first runs; a longer one is refused. Ctrl-C
    keeps the runs that are done.
    """
    from lockstep.lab.experiment import silent
    from lockstep.lab.sweep import find_engine
    from lockstep.lab.sweep import sweep as run
    from lockstep.units import parse_time_s

    return run(
        experiment, settings or {}, swept or {}, find_engine(engine), seeds=whole(seeds, "--seeds"),
        seed=whole(seed, "--seed", minimum=0), progress=progress or silent, most_s=parse_time_s(limit, "--limit"),
    )  # fmt: skip
