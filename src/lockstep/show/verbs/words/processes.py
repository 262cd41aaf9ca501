"""How real ranks are asked for: how many, and how long one may wait for another."""

from __future__ import annotations

from lockstep.base.errors import BadInput
from lockstep.base.units import format_time, parse_time_s
from lockstep.show.verbs.words.quantity import Quantity, Time
from lockstep.show.verbs.words.question import whole

USUAL_RANKS = 2
"""Fewer have nobody to talk to."""
USUAL_WAIT_S = 60.0
LONGEST_WAIT_S = 30 * 86400.0
"""The longest wait for a rank that says nothing. Clocks of the libraries below overflow at some hundred years."""


def world(ranks: Quantity | None) -> int:
    """The ranks asked for; when not given, those that torchrun or srun started, else USUAL_RANKS.

    Raises BadInput at `--ranks` for a number that they did not start.
    """
    from lockstep.run.launch import place

    here, asked = place(), None if ranks is None else whole(ranks, "--ranks")
    if here is None:
        return USUAL_RANKS if asked is None else asked
    if asked not in (None, here.ranks):
        raise BadInput(f"{here.started_by} started {here.ranks} ranks, not {asked}", "--ranks")
    return here.ranks


def longest_wait_s(timeout: Time | None) -> float:
    """Seconds that one rank may wait for another, above 0 and at most a month. Raises BadInput at `--timeout`."""
    seconds = USUAL_WAIT_S if timeout is None else parse_time_s(timeout, "--timeout")
    if not seconds > 0:
        raise BadInput("must be above 0", "--timeout")
    if seconds > LONGEST_WAIT_S:
        raise BadInput(f"must be at most {format_time(LONGEST_WAIT_S)}, got {seconds:g} s", "--timeout")
    return seconds
