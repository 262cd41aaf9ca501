"""`Run`: a step of reinforcement learning in the numbers that its software is configured by."""

from __future__ import annotations

from collections.abc import Collection
from functools import lru_cache

from lockstep.base.errors import Infeasible
from lockstep.base.records import dataclass, replace
from lockstep.decide.planner.export import TARGETS
from lockstep.decide.planner.export.megatron import run_flags
from lockstep.decide.planner.export.refusals import Placed, Refusals
from lockstep.decide.planner.rl_step import RlStep
from lockstep.decide.planner.rollout import Rollout
from lockstep.describe.workload.catalog import source_id
from lockstep.price.generation import Engine
from lockstep.price.layout import AXES, Job, Layout, Recipe

CHECKS = {"megatron": run_flags}
"""What raises the reasons of an export without writing it."""
FORMATS = {"bf16": "bfloat16", "fp16": "float16"}


@dataclass(frozen=True, slots=True)
class Run:
    """A rollout and the step that it is part of."""

    rollout: Rollout
    step: RlStep

    @property
    def engine(self) -> Engine:
        """That generates."""
        return self.rollout.engine

    @property
    def job(self) -> Job:
        """That trains."""
        return self.step.trainer.job

    @property
    def recipe(self) -> Recipe:
        """Of training."""
        return self.job.recipe

    @property
    def dtype(self) -> str:
        """The format of training, as PyTorch calls it."""
        return FORMATS[self.recipe.dtype]

    @property
    def method(self) -> str:
        """The objective: grpo or rloo."""
        return self.recipe.objective.name

    @property
    def recomputed(self) -> tuple[str, ...]:
        """The modules of selective recomputation."""
        return self.recipe.recompute_modules

    @property
    def layout(self) -> Layout:
        """Of training."""
        return self.step.trainer.layout

    @property
    def model(self) -> str:
        """The hub id that the catalog's source names, or a path to fill in."""
        return source_id(self.job.model.name) or "PATH-OF-THE-MODEL"

    @property
    def apart(self) -> bool:
        """Whether some devices generate and the others train."""
        return not self.step.colocated

    @property
    def answer_tokens(self) -> int:
        """Tokens at which an answer stops."""
        return self.sequence_tokens - self.rollout.prompt_tokens

    @property
    def sequence_tokens(self) -> int:
        """Of the longest prompt and answer."""
        return self.rollout.most_tokens

    @property
    def update_answers(self) -> int:
        """Of one update."""
        return self.rollout.answers // self.step.updates

    @property
    def update_prompts(self) -> int:
        """Of one update, where its answers are those of whole prompts."""
        return self.update_answers // self.rollout.group

    @property
    def accumulated(self) -> int:
        """Micro-batches of a rank in an update."""
        return self.update_answers // (self.layout.dp * self.layout.micro_batch)

    @property
    def micro_batch_tokens(self) -> int:
        """Of a micro-batch that is filled up by tokens: those of as many mean sequences, or of the longest one."""
        return max(self.sequence_tokens, self.layout.micro_batch * self.rollout.sequence_tokens)

    @property
    def refers(self) -> bool:
        """Whether a reference model passes the answers."""
        objective = self.recipe.objective
        return objective.frozen + objective.bare > 0

    @property
    def per_node(self) -> int:
        """Devices of a node, or of the part of one that is used."""
        cluster = self.engine.cluster
        inside = cluster.devices_per_unit(0) if cluster.host is None else cluster.devices_per_host
        return min(inside, self.devices)

    @property
    def devices(self) -> int:
        """Of the whole step."""
        return self.training + self.rollout.devices * self.apart

    @property
    def training(self) -> int:
        """Devices that train."""
        return self.step.trainer.cluster.num_devices

    @property
    def nodes(self) -> int:
        """Of the whole step."""
        return self.devices // self.per_node

    def refuse_engine(self, no: Refusals) -> None:
        """Notes what engines of vLLM do not do, and devices that are no whole nodes."""
        engine, dtype = self.engine, self.recipe.dtype
        other = engine.experts_dtype not in ("", engine.weights_dtype)
        no.when(other, f"experts in {engine.experts_dtype} beside weights in {engine.weights_dtype}")
        known = (dtype, "fp8")
        no.when(engine.weights_dtype not in known, f"weights of engines in {engine.weights_dtype}")
        no.when(engine.kv_dtype not in known, f"keys and values in {engine.kv_dtype}")
        inside = engine.ep in (1, engine.tp * engine.dp)
        no.when(not inside, f"--rollout-ep {engine.ep}: vLLM divides experts among all {engine.tp * engine.dp} or none")
        no.when(engine.dp > 1 and engine.model.experts is None, "--attention-dp of a model without experts")
        no.when(self.devices % self.per_node != 0, f"{self.devices} devices are no whole nodes of {self.per_node}")
        cut = self.apart and self.nodes > 1 and self.training % self.per_node != 0
        no.when(cut, f"--split {self.rollout.devices} cuts a node of {self.per_node} devices")

    def refuse_part_prompts(self, no: Refusals) -> None:
        """Notes updates that end within the answers to a prompt, for software that counts prompts."""
        part = self.update_answers % self.rollout.group != 0
        no.when(part, f"--train-batch {self.update_answers} is no whole number of groups of {self.rollout.group}")


def run_of(found: Rollout) -> Run:
    """The run of a rollout. Raises ValueError where no trainer is known."""
    if found.step is None:
        raise ValueError("a rollout without a trainer is no step")
    return Run(found, found.step)


def refuse_ulysses(job: Job, layout: Layout, no: Refusals) -> None:
    """Notes what FSDP2 with sequences over ranks by all-to-all does not run."""
    kind = job.recipe.cp_kind
    no.when(layout.tp > 1, f"tp={layout.tp} of FSDP2")
    no.when(layout.cp > 1 and kind != "all-to-all", f"cp={layout.cp} by {kind}: FSDP2 has it by all-to-all")


def refuse_trainer(job: Job, layout: Layout, no: Refusals, target: str, objectives: Collection[str]) -> None:
    """Notes why a layout is not run by the trainer `target`, a target of `export`, inside of software for these
    objectives.
    """
    recipe = job.recipe
    no.when(recipe.dtype not in FORMATS, f"training in {recipe.dtype}")
    no.when(recipe.adapters is not None, f"adapters (--train {recipe.train})")
    own = recipe.objective.name
    no.when(own not in objectives, f"{own} (--train {recipe.train}); it has {', '.join(objectives)}")
    uneven = layout.pp > 1 and (bool(layout.stages) or job.layers % (layout.pp * layout.vpp) != 0)
    no.when(uneven, f"{job.layers} layers shared out unevenly over pp={layout.pp}, vpp={layout.vpp}")
    no.when(layout.order != AXES, f"rank order {'-'.join(layout.order)}")
    no.when(layout.offload != "none", f"offload {layout.offload} of the trainer")
    try:
        CHECKS.get(target, TARGETS[target])(Placed(_plainly(job), layout))
    except Infeasible as error:
        for one in error.violations:
            no.when(True, one.why)
    no.when(recipe.optimizer not in ("adam", "adamw"), f"optimizer {recipe.optimizer}; it is AdamW there")


@lru_cache(maxsize=8)
def _plainly(job: Job) -> Job:
    """The job without its objective, which software that only trains does not know."""
    return replace(job, recipe=replace(job.recipe, train="full"))
