"""`python tools/fit/fit.py`: the few constants that published steps decide, of all tables at once.

Unknown are, for B200, two constants of the efficiency curve (`CURVE`), and for each library whose kernels software runs
what its elementwise kernels take over streams of their bytes (`Stack.elementwise_factor`). All else is known from
elsewhere: products of H100 and A100, PyTorch's operations and attention kernels from benchmarks of kernels alone
(`products.py`, `attention.py`), and the host's times from traces and steps on one device (`describe/stacks/stack.py`).
Nothing is fitted for a table.

Minimises a soft-L1 norm of log(predicted / measured), each table and device type weighing the same however many rows it
has, plus a weak pull of every constant towards its start, so that what the rows say nothing about stays there.

With `--leave-out STACK` nothing of that software is fitted to: it keeps its switches, which are facts; what is then
said of its tables is an error out of sample. `--each` does so for every stack in turn, on `--engine`.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib import import_module
from itertools import product

import numpy as np

from lockstep.base.engines import Asking, Questions, find_engine
from lockstep.base.types.arrays import Floats
from lockstep.base.types.plain import Json
from lockstep.check.validation import dgxc, korthikanti, narayanan, nemo, vocabulary, vtrain
from lockstep.check.validation.case import Case
from lockstep.describe.hardware import Efficiency, efficiency
from lockstep.describe.stacks import Stack, stack
from lockstep.price.step import price_step

CURVE = ("matmul_max_frac", "matmul_bytes_factor")
FACTOR = "elementwise_factor"
START = {
    "b200": {"matmul_max_frac": 0.70, "matmul_bytes_factor": 1.0},
    "apex": {FACTOR: 1.5},
    "transformer-engine": {FACTOR: 1.5},
}
"""What is fitted, of devices and of libraries of kernels, and towards what it is pulled."""
DEVICES = ("b200", "h100", "a100")
"""Devices of the tables."""
LOWEST = {"matmul_max_frac": 0.40, "matmul_bytes_factor": 0.01, FACTOR: 0.8}
HIGHEST = {"matmul_max_frac": 0.95, "matmul_bytes_factor": 3.0, FACTOR: 4.0}
PULL = 0.02
"""Weight of a pull: a change by a factor e costs as much as an error of this size in a whole table."""
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
    ("vtrain_a100_multi", vtrain.MULTI.cases),
    ("nvidia_nemo", nemo.cases),
    ("dgxc_nemo", dgxc.cases),
    # With layers in the usual places, and not what the authors could not repeat.
    (
        "vocab_parallelism",
        lambda: [case for case in vocabulary.time_cases() if not case.layout.stages and vocabulary.repeated(case)],
    ),
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

    @property
    def owners(self) -> tuple[str, str]:
        """Whose constants its predictions depend on: the device, and the library whose kernels the software runs."""
        return self.device, stack(self.software).kernels


@cache
def groups() -> tuple[Group, ...]:
    """All rows, table by table."""
    found = []
    for table, cases in TABLES:
        rows = cases()
        for device, software in product(DEVICES, dict.fromkeys(map(software_of, rows))):
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
        return [place for place, (who, _) in enumerate(self.names) if who in group.owners]

    def named(self, places: Sequence[int], values: Floats) -> dict[str, Floats]:
        """Values of the constants at these places, by what they are."""
        return {self.names[place][1]: value for place, value in zip(places, values, strict=True)}


def start() -> Constants:
    """The constants before anything is fitted."""
    found = {(who, what): value for who, values in START.items() for what, value in values.items()}
    return Constants(tuple(found), np.log([*found.values()]))


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


def linear(fitted: Sequence[Group], logs: Floats) -> tuple[Floats, Floats]:
    """What the fit minimises at these constants, errors and pulls, and its slopes in them: (n,) and (n, constants)."""
    before = start()
    pulls = PULL * np.eye(len(logs))
    residuals, slopes = [], []
    for group in fitted:
        places = before.of(group)
        moved = np.exp(logs[places][:, None] + DIFFERENCE * np.eye(len(places), len(places) + 1, 1))
        errors = log_errors(group, group.fitted, before.named(places, moved)) / np.sqrt(len(group.fitted))
        slope = np.zeros((len(errors), len(logs)))
        slope[:, places] = (errors[:, 1:] - errors[:, :1]) / DIFFERENCE
        residuals.append(errors[:, 0])
        slopes.append(slope)
    return np.concatenate([*residuals, pulls @ (logs - before.logs)]), np.concatenate([*slopes, pulls])


def fit(left_out: str | None = None) -> Constants:
    """The constants that fit all groups but those of the software `left_out`."""
    from scipy.optimize import least_squares

    fitted = [group for group in groups() if group.software != left_out and group.fitted]
    before = start()
    known: dict[bytes, tuple[Floats, Floats]] = {}

    def part(which: int, logs: Floats) -> Floats:
        if logs.tobytes() not in known:
            known.clear()
            known[logs.tobytes()] = linear(fitted, logs)
        return known[logs.tobytes()][which]

    bounds = [np.log([ends[what] for _, what in before.names]) for ends in (LOWEST, HIGHEST)]
    found = least_squares(
        partial(part, 0), before.logs, partial(part, 1), bounds=bounds, loss="soft_l1", f_scale=SCALE, max_nfev=30,
        xtol=1e-4, ftol=1e-5,
    )  # fmt: skip
    return Constants(before.names, np.log([float(f"{value:.3g}") for value in np.exp(found.x)]))


def plain_fit(left_out: str | None) -> Json:
    """`fit` as an engine asks it: names and logs of the constants."""
    found = fit(left_out)
    return {"names": found.names, "logs": found.logs}


def errors_of(group: Group, found: Constants) -> Floats:
    """Signed relative errors of all rows of a group."""
    places = found.of(group)
    return np.expm1(log_errors(group, group.cases, found.named(places, np.exp(found.logs[places]))))


def _print(found: Constants, left_out: str | None) -> None:
    """The constants as TOML, and the errors that they leave: of all rows, or of the software left out."""
    if left_out is not None:
        print(f"[{left_out}]")
    for who, what in found.names:
        print(f"{who}.{what} = {found[who, what]:g}")
    for group in groups():
        if left_out in (None, group.software):
            errors = errors_of(group, found)
            median, p90, mean = np.median(np.abs(errors)), np.quantile(np.abs(errors), 0.9), np.mean(errors)
            said = f"median |error| {median:.3f}, 90th percentile {p90:.3f}, mean {mean:+.3f}"
            print(f"# {group.software:18} {group.table:20} {group.device} {len(errors):4d} rows, {said}", flush=True)


def main() -> None:
    """Fits, and prints constants and errors."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--leave-out", metavar="STACK", help="fit without the tables of this software")
    parser.add_argument("--each", action="store_true", help="leave every software out in turn: `left_out.toml`")
    parser.add_argument("--engine", default="serial", help="where fits are made: serial, processes[:N] or dask[:N]")
    arguments = parser.parse_args()
    software = list(dict.fromkeys(group.software for group in groups()))
    without = software if arguments.each else [arguments.leave_out]
    # Other processes know this function by the name of its file, not as one of the program that runs it.
    ask = import_module("fit").plain_fit
    asking = Asking(Questions(ask, without, {}), find_engine(arguments.engine))
    for place, found in sorted(asking):
        names = tuple((who, what) for who, what in found["names"])
        _print(Constants(names, np.array(found["logs"])), without[place])


if __name__ == "__main__":
    main()
