"""`Case`, one published measurement beside the job that it was measured on, and `Table`, a source's cases.

With them go the quantities that published tables measure, as Lockstep predicts them for a case, and what the Megatron
papers call a GPT model, with the recipe that their runs share.
"""

from __future__ import annotations

import csv
from collections.abc import Callable
from importlib import resources

from lockstep.base.records import dataclass
from lockstep.decide.planner.utilisation import executed_flops, model_flops
from lockstep.describe.hardware import Cluster
from lockstep.describe.workload import Attention, Mlp, Transformer
from lockstep.price.layout import Job, Layout, Recipe, memory
from lockstep.price.step import price_step

COMPUTED = "computed_step_time_s"
"""Seconds of a step that another simulator computed: compared with, and counted among no measurements."""
SEQ = 2048
VOCAB = 51200


@dataclass(frozen=True, slots=True)
class Case:
    """A measured quantity and everything needed to predict it."""

    row: str
    """The row's name in the published table."""
    quantity: str
    """step_time_s, another time in seconds, or a memory quantity in bytes."""
    measured: float
    job: Job
    cluster: Cluster
    layout: Layout
    predict: Callable[[Case], float]
    """Lockstep's value of the same quantity."""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Cases from one source that share a tolerance on the median absolute error."""

    name: str
    quantity: str
    source: str
    tolerance_frac: float
    cases: Callable[[], tuple[Case, ...]]

    @property
    def computed(self) -> bool:
        """Whether its rows are another simulator's answers and no measurements."""
        return self.quantity == COMPUTED


def read_rows(file: str) -> list[dict[str, str]]:
    """Rows of a packaged table of published measurements."""
    text = resources.files("lockstep.check.validation").joinpath(f"tables/{file}").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def step_time_s(case: Case) -> float:
    """Seconds of an optimizer step."""
    return float(price_step(case.job, case.cluster, case.layout.grid()).step_time_s)


def state_B(case: Case) -> float:
    """Parameters, gradients and optimizer states of the fullest rank."""
    found = memory(case.job, case.cluster, case.layout.grid())
    return float(found.parameters_B + found.gradients_B + found.optimizer_B)


def activations_B(case: Case) -> float:
    """Kept activations of the fullest rank."""
    return float(memory(case.job, case.cluster, case.layout.grid()).activations_B)


def constant_efficiency_s(case: Case, executed: bool) -> float:
    """Seconds at the full peak rate: FLOPs that kernels execute (recomputation included) or those of the model, which
    count attention by the recipe's convention, over the peak.

    What a predictor that knows only one efficiency divides by it.
    """
    flops = executed_flops(case.job, case.layout) if executed else model_flops(case.job)
    return flops / (case.job.devices * case.cluster.device.peak(case.job.recipe.dtype))


def gpt(name: str, layers: int, hidden: int, heads: int, seq: int = SEQ, vocab: int = VOCAB) -> Transformer:
    """A GPT-2-like decoder: learned positions, layer norms and biases everywhere, tied embeddings, 4h feed-forward."""
    head_dim = hidden // heads
    return Transformer(
        name=name,
        layers=layers,
        hidden=hidden,
        vocab=vocab,
        attention=Attention(heads=heads, kv_heads=heads, head_dim=head_dim, qkv_bias=True, out_bias=True),
        mlp=Mlp(ffn=4 * hidden, gated=False, activation="gelu", in_bias=True, out_bias=True),
        positions="learned",
        max_positions=seq,
        norm="layernorm",
        tied_embeddings=True,
    )


def megatron_recipe(batch: int, seq: int = SEQ, software: str = "megatron-2021") -> Recipe:
    """Megatron-LM of 2021 in fp16.

    Gradients are accumulated and reduced in fp32, which the 18 bytes per parameter of arXiv 2205.05198 figure 1 imply.
    """
    return Recipe.by(software, seq=seq, batch=batch, dtype="fp16")


def bigscience_recipe(batch: int, seq: int) -> Recipe:
    """Megatron-DeepSpeed as BigScience had it: its loss is computed on a copy of the fp32 logits."""
    return megatron_recipe(batch, seq, "megatron-deepspeed").having(cross_entropy="copied")
