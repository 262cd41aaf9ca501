"""Zero-bubble pipelines (Qi et al. 2024): 1F1B, interleaved 1F1B, ZB-1p, ZB-2p and ZB-V on 8 to 32 A100 80 GB, GPT
models of 1.5B to 28.3B.

First and last stage hold one layer fewer than the others (section 5.1), interleaved stages one layer per chunk; so the
first and the last chunk of interleaved stages and of ZB-V hold the embedding or the head alone. The vocabulary is not
printed: tied embeddings of 32,000 words give all four models the parameters of their names, GPT-2's 50,257 only one.

The software is the authors' fork of Megatron-LM, sail-sg/zero-bubble-pipeline-parallelism. An early version of its
examples/pretrain_zero_bubble.sh, whose defaults are the 6.2B model, asks for fp16 and for neither FlashAttention,
recomputation nor untied embeddings, which the printed memory confirms; by default dropout is on, gradients add up in
fp16 inside products, and of 1F1B only the interleaved one sends beside computing (megatron/arguments.py). Messages of
ZB schedules delay their receiver alone (appendix G, equations 4 and 5).

The network is printed as RoCE only; four ports of 100 Gbit/s per node are assumed, as for vocab_parallelism from the
same cluster. ZB schedules end without the wait of all stages before the optimizer (post-validation, section 4), which
no word of the recipe says: they are asked with that wait. Nothing was fitted to these rows.

Left out are times of single passes and bubble rates, which were calculated from them; and ZB-1p and ZB-2p on 24 and 32
stages, whose automatic orders take seconds each: asked once, these eight came out 3.5 to 7.6 % too slow.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from lockstep.check.validation.case import Case, Table, gpt, read_rows, step_time_s
from lockstep.check.validation.vocabulary import allocated_B, four_ports
from lockstep.describe.workload import Transformer
from lockstep.price.layout import Job, Layout, Recipe

SOURCE = "Qi et al. 2024 (arXiv 2401.10241): main results, equal memory, few micro-batches; a part of the rows"
FILE = "zero_bubble_pipeline.csv"
VOCAB = 32_000
MOST_STAGES = 16
"""Of the automatic schedules, whose search takes seconds on more."""
POSITIONS = 2048
"""Learned positions: --max-position-embeddings of the script."""
SCHEDULES = {
    "1F1B": "1f1b",
    "1F1B-I": "interleaved",
    "ZB-1p": "zb-1p",
    "ZB-2p": "zb-2p",
    "ZB-2p*": "zb-2p",
    "ZB-V": "zb-v",
}
"""Lockstep's names; ZB-2p* is ZB-2p with half the micro-batch, which its rows print."""


def time_cases() -> tuple[Case, ...]:
    """One case per measured row."""
    return _cases("step_time_s", _measured_s, step_time_s)


def memory_cases() -> tuple[Case, ...]:
    """The same rows' peak memory, taken as that of tensors, in GB of 10^9 bytes."""
    return _cases("allocated_B", lambda row: float(row["mem_gb"]) * 1e9, allocated_B)


def left_out() -> Counter[str]:
    """How many rows are left out, by reason."""
    return Counter(why for row in read_rows(FILE) if (why := _why_not(row)))


def _why_not(row: dict[str, str]) -> str:
    if row["samples_per_s_per_gpu"]:
        automatic = SCHEDULES[row["schedule"]] in ("zb-1p", "zb-2p") and int(row["pp"]) > MOST_STAGES
        return "seconds to lay out" if automatic else ""
    return "calculated, not measured" if "calculated" in row["table"] else "times of passes, not of steps"


def _cases(
    quantity: str, measured: Callable[[dict[str, str]], float], predict: Callable[[Case], float]
) -> tuple[Case, ...]:
    return tuple(_case(row, quantity, measured(row), predict) for row in read_rows(FILE) if not _why_not(row))


def _measured_s(row: dict[str, str]) -> float:
    """Seconds of a step, from the printed samples per second and device."""
    return _batch(row) / (float(row["samples_per_s_per_gpu"]) * int(row["n_gpus"]))


def _batch(row: dict[str, str]) -> int:
    return int(row["mbs"]) * int(row["num_microbatches"])


def model_of(row: dict[str, str]) -> Transformer:
    """The GPT model of a row."""
    layers, hidden, heads, seq = (int(row[name]) for name in ("layers", "hidden", "heads", "seq_len"))
    return replace(gpt(row["model"], layers, hidden, heads, seq, VOCAB), max_positions=POSITIONS)


def _layout(row: dict[str, str]) -> Layout:
    pp, schedule = int(row["pp"]), SCHEDULES[row["schedule"]]
    layers = (int(row["layers"]) + 2) // pp
    vpp = {"interleaved": layers, "zb-v": 2}.get(schedule, 1)
    most = layers // vpp
    return Layout(
        pp=pp,
        vpp=vpp,
        schedule=schedule,
        stages=(most - 1, *(most,) * (pp * vpp - 2), most - 1),
        micro_batch=int(row["mbs"]),
    )


def _recipe(row: dict[str, str], layout: Layout) -> Recipe:
    return Recipe.by(
        "zero-bubble", seq=int(row["seq_len"]), batch=_batch(row), dtype="fp16", overlap_pp=layout.schedule != "1f1b"
    )


def _case(row: dict[str, str], quantity: str, measured: float, predict: Callable[[Case], float]) -> Case:
    devices, layout = int(row["n_gpus"]), _layout(row)
    return Case(
        row=f"{row['row_id']} x{devices} mb{row['mbs']} of {row['num_microbatches']}",
        quantity=quantity,
        measured=measured,
        job=Job(model_of(row), _recipe(row, layout), devices),
        cluster=four_ports(devices),
        layout=layout,
        predict=predict,
    )


TIME = Table("zero_bubble", "step_time_s", SOURCE, 0.10, time_cases)
MEMORY = Table("zero_bubble_memory", "memory_B", SOURCE, 0.05, memory_cases)
