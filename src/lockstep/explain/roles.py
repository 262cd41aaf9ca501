"""What kernels do by where they ran and who launched them, where their names do not say it.

    update          launched while the profiler's own annotation of an optimizer's step was open
    communication   of no known class, on a stream that otherwise sends

An optimizer may run the whole step inside its own, as with a closure: an annotation that holds attention, or kernels
of a forward or backward pass, is none of an update alone.
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np

from lockstep.base.errors import BadInput
from lockstep.base.types.arrays import Bools
from lockstep.explain.classes import CLASSES, COMMUNICATION, UNKNOWN
from lockstep.explain.steps import OPTIMIZER_STEP
from lockstep.explain.trace import TABLE_HOST, RankTrace, Spans, unclassified

SENDS_FRAC = 0.9
"""Of the seconds of known kernels of a stream: with so many that communicate, the unknown ones do too; assumed."""
PASSES = re.compile(r"backward|bwd|bprop|dgrad|wgrad|fprop|_fwd", re.IGNORECASE)
"""Names of kernels of a forward or backward pass."""
BACKWARD = re.compile(r"Backward|autograd::engine|bwd|bprop|dgrad|wgrad|_grad_|GradInput|backward")
FORWARD = re.compile(r"fwd|fprop|forward|prefill|decode|paged|kv_?cache", re.IGNORECASE)
OWN = "lockstep::"
NO_TRAINING = "it is of inference or evaluation, and diagnose reads training steps"
"""What is said of a trace without a backward pass."""


def by_place(trace: RankTrace) -> RankTrace:
    """The trace with the class of kernels whose place says it."""
    spans = trace.spans
    kind = spans.kind.copy()
    if not trace.on_host:  # The threads of a processor send and compute alike.
        kind[_on_sending_streams(spans)] = COMMUNICATION
    kind[_of_updates(trace)] = CLASSES.index("optimizer")
    if np.array_equal(kind, spans.kind):
        return trace
    placed = replace(spans, kind=kind)
    return replace(trace, spans=placed, unclassified=unclassified(trace.names, placed))


def _on_sending_streams(spans: Spans) -> Bools:
    """Which kernels of no known class ran on a stream of communication."""
    seconds, found = spans.end_s - spans.start_s, np.zeros(len(spans), dtype=bool)
    for stream in np.unique(spans.stream[spans.kind == UNKNOWN]).tolist():
        mine = spans.stream == stream
        known_s = float(seconds[mine & (spans.kind != UNKNOWN)].sum())
        sends_s = float(seconds[mine & spans.communicates].sum())
        if known_s > 0 and sends_s >= SENDS_FRAC * known_s:
            found |= mine & (spans.kind == UNKNOWN)
    return found


def _of_updates(trace: RankTrace) -> Bools:
    """Which kernels, or operators of a run on CPUs, compute and were launched in an update."""
    spans, found = trace.spans, np.zeros(len(trace.spans), dtype=bool)
    begun_s = spans.start_s if trace.on_host else spans.called_s
    passes = np.array([bool(PASSES.search(name)) for name in trace.names], dtype=bool)
    attends = spans.kind == CLASSES.index("attention")
    computes = ~spans.communicates & (spans.kind != CLASSES.index("copy"))
    for mark in trace.marks:
        if OPTIMIZER_STEP.match(mark.name):
            inside = (begun_s >= mark.start_s) & (begun_s < mark.end_s)
            if not (inside & (attends | passes[spans.name])).any():
                found |= inside & computes
    return found


def refuse_inference(trace: RankTrace) -> None:
    """Raises BadInput for a trace that has forward passes and nothing of a backward pass or of an update."""
    spans = trace.spans
    if trace.host == TABLE_HOST:
        return
    ran = {trace.names[i] for i in np.unique(spans.name).tolist()}
    updates = any(OPTIMIZER_STEP.match(mark.name) for mark in trace.marks)
    if updates or bool((spans.kind == CLASSES.index("optimizer")).any()) or any(one.startswith(OWN) for one in ran):
        return
    forward = [one for one in ran if FORWARD.search(one)]
    # Names of operators stand among the names too: autograd's are of a backward pass.
    if not forward or any(BACKWARD.search(one) for one in trace.names):
        return
    shown = min(forward, key=len)
    raise BadInput(f"holds no backward pass beside forward ones such as {shown[:60]!r}: {NO_TRAINING}", trace.path)
