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
