"""Megatron Core is asked for its process groups: initialize_model_parallel makes them in each order of the ranks, and
its RankGenerator says them also for orders that it does not train in.
"""

from __future__ import annotations

import itertools
from typing import Any
from unittest.mock import patch

from agreement import Asker
from drawn_layouts import LEVELS, Groups, compare_places, drawn, name_of
from pipelines_of_torch import group_of

from lockstep.describe.workload import model
from lockstep.price.layout import AXES, Job, Layout, Recipe, broken_rules, process_groups

MADE = {
    "TENSOR_MODEL_PARALLEL_GROUP": "tp", "CONTEXT_PARALLEL_GROUP": "cp", "DATA_PARALLEL_GROUP": "dp",
    "PIPELINE_MODEL_PARALLEL_GROUP": "pp", "DATA_PARALLEL_GROUP_WITH_CP": "data", "EXPERT_TENSOR_PARALLEL_GROUP": "etp",
    "EXPERT_MODEL_PARALLEL_GROUP": "ep", "EXPERT_DATA_PARALLEL_GROUP": "expert_data",
    "INTRA_PARTIAL_DATA_PARALLEL_GROUP_WITH_CP": "shard",
    "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L0": "expert_shard",
    "HIERARCHICAL_EXPERT_DATA_PARALLEL_GROUP_L1": "expert_replicas",
}  # fmt: skip
"""Lockstep's kind of group, by the name that Megatron gives one."""
TOKENS = (
    {"tp": "tp", "cp": "cp", "dp": "dp", "pp": "pp", "data": "dp-cp"},
    {"etp": "tp", "ep": "ep", "expert_data": "dp"},
)
"""Of RankGenerator, by Lockstep's kind: of dense layers, of experts."""
STAGES, COPIES = "stages hold the same ranks", "shard divides the experts' ranks"
RANKS, PLACES = "ranks of process groups", "levels of a cluster that process groups lie over"
INSIDE = "Megatron Core wants as many data-parallel ranks for attention as for experts where stages are not outermost"
JOB = Job(model("mixtral-8x7b"), Recipe(seq=4096, batch=64), 8)
LAYOUTS = [*drawn(60, shards=True, last="pp"), *drawn(60, shards=True, seed=60), *drawn(30, seed=61)]


def made(layout: Layout) -> dict[str, Groups] | None:
    """The groups that Megatron makes, by Lockstep's kind, in order of the first rank; None where it refuses."""
    from megatron.core import parallel_state

    found: dict[str, Groups] = {}
    create = parallel_state.create_group

    def noted(ranks: Any, *arguments: Any, group_desc: str = "", **more: Any) -> Any:
        found.setdefault(group_desc, []).append(sorted(ranks))
        return create(ranks, *arguments, group_desc=group_desc, **more)

    with group_of(layout.world), patch.object(parallel_state, "create_group", noted):
        try:
            parallel_state.initialize_model_parallel(
                layout.tp, layout.pp, context_parallel_size=layout.cp, expert_model_parallel_size=layout.ep,
                expert_tensor_parallel_size=layout.expert_tp, order="-".join(layout.order),
                num_distributed_optimizer_instances=layout.dp * layout.cp // (layout.shard or layout.dp * layout.cp),
                create_gloo_process_groups=False,
            )  # fmt: skip
        except (AssertionError, RuntimeError):
            return None
        finally:
            parallel_state.destroy_model_parallel()
    return {kind: sorted(found[name]) for name, kind in MADE.items() if name in found}


def test_groups_are_those_that_megatron_makes(asked: Asker) -> None:
    with asked("megatron-core", RANKS) as answers, asked("megatron-core", PLACES) as places:
        for layout in LAYOUTS:
            groups = made(layout)
            for kind, theirs in (groups or {}).items():
                if kind not in LEVELS:
                    answers.compare(f"{name_of(layout)}, {kind}", process_groups(layout, kind), theirs)
            compare_places(places, layout, groups or {})


def test_orders_are_refused_as_by_megatron(asked: Asker) -> None:
    """And numbers of copies; what Lockstep prices and Megatron refuses is not exported."""
    with asked("megatron-core", "orders of ranks, and copies, that are refused") as answers:
        for layout in LAYOUTS:
            broken = broken_rules(layout.grid(), JOB)
            ours, theirs = not (broken[STAGES].any() or broken[COPIES].any()), made(layout) is not None
            apart = layout.order[-1] != "pp" and layout.grid().expert_data_ranks != layout.dp
            answers.compare(name_of(layout), ours, theirs, why=INSIDE if apart and ours and layout.pp > 1 else "")


def test_rank_generators_say_the_same_groups_in_every_order(asked: Asker) -> None:
    from megatron.core.parallel_state import RankGenerator

    sizes = [layout for layout in drawn(4, seed=62) if layout.world > 8]
    with asked("megatron-core", "ranks that RankGenerator says, in all orders of the axes") as answers:
        for order, one in itertools.product(itertools.permutations(AXES), sizes):
            layout = Layout(tp=one.tp, cp=one.cp, dp=one.dp, pp=one.pp, ep=one.ep, etp=one.etp, order=order)
            edp = layout.tp * layout.cp * layout.dp // (layout.ep * layout.expert_tp)
            dense = {"tp": layout.tp, "ep": 1, "dp": layout.dp, "cp": layout.cp}
            experts = {"tp": layout.expert_tp, "ep": layout.ep, "dp": edp, "cp": 1}
            for tokens, degrees in zip(TOKENS, (dense, experts), strict=True):
                generator = RankGenerator(pp=layout.pp, order="-".join(order), **degrees)
                for kind, token in tokens.items():
                    theirs = sorted(map(sorted, generator.get_ranks(token)))
                    answers.compare(f"{name_of(layout)}, {kind}", process_groups(layout, kind), theirs)
