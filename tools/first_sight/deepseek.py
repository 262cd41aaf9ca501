"""DeepSeek-V3 of MLPerf Training v6.0 on 256 to 8,192 GB200, as a table that Lockstep had not seen: `cases()`.

Steps come whole from CUDA graphs (the configurations' names, `full_cg`); what belongs to that, and is not in the rows,
is as the reader of Megatron Bridge's own rows asks it (`check/validation/nemo.py`): the exchange of experts beside
other micro-batches, all experts in one kernel, stages placed alike, states sharded, sends hidden.
"""

from __future__ import annotations

from published import rows

from lockstep.check.validation.case import Case, step_time_s
from lockstep.check.validation.nemo import DEEPSEEK_STAGES
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout, Recipe

FILE = "mlperf_v6_0_logs.csv"


def cases() -> tuple[Case, ...]:
    """One case per row, in seconds of a step, the fewest devices first."""
    return tuple(_case(row) for row in sorted(rows(FILE), key=lambda row: int(row["n_accelerators"])))


def group(case: Case) -> str:
    """Each number of devices for itself."""
    return f"{case.job.devices:,} GB200"


def _case(row: dict[str, str]) -> Case:
    devices, tp, pp, vpp = (int(row[name]) for name in ("n_accelerators", "tp", "pp", "vpp"))
    recipe = Recipe.by(
        "nemo-25", seq=int(row["seq_len"]), batch=int(row["gbs_seqs"]), dtype=row["precision"], routing="natural",
        recompute_modules=("mlp",), cuda_graphs="step", overlap_ep="passes", experts="grouped", exchange="node",
        overlap_pp=True,
    )  # fmt: skip
    layout = Layout(
        dp=int(row["dp_derived"]),
        tp=tp,
        pp=pp,
        ep=int(row["ep"]),
        etp=1,
        vpp=vpp,
        micro_batch=int(row["mbs"]),
        zero=1,
        sequence_parallel=True,
        schedule="interleaved",
        recompute="selective",
        stages=DEEPSEEK_STAGES[pp * vpp],
    )
    return Case(
        row=f"{row['row_id']} {row['submitter']} x{devices}",
        quantity="step_time_s",
        measured=float(row["step_time_s"]),
        job=Job(model("deepseek-v3"), recipe, devices),
        cluster=cluster("gb200-nvl72", gpus=devices),
        layout=layout,
        predict=step_time_s,
    )
