"""Which ranks divide optimizer states: ZeRO from stage 1 on, and DeepSpeed's pipeline engine in bf16 at every stage."""

import numpy as np
import pytest

from lockstep.decide.planner.estimate import estimate
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout, Recipe, memory
from lockstep.price.step import price_step

MACHINE, MODEL = cluster("dgx-a100-80gb:1"), model("llama3.2-1b")


def job(stack: str, dtype: str) -> Job:
    return Job(MODEL, Recipe.by(stack, seq=2048, batch=32, dtype=dtype), 8)


def optimizer_B(stack: str, dtype: str, zero: int) -> float:
    layout = Layout(dp=8, zero=zero, micro_batch=1)
    return float(np.asarray(memory(job(stack, dtype), MACHINE, layout.grid()).optimizer_B).item())


def test_the_pipeline_engine_of_deepspeed_divides_states_in_bf16_at_stage_0() -> None:
    assert optimizer_B("megatron-deepspeed", "bf16", 0) == optimizer_B("megatron-deepspeed", "bf16", 1)


@pytest.mark.parametrize(
    ("stack", "dtype"), [("megatron-deepspeed", "fp16"), ("deepspeed", "bf16"), ("megatron-te", "bf16")]
)
def test_states_are_whole_at_stage_0_otherwise(stack: str, dtype: str) -> None:
    assert optimizer_B(stack, dtype, 0) == pytest.approx(8 * optimizer_B(stack, dtype, 1), rel=1e-6)


def test_the_answer_says_so() -> None:
    said = {
        zero: estimate(job("megatron-deepspeed", "bf16"), MACHINE, Layout(dp=8, zero=zero)).assumptions()
        for zero in (0, 1)
    }
    assert [any("at ZeRO 0 as at ZeRO 1" in line for line in said[zero]) for zero in (0, 1)] == [True, False]


def test_both_stages_of_it_send_as_much() -> None:
    steps = [price_step(job("megatron-deepspeed", "bf16"), MACHINE, Layout(dp=8, zero=zero).grid()) for zero in (0, 1)]
    assert float(np.asarray(steps[0].dp_comm_s).item()) == pytest.approx(float(np.asarray(steps[1].dp_comm_s).item()))


@pytest.mark.parametrize("zero", [1, 3])
@pytest.mark.parametrize("ep", [1, 2, 8])
def test_a_rank_of_a_copy_holds_what_it_holds_in_a_run_of_that_copy_alone(zero: int, ep: int) -> None:
    """Of experts too: two copies of 16 ranks are two runs of 16 ranks that reduce their gradients together."""
    found = []
    for dp, shard in ((16, 8), (8, 0)):
        layout = Layout(tp=2, dp=dp, ep=ep, etp=1, zero=zero, shard=shard, sequence_parallel=True, recompute="full")
        recipe = Recipe(seq=2048, batch=dp)
        held = memory(Job(model("mixtral-8x7b"), recipe, 2 * dp), cluster(f"dgx-h100:{dp // 4}"), layout.grid())
        parts = held.parameters_B, held.gradients_B, held.optimizer_B, held.total_B
        found.append([float(np.asarray(part_B).item()) for part_B in parts])
    assert found[0] == pytest.approx(found[1], rel=1e-12)


def test_copies_of_one_rank_reduce_what_replicas_do() -> None:
    """A copy that no ranks share gathers nothing, and adds its gradients to those of the others: experts' too."""
    job = Job(model("mixtral-8x7b"), Recipe(seq=2048, batch=4, overlap_dp=False), 32)
    priced = []
    for zero, shard in ((0, 0), (3, 1)):
        layout = Layout(tp=8, dp=4, ep=8, etp=1, zero=zero, shard=shard, sequence_parallel=True, recompute="full")
        step = price_step(job, cluster("dgx-h100:4"), layout.grid())
        priced.append(float(np.asarray(step.dp_comm_s).item()))
    assert priced[1] == pytest.approx(priced[0])
