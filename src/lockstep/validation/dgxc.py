"""NVIDIA's DGX Cloud benchmarking recipes: dense models trained by NeMo on 8 to 2,048 H100, some with fewer layers.

Of 248 rows 155 are described here. Left out, and counted by `left_out`: models with experts, JAX (its sharding and its
recomputation by operation), fine-tuning of adapters or of packed short sequences. Nothing of it was fitted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from lockstep.hardware import cluster
from lockstep.layout import Job, Layout, Recipe
from lockstep.validation.case import Case, Table, read_rows, step_time_s
from lockstep.workload import Attention, Mlp, Transformer, model

SOURCE = "NVIDIA/dgxc-benchmarking, v24.11.1 to v25.04.02; its dense pre-training with NeMo"
CATALOG = {
    "llama3.1-8b": "llama3-8b",
    "llama3.1-70b": "llama3-70b",
    "llama3.1-405b": "llama3-405b",
    "gpt3-175b": "gpt3-175b",
}


def cases() -> tuple[Case, ...]:
    """One case per row that can be described."""
    return tuple(_case(row) for row in read_rows("dgxc_benchmarking.csv") if not _why_not(row))


def left_out() -> Counter[str]:
    """How many rows are left out, by reason."""
    return Counter(why for row in read_rows("dgxc_benchmarking.csv") if (why := _why_not(row)))


def _why_not(row: dict[str, str]) -> str:
    if row["mode"] != "pretrain":
        return "fine-tuning"
    if "JAX" in row["stack"]:
        return "JAX"
    return "experts" if row["model"].startswith("grok") else ""


def _model(row: dict[str, str]) -> Transformer:
    """The model of a row: of the catalog with the row's layers, or Nemotron-4, whose feed-forward is not gated."""
    layers, hidden, heads = (int(row[name]) for name in ("layers", "hidden", "heads"))
    known = model(CATALOG[row["model"]]) if row["model"] in CATALOG else None
    if isinstance(known, Transformer):
        return replace(known, layers=layers)
    return Transformer(
        name=row["model"],
        layers=layers,
        hidden=hidden,
        vocab=int(row["vocab"]),
        attention=Attention(heads=heads, kv_heads=int(row["kv_heads"]), head_dim=hidden // heads),
        mlp=Mlp(ffn=int(row["ffn"]), gated=False, activation="gelu"),
        positions="rotary",
        max_positions=int(row["seq_len"]),
        norm="layernorm",
        tied_embeddings=False,
    )


def _case(row: dict[str, str]) -> Case:
    devices, tp, pp, cp = (int(row[name]) for name in ("n_gpus", "tp", "pp", "cp"))
    vpp = int(row["vp"] or 1) if pp > 1 else 1
    layout = Layout(
        dp=devices // (tp * pp * cp),
        tp=tp,
        pp=pp,
        cp=cp,
        vpp=vpp,
        schedule="interleaved" if vpp > 1 else "1f1b",
        micro_batch=int(row["mbs"]),
        zero=1,
        sequence_parallel=tp > 1,
        recompute=row["recompute"],
    )
    recipe = Recipe(
        seq=int(row["seq_len"]), batch=int(row["gbs_seqs"]), dtype=row["precision"].lower(), overlap_tp="all",
        overlap_pp=vpp > 1,
    )  # fmt: skip
    return Case(
        row=f"{row['row_id']} {row['model']} x{devices} {row['precision']}",
        quantity="step_time_s",
        measured=float(row["step_time_s"]),
        job=Job(_model(row), recipe, devices),
        cluster=cluster("dgx-h100", gpus=devices),
        layout=layout,
        predict=step_time_s,
    )


TABLE = Table("dgxc_nemo", "step_time_s", SOURCE, 0.15, cases)
