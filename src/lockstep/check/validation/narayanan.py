"""Narayanan et al. 2021 (arXiv 2104.04473): step times of GPT models from 1.7B to 1T on up to 3072 A100s.

All rows recompute fully. The January variant of the table does not print the micro-batch and interleaving; those of
the April table are taken. Rows without a step time or a layout (the authors' extrapolations) are left out. The six
ZeRO-3 rows ran on DeepSpeed of 2021, whose gathers reached about one NIC's rate per node: they are kept, and missed.
"""

from __future__ import annotations

from lockstep.check.validation.case import Case, Table, gpt, megatron_recipe, read_rows, step_time_s
from lockstep.describe.hardware import cluster
from lockstep.price.layout import Job, Layout

SOURCE = "Narayanan et al. 2021, SC'21 tables 1 and 2 (arXiv 2104.04473), and the Megatron-LM README of January 2021"


def cases() -> tuple[Case, ...]:
    """One case per row with a step time and a layout."""
    rows = read_rows("narayanan_sc21_megatron.csv")
    printed = {row["model"]: row for row in rows if row["row_id"].startswith("sc21-")}
    return tuple(_case(row, printed.get(row["model"], row)) for row in rows if row["dp"] and _seconds(row))


def _seconds(row: dict[str, str]) -> str:
    return row["step_time_s_reported"] or row["step_time_s_derived"]


def _case(row: dict[str, str], like: dict[str, str]) -> Case:
    micro_batch = int(row["mbs"] or like["mbs"] or 1)
    vpp = int(row["vpp_chunks_per_stage"] or (not row["mbs"] and like["vpp_chunks_per_stage"]) or 1)
    zero = int(row["zero_stage"] or 0)
    devices, batch = int(row["n_gpus"]), int(row["gbs_seqs"])
    layout = Layout(
        dp=int(row["dp"]),
        tp=int(row["tp"]),
        pp=int(row["pp"]),
        vpp=vpp,
        micro_batch=micro_batch,
        zero=zero,
        recompute="full",
        schedule="interleaved" if vpp > 1 else "1f1b",
    )
    model = gpt(row["model"], int(row["layers"]), int(row["hidden"]), int(row["heads"]))
    return Case(
        row=row["row_id"],
        quantity="step_time_s",
        measured=float(_seconds(row)),
        job=Job(model, megatron_recipe(batch), devices),
        cluster=cluster("dgx-a100-80gb", gpus=devices),
        layout=layout,
        predict=step_time_s,
        note="" if row["mbs"] else "micro-batch taken from the April table",
    )


TABLE = Table("narayanan_sc21", "step_time_s", SOURCE, 0.10, cases)
