"""InternLM 7B and 20B with InternEvo: memory on 3 to 16 A800 80 GB, one sequence per micro-batch, full recomputation.

What counts the printed "GPU Memory (GB)" is not said: the framework and what the allocator holds are taken to be in it,
and the GB to be 10^9 bytes. Sequences of 2,048 tokens are the default of the configuration (configs/7B_sft.py). An A800
is an A100 with fewer NVLinks, which memory does not feel. With FSDP every state is divided; without it every run here
has one replica, so ZeRO-1 divides nothing.

Gradients are kept in bf16, and fp32 copies of those that a rank updates are made for the update
(internlm/solver/optimizer/hybrid_zero_optim.py, _step, and fsdp_optimizer.py, step): 2 + 2 + 4 + 12 = 20 bytes per
parameter, and 4 that torch's AdamW holds meanwhile. With little else kept, that is when the peak is. Norms and
attention are single kernels, other elementwise kernels PyTorch's own, as in InternEvo's step times. Nothing of it was
fitted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from lockstep.check.validation.case import Case, Table, read_rows
from lockstep.check.validation.internlm import MODEL, SEQ
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import Attention, Mlp, Transformer
from lockstep.price.layout import FRAMEWORK_B, Job, Layout, Recipe, memory

SOURCE = "InternLM/InternEvo, doc/en/train_performance.md, GPU Memory Usage Test (v0.2.1dev20231121)"
FILE = "internevo_memory.csv"
MODELS = {
    "InternLM-7B": MODEL,
    # configs/_base_/models/internlm_20B.py: MLP_RATIO 8/3 of 5,120, up to a multiple of 256.
    "InternLM-20B": replace(
        MODEL,
        name="internlm-20b",
        layers=60,
        hidden=5120,
        attention=Attention(heads=40, kv_heads=40, head_dim=128, qkv_bias=True, out_bias=True),
        mlp=Mlp(ffn=13824, gated=True, activation="silu"),
    ),
}


def cases() -> tuple[Case, ...]:
    """One case per row."""
    return tuple(_case(row) for row in read_rows(FILE))


def left_out() -> Counter[str]:
    """How many rows are left out, by reason: none."""
    return Counter()


def total_B(case: Case) -> float:
    """Bytes on the fullest rank, the framework and what the allocator holds included."""
    return float(memory(case.job, case.cluster, case.layout.grid()).reserved_B) + FRAMEWORK_B


def _layout(row: dict[str, str]) -> Layout:
    devices, tp, pp = (int(row[name]) for name in ("n_gpus", "tp", "pp"))
    zero = 3 if row["fsdp"] == "True" else 1
    return Layout(
        dp=devices // (tp * pp), tp=tp, pp=pp, micro_batch=int(row["mbs"]), zero=zero, recompute=row["activation_ckpt"]
    )


def _case(row: dict[str, str]) -> Case:
    layout, devices = _layout(row), int(row["n_gpus"])
    batch = layout.dp * layout.micro_batch * int(row["micro_num"])
    recipe = Recipe.by("internevo", seq=SEQ, batch=batch, gradient_B=2.0 + 4.0, reduce_B=2.0)
    model: Transformer = MODELS[row["model"]]
    return Case(
        row=f"{row['row_id']} {row['model']} x{devices} {layout}",
        quantity="total_B",
        measured=float(row["gpu_memory_gb"]) * 1e9,
        job=Job(model, recipe, devices),
        cluster=cluster("a100-80gb-4xhdr", gpus=devices),
        layout=layout,
        predict=total_B,
    )


TABLE = Table("internevo_memory", "memory_B", SOURCE, 0.10, cases)
