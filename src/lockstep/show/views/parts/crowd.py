"""Every device of a machine that is drawn in kinds of nodes, small, as `crowd.js` draws them on the page.

A device is a mark on the tile of its node: a whole square computes a forward pass, its left half a backward pass, its
upper half something else; a cross sends with nothing to compute, a dot waits. Below a tile lies the node's own link,
and below that the way out of it, where they are lit.
"""

from __future__ import annotations

from math import ceil, sqrt
from typing import TYPE_CHECKING

import numpy as np

from lockstep.show.views.parts.bars import PART_COLOURS
from lockstep.show.views.parts.figure import FAINT, QUIET

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes

    from lockstep.base.types.arrays import Floats
    from lockstep.show.views.page.machine import Crowd, Doing

MARKS: dict[str, list[tuple[float, float]]] = {
    "forward": [(0, 0), (3, 0), (3, 3), (0, 3)],
    "backward": [(0, 0), (1.5, 0), (1.5, 3), (0, 3)],
    "other": [(0, 0), (3, 0), (3, 1.5), (0, 1.5)],
    "sending": [(1, 0), (2, 0), (2, 1), (3, 1), (3, 2), (2, 2), (2, 3), (1, 3), (1, 2), (0, 2), (0, 1), (1, 1)],
    "waiting": [(1, 1), (2, 1), (2, 2), (1, 2)],
}
"""Corners of what is drawn of a device that is three long; the next one begins after STEP."""
STEP, APART, LINES, BLOCKS = 4.0, 3.0, 5.0, 6.0
"""Of devices; between nodes; below them, for their links; between units of the second level."""
SLIM = 2.6
"""Width of all by their height."""


def across(unit: int) -> int:
    """Devices of a node beside one another."""
    return next((one for one in range(ceil(sqrt(unit)), int(2 * sqrt(unit)) + 1) if unit % one == 0), ceil(sqrt(unit)))


def spread(crowd: Crowd) -> tuple[Floats, tuple[float, float]]:
    """The upper left corners of all nodes, those of a unit of the second level in a block, and the size of all."""
    wide, tall = _size(crowd)
    inside = ceil(sqrt(crowd.each * tall / wide)) if crowd.each > 1 else 1
    apart = BLOCKS if crowd.each > 1 else 0.0
    broad, high = inside * wide + apart, ceil(crowd.each / inside) * tall + apart
    blocks = ceil(len(crowd.kinds) / crowd.each)
    fit = min(blocks, ceil(sqrt(SLIM * blocks * high / broad)))
    block, within = np.divmod(np.arange(len(crowd.kinds)), crowd.each)
    x, y = block % fit * broad + within % inside * wide, block // fit * high + within // inside * tall
    return np.stack((x, y), axis=1).astype(np.float64), (fit * broad, ceil(blocks / fit) * high)


def _size(crowd: Crowd) -> tuple[float, float]:
    """Of a node with the room behind it and below it."""
    unit = crowd.stages.shape[1]
    return across(unit) * STEP + APART, ceil(unit / across(unit)) * STEP + LINES + APART


def draw_crowd(axes: Axes, crowd: Crowd, now: Sequence[Doing], colours: Mapping[str, str]) -> None:
    """All devices, those of a stage as one shape."""
    corners, (width, height) = spread(crowd)
    (wide, tall), unit = _size(crowd), crowd.stages.shape[1]
    broad, high = wide - APART + 1.0, tall - APART - LINES + 1.0
    _fill(axes, corners - 1.0, _rect(0.0, 0.0, broad, high), FAINT)
    at = np.arange(unit)
    within = STEP * np.stack((at % across(unit), at // across(unit)), axis=1)
    for stage, one in enumerate(now):
        node, device = np.nonzero(crowd.stages[crowd.kinds] == stage)
        sent = colours[one.traffic[0].kind] if one.traffic else QUIET
        _fill(axes, corners[node] + within[device], MARKS[one.state], PART_COLOURS["compute"] if one.text else sent)
        for moved in (each for each in one.traffic if each.lit):
            low, long = (high, broad) if moved.level == 0 else (high + 2.0, wide)
            _fill(axes, corners[np.unique(node)] - 1.0, _rect(0.0, low + 1.0, long, 1.5), colours[moved.kind])
    axes.set(xlim=(-1.0, width), ylim=(height, -1.0))
    axes.set_aspect("equal", anchor="NW")
    axes.set_axis_off()
    axes.spines[["top", "right"]].set_visible(False)


def _rect(x: float, y: float, wide: float, tall: float) -> list[tuple[float, float]]:
    return [(x, y), (x + wide, y), (x + wide, y + tall), (x, y + tall)]


def _fill(axes: Axes, corners: Floats, shape: Sequence[tuple[float, float]], colour: str) -> None:
    """The same shape at many corners, as one artist."""
    from matplotlib.collections import PathCollection
    from matplotlib.path import Path

    points = np.array([*shape, shape[0]], dtype=np.float64)
    codes = [Path.MOVETO, *[Path.LINETO] * (len(shape) - 1), Path.CLOSEPOLY]
    vertices = (corners[:, np.newaxis, :] + points).reshape(-1, 2)
    path = Path(vertices, np.tile(np.array(codes, dtype=np.uint8), len(corners)))
    axes.add_collection(PathCollection([path], facecolors=colour, linewidths=0))
