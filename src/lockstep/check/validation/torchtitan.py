"""torchtitan's own benchmarks: Llama 3.1 8B, 70B and 405B on 8 to 512 H100 and H200, step times and peak memory.

The H100 are Grand Teton's: 96 GB of HBM2e at 2.4 TB/s (printed), of which torch sees 95.0 GiB (35.56 GiB are 37.43 % in
a log of pytorch/ao pull request 1718), and 500 W. Their matrix rate is "between SXM and NVL" (printed), 989 and 835
TFLOP/s, and not known. Products on H100 are held back by power (`tools/fit/products.py`); taken is the clock at which
500 W suffice where 700 W do at SXM's, if power grows with its cube: 0.89 of it. One port of 400 Gbit/s per GPU; RoCE
is taken.

What the software does, from parallelize_llama.py and pipelining_utils.py in torchtitan/parallelisms (versions of 2024,
not the very commit) and the page's commands:

- FSDP2 over dp * cp ranks shards fp32 parameters, gathers bf16, reduces fp32. With pipeline stages parameters stay
  whole from a forward to its backward pass; else they are given up (reshard_after_forward).
- Tensor parallelism with sequence parallelism. A gathered input's gradient is reduced after both products of its
  layer's backward pass, so nothing overlaps, unless the row says asynchronous.
- Context parallelism gathers keys and values (context_parallel_rotate_method: allgather, the default).
- As many micro-batches as pipeline stages, two stages per rank where interleaved, first and last with fewer layers:
  the defaults, which the page does not contradict. Sends are waited for where they are issued.
- Elementwise kernels are fused where blocks are compiled, but for rotary embedding, a product of complex numbers. The
  loss is taken of all logits at once, in fp32. In December 2024 it was not compiled (pull request 755), in June 2025 it
  was (1033).
- "Selective (per-op)" keeps the attention output and every second product (query, value, gate, down), and computes key,
  output projection, up and all else again, gathers of tensor parallelism among it, but not reductions (`_save_list`).

Peak memory is what torch's allocator reserved at most on any rank (max_reserved_gib in metrics.py). It is compared with
all bytes but the framework's own, which are outside of that allocator; its slack is inside.
Freed blocks that nothing fits into are reserved too: most where the loss is not compiled and its tensors are largest.
What the tensors of such a rank hold is torch's own count (tests/layout/test_oracle_of_ranks.py): inputs that stay
gathered, a loss in DTensor's operations, buffers of its pipelines (`price/layout/pipelined.py`).

Left out, and counted by `left_out`: runs on B200, which are rows of torchao's table; NVFP4's, whose sequence length is
not printed; float8 by row without asynchronous tensor parallelism, slow by a fault (printed: torchtitan issue 1207). A
gather of parameters in fp8 (H200) and one scale per row are priced as any fp8. Nothing of it was fitted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from lockstep.check.validation.case import Case, Table, read_rows, step_time_s
from lockstep.describe.hardware import Cluster, cluster
from lockstep.describe.workload import Transformer, model
from lockstep.price.layout import Job, Layout, Recipe, memory

GIB = 2.0**30
SOURCE = "pytorch/torchtitan, benchmarks: llama3_h100_202412, asyncTP_llama3_h100_2025-06, llama3-8b_h200_202506"
FILE = "torchtitan.csv"
MODELS = {"Llama 3.1 8B": "llama3-8b", "Llama 3.1 70B": "llama3-70b", "Llama 3.1 405B": "llama3-405b"}
RECOMPUTED = ("op",)
EAGER = {"norm": "written", "norm_weight": "written", "residual": "apart", "bias": "apart"}
"""Slots of layers that are not compiled."""


def time_cases() -> tuple[Case, ...]:
    """One case per row that can be described."""
    return tuple(_case(row, "step_time_s", _step_s(row), step_time_s) for row in _described())


def memory_cases() -> tuple[Case, ...]:
    """The same rows' peak memory, where it is printed."""
    rows = [row for row in _described() if row["mem_gib_peak_reserved"]]
    return tuple(_case(row, "reserved_B", float(row["mem_gib_peak_reserved"]) * GIB, reserved_B) for row in rows)


def reserved_B(case: Case) -> float:
    """Bytes that torch's allocator holds on the fullest rank."""
    return float(memory(case.job, case.cluster, case.layout.grid()).reserved_B)


def left_out() -> Counter[str]:
    """How many rows are left out, by reason."""
    return Counter(why for row in read_rows(FILE) if (why := _why_not(row)))


def fsdp2(seq: int, batch: int, dtype: str, compiled: bool, scaling: str = "current") -> Recipe:
    """How torchtitan trains with FSDP2 and neither tensor, pipeline nor context parallelism."""
    return Recipe.by(
        "torchtitan",
        **({} if compiled else EAGER),
        seq=seq,
        batch=batch,
        dtype=dtype,
        scaling=scaling,
        fused_elementwise=compiled,
        recompute_modules=RECOMPUTED,
    )


def scaling_of(recipe: str) -> str:
    """The word for a recipe of torchao's."""
    return "rows" if "rowwise" in recipe else "current"


def _described() -> list[dict[str, str]]:
    return [row for row in read_rows(FILE) if not _why_not(row)]


def _why_not(row: dict[str, str]) -> str:
    if not row["seq_len"]:
        return "sequence length not printed"
    if "B200" in row["gpu_type"]:
        return "a row of torchao's table"
    slow = row["precision_note"] == "float8 rowwise" and row["async_tp"] == "0"
    return "slow by a fault that the page names" if slow else ""


def _cluster(row: dict[str, str], devices: int) -> Cluster:
    """Nodes of eight H200, or of the H100 with HBM2e."""
    return cluster("dgx-h200", gpus=devices) if row["gpu_type"].startswith("H200") else hbm2e(devices)


def hbm2e(devices: int) -> Cluster:
    """Nodes of eight H100 with HBM2e and 500 W."""
    found = cluster("cloud-h100", gpus=devices)
    curve = found.device.efficiency.limited(500.0)
    device = replace(
        found.device, name="h100-hbm2e", memory_B=95.0 * GIB, memory_bandwidth_Bps=2.4e12, tdp_W=500.0, efficiency=curve
    )
    return replace(found, device=device)


def _stages(layers: int, stages: int) -> tuple[int, ...]:
    """Layers of every stage: the first has `layers // stages`, those behind it one more while some are left over."""
    each, more = divmod(layers, stages)
    before = (each, *(each + (at < more) for at in range(stages - 2)))
    return (*before, layers - sum(before))


def _layout(row: dict[str, str], layers: int) -> Layout:
    dp, tp, pp, cp = (int(row[name]) for name in ("fsdp_dp", "tp", "pp", "cp"))
    chunks = 2 if row["pp_schedule"].startswith("Interleaved") else 1
    microbatches = pp * chunks if pp > 1 else 1
    return Layout(
        dp=dp,
        tp=tp,
        pp=pp,
        cp=cp,
        vpp=chunks,
        schedule="interleaved" if chunks > 1 else "1f1b",
        micro_batch=int(row["local_batch_size"]) // microbatches,
        zero=3,
        sequence_parallel=tp > 1,
        recompute="full" if row["ac_mode"] == "full" else "selective",
        stages=_stages(layers, pp * chunks) if pp > 1 else (),
    )


def _step_s(row: dict[str, str]) -> float:
    """Seconds of a step: the printed rate is tokens per second and GPU."""
    tokens = int(row["gbs_seqs"]) * int(row["seq_len"])
    return tokens / (float(row["tokens_per_s_per_gpu"]) * int(row["n_gpus"]))


def _case(row: dict[str, str], quantity: str, measured: float, predict: Callable[[Case], float]) -> Case:
    devices, compiled = int(row["n_gpus"]), row["compile"] == "1"
    found = model(MODELS[row["model"]])
    layout = _layout(row, found.layers if isinstance(found, Transformer) else 0)
    dtype = "fp8" if row["float8"] == "1" else "bf16"
    scaling = scaling_of(row["precision_note"])
    recipe = fsdp2(int(row["seq_len"]), int(row["gbs_seqs"]), dtype, compiled, scaling).having(
        cross_entropy="eager" if "202412" in row["source"] else None,
        reshard=layout.pp == 1,
        overlap_tp="async" if row["async_tp"] == "1" else "none",
        cp_kind="gather",
    )
    name = f"{row['row_id']} {row['model']} {row['gpu_type'][:4]} x{devices} {layout} seq {row['seq_len']} {dtype}"
    job = Job(found, recipe, devices)
    return Case(name, quantity, measured, job, _cluster(row, devices), layout, predict, row["precision_note"])


TIME = Table("torchtitan", "step_time_s", SOURCE, 0.10, time_cases)
MEMORY = Table("torchtitan_memory", "memory_B", SOURCE, 0.08, memory_cases)
