"""PrimeIntellect's prime-rl, its own benchmarks of fine-tuning Qwen3 on 1 and 8 H100, H200 and B200: FSDP2, bf16.

Asked are the steps of supervised fine-tuning of all parameters, their time and their peak memory. The software, as of
January 2026: each layer is recomputed and is to be compiled (benchmarks/scripts/run_single_benchmark.py: --model.ac,
--model.compile). Layers of dense models are transformers' own and are not compiled in fact: FlashAttention asks values
of position_ids whether samples are packed (modeling_flash_attention_utils.py, _is_packed_sequence), which breaks the
graph, and a checkpointed layer that cannot be traced as a whole runs eagerly, with the compiler off inside (PyTorch,
torch/utils/checkpoint.py, the note before `checkpoint`). Found after their steps had come out 9 to 42 % too fast. The
model with experts is prime-rl's own and is told where samples begin, but FlashAttention 3 is a function of autograd
that the compiler does not trace either; prime-rl says so of FlashAttention 4, and that a checkpointed block is eager
then (trainer/models/layers/attn.py). Its experts are torchtitan's (layers/moe.py). It had come out 49 % too fast.
Parameters in fp32, gathered in bf16 and given up after each pass, gradients reduced in fp32 after every micro-batch
(trainer/config.py: optimization_dtype, reduce_dtype, reshard_after_forward; trainer/model.py, setup_fsdp).
The head and the loss are not compiled. FlashAttention 2 and 3 are not told apart.
A sequence repeats one token (trainer/sft/config.py: FakeDataConfig), so all its tokens may choose the same experts.

Memory is what torch had reserved (trainer/sft/train.py: max_memory_reserved), so blocks that were freed are part of it:
of 16,384 tokens and 151,936 logits it holds 20 bytes per logit, where tensors of 12 live at once.

Left out, by `left_out`: adapters, RTX A6000 (not in the catalog), what did not run, and reinforcement learning. Its
step passes over all parameters too, but loss and head go through the vocabulary in pieces of 2,048 and are computed
twice (trainer/rl/config.py: fused_lm_head_chunk_size), and its tokens per second count the time in which the weights
are written to files for inference, between two steps (trainer/rl/train.py: broadcast_weights, before step_start_time).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from lockstep.check.validation.case import Case, Table, read_rows, step_time_s
from lockstep.describe.hardware import cluster
from lockstep.describe.stacks import stack
from lockstep.describe.workload import Attention, ConvNet, Mlp, Transformer, model
from lockstep.price.layout import Job, Layout, Recipe, memory

SOURCE = "PrimeIntellect-ai/prime-rl, benchmarks/baselines, January 2026; its supervised fine-tuning of all parameters"
FILE = "prime_rl_benchmarks.csv"
CLUSTERS = {"NVIDIA H100 80GB HBM3": "dgx-h100", "NVIDIA H200": "dgx-h200", "NVIDIA B200": "dgx-b200"}
CATALOG = {"Qwen3-30B-A3B-Instruct-2507": "qwen3-30b-a3b"}
KERNELS = {"flash_attention_2": "flash2", "flash_attention_3": "flash3"}
SOFTWARE = stack("hf-trainer-5").having(
    autocast=False, foreach_update=True, summed_once=False, gradient_buckets=False, permutation="torchtitan"
)
MEMORY_ERROR = "torch.OutOfMemoryError"


def time_cases() -> tuple[Case, ...]:
    """One case per row that ran."""
    return tuple(_case(row, "step_time_s", _step_s(row), step_time_s) for row in _rows(""))


def memory_cases() -> tuple[Case, ...]:
    """The same rows' peak memory."""
    return tuple(_case(row, "reserved_B", float(row["peak_memory_gib"]) * 2.0**30, reserved_B) for row in _rows(""))


def out_of_memory() -> tuple[Case, ...]:
    """Rows that are described but did not fit."""
    return tuple(_case(row, "reserved_B", float("inf"), reserved_B) for row in _rows("out of memory"))


def left_out() -> Counter[str]:
    """How many rows are left out, by reason."""
    return Counter(why for row in read_rows(FILE) if (why := _why_not(row)))


def reserved_B(case: Case) -> float:
    """Bytes that the allocator holds on the fullest rank."""
    return float(memory(case.job, case.cluster, case.layout.grid()).reserved_B)


def _rows(why: str) -> list[dict[str, str]]:
    return [row for row in read_rows(FILE) if _why_not(row) == why]


def _why_not(row: dict[str, str]) -> str:
    if row["lora_rank"]:
        return "adapters"
    if row["task"] != "SFT":
        return "reinforcement learning"
    if row["gpu_type"] not in CLUSTERS:
        return "device not in the catalog"
    if row["success"] == "True":
        return ""
    return "out of memory" if MEMORY_ERROR in row["error"] else "failed for another reason"


def _step_s(row: dict[str, str]) -> float:
    tokens = int(row["micro_batches"]) * int(row["n_gpus"]) * int(row["seq_len"])
    return tokens / float(row["tokens_per_s_total_mean"])


def _model(row: dict[str, str]) -> Transformer | ConvNet:
    """The model of a row. The small ones look tokens up in the table of their head, as config.json says."""
    if row["model"] in CATALOG:
        return model(CATALOG[row["model"]])
    heads, kv_heads, head_dim = (int(row[name]) for name in ("heads", "kv_heads", "head_dim"))
    return Transformer(
        name=row["model"],
        layers=int(row["layers"]),
        hidden=int(row["hidden"]),
        vocab=int(row["vocab"]),
        attention=Attention(heads=heads, kv_heads=kv_heads, head_dim=head_dim, qk_norm="head"),
        mlp=Mlp(ffn=int(row["ffn"])),
        positions="rotary",
        max_positions=int(row["seq_len"]),
        norm="rmsnorm",
        tied_embeddings=True,
    )


def _case(row: dict[str, str], quantity: str, measured: float, predict: Callable[[Case], float]) -> Case:
    devices = int(row["n_gpus"])
    recipe = Recipe.by(
        SOFTWARE, sharding="fsdp2", seq=int(row["seq_len"]), batch=int(row["micro_batches"]) * devices,
        attention_kernel=KERNELS[row["attention_kernel"]],
    )  # fmt: skip
    return Case(
        row=f"{row['row_id']} {row['model']} seq {row['seq_len']} {row['gpu_type'].split()[1]} x{devices}",
        quantity=quantity,
        measured=measured,
        job=Job(_model(row), recipe, devices),
        cluster=cluster(CLUSTERS[row["gpu_type"]], gpus=devices),
        layout=Layout(dp=devices, zero=3, recompute="full"),
        predict=predict,
    )


TIME = Table("prime_rl", "step_time_s", SOURCE, 0.20, time_cases)
MEMORY = Table("prime_rl_memory", "memory_B", SOURCE, 0.15, memory_cases)
