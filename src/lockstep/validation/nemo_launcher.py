"""NeMo Framework Launcher: scaling of GPT 5B and 175B with NeMo on 8 to 1,024 A100 80 GB.

The table prints tokens per second of every number of nodes and nothing of how they ran. Batch and layout are those of
the configurations of the same commit (NVIDIA/NeMo-Framework-Launcher, launcher_scripts/conf/training/gpt3/5b.yaml and
175b.yaml), so they are inferred, and the runs may be older: the page lists faster configurations in releases 22.06 and
22.11 and prints no date beside this table. 175B on 64 devices would not fit in the layout of its configuration.

The configurations also say: the distributed Adam, dropout, GPT-2's words padded to a multiple of 128
per tensor-parallel rank, weight gradients added inside products, no overlap of sends (overlap_p2p_comm) and none by
userbuffers (ub_tp_comm_overlap), and Megatron Core (mcore_gpt), whose layers have attention in one kernel: with a
matrix of scores the 5B's activations, none recomputed, would take more than the memory.

Left out are encoder-decoders (T5, mT5), BERT with its pooler and second loss, and one GPT row whose printed batch of
1,440 the configuration's micro-batches do not divide. Nothing was fitted to these rows.
"""

from __future__ import annotations

from collections import Counter

from lockstep.hardware import cluster
from lockstep.layout import Job, Layout, Recipe
from lockstep.validation.case import Case, Table, gpt, read_rows, step_time_s
from lockstep.workload import Transformer

SOURCE = "NVIDIA/NeMo-Framework-Launcher, README.md of 2023, section 7; its GPT models"
FILE = "nemo_launcher_a100_scaling.csv"
BATCH = 2048
"""model.global_batch_size of both configurations, where the table prints none."""
WORDS = 50257
"""Of GPT2BPETokenizer, before padding."""


def cases() -> tuple[Case, ...]:
    """One case per row of a GPT model."""
    return tuple(_case(row) for row in read_rows(FILE) if not _why_not(row))


def left_out() -> Counter[str]:
    """How many rows are left out, by reason."""
    return Counter(why for row in read_rows(FILE) if (why := _why_not(row)))


def _why_not(row: dict[str, str]) -> str:
    if "T5" in row["model"]:
        return "encoder and decoder"
    if "BERT" in row["model"]:
        return "pooler and second loss"
    divided = _batch(row) % (int(row["mbs_config"]) * int(row["dp"])) == 0
    return "" if divided else "batch that micro-batches do not divide"


def _batch(row: dict[str, str]) -> int:
    return int(row["gbs_seqs"] or BATCH)


def _model(row: dict[str, str]) -> Transformer:
    layers, hidden, heads, seq = (int(row[name]) for name in ("layers", "hidden", "heads", "seq_len"))
    unit = 128 * int(row["tp"])
    return gpt(row["model"], layers, hidden, heads, seq, -(-WORDS // unit) * unit)


def _layout(row: dict[str, str]) -> Layout:
    tp, vpp = int(row["tp"]), int(row["vpp"] or 1)
    return Layout(
        dp=int(row["dp"]),
        tp=tp,
        pp=int(row["pp"]),
        vpp=vpp,
        schedule="interleaved" if vpp > 1 else "1f1b",
        micro_batch=int(row["mbs_config"]),
        zero=1,
        sequence_parallel=tp > 1,
    )


def _case(row: dict[str, str]) -> Case:
    devices, layout = int(row["n_gpus"]), _layout(row)
    recipe = Recipe(seq=int(row["seq_len"]), batch=_batch(row), dtype=row["dtype"], dropout=True)
    return Case(
        row=f"{row['row_id']} {row['model']} x{devices}",
        quantity="step_time_s",
        measured=recipe.batch_tokens / float(row["tokens_per_s"]),
        job=Job(_model(row), recipe, devices),
        cluster=cluster("dgx-a100-80gb", gpus=devices),
        layout=layout,
        predict=step_time_s,
    )


TABLE = Table("nemo_launcher_a100", "step_time_s", SOURCE, 0.30, cases)
