"""Targets of LoRA as Megatron Core calls its layers, whose joint layers have one A and one dropout."""

import pytest

import lockstep
from lockstep.base.errors import UnknownName
from lockstep.describe.workload.adapter_words import read_adapters

ASKED = {"seq": 4096, "micro_batch": 1, "batch": 8, "zero": 1, "recompute": "none", "stack": "megatron-te"}


def kept_B(targets: str, dropout: float) -> float:
    train = f"lora:r=16,targets={targets},dropout={dropout:g}"
    return float(lockstep.memory("llama2-7b", "dgx-h100:1", train=train, **ASKED).memory.activations_B)


@pytest.mark.parametrize(
    ("megatron", "ours"),
    [
        ("linear_qkv+linear_proj", "qkv_proj+o_proj"),
        ("linear_qkv", "qkv"),
        ("linear_fc1+linear_fc2", "gate_up_proj+down_proj"),
    ],
)
def test_names_of_megatron_are_understood(megatron: str, ours: str) -> None:
    assert read_adapters(f"lora:r=8,targets={megatron}") == read_adapters(f"lora:r=8,targets={ours}")


def test_other_names_of_that_kind_are_not() -> None:
    with pytest.raises(UnknownName, match="linear_fc3"):
        read_adapters("lora:r=8,targets=linear_fc3")


def test_a_joint_layer_has_one_dropout() -> None:
    """Of 32 layers, 4,096 tokens of width 4,096: what is left of the input in half precision, and a mask."""
    once_B = 32 * 4096 * 4096 * (2 + 1)
    assert kept_B("linear_qkv", 0.1) - kept_B("linear_qkv", 0.0) == pytest.approx(once_B)
    assert kept_B("q+k+v", 0.1) - kept_B("q+k+v", 0.0) == pytest.approx(3 * once_B)
