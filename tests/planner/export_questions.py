"""Questions drawn at random that an export takes: models, recipes of the newest stack of its software, and layouts."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from lockstep.base.errors import Infeasible
from lockstep.decide.planner.estimate import Estimate, estimate
from lockstep.decide.planner.export import TARGETS, export
from lockstep.decide.planner.export.refusals import Placed
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout, Recipe, broken_by

CLUSTERS = ("dgx-h100:4", "dgx-a100-80gb:4", "dgx-b200:4")
DEVICES, SEQUENCE = 32, 1024
STACKS = {
    "torchtitan": "torchtitan", "torchtitan-cli": "torchtitan", "deepspeed": "deepspeed",
    "accelerate": "hf-trainer", "nanotron": "nanotron",
}  # fmt: skip
MODELS = ("llama3-8b", "mixtral-8x7b", "gpt3-13b", "deepseek-v2-lite", "qwen3-14b", "qwen3-0.6b", "qwen2.5-7b")
AXES: dict[str, tuple[Any, ...]] = {
    "tp": (1, 1, 2, 4), "pp": (1, 1, 2, 4), "cp": (1, 1, 2), "ep": (1, 1, 4, 8), "vpp": (1, 1, 2),
    "zero": (0, 1, 2, 3, 3), "shard": (0, 0, 8), "recompute": ("none", "full", "selective"), "micro_batch": (1, 2),
    "offload": ("none", "none", "none", "optimizer", "parameters"), "etp": (0, 0, 1),
}  # fmt: skip
SCHEDULES = {1: ("1f1b", "1f1b", "gpipe"), 2: ("interleaved", "interleaved", "breadth-first", "zb-v", "dualpipe-v")}
"""By the chunks of a device."""
RECIPES: dict[str, tuple[Any, ...]] = {
    "dtype": ("bf16", "bf16", "bf16", "fp16"), "cp_kind": ("ring", "gather"), "overlap_pp": (None, True),
    "fused_elementwise": (None, None, False), "overlap_tp": (None, None, "all", "async"), "gradient_B": (None, 2.0),
    "overlap_dp": (None, None, False), "flash_attention": (None, None, None, False),
    "dropout": (None, None, None, True),
}  # fmt: skip
UNSAID: dict[str, tuple[str, ...]] = {
    "accelerate": ("fused_elementwise", "gradient_B", "overlap_dp", "flash_attention", "dropout"),
    "deepspeed": ("fused_elementwise", "flash_attention", "dropout"),
    "bridge": ("fused_elementwise",),
    "nanotron": ("fused_elementwise",),
    "torchtitan": ("overlap_pp",),
    "torchtitan-cli": ("overlap_pp",),
    "megatron": (),
}
"""Words of a recipe that a configuration has no key for, since they are decided in code or always as in the stack."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is exported, and the file."""

    cluster: str
    found: Estimate
    text: str


def drawn(target: str, seed: str) -> Iterator[tuple[Job, Layout, str]]:
    """Layouts and recipes without end that keep the rules, no two of them one layout under two names."""
    draw = random.Random(f"{target} {seed}")
    while True:
        described = model(draw.choice(MODELS))
        said = {name: draw.choice(values) for name, values in RECIPES.items()}
        said = {name: value for name, value in said.items() if value is not None and name not in UNSAID[target]}
        words = {name: draw.choice(values) for name, values in AXES.items()}
        if words["tp"] == 1:
            said.pop("overlap_tp", None)
        if target == "accelerate":
            # FSDP2 reduces gradients in the format of its products, DDP in that of its parameters.
            said["reduce_B"] = 2.0 if words["zero"] else 4.0
        if target == "torchtitan-cli":
            said["cross_entropy"] = "chunked"
        batch = draw.choice((64, 80, 96, 128, 32))
        recipe = Recipe.by(STACKS.get(target, "megatron-te"), seq=SEQUENCE, batch=batch, **said)
        words["vpp"] = words["vpp"] if words["pp"] > 1 else 1
        schedule = draw.choice(SCHEDULES[words["vpp"]]) if words["pp"] > 1 else "1f1b"
        layout = Layout(
            **words, dp=DEVICES // (words["tp"] * words["pp"] * words["cp"]), schedule=schedule,
            sequence_parallel=words["tp"] > 1 and draw.random() < 0.7,
        )  # fmt: skip
        job = Job(described, recipe, DEVICES)
        renamed = layout.shard in (1, layout.dp * layout.cp) or job.layers % (layout.pp * layout.vpp) != 0
        if layout.world == DEVICES and not renamed and not broken_by(layout, job):
            yield job, layout, draw.choice(CLUSTERS)


@cache
def questions(target: str, number: int = 30, seed: str = "") -> tuple[Question, ...]:
    """That many that the target takes."""
    found: list[Question] = []
    for job, layout, machine in drawn(target, seed):
        try:
            TARGETS[target](Placed(job, layout))
        except Infeasible:
            continue
        priced = estimate(job, cluster(machine), layout)
        found.append(Question(machine, priced, export(priced, target)))
        if len(found) == number:
            return tuple(found)
    raise AssertionError("the draw has no end")
