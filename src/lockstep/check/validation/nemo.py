"""NVIDIA's NeMo and Megatron Bridge performance summaries: tuned pre-training of Llama and GPT-3 in fp8 and bf16.

Tokens per second and GPU are printed with batch, micro-batch and degrees. Recomputation and offloading are not; they
are taken from Megatron Bridge's scripts/performance/configs (*_workload_base_configs.py), which the rows of older
containers may not have had. Gradients are kept and reduced in bf16 (grad_reduce_in_fp32 = False there). Transformer
Engine overlaps tensor-parallel traffic with products and, with interleaving, hides sends.
Containers of 24.03 to 24.07 were run by NeMo's launcher, whose configurations keep gradients in fp32 where they do not
ask for bf16 (grad_sync_dtype: GPT-3's, Nemotron-4's and those of fine-tuning do), drop out in GPT-3, and have adapters
of rank 32 (NVIDIA/NeMo-Framework-Launcher, launcher_scripts/conf/training and conf/peft). Their elementwise kernels are
taken as fused, as the last ones are; earlier ones of Llama say otherwise (bias_activation_fusion, apply_rope_fusion).

Rows are left out where the model or the number format is not in the catalog or the cluster is not filled evenly. The
eight on racks used in part came after the fit of the B200 curve. fp8 is current scaling in Megatron Bridge's containers
(fp8_cs of its configurations), delayed before; 25.09, which does not print it, is taken as 25.11.

Models with experts are a table of their own, to which nothing was fitted. Their routing is forced to balance, as the
rows say; experts are whole (Megatron Bridge's recipes set expert_tensor_parallel_size 1). How tokens travel, what runs
beside that and what comes from CUDA graphs is not printed, and taken from the recipes of the time; rows that drop
tokens send every copy by itself, as Megatron Bridge then does without DeepEP. Where whole steps come from CUDA graphs
one fused kernel runs all experts (NVTE_CUTEDSL_FUSED_GROUPED_MLP of perf_recipes). DeepSeek-V3's stages are placed as
by Megatron Bridge. One row is left out: 64 ranks of experts in stages of 32 ranks (mb271).

Models that the catalog has not, of which the launcher's configurations print the shapes, are a table to which nothing
was fitted: GPT-3 of 5 and 20 billion parameters, Nemotron-3 and 4 (conf/training/gpt3 and nemotron).

Fine-tuning is a table of its own too: of all parameters, or of adapters on queries, keys and values (target_modules of
Megatron Bridge's performance recipes), of samples packed as in `dgxc.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

from lockstep.base.errors import BadInput
from lockstep.base.types.plain import Json
from lockstep.check.validation.case import Case, Table, gpt, read_rows, step_time_s
from lockstep.check.validation.dgxc import SAMPLE_TOKENS
from lockstep.describe.hardware import Cluster, cluster
from lockstep.describe.workload import Attention, ConvNet, Mlp, Transformer, model
from lockstep.price.layout import Job, Layout, Recipe

SOURCE = "NVIDIA NeMo Framework and Megatron Bridge performance summaries, 24.01 to 26.04; a part of their rows"
MODELS = {
    "LLAMA3_8B": "llama3-8b",
    "LLAMA3-8B": "llama3-8b",
    "LLAMA3_70B": "llama3-70b",
    "LLAMA3-70B": "llama3-70b",
    "LLAMA3.1_405B": "llama3-405b",
    "LLAMA2-7B": "llama2-7b",
    "LLAMA2-13B": "llama2-13b",
    "LLAMA2-70B": "llama2-70b",
    "GPT3-175B": "gpt3-175b",
}
EXPERT_MODELS = {
    "DeepSeekV3": "deepseek-v3",
    "DeepSeekV3 (dropless)": "deepseek-v3",
    "DeepSeekV3 (w/ MTP)": "deepseek-v3",
    "DeepSeekV3 (w/o MTP)": "deepseek-v3",
    "DeepSeekV3 (tokendrop)": "deepseek-v3",
    "Qwen3_30B_a3B": "qwen3-30b-a3b",
    "Qwen3_30B_a3B (tokendrop)": "qwen3-30b-a3b",
    "Qwen3_235B_a22B": "qwen3-235b-a22b",
    "Qwen3_235B_a22B (tokendrop)": "qwen3-235b-a22b",
    "GPT OSS 120B": "gpt-oss-120b",
}
LAUNCHED_MODELS = {name: name.lower() for name in (
    "GPT3-5B", "GPT3-20B", "Nemotron-8B", "Nemotron-22B", "Nemotron-340B",
)}  # fmt: skip
UNPRINTED_CHUNKS = {"gpt3-175b": 6, "llama2-13b": 10, "nemotron-22b": 10}
"""Chunks of a stage where no column says them, which is before 24.07: as there."""
GPT_OSS = "gpt-oss-120b"
# Megatron Bridge, src/megatron/bridge/recipes/deepseek/deepseek_v3.py (layout_map) for 16 chunks; for 32
# scripts/performance/configs/deepseek/deepseek_llm_pretrain.py, "Et|(tt|)*30mL".
DEEPSEEK_STAGES = {16: (4,) * 15 + (1,), 32: (1,) + (2,) * 30 + (0,)}
"""Layers of DeepSeek-V3 by chunk; prediction module and head follow in the last one."""
CLUSTERS = {"H100": "dgx-h100", "B200": "dgx-b200", "GB200": "gb200-nvl72"}
DTYPES = {
    "BF16": "bf16",
    "FP8": "fp8",
    "FP8-CS": "fp8",
    "FP8 (not printed)": "fp8",
    "FP8-MX": "mxfp8",
    "MXFP8": "mxfp8",
    "NVFP4": "nvfp4",
}


def cases() -> tuple[Case, ...]:
    """One case per pre-training row of a dense model that can be described."""
    return _cases(MODELS)


def expert_cases() -> tuple[Case, ...]:
    """The same of models with experts."""
    return _cases(EXPERT_MODELS)


def launched_cases() -> tuple[Case, ...]:
    """The same of models that the launcher's configurations describe, and the catalog does not."""
    return _cases(LAUNCHED_MODELS)


def tuning_cases() -> tuple[Case, ...]:
    """The same of fine-tuning."""
    return _cases(MODELS, ("sft", "lora"))


def _cases(models: Mapping[str, str], tasks: tuple[str, ...] = ("pre",)) -> tuple[Case, ...]:
    rows = [
        row
        for row in read_rows("nvidia_nemo_megatron_bridge.csv")
        if any(task in row["task"].lower() for task in tasks) and row["tp"]
    ]
    known = [row for row in rows if row["model"] in models and row["gpu"] in CLUSTERS and row["precision"] in DTYPES]
    asked = [row for row in known if _number(row["ep"]) <= _stage_ranks(row)]
    return tuple(case for row in asked if (case := _case(row, models[row["model"]])) is not None)


def _number(text: str) -> int:
    """A degree; 1 where the table prints none."""
    return int(text) if text.isdigit() and int(text) > 0 else 1


def _stage_ranks(row: dict[str, str]) -> int:
    return int(row["n_gpus"]) // _number(row["pp"])


def _cluster(row: dict[str, str]) -> Cluster | None:
    """The cluster of a row; None where its devices do not fill nodes or racks evenly."""
    try:
        return cluster(CLUSTERS[row["gpu"]], gpus=int(row["n_gpus"]))
    except BadInput:
        return None


def _model(row: dict[str, str], name: str) -> Transformer | ConvNet:
    """The model of the catalog, without its prediction module where the row has none, or the launcher's."""
    if name in LAUNCHED_MODELS.values():
        return _shapes()[name]
    found = model(name)
    return replace(found, mtp_layers=0) if isinstance(found, Transformer) and "w/o MTP" in row["model"] else found


@cache
def _shapes() -> dict[str, Transformer]:
    """Models of the launcher's configurations, in whose vocabulary sizes are rounded up to a multiple of 128."""
    sizes = {"nemotron-8b": (32, 4096, 32, 32), "nemotron-22b": (40, 6144, 48, 48), "nemotron-340b": (96, 18432, 96, 8)}
    found = {"gpt3-5b": gpt("gpt3-5b", 24, 4096, 32), "gpt3-20b": gpt("gpt3-20b", 44, 6144, 48)}
    for name, (layers, hidden, heads, kv_heads) in sizes.items():
        attention = Attention(heads=heads, kv_heads=kv_heads, head_dim=hidden // heads)
        found[name] = Transformer(
            name=name, layers=layers, hidden=hidden, vocab=256000, attention=attention,
            mlp=Mlp(ffn=4 * hidden, gated=False, activation="relu2"), positions="rotary", max_positions=4096,
            norm="layernorm",
        )  # fmt: skip
    return found


def _layout(row: dict[str, str], name: str) -> Layout:
    tp, pp, cp = (_number(row[degree]) for degree in ("tp", "pp", "cp"))
    printed = row["vp"] or str(UNPRINTED_CHUNKS.get(name, 1) if "pre" in row["task"].lower() else 1)
    vpp = _number(printed) if pp > 1 else 1
    experts = name in EXPERT_MODELS.values()
    return Layout(
        dp=_stage_ranks(row) // (tp * cp),
        tp=tp,
        pp=pp,
        cp=cp,
        ep=_number(row["ep"]) if experts else 1,
        etp=1 if experts and tp > 1 else 0,
        vpp=vpp,
        micro_batch=int(row["mbs"]),
        zero=3 if _number(row["fsdp"]) > 1 or row["fsdp"] == "1" else 1,
        sequence_parallel=tp > 1,
        schedule="interleaved" if vpp > 1 else "1f1b",
        recompute="selective" if _recomputed(row, name) else "none",
        stages=DEEPSEEK_STAGES[pp * vpp] if name == "deepseek-v3" else (),
    )


def _recomputed(row: dict[str, str], name: str) -> tuple[str, ...]:
    """Modules that Megatron Bridge computes again (recompute_modules of its workload configurations)."""
    dtype, gpu = DTYPES[row["precision"]], row["gpu"]
    if name == "deepseek-v3":
        both = gpu == "H100" or (gpu == "B200" and _number(row["pp"]) == 8)
        return ("mla_up_proj", "mlp") if both else ("mla_up_proj",)
    return ("layernorm", "moe_act") if name == GPT_OSS and dtype == "bf16" else ()


def _graphs(row: dict[str, str], name: str) -> str:
    """What Megatron Bridge captures in CUDA graphs (cuda_graph_impl and cuda_graph_scope of the same files).

    Where tokens are dropped, shapes never change: whole steps were captured on GB200, and of Qwen3 30B on B200. Since
    26.06 whole steps of mxfp8 are on GB200 (perf_recipes/qwen/common.py, _enable_hybridep_full_iteration_mxfp8).
    """
    gpu, release = row["gpu"], row["container"][:5]
    if _whole_steps(row):
        return "step"
    if "tokendrop" in row["model"]:
        whole = "Qwen3" in row["model"] and (gpu == "GB200" or (gpu == "B200" and "30B" in row["model"]))
        return "step" if whole else "none"
    if release < "26.02" or gpu == "H100" or name == GPT_OSS:
        return "none"
    none = name == "qwen3-235b-a22b" or (name == "deepseek-v3" and _number(row["pp"]) == 16)
    return "none" if gpu == "B200" and none else "attention"


def _whole_steps(row: dict[str, str]) -> bool:
    return row["gpu"] == "GB200" and row["container"][:5] >= "26.06" and DTYPES[row["precision"]] == "mxfp8"


def _overlap(row: dict[str, str], name: str) -> str:
    """Whether the exchange runs beside other micro-batches (moe_a2a_overlap or overlap_moe_expert_parallel_comm)."""
    gpu, release = row["gpu"], row["container"][:5]
    beside = (
        _whole_steps(row),
        name == "qwen3-235b-a22b" and gpu == "H100" and release >= "26.02",
        name == "deepseek-v3" and gpu == "B200" and _number(row["pp"]) == 8,
        name == GPT_OSS and gpu == "GB200" and release >= "26.04",
    )
    return "passes" if any(beside) else "none"


def _exchange(row: dict[str, str], name: str) -> str:
    """How tokens travel (moe_token_dispatcher_type): every copy by itself, or once to each node (DeepEP, HybridEP)."""
    alone = name == "qwen3-235b-a22b" and row["gpu"] in ("H100", "B200")
    alone |= name == GPT_OSS and not _whole_steps(row)
    return "copy" if alone or "tokendrop" in row["model"] else "node"


def _padded(row: dict[str, str], name: str) -> bool:
    """Whether rows of experts are copied to be padded: without dropped tokens, and where HybridEP does not do it."""
    return "tokendrop" not in row["model"] and (_exchange(row, name) == "copy" or row["container"][:5] < "26.02")


def _offloaded(row: dict[str, str], name: str) -> int:
    """Layers whose activations wait in host memory (cpu_offloading_num_layers of the same files)."""
    sharded = name == "llama3-70b" and row["gpu"] == "GB200" and _number(row["pp"]) == 1
    return (20 if DTYPES[row["precision"]] == "bf16" else 40) if sharded else 0


def _recipe(row: dict[str, str], name: str, layout: Layout) -> Recipe:
    experts: Json = {}
    if name in EXPERT_MODELS.values():
        experts = {"exchange": _exchange(row, name), "routing": "forced", "overlap_ep": _overlap(row, name),
                   "cuda_graphs": _graphs(row, name), "experts": "grouped" if _whole_steps(row) else "looped",
                   "expert_padding": "copied" if _padded(row, name) else "none"}  # fmt: skip
    if again := _recomputed(row, name):
        experts["recompute_modules"] = again
    if "pre" not in row["task"].lower():
        experts["sample_tokens"] = SAMPLE_TOKENS
    if row["task"] == "LoRA":
        experts["train"] = f"lora:r={32 if _launched(row) else 16},targets=qkv"
    if _launched(row) and "pre" in row["task"].lower():
        experts["dropout"] = name.startswith("gpt3")
        if not name.startswith(("gpt3", "nemotron-340b")):
            experts["gradient_B"] = 4.0
    return Recipe.by(
        "nemo-24" if _launched(row) else "nemo-25",
        seq=int(row["seq_len"]),
        batch=int(row["gbs_seqs"]),
        dtype=DTYPES[row["precision"]],
        overlap_pp=layout.vpp > 1,
        scaling="delayed" if _launched(row) else "current",
        offload_layers=_offloaded(row, name),
        **experts,
    )


def _launched(row: dict[str, str]) -> bool:
    """Whether NeMo's launcher of 2024 ran it."""
    return row["container"].startswith("NeMo")


def _case(row: dict[str, str], name: str) -> Case | None:
    hardware, devices = _cluster(row), int(row["n_gpus"])
    if hardware is None:
        return None
    layout = _layout(row, name)
    recipe = _recipe(row, name, layout)
    return Case(
        row=f"{row['row_id']} {row['model']} {row['gpu']} x{devices} {row['precision']} {row['container']}",
        quantity="step_time_s",
        measured=recipe.batch_tokens / (float(row["tokens_per_s_per_gpu"]) * devices),
        job=Job(_model(row, name), recipe, devices),
        cluster=hardware,
        layout=layout,
        predict=step_time_s,
    )


TABLE = Table("nvidia_nemo", "step_time_s", SOURCE, 0.10, cases)
LAUNCHED = Table("nvidia_nemo_launcher", "step_time_s", SOURCE, 0.10, launched_cases)
TUNING = Table("nvidia_nemo_tuning", "step_time_s", SOURCE, 0.20, tuning_cases)
EXPERTS = Table("nvidia_nemo_experts", "step_time_s", SOURCE, 0.30, expert_cases)
