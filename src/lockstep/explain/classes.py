"""What a kernel does: `classify`, by its name and by the operator that launched it, as `classes.toml` says.

Names first, generated kernels (Triton's) before all others that compute, as their names list what was fused into them.
Then the launching operator. What neither knows is of the class `unknown`, and readers report its share.
"""

from __future__ import annotations

import re
from functools import cache

from lockstep.base.documents.shipped import shipped_table

CLASSES = ("matmul", "attention", "norm", "elementwise", "optimizer", "unknown", "copy", "communication")
"""In the order in which a moment with several kernels counts; the last one is no computation."""
COMMUNICATION = CLASSES.index("communication")
UNKNOWN = CLASSES.index("unknown")
OWN = re.compile(r"^lockstep::(\w+)")
"""Kernels of traces that Lockstep writes say their class."""
FUSED_ATTENTION = re.compile(r"flash|fmha|sdpa|flex_attention", re.IGNORECASE)
SOFTMAX = re.compile(r"softmax_warp|cunn_SoftMax|scaled_.*softmax", re.IGNORECASE)
UNFUSED_PRODUCTS = re.compile(r"::(bmm|baddbmm)(_|$)")

OPS = {
    "all-reduce": "all_?reduce|userbuffers_.*_gpu_(rw|rr|mc)(?![a-z_])",
    "reduce-scatter": "reduce_?scatter|userbuffers_.*_gpu_.*_rs(?![a-z])",
    "all-gather": "all_?gather|userbuffers_.*_gpu_.*_ag(?![a-z])",
    "all-to-all": "all_?to_?all|alltoall|dispatch|combine", "broadcast": "broadcast", "reduce": "reduce",
    "send": "send(?!_?recv)", "recv": "(?<!send)(?<!send_)recv", "send-recv": "send_?recv", "barrier": "barrier",
    "gather": "gather", "scatter": "scatter",
}  # fmt: skip
"""Collectives -> how kernels and records of parameters call them; the first that is found.

Kernels over user buffers: NVIDIA/TransformerEngine, transformer_engine/common/comm_gemm_overlap/userbuffers.
"""


@cache
def _tables() -> tuple[tuple[tuple[int, re.Pattern[str]], ...], ...]:
    """(class, pattern) of names and of operators, in order."""
    data = shipped_table(__package__, "classes.toml")
    return tuple(
        tuple((CLASSES.index(row["name"]), re.compile("|".join(row["patterns"]), re.IGNORECASE)) for row in data[part])
        for part in ("class", "operator")
    )


@cache
def class_of(name: str, operator: str = "") -> int:
    """Index in `CLASSES` of a kernel called `name`, launched by `operator` where that is known."""
    names, operators = _tables()
    if own := OWN.match(name):
        return CLASSES.index(own[1]) if own[1] in CLASSES else UNKNOWN
    for index, pattern in names:
        if pattern.search(name):
            return index
    return next((index for index, pattern in operators if operator and pattern.search(operator)), UNKNOWN)


@cache
def op_of(text: str) -> str:
    """The collective that a kernel or a record of parameters names; empty where none is known."""
    return next((op for op, pattern in OPS.items() if re.search(pattern, text, re.IGNORECASE)), "")
