"""Optimizers: bytes of state per parameter, by name."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Optimizer:
    """Bytes of state per parameter, in addition to the working parameter and its gradient.

    Matrix parameters and the rest (embeddings, norms, biases) may differ, as in Muon. `master_B` is the fp32 copy of
    a half-precision parameter that the update is applied to.
    """

    name: str
    master_B: float
    matrix_states_B: float
    other_states_B: float
    matmul_flops_factor: float = 0.0
    """FLOPs of the update per matrix parameter and unit of the matrix's smaller side (Muon's orthogonalisation)."""
    source: str = ""
    passing_B: float = 0.0
    """Bytes per parameter that torch's multi-tensor kernels hold besides during an update: the second moment's root
    (torch/optim/adam.py, _multi_tensor_adam)."""

    @property
    def matrix_B(self) -> float:
        """State bytes per matrix parameter, the master copy included."""
        return self.master_B + self.matrix_states_B

    @property
    def other_B(self) -> float:
        """State bytes per embedding, norm or bias parameter, the master copy included."""
        return self.master_B + self.other_states_B


_ADAM = "Kingma and Ba 2015: two fp32 moments; ZeRO (arXiv 1910.02054) section 3.1: 4 B master + 8 B moments"
OPTIMIZERS = {
    optimizer.name: optimizer
    for optimizer in (
        Optimizer("adam", 4.0, 8.0, 8.0, source=_ADAM, passing_B=4.0),
        Optimizer("adamw", 4.0, 8.0, 8.0, source=_ADAM, passing_B=4.0),
        Optimizer(
            "adamw-no-master",
            0.0,
            8.0,
            8.0,
            source="fp32 moments, half-precision parameters updated in place",
            passing_B=4.0,
        ),
        Optimizer(
            "adamw-bf16-moments",
            4.0,
            4.0,
            4.0,
            source="arXiv 2412.19437, section 3.3.3: fp32 master, bf16 moments",
            passing_B=2.0,
        ),
        Optimizer("adamw-bf16", 0.0, 4.0, 4.0, source="moments and parameters in bf16, no master copy", passing_B=2.0),
        Optimizer(
            "adamw-8bit", 4.0, 2.0, 2.0, source="arXiv 2110.02861: both moments in one byte each; block scales left out"
        ),
        Optimizer(
            "adamw-8bit-no-master",
            0.0,
            2.0,
            2.0,
            source="arXiv 2110.02861, half-precision parameters updated in place (bitsandbytes keeps no copy)",
        ),
        Optimizer("sgd", 4.0, 0.0, 0.0, source="fp32 master only"),
        Optimizer("sgd-momentum", 4.0, 4.0, 4.0, source="fp32 master and fp32 momentum"),
        Optimizer("lion", 4.0, 4.0, 4.0, source="arXiv 2302.06675: one fp32 momentum"),
        Optimizer(
            "adafactor", 4.0, 0.0, 0.0, source="arXiv 1804.04235: row and column sums, below 0.01 B per parameter"
        ),
        Optimizer("adafactor-no-master", 0.0, 0.0, 0.0, source="arXiv 1804.04235, parameters updated in place"),
        Optimizer("muon", 4.0, 4.0, 8.0, 30.0, "Jordan 2024: momentum for matrices, Adam for the rest; Newton-Schulz"),
    )
}
