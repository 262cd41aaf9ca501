"""What the allocator holds beside tensors: never more than there is, never less than they take."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import lockstep
from lockstep.price.layout import FRAMEWORK_B, Memory
from lockstep.price.layout.reserved import KEPT_FRAC, SEGMENTS_FRAC, kept_frac, reserved_B
from lockstep.show.views.memory import reserved_words
from published_data import unpackaged

CAPACITY_B = 8e10


@given(st.floats(1e8, 2e11), st.sampled_from([0.0, SEGMENTS_FRAC, KEPT_FRAC]))
def test_it_lies_between_what_tensors_take_and_what_there_is(allocated_B: float, kept: float) -> None:
    held_B = float(reserved_B(allocated_B, CAPACITY_B, kept))
    assert held_B >= allocated_B
    assert held_B <= max(CAPACITY_B, allocated_B)


def test_blocks_that_grow_leave_less_beside_them() -> None:
    assert 0.0 == kept_frac("xla", False) < kept_frac("eager", True) < kept_frac("eager", False)


def test_a_total_is_tensors_slack_and_framework() -> None:
    found = Memory(1e10, 1e10, 2e10, 1e10, 5e9, capacity_B=CAPACITY_B)
    assert float(found.allocated_B) * 1.05 + FRAMEWORK_B == pytest.approx(float(found.total_B))


def test_the_answer_says_what_tools_show() -> None:
    found = lockstep.memory("llama3-8b", "dgx-h100:1", batch=32, zero=3)
    assert reserved_words(found.memory, "nvidia-smi") in " ".join(str(found).split())
    assert "nvidia-smi" not in str(lockstep.memory("llama3-8b", "dgx-h100:1", batch=32, zero=0))
    assert "nvidia-smi" not in str(lockstep.memory("llama3-8b", "dgx-h100:1", batch=32, zero=3, stack="maxtext"))
    assert "rocm-smi will show" in str(lockstep.memory("llama3-8b", "mi300x-8:1", batch=32, zero=3))


def test_published_ratios_are_as_the_constant_says() -> None:
    """Ranks of BigScience's Megatron, both figures of each printed."""
    rows = unpackaged("bigscience_v100_megatron_rank_memory.csv")
    rows = [row for row in rows if row["max_reserved_mb"] and row["max_allocated_mb"]]
    ratios = [float(row["max_reserved_mb"]) / float(row["max_allocated_mb"]) for row in rows]
    assert np.median(ratios) == pytest.approx(1.0 + KEPT_FRAC, abs=0.03)
