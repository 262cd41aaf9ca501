"""NVIDIA's DGX Cloud benchmarking recipes: training with NeMo and MaxText on 8 to 2,048 H100, some with fewer layers.

Of 248 rows 235 are described here: 155 of dense models by NeMo, 38 of Grok-1 and 22 by MaxText, and 20 of fine-tuning,
tables of their own. Left out, and counted by `left_out`: Paxml, whose sharding is not printed. Nothing of the others
was fitted.

Fine-tuning, of all parameters or of one adapter on queries, keys and values (the recipes' performance mode, with rank
8: nemo/collections/llm/recipes/llama3_8b.py and llama3_70b.py), packs samples of SQuAD, which are assumed to take 200
tokens each, into sequences. With adapters these recipes do not fuse the loss (cross_entropy_loss_fusion False) and
overlap no tensor-parallel traffic (tp_comm_overlap False; llama3/finetuning/llama3_finetune.py leaves it so).

Grok-1's recipe (grok1/grok1_314b.yaml and configure.sh of the same repository) pads every expert's input to a capacity
of one, so that experts get equally many tokens, sends each copy of a token by itself (the all-to-all dispatcher) and
cuts experts over the tensor-parallel ranks; the release of May 2025 prints that they are whole.

Switches are those of the recipes' own files: gradients are kept and reduced in bf16 (grad_sync_dtype); tensor-parallel
traffic overlaps in pieces, with Nemotron-4 and Grok-1 too, whose configure.sh overrides the files beside it
(ub_tp_comm_overlap), as do later recipes (NVIDIA/NeMo, recipes/nemotron4_340b.py, tp_comm_overlap; Grok-1's of May 2025
is taken alike); GPT-3 has dropout (nemo_megatron/gpt3_175b_hydra.yaml). Until v25.02, on NeMo 24.09, configure.sh
of GPT-3, Nemotron-4 340B and Grok-1 turns cuDNN's attention off (NVTE_FUSED_ATTN=0), which leaves FlashAttention, taken
as the second; and Grok-1's experts are run one after another (moe_grouped_gemm false). Later recipes, of NeMo 2,
compute nothing again.

MaxText's remat policies are those of its configure.sh. Of Llama 2, November 2024, the projections around attention are
kept (`save_dot_except_mlp`, and `save_dot_except_mlpwi`, which names the feed-forward block's output besides, though no
backward pass reads it); of Llama 3.1, with 8,192 tokens, queries, keys and values alone (`save_qkv_proj`).
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from lockstep.base.types.plain import Json
from lockstep.check.validation.case import Case, Table, read_rows, step_time_s
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import Attention, Experts, Mlp, Transformer, model
from lockstep.price.layout import Job, Layout, Recipe

SOURCE = "NVIDIA/dgxc-benchmarking, v24.11.1 to v25.04.02; its dense models with NeMo"
EXPERTS_SOURCE = "NVIDIA/dgxc-benchmarking, v24.11.1 to v25.05.05; its pre-training of Grok-1 with NeMo"
MAXTEXT_SOURCE = "NVIDIA/dgxc-benchmarking, v24.11.1 and v25.02; its pre-training with MaxText, JAX on GPUs"
TUNING_SOURCE = "NVIDIA/dgxc-benchmarking, v25.02; its fine-tuning of Llama 3 with NeMo"
SAMPLE_TOKENS = 200
SAVED_QKV = ("core_attn", "context", "out_proj", "layernorm", "mlp")
"""What MaxText's policies that save queries, keys and values alone run again."""
EARLY, WITHOUT_CUDNN = ("v24.11.1", "v25.02"), ("gpt3-175b", "nemotron4-340b", "grok1-314b")
CATALOG = {
    "llama2-70b": "llama2-70b",
    "llama3-8b": "llama3-8b",
    "llama3-70b": "llama3-70b",
    "llama3.1-8b": "llama3-8b",
    "llama3.1-70b": "llama3-70b",
    "llama3.1-405b": "llama3-405b",
    "gpt3-175b": "gpt3-175b",
}


def cases() -> tuple[Case, ...]:
    """One case per row of a dense model that can be described."""
    return tuple(_case(row) for row in _nemo() if not row["ep"] and row["mode"] == "pretrain")


def tuning_cases() -> tuple[Case, ...]:
    """The same of fine-tuning."""
    return tuple(_case(row) for row in _nemo() if row["mode"] != "pretrain")


def expert_cases() -> tuple[Case, ...]:
    """The same of Grok-1."""
    return tuple(_case(row) for row in _nemo() if row["ep"])


def maxtext_cases() -> tuple[Case, ...]:
    """The same of MaxText."""
    return tuple(_maxtext_case(row) for row in _described() if _is_maxtext(row))


def _nemo() -> list[dict[str, str]]:
    return [row for row in _described() if not _is_maxtext(row)]


def _described() -> list[dict[str, str]]:
    return [row for row in read_rows("dgxc_benchmarking.csv") if not _why_not(row)]


def left_out() -> Counter[str]:
    """How many rows are left out, by reason."""
    return Counter(why for row in read_rows("dgxc_benchmarking.csv") if (why := _why_not(row)))


def _why_not(row: dict[str, str]) -> str:
    return "sharding not printed" if "Paxml" in row["stack"] else ""


def _is_maxtext(row: dict[str, str]) -> bool:
    return "MaxText" in row["stack"]


def _model(row: dict[str, str]) -> Transformer:
    """The model of a row: of the catalog with the row's layers, Nemotron-4 with a plain feed-forward, or Grok-1."""
    layers, hidden, heads = (int(row[name]) for name in ("layers", "hidden", "heads"))
    known = model(CATALOG[row["model"]]) if row["model"] in CATALOG else None
    if isinstance(known, Transformer):
        return replace(known, layers=layers)
    ffn, grok = int(row["ffn"]), bool(row["ep"])
    return Transformer(
        name=row["model"],
        layers=layers,
        hidden=hidden,
        vocab=int(row["vocab"]),
        attention=Attention(heads=heads, kv_heads=int(row["kv_heads"]), head_dim=hidden // heads),
        mlp=None if grok else Mlp(ffn=ffn, gated=False, activation="gelu"),
        experts=Experts(experts=8, top_k=2, ffn=ffn, activation="gelu") if grok else None,
        positions="rotary",
        max_positions=int(row["seq_len"]),
        norm="rmsnorm" if grok else "layernorm",
        tied_embeddings=False,
    )


def _layout(row: dict[str, str]) -> Layout:
    tp, pp, cp = (int(row[name]) for name in ("tp", "pp", "cp"))
    vpp = int(row["vp"] or 1) if pp > 1 else 1
    return Layout(
        dp=int(row["n_gpus"]) // (tp * pp * cp),
        tp=tp,
        pp=pp,
        cp=cp,
        ep=int(row["ep"] or 1),
        etp=int(row["etp"] or 0),
        vpp=vpp,
        schedule="interleaved" if vpp > 1 else "1f1b",
        micro_batch=int(row["mbs"]),
        zero=1,
        sequence_parallel=tp > 1,
        recompute=row["recompute"] if row["recompute"] and row["release"] in EARLY else "none",
    )


def _maxtext_case(row: dict[str, str]) -> Case:
    """Parameters sharded over `fsdp` ranks and repeated over the others."""
    devices, ranks = int(row["n_gpus"]), int(row["fsdp"])
    shard = ranks if ranks < devices else 0
    layout = Layout(dp=devices, micro_batch=int(row["mbs"]), zero=3, shard=shard, recompute="selective")
    again = ("core_attn", "context", "layernorm", "mlp") if "llama2" in row["model"] else SAVED_QKV
    return _asked(row, layout, Recipe.by("maxtext", **_trained(row), recompute_modules=again))


def _case(row: dict[str, str]) -> Case:
    layout = _layout(row)
    early = row["release"] in EARLY
    switches: Json = {}
    if row["ep"]:
        switches = {"exchange": "copy", "routing": "forced"}
    if early and row["model"] in WITHOUT_CUDNN:
        switches["attention_kernel"] = "flash2"
    if "gpt3" in row["model"]:
        switches["dropout"] = True
    if row["mode"] != "pretrain":
        switches["sample_tokens"] = SAMPLE_TOKENS
    if row["mode"] == "lora":
        switches |= {"train": "lora:r=8,targets=qkv", "cross_entropy": "in-place", "overlap_tp": "none"}
    switches["sliced_experts"] = early and bool(row["ep"])
    return _asked(row, layout, Recipe.by("nemo-24", **_trained(row), overlap_pp=layout.vpp > 1, **switches))


def _trained(row: dict[str, str]) -> Json:
    return {"seq": int(row["seq_len"]), "batch": int(row["gbs_seqs"]), "dtype": row["precision"].lower()}


def _asked(row: dict[str, str], layout: Layout, recipe: Recipe) -> Case:
    devices = int(row["n_gpus"])
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
TUNING = Table("dgxc_tuning", "step_time_s", TUNING_SOURCE, 0.30, tuning_cases)
EXPERTS = Table("dgxc_nemo_experts", "step_time_s", EXPERTS_SOURCE, 0.15, expert_cases)
MAXTEXT = Table("dgxc_maxtext", "step_time_s", MAXTEXT_SOURCE, 0.30, maxtext_cases)
