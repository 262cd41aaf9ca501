"""Operations of a run on CPUs, which has no kernels: its communication and the outermost operators of its host."""

from __future__ import annotations

import math
import re
from array import array
from typing import TYPE_CHECKING, Any

import numpy as np

from lockstep.base.types.arrays import Array, Ints
from lockstep.base.types.plain import Json
from lockstep.explain.classes import COMMUNICATION, class_of, op_of
from lockstep.explain.trace import Spans, sorted_spans

if TYPE_CHECKING:
    from lockstep.explain.read.kineto import Columns

WHOLE_INPUT = ("all-reduce", "reduce-scatter", "reduce", "broadcast", "all-to-all", "send", "recv")
ELEMENT_B = {
    "double": 8, "long int": 8, "long": 8, "float": 4, "int": 4, "c10::Half": 2, "c10::BFloat16": 2, "short": 2,
    "short int": 2, "unsigned char": 1, "signed char": 1, "bool": 1,
}  # fmt: skip
"""Bytes of an element by its type as the profiler writes it."""
RECORD = "record_param_comms"
OWN_EXCHANGE = re.compile(r"^lockstep:[^:]+:[^:]+:\d+:\d+$")
PAIR = re.compile(r"(\d+)-(\d+)$")


def numbers(column: array[Any]) -> Array:
    """What was kept of one column, not copied."""
    return np.frombuffer(column, dtype=column.typecode) if len(column) else np.zeros(0, column.typecode)


def places(keys: Ints, wanted: Ints) -> Ints:
    """Where each wanted number is among `keys`, -1 where it is not; 0 stands for none."""
    if not len(keys):
        return np.full(len(wanted), -1)
    if (keys[1:] >= keys[:-1]).all():
        # As profilers number them: nothing to sort, and nothing more to hold.
        found = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    else:
        order = np.argsort(keys, kind="stable")
        found = order[np.minimum(np.searchsorted(keys[order], wanted), len(keys) - 1)]
    return np.where((keys[found] == wanted) & (wanted != 0), found, -1)


def host_spans(kept: Columns, zero_us: float) -> Spans:
    """Communication and outermost operators of a run on CPUs.

    Exchanges that the program annotates itself (`lockstep:GROUP:OPERATION:BYTES:NUMBER`) replace gloo's own records;
    the operators inside them are part of them.
    """
    own = [(*_named(name), ts, dur, thread) for name, ts, dur, thread in kept.marks if OWN_EXCHANGE.match(name)]
    rows: list[tuple[float, float, int, int, int, int, int, float, int]] = []
    for group, op, size_B, peer, ts, dur, thread in own:
        kept.titles.setdefault(group, "dp" if group == "all" else "pp" if group[0].isdigit() else group)
        name = kept.index(f"lockstep:{group}:{op}")
        index = kept.index(group), kept.index(op)
        rows.append((ts, ts + dur, COMMUNICATION, name, thread, *index, size_B, peer))
    for place, (called, ts, dur, thread) in enumerate(kept.marks if not own else ()):
        if called.startswith("gloo:"):
            index = -1, kept.index(op_of(called) or called)
            size_B = kept.exchanged_B.get(place, 0.0)
            rows.append((ts, ts + dur, COMMUNICATION, kept.index(called), thread, *index, size_B, -1))
    ops = {key: numbers(column) for key, column in (kept.on_host or {}).items()}
    names, inside = list(kept.names), _inside(ops, own)
    for i in _outermost(ops).tolist():
        if (name := names[ops["name"][i]]) == RECORD or name.startswith(("c10d::", "gloo:")) or inside[i]:
            continue
        ts = float(ops["ts"][i])
        kind, at = class_of("", name), (int(ops["name"][i]), int(ops["thread"][i]))
        rows.append((ts, ts + float(ops["dur"][i]), kind, *at, -1, -1, 0.0, -1))
    start, end, kinds, named, threads, groups, of, size, peers = (np.array(x) for x in zip(*rows, strict=True))
    start, end = (start - zero_us) / 1e6, (end - zero_us) / 1e6
    none = np.full(len(rows), -1)
    return sorted_spans(Spans(start, end, kinds, named, threads, start.copy(), groups, of, size, peers, none))


def gloo_B(name: str, args: Json) -> float:
    """Bytes of an exchange of gloo by the tensors it is given; 0 where shapes were not recorded.

    Also 0 where a rank is given its own part alone, as of an all-gather: the size is that of the whole.
    """
    if op_of(name) not in WHOLE_INPUT:
        return 0.0
    pairs = zip(args.get("Input Dims") or (), args.get("Input type") or (), strict=False)
    return max(0.0, float(sum(ELEMENT_B[kind] * math.prod(shape) for shape, kind in pairs if kind in ELEMENT_B)))


def _named(name: str) -> tuple[str, str, float, int]:
    """(group, collective, bytes, peer) of an exchange that a program of Lockstep annotates."""
    _, group, op, size, _ = name.split(":")
    ends = PAIR.search(group) if op in ("send", "recv") else None
    return group, op, float(size), int(ends[1 + (op == "send")]) if ends else -1


def _inside(ops: dict[str, Array], own: list[tuple[str, str, float, int, float, float, int]]) -> Array:
    """Which operators lie inside an exchange on their thread."""
    found = np.zeros(len(ops["ts"]), dtype=bool)
    for thread in {row[6] for row in own}:
        spans = np.array(sorted((row[4], row[4] + row[5]) for row in own if row[6] == thread))
        at = np.searchsorted(spans[:, 0], ops["ts"], side="right") - 1
        found |= (ops["thread"] == thread) & (at >= 0) & (ops["ts"] < spans[np.maximum(at, 0), 1])
    return found


def _outermost(ops: dict[str, Array]) -> Ints:
    """Operators that no other operator of their thread contains."""
    order = np.lexsort((-ops["dur"], ops["ts"], ops["thread"]))
    kept, thread, until = [], -1, -math.inf
    for i in order.tolist():
        if ops["thread"][i] != thread:
            thread, until = int(ops["thread"][i]), -math.inf
        if ops["ts"][i] >= until:
            kept.append(i)
            until = float(ops["ts"][i] + ops["dur"][i])
    return np.array(kept, dtype=np.int64)
