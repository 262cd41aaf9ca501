"""A frozen base in the narrow format of its products: stored narrow, used as it is."""

import numpy as np
import pytest

import lockstep
from lockstep.price.layout.formats import BASE_B

ASKED = {"seq": 4096, "micro_batch": 1, "batch": 8, "zero": 1, "train": "lora:r=16,targets=attention"}
MACHINES = {"fp8": "dgx-h100:1", "mxfp8": "dgx-b200:1", "nvfp4": "dgx-b200:1"}


def answers(dtype: str, base: str | None) -> tuple[float, float, float]:
    """Bytes of parameters, bytes beside them, and seconds of a step."""
    found = lockstep.estimate("llama3-8b", MACHINES[dtype], dtype=dtype, base=base, **ASKED)
    memory = found.memory
    return float(memory.parameters_B), float(memory.total_B - memory.parameters_B), float(np.asarray(found.step_time_s))


@pytest.mark.parametrize("dtype", MACHINES)
def test_matrices_of_blocks_take_the_bytes_of_the_format(dtype: str) -> None:
    """Llama 3 8B has 6.98e9 parameters in matrices of its blocks: 32 x (2 x 4096 x 5120 + 3 x 4096 x 14336)."""
    wide_B, narrow_B = answers(dtype, None)[0], answers(dtype, dtype)[0]
    matrices = 32 * (2 * 4096 * 5120 + 3 * 4096 * 14336)
    assert wide_B - narrow_B == pytest.approx(matrices * (2.0 - BASE_B[dtype]))


@pytest.mark.parametrize("dtype", MACHINES)
def test_nothing_is_restored_and_nothing_is_cast_for_it(dtype: str) -> None:
    """Only matrices change: what is beside them, and the time, are those of a wide base cast once a step."""
    assert answers(dtype, dtype)[2] == pytest.approx(answers(dtype, None)[2], rel=1e-3)


def test_a_base_in_another_format_than_the_products_is_restored() -> None:
    assert answers("fp8", "nf4")[2] > answers("fp8", "fp8")[2]


def test_the_answer_says_that_matrices_are_used_as_they_are() -> None:
    found = lockstep.estimate("llama3-8b", "dgx-h100:1", dtype="fp8", base="fp8", **ASKED)
    assert any("stored in fp8, 1 B each, and used as they are" in line for line in found.assumptions())
