"""Bytes per element of number formats, of what is frozen, adapted, kept or computed with."""

from __future__ import annotations

from typing import NamedTuple

NARROW_B = {"fp8": 1.0, "mxfp8": 1.0 + 1 / 32, "nvfp4": 0.5 + 1 / 16}
"""Bytes per element in a narrow format, its scales included (one byte per 32 or 16 elements)."""
BASE_B = {"nf4": 0.5 + 1 / 64 * (1 + 4 / 256), "nf4-single": 0.5 + 4 / 64, "int8": 1.0, "gptq": 0.5 + 2.5 / 128}
BASE_B |= NARROW_B
"""Bytes per element of a frozen matrix: nf4 with scales of 64 elements quantised to one byte, and those of 256 in four
(QLoRA, arXiv 2305.14314, section 3); nf4-single with scales in fp32 (without QLoRA's double quantisation); int8 with a
scale per row (arXiv 2208.07339); GPTQ in four bits with groups of 128, a half-precision scale and a zero each (arXiv
2210.17323); the narrow formats of products, in which Transformer Engine stores matrices (fp8_model_init)."""
NF4 = ("nf4", "nf4-single")
BITSANDBYTES = (*NF4, "int8")
ADAPTER_B = 4.0
"""Bytes of an adapter's element, and of its gradient, in PEFT."""
NOT_TRAINED = {
    "int8": "a step's products need a floating-point format: bf16, fp16 or, if the device has them, fp8, mxfp8, nvfp4"
}
"""Formats of `Device.peak_flops` that nothing here is trained in, and what to say instead: integers serve inference."""
ACTIVATION_B = {"fp64": 8.0, "fp32": 4.0, "tf32": 4.0}
"""Bytes per activation element where products run in a wide format: tf32 rounds inside the unit, memory holds fp32."""


class ElementBytes(NamedTuple):
    """Bytes of one trained element."""

    parameter_B: float
    gradient_B: float
    wire_B: float
    """Of its gradient when gradients are reduced."""
    master_B: float
