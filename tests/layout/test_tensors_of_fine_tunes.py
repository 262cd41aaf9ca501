"""Tensors of fine-tuning steps by law; sizes as transformers 5.24, peft 0.21.2 and trl 1.16.0 hold them.

Held to measured steps as a whole in test_real_steps.py.
"""

from __future__ import annotations

import pytest

from lockstep import workload
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import Piece, Transformer, kept_tensors
from lockstep.describe.workload.adapters import read_adapters
from lockstep.price.layout import Job, Layout, Memory, Recipe, memory

MACHINE = cluster("dgx-h200", gpus=1)
MODEL = workload.model("llama3.2-1b")
assert isinstance(MODEL, Transformer)
PARAMETERS = workload.parameters(MODEL).total


def of(stack: str = "trl", recompute: str = "full", model: Transformer = MODEL, **words: object) -> Memory:
    recipe = Recipe.by(stack, **{"seq": 512, "batch": 2, **words})
    return memory(Job(model, recipe, 1), MACHINE, Layout(micro_batch=2, recompute=recompute).grid())


@pytest.mark.parametrize("stack", ["trl", "hf-trainer-5"])
def test_products_in_fp32_read_the_parameters_themselves(stack: str) -> None:
    found = of(stack, dtype="fp32")
    assert float(found.parameters_B) == 4 * PARAMETERS
    # Nor are casts of them among the activations: recomputed layers keep their inputs.
    assert float(found.activations_B) < 4 * MODEL.layers * 2 * 512 * MODEL.hidden * 1.01


def test_the_reference_of_a_model_in_fp32_is_in_fp32_too() -> None:
    assert float(of(dtype="fp32", train="dpo").parameters_B) == 2 * 4 * PARAMETERS


@pytest.mark.parametrize(("dropout", "copies"), [("", 1), (",dropout=0.1", 0)])
def test_adapters_on_fp32_read_what_the_matrix_reads(dropout: str, copies: int) -> None:
    """PEFT casts to fp32, which is no copy here; a dropout makes one, and the matrix is frozen."""
    piece = Piece(micro_batch=1, seq=512, element_B=4.0, adapters=read_adapters(f"lora:r=8{dropout}"))
    found = {one.name: float(one.size_B) for one in kept_tensors(MODEL, piece)}
    assert ("mlp down input" in found) == bool(copies)
    assert MODEL.mlp is not None
    each_B = 8 * 4 + (0 if copies else MODEL.mlp.ffn * (4 + 1))
    assert found["down adapter input"] == 512 * each_B
