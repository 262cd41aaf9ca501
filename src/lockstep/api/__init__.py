"""The verbs as functions: names, paths, objects and quantities with units in; results with `to_dict()` out.

    lockstep.estimate("llama3-8b", "dgx-h100:4", batch=256, tp=2, zero=1).step_time_s

Every quantity takes a number in SI units or text with a unit (`"4M"`, `"30d"`). Words and defaults are those of the
command line, which calls these functions; errors name its flags.

A verb's module is loaded when the verb is first asked for, so that each costs only its own imports.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from lockstep.verbs import VERBS

if TYPE_CHECKING:
    from lockstep.api.advice import Advice as Advice
    from lockstep.api.benching import bench as bench
    from lockstep.api.campaigns import campaign as campaign
    from lockstep.api.case_studies import case as case
    from lockstep.api.checkpointing import checkpoint as checkpoint
    from lockstep.api.claiming import claims as claims
    from lockstep.api.convergence import Experiments as Experiments
    from lockstep.api.convergence import converge as converge
    from lockstep.api.exchanges import Collective as Collective
    from lockstep.api.exchanges import best_algorithms as best_algorithms
    from lockstep.api.exchanges import collective as collective
    from lockstep.api.exchanges import crossover as crossover
    from lockstep.api.exchanges import messages as messages
    from lockstep.api.executing import Executed as Executed
    from lockstep.api.executing import execute as execute
    from lockstep.api.fitting import Fit as Fit
    from lockstep.api.fitting import fit as fit
    from lockstep.api.guiding import guide as guide
    from lockstep.api.network import Network as Network
    from lockstep.api.network import read_network as read_network
    from lockstep.api.question import Question as Question
    from lockstep.api.question import read_question as read_question
    from lockstep.api.reproducing import reproduce as reproduce
    from lockstep.api.rigs import rig as rig
    from lockstep.api.running import RunList as RunList
    from lockstep.api.running import runs as runs
    from lockstep.api.scalings import scaling as scaling
    from lockstep.api.scalings import speedup as speedup
    from lockstep.api.schedules import Overlap as Overlap
    from lockstep.api.schedules import PipelineRun as PipelineRun
    from lockstep.api.schedules import overlap as overlap
    from lockstep.api.schedules import pipeline as pipeline
    from lockstep.api.shelves import SHELVES as SHELVES
    from lockstep.api.shelves import Catalog as Catalog
    from lockstep.api.shelves import catalog as catalog
    from lockstep.api.shelves import validate as validate
    from lockstep.api.stage_memories import StageMemories as StageMemories
    from lockstep.api.sweeping import sweep as sweep
    from lockstep.api.tensor_layers import tensor as tensor
    from lockstep.api.tracing import Trace as Trace
    from lockstep.api.tracing import trace as trace
    from lockstep.api.tracing import trace_step as trace_step
    from lockstep.api.tradeoffs import PipelineChoices as PipelineChoices
    from lockstep.api.tradeoffs import pipeline_choices as pipeline_choices
    from lockstep.api.training import Training as Training
    from lockstep.api.training import TrainingMethods as TrainingMethods
    from lockstep.api.training import train as train
    from lockstep.api.training import training_methods as training_methods
    from lockstep.api.verbs import Export as Export
    from lockstep.api.verbs import References as References
    from lockstep.api.verbs import cite as cite
    from lockstep.api.verbs import estimate as estimate
    from lockstep.api.verbs import export as export
    from lockstep.api.verbs import memory as memory
    from lockstep.api.verbs import plan as plan
    from lockstep.api.verbs import roofline as roofline
    from lockstep.api.verbs import sensitivity as sensitivity
    from lockstep.api.workers import balance as balance
    from lockstep.api.workers import experts as experts
    from lockstep.api.workers import stragglers as stragglers

_OTHERS = {
    "Advice": "advice",
    "Experiments": "convergence",
    "Collective": "exchanges",
    "best_algorithms": "exchanges",
    "Executed": "executing",
    "Fit": "fitting",
    "Network": "network",
    "read_network": "network",
    "Question": "question",
    "read_question": "question",
    "RunList": "running",
    "Overlap": "schedules",
    "PipelineRun": "schedules",
    "SHELVES": "shelves",
    "Catalog": "shelves",
    "StageMemories": "stage_memories",
    "sweep": "sweeping",
    "Trace": "tracing",
    "trace_step": "tracing",
    "PipelineChoices": "tradeoffs",
    "pipeline_choices": "tradeoffs",
    "Training": "training",
    "TrainingMethods": "training",
    "training_methods": "training",
    "Export": "verbs",
    "References": "verbs",
}
"""Names besides the verbs, and their modules."""


def __getattr__(name: str) -> Any:
    home = VERBS[name].home if name in VERBS else _OTHERS.get(name)
    if home is None:
        raise AttributeError(f"module 'lockstep.api' has no attribute {name!r}")
    return getattr(import_module(f"lockstep.api.{home}"), name)


__all__ = [*VERBS, *_OTHERS]  # noqa: PLE0604 - the names are text
