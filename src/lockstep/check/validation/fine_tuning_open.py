"""ms-swift: seconds and memory that its authors note at the head of example scripts, by Megatron and by DeepSpeed.

Asked are rows of packed text, where a step has global batch x max_length tokens; the samples inside are reasoning
traces and long documents (`--dataset` of the scripts), so attention is taken over the whole pack. Time is asked where
the GPU is named, memory everywhere: of an unnamed GPU it is asked on an 80 GB A100, which bytes do not feel. What is
noted is what torch had reserved, rounded by hand, so memory is known to about 5 GiB.

Megatron-SWIFT is Megatron Core with its fused cross entropy, sequence parallelism and distributed optimizer, gradients
in fp32; its FP8 run keeps both moments in bf16, copies parameters in fp8 and recomputes the attention core. Experts are
whole (expert_tensor_parallel_size 1) and adapters on all linear layers, in bf16. The transformers runs are Hugging
Face's models under DeepSpeed with Liger's kernels (norms, activations, head and loss in pieces), but for the benchmark
table, which has none. An A800 is an A100 with NVLink of 400 GB/s. Nothing was fitted.

Left out, by `left_out` and `memory_left_out`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from lockstep.base.types.plain import Json
from lockstep.check.validation.case import Case, Table, read_rows, step_time_s
from lockstep.check.validation.fms_acceleration import FUSED
from lockstep.check.validation.prime_rl import reserved_B
from lockstep.describe.hardware import Cluster, cluster, link
from lockstep.describe.workload import Transformer, model
from lockstep.price.layout import Job, Layout, Recipe

SOURCE = "modelscope/ms-swift@3602360, examples and docs/source_en/Megatron-SWIFT/Quick-start.md"
FILE = "fine_tuning_open.csv"
CATALOG = {
    "Qwen2.5-72B-Instruct": "qwen2.5-72b", "Qwen3-14B-FP8": "qwen3-14b", "Qwen2.5-7B": "qwen2.5-7b",
    "Qwen3-30B-A3B": "qwen3-30b-a3b", "Qwen3-30B-A3B-Base": "qwen3-30b-a3b",
    "Qwen3-30B-A3B-Instruct-2507": "qwen3-30b-a3b", "Qwen1.5-MoE-A2.7B": "qwen1.5-moe-a2.7b",
    "Qwen2.5-14B": "qwen2.5-14b", "QwQ-32B": "qwen2.5-32b",
}  # fmt: skip
CLUSTERS = {"H20": "hgx-h20", "A100": "dgx-a100-80gb", "A800-80": "dgx-a100-80gb", "": "dgx-a100-80gb"}
A800_LINK = "nvlink4-h800"
"""NVLink of 400 GB/s, as an A800 and an H800 have it (NVIDIA's datasheets)."""
FULL_GIB = 80.0
"""What is noted of rows that merely fit."""


def time_cases() -> tuple[Case, ...]:
    """One case per row whose GPU, layout and tokens are known."""
    return tuple(_case(row, "step_time_s", float(row["s_per_iter"]), step_time_s) for row in _asked(_why_not))


def memory_cases() -> tuple[Case, ...]:
    """One case per row whose layout is known."""
    rows = _asked(_memory_why_not)
    return tuple(_case(row, "reserved_B", float(row["memory_gib_per_gpu"]) * 2.0**30, reserved_B) for row in rows)


def left_out() -> Counter[str]:
    """How many rows have no time asked, by reason."""
    return Counter(why for row in read_rows(FILE) if (why := _why_not(row)))


def memory_left_out() -> Counter[str]:
    """How many rows have no memory asked, by reason."""
    return Counter(why for row in read_rows(FILE) if (why := _memory_why_not(row)))


def _asked(why_not: Callable[[dict[str, str]], str]) -> list[dict[str, str]]:
    return [row for row in read_rows(FILE) if not why_not(row)]


def _name(row: dict[str, str]) -> str:
    return row["model"].split("/")[-1]


def _described(row: dict[str, str]) -> str:
    """Why a row is not described, whatever is asked of it."""
    if row["model_kind"] != "text":
        return "not a language model alone"
    if row["packing"] != "true":
        return "tokens of a step not fixed"
    if row["rlhf"]:
        return "pairs and teachers in packs"
    if _name(row) not in CATALOG:
        return "model not in the catalog"
    if "looped" in row["variant"] or row["row_id"] in ("ft59", "ft60"):
        return "experts one after another in Python"
    if "seq_cls" in row["source"]:
        return "a classifier, without a head over the vocabulary"
    if "offload" in row["optimizer_offload"]:
        return "Megatron's offload, whose gradients stay on the device"
    if row["row_id"] == "ft55":
        return "layout not printed"
    return "512,000 tokens, states in host memory" if row["row_id"] == "ft52" else ""


def _why_not(row: dict[str, str]) -> str:
    if why := _described(row):
        return why
    if not row["gpu"]:
        return "GPU not named"
    return "network not printed" if int(row["n_gpus"]) > 8 else ""


def _memory_why_not(row: dict[str, str]) -> str:
    if why := _described(row):
        return why
    return "noted as full" if float(row["memory_gib_per_gpu"]) >= FULL_GIB else ""


def _megatron(row: dict[str, str]) -> tuple[Recipe, Layout]:
    devices, tp, pp = int(row["n_gpus"]), int(row["tp"] or 1), int(row["pp"] or 1)
    fp8 = row["precision"].startswith("fp8")
    switches: Json = {"train": f"lora:r={row['lora_rank']},targets=all-linear"} if row["method"] == "lora" else {}
    if "14B-FP8" in row["model"]:
        switches["optimizer"] = "adamw-bf16-moments"
    recipe = Recipe.by(
        "megatron-te",
        seq=int(row["max_length"]),
        batch=int(row["global_batch"]),
        dtype="fp8" if fp8 else "bf16",
        attention_kernel={"FlashAttention-3": "flash3", "FlashAttention-2": "flash2"}.get(row["attn_impl"]),
        routing="natural",
        **switches,
    )
    dp = devices // (tp * pp)
    layout = Layout(
        dp=dp,
        tp=tp,
        pp=pp,
        ep=int(row["ep"] or 1),
        etp=1 if row["ep"] else 0,
        micro_batch=int(row["micro_batch"]),
        zero=1,
        sequence_parallel=tp > 1,
        recompute=row["recompute"] or "full",
    )
    return recipe, layout


def _deepspeed(row: dict[str, str]) -> tuple[Recipe, Layout]:
    devices = int(row["n_gpus"])
    liger = "benchmark" not in row["variant"]
    recipe = Recipe.by(
        "deepspeed",
        **(FUSED if liger else {}),
        seq=int(row["max_length"]),
        batch=devices * int(row["micro_batch"]) * int(row["grad_accum"] or 1),
        fused_elementwise=liger,
        cross_entropy="chunked" if liger else "eager",
        gradient_B=2.0,
        attention_kernel="flash3" if "3" in row["attn_impl"] else "flash2",
    )
    zero = int(row["zero"][-1])
    return recipe, Layout(dp=devices, micro_batch=int(row["micro_batch"]), zero=zero, recompute="full")


def _cluster(row: dict[str, str]) -> Cluster:
    found = cluster(CLUSTERS[row["gpu"]], gpus=int(row["n_gpus"]))
    if not row["gpu"].startswith("A800"):
        return found
    node, *others = found.levels
    return replace(found, levels=(replace(node, link=link(A800_LINK)), *others))


def _case(row: dict[str, str], quantity: str, measured: float, predict: Callable[[Case], float]) -> Case:
    recipe, layout = (_megatron if "Megatron" in row["framework"] else _deepspeed)(row)
    found = model(CATALOG[_name(row)])
    if not isinstance(found, Transformer):
        raise TypeError(row["model"])
    kind = " ".join(word for word in (row["method"], row["variant"], row["zero"]) if word)
    return Case(
        row=f"{row['row_id']} {_name(row)} x{row['n_gpus']} {kind}",
        quantity=quantity,
        measured=measured,
        job=Job(found, recipe, int(row["n_gpus"])),
        cluster=_cluster(row),
        layout=layout,
        predict=predict,
    )


TIME = Table("fine_tuning_open", "step_time_s", SOURCE, 0.12, time_cases)
MEMORY = Table("fine_tuning_open_memory", "memory_B", SOURCE, 0.12, memory_cases)
