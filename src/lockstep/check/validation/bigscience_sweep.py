"""BigScience's scouting sweep for BLOOM: steps of 176B to 203B models on 48 nodes of Jean Zay in February 2022.

Megatron-DeepSpeed with DeepSpeed's pipeline engine and its ZeRO-1, or in bf16 its own optimizer, which accumulates in
fp32 after a copy; CUDA_LAUNCH_BLOCKING=1, without which 40 nodes always hung; Megatron's dropout, which the README says
is inherited. Nothing was fitted to these rows.

DeepSpeed fills stages with as many layers each as the fullest must have, from the first on. Where two layers more would
divide evenly, embedding and head count as a layer each, as the team's `type:transformer|embedding` has it.

Left out are rows before 25 February, when a fault of PCI Express and NUMA was mended that made everything slower (the
source warns against comparing them), and rows whose shards do not fill the tiles of tensor cores: heads of 108 elements
ran at two thirds of the speed of heads of 144.
"""

from __future__ import annotations

from dataclasses import replace

from lockstep.check.validation.case import Case, Table, bigscience_recipe, gpt, read_rows, step_time_s
from lockstep.describe.hardware import cluster
from lockstep.price.layout import Job, Layout

SOURCE = "bigscience-workshop/bigscience: train/tr11-176B-ml, chronicles-prequel.md and README.md, whole tiles only"
MENDED = "02-25"
"""The day of 2022 since which the machine was as in BLOOM's run."""
TILE = 64
"""Elements of a half-precision tile's side that keep A100's tensor cores busy, and heads should have a multiple of 8
(NVIDIA, Matrix Multiplication Background User's Guide)."""


def cases() -> tuple[Case, ...]:
    """One case per timed row whose layout and shape are stated."""
    return tuple(_case(row) for row in read_rows("bigscience_bloom_a100_3d_sweep.csv") if _usable(row))


def _usable(row: dict[str, str]) -> bool:
    stated = row["step_time_s"] and row["heads"] and row["layers_source"] == "stated"
    if not stated or row["date_2022"] < MENDED:
        return False
    hidden, heads = int(row["hidden"]), int(row["heads"])
    whole = hidden % (TILE * int(row["tp"])) == 0 and hidden % (8 * heads) == 0
    return whole and int(row["gbs_seqs"]) % (int(row["mbs"]) * int(row["dp"])) == 0


def stages_of(layers: int, stages: int) -> tuple[int, ...]:
    """Layers of each stage where they are not equally many; empty where they are."""
    if layers % stages == 0:
        return ()
    most = -(-layers // stages)
    if (layers + 2) % stages == 0:
        return most - 1, *(most,) * (stages - 2), most - 1
    return tuple(max(0, min(most, layers - most * stage)) for stage in range(stages))


def _case(row: dict[str, str]) -> Case:
    devices, seq, bf16 = int(row["n_gpus"]), int(row["seq_len"]), row["dtype"] == "bf16"
    model = gpt(f"h{row['hidden']}", int(row["layers"]), int(row["hidden"]), int(row["heads"]), seq, int(row["vocab"]))
    recipe = bigscience_recipe(int(row["gbs_seqs"]), seq).having(
        dtype=row["dtype"], gradient_B=4.0 if bf16 else 2.0, converted_gradients=bf16, paired_sends=False,
        launch_blocking=True,
    )  # fmt: skip
    layout = Layout(
        dp=int(row["dp"]),
        tp=int(row["tp"]),
        pp=int(row["pp"]),
        micro_batch=int(row["mbs"]),
        zero=int(row["zero_stage"]),
        recompute="full",
        stages=stages_of(int(row["layers"]), int(row["pp"])),
    )
    return Case(
        row=f"{row['row_id']} {row['n_params_label']} {layout}",
        quantity="step_time_s",
        measured=float(row["step_time_s"]),
        job=Job(replace(model, positions="alibi", embedding_norm=True), recipe, devices),
        cluster=cluster("jean-zay-a100", gpus=devices),
        layout=layout,
        predict=step_time_s,
    )


SWEEP = Table("bigscience_a100_sweep", "step_time_s", SOURCE, 0.10, cases)
