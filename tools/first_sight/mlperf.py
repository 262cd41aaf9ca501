"""MLPerf Training v5.0 and v5.1, Llama 3.1 8B and LoRA of Llama 2 70B, as tables that Lockstep had not seen: `cases()`.

Step times of the logs with the layouts of the configurations; NVIDIA's devices run NeMo, AMD's Megatron Core. The
number format is fp4 where the hint or the configuration's name says so, else fp8. States are sharded (ZeRO 1), as in
the readers of NeMo's other rows. Where a row says no layout, replicas are as many as devices, or as sequences with
context parallelism over the rest. LoRA is of rank 16 on attention's matrices with dropout 0.1; that the frozen base is
kept in fp8 could not be said, so it is asked in bf16.
"""

from __future__ import annotations

from published import rows

from lockstep.base.types.plain import Json
from lockstep.check.validation.case import Case, step_time_s
from lockstep.describe.hardware import cluster
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout, Recipe

FILE = "mlperf_llm_training.csv"
CLUSTERS = {
    "MI300X": "mi300x-8",
    "MI325X": "mi325x-8",
    "MI350X": "mi350x-8",
    "MI355X": "mi355x-8",
    "H100": "dgx-h100",
    "H200": "dgx-h200",
    "B200": "dgx-b200",
    "B300": "dgx-b300",
    "GB200": "gb200-nvl72",
    "GB300": "gb300-nvl72",
}
"""Of the catalog, by a word of the accelerator's name."""
LORA = "lora:r=16,targets=attention,dropout=0.1"


def cases() -> tuple[Case, ...]:
    """One case per row, in seconds of a step."""
    return tuple(_case(row) for row in rows(FILE))


def group(case: Case) -> str:
    """AMD's devices, B300 and GB300 one by one, and together the NVIDIA devices before them."""
    name = case.cluster.device.name.upper()
    return name if "3" in name else "H100 to GB200"


def _device(row: dict[str, str]) -> str:
    """The word of its name that CLUSTERS knows, the longest that fits."""
    return max((word for word in CLUSTERS if word in row["accelerator"]), key=len)


def _dtype(row: dict[str, str]) -> str:
    return "nvfp4" if row["precision_hint"] == "fp4" or "_fp4" in row["config_file"] else "fp8"


def _layout(row: dict[str, str]) -> Layout:
    devices, batch = int(row["n_accelerators"]), int(row["gbs_seqs"])
    tp, pp = int(row["tp"] or 1), int(row["pp"] or 1)
    cp = int(row["cp"] or max(1, devices // batch))
    dp = devices // (tp * pp * cp)
    shared = batch // (dp * int(row["grad_accum_steps"] or 1))
    micro_batch = int(row["mbs"] or max(1, shared))
    return Layout(dp=dp, tp=tp, pp=pp, cp=cp, micro_batch=micro_batch, zero=1, sequence_parallel=tp > 1)


def _case(row: dict[str, str]) -> Case:
    device, devices, adapters = _device(row), int(row["n_accelerators"]), "lora" in row["benchmark"]
    switches: Json = {"train": LORA} if adapters else {}
    recipe = Recipe.by(
        "megatron-te" if device.startswith("MI") else "nemo-25",
        seq=int(row["seq_len"]),
        batch=int(row["gbs_seqs"]),
        dtype=_dtype(row),
        **switches,
    )
    return Case(
        row=f"{row['row_id']} {row['system']}",
        quantity="step_time_s",
        measured=float(row["step_time_s"]),
        job=Job(model("llama2-70b" if adapters else "llama3-8b"), recipe, devices),
        cluster=cluster(CLUSTERS[device], gpus=devices),
        layout=_layout(row),
        predict=step_time_s,
    )
