"""Measured numbers of a run: those given as options, of a case, and the one that was expected."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from lockstep.base.errors import BadInput, UnknownName, located
from lockstep.base.types.plain import Json
from lockstep.base.units import parse_flops
from lockstep.show.verbs.words.quantity import FlopRate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lockstep.decide.planner.estimate import Estimate
    from lockstep.explain.gather import Gathered
    from lockstep.explain.read import Known
    from lockstep.explain.stated import Stated

CASE = "case:"
NUMBERS = {
    "step_time_s": "--measured",
    "tokens_per_s": "--tokens-per-s",
    "model_flops_per_gpu_per_s": "--tflops",
    "mfu_frac": "--mfu",
}


def stated_numbers(given: Json, peak: FlopRate | None) -> list[Stated]:
    """The numbers given as options; of FLOP/s and a peak the MFU too, as somebody would divide them."""
    from lockstep.explain.stated import MFU, RATE, Stated, read

    peak_flops = None if peak is None else parse_flops(peak, "--peak")
    if peak_flops == 0:
        raise BadInput("must be more than zero", "--peak")
    found = [read(name, value, NUMBERS[name], peak_flops) for name, value in given.items() if value is not None]
    by_name = {one.quantity: one for one in found}
    if peak_flops and MFU not in by_name:
        if RATE not in by_name:
            raise BadInput("has no effect without --mfu or --tflops", "--peak")
        found.append(Stated(MFU, by_name[RATE].value / peak_flops, peak_flops))
    return found


def run_of_case(name: str | Path, where: str = "--case") -> tuple[Estimate, list[Stated]]:
    """A published run, or one of the user's own, and its measured numbers, of its first stretch that has any."""
    from lockstep.check.validation.cases import study
    from lockstep.decide.planner.estimate import estimate as price
    from lockstep.describe.hardware import cluster as find_cluster
    from lockstep.explain.stated import QUANTITIES, Stated
    from lockstep.price.layout import Job, Layout

    with located(where):
        try:
            found = study(str(name))
        except UnknownName as error:
            raise BadInput(error.message, where) from None
        for stretch in found.stretches:
            rows = [row for row in found.published if row.stretch == stretch.name and row.quantity in QUANTITIES]
            if rows and stretch.layout and not stretch.chosen:
                job = Job(found.model, stretch.recipe, stretch.devices)
                machine = find_cluster(found.cluster, gpus=stretch.devices)
                return price(job, machine, Layout(**stretch.layout)), [Stated(one.quantity, one.value) for one in rows]
        raise BadInput(f"{found.name} has no measured step of a known layout")


def expected_number(
    against: str | Path | Gathered | Sequence[Stated] | None, stated: list[Stated], found: Estimate | None
) -> Stated | None:
    """The number that was expected, of the same quantity as the measured one where it does not say.

    Args: `against`: a number, those of a case, or another run's files. Raises BadInput.
    """
    from lockstep.explain.gather import Gathered, numbers_of
    from lockstep.explain.stated import QUANTITIES, read_like

    if against is None or (isinstance(against, Gathered) and not against.logs):
        return None
    if found is None or not stated:
        raise BadInput("needs a measured number and the run it is of; give --model", "--against")
    first = min(stated, key=lambda one: QUANTITIES.index(one.quantity))
    if isinstance(against, Gathered):
        return _best(list(numbers_of(against.logs[0], found.job)), first)
    if isinstance(against, str | Path):
        return read_like(against, first, "--against")
    return _best(list(against), first)


def other_case(against: str | Path | Sequence[Known] | None) -> tuple[Estimate, list[Stated]] | None:
    """The published run that this one is held against, and its numbers; None where no case:NAME is given."""
    if not isinstance(against, str | Path) or not str(against).startswith(CASE):
        return None
    return run_of_case(str(against).removeprefix(CASE), "--against")


def other_run(against: str | Path | Sequence[Known] | None, traces: bool) -> Gathered | None:
    """The files of the run that this one is held against; None where a number, a case or nothing is given.

    Raises BadInput for files that say nothing of a step, and for another run's traces without any here.
    """
    from lockstep.explain.gather import gather
    from lockstep.explain.read import Known

    if against is None:
        return None
    if isinstance(against, str | Path):
        if str(against).startswith(CASE) or not os.path.exists(against):
            return None
        files: Sequence[str | Path | Known] = [against]
    else:
        files = against
    with located("--against"):
        found = gather(files)
        named = ", ".join(str(one.path if isinstance(one, Known) else one) for one in files)
        if not found.logs and not found.traces:
            raise BadInput(f"{named} holds neither a log nor a trace")
        if found.traces and not found.logs and not traces:
            raise BadInput(f"{named} holds traces; give those of the run that is held against them too")
    return found


def _best(numbers: list[Stated], like: Stated) -> Stated:
    """The number of the same quantity, else the first."""
    if not numbers:
        raise BadInput("has no number of a step", "--against")
    return next((one for one in numbers if one.quantity == like.quantity), numbers[0])
