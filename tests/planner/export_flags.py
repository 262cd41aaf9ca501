"""Megatron's flags, read back."""

import shlex

from advice_samples import NODES

from lockstep.decide.planner.estimate import Estimate, estimate
from lockstep.describe.hardware import Cluster
from lockstep.price.layout import Job, Layout


def found(job: Job, layout: Layout, machine: Cluster = NODES) -> Estimate:
    return estimate(job, machine, layout)


def flags_of(text: str) -> dict[str, str]:
    """Megatron's flags: each line is a flag and at most one value."""
    words = [shlex.split(line) for line in text.splitlines() if not line.startswith("#")]
    assert all(1 <= len(word) <= 2 and word[0].startswith("--") for word in words)
    assert len({word[0] for word in words}) == len(words), "a flag is given once"
    return {word[0][2:]: word[1] if len(word) == 2 else "true" for word in words}
