"""LLaMA-Factory's YAML or JSON: its own settings over those of TrainingArguments.

Gradient checkpointing is on unless it is disabled. What is trained is fp32, under autocast, except with pure_bf16 or
sharded by DeepSpeed. Source: llamafactory/hparams, model/adapter.py (init_adapter), model/model_utils/checkpointing.py,
liger_kernel.py and quantization.py of 0.9.5.
"""

from __future__ import annotations

from lockstep.decide.planner.imports.imported import Imported
from lockstep.decide.planner.imports.said import Said
from lockstep.decide.planner.imports.tuning.adapters import lora, named_targets, saved
from lockstep.decide.planner.imports.tuning.llamafactory_megatron import on_megatron, with_megatron
from lockstep.decide.planner.imports.tuning.methods import settings_of_lora
from lockstep.decide.planner.imports.tuning.names import model_of
from lockstep.decide.planner.imports.tuning.run import OPTIMIZERS, Run, attention, quantised, tell
from lockstep.decide.planner.imports.tuning.trainer import arguments
from lockstep.describe.workload import Model

BITSANDBYTES = ("bnb", "bitsandbytes")
WITHOUT_REFERENCE = ("orpo", "simpo")
VARIANTS = {"dora": "use_dora", "rslora": "use_rslora", "pissa": "pissa_init"}


def llamafactory(said: Said, name: str, model: Model | None) -> Imported:
    """What a configuration says."""
    found = Imported(said.format.name, model=model)
    model = model_of(found, said, "model_name_or_path")
    run = arguments(found, said, model)
    run.seq = said["cutoff_len"]
    run.recompute = not said["disable_gradient_checkpointing"]
    if "gradient_checkpointing" in said and bool(said["gradient_checkpointing"]) != run.recompute:
        said.contradiction("gradient_checkpointing", "disable_gradient_checkpointing decides, which is false by itself")
    _formats(said, run)
    _objective(said, run)
    _trained(said, run, model)
    for word in ("packing", "neat_packing"):
        if word in said and not said[word]:
            said.open(word, "samples are priced as long as the longest allowed")
    attention(found, said, "flash_attn")
    if on_megatron(said):
        return with_megatron(found, said, run, model)
    if said["enable_liger_kernel"] and said["stage"] in ("pt", "sft"):
        found.words["cross_entropy"] = "chunked"
    if said["use_muon"]:
        run.optimizer = "muon"
    if said["use_galore"] and OPTIMIZERS.get(run.optimizer) == "adamw":
        run.optimizer, run.arguments = "galore_adamw", f"rank={said['galore_rank']}"
    return tell(found, said, run, "optim")


def _formats(said: Said, run: Run) -> None:
    if said["pure_bf16"]:
        run.dtype = "bf16"
        run.wide = False
    if said["fp8"]:
        run.dtype = "fp8"


def _objective(said: Said, run: Run) -> None:
    stage = said["stage"]
    if stage == "dpo":
        run.objective = "dpo:reference=none" if said["pref_loss"] in WITHOUT_REFERENCE else "dpo"
    elif stage == "ppo":
        run.objective = "ppo"
        run.seq = said["cutoff_len"] + said["max_new_tokens"]
    elif stage == "rm":
        run.objective = "reward"
    elif stage == "kto":
        run.objective = "kto"


def _trained(said: Said, run: Run, model: Model | None) -> None:
    """Adapters, or all parameters. Raises BadInput for a quantised base without adapters."""
    how = said["finetuning_type"]
    if how == "freeze":
        said.leave("finetuning_type", "some layers alone, the others frozen; all layers are taken")
    if said["quantization_bit"] is not None:
        if how not in ("lora", "oft"):
            raise said.refuse("quantization_bit", f"needs adapters, and finetuning_type is {how}")
        run.base = _base(said)
    if how in ("lora", "oft"):
        # The frozen weights are loaded in half precision where products are (model/patcher.py).
        run.wide = run.dtype in ("fp32", "tf32")
        rotates = how == "oft" and run.base is None
        if how == "oft" and not rotates:
            said.leave("finetuning_type", "OFT beside a quantised base; LoRA is taken")
        run.adapters = _oft(said) if rotates else _lora(said, run, model)


def _lora(said: Said, run: Run, model: Model | None) -> str:
    if said["pissa_init"] and run.base is not None:
        raise said.refuse("pissa_init", "is not for quantised models")
    words = "lora_rank", "lora_dropout", "lora_target"
    found = lora(said, words, said["lora_target"], model, "additional_target")
    return found + settings_of_lora(said, VARIANTS, "lora_dropout", run.base)


def _oft(said: Said) -> str:
    """OFT by the size of its blocks or, with an oft_rank, by their number."""
    blocks, block = said["oft_rank"], said["oft_block_size"]
    if bool(blocks) == bool(block):
        raise said.refuse("oft_rank", "or oft_block_size must be 0, and the other one not: peft accepts one of them")
    targets = named_targets(said, "oft_target", said["oft_target"])
    size = f"blocks={blocks}" if blocks else f"block={block}"
    return f"oft:{size},targets={targets}" + saved(said, "additional_target")


def _base(said: Said) -> str | None:
    bits, method = said["quantization_bit"], said["quantization_method"]
    if method in BITSANDBYTES and bits == 4:
        kind, nested = said["quantization_type"], said["double_quantization"]
        return quantised(said, kind, nested, "quantization_bit", "quantization_type")
    if bits == 8 and method in (*BITSANDBYTES, "eetq", "hqq", "quanto"):
        return "int8"
    if method in ("gptq", "awq") and bits == 4:
        return "gptq"
    said.leave("quantization_bit", f"{bits} bits by {method}; four bits of GPTQ are taken")
    return "gptq"
