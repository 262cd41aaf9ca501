"""Is the batch too small for so many replicas?

    replicas <= gcd(devices, batch),       devices per replica >= devices / gcd(devices, batch)
as every replica takes the same whole number of sequences. What is left over goes to tensor parallelism inside a node,
then to the pipeline, then to context parallelism: the order of the links they need.
Source: D. Narayanan et al., arXiv 2104.04473, section 3.3 (batch and number of micro-batches).
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from lockstep.decide.planner.guide.draft import Draft, Finding, Rule
from lockstep.price.layout import divisors


def decide(draft: Draft) -> Finding:
    """Finds the fewest devices per replica with which the batch can be shared out."""
    devices, batch = draft.job.devices, draft.job.recipe.batch
    most = math.gcd(devices, batch)
    numbers = {"batch": batch, "replicas_at_most": most}
    if most == devices:
        return Finding(
            "no", f"{batch:,} sequences give each of {devices:,} devices {batch // devices:,}", draft, numbers
        )
    said = f"{batch:,} sequences feed at most {most:,} replicas on {devices:,} devices"
    found = next(_splits(draft), None)
    if found is None:
        return Finding("yes", f"{said}, and the model cannot be split to match", draft, numbers)
    each = devices // found.layout.dp
    return Finding("yes", f"{said}, so one replica spans {each:,}", found, numbers | {"devices_per_replica": each})


def _splits(draft: Draft) -> Iterator[Draft]:
    """Drafts that share the batch out evenly, fewest devices per replica first."""
    if draft.job.transformer is None:
        return
    for each in divisors(draft.job.devices):
        for tp in reversed([tp for tp in divisors(each, draft.node) if draft.node % tp == 0]):
            for cp in divisors(each // tp):
                found = draft.change(tp=tp, cp=cp, pp=each // tp // cp)
                if found.keeps_rules:
                    yield found


RULE = Rule("batch", "Is the batch too small for this many devices?", "arXiv 2104.04473, section 3.3", decide)
