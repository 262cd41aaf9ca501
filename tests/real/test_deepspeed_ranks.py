"""DeepSpeed is asked for the order of its pipeline, for the buffers that it keeps activations in, and for the ranks of
its groups: by its topology of stages, data and models, and by the lists from which it makes groups of experts.
"""

from __future__ import annotations

from typing import Any

from agreement import Asker
from drawn_layouts import Groups, compare_places, drawn, name_of

from lockstep.price.layout import AXES, Layout, process_groups
from lockstep.simulate.parallel import pipeline as pipelines

BUFFERS = "DeepSpeed keeps at least two buffers, of which a stage with one micro-batch in flight fills one"
ORDERS, HELD = "orders of passes of pipelines", "micro-batches that a stage has buffers for"
RANKS, PLACES = "ranks of groups", "levels of a cluster that groups lie over"


def passes_of(schedule: Any) -> list[tuple[str, int, int]]:
    """The passes that a schedule tells, each with the micro-batch whose turn it is."""
    counts, found = {"F": 0, "B": 0}, []
    for commands in schedule.steps():
        for kind in (type(command).__name__[0] for command in commands if type(command).__name__.endswith("Pass")):
            found.append((kind, counts[kind], 0))
            counts[kind] += 1
    return found


def test_orders_are_those_of_deepspeed(asked: Asker) -> None:
    from deepspeed.runtime.pipe.schedule import TrainSchedule

    one = pipelines.get("1f1b")
    numbers = [(stages, microbatches) for stages in range(1, 9) for microbatches in range(1, 3 * stages + 2)]
    with asked("deepspeed", ORDERS) as orders, asked("deepspeed", HELD) as buffers:
        for stages, microbatches in numbers:
            theirs = [TrainSchedule(microbatches, stages, stage) for stage in range(stages)]
            ours = one.order(stages, microbatches, 1)
            orders.compare(f"{stages} x {microbatches}", ours, [passes_of(schedule) for schedule in theirs])
            for stage, schedule in enumerate(theirs):
                live = int(one.peak_live(stages, microbatches, 1, stage))
                case, why = f"{stages} x {microbatches}, stage {stage}", BUFFERS if live == 1 else ""
                buffers.compare(case, live, schedule.num_pipe_buffers(), why=why)


def groups_of(layout: Layout) -> dict[str, Groups]:
    """DeepSpeed's groups by Lockstep's kind: experts are cut as dense layers are."""
    from deepspeed.runtime.pipe.topology import PipeModelDataParallelTopology
    from deepspeed.utils.groups import _get_expert_parallel_ranks

    topology = PipeModelDataParallelTopology(layout.pp, layout.tp, layout.dp)
    experts = _get_expert_parallel_ranks(layout.world, layout.tp, layout.ep, layout.pp)
    lists = {kind: topology.get_axis_comm_lists(axis) for kind, axis in
             (("pp", "pipe"), ("tp", "model"), ("dp", "data"))}  # fmt: skip
    found = {**lists, "ep": experts[0], "expert_data": experts[1]}
    return {kind: sorted(sorted(ranks) for ranks in groups) for kind, groups in found.items() if groups}


def test_groups_are_those_of_deepspeed(asked: Asker) -> None:
    cases = {
        Layout(tp=one.tp, dp=one.dp * one.cp, pp=one.pp, ep=ep, order=AXES)
        for one in drawn(40, seed=63)
        for ep in range(1, one.dp * one.cp + 1)
        if one.dp * one.cp % ep == 0
    }
    with asked("deepspeed", RANKS) as answers, asked("deepspeed", PLACES) as places:
        for layout in cases:
            groups = groups_of(layout)
            for kind, theirs in groups.items():
                answers.compare(f"{name_of(layout)}, {kind}", process_groups(layout, kind), theirs)
            compare_places(places, layout, groups)
