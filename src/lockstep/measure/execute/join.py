"""Lanes that one thread serves as well as two: sends join the lane whose operations they wait for.

A send leaves by itself once it is posted. Where each of a lane's sends waits for what comes before it on another lane,
and what comes after it there waits for the send before it, one thread that posts the sends in between never waits where
two would not. It saves a wake-up of either by the other for every message, which is most of what a small one costs.
"""

from __future__ import annotations

from itertools import pairwise

from lockstep.measure.execute.lanes import Lane
from lockstep.program import Kind


def joined(lanes: tuple[Lane, ...]) -> tuple[tuple[Lane, ...], frozenset[int]]:
    """A rank's operations by thread, and the numbers of the sends that joined a lane of others."""
    threads = [lane for lane in lanes if not _only_sends(lane)]
    moved: set[int] = set()
    for sends in (lane for lane in lanes if _only_sends(lane)):
        others = [lane for lane in lanes if lane is not sends]
        host = next((i for i, thread in enumerate(threads) if _can_join(sends, thread, others)), None)
        if host is None:
            threads.append(sends)
        else:
            threads[host] = _in_order(sends, threads[host])
            moved.update(task.id for task in sends)
    return tuple(threads), frozenset(moved)


def _only_sends(lane: Lane) -> bool:
    return all(task.kind == Kind.SEND for task in lane)


def _in_order(sends: Lane, host: Lane) -> Lane:
    return tuple(sorted((*host, *sends), key=lambda task: task.id))


def _can_join(sends: Lane, host: Lane, others: list[Lane]) -> bool:
    """Whether nothing waits longer when the sends run on the host's thread, between its operations by number."""
    hosted, sent = {task.id for task in host}, {task.id for task in sends}
    elsewhere = {wait for lane in others for task in lane if task.id not in hosted for wait in task.waits}
    if sent & elsewhere or any(task.kind == Kind.SEND for task in host):
        return False
    order = _in_order(sends, host)
    if any(set(task.waits) - hosted for task in sends) or _looks_ahead(order):
        return False
    left = -1
    for before, after in pairwise(order):
        if after.id in sent and before.id in hosted and before.id not in after.waits:
            return False
        if after.id in hosted and before.id in sent and left >= 0 and left not in after.waits:
            return False
        left = before.id if before.id in sent else left
    return True


def _looks_ahead(order: Lane) -> bool:
    """Whether an operation waits for a later one, as numbers need not follow dependencies."""
    here = {task.id for task in order}
    return any(wait in here and wait > task.id for task in order for wait in task.waits)
