"""The points of a sweep: every combination of the values that are given, the last key fastest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import Any

from lockstep.errors import BadInput
from lockstep.lab.experiment import Experiment
from lockstep.rows import listed
from lockstep.settings import read_settings
from lockstep.units import BANDWIDTH, COUNT, FRACTION, SIZE, TIME

MOST_TRIALS = 1_000_000
UNITS = {"_s": TIME, "_B": SIZE, "_Bps": BANDWIDTH, "_frac": FRACTION}
"""Units that the ends of a range may have, by the end of the setting's name."""

Point = tuple[tuple[str, Any], ...]


def read_grid(
    experiment: Experiment, fixed: Mapping[str, object], swept: Mapping[str, object], seeds: int
) -> tuple[tuple[Point, Point], ...]:
    """(swept pairs, all pairs) of every point, checked: a bad value is found before anything runs.

    Raises `BadInput` for unknown keys, values that are not allowed, keys both fixed and swept, and sweeps of more than
    a million runs.
    """
    both = sorted(set(_named(fixed)) & set(_named(swept)))
    if both:
        raise BadInput(f"{', '.join(both)} is both fixed by --set and swept", "--sweep")
    values = {name: _values(name, given) for name, given in _named(swept).items()}
    number = seeds
    for several in values.values():
        number *= len(several)
    if number > MOST_TRIALS:
        raise BadInput(f"{number:,} runs; at most {MOST_TRIALS:,}, use fewer values or seeds", "--sweep")
    points = []
    for combination in product(*values.values()):
        pairs = dict(zip(values, combination, strict=True))
        read_settings(experiment.settings, {**fixed, **pairs})
        points.append((tuple(pairs.items()), (*_named(fixed).items(), *pairs.items())))
    return tuple(points)


def _named(given: Mapping[str, object]) -> dict[str, object]:
    return {key.replace("-", "_"): value for key, value in given.items()}


def _values(name: str, given: object) -> tuple[object, ...]:
    """The values of one key, each once: text with commas or ranges, or a sequence."""
    units = next((units for ending, units in UNITS.items() if name.endswith(ending)), COUNT)
    if isinstance(given, Iterable) and not isinstance(given, str):
        given = [tuple(value) if isinstance(value, list) else value for value in given]
    found = listed(given, units, f"--sweep {name}")
    return (given,) if found is None else found
