"""vTrain's iterations of Megatron-DeepSpeed on A100 (KAIST VIA, MIT licence): measured on many nodes, computed on one.

On 64 to 512 GPUs the models have 3.6B to 175B parameters and 800 Gbit/s of network per node. Full recomputation, 1F1B,
unfused attention.

Inside one node (hidden 1024 and 2048) the file of "ground truth" holds no measurements. Where no gradients are reduced,
times of one shape are sums of the same few parts to the nanosecond that they are given in, and sends between stages
take what the authors' simulator has for them (src/predictor.py: twice the activation at 25 GiB/s): a program put them
together from the profile of a layer (tests/validation/test_vtrain.py). So nothing is fitted to them and no statistic of
steps counts them; they are another simulator's answers.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from lockstep.check.validation.case import COMPUTED, Case, Table, gpt, megatron_recipe, read_rows, step_time_s
from lockstep.describe.hardware import cluster
from lockstep.price.layout import Job, Layout

SOURCE = "VIA-Research/vTrain: data/ground_truth_{}.csv (MIT licence); a part of its rows"


def cases(file: str, quantity: str) -> tuple[Case, ...]:
    """One case per row of `file`."""
    return tuple(_case(number, row, quantity) for number, row in enumerate(read_rows(file)))


def _case(number: int, row: dict[str, str], quantity: str) -> Case:
    devices, seq = int(row["n_gpus"]), int(row["seq_len"])
    layout = Layout(
        dp=int(row["dp"]), tp=int(row["tp"]), pp=int(row["pp"]), micro_batch=int(row["mbs"]), recompute="full"
    )
    name = f"h{row['hidden']} l{row['layers']}"
    model = gpt(name, int(row["layers"]), int(row["hidden"]), int(row["heads"]), seq)
    recipe = replace(megatron_recipe(int(row["gbs_seqs"]), seq, "megatron-deepspeed"), gradient_B=2.0)
    return Case(
        row=f"{number} {name} {layout}",
        quantity=quantity,
        measured=float(row["iter_time_ms"]) * 1e-3,
        job=Job(model, recipe, devices),
        cluster=cluster("a100-80gb-4xhdr", gpus=devices),
        layout=layout,
        predict=step_time_s,
    )


def _table(what: str, quantity: str, note: str = "") -> Table:
    name = f"vtrain_a100_{what}"
    return Table(name, quantity, SOURCE.format(what) + note, 0.10, partial(cases, f"{name}.csv", quantity))


SINGLE = _table("single", COMPUTED, "; put together by a program from times of layers, not measured")
MULTI = _table("multi", "step_time_s")
