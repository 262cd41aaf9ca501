"""MosaicML's llm-foundry benchmark tables of April 2024 and July 2023: steps of MPT models under FSDP on A100 and H100.

Models: MPT with learned positions as long as the sequence, biases and tied embeddings (the printed parameter counts
follow exactly). Mixed precision DEFAULT reduces gradients in fp32, PURE in bf16. Elementwise kernels are PyTorch's own.
Nothing was fitted to the tables of 2023.
"""

from __future__ import annotations

from lockstep.check.validation.case import Case, Table, read_rows, step_time_s
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import Attention, Mlp, Transformer
from lockstep.price.layout import Job, Layout, Recipe

SOURCE = "mosaicml/llm-foundry@495218376, scripts/train/benchmarking/README.md (2024-04-22); half of its rows"
OLDER_SOURCE = "mosaicml/llm-foundry@c6cfb4284, scripts/train/benchmarking/README.md (2023-07-21); rows dropped since"
CLUSTERS = {"h100_80gb": "cloud-h100", "a100_80gb": "oci-a100-80gb", "a100_40gb": "oci-a100-40gb"}


def mpt(row: dict[str, str]) -> Transformer:
    """The MPT model of a row."""
    hidden, heads = int(row["hidden"]), int(row["heads"])
    return Transformer(
        name=row["model"],
        layers=int(row["layers"]),
        hidden=hidden,
        vocab=int(row["vocab"]),
        attention=Attention(heads=heads, kv_heads=heads, head_dim=hidden // heads, qkv_bias=True, out_bias=True),
        mlp=Mlp(ffn=int(row["ffn_mult"]) * hidden, gated=False, activation="gelu", in_bias=True, out_bias=True),
        positions="learned",
        max_positions=int(row["seq_len"]),
        norm="layernorm",
        tied_embeddings=True,
    )


AFTER_PYTORCH_2_1 = "amp_bf16"
"""Precision of the rows of 2024. Those of A100 with 40 GB, and others of "bf16", stand as they did in July 2023, before
PyTorch 2.1, whose checkpointing, which llm-foundry uses without re-entry (submit_benchmarks.py), stops early. Layers of
Transformer Engine, of "amp_fp8", re-enter (train.py warns of it)."""


def _case(row: dict[str, str]) -> Case:
    devices = int(row["n_gpus"])
    recipe = Recipe.by(
        "fsdp-eager",
        recompute_stops=row["precision"] == AFTER_PYTORCH_2_1,
        seq=int(row["seq_len"]),
        batch=int(row["global_batch_seqs"]),
        dtype="fp8" if row["precision"] == "amp_fp8" else "bf16",
        gradient_B=4.0,
        reduce_B=2.0 if row["fsdp_mixed_precision"] == "PURE" else 4.0,
    )
    layout = Layout(
        dp=devices,
        micro_batch=int(row["micro_batch_per_gpu_seqs"]),
        zero=3 if row["fsdp_sharding"] == "FULL_SHARD" else 2,
        recompute="full" if row["activation_ckpt"] == "True" else "none",
    )
    return Case(
        row=f"{row['row_id']} {row['model']} seq {row['seq_len']} x{devices} {row['gpu_type']}",
        quantity="step_time_s",
        measured=float(row["step_time_s_derived"]),
        job=Job(mpt(row), recipe, devices),
        cluster=cluster(CLUSTERS[row["gpu_type"]], gpus=devices),
        layout=layout,
        predict=step_time_s,
    )


def cases() -> tuple[Case, ...]:
    """One case per row."""
    return tuple(_case(row) for row in read_rows("llm_foundry_mpt.csv"))


def older_cases() -> tuple[Case, ...]:
    """The same of the tables of 2023."""
    return tuple(_case(row) for row in read_rows("llm_foundry_mpt_2023.csv"))


OLDER = Table("llm_foundry_mpt_2023", "step_time_s", OLDER_SOURCE, 0.05, older_cases)
TABLE = Table("llm_foundry_mpt", "step_time_s", SOURCE, 0.10, cases)
