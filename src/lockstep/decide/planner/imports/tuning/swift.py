"""ms-swift's arguments, of a command line or a file that it saved: `swift sft`, `swift pt`, `swift rlhf`.

Without gradient_accumulation_steps they are as many as give 16 sequences a step. The model is loaded in the format that
its checkpoint has, half precision in all but few, and trained so. Source: swift/arguments/{sft,rlhf,tuner}_args.py,
base_args/{model,quant,template}_args.py, swift/trainers/arguments.py and pipelines/train/tuner.py of 4.6.
"""

from __future__ import annotations

import math

from lockstep.decide.planner.imports.imported import Imported
from lockstep.decide.planner.imports.launchers import devices
from lockstep.decide.planner.imports.said import Said
from lockstep.decide.planner.imports.tuning.adapters import lora, named_targets, saved, target_sizes
from lockstep.decide.planner.imports.tuning.methods import settings_of_lora
from lockstep.decide.planner.imports.tuning.names import model_of
from lockstep.decide.planner.imports.tuning.run import Run, attention, quantised, tell, without_vllm
from lockstep.decide.planner.imports.tuning.sharding import sharded
from lockstep.describe.workload import Model, Transformer

SEQUENCES = 16
"""Of a step, where nothing says how many accumulation steps there are."""
OBJECTIVES = {"dpo": "dpo", "orpo": "dpo:reference=none", "simpo": "dpo:reference=none", "cpo": "dpo:reference=none",
              "ppo": "ppo", "rm": "reward", "kto": "kto"}  # fmt: skip


VARIANTS = {"dora": "use_dora", "rslora": "use_rslora", "parameters": "target_parameters"}
OLD = {"fp16": "float16", "fp32": "float32"}
"""Formats of weights as releases before 3 have them."""


def swift(said: Said, name: str, model: Model | None) -> Imported:
    """What the arguments say."""
    found = Imported(said.format.name, model=model)
    model = model_of(found, said, "model" if "model" in said else "model_id_or_path")
    found.set(found.words, gpus=devices(said))
    micro = said["batch_size"] or said["per_device_train_batch_size"]
    run = Run(micro, said["gradient_accumulation_steps"] or 1, optimizer=_optimizer(said))
    run.sharded = sharded(found, said, model)
    run.recompute = said["gradient_checkpointing"]
    run.dtype, run.wide = _formats(said)
    found.degrees(cp=said["sequence_parallel_size"], tp=said["deepspeed_autotp_size"])
    if said["sequence_parallel_size"] > 1:
        found.words["cp_kind"] = "all-to-all"
    _objective(said, run)
    _trained(said, run, model)
    _kernels(found, said)
    without_vllm(said)
    told = tell(found, said, run, "optimizer" if said["optimizer"] else "optim")
    if said["gradient_accumulation_steps"] is None and _method(said) != "grpo":
        _sixteen(told, run)
    return told


def _optimizer(said: Said) -> str:
    return str(said["optimizer"] or said["optim"])


def _formats(said: Said) -> tuple[str, bool]:
    """The format of products, and whether weights are fp32."""
    loaded = said["torch_dtype"] or OLD.get(said["dtype"])
    if said["bf16"] or said["fp16"]:
        return "bf16" if said["bf16"] else "fp16", loaded == "float32"
    # With fp32 weights mixed precision is fp16 (_init_mixed_precision).
    return ("fp16" if loaded in ("float16", "float32") else "bf16"), loaded == "float32"


def _sixteen(found: Imported, run: Run) -> None:
    """The batch that follows from the number of devices."""

    def batch(devices: int) -> int:
        replicas = found.replicas(devices)
        return run.micro * run.pair * max(1, math.ceil(SEQUENCES / run.micro / devices)) * replicas

    found.words["batch"] = batch


def _method(said: Said) -> str | None:
    """What `swift rlhf` trains by, DPO where nothing says it; None for other commands."""
    program, subcommand = (str(said.text.words.get(f"launcher.{one}", "")) for one in ("program", "subcommand"))
    preferred = subcommand == "rlhf" or program.endswith("rlhf.py")
    return said["rlhf_type"] or ("dpo" if preferred else None)


def _objective(said: Said, run: Run) -> None:
    how = _method(said)
    run.seq = said["max_length"]
    if how == "grpo":
        run.objective = "grpo:reference=none" if said["beta"] == 0 else "grpo"
    elif how in OBJECTIVES:
        run.objective = OBJECTIVES[how]
    if how in ("grpo", "ppo") and run.seq is not None:
        run.seq += said["max_completion_length"]
    if how == "gkd":
        said.leave("rlhf_type", "GKD, whose passes are not described; those of the next token are taken")
    for word in ("packing", "padding_free"):
        if word in said and not said[word]:
            said.open(word, "samples are priced as long as the longest allowed")


def _trained(said: Said, run: Run, model: Model | None) -> None:
    """Adapters and the format of what is frozen. Raises BadInput for a quantised base without adapters."""
    word = next((one for one in ("tuner_type", "train_type", "sft_type") if one in said), "tuner_type")
    how = said[word]
    run.base = _base(said)
    if how == "full":
        if run.base is not None:
            raise said.refuse(_bits(said), f"needs adapters: {word} is full")
        return
    vera = how == "vera" and run.base is None
    if how != "lora" and not vera:
        said.leave(word, f"training by {how}{' beside a quantised base' * (how == 'vera')}; LoRA is taken")
    where = "lora_target_modules" if "lora_target_modules" in said else "target_modules"
    if said["target_regex"]:
        said.leave("target_regex", "adapters on modules of a pattern; all linear layers are taken")
    dropout = "lora_dropout_p" if "lora_dropout_p" in said else "lora_dropout"
    if vera:
        run.adapters = _vera(said, where, model)
        return
    run.adapters = lora(said, ("lora_rank", dropout, where), said[where], model, "modules_to_save")
    words = VARIANTS | {"init": "init_lora_weights" if "init_lora_weights" in said else "init_weights"}
    run.adapters += settings_of_lora(said, words, dropout, run.base)


def _vera(said: Said, where: str, model: Model | None) -> str:
    """VeRA on those of the targets that are as large as the values' matrix, which are all that ms-swift leaves."""
    named = named_targets(said, where, said[where], model)
    if isinstance(model, Transformer):
        each = {name: sizes for name, sizes in target_sizes(named, model).items() if sizes}
        alike = [name for name, sizes in each.items() if sizes == each.get("v_proj")]
        if len({*each.values()}) > 1 and alike:
            said.open(where, f"ms-swift puts VeRA on {' and '.join(alike)} alone, which are as large as v_proj")
            named = "+".join(alike)
    share = f",dropout={said['vera_dropout']:g}" if said["vera_dropout"] else ""
    return f"vera:r={said['vera_rank']},targets={named}{share}" + saved(said, "modules_to_save")


def _bits(said: Said) -> str:
    """The setting that says how many bits, or how they are made."""
    return next((one for one in ("quant_bits", "quantization_bit") if one in said), "quant_method")


def _base(said: Said) -> str | None:
    bits, method = said["quant_bits"] or said["quantization_bit"], said["quant_method"]
    if not bits and method not in ("gptq", "awq"):
        return None
    word = _bits(said)
    if method in ("gptq", "awq"):
        return "gptq"
    if method in (None, "bnb") and bits == 4:
        kind, nested = said["bnb_4bit_quant_type"], said["bnb_4bit_use_double_quant"]
        return quantised(said, kind, nested, word, "bnb_4bit_quant_type")
    if bits == 8:
        return "int8"
    said.leave(word, f"{bits} bits by {method}; four bits of GPTQ are taken")
    return "gptq"


def _kernels(found: Imported, said: Said) -> None:
    if said["attn_impl"]:
        attention(found, said, "attn_impl")
    elif said["use_flash_attn"]:
        found.words["attention_kernel"] = "flash2"
    if said["use_liger_kernel"] or said["use_liger"]:
        found.words["cross_entropy"] = "chunked"
