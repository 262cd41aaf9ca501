"""`export`: an estimate as the configuration of a training framework, in its own words.

    export(found, "megatron")       command-line flags, one per line
    export(found, "deepspeed")      JSON
    export(found, "torchtitan")     TOML

A plan that a framework cannot express is refused with every reason; nothing is dropped on the way.
"""

from __future__ import annotations

from lockstep.errors import UnknownName
from lockstep.plan.estimate import Estimate
from lockstep.plan.export.deepspeed import deepspeed
from lockstep.plan.export.megatron import megatron
from lockstep.plan.export.torchtitan import torchtitan

TARGETS = {"megatron": megatron, "deepspeed": deepspeed, "torchtitan": torchtitan}


def export(found: Estimate, to: str) -> str:
    """The configuration for `to`. Raises UnknownName, and Infeasible with every reason why `to` cannot express it."""
    if to not in TARGETS:
        raise UnknownName("target of an export", to, TARGETS, "--to")
    return TARGETS[to](found)


__all__ = ["TARGETS", "export"]
