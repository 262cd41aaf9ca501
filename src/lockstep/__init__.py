"""Lockstep plans, prices, simulates and measures distributed training.

    import lockstep
    plan = lockstep.plan("llama3-70b", "dgx-h100:64", batch_tokens="4M", tokens="15T")
    print(plan.verdict())

Every verb of the command line is a function here with the same name and words (`lockstep.api`); results have
`to_dict()`, which is what `--json` prints. Nothing is loaded before it is used, so that the import costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lockstep.verbs import VERBS as _TABLE

if TYPE_CHECKING:
    from lockstep.api import balance as balance
    from lockstep.api import bench as bench
    from lockstep.api import campaign as campaign
    from lockstep.api import case as case
    from lockstep.api import catalog as catalog
    from lockstep.api import checkpoint as checkpoint
    from lockstep.api import cite as cite
    from lockstep.api import claims as claims
    from lockstep.api import collective as collective
    from lockstep.api import converge as converge
    from lockstep.api import crossover as crossover
    from lockstep.api import estimate as estimate
    from lockstep.api import execute as execute
    from lockstep.api import experts as experts
    from lockstep.api import export as export
    from lockstep.api import fit as fit
    from lockstep.api import guide as guide
    from lockstep.api import memory as memory
    from lockstep.api import messages as messages
    from lockstep.api import overlap as overlap
    from lockstep.api import pipeline as pipeline
    from lockstep.api import plan as plan
    from lockstep.api import reproduce as reproduce
    from lockstep.api import rig as rig
    from lockstep.api import roofline as roofline
    from lockstep.api import runs as runs
    from lockstep.api import scaling as scaling
    from lockstep.api import sensitivity as sensitivity
    from lockstep.api import speedup as speedup
    from lockstep.api import stragglers as stragglers
    from lockstep.api import tensor as tensor
    from lockstep.api import trace as trace
    from lockstep.api import train as train
    from lockstep.api import validate as validate

__version__ = "0.1.0"

VERBS = tuple(_TABLE)
PACKAGES = (
    "cases", "collectives", "failures", "hardware", "layout", "methods", "parallel", "program", "simulate", "step",
    "validation", "workload",
)  # fmt: skip

__all__ = ["__version__", *VERBS]  # noqa: PLE0604 - the verbs are text


def __getattr__(name: str) -> Any:
    if name in PACKAGES:
        return import_module(f"lockstep.{name}")
    if name not in VERBS:
        raise AttributeError(f"module 'lockstep' has no attribute {name!r}")
    return getattr(import_module("lockstep.api"), name)


def __dir__() -> list[str]:
    return sorted((*__all__, *PACKAGES))
