"""Megatron-SWIFT's arguments: `megatron sft`, `megatron rlhf`, which train a model of the hub by Megatron Core.

Its defaults are its own: full training, the distributed optimizer, selective recomputation, a fused loss, nothing
overlapped. Source: swift/megatron/arguments/megatron_args.py and megatron_base_args.py of ms-swift 4.6.
"""

from __future__ import annotations

from lockstep.decide.planner.imports.imported import Imported
from lockstep.decide.planner.imports.launchers import devices
from lockstep.decide.planner.imports.said import Said
from lockstep.decide.planner.imports.tuning.adapters import lora
from lockstep.decide.planner.imports.tuning.names import model_of
from lockstep.decide.planner.imports.tuning.run import without_vllm
from lockstep.decide.planner.imports.tuning.sharding import with_others
from lockstep.describe.workload import Model, Transformer

STACK = "megatron-te"
OPTIMIZERS = {"adam": "adamw", "sgd": "sgd-momentum", "muon": "muon", "dist_muon": "muon"}
STAGES = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
KINDS = {"p2p": "ring", "all_gather": "gather", "a2a": "all-to-all", "a2a+p2p": "mixed"}


def swift_megatron(said: Said, name: str, model: Model | None) -> Imported:
    """What the arguments say."""
    found = Imported(said.format.name, words={"stack": STACK}, model=model)
    word = next((one for one in ("model", "mcore_model", "load") if one in said), "model")
    model = model_of(found, said, word)
    found.set(found.words, gpus=devices(said))
    _degrees(found, said, model)
    pair = _trained(found, said, model)
    found.layout["micro_batch"] = said["micro_batch_size"] * pair
    found.words["batch"] = said["global_batch_size"] * pair
    _recompute(found, said)
    _formats(found, said)
    _overlap(found, said, model)
    without_vllm(said)
    with_others(found, "overlap", *(() if "offload" in found.layout else ("zero",)))
    return found


def _degrees(found: Imported, said: Said, model: Model | None) -> None:
    sizes = {axis: said[f"{word}_parallel_size"] for axis, word in (
        ("tp", "tensor_model"), ("pp", "pipeline_model"), ("cp", "context"), ("ep", "expert_model")
    )}  # fmt: skip
    found.degrees(**sizes)
    etp = said["expert_tensor_parallel_size"]
    experts = isinstance(model, Transformer) and model.experts is not None
    if etp != sizes["tp"] and (sizes["ep"] > 1 or experts):
        found.layout["etp"] = etp
    if said["sequence_parallel"] and sizes["tp"] > 1:
        found.layout["sequence_parallel"] = True
    if sizes["pp"] > 1:
        _stages(found, said, sizes["pp"], model.layers if isinstance(model, Transformer) else 0)
    zero = 1 if said["use_distributed_optimizer"] else 0
    if said["use_megatron_fsdp"]:
        zero = STAGES[said["data_parallel_sharding_strategy"]]
    found.set(found.layout, zero=zero or None)
    if said["optimizer_cpu_offload"]:
        found.layout["offload"] = "optimizer"
    if sizes["cp"] > 1:
        _context(found, said)


def _context(found: Imported, said: Said) -> None:
    kinds = said["cp_comm_type"] or "p2p"
    kind = KINDS.get(kinds if isinstance(kinds, str) else str(kinds[0]))
    if kind is None:
        said.leave("cp_comm_type", f"context parallelism by {kinds}; a ring is taken")
    found.words["cp_kind"] = kind or "ring"


def _stages(found: Imported, said: Said, pp: int, layers: int) -> None:
    """Chunks, and layers at the ends."""
    chunks = said["virtual_pipeline_model_parallel_size"] or said["num_virtual_stages_per_pipeline_rank"]
    each = said["num_layers_per_virtual_pipeline_stage"]
    if each and layers:
        if layers % (pp * each):
            raise said.refuse("num_layers_per_virtual_pipeline_stage", f"is {each}, which {layers} layers do not fill")
        chunks = layers // (pp * each)
    elif each:
        said.leave("num_layers_per_virtual_pipeline_stage", "vpp, which follows from the layers of the model")
    if chunks and chunks > 1:
        found.layout["vpp"] = chunks
        if said["overlap_p2p_comm"]:
            found.words["overlap_pp"] = True
    first, last = (said[f"decoder_{end}_pipeline_num_layers"] or 0 for end in ("first", "last"))
    if (first or last) and layers:
        inner = pp - bool(first) - bool(last)
        rest = layers - first - last
        if rest < inner or (inner and rest % inner) or (not inner and rest):
            raise said.refuse("pipeline_model_parallel_size", f"is {pp}, which {rest} layers between do not fill")
        ends = [first] * bool(first), [last] * bool(last)
        found.layout["stages"] = ",".join(map(str, [*ends[0], *[rest // inner if inner else 0] * inner, *ends[1]]))


def _trained(found: Imported, said: Said, model: Model | None) -> int:
    """Sets what is trained and the sequence length; returns the sequences of a sample."""
    how, objective = said["rlhf_type"], ""
    seq = said["packing_length"] or said["max_length"] or said["seq_length"]
    if how == "dpo":
        objective = "dpo:reference=none" if said["reference_free"] else "dpo"
    elif how == "grpo":
        objective = "grpo:reference=none" if said["beta"] == 0 else "grpo"
        seq = None if seq is None else seq + said["max_completion_length"]
    elif how is not None:
        said.leave("rlhf_type", f"{how.upper()}, which is not described; passes of the next token are taken")
    word = "train_type" if "train_type" in said and "tuner_type" not in said else "tuner_type"
    adapters = ""
    if said[word] != "full":
        adapters = lora(said, ("lora_rank", "lora_dropout", "target_modules"), said["target_modules"], model)
    found.set(found.words, seq=seq, train=",".join(part for part in (objective, adapters) if part) or None)
    if "packing" in said and not said["packing"]:
        said.open("packing", "samples are priced as long as the longest allowed")
    return 2 if how in ("dpo", "rm") else 1


def _recompute(found: Imported, said: Said) -> None:
    granularity, method, layers = (said[f"recompute_{one}"] for one in ("granularity", "method", "num_layers"))
    if granularity != "none":
        found.layout["recompute"] = granularity
    if granularity == "full" and method == "block":
        found.set(found.words, recompute_layers=layers)
    elif granularity == "full" and layers not in (None, 1):
        said.leave("recompute_num_layers", "layers that are recomputed together; each alone is taken")
    modules = said["recompute_modules"]
    each = [modules] if isinstance(modules, str) else list(map(str, modules))
    if granularity == "selective" and each != ["core_attn"]:
        found.words["recompute_modules"] = ",".join(each)


def _formats(found: Imported, said: Said) -> None:
    half = "fp16" if said["fp16"] or said["torch_dtype"] == "float16" else "bf16"
    if half == "bf16" and said["bf16"] is False:
        half = "fp32"
    narrow = "nvfp4" if said["fp4_format"] else None
    if said["fp8_format"]:
        recipe = said["fp8_recipe"]
        narrow = "mxfp8" if recipe == "mxfp8" else "fp8"
        if recipe == "tensorwise":
            found.words["fp8_scaling"] = "current"
        elif recipe == "blockwise":
            said.leave("fp8_recipe", "scales of blocks; those of earlier steps are taken")
    found.words["dtype"] = narrow or half
    found.words["optimizer"] = OPTIMIZERS[said["optimizer"]]
    if said["main_grads_dtype"] == "bf16":
        found.words["gradient_bytes"] = 2


def _overlap(found: Imported, said: Said, model: Model | None) -> None:
    """Kernels, and traffic alongside compute."""
    words, layout = found.words, found.layout
    if said["cross_entropy_loss_fusion"]:
        words["cross_entropy"] = "fused"
    if said["attention_backend"] in ("unfused", "local"):
        words["flash"] = False
    if not said["overlap_grad_reduce"]:
        words["overlap"] = False
    if said["tp_comm_overlap"] and layout.get("tp", 1) > 1:
        words["overlap_tp"] = "all"
    if not said["gradient_accumulation_fusion"] and layout.get("zero", 0) < 2:
        words["fused_accumulation"] = False
    experts = model.experts if isinstance(model, Transformer) else None
    if experts is None or layout.get("ep", 1) == 1:
        return
    if said["moe_shared_expert_overlap"] and experts.shared_ffn:
        words["overlap_ep"] = "shared"
    if said["moe_enable_deepep"] != (experts.top_groups < experts.groups):
        words["exchange"] = "node" if said["moe_enable_deepep"] else "copy"
