"""Kernel work of casts to fp8 and narrower formats before products, by whose kernels cast (`Recipe.scaling`).

Bytes for each element of a product's input, of the gradient of its output and of its weights:

    delayed   Transformer Engine: an input and a gradient are read once (2) and written by rows and by columns (1 each)
    current   fp8 with scales of the tensor at hand: read once more before, for its largest value (2). Torch's compiler
              writes torchao's casts anew (`COMPILED`): an input takes 4.4, a gradient, with inputs by columns, 9.3
    rows      fp8 with a scale for each row (torchao's rowwise): 4.1 and 33; backward everything is scaled anew by
              columns. FSDP gathers parameters in bf16, and each rank casts them, 3.1 forward and 27 backward. Other
              scales are known before the gather, of parts that are small

Weights of Transformer Engine are cast once a step and cost nothing here.

Sources: NVIDIA/TransformerEngine, pytorch/csrc/quantizer.cpp; pytorch/ao, torchao/float8 (recipes tensorwise and
rowwise, enable_fsdp_float8_all_gather). Times: layers of Llama 3 8B and 70B on two H100 SXM of 700 W, PyTorch 2.11.0
and torchao 0.18.0, 27 November 2026 (compiled_fp8.csv, `tools/fit/compiled_layers.py`).
"""

from __future__ import annotations

from lockstep.base.types.arrays import Number
from lockstep.price.kernels.clock import INPUT_B, Clock, Work

COMPILED = {"current": (4.4, 9.3), "rows": (4.1, 33.0)}
"""Bytes of inputs and gradients where torch's compiler writes the casts."""
WEIGHTS = {"rows": (3.1, 27.0)}
"""Bytes of weights forward and backward."""


def casts(clock: Clock, scaling: str, inputs: Number, gradients: Number, weights: Number = 0) -> tuple[Work, Work]:
    """The work forward and backward, for so many elements."""
    narrow_B = INPUT_B.get(clock.dtype)
    if narrow_B is None:
        return Work(), Work()
    either_B = clock.element_B + 2.0 * narrow_B
    each = either_B, either_B
    if clock.dtype == "fp8" and scaling != "delayed":
        longer_B = either_B + clock.element_B
        each = COMPILED[scaling] if clock.stack.compiled else (longer_B, longer_B)
    there, back = WEIGHTS.get(scaling, (0.0, 0.0)) if clock.dtype == "fp8" else (0.0, 0.0)
    return clock.stream(each[0] * inputs + there * weights), clock.stream(each[1] * gradients + back * weights)
