"""IBM's fms-fsdp: compiled pre-training of Llama 2 on 128 A100 or 96 H100 under PyTorch's FSDP, two sequences a GPU.

The software: FSDP (hybrid: one copy per node), bf16 on the wire both ways, fp32 parameters, gradients and AdamW states
(fms_fsdp/utils/train_utils.py, get_policies; policies/mixed_precision.py, bfSixteen), torch.compile, FlashAttention 2
as PyTorch has it, 4,096 tokens. Networks of 400 and 800 Gbit/s per node are printed; ports of 100 Gbit/s RoCE assumed.

Asked are the two rows without recomputation. Selective recomputation means here that some of the blocks are computed
again as a whole (policies/ac_handler.py); how many is not printed and a layout cannot say it, so these rows only bound:
`some_blocks` describes them twice, with none and with all blocks recomputed. The production run prints no batch.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from lockstep.check.validation.case import Case, Table, read_rows, step_time_s
from lockstep.describe.hardware import Cluster, cluster, link
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout, Recipe

SOURCE = "foundation-model-stack/fms-fsdp, README.md; Llama 2 without recomputation"
FILE = "fms_fsdp.csv"
NODES = {"A100-SXM-80GB": ("a100-80gb-4xhdr", 4), "H100-SXM-80GB": ("dgx-h100", 8)}
"""A node of the catalog, and the ports of 100 Gbit/s that the row's network amounts to."""
GPUS_PER_NODE = 8


def cases() -> tuple[Case, ...]:
    """One case per row whose recomputation can be described."""
    return tuple(_case(row, "none") for row in read_rows(FILE) if not _why_not(row))


def some_blocks() -> tuple[tuple[Case, Case], ...]:
    """Rows that compute some blocks again, as if none and as if all were."""
    rows = [row for row in read_rows(FILE) if row["recompute"] == "selective" and row["mbs"]]
    return tuple((_case(row, "none"), _case(row, "full")) for row in rows)


def left_out() -> Counter[str]:
    """How many rows are left out, by reason."""
    return Counter(why for row in read_rows(FILE) if (why := _why_not(row)))


def _why_not(row: dict[str, str]) -> str:
    if not row["mbs"]:
        return "batch not printed"
    return "" if row["recompute"] == "none" else "share of recomputed blocks not printed"


def _cluster(row: dict[str, str]) -> Cluster:
    """Nodes with ports of 100 Gbit/s."""
    name, ports = NODES[row["gpu_type"]]
    found = cluster(name, gpus=int(row["n_gpus"]))
    fabric = replace(found.levels[1], link=link("roce-100"), links_per_child=ports)
    return replace(found, levels=(found.levels[0], fabric, *found.levels[2:]))


def _case(row: dict[str, str], recompute: str) -> Case:
    devices, batch, seq = (int(row[name]) for name in ("n_gpus", "gbs_seqs", "seq_len"))
    return Case(
        row=row["row_id"],
        quantity="step_time_s",
        measured=batch * seq / (float(row["tokens_per_s_per_gpu"]) * devices),
        job=Job(model(f"llama2-{row['model'].split()[-1].lower()}"), _recipe(seq, batch), devices),
        cluster=_cluster(row),
        layout=Layout(
            dp=devices,
            micro_batch=int(row["mbs"]),
            zero=3,
            shard=GPUS_PER_NODE if row["sharding"] == "HSDP" else 0,
            recompute=recompute,
        ),
        predict=step_time_s,
    )


def _recipe(seq: int, batch: int) -> Recipe:
    return Recipe.by("fsdp-compile", seq=seq, batch=batch, sharding="any", reduce_B=2.0)


TABLE = Table("fms_fsdp", "step_time_s", SOURCE, 0.07, cases)
