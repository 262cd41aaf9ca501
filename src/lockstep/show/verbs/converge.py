"""Experiments of the lab: how training converges, beside theory."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, overload

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.base.types.plain import Json, picked
from lockstep.base.types.shown import Shown
from lockstep.show.verbs.words.calling import strict
from lockstep.show.verbs.words.named import Engine
from lockstep.show.verbs.words.option import Argument, Option
from lockstep.show.verbs.words.quantity import Quantity, Time
from lockstep.show.verbs.words.question import whole
from lockstep.show.verbs.words.shared import SEED, SETTINGS

if TYPE_CHECKING:
    from lockstep.learn.lab import Experiment, Findings, Group
    from lockstep.learn.lab.sweep import Sweep

EXPERIMENT = Argument(
    "EXPERIMENT", "Experiment to run, or group to list; all groups are listed when omitted.", names="experiments"
)
_MANY = "Many runs"
SWEPT = Option(
    "KEY=A,B,C",
    "Run at each of these values, as rate=0.01,0.1 or batch=1..64x2; may be repeated for every combination.",
    "--sweep", _MANY, repeated=True,
)  # fmt: skip
SEEDS = Option("N", "Number of seeds to run with, counting up from --seed.", panel=_MANY, default="1")
ENGINE = Option(
    "E",
    "Engine: serial, processes[:N], dask[:N], dask:ADDRESS of a scheduler or dask:scheduler-file:PATH.",
    panel=_MANY,
    default="serial",
)
STORE = Option("FILE", "Keep every run in this file as it comes; what is there is not run again.", panel=_MANY)
LIMIT = Option(
    "TIME",
    "Longest time for all runs, as forecast from the first; a longer sweep is refused.",
    panel=_MANY,
    default="1h",
)


@dataclass(frozen=True, slots=True, repr=False)
class Experiments(Shown):
    """What the lab can be asked: its groups, and the experiments in them."""

    groups: "tuple[Group, ...]"
    experiments: "tuple[Experiment, ...]"

    def to_dict(self) -> Json:
        """Plain JSON form."""
        return picked(self)


@overload
def converge(experiment: None = None, *, group: str | None = None) -> Experiments: ...


@overload
def converge(
    experiment: str,
    settings: Mapping[str, object] | None = None,
    *,
    seed: Quantity = 0,
    progress: Callable[[int, int], None] | None = None,
) -> "Findings": ...


@strict
def converge(
    experiment: Annotated[str | None, EXPERIMENT] = None,
    settings: Annotated[Mapping[str, object] | None, SETTINGS] = None,
    *,
    seed: Annotated[Quantity, SEED] = 0,
    progress: Callable[[int, int], None] | None = None,
    group: str | None = None,
) -> "Experiments | Findings":
    """Runs one experiment of the lab with its `settings`; lists those of a group, or all, when none is named.

    `progress(done, total)` is called now and then. Raises `BadInput` for unknown names and for settings that are not
    allowed.
    """
    from lockstep.learn.lab import GROUPS, find_experiment, find_group
    from lockstep.learn.lab.experiment import silent

    if experiment is None and (settings or whole(seed, "--seed", minimum=0)):
        raise BadInput("needs an experiment to run; without one they are listed", "--set" if settings else "--seed")
    if experiment is not None and group is not None:
        raise BadInput("lists the experiments of a group; leave it out to run one", "group")
    if experiment is None:
        groups = GROUPS if group is None else (find_group(group),)
        return Experiments(groups, tuple(find_experiment(name) for one in groups for name in one.experiments))
    number = whole(seed, "--seed", minimum=0)
    return find_experiment(experiment).answer(settings or {}, number, progress or silent)


@strict
def sweep(
    experiment: Annotated[str, EXPERIMENT],
    swept: Annotated[Mapping[str, object] | None, SWEPT] = None,
    settings: Annotated[Mapping[str, object] | None, SETTINGS] = None,
    *,
    seeds: Annotated[Quantity, SEEDS] = 1,
    seed: Annotated[Quantity, SEED] = 0,
    engine: Annotated[str | Engine | None, ENGINE] = None,
    store: Annotated[str | Path | None, STORE] = None,
    limit: Annotated[Time, LIMIT] = "1h",
    progress: Callable[[int, int], None] | None = None,
) -> "Sweep":
    """Runs an experiment of the lab at every combination of the `swept` values, with `seeds` seeds from `seed` on.

    Values of a key are a sequence, or text with commas or ranges (`16..256x2`). `engine` is serial, processes[:N],
    dask[:N], dask:ADDRESS or dask:scheduler-file:PATH; the answer does not depend on it. `store`: a file that keeps
    every run; one that is there is not made again. `settings` are the same for all runs. `limit`: longest time that the
    whole may take by a forecast from its first runs; a longer one is refused. Ctrl-C keeps the runs that are done.
    """
    from lockstep.base.engines import find_engine, silent
    from lockstep.base.units import parse_time_s
    from lockstep.learn.lab.sweep import sweep as run
    from lockstep.show.verbs.words.many import swept_file

    words = {"experiment": experiment, "swept": swept, "settings": settings, "seeds": seeds, "seed": seed}
    with swept_file(store, "converge", {**words, "limit": limit}, engine) as file:
        return run(
            experiment, settings or {}, swept or {}, find_engine(engine), seeds=whole(seeds, "--seeds"),
            seed=whole(seed, "--seed", minimum=0), file=file, progress=progress or silent,
            most_s=parse_time_s(limit, "--limit"),
        )  # fmt: skip
