"""InternLM-7B with InternEvo on 8 to 1,024 A100 80 GB (train_performance.md): ZeRO-1 over all ranks or over groups.

Four ports of 100 Gbit/s RoCE per node. Groups of ZeRO-1 (`zero1_shard_group`) hold a copy of the optimizer states each.
FlashAttention of 2022 and norms of fp32 copies, as its release of July 2023 has them. Nothing of it was fitted.
"""

from __future__ import annotations

from dataclasses import replace

from lockstep.check.validation.case import Case, Table, read_rows, step_time_s
from lockstep.describe.hardware import Cluster, cluster, link
from lockstep.describe.workload import Attention, Mlp, Transformer
from lockstep.price.layout import Job, Layout, Recipe

SOURCE = "InternLM/InternEvo, doc/en/train_performance.md"
SEQ = 2048
MODEL = Transformer(
    name="internlm-7b",
    layers=32,
    hidden=4096,
    vocab=103168,
    attention=Attention(heads=32, kv_heads=32, head_dim=128, qkv_bias=True, out_bias=True),
    mlp=Mlp(ffn=11008, gated=True, activation="silu"),
    positions="rotary",
    max_positions=SEQ,
    norm="rmsnorm",
    tied_embeddings=False,
)


def cases() -> tuple[Case, ...]:
    """One case per row."""
    return tuple(_case(row) for row in read_rows("internlm_7b_a100.csv"))


def _cluster(devices: int) -> Cluster:
    """Nodes with four ports of 100 Gbit/s; the spread of their speeds is what weak scaling shows."""
    found = cluster("a100-80gb-4xhdr", gpus=devices)
    levels = (found.levels[0], replace(found.levels[1], link=link("roce-100")), *found.levels[2:])
    return replace(found, levels=levels, own_rank_spread_frac=0.021)


def _case(row: dict[str, str]) -> Case:
    devices, tp, batch = int(row["n_gpus"]), int(row["tp"]), int(row["gbs_tokens"]) // SEQ
    group = row["zero1_shard_group"]
    shard = 0 if group == "all DP" or int(group) >= devices // tp else int(group)
    recipe = Recipe.by("internevo", seq=SEQ, batch=batch)
    recompute = "full" if row["activation_ckpt"] == "1" else "none"
    layout = Layout(
        dp=devices // tp, tp=tp, zero=1, shard=shard, micro_batch=int(row["mbs_seqs"]), recompute=recompute
    )  # fmt: skip
    return Case(
        row=f"{row['row_id']} x{devices}",
        quantity="step_time_s",
        measured=batch * SEQ / (float(row["tgs_tokens_per_s_per_gpu"]) * devices),
        job=Job(MODEL, recipe, devices),
        cluster=_cluster(devices),
        layout=layout,
        predict=step_time_s,
    )


TABLE = Table("internlm_7b", "step_time_s", SOURCE, 0.06, cases)
