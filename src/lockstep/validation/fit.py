"""`python -m lockstep.validation.fit`: what kernels of a device reach and what software costs, of all tables at once.

Unknown are, for B200, two constants of the efficiency curve (`CURVE`); for each software the times of `SOFTWARE`.
Products of H100 and A100, PyTorch's operations and attention kernels are not fitted here but to benchmarks of kernels
alone (`products.py`, `attention.py`). Nothing is fitted for a table.

Minimises a soft-L1 norm of log(predicted / measured), each table and device type weighing the same however many rows it
has, plus weak pulls: of constants of a device towards `START`, of a software's times towards those that all share, so
that what the rows say nothing about stays where physics, or the other software, would put it. What elementwise kernels
take is one number for all software that runs the same library's (`Stack.kernels`). Software of which no rows were
fitted takes the median of the others' times.

With `--leave-out STACK` nothing of that software is fitted to: it keeps its switches, which are facts, and takes the
shared times; what is then said of its tables is an error out of sample. `--each` does so for every stack in turn, on
`--engine`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from itertools import product

import numpy as np

from lockstep.engines import Asking, Questions, find_engine
from lockstep.hardware import Efficiency, efficiency
from lockstep.stacks import Stack, stack, stacks
from lockstep.step import price_step
from lockstep.types.arrays import Floats
from lockstep.types.plain import Json
from lockstep.validation import dgxc, korthikanti, llm_foundry, narayanan, nemo, vocabulary, vtrain
from lockstep.validation.case import Case
from lockstep.validation.unseen import ALONE, SHARED

CURVE = ("matmul_max_frac", "matmul_bytes_factor")
SOFTWARE = ("launch_s", "recompute_host_s", "step_s", "elementwise_factor")
OF_KERNELS = "elementwise_factor"
"""Of these, what software that runs the same library's kernels shares."""
START = {"b200": (0.70, 1.0)}
"""Towards which a device's constants are pulled."""
MEASURED = ("h100", "a100")
"""Curves of kernels alone, of which nothing is fitted (`products.py`)."""
SOFTWARE_START = (20e-6, 1e-3, 0.01, 1.5)
"""The same of a software's times. A launch: traces of training show one every 15 to 27 us on hosts of H100 and MI300X
and every 75 us on one of A100, under a profiler, which takes time itself (modded-nanogpt, TraceLens, HTA: the traces of
tests/published_traces.py)."""
LOWEST = {CURVE: (0.40, 0.01), SOFTWARE: (2e-6, 1e-5, 1e-3, 0.8)}
HIGHEST = {CURVE: (0.95, 3.0), SOFTWARE: (50e-6, 5e-3, 0.03, 4.0)}
PULL = 0.02
"""Weight of a pull: a change by a factor e costs as much as an error of this size in a whole table."""
HOST_PULL, PULLED = 0.2, ("launch_s", "step_s")
"""The same of what hosts decide more than software. At PULL one table alone takes the default software's launches to
50 us, at the upper end, where a step of 256 tokens on one H100 took 22 us each (h100_steps); and steps of seconds,
which cannot tell 10 ms from 30, put into a step's own time whatever else they lack."""
SCALE = 0.05
"""Errors beyond this size count linearly."""
DIFFERENCE = 1e-6
"""Step in the logarithm of a constant for derivatives, all of which one broadcast pass over the cases gives."""
MOST = 60
"""Rows of a table and device type that are fitted to, evenly spread; the others judge."""
TABLES: tuple[tuple[str, Callable[[], Sequence[Case]]], ...] = (
    (
        "narayanan_sc21",
        lambda: [case for case in narayanan.cases() if case.row.startswith(("sc21", "t2-ptd", "readme"))],
    ),
    ("korthikanti_2022", korthikanti.time_cases),
    ("llm_foundry_mpt", llm_foundry.cases),
    ("vtrain_a100_single", vtrain.SINGLE.cases),
    ("vtrain_a100_multi", vtrain.MULTI.cases),
    ("nvidia_nemo", nemo.cases),
    ("dgxc_nemo", dgxc.cases),
    ("dgxc_maxtext", dgxc.maxtext_cases),
    ("vocab_parallelism", vocabulary.fitted_cases),
)
"""Tables of steps of dense models that are fitted to."""


@dataclass(frozen=True, slots=True)
class Group:
    """Rows of one table on one device type, by one software."""

    table: str
    device: str
    software: str
    cases: tuple[Case, ...]

    @property
    def fitted(self) -> tuple[Case, ...]:
        """The rows that are fitted to."""
        every = -(-len(self.cases) // MOST)
        return tuple(case for case in self.cases[::every] if not case.layout.stages)


@cache
def groups() -> tuple[Group, ...]:
    """All rows, table by table."""
    found = []
    for table, cases in TABLES:
        rows = cases()
        for device, software in product((*START, *MEASURED), dict.fromkeys(map(software_of, rows))):
            here = [case for case in rows if device in case.cluster.device.efficiency.name]
            if here := [case for case in here if software_of(case) == software]:
                found.append(Group(table, device, software, tuple(here)))
    return tuple(found)


def software_of(case: Case) -> str:
    """The name of the software that a case is of."""
    return case.job.recipe.software.name


@dataclass(frozen=True, slots=True)
class Constants:
    """The unknowns, in the order of `names`: pairs of whose they are and which."""

    names: tuple[tuple[str, str], ...]
    logs: Floats

    def __getitem__(self, name: tuple[str, str]) -> float:
        return float(np.exp(self.logs[self.names.index(name)]))

    def of(self, group: Group) -> list[int]:
        """Places of the constants that a group's predictions depend on."""
        wanted = [(group.device, name) for name in CURVE if group.device in START]
        if stack(group.software).kind != "assumed":
            wanted += [owner(group.software, name, self.names) for name in times_of(stack(group.software))]
        return [self.names.index(name) for name in wanted]

    def named(self, places: Sequence[int], values: Floats) -> dict[str, Floats]:
        """Values of the constants at these places, by what they are."""
        return {self.names[place][1]: value for place, value in zip(places, values, strict=True)}


def times_of(software: Stack) -> tuple[str, ...]:
    """What is fitted of a software."""
    return tuple(name for name in SOFTWARE if name != OF_KERNELS or software.kernels not in ALONE)


def owner(software: str, what: str, names: Sequence[tuple[str, str]]) -> tuple[str, str]:
    """Whose `what` a software has: its own, that of its kernels, or that of all software."""
    return next((who, what) for who in (software, stack(software).kernels, SHARED) if (who, what) in names)


def blank(fitted: Sequence[Group]) -> Constants:
    """The constants of these groups at their start."""
    devices = dict.fromkeys(one.device for one in groups() if one.device in START)
    software = [name for name in dict.fromkeys(one.software for one in fitted) if stack(name).kind == "fitted"]
    names = [(device, name) for device in devices for name in CURVE]
    names += [(who, name) for who in (SHARED, *software) for name in SOFTWARE if name != OF_KERNELS]
    libraries = dict.fromkeys(stack(name).kernels for name in software if OF_KERNELS in times_of(stack(name)))
    names += [(kernels, OF_KERNELS) for kernels in libraries]
    return Constants(tuple(names), np.log([_start(*name) for name in names]))


def _start(who: str, what: str) -> float:
    return SOFTWARE_START[SOFTWARE.index(what)] if what in SOFTWARE else START[who][CURVE.index(what)]


def _bound(bounds: dict[tuple[str, ...], tuple[float, ...]], what: str) -> float:
    return next(values[names.index(what)] for names, values in bounds.items() if what in names)


def changed(case: Case, curve: Efficiency, software: Stack) -> Case:
    """The case on the same hardware with another efficiency curve, and by other software."""
    device = replace(case.cluster.device, efficiency=curve)
    job = replace(case.job, recipe=replace(case.job.recipe, stack=software))
    return replace(case, cluster=replace(case.cluster, device=device), job=job)


def log_errors(group: Group, cases: Sequence[Case], values: Mapping[str, Floats]) -> Floats:
    """log(predicted / measured) of every case: (cases,), or (cases, n) when each of the constants is n values."""
    known: Json = dict(values)
    curve = replace(efficiency(group.device), **{name: known.pop(name) for name in CURVE if name in known})
    software = replace(stack(group.software), **known)
    steps = [
        price_step(one.job, one.cluster, one.layout.grid()) for one in (changed(c, curve, software) for c in cases)
    ]
    return np.array([np.log(step.step_time_s / case.measured) for step, case in zip(steps, cases, strict=True)])


def linear(fitted: Sequence[Group], start: Constants, logs: Floats) -> tuple[Floats, Floats]:
    """What the fit minimises at these constants, errors and pulls, and its slopes in them: (n,) and (n, constants)."""
    pulls = _pulls(start)
    residuals, slopes = [], []
    for group in fitted:
        places = start.of(group)
        if not places:
            continue
        moved = np.exp(logs[places][:, None] + DIFFERENCE * np.eye(len(places), len(places) + 1, 1))
        errors = log_errors(group, group.fitted, start.named(places, moved)) / np.sqrt(len(group.fitted))
        slope = np.zeros((len(errors), len(logs)))
        slope[:, places] = (errors[:, 1:] - errors[:, :1]) / DIFFERENCE
        residuals.append(errors[:, 0])
        slopes.append(slope)
    return np.concatenate([*residuals, pulls @ (logs - start.logs)]), np.concatenate([*slopes, pulls])


def fit(left_out: str | None = None) -> Constants:
    """The constants that fit all groups but those of the software `left_out`."""
    from scipy.optimize import least_squares

    fitted = [group for group in groups() if group.software != left_out and group.fitted]
    start = blank(fitted)
    known: dict[bytes, tuple[Floats, Floats]] = {}

    def part(which: int, logs: Floats) -> Floats:
        if logs.tobytes() not in known:
            known.clear()
            known[logs.tobytes()] = linear(fitted, start, logs)
        return known[logs.tobytes()][which]

    bounds = [np.log([_bound(ends, what) for _, what in start.names]) for ends in (LOWEST, HIGHEST)]
    found = least_squares(
        partial(part, 0), start.logs, partial(part, 1), bounds=bounds, loss="soft_l1", f_scale=SCALE, max_nfev=30,
        xtol=1e-4, ftol=1e-5,
    )  # fmt: skip
    logs = found.x.copy()
    for place, name in enumerate(start.names):
        if own := owners(name, start.names):
            logs[place] = np.median(found.x[own])
    return Constants(start.names, np.log([float(f"{value:.3g}") for value in np.exp(logs)]))


def owners(shared: tuple[str, str], names: Sequence[tuple[str, str]]) -> list[int]:
    """Places of the software's own constants that share `shared`; none where it is not shared."""
    if shared[0] != SHARED:
        return []
    return [place for place, (who, what) in enumerate(names) if what == shared[1] and who in stacks()]


def plain_fit(left_out: str | None) -> Json:
    """`fit` as an engine asks it: names and logs of the constants."""
    found = fit(left_out)
    return {"names": found.names, "logs": found.logs}


def _pulls(start: Constants) -> Floats:
    """Rows of weights whose products with the change of the constants are pulled to nothing."""
    names, rows = start.names, np.zeros((len(start.names), len(start.names)))
    for place, name in enumerate(names):
        rows[place, place] = pull = HOST_PULL if name[1] in PULLED else PULL
        towards = pulled_to(name, names)
        if towards is not None:
            rows[place, towards] = -pull
    return rows


def pulled_to(name: tuple[str, str], names: Sequence[tuple[str, str]]) -> int | None:
    """Place of the shared constant towards which `name` is pulled; none where that is its start."""
    who, what = name
    if what not in SOFTWARE or what == OF_KERNELS or who == SHARED:
        return None
    return names.index((SHARED, what))


def errors_of(group: Group, found: Constants) -> Floats:
    """Signed relative errors of all rows of a group."""
    places = found.of(group)
    return np.expm1(log_errors(group, group.cases, found.named(places, np.exp(found.logs[places]))))


def _print(found: Constants, left_out: str | None) -> None:
    """The constants as TOML, and the errors that they leave: of all rows, or of the software left out."""
    if left_out is not None:
        print(f"[{left_out}]")
    for who, what in found.names:
        if left_out is None or who not in stacks():
            print(f"{who}.{what} = {found[who, what]:g}")
    for group in groups():
        if left_out in (None, group.software):
            errors = errors_of(group, found)
            median, p90, mean = np.median(np.abs(errors)), np.quantile(np.abs(errors), 0.9), np.mean(errors)
            said = f"median |error| {median:.3f}, 90th percentile {p90:.3f}, mean {mean:+.3f}"
            print(f"# {group.software:18} {group.table:20} {group.device} {len(errors):4d} rows, {said}", flush=True)


def main() -> None:
    """Fits, and prints constants and errors."""
    parser = argparse.ArgumentParser(prog="python -m lockstep.validation.fit")
    parser.add_argument("--leave-out", metavar="STACK", help="fit without the tables of this software")
    parser.add_argument("--each", action="store_true", help="leave every software out in turn: `left_out.toml`")
    parser.add_argument("--engine", default="serial", help="where fits are made: serial, processes[:N] or dask[:N]")
    arguments = parser.parse_args()
    software = list(dict.fromkeys(group.software for group in groups()))
    without = software if arguments.each else [arguments.leave_out]
    # Other processes know this function by the name of its file, not as one of the program that runs it.
    ask = import_module("lockstep.validation.fit").plain_fit
    asking = Asking(Questions(ask, without, {}), find_engine(arguments.engine))
    for place, found in sorted(asking):
        names = tuple((who, what) for who, what in found["names"])
        _print(Constants(names, np.array(found["logs"])), without[place])


if __name__ == "__main__":
    main()
