"""`Points`: measured times of collectives over sizes, whoever measured them, in the conventions of nccl-tests."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from lockstep.collectives import PlainLink, get
from lockstep.collectives.shares import FLUID
from lockstep.errors import BadInput
from lockstep.measure.fit.hosts import Hosts

Array = npt.NDArray[Any]
LIBRARY = {
    "all-reduce": "ring", "all-gather": "ring", "reduce-scatter": "ring", "all-to-all": "direct",
    "broadcast": "binomial", "reduce": "binomial", "scatter": "binomial", "gather": "binomial",
}  # fmt: skip
"""Algorithm that a library's own collective is taken for when none is said; assumed."""


@dataclass(frozen=True, slots=True)
class Point:
    """One measured time. `algorithm` is a name of Lockstep's, or empty for a library's own."""

    op: str
    algorithm: str
    ranks: int
    size_B: float
    time_s: float

    def __str__(self) -> str:
        name = f"{self.op} {self.algorithm}".strip()
        return f"{name} of {self.size_B:,.0f} B in {self.time_s * 1e6:,.1f} us"


@dataclass(frozen=True, slots=True)
class Points:
    """Measured times and where they come from."""

    points: tuple[Point, ...]
    source: str
    date: str
    notes: tuple[str, ...] = ()
    hosts: Hosts | None = None
    """Who took part, where the text says it."""

    def terms(self, taken_for: str | None = None) -> Array:
        """Latency steps, bytes in series and reduced bytes in series of every point, shape (points, 3).

        A library's own collective counts as `taken_for`, or as LIBRARY says. Raises BadInput for an algorithm whose
        steps depend on the link that is to be found, and for `taken_for` where every time names its own.
        """
        if taken_for is not None and all(point.algorithm or point.op == "send-recv" for point in self.points):
            raise BadInput(
                "is for times of a library's own collective; all of these name their algorithm", "--algorithm"
            )
        return np.array([_terms(point, taken_for) for point in self.points])


def _terms(point: Point, taken_for: str | None) -> tuple[float, float, float]:
    if point.op == "send-recv":
        return 1.0, point.size_B, 0.0
    name = point.algorithm or taken_for or LIBRARY.get(point.op, "")
    chosen = get(point.op, name)
    # Choices that follow from the link would make its constants their own cause: two links that differ show them.
    links = PlainLink(1e-6, 1e9), PlainLink(1e-4, 1e11)
    found = [chosen.terms(float(point.ranks), point.size_B, link, FLUID) for link in links]
    first, second = ((float(t.steps), float(t.critical_B), float(t.reduced_B)) for t in found)
    if first != second:
        raise BadInput(
            f"{point.op} {name} cuts its messages by the link; leave it out, or fit on another", "--algorithm"
        )
    return first
