"""Vocabulary layers spread over pipeline stages on 8 to 32 A100 (Yeung et al. 2024): 1F1B and V-Half, vocabularies of
32k to 256k, against layers shared out evenly and redistributed by their FLOPs.

Step times are those behind the printed MFU, by the paper's own count of FLOPs. Peak memory is taken as that of tensors,
without the framework and what the allocator holds besides. Which A100, and their network, are recalled in the table:
four ports of 100 Gbit/s RoCE per node are assumed, which a pipeline of one sequence at a time hardly feels. 1F1B waits
for its messages, as Megatron-LM's does; V-Half's travel beside computing. The printed GB are taken as 10^9 bytes.

The scripts train in fp16 and do not ask for gradients in fp32 (pretrain_gpt.sh of sail-sg/VocabularyParallelism, and
examples/pretrain_zero_bubble.sh of its branch with V-Half), so gradients take two bytes. No memory was fitted.
Tolerances are those of the other tables of Megatron-LM on A100, and of memory by formula.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from lockstep.check.validation.case import Case, Table, gpt, read_rows, step_time_s
from lockstep.describe.hardware import Cluster, cluster, link
from lockstep.price.layout import Job, Layout, Recipe, memory
from lockstep.simulate.parallel.pipeline import partition

SOURCE = "Yeung et al. 2024 (arXiv 2411.05288), tables 5 and 6"
FILE = "vocab_parallelism.csv"
SPREAD = {"Interlaced": "interlaced", "Vocab-1": "vocab-1", "Vocab-2": "vocab-2"}


def time_cases() -> tuple[Case, ...]:
    """One case per row that was timed."""
    return _cases("step_time_s", lambda row: float(row["step_time_s_derived"]), step_time_s)


def repeated(case: Case) -> bool:
    """Whether the authors' own repetition on one node agrees, or none is printed.

    It takes 9 to 14 % less time than most printed rows of 4B with 4,096 tokens, and at most 6 % less than those with
    2,048 (sail-sg/VocabularyParallelism, artifact/README.md).
    """
    return not {"4B", "4096"} <= {*case.row.split()}


def memory_cases() -> tuple[Case, ...]:
    """The same rows' peak memory."""
    return _cases("allocated_B", lambda row: float(row["peak_memory_gb"]) * 1e9, allocated_B)


def allocated_B(case: Case) -> float:
    """Bytes of all tensors on the fullest rank."""
    return float(memory(case.job, case.cluster, case.layout.grid()).allocated_B)


def out_of_memory() -> tuple[Case, ...]:
    """Rows with nothing measured, as they did not fit."""
    rows = [row for row in read_rows(FILE) if row["oom"] == "1"]
    return tuple(_case(row, "allocated_B", 80e9, allocated_B) for row in rows)


def _cases(
    quantity: str, measured: Callable[[dict[str, str]], float], predict: Callable[[Case], float]
) -> tuple[Case, ...]:
    rows = [row for row in read_rows(FILE) if row["mfu_pct"]]
    return tuple(_case(row, quantity, measured(row), predict) for row in rows)


def four_ports(devices: int) -> Cluster:
    """Nodes with four ports of 100 Gbit/s."""
    found = cluster("a100-80gb-4xhdr", gpus=devices)
    levels = list(found.levels)
    levels[1] = replace(levels[1], link=link("roce-100"))
    return replace(found, levels=tuple(levels))


def _case(row: dict[str, str], quantity: str, measured: float, predict: Callable[[Case], float]) -> Case:
    pp, layers, hidden, heads, vocab, seq = (
        int(row[name]) for name in ("pp", "layers", "hidden", "heads", "vocab", "seq_len")
    )
    folded = row["schedule"] == "V-Half"
    recipe = Recipe.by(
        "megatron-te",
        seq=seq,
        batch=int(row["num_microbatches"]),
        dtype="fp16",
        gradient_B=2.0,
        overlap_pp=folded,
        vocab_parallel=SPREAD.get(row["method"], "none"),
    )
    model = replace(gpt(row["n_params_label"], layers, hidden, heads, seq, vocab), tied_embeddings=False)
    stages = _redistributed(layers, pp, hidden, seq, vocab) if row["method"] == "Redis" else ()
    layout = Layout(pp=pp, schedule="v-half" if folded else "1f1b", vpp=2 if folded else 1, stages=stages)
    name = f"{row['row_id']} {row['schedule']} {row['method']} {row['n_params_label']} vocab {vocab // 1024}k seq {seq}"
    return Case(name, quantity, measured, Job(model, recipe, pp), four_ports(pp), layout, predict)


def _redistributed(layers: int, stages: int, hidden: int, seq: int, vocab: int) -> tuple[int, ...]:
    """Layers of stages whose FLOPs, counted as the paper does, are as even as they can be.

    72 b s h^2 + 12 b s^2 h of a layer, 6 b s h V of the head, nothing of the embedding.
    """
    head = 6.0 * vocab / (72.0 * hidden + 12.0 * seq)
    return partition([1.0] * layers, stages, extra_s=[0.0] * (stages - 1) + [head]).sizes


TIME = Table("vocab_parallelism", "step_time_s", SOURCE, 0.10, time_cases)
MEMORY = Table("vocab_parallelism_memory", "memory_B", SOURCE, 0.06, memory_cases)
