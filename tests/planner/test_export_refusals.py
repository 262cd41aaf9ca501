"""Every reason against an export stands exactly where its condition holds, for layouts and recipes drawn at random."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from advice_samples import DENSE, EXPERTS

from lockstep.base.errors import Infeasible
from lockstep.decide.planner.export import deepspeed, torchtitan
from lockstep.price.layout import Job, Layout, Recipe
from lockstep.price.layout.layout import AXES

Condition = Callable[[Job, Layout, Recipe], object]


def shared_by(layout: Layout) -> int:
    """Data-parallel ranks that hold one sharded copy."""
    return layout.shard // layout.cp if layout.shard else layout.dp


def borrowed_wrongly(layout: Layout) -> bool:
    """The two conditions of torchtitan's parallel_dims.py, which knows uncut experts and those cut like the rest."""
    whole, ep = shared_by(layout) * layout.cp, layout.ep
    if (layout.etp or layout.tp) == layout.tp:
        return ep % layout.cp != 0 or whole % ep != 0
    return ep % (layout.cp * layout.tp) != 0 or whole * layout.tp % ep != 0


BOTH: dict[str, Condition] = {
    "rank order": lambda job, one, recipe: one.order != ("tp", "cp", "ep", "dp", "pp"),
    "activations kept or sent": lambda job, one, recipe: recipe.cached_B is not None or recipe.dispatch_B is not None
    or recipe.cached_attention_B is not None,
    "offloaded activations": lambda job, one, recipe: recipe.offload_layers != 0,
    "routing forced": lambda job, one, recipe: recipe.routing == "forced",
    "parameters of": lambda job, one, recipe: recipe.parameter_B != 2,
    "optimizer ": lambda job, one, recipe: recipe.optimizer not in ("adam", "adamw"),
}  # fmt: skip
TORCHTITAN: dict[str, Condition] = BOTH | {
    "zero 1:": lambda job, one, recipe: one.zero == 1,
    "zero 0 (DDP)": lambda job, one, recipe: one.zero == 0 and one.dp > 1 and one.tp * one.pp * one.cp * one.ep > 1,
    "shard needs": lambda job, one, recipe: one.zero == 0 and one.shard > 0,
    "tp without": lambda job, one, recipe: one.tp > 1 and not one.sequence_parallel,
    "must be a multiple of cp": lambda job, one, recipe: one.shard % one.cp,
    "shard/cp must divide": lambda job, one, recipe: one.shard and one.dp % max(1, one.shard // one.cp),
    "experts are cut like": lambda job, one, recipe: one.etp not in (0, 1, one.tp),
    "needs ep above": lambda job, one, recipe: one.ep == 1 and one.etp not in (0, one.tp),
    "must take all of cp": lambda job, one, recipe: one.ep > 1 and borrowed_wrongly(one),
    "once per node": lambda job, one, recipe: one.ep > 1 and recipe.exchange == "node",
    ": torch has": lambda job, one, recipe: one.pp > 1 and one.schedule in ("zb-h1", "dualpipe", "chimera"),
    "torch needs at least as many": lambda job, one, recipe: (
        one.pp > 1 and one.schedule == "1f1b" and recipe.batch // (one.dp * one.micro_batch) < one.pp
    ),
    "one chunk per device": lambda job, one, recipe: (
        one.pp > 1 and one.vpp == 1 and one.schedule in ("interleaved", "zb-v", "dualpipe-v")
    ),
    "compiled layers: torch": lambda job, one, recipe: (
        one.pp > 1 and recipe.fused_elementwise and one.schedule in ("zb-v", "dualpipe-v")
    ),
    "dualpipe-v with expert": lambda job, one, recipe: (
        one.pp > 1 and one.ep > 1 and one.schedule == "dualpipe-v" and one.recompute != "none"
    ),
    "must divide them": lambda job, one, recipe: recipe.seq % (2 * one.tp * one.cp),
    "key and value heads": lambda job, one, recipe: one.tp > 8,
    "async without compiled": lambda job, one, recipe: (
        one.tp > 1 and recipe.overlap_tp == "async" and not recipe.fused_elementwise
    ),
    "hold equally many": lambda job, one, recipe: job.layers % (one.pp * one.vpp),
    "recompute selective": lambda job, one, recipe: one.recompute == "selective",
    "offload optimizer:": lambda job, one, recipe: one.offload == "optimizer",
    "matrix products in": lambda job, one, recipe: recipe.dtype != "bf16",
    "gradients are reduced": lambda job, one, recipe: {recipe.reduce_B or 4, recipe.gradient_B} != {4},
    "always overlap their": lambda job, one, recipe: not recipe.overlap_dp and one.dp * one.cp > 1,
    "userbuffers": lambda job, one, recipe: recipe.overlap_tp == "all" and one.tp > 1,
    "attention is always": lambda job, one, recipe: not recipe.flash_attention,
    "no dropout": lambda job, one, recipe: recipe.dropout,
}
OF_EXPERTS = ("experts are cut like", "needs ep above", "must take all of cp", "once per node")
DEEPSPEED: dict[str, Condition] = BOTH | {
    "cp=": lambda job, one, recipe: one.cp > 1,
    "ep=": lambda job, one, recipe: one.ep > 1,
    "etp=": lambda job, one, recipe: one.etp > 0,
    "sequence parallelism": lambda job, one, recipe: one.sequence_parallel,
    "AutoTP (tp) works with": lambda job, one, recipe: one.tp > 1 and one.zero == 3,
    "AutoTP (tp) does not": lambda job, one, recipe: one.tp > 1 and one.pp > 1,
    "pipelines work with": lambda job, one, recipe: one.pp > 1 and one.zero > 1,
    "schedule": lambda job, one, recipe: one.pp > 1 and (one.schedule, one.vpp) != ("1f1b", 1),
    "hold equally many": lambda job, one, recipe: one.pp > 1 and job.layers % one.pp,
    "shard=": lambda job, one, recipe: one.shard > 0,
    "offload needs": lambda job, one, recipe: one.offload != "none" and one.zero == 0,
    "offloaded parameters": lambda job, one, recipe: one.offload == "parameters" and one.zero != 3,
    "recompute": lambda job, one, recipe: one.recompute == "selective",
    "matrix products in": lambda job, one, recipe: recipe.dtype == "fp8",
    "gradients must have": lambda job, one, recipe: {recipe.gradient_B, recipe.reduce_B or recipe.gradient_B} - {2, 4},
    "tensor-parallel traffic": lambda job, one, recipe: recipe.overlap_tp in ("all", "async"),
    "pipeline sends": lambda job, one, recipe: recipe.overlap_pp and one.pp > 1,
}
LAYOUTS: dict[str, tuple[Any, ...]] = {
    "dp": (1, 2, 4, 6, 8, 32), "tp": (1, 1, 2, 16), "pp": (1, 1, 2, 3), "cp": (1, 1, 1, 2),
    "ep": (1, 1, 2, 4), "vpp": (1, 2), "etp": (0, 0, 1, 2, 4),
    "zero": (0, 0, 1, 2, 3, 3), "shard": (0, 0, 0, 2, 3, 4), "sequence_parallel": (False, True),
    "schedule": ("1f1b", "1f1b", "gpipe", "zb-h1", "interleaved", "zb-v", "dualpipe-v"),
    "recompute": ("none", "none", "selective", "full"),
    "offload": ("none", "none", "optimizer", "parameters"), "order": (AXES, AXES, AXES[::-1]),
}  # fmt: skip
RECIPES: dict[str, tuple[Any, ...]] = {
    "seq": (2048, 4096, 4096, 4100), "fused_elementwise": (True, True, False),
    "dtype": ("bf16", "bf16", "fp16", "fp8"), "gradient_B": (4.0, 4.0, 2.0), "reduce_B": (None, None, 2.0, 4.0, 1.0),
    "optimizer": ("adamw", "adam", "lion"),
    "overlap_dp": (True, True, False), "overlap_tp": ("gradients", "none", "all", "async"), "overlap_pp": (False, True),
    "flash_attention": (True, True, False), "dropout": (False, False, True), "cached_B": (None, None, 1.0),
    "routing": ("balanced", "natural", "forced"), "exchange": (None, None, "copy", "node"),
    "dispatch_B": (None, None, 1.0), "cached_attention_B": (None, None, 1.0), "parameter_B": (2.0, 2.0, 4.0),
    "offload_layers": (0, 0, 2, "all"),
}  # fmt: skip


def reasons(target: ModuleType, job: Job, layout: Layout) -> list[str]:
    """All reasons against an export."""
    try:
        target._refuse(SimpleNamespace(job=job, layout=layout))
    except Infeasible as refused:
        return [one.why for one in refused.violations]
    return []


@pytest.mark.parametrize(("target", "conditions"), [(torchtitan, TORCHTITAN), (deepspeed, DEEPSPEED)])
@pytest.mark.parametrize("dense", [True, False])
def test_export_refusals_appear_exactly_where_their_condition_holds(
    target: ModuleType, conditions: Mapping[str, Condition], dense: bool
) -> None:
    draw, known, seen = random.Random(7), DENSE if dense else EXPERTS, set[tuple[str, bool]]()
    conditions = {words: one for words, one in conditions.items() if not (dense and words in OF_EXPERTS)}
    for _ in range(600):
        layout = Layout(**{name: draw.choice(values) for name, values in LAYOUTS.items()})
        recipe = known.recipe.having(**{name: draw.choice(values) for name, values in RECIPES.items()})
        job = Job(known.model, recipe, known.devices)
        said = reasons(target, job, layout)
        for words, condition in conditions.items():
            holds = bool(condition(job, layout, recipe))
            assert any(words in one for one in said) == holds, (words, layout, recipe)
            seen.add((words, holds))
        assert all(any(words in one for words in conditions) for one in said), said
    assert len(seen) == 2 * len(conditions), "each of them stood and did not"
