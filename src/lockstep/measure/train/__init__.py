"""Real training on real data: methods as small pieces, each a generator that reads like its paper.

    run = train("local-sgd", Task(steps=200), ranks=4, settings={"period": 8})
    run.loss, run.sent_B, run.accuracy_frac

torch is imported by what trains, not by the list of methods.
"""

from lockstep.measure.train.method import METHODS, Method, all_methods, find_method
from lockstep.measure.train.models import MODELS
from lockstep.measure.train.result import StoppedRun, TrainRun
from lockstep.measure.train.run import train
from lockstep.measure.train.saving import Saving
from lockstep.measure.train.task import Task
from lockstep.registry import import_all as _import_all

# One line per family, in the order of the listing; others follow by name.
_import_all(
    f"{__name__}.methods",
    "synchronous accumulation torch_ddp batch_norm "
    "zero_1 zero_2 zero_3 torch_fsdp2 "
    "tensor_parallel sequence_parallel pipeline expert_parallel "
    "local_sgd post_local_sgd diloco "
    "parameter_server hogwild gossip "
    "compression mixed_precision",
)

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
