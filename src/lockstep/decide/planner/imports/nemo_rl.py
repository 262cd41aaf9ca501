"""NeMo-RL's YAML as a question and a layout: the training part of GRPO, DPO and SFT; generation is left out.

    dtensor_cfg     FSDP2 over all ranks: ZeRO 3, with tensor and context parallelism
    megatron_cfg    Megatron Core, with its distributed optimizer: ZeRO 1

A batch of DPO counts pairs. Files that `defaults` names are read where they lie in a folder with this one, each behind
those that it names itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from lockstep.decide.planner.imports.beside import beside
from lockstep.decide.planner.imports.imported import Imported
from lockstep.decide.planner.imports.interpolated import interpolated
from lockstep.decide.planner.imports.named import name_model
from lockstep.decide.planner.imports.said import Said
from lockstep.decide.planner.imports.stages import ends
from lockstep.decide.planner.imports.text import Text, Unset
from lockstep.decide.planner.imports.trained import adapters, objective
from lockstep.describe.workload import Model

DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
DTENSOR, MEGATRON = "policy.dtensor_cfg.", "policy.megatron_cfg."
DDP = f"{MEGATRON}distributed_data_parallel_config."
APART = "policy.generation.colocated."
SCALES = {"delayed": "delayed", "tensorwise": "current"}
MOST_FILES = 8
"""Files that name one another."""


def prepared(text: Text) -> Text:
    """The text with the settings of the files that it names, and with its references resolved."""
    return interpolated(_inherited(text, MOST_FILES))


def _inherited(text: Text, left: int) -> Text:
    """The text with the settings of the files under `defaults`; that setting is Unset where one cannot be read."""
    named = text.words.get("defaults")
    if named is None:
        return text
    words: dict[str, object] = {}
    for name in named if isinstance(named, list) else [named]:
        other = _beside(text, str(name), left - 1)
        if other is None:
            return replace(text, words={**text.words, "defaults": Unset(str(named))})
        words = _over(words, other.words)
    return replace(text, words=_over(words, text.words))


def _over(under: Mapping[str, object], over: Mapping[str, object]) -> dict[str, object]:
    """Words over others: a section that is written as one value replaces its words, and they replace such a value."""
    sections = {word[:at] for word in over for at in range(len(word)) if word[at] == "."}
    stays = {
        word: value
        for word, value in under.items()
        if word not in sections and not any(word[:at] in over for at in range(len(word)) if word[at] == ".")
    }
    return {**stays, **over}


def _beside(text: Text, name: str, left: int) -> Text | None:
    """The file of that relative path, itself with the settings of those that it names; None where there is none."""
    other = beside(text, name, "yaml") if left else None
    if other is None:
        return None
    found = _inherited(other, left)
    return None if isinstance(found.words.get("defaults"), Unset) else found


def nemo_rl(said: Said, name: str, model: Model | None) -> Imported:
    """What a configuration says."""
    found = Imported(said.format.name)
    _ = said["defaults"]
    name_model(found, said, "policy.model_name", model)
    if said[f"{DTENSOR}enabled"] and said[f"{MEGATRON}enabled"]:
        raise said.refuse(
            f"{MEGATRON}enabled", "is on, and so is dtensor_cfg.enabled: NeMo-RL accepts only one of them"
        )
    found.words["dtype"] = DTYPES[said["policy.precision"]]
    train = _objective(found, said)
    if said[f"{MEGATRON}enabled"]:
        train += _megatron(found, said)
        said.idle(DTENSOR)
    else:
        train += _dtensor(found, said)
        said.idle(MEGATRON)
    found.set(found.words, train=",".join(train) or None, seq=said["policy.max_total_sequence_length"])
    _batch(found, said, 2 if "dpo" in train else 1)
    _devices(found, said)
    for word in said.text.words:
        if word.startswith("policy.generation") and said.format.kind_of(word)[0] == "yours":
            said.open(word, "generation is not priced")
    return found


def _objective(found: Imported, said: Said) -> list[str]:
    """What is trained besides the next token, as settings of --train."""
    sections = {word.partition(".")[0] for word in said.text.words}
    if "grpo" in sections:
        _ = said["grpo.num_prompts_per_step"]
        skips = said["grpo.skip_reference_policy_logprobs_calculation"]
        return objective("grpo", bool(said["loss_fn.reference_policy_kl_penalty"]) and not skips)
    if "dpo" in sections:
        _ = said["dpo.reference_policy_kl_penalty"]
        return objective("dpo", True)
    _ = said["sft.max_num_steps"]
    return []


def _batch(found: Imported, said: Said, each: int) -> None:
    """Sequences, of which a sample of DPO has two."""
    batch, micro = said["policy.train_global_batch_size"], said["policy.train_micro_batch_size"]
    found.set(found.words, batch=batch * each if batch else None)
    found.set(found.layout, micro_batch=micro * each if micro else None)
    for word in ("policy.sequence_packing.enabled", "policy.dynamic_batching.enabled"):
        if said[word]:
            said.leave(word, "sequences of other lengths in a micro-batch: give --sample-tokens with their mean length")


def _devices(found: Imported, said: Said) -> None:
    """Devices that train: all of them, unless some generate only."""
    nodes, each = said["cluster.num_nodes"], said["cluster.gpus_per_node"]
    if each is None or said.undecided("cluster.num_nodes"):
        return
    devices = nodes * each
    if not said[f"{APART}enabled"]:
        apart, own = said[f"{APART}resources.num_nodes"], said[f"{APART}resources.gpus_per_node"]
        devices -= own or 0 if nodes == 1 else (apart or 0) * each
        if devices < 1 or not (own or apart):
            raise said.refuse(f"{APART}enabled", "is off, and colocated.resources leave no devices to train")
    found.words["gpus"] = devices


def _dtensor(found: Imported, said: Said) -> list[str]:
    """FSDP2; its parameters are fp32, and gradients are reduced in fp32 (dtensor_policy_worker.py)."""
    layout, words = found.layout, found.words
    words |= {"stack": "hf-trainer-5", "reduce_bytes": 4}
    found.degrees(**{name: said[f"{DTENSOR}{word}_parallel_size"]
                     for name, word in (("tp", "tensor"), ("cp", "context"), ("ep", "expert"))})  # fmt: skip
    layout["zero"] = 3
    if layout.get("tp", 1) > 1 and said[f"{DTENSOR}sequence_parallel"]:
        layout["sequence_parallel"] = True
    if said[f"{DTENSOR}activation_checkpointing"]:
        layout["recompute"] = "full"
    if said[f"{DTENSOR}cpu_offload"]:
        found.offload_parameters()
    called = said["policy.optimizer.name"]
    if called.rpartition(".")[2].lower() not in ("adamw", "adam"):
        said.leave("policy.optimizer.name", "an optimizer that is not described; AdamW is taken")
    lora = f"{DTENSOR}lora_cfg."
    if not said[f"{lora}enabled"]:
        return []
    targets = [] if said[f"{lora}match_all_linear"] else said[f"{lora}target_modules"]
    return adapters(said, f"{lora}target_modules", said[f"{lora}dim"], targets, said[f"{lora}dropout"])


def _megatron(found: Imported, said: Said) -> list[str]:
    layout, words = found.layout, found.words
    words["stack"] = "megatron-te"
    named = {"tp": "tensor_model", "pp": "pipeline_model", "cp": "context", "ep": "expert_model"}
    found.degrees(**{name: said[f"{MEGATRON}{word}_parallel_size"] for name, word in named.items()})
    if layout.get("ep", 1) > 1 and said[f"{MEGATRON}expert_tensor_parallel_size"] != layout.get("tp", 1):
        layout["etp"] = said[f"{MEGATRON}expert_tensor_parallel_size"]
    if layout.get("tp", 1) > 1 and said[f"{MEGATRON}sequence_parallel"]:
        layout["sequence_parallel"] = True
    if said[f"{MEGATRON}activation_checkpointing"]:
        layout["recompute"] = "full"
    layout["zero"] = int(said[f"{MEGATRON}optimizer.use_distributed_optimizer"])
    if said[f"{MEGATRON}optimizer.optimizer_cpu_offload"]:
        layout["offload"] = "optimizer"
    found.set(words, optimizer="sgd" if said[f"{MEGATRON}optimizer.optimizer"] == "sgd" else None)
    words["gradient_bytes"] = 4 if said[f"{DDP}grad_reduce_in_fp32"] else 2
    if not said[f"{DDP}overlap_grad_reduce"]:
        words["overlap"] = False
    if said[f"{MEGATRON}fp8_cfg.enabled"]:
        _fp8(found, said)
    ends(found, said, *(f"{MEGATRON}num_layers_in_{end}_pipeline_stage" for end in ("first", "last")))
    peft = f"{MEGATRON}peft."
    if not said[f"{peft}enabled"]:
        return []
    return adapters(said, f"{peft}target_modules", said[f"{peft}dim"], said[f"{peft}target_modules"],
                    said[f"{peft}dropout"])  # fmt: skip


def _fp8(found: Imported, said: Said) -> None:
    recipe = said[f"{MEGATRON}fp8_cfg.fp8_recipe"]
    found.words["dtype"] = "mxfp8" if recipe == "mxfp8" else "fp8"
    found.set(found.words, fp8_scaling=SCALES.get(recipe))
    if recipe == "blockwise":
        said.leave(f"{MEGATRON}fp8_cfg.fp8_recipe", "scales of blocks")
