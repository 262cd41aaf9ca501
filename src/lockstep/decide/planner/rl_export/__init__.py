"""Software for reinforcement learning: the steps that it can run, and its configuration for one.

    RL_SOFTWARE["verl"].configured(found)     a rollout with the software's files
    RL_SOFTWARE["verl"].refuses_step(found)   why it cannot run the step of a rollout
    plan(..., software=RL_SOFTWARE["verl"])   the best layout that its trainer has

What its trainer runs is what the export of that trainer runs (Megatron Core, FSDP2 through Accelerate, DeepSpeed,
torchtitan), with limits of its own.
"""

from __future__ import annotations

from types import ModuleType

from lockstep.base.errors import Infeasible, UnknownName
from lockstep.base.records import dataclass, replace
from lockstep.decide.planner.configuration import Configuration
from lockstep.decide.planner.export.refusals import FirstRefusal, Refusals
from lockstep.decide.planner.rl_export import nemo_rl, openrlhf, prime_rl, trl, verl
from lockstep.decide.planner.rl_export.run import run_of
from lockstep.decide.planner.rollout import Rollout
from lockstep.decide.planner.search import Takes
from lockstep.decide.planner.software import Software
from lockstep.decide.planner.space import Space
from lockstep.price.layout import Job, Layout


@dataclass(frozen=True, slots=True)
class RlSoftware(Software):
    """Software that generates, trains and sends weights; its `target` is the trainer whose limits a search keeps to."""

    module: ModuleType
    """With `trainer`, `limits`, `write` and VERSION."""
    usual_stack: str
    """That times are of where none is given."""
    pads: bool = False
    """Whether micro-batches are as long as their longest sequence."""

    @property
    def stack(self) -> str:
        """The stack whose times are used where none is given."""
        return self.usual_stack

    @property
    def version(self) -> str:
        """The software and the version that its configuration is written for."""
        return str(self.module.VERSION)

    def narrowed(self, space: Space) -> Space:
        """What its trainer has of `space`, with stages that share out the layers evenly."""
        found = Software.narrowed(self, space)
        even = tuple(stages for stages in found.pp if found.layers % stages == 0)
        return replace(found, pp=even or found.pp)

    def why_not(self, job: Job, layout: Layout) -> Infeasible | None:
        """Every reason why its trainer cannot run a layout; None where it can."""
        no = Refusals(self.name)
        self.module.trainer(job, layout, no)
        return no.error() if no.reasons else None

    def takes(self, job: Job) -> Takes:
        """Whether its trainer can run a layout of `job`, by the first reason against it."""

        def taken(layout: Layout) -> bool:
            try:
                self.module.trainer(job, layout, FirstRefusal(self.name))
            except Infeasible:
                return False
            return True

        return taken

    def refuses_step(self, found: Rollout) -> Infeasible | None:
        """Every reason why it cannot run a whole step; None where it can."""
        run, no = run_of(found), Refusals(self.name)
        self.module.trainer(run.job, run.layout, no)
        run.refuse_engine(no)
        self.module.limits(run, no)
        return no.error() if no.reasons else None

    def configured(self, found: Rollout) -> Rollout:
        """The rollout with the software's configuration of its step. Raises Infeasible with every reason."""
        error = self.refuses_step(found)
        if error is not None:
            raise error
        files: dict[str, str] = self.module.write(run_of(found))
        return replace(found, configuration=Configuration(self.name, self.version, files))


RL_SOFTWARE = {
    one.name: one
    for one in (
        RlSoftware("verl", "megatron", verl, "megatron-te"),
        RlSoftware("nemo-rl", "megatron", nemo_rl, "megatron-te"),
        RlSoftware("trl", "accelerate", trl, "trl", pads=True),
        RlSoftware("openrlhf", "deepspeed", openrlhf, "deepspeed"),
        RlSoftware("prime-rl", "torchtitan", prime_rl, "torchtitan"),
    )
}


def rl_software(name: str) -> RlSoftware:
    """The software called `name`. Raises UnknownName."""
    if name not in RL_SOFTWARE:
        raise UnknownName("software for reinforcement learning", name, RL_SOFTWARE, "--for")
    return RL_SOFTWARE[name]


__all__ = ["RL_SOFTWARE", "RlSoftware", "rl_software"]
