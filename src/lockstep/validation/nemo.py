"""NVIDIA's NeMo and Megatron Bridge performance summaries: tuned pre-training of Llama and GPT-3 in fp8 and bf16.

Tokens per second and GPU are printed with batch, micro-batch and degrees; recomputation and kernel settings are not, so
none is taken. Transformer Engine overlaps tensor-parallel traffic with products and, with interleaving, hides sends.
Rows are left out where the model or the number format is not in the catalog or the cluster is not filled evenly. The
eight on racks used in part came after the fit of the B200 curve.
"""

from __future__ import annotations

from lockstep.errors import BadInput
from lockstep.hardware import Cluster, cluster
from lockstep.layout import Job, Layout, Recipe
from lockstep.validation.case import Case, Table, read_rows, step_time_s
from lockstep.workload import model

SOURCE = "NVIDIA NeMo Framework and Megatron Bridge performance summaries, 24.01 to 26.04; a part of their rows"
MODELS = {
    "LLAMA3_8B": "llama3-8b",
    "LLAMA3-8B": "llama3-8b",
    "LLAMA3_70B": "llama3-70b",
    "LLAMA3-70B": "llama3-70b",
    "LLAMA3.1_405B": "llama3-405b",
    "LLAMA2-7B": "llama2-7b",
    "LLAMA2-13B": "llama2-13b",
    "LLAMA2-70B": "llama2-70b",
    "GPT3-175B": "gpt3-175b",
}
CLUSTERS = {"H100": "dgx-h100", "B200": "dgx-b200", "GB200": "gb200-nvl72"}
DTYPES = {"BF16": "bf16", "FP8": "fp8", "FP8-CS": "fp8", "FP8-MX": "fp8", "MXFP8": "fp8", "FP8 (not printed)": "fp8"}


def cases() -> tuple[Case, ...]:
    """One case per pre-training row that can be described."""
    rows = [row for row in read_rows("nvidia_nemo_megatron_bridge.csv") if "pre" in row["task"].lower() and row["tp"]]
    known = [row for row in rows if row["model"] in MODELS and row["gpu"] in CLUSTERS and row["precision"] in DTYPES]
    return tuple(case for row in known if (case := _case(row)) is not None)


def _number(text: str) -> int:
    """A degree; 1 where the table prints none."""
    return int(text) if text.isdigit() and int(text) > 0 else 1


def _cluster(row: dict[str, str]) -> Cluster | None:
    """The cluster of a row; None where its devices do not fill nodes or racks evenly."""
    try:
        return cluster(CLUSTERS[row["gpu"]], gpus=int(row["n_gpus"]))
    except BadInput:
        return None


def _case(row: dict[str, str]) -> Case | None:
    hardware, devices = _cluster(row), int(row["n_gpus"])
    tp, pp, cp = (_number(row[name]) for name in ("tp", "pp", "cp"))
    if hardware is None:
        return None
    vpp = _number(row["vp"]) if pp > 1 else 1
    layout = Layout(
        dp=devices // (tp * pp * cp),
        tp=tp,
        pp=pp,
        cp=cp,
        vpp=vpp,
        micro_batch=int(row["mbs"]),
        zero=3 if _number(row["fsdp"]) > 1 or row["fsdp"] == "1" else 1,
        sequence_parallel=tp > 1,
        schedule="interleaved" if vpp > 1 else "1f1b",
    )
    seq, batch = int(row["seq_len"]), int(row["gbs_seqs"])
    recipe = Recipe(seq=seq, batch=batch, dtype=DTYPES[row["precision"]], overlap_tp="all", overlap_pp=vpp > 1)
    return Case(
        row=f"{row['row_id']} {row['model']} {row['gpu']} x{devices} {row['precision']} {row['container']}",
        quantity="step_time_s",
        measured=batch * seq / (float(row["tokens_per_s_per_gpu"]) * devices),
        job=Job(model(MODELS[row["model"]]), recipe, devices),
        cluster=hardware,
        layout=layout,
        predict=step_time_s,
    )


TABLE = Table("nvidia_nemo", "step_time_s", SOURCE, 0.10, cases)
