"""Figures that the file `shelf/figure.toml` declares: a question, axes with units, and lines made of deciders.

by = "network.time_s ranks={x} ..."   the value at each x of the figure; [DECIDER ...] stands inside arithmetic
n = [1, 2]                            one line for each, {n} in its texts; `n` is any name that is not a word below;
                                      of a table the names stand in labels
series = "series.step_times ..."      a function of `curves` that returns rows x, y and, if it has any, half widths
lab = "loss-scaling steps=300"        curves of an experiment, with the settings that are not the default; `curves`
                                      chooses some of them by label
x, y                                  points as they are printed
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING

import numpy as np

from lockstep.base.types.arrays import Array
from lockstep.base.types.plain import Json
from lockstep.check.evidence.claims.deciders.table import ARITHMETIC, LAB, called, decide, found_in, lab_name
from lockstep.check.evidence.claims.picture import Line, Picture
from lockstep.check.evidence.claims.shelf import SHELF

if TYPE_CHECKING:
    from lockstep.learn.lab import Findings

FEW = 20
"""Up to so many points are drawn as points."""
MOST_WHOLE = 1e6
MANY = 200
"""About so many points of a curve are drawn."""
WORDS = {"label", "by", "series", "lab", "curves", "rows", "x", "y", "at", "kind", "interval"}
"""Of a line."""


@cache
def declared() -> dict[str, Json]:
    """The figures of the file by name, as they stand there."""
    written = tomllib.loads((SHELF / "figure.toml").read_text(encoding="utf-8"))["figure"]
    return {one["name"]: one for one in written}


def drawn(name: str) -> Picture:
    """The figure of that name, with its values found now."""
    from lockstep.learn.lab import each_run_once

    written = declared()[name]
    with each_run_once():
        lines = tuple(line for one in written["lines"] for line in _lines(one, written))
    axes, rows = written.get("log", ""), tuple(written.get("rows", ()))
    return Picture(written["title"], written["x"], written["y"], lines, "x" in axes, "y" in axes,
                   least_y=written.get("least"), rows=rows)  # fmt: skip


def _lines(written: Json, figure: Json) -> Iterator[Line]:
    """One line, one for each value of what it varies, or the curves of an experiment."""
    if "lab" in written:
        yield from _curves(written)
        return
    name = next((name for name in written if name not in WORDS), "")
    values = written.get(name, [""])
    for said, value in values.items() if isinstance(values, Mapping) else zip(values, values, strict=True):
        texts = {key: text.replace(f"{{{name}}}", str(said if key == "label" else value))
                 for key, text in written.items() if isinstance(text, str)}  # fmt: skip
        yield _line({**written, **texts}, figure)


def _line(written: Json, figure: Json) -> Line:
    label, kind = written["label"], written.get("kind", "")
    if "series" in written:
        x, y, *half = _thinned(np.asarray(called(_filled(written["series"])), dtype=float))
        return Line(label, x, y, kind or _usual(x), half=half[0] if half else None)
    if "by" not in written:
        return Line(label, list(map(float, written["x"])), list(map(float, written["y"])), kind or "wrong")
    x = points(written.get("at") or figure["at"])
    found = [_values(written["by"].replace("{x}", str(one))) for one in x]
    y = np.array([values.mean() for values in found])
    # An interval of nothing has no bar.
    half = [max(1.96 * float(values.std(ddof=1)) / values.size**0.5, 1e-12) for values in found if values.size > 1]
    shown = half if written.get("interval") else None
    return Line(label, np.array(x, dtype=float), y, kind or ("found" if shown else _usual(y)), half=shown)


def _curves(written: Json) -> Iterator[Line]:
    """The curves of an experiment, its laws dashed; or two columns of its table."""
    found = _answer(written["lab"])
    if "rows" in written:
        first, second = written["rows"]
        x = np.array([float(str(row[first])) if first else place for place, row in enumerate(found.rows)])
        y = np.array([float(str(row[second])) for row in found.rows])
        yield Line(written["label"], x, y, written.get("kind", "joined"))
        return
    for curve in found.curves:
        if curve.label in written.get("curves", [curve.label]):
            kind = "dashed" if curve.theory else "found" if curve.marks else "curve"
            half = curve.half_ci95 if kind == "found" else None
            x, y = (curve.x, curve.y) if kind == "found" else _thinned(np.stack([curve.x, curve.y]))
            yield Line(curve.label, x, y, written.get("kind", kind), half=half)


def _thinned(rows: Array) -> Array:
    """Every so many points one, where a curve has very many."""
    return rows[:, :: max(1, rows.shape[1] // MANY)]


def _answer(text: str) -> Findings:
    """What an experiment finds, by its name and the settings after it."""
    from lockstep.learn.lab import find_experiment

    name, *settings = text.split()
    return find_experiment(name).answer(dict(word.split("=", 1) for word in settings))


def points(written: Mapping[str, float] | list[float]) -> list[float]:
    """The places of points: as listed, or so many from one to another in equal ratios, or in equal steps."""
    if not isinstance(written, Mapping):
        return list(written)
    spaced, number = (np.linspace, "steps") if "steps" in written else (np.geomspace, "points")
    return [float(one) for one in spaced(written["low"], written["high"], int(written[number]))]


def _filled(text: str) -> str:
    """A text with the value in the place of every decider in brackets."""
    while (filled := re.sub(r"\[([^\[\]]+)\]", lambda found: _number(decide(found[1]).value), text)) != text:
        text = filled
    return text


def _number(value: float) -> str:
    """A value as a text has it, whole ones without a point."""
    return str(int(value)) if value == int(value) and abs(value) < MOST_WHOLE else repr(value)


def _values(by: str) -> Array:
    """What a text finds: one value, or those of all draws; of an experiment a check, with settings after its name."""
    if by.startswith(LAB):
        name, what = lab_name(by)
        return np.array([found_in(_answer(name), what).value])
    if by.startswith(ARITHMETIC):
        return np.array([decide(_filled(by)).value])
    return np.atleast_1d(np.asarray(called(_filled(by)), dtype=float))


def _usual(x: Array) -> str:
    return "joined" if len(x) <= FEW else "curve"
