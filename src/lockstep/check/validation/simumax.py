"""Llama 3 70B cut to 12 layers on 8 A100 PCIe of one machine: tensor parallelism over PCIe (SimuMax's measurements).

The TFLOP/s of the runs are read off a figure, to 1 or 2 %. Step times follow with SimuMax's count of FLOPs, attention
in full and the head (simumax/core/config.py, flops_per_token); with half the attention they would be 3.3 % shorter.
Layers, batch and switches are those of the repository's scripts for Megatron-LM 0.12 (docs/FULL_RESULTS.md and
simu_tools/megatron_scripts/scripts/run_pretrain_llama3.sh): one sequence per micro-batch, as many of them per replica
as the row says, a distributed optimizer whose traffic overlaps with nothing, as --overlap-grad-reduce is not set,
gradients accumulated in fp32 by the product itself, no recomputation, no userbuffers.

The cards' links are those of the authors' own description of the machine (configs/system/a100_pcie.json), whose rates
their workflow fits to nccl-tests: of 30 GB/s an all-reduce among four cards gets 0.6924, among all eight 0.4176. So the
machine is taken as two halves of four cards, and what one card gets among eight as one link between the halves, which
all share; that groups across it get 4 GB/s each when there are four, and 7.65 when there are two, agrees (dp_fixed_bw).
The catalog's machine of PCIe cards knows no halves and assumes 0.80 for any number of cards.

The latency is the catalog's of PCIe, assumed. DeepSeek-V2's rows are left out: how FLOPs of its latent attention are
counted is not printed. Nothing was fitted to the step times.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from lockstep.check.validation.case import Case, Table, read_rows, step_time_s
from lockstep.decide.planner.utilisation import model_flops
from lockstep.describe.hardware import Cluster, Level, cluster, link
from lockstep.describe.workload import Transformer, model
from lockstep.price.layout import Job, Layout, Recipe

SOURCE = "MooreThreads/SimuMax, assets/A100-Pcie.png; its rows of Llama 3"
FILE = "simumax_a100pcie_figure.csv"
LAYERS = 12
DEGREES = {"tp1pp2": (1, 2), "tp2": (2, 1), "tp4": (4, 1), "tp8": (8, 1)}
"""(tensor-parallel ranks, stages)"""
HALF = 4
PORT_BPS = 30e9
ACHIEVED_IN_HALF, ACHIEVED_ACROSS = 0.6924, 0.4176
"""Shares of a port's rate that an NCCL all-reduce gets among four cards and among eight."""


def cases() -> tuple[Case, ...]:
    """One case per row of Llama 3."""
    return tuple(_case(row) for row in read_rows(FILE) if not _why_not(row))


def left_out() -> Counter[str]:
    """How many rows are left out, by reason."""
    return Counter(why for row in read_rows(FILE) if (why := _why_not(row)))


def _why_not(row: dict[str, str]) -> str:
    return "" if row["model"] == "llama3-70b" else "count of FLOPs not printed"


def _model() -> Transformer:
    known = model("llama3-70b")
    if not isinstance(known, Transformer):
        raise TypeError(f"{known.name} is no transformer")
    return replace(known, layers=LAYERS)


def measured_cluster(devices: int) -> Cluster:
    """Two halves of a machine with the rates measured in it, joined by one link."""
    inside, across = (
        replace(link("pcie4"), bandwidth_Bps=PORT_BPS, achieved_frac=share)
        for share in (ACHIEVED_IN_HALF, ACHIEVED_ACROSS)
    )
    levels = Level("half", HALF, inside), Level("machine", devices // HALF, across)
    return replace(cluster("a100-pcie", gpus=devices), levels=levels)


def _case(row: dict[str, str]) -> Case:
    devices, tp, pp = int(row["n_gpus"]), *DEGREES[row["parallel"]]
    dp, micro_batch = devices // (tp * pp), int(row["mbs"])
    recipe = Recipe.by(
        "megatron-te", seq=int(row["seq_len"]), batch=micro_batch * int(row["num_microbatches"]) * dp, overlap_dp=False
    )  # fmt: skip
    job = Job(_model(), recipe, devices)
    return Case(
        row=f"{row['row_id']} {row['parallel']} {row['num_microbatches']} micro-batches",
        quantity="step_time_s",
        measured=model_flops(job) / (float(row["tflops_per_gpu_actual_from_figure"]) * 1e12 * devices),
        job=job,
        cluster=measured_cluster(devices),
        layout=Layout(dp=dp, tp=tp, pp=pp, micro_batch=micro_batch, zero=1, sequence_parallel=tp > 1),
        predict=step_time_s,
    )


TABLE = Table("simumax_a100_pcie", "step_time_s", SOURCE, 0.10, cases)
