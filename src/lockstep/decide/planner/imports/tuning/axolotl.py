"""axolotl's YAML as a question and a layout.

The model is loaded in the format of its products, and trained so; FSDP keeps an fp32 copy of what is trained, and so
does DeepSpeed. Source: axolotl/loaders/model.py (_set_quantization_config, _configure_embedding_dtypes),
utils/config/__init__.py (normalize_config) and utils/schemas of 0.19.
"""

from __future__ import annotations

from lockstep.decide.planner.imports.imported import Imported
from lockstep.decide.planner.imports.launchers import devices
from lockstep.decide.planner.imports.said import Said
from lockstep.decide.planner.imports.tuning.adapters import lora
from lockstep.decide.planner.imports.tuning.methods import settings_of_lora
from lockstep.decide.planner.imports.tuning.names import model_of
from lockstep.decide.planner.imports.tuning.run import Run, attention, quantised, tell
from lockstep.decide.planner.imports.tuning.sharding import sharded
from lockstep.describe.workload import Model

ALONE = "dpo:reference=none"
OBJECTIVES = {"dpo": "dpo", "ipo": "dpo", "kto_pair": "dpo", "orpo": ALONE, "simpo": ALONE, "grpo": "grpo",
              "gdpo": "grpo", "kto": "kto"}  # fmt: skip
SAVE = "lora_modules_to_save"
VARIANTS = {
    "dora": "peft_use_dora",
    "rslora": "peft_use_rslora",
    "init": "peft_init_lora_weights",
    "parameters": "lora_target_parameters",
}

OFFLOADING = ("offload", "offload_disk", "unsloth")
"""Of gradient_checkpointing: inputs of recomputed layers wait in host memory, or on a disk."""


def axolotl(said: Said, name: str, model: Model | None) -> Imported:
    """What a configuration says."""
    found = Imported(said.format.name, model=model)
    model = model_of(found, said, "base_model")
    found.set(found.words, gpus=devices(said))
    run = Run(said["micro_batch_size"], _steps(found, said), said["sequence_len"], optimizer=said["optimizer"])
    run.sharded = sharded(found, said, model, implied=True)
    run.dtype = _precision(said)
    run.wide = run.dtype in ("fp32", "tf32")
    _parallel(found, said)
    _objective(said, run)
    _trained(said, run, model)
    _recompute(said, run)
    _kernels(found, said)
    for word in ("sample_packing", "pad_to_sequence_len"):
        if word in said and not said[word]:
            said.open(word, "samples are priced as long as the longest allowed")
    return tell(found, said, run, "optimizer")


def _steps(found: Imported, said: Said) -> int:
    """Accumulation steps; a batch in their place is divided by the micro-batch. Raises BadInput if it is none of it."""
    batch, micro = said["batch_size"], said["micro_batch_size"]
    if batch is None:
        return int(said["gradient_accumulation_steps"])
    if batch % micro:
        raise said.refuse("batch_size", f"is {batch}, which micro-batches of {micro} do not divide")
    if "gradient_accumulation_steps" in said and said["gradient_accumulation_steps"] * micro != batch:
        raise said.refuse("batch_size", f"is {batch}, which contradicts gradient_accumulation_steps")
    return int(batch // micro)


def _precision(said: Said) -> str:
    """The format of products: bf16 unless it is switched off."""
    half = said["bf16"]
    if said["fp8"]:
        return "fp8"
    if half is None and "bf16" not in said and (said["fp16"] or said["float16"]):
        return "fp16"
    if half or half is None or said["bfloat16"]:
        if said["fp16"]:
            said.contradiction("fp16", "bf16 is taken")
        return "bf16"
    if said["fp16"] or said["float16"]:
        return "fp16"
    return "tf32" if said["tf32"] else "fp32"


def _parallel(found: Imported, said: Said) -> None:
    split = max(said["context_parallel_size"], said["sequence_parallel_degree"])
    found.degrees(tp=said["tensor_parallel_size"], cp=split, ep=said["expert_parallel_size"])
    if split > 1:
        packed = said["sample_packing"] and said["ring_attn_func"] is None
        found.words["cp_kind"] = "gather" if packed or said["ring_attn_func"] == "varlen_llama3" else "ring"
    if said["dp_replicate_size"] > 1 and said["dp_shard_size"]:
        found.layout["shard"] = said["dp_shard_size"] * split
    if said["fsdp_version"] == 2 and "fsdp_config" not in said and "zero" not in found.layout:
        said.open("fsdp_version", "has no effect without fsdp or fsdp_config")


def _objective(said: Said, run: Run) -> None:
    how = said["rl"]
    if said["reward_model"]:
        run.objective = "reward"
    if how is None:
        return
    found = OBJECTIVES.get(how)
    if found is None:
        said.leave("rl", f"{how.upper()}, whose passes are not described; those of the next token are taken")
        return
    if found == "grpo":
        found += "" if said["trl.beta"] else ":reference=none"
        run.seq = said["max_prompt_len"] + said["trl.max_completion_length"]
    elif found == "dpo" and said["precompute_ref_log_probs"]:
        found = "dpo:reference=precomputed"
    run.objective = found


def _trained(said: Said, run: Run, model: Model | None) -> None:
    """Adapters and the format of what is frozen. Raises BadInput for a base and adapters that exclude one another."""
    how = said["adapter"]
    for word in ("load_in_4bit", "load_in_8bit"):
        if said[word] and how is None:
            raise said.refuse(word, "needs adapters: adapter is not set")
    if how is None:
        return
    if how not in ("lora", "qlora"):
        said.leave("adapter", f"adapters of the kind {how}; LoRA is taken")
    run.base = _base(said, how)
    targets, linear = said["lora_target_modules"], said["lora_target_linear"]
    where = "lora_target_linear" if linear else "lora_target_modules" if targets else "adapter"
    run.adapters = lora(
        said, ("lora_r", "lora_dropout", where), "all-linear" if linear else targets or None, model, SAVE
    )
    run.adapters += settings_of_lora(said, VARIANTS, "lora_dropout", run.base)
    if linear and targets:
        said.open("lora_target_modules", "all linear layers cover them")


def _base(said: Said, how: str) -> str | None:
    """The format of frozen matrices: `qlora` takes four bits, `lora` eight (loaders/model.py)."""
    if said["gptq"]:
        return "gptq"
    if said["load_in_4bit"]:
        if how != "qlora":
            raise said.refuse("load_in_4bit", f"needs adapter: qlora, got {how}")
        kind, nested = (said[f"bnb_config_kwargs.bnb_4bit_{one}"] for one in ("quant_type", "use_double_quant"))
        return quantised(said, kind, nested, "load_in_4bit", "bnb_config_kwargs.bnb_4bit_quant_type")
    if how == "qlora":
        raise said.refuse("adapter", "is qlora, which needs load_in_4bit: true")
    return "int8" if said["load_in_8bit"] else None


def _recompute(said: Said, run: Run) -> None:
    how, offloaded = said["gradient_checkpointing"], said["activation_offloading"]
    run.recompute = bool(how)
    run.offload_inputs = how in OFFLOADING or bool(offloaded)
    if "disk" in str(how) or offloaded == "disk":
        word = "gradient_checkpointing" if "disk" in str(how) else "activation_offloading"
        said.leave(word, "inputs of layers on local disks; host memory is taken")


def _kernels(found: Imported, said: Said) -> None:
    """Attention and the loss."""
    if said["attn_implementation"]:
        attention(found, said, "attn_implementation")
    elif said["flash_attention"]:
        found.words["attention_kernel"] = "flash2"
    elif said["eager_attention"]:
        found.words["flash"] = False
    plugins = " ".join(map(str, (said["plugins"],) if isinstance(said["plugins"], str) else said["plugins"] or ()))
    cut = said["cut_cross_entropy"] is not False and ("CutCrossEntropy" in plugins or said["cut_cross_entropy"])
    if cut or said["liger_fused_linear_cross_entropy"]:
        found.words["cross_entropy"] = "chunked"
    elif said["chunked_cross_entropy"]:
        found.words["cross_entropy"] = "pieces"
