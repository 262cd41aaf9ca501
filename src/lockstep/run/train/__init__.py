"""Real training on real data: methods as small pieces, each a generator that reads like its paper.

    run = train("local-sgd", Task(steps=200), ranks=4, settings={"period": 8})
    run.loss, run.sent_B, run.accuracy_frac

torch is imported by what trains, not by the list of methods.
"""

from lockstep.base.registry import import_all as _import_all
from lockstep.run.train.method import METHODS, Method, all_methods, find_method
from lockstep.run.train.models import MODELS
from lockstep.run.train.result import StoppedRun, TrainRun
from lockstep.run.train.run import train
from lockstep.run.train.saving import Saving
from lockstep.run.train.task import Task

_import_all(f"{__name__}.methods")
# One line per family.
METHODS.arrange("""
synchronous accumulation torch-ddp batch-norm
zero-1 zero-2 zero-3 torch-fsdp2
tensor-parallel sequence-parallel pipeline expert-parallel
local-sgd post-local-sgd diloco
parameter-server hogwild gossip
fp16 int8 qsgd sign one-bit top-k random-k shared-random-k threshold power-sgd mixed-precision
""")

__all__ = [
    "METHODS",
    "MODELS",
    "Method",
    "Saving",
    "StoppedRun",
    "Task",
    "TrainRun",
    "all_methods",
    "find_method",
    "train",
]
