"""Published steps of reinforcement learning as questions: `rl_step_rows`, of `rl_nemo_rl.csv`, which is not packaged.

NeMo-RL trains by Megatron Core (stack nemo-25, ZeRO 1, micro-batch 1, experts not cut inside) and generates by vLLM.
What rows do not say is as at first sight (`first_sight.toml`): engines take 0.6 of the memory where both share devices,
else 0.9; answers are lognormal with a coefficient of variation of 1, cut at the longest sequence that is trained, so
that the mean is the printed one; 100 tokens of a prompt; groups of 16. The first sight had generation and updates
alone; here the whole step is that of `rl_step`, and engines before release 0.6 (vLLM without asynchronous scheduling)
have the host's time that `served.py` found in such ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cache
from statistics import NormalDist

from lockstep.base.errors import BadInput
from lockstep.base.records import dataclass
from lockstep.check.validation.served import SERVER_HOST_S
from lockstep.decide.planner.estimate import estimate
from lockstep.decide.planner.rl_step import RlStep, rl_step
from lockstep.decide.planner.rollout import rollout
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import Transformer, model
from lockstep.price.generation import HOST_S, Engine, Lengths
from lockstep.price.layout import Job, Layout, Recipe, check
from lockstep.simulate.play.law import LogNormal

MODELS = {
    "LLAMA3.1_8B": "llama3.1-8b",
    "DeepSeek V3": "deepseek-v3",
    "Qwen3-235B": "qwen3-235b-a22b",
    "Qwen3-30B3A": "qwen3-30b-a3b",
    "Qwen3-32B": "qwen3-32b",
}
CLUSTERS = {"DGX-H100": "dgx-h100", "GB200-NVL72": "gb200-nvl72"}
PROMPT, GROUP = 100, 16
SHARED_FRAC, OWN_FRAC = 0.6, 0.9
ROUND = 64
"""Sequences that are trained have a multiple of so many tokens."""
HALVINGS, MOST_MEANS = 30, 50.0


@dataclass(frozen=True, slots=True)
class Published:
    """A published step as a question, and how long it took."""

    name: str
    step: RlStep
    measured_s: float


def rl_step_rows(rows: Iterable[dict[str, str]]) -> list[Published]:
    """The rows that can be asked: of models in the catalog, and layouts that their devices hold."""
    found = []
    for row in rows:
        if row["model"] in MODELS:
            try:
                found.append(_published(row))
            except BadInput:
                continue
    return found


def _published(row: dict[str, str]) -> Published:
    wanted = model(MODELS[row["model"]])
    if not isinstance(wanted, Transformer):
        raise BadInput("does not generate", row["model"])
    colocated = row["placement"] == "colocated"
    machine = cluster(CLUSTERS[row["system"]], int(row["n_gpus"]))
    generating, training = (cluster(CLUSTERS[row["system"]], int(row[key])) for key in ("gen_gpus", "train_gpus"))
    engine = Engine(
        model=wanted,
        cluster=generating,
        tp=int(row["gen_tp"]),
        pp=int(row["gen_pp"]),
        weights_dtype="fp8" if row["precision"] == "fp8" else "bf16",
        memory_frac=SHARED_FRAC if colocated else OWN_FRAC,
        host_s=HOST_S if row["release"] == "v0.6" else SERVER_HOST_S,
    )
    lengths = _lengths(float(row["avg_seq_generated"]), int(row["max_seq_train"]) - PROMPT)
    generated = rollout(engine, int(row["rollout_batch"]) // GROUP, GROUP, PROMPT, lengths)
    seq = round((float(row["avg_seq_generated"]) + PROMPT) / ROUND) * ROUND
    job, layout = _trained(row, wanted, training.num_devices, seq)
    check(layout, job)
    step = rl_step(generated, estimate(job, training, layout), machine, int(row["steps_off_policy"]))
    return Published(row["row_id"], step, float(row["step_time_s"]))


def _trained(row: dict[str, str], wanted: Transformer, devices: int, seq: int) -> tuple[Job, Layout]:
    """The updates and their layout."""
    tp, cp, ep, pp = (int(row[f"train_{name}"] or 1) for name in ("tp", "cp", "ep", "pp"))
    chunks = row["train_vpp"]
    recipe = Recipe(batch=int(row["train_batch"]), seq=seq, stack="nemo-25", train="grpo")
    layout = Layout(
        dp=devices // (tp * cp * pp),
        tp=tp,
        cp=cp,
        pp=pp,
        ep=ep,
        etp=1 if ep > 1 else 0,
        vpp=int(chunks) if chunks.isdigit() else 1,
        zero=1,
        sequence_parallel=tp > 1,
    )
    return Job(wanted, recipe, devices), layout


@cache
def _lengths(mean: float, most: int) -> Lengths:
    """The law of answers whose mean after the cut is as printed."""
    low, high = mean, mean * MOST_MEANS
    for _ in range(HALVINGS):
        middle = (low * high) ** 0.5
        low, high = (middle, high) if cut_mean(middle, most) < mean else (low, middle)
    return Lengths(LogNormal(high, 1.0), most)


def cut_mean(mean: float, most: float) -> float:
    """E min(X, most) of a lognormal X with this mean and a coefficient of variation of 1, in closed form."""
    sigma = math.sqrt(math.log(2.0))
    away = (math.log(most / mean) + sigma**2 / 2) / sigma
    below = NormalDist().cdf
    return mean * below(away - sigma) + most * (1.0 - below(away))
