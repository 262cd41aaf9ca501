"""TrainingArguments of transformers, and TRL's configurations, which extend them.

Such a file does not say which trainer takes it; words that one of TRL's trainers has alone do. The Trainer's arguments
alone hold no sequence length and no model; words of the scripts that most people begin with do.

Source: transformers/training_args.py of 5.24; trl/trainer/*_config.py,
model_config.py, trl/scripts/sft.py and trainer/sft_trainer.py of 1.16.
"""

from __future__ import annotations

import re

from lockstep.decide.planner.imports.imported import Imported
from lockstep.decide.planner.imports.launchers import devices
from lockstep.decide.planner.imports.said import Said
from lockstep.decide.planner.imports.tuning.adapters import lora
from lockstep.decide.planner.imports.tuning.methods import settings_of_lora
from lockstep.decide.planner.imports.tuning.names import model_of
from lockstep.decide.planner.imports.tuning.run import Run, attention, quantised, tell, without_vllm
from lockstep.decide.planner.imports.tuning.sharding import sharded
from lockstep.describe.workload import Model

MICRO, STEPS = "per_device_train_batch_size", "gradient_accumulation_steps"
GRPO = ("num_generations", "max_completion_length", "scale_rewards", "epsilon_high", "reward_funcs", "num_iterations")
DPO = ("precompute_ref_log_probs", "f_divergence_type", "ld_alpha", "discopop_tau", "use_weighting", "rpo_alpha")
TILED = ("", "sft", "dpo", "grpo", "kto", "rloo", "reward")
"""Methods whose loss TRL computes in tiles; its experimental trainers hold all logits."""
SAVE = "lora_modules_to_save"
VARIANTS = {"dora": "use_dora", "rslora": "use_rslora", "parameters": "lora_target_parameters"}
RLOO_BETA = 0.05
ALONE = ("simpo", "orpo", "cpo")
"""Losses of preferences without a reference."""
SIGNS = ("desirable_weight", "undesirable_weight", "center_rewards_coefficient")
"""Settings of KTO, and of a reward model."""
METHODS = ("sft", "dpo", "grpo", "orpo", "cpo", "kto", "ppo", "rloo", "gkd", "reward")
"""Subcommands of `trl`, and parts of the names of scripts that start its trainers: dpo.py, run_orpo.py."""


def trainer(said: Said, name: str, model: Model | None) -> Imported:
    """What TrainingArguments alone say."""
    found = Imported(said.format.name, model=model)
    model = model_of(found, said, "model_name_or_path")
    run = arguments(found, said, model)
    run.seq = said["model_max_length"] or said["block_size"]
    return tell(found, said, run, "optim")


def arguments(found: Imported, said: Said, model: Model | None) -> Run:
    """The part of a run that TrainingArguments say. Raises BadInput for precisions that exclude one another."""
    run = Run(_micro(said), said[STEPS], optimizer="adafactor" if said["adafactor"] else said["optim"])
    found.set(found.words, gpus=said["launcher.num_processes"] or devices(said))
    run.arguments = said["optim_args"] or ""
    run.sharded = sharded(found, said, model)
    run.dtype = precision(said)
    run.recompute = bool(said["gradient_checkpointing"] or said["activation_checkpointing"])
    if said["use_liger_kernel"]:
        found.words["cross_entropy"] = "chunked"
    sizes = {one: said[f"parallelism_config.{one}_size"] for one in ("tp", "cp", "sp", "dp_replicate", "dp_shard")}
    found.degrees(tp=sizes["tp"], cp=max(sizes["cp"], sizes["sp"]))
    if found.layout.get("cp", 1) > 1:
        found.words["cp_kind"] = "gather" if sizes["cp"] > 1 else "all-to-all"
    if sizes["dp_replicate"] > 1 and sizes["dp_shard"] > 1:
        found.layout["shard"] = sizes["dp_shard"] * found.layout.get("cp", 1)
    return run


def _micro(said: Said) -> int:
    old = "per_gpu_train_batch_size"
    return int(said[old] if old in said and MICRO not in said else said[MICRO])


def precision(said: Said) -> str:
    """The format of products. Raises BadInput where both halves are on."""
    if said["bf16"] and said["fp16"]:
        raise said.refuse("fp16", "is on, and so is bf16: the Trainer accepts only one of them")
    if said["bf16"] or said["fp16"]:
        return "bf16" if said["bf16"] else "fp16"
    return "tf32" if said["tf32"] else "fp32"


def trl(said: Said, name: str, model: Model | None) -> Imported:
    """What a configuration of TRL says."""
    found = Imported(said.format.name, model=model)
    model = model_of(found, said, "model_name_or_path")
    run = arguments(found, said, model)
    found.set(found.words, gpus=said["num_processes"])
    if run.dtype in ("fp32", "tf32") and said["bf16"] is None:
        run.dtype = "bf16"
    run.wide = _loaded(said)
    run.offload_inputs = said["activation_offloading"]
    _objective(found, said, run)
    _base(said, run)
    if said["use_peft"]:
        targets = said["lora_target_modules"]
        where = "lora_target_modules" if targets else "use_peft"
        run.adapters = lora(said, ("lora_r", "lora_dropout", where), targets or None, model, SAVE)
        run.adapters += settings_of_lora(said, VARIANTS, "lora_dropout", run.base)
    elif run.base is not None:
        raise said.refuse("load_in_4bit" if said["load_in_4bit"] else "load_in_8bit", "needs adapters: use_peft is off")
    _attention(found, said)
    without_vllm(said)
    if said["use_liger"]:
        found.words["cross_entropy"] = "chunked"
    for word in ("packing", "padding_free"):
        if word in said and not said[word]:
            said.open(word, "samples are priced as long as the longest allowed")
    return tell(found, said, run, "optim")


def _loaded(said: Said) -> bool:
    """Whether weights are loaded in fp32."""
    word = "torch_dtype" if "torch_dtype" in said and "dtype" not in said else "dtype"
    loaded = said[word]
    if loaded == "auto":
        said.open(word, "as the checkpoint is stored; in half precision is taken")
    return str(loaded) == "float32"


def _base(said: Said, run: Run) -> None:
    if said["load_in_4bit"]:
        kind, nested = said["bnb_4bit_quant_type"], said["use_bnb_nested_quant"]
        run.base = quantised(said, kind, nested, "load_in_4bit", "bnb_4bit_quant_type")
    elif said["load_in_8bit"]:
        run.base = "int8"


def _attention(found: Imported, said: Said) -> None:
    if said["use_flash_attention_2"]:
        found.words["attention_kernel"] = "flash2"
    if said["attn_implementation"]:
        attention(found, said, "attn_implementation")


def _losses(said: Said) -> tuple[str, ...]:
    given = said["loss_type"] or ()
    return (given,) if isinstance(given, str) else tuple(map(str, given))


def _objective(found: Imported, said: Said, run: Run) -> None:
    """The trainer that the program or the settings of the file tell, and its sequence length."""
    method = _method(said) or _by_words(said)
    run.tiled = method in TILED
    if method in ("grpo", "rloo"):
        _generated(said, run, method)
        return
    run.seq = said["max_seq_length"] if "max_seq_length" in said and "max_length" not in said else said["max_length"]
    if method == "dpo":
        run.objective = f"dpo{_reference(said)}"
    elif method in ALONE:
        run.objective = "dpo:reference=none"
    elif method == "ppo":
        run.objective = "ppo" if said["num_ppo_epochs"] else ""
    elif method == "reward":
        run.objective = "reward"
    elif method == "kto":
        settings = [*filter(None, (_reference(said)[1:], "kl=no" if "apo_zero_unpaired" in _losses(said) else ""))]
        run.objective = ":".join(filter(None, ("kto", ",".join(settings))))
    elif method == "gkd":
        word = next((one for one in SIGNS if one in said.text.words), "launcher.program")
        said.leave(word, "GKD, whose passes are not described; those of the next token are taken")


def _method(said: Said) -> str:
    """The method that the program of a command trains by; nothing where its name tells none."""
    program, subcommand = (str(said.text.words.get(f"launcher.{one}", "")) for one in ("program", "subcommand"))
    named = f"{program.rpartition('/')[2]} {subcommand}"
    return next((one for one in METHODS if re.search(rf"(?<![a-z]){one}(?![a-z])", named)), "")


def _by_words(said: Said) -> str:
    """The method whose trainer alone has the settings of the file; nothing for those of SFT."""
    if any(word in said for word in GRPO):
        return "grpo"
    if any(word in said for word in SIGNS[:2]):
        return "kto"
    if SIGNS[2] in said.text.words:
        return "reward"
    if "num_ppo_epochs" in said and "rloo_k" not in said:
        return "ppo"
    return "dpo" if "beta" in said or any(word in said for word in DPO) else ""


def _reference(said: Said) -> str:
    """The setting of DPO for its reference; the setting `beta` counts as read."""
    _ = said["beta"]
    if said["reference_free"] or set(_losses(said)) & set(ALONE):
        return ":reference=none"
    return ":reference=precomputed" if said["precompute_ref_log_probs"] else ""


def _generated(said: Said, run: Run, method: str) -> None:
    """GRPO or RLOO, with the passes that follow from how often answers are generated and used."""
    beta = said["beta"] if method == "grpo" or "beta" in said else RLOO_BETA
    settings = {"beta": f"{beta or 0:g}", "iterations": said["num_iterations"]}
    # What vLLM generates is weighed against the model's own probabilities.
    if said.values.get("use_vllm") and said.values.get("vllm_importance_sampling_correction", True):
        settings["old"] = "always"
    settings["steps-per-generation"] = said["steps_per_generation"]
    settings["generation-batch"] = said["generation_batch_size"]
    words = (f"{name}={value}" for name, value in settings.items() if value and (name, value) != ("iterations", 1))
    run.objective = f"{method}:{','.join(words)}"
    _ = said["num_generations"]
    run.seq = said["max_prompt_length"] + said["max_completion_length"]
    if "max_prompt_length" not in said:
        said.open("max_completion_length", "prompts of 512 tokens are taken, as nothing limits them")
