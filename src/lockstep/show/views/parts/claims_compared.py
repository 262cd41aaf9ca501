"""What an item claims, what is right and what was found, check by check, as multiples of the right value."""

from __future__ import annotations

import math
from collections.abc import Callable
from textwrap import fill
from typing import TYPE_CHECKING

from lockstep.show.views.parts.findings_plot import few_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from lockstep.check.evidence.claims.decide import Decided
    from lockstep.check.evidence.claims.entry import Check, Entry, Range

CLAIMED, RIGHT, FOUND = "#D62728", "#555555", "#0072B2"
MOST = 7
"""Checks that have room."""
MARKERS = {0: "x", 1: ">", -1: "<"}
SAID = {0: "claimed", 1: "claimed, or more", -1: "claimed, or less"}
"""Of a bound, whose line goes on to the end of the axis."""
WIDE = 5.0
"""From this multiple on the axis is logarithmic."""


def compared(entry: Entry) -> dict[Check, str]:
    """Checks whose claimed value is a multiple of a right one that is not 0, with their names."""
    named = {check: check.what for check in entry.checks}
    named |= {check: f"{case.when}: {check.what}" for case in entry.cases for check in case.checks}
    named |= {check: check.what for check in (entry.second.checks if entry.second else ())}
    named |= {check: check.what for check in entry.truths if check.refutes}
    usable = {
        check: name for check, name in named.items()
        if _number(check.right) not in (None, 0.0) and _number(check.claimed) is not None
    }  # fmt: skip
    if any(_is_far(check) for check in usable):
        # No logarithmic axis has a place for 0.
        usable = {check: name for check, name in usable.items() if _number(check.claimed)}
    chosen = [check for check in usable if check.refutes or len(usable) <= MOST] or list(usable)
    return {check: usable[check] for check in chosen[:MOST]}


def _is_far(check: Check) -> bool:
    """Whether one of the values is a large multiple of the other, which is not 0."""
    claimed, right = _number(check.claimed), _number(check.right)
    return bool(claimed and right) and max(claimed / right, right / claimed) > WIDE  # type: ignore[operator]


def draw_compared(decided: Decided) -> Callable[[Axes], None]:
    """How the checks are drawn: a row each, the claimed value in red, what was found in blue. Runs what did not run."""
    from lockstep.check.evidence.claims.running import run

    labels = compared(decided.entry)
    checks = list(labels)
    if (found := decided.found) is None:
        ((now,), _) = run((decided.entry,))
        found = now.found or {}

    def draw(axes: Axes) -> None:
        rows = range(len(checks), 0, -1)
        rights = [_number(check.right) or 1.0 for check in checks]
        claimed = [(_number(check.claimed) or 0.0) / right for check, right in zip(checks, rights, strict=True)]
        seen = [found[check].value / right for check, right in zip(checks, rights, strict=True) if check in found]
        axes.axvline(1.0, color=RIGHT, linewidth=1.2, label="right value")
        signs = [_sign(check.claimed) * (1 if right > 0 else -1) for check, right in zip(checks, rights, strict=True)]
        for sign, marker in MARKERS.items():
            there = [(at, row) for at, row, one in zip(claimed, rows, signs, strict=True) if one == sign]
            if there:
                axes.plot(*zip(*there, strict=True), marker, color=CLAIMED, markersize=8, label=SAID[sign])
        if len(seen) == len(checks):
            axes.plot(seen, rows, "o", color=FOUND, markersize=5, label="found")
        names = [fill(f"{labels[check]} ({check.claimed} claimed, {check.right} right)", 40) for check in checks]
        axes.set_yticks(list(rows), names, fontsize=7)
        axes.set(xlabel="multiple of the right value", ylim=(0.4, len(checks) + 0.6 + 0.12 * len(checks)))
        _limit(axes, [*claimed, *seen])
        for at, row, sign in zip(claimed, rows, signs, strict=True):
            if sign:
                axes.hlines(row, at, axes.get_xlim()[sign > 0], color=CLAIMED, linewidth=1.2)
        axes.legend(fontsize=8, frameon=False, ncols=3, loc="upper center")

    return draw


def _limit(axes: Axes, values: list[float]) -> None:
    """The axis of multiples, logarithmic where they are far apart."""
    if min(values) > 0 and max(max(values), 1 / min(values)) > WIDE:
        axes.set_xscale("log")
        axes.set_xlim(min(*values, 1.0) / 1.5, 1.5 * max(*values, 1.0))
        few_ticks(axes.xaxis)
    else:
        axes.set_xlim(min(*values, 0.0), 1.2 * max(*values, 1.0))


def _sign(one: Range) -> int:
    """1 of what is at least a number, -1 of what is at most one, 0 of a number."""
    return 0 if one.low == one.high else 1 if math.isfinite(one.low) else -1


def _number(one: Range) -> float | None:
    """A number, or the bound of a range with one."""
    value = one.low if math.isfinite(one.low) else one.high
    return value if math.isfinite(value) else None
