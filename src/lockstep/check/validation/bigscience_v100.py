"""BigScience's sweep of a 1.3B model on two nodes of four V100 with Megatron-DeepSpeed: step times, memory, what fits.

experiments/tr3m-1B3.md: whole seconds and whole GB as nvidia-smi shows them, data, pipeline and tensor parallelism on 8
GPUs, with and without recomputation, batch 512. The machine is Jean Zay's older half: NVLink inside a node and four
ports of Omni-Path. As in the team's logs a half-precision gradient is kept beside the fp32 one (`bigscience.py`).
Nothing was fitted: the curve of V100 is assumed.

`LOGS` and `PASSES` are of nine logs of 18B to 206B models on 16 to 256 GPUs, the only runs on many nodes that say where
the time went: the median step, and what the last pipeline rank spent in its forward and backward passes, traffic of
tensor parallelism included (Megatron-LM's timers forward-compute and backward-compute, which wait for the device).

Left out, by `left_out`: runs on more than two nodes, where the team saw 40 % of noise: one layout took from 125 to
225 s on different days (rows v022 to v025). Some of them contradict themselves besides, see `contradictions`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from lockstep.check.validation.case import Case, Table, bigscience_recipe, gpt, megatron_recipe, read_rows, step_time_s
from lockstep.describe.hardware import Cluster, cluster, link
from lockstep.price.layout import Job, Layout, memory
from lockstep.price.step import price_step

SOURCE = "bigscience-workshop/bigscience, experiments/tr3m-1B3.md: 1.3B on 8 V100"
LOGS_SOURCE = "bigscience-workshop/bigscience, experiments/gpt2-meg and gpt2-meg-ds-3d: logs on 16 to 256 V100"
LOGS_FILE = "bigscience_v100_megatron_step_breakdown.csv"
FILE = "bigscience_v100_sweeps.csv"
NODE, PORTS = 4, 4
TILE = 128
"""The vocabulary is padded to a multiple of this times tp (Megatron-LM, make_vocab_size_divisible_by)."""


def time_cases() -> tuple[Case, ...]:
    """One case per row that ran."""
    return tuple(_case(row, "step_time_s", float(row["step_time_s"]), step_time_s) for row in _rows(False))


def memory_cases() -> tuple[Case, ...]:
    """The same rows' memory."""
    return tuple(_case(row, "total_B", float(row["max_mem_gb"]) * 1e9, total_B) for row in _rows(False))


def total_B(case: Case) -> float:
    """Bytes on the fullest rank, with the framework's share and the allocator's slack."""
    return float(memory(case.job, case.cluster, case.layout.grid()).total_B)


def out_of_memory() -> tuple[Case, ...]:
    """Rows that did not fit."""
    return tuple(_case(row, "total_B", float("inf"), total_B) for row in _rows(True))


def left_out() -> Counter[str]:
    """How many rows are left out, by reason."""
    reasons = ("" if _is_small(row) else "network noise of several nodes" for row in read_rows(FILE))
    out = Counter({"out of memory": len(_rows(True))})
    return out + Counter(why for why in reasons if why)


def contradictions() -> dict[str, str]:
    """Rows whose own numbers do not go together, with what is wrong."""
    found = {}
    for row in read_rows(FILE):
        ranks = int(row["tp"]) * int(row["pp"]) * int(row["dp"])
        steps = int(row["dp"]) * int(row["mbs"] or 0) * int(row["grad_accum"] or 0)
        if ranks != int(row["n_gpus"]):
            found[row["row_id"]] = f"{ranks} ranks on {row['n_gpus']} GPUs"
        elif steps and steps != int(row["gbs_seqs"]):
            found[row["row_id"]] = f"a batch of {row['gbs_seqs']} in {steps} sequences"
    return found


def log_cases() -> tuple[Case, ...]:
    """One case per log: its median step."""
    rows = read_rows(LOGS_FILE)
    return tuple(_log_case(row, "step_time_s", float(row["step_time_ms_median"]) / 1e3, step_time_s) for row in rows)


def pass_cases() -> tuple[Case, ...]:
    """One case per log with timers."""
    rows = [row for row in read_rows(LOGS_FILE) if row["forward_compute_ms"]]
    names = ("forward_compute_ms", "backward_compute_ms")
    return tuple(_log_case(row, "passes_s", sum(float(row[name]) for name in names) / 1e3, passes_s) for row in rows)


def passes_s(case: Case) -> float:
    """Seconds of all passes of the busiest stage, with the traffic inside them."""
    found = price_step(case.job, case.cluster, case.layout.grid())
    return float(found.compute_s + found.tp_comm_s)


def _is_small(row: dict[str, str]) -> bool:
    return row["framework"] == "Megatron-DeepSpeed"


def _rows(failed: bool) -> list[dict[str, str]]:
    return [row for row in read_rows(FILE) if _is_small(row) and (row["oom"] == "1") == failed]


def _cluster(row: dict[str, str]) -> Cluster:
    found = cluster("dgx-v100" if "32" in row["gpu_type"] else "dgx-v100-16gb", gpus=16)
    node, fabric = found.levels
    wire = replace(
        fabric, size=int(row["n_gpus"]) // NODE, link=link("omni-path-100"), links_per_child=PORTS, links_per_group=1
    )
    return replace(found, levels=(replace(node, size=NODE), wire))


def _case(row: dict[str, str], quantity: str, measured: float, predict: Callable[[Case], float]) -> Case:
    devices, tp, seq = int(row["n_gpus"]), int(row["tp"]), int(row["seq_len"])
    vocab = -(-int(row["vocab"]) // (TILE * tp)) * TILE * tp
    recipe = replace(bigscience_recipe(int(row["gbs_seqs"]), seq), gradient_B=2.0 + 4.0, reduce_B=2.0)
    layout = Layout(
        dp=int(row["dp"]),
        tp=tp,
        pp=int(row["pp"]),
        micro_batch=int(row["mbs"]),
        zero=int(row["zero_stage"]),
        recompute=row["recompute"],
    )
    model = gpt(f"{row['model_B']}B", int(row["layers"]), int(row["hidden"]), int(row["heads"]), seq, vocab)
    return Case(
        row=f"{row['row_id']} {row['gpu_type']} {layout}",
        quantity=quantity,
        measured=measured,
        job=Job(model, recipe, devices),
        cluster=_cluster(row),
        layout=layout,
        predict=predict,
    )


def _log_case(row: dict[str, str], quantity: str, measured: float, predict: Callable[[Case], float]) -> Case:
    devices, seq = int(row["n_gpus"]), int(row["seq_len"])
    software = "megatron-deepspeed" if row["log"].endswith("ds-on.out") else "megatron-2021"
    recipe = replace(megatron_recipe(int(row["gbs_seqs"]), seq, software), gradient_B=2.0 + 4.0, reduce_B=2.0)
    layout = Layout(
        dp=int(row["dp"]), tp=int(row["tp"]), pp=int(row["pp"]), micro_batch=int(row["mbs"]), recompute=row["recompute"]
    )
    model = gpt(f"h{row['hidden']}", int(row["layers"]), int(row["hidden"]), int(row["heads"]), seq)
    return Case(
        row=f"{row['row_id']} h{row['hidden']} x{devices} {layout}",
        quantity=quantity,
        measured=measured,
        job=Job(model, recipe, devices),
        cluster=_cluster(row),
        layout=layout,
        predict=predict,
    )


TIME = Table("bigscience_v100", "step_time_s", SOURCE, 0.08, time_cases)
MEMORY = Table("bigscience_v100_memory", "memory_B", SOURCE, 0.08, memory_cases)
LOGS = Table("bigscience_v100_logs", "step_time_s", LOGS_SOURCE, 0.15, log_cases)
PASSES = Table("bigscience_v100_passes", "passes_s", LOGS_SOURCE + "; passes of the last rank", 0.06, pass_cases)
