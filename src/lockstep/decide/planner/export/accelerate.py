"""Accelerate's YAML for FSDP2, `accelerate launch --config_file FILE`; the Trainer's arguments stand in comments.

    zero 3, 2     fsdp_reshard_after_forward true, false; zero 2 keeps parameters from forward to backward
    zero 0        distributed_type MULTI_GPU, which is DDP
    shard         parallelism_config: dp_replicate_size x dp_shard_size, and tp_size, cp_size
    recompute     fsdp_activation_checkpointing, full or none
    offload       fsdp_offload_params, with gradients and optimizer state
    adapters      the values of peft's LoraConfig, in a comment
    dpo, grpo ... TRL's DPOTrainer, GRPOTrainer and their arguments, in comments; a batch of the former counts pairs

FSDP2 reduces gradients in the format of its matrix products (utils/dataclasses.py, set_mixed_precision); a comment says
so where more bytes were planned. Source: commands/launch.py, commands/config/config_args.py, parallelism_config.py and
utils/dataclasses.py of accelerate 1.15.0; arguments of Transformers' TrainingArguments and peft 0.21's LoraConfig;
TRL's trl/trainer/dpo_config.py and grpo_config.py.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from lockstep.base.types.plain import Json
from lockstep.decide.planner.export.peft import peft_config
from lockstep.decide.planner.export.refusals import Placed, Refusals, refuse_formats, refuse_sharding
from lockstep.decide.planner.export.torchtitan import ROTATIONS
from lockstep.decide.planner.space import ALL_RANKS, NODE
from lockstep.describe.workload import FULL, NONE, all_weights
from lockstep.price.layout import AXES, Job, Layout, Recipe

CHOICES: dict[str, tuple[object, ...]] = {
    "pp": (1,),
    "ep": (1,),
    "etp": (0,),
    "sequence_parallel": (0,),
    "recompute": (NONE, FULL),
    "sharding": tuple((zero, shard) for zero in (0, 2, 3) for shard in (ALL_RANKS, NODE)),
}
"""Axes of the planner's space that it can run; other limits join several of them."""
OPTIMIZERS = {"adam": "adamw_torch with weight_decay 0", "adamw": "adamw_torch", "adamw-8bit": "adamw_bnb_8bit",
              "adamw-8bit-torchao": "adamw_torch_8bit", "adafactor": "adafactor", "lion-8bit": "lion_8bit",
              "schedule-free-adamw": "schedule_free_adamw"}  # fmt: skip
TRL = {"dpo": "DPOConfig", "kto": "KTOConfig", "reward": "RewardConfig", "grpo": "GRPOConfig", "rloo": "RLOOConfig"}
"""TRL's arguments, which extend TrainingArguments, by objective."""
PAGED = {"adamw": "paged_adamw_32bit", "adamw-8bit": "paged_adamw_8bit", "lion-8bit": "paged_lion_8bit"}
"""Names of `optim` where states that find no room are in host memory."""


def accelerate(found: Placed) -> str:
    """The YAML text. Raises Infeasible with every reason."""
    _refuse(found)
    layout, recipe = found.layout, found.job.recipe
    document: Json = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "FSDP" if layout.zero else "MULTI_GPU",
        "mixed_precision": recipe.dtype,
        "num_machines": found.machines,
        "num_processes": layout.world,
    }
    if layout.zero:
        document["fsdp_config"] = {
            "fsdp_version": 2,
            "fsdp_auto_wrap_policy": "TRANSFORMER_BASED_WRAP",
            "fsdp_reshard_after_forward": layout.zero == 3 and recipe.reshard,
            "fsdp_offload_params": layout.offload == "parameters",
            "fsdp_activation_checkpointing": layout.recompute == "full",
            "fsdp_cpu_ram_efficient_loading": True,
            "fsdp_state_dict_type": "SHARDED_STATE_DICT",
        }
    degrees = _degrees(layout, recipe)
    if degrees:
        document["parallelism_config"] = {f"parallelism_config_{name}": value for name, value in degrees.items()}
    return "".join(f"# {sentence}\n" for sentence in _beside(found)) + "".join(_lines(document))


def _degrees(layout: Layout, recipe: Recipe) -> Json:
    """Of the parallelism configuration; none where FSDP or DDP has all ranks."""
    if layout.tp == layout.cp == 1 and layout.shard in (0, layout.dp):
        return {}
    sharded = 1 if not layout.zero else layout.shard // layout.cp if layout.shard else layout.dp
    found: Json = {"dp_replicate_size": layout.dp // sharded, "dp_shard_size": sharded, "tp_size": layout.tp}
    found["cp_size"] = layout.cp
    if layout.cp > 1:
        found["cp_comm_strategy"] = ROTATIONS[recipe.cp_kind]
    return found


def _beside(found: Placed) -> Iterator[str]:
    """What is said in the training script."""
    layout, recipe = found.layout, found.job.recipe
    steps, objective = recipe.batch // (layout.dp * layout.micro_batch), recipe.objective
    arguments = TRL.get(objective.name, "TrainingArguments")
    yield (
        f"{arguments}: per_device_train_batch_size={layout.micro_batch // objective.pair}, "
        f"gradient_accumulation_steps={steps}, "
        f"optim={(PAGED if layout.offload == 'paged' else OPTIMIZERS)[recipe.optimizer]}"
    )
    data = "its images and their processor" if found.job.images else "its tokenizer and the data"
    length = "" if found.job.images else f"sequences of {recipe.seq} tokens, "
    yield f"left to you: {length}the model, {data}"
    yield f"left to you: learning_rate and the number of steps, else those of {arguments} hold"
    if found.machines > 1:
        yield (
            f"left to you: on each machine, accelerate launch --machine_rank 0 to {found.machines - 1} "
            "--main_process_ip IP --main_process_port PORT, of the machine with rank 0"
        )
    if layout.recompute == "full" and not layout.zero:
        yield f"{arguments}: gradient_checkpointing=True"
    yield from _objective(recipe)
    reduced, size_B = (recipe.dtype, 2.0) if layout.zero else ("fp32", 4.0)
    if recipe.wire_B != size_B and layout.dp * layout.cp > 1:
        yield f"gradients are reduced in {reduced}; the plan has {recipe.wire_B:g} bytes: --reduce-bytes {size_B:g}"
    if recipe.adapters is not None:
        yield f"peft: {peft_config(recipe.adapters, _modules(found.job))}"


def _objective(recipe: Recipe) -> Iterator[str]:
    """How TRL runs an objective other than the next token's."""
    objective = recipe.objective
    if objective.name not in TRL:
        return
    trainer = f"{TRL[objective.name].removesuffix('Config')}Trainer"
    yield f"TRL runs it: {trainer}, launched with this file (--train {recipe.train})"
    if objective.name in ("grpo", "rloo"):
        config, refers = TRL[objective.name], objective.frozen + objective.bare > 0
        yield f"{config}: beta above 0, or no reference model is held" if refers else f"{config}: beta=0"
        if objective.iterations > 1:
            yield f"{config}: num_iterations={objective.iterations}"
        if objective.every:
            each = objective.every // objective.iterations
            yield f"{config}: {'generation_batch_size' if objective.in_sequences else 'steps_per_generation'}={each}"
        yield f"{config}: use_vllm, vllm_mode and num_generations are left to you: generation is not planned here"


def _modules(job: Job) -> str:
    adapters = job.recipe.adapters
    return json.dumps([] if adapters is None else list(adapters.found_in(all_weights(job.model))))


def _lines(document: Json, depth: int = 0) -> Iterator[str]:
    for name, value in document.items():
        if isinstance(value, dict):
            yield f"{'  ' * depth}{name}:\n"
            yield from _lines(value, depth + 1)
        else:
            yield f"{'  ' * depth}{name}: {value if isinstance(value, str) else json.dumps(value)}\n"


def _refuse(found: Placed) -> None:
    """Raises Infeasible for all that Accelerate and the Trainer cannot do."""
    layout, recipe, no = found.layout, found.job.recipe, Refusals("Accelerate")
    no.when(found.job.transformer is None, f"{found.job.model.name} is not a transformer")
    uneven = layout.world % found.machines != 0
    no.when(uneven, f"{layout.world} processes on {found.machines} machines: it starts as many on each")
    no.when(layout.pp > 1, f"pp={layout.pp}: it trains without pipeline stages")
    no.when(layout.ep > 1 or layout.etp > 0, "expert parallelism has no key")
    no.when(layout.sequence_parallel, "sequence parallelism over the tensor-parallel group has no key")
    no.when(layout.zero == 1, "zero 1: FSDP2 shards parameters (3) or gradients (2) too; DDP shards nothing (0)")
    split = layout.tp * layout.cp > 1
    other = found.job.images or found.job.crosses
    no.when(other and split, f"tp or cp of {found.job.model.name}: only decoders of text are split there")
    no.when(
        other and recipe.adapters is not None, f"adapters of {found.job.model.name}: their targets have other names"
    )
    no.when(layout.zero == 0 and split, "zero 0 (DDP) works without tp and cp only")
    no.when(bool(layout.shard) and layout.zero == 0, "shard needs zero 2 or 3")
    no.when(bool(layout.shard) and layout.shard % layout.cp != 0, f"shard={layout.shard} must be a multiple of cp")
    sharded = layout.shard // layout.cp if layout.shard else layout.dp
    no.when(bool(layout.shard) and layout.dp % max(1, sharded) != 0, "shard/cp must divide dp")
    no.when(sharded == 1 and layout.dp > 1 and split, "dp_replicate_size above 1 with tp or cp needs a dp_shard_size")
    no.when(layout.recompute == "selective", "recompute selective: it recomputes whole layers")
    no.when(layout.offload == "optimizer", "offload optimizer: states are offloaded with the parameters or not at all")
    no.when(layout.offload == "parameters" and not layout.zero, "offloaded parameters need zero 2 or 3")
    no.when(bool(recipe.offload_layers), "offloaded activations (--offload-layers)")
    no.when(layout.order != AXES, f"rank order {'-'.join(layout.order)}: it is always {'-'.join(AXES)}")
    no.when(recipe.dtype not in ("bf16", "fp16"), f"matrix products in {recipe.dtype}; use bf16 or fp16")
    named = PAGED if layout.offload == "paged" else OPTIMIZERS
    no.when(recipe.optimizer not in named, f"optimizer {recipe.optimizer}: only {', '.join(named)} match")
    refuse_formats(recipe, no, adapters=True, objectives=TRL)
    pair = recipe.objective.pair
    no.when(layout.micro_batch % pair != 0, f"micro-batch {layout.micro_batch}: TRL passes pairs of sequences")
    no.when(recipe.base is not None, f"frozen matrices in {recipe.base}: quantized where the model is loaded")
    no.when(layout.cp > 1 and recipe.cp_kind not in ROTATIONS, f"context parallelism by {recipe.cp_kind}")
    refuse_sharding("fsdp2", layout, recipe, no)
    no.when(recipe.overlap_tp in ("all", "async") and layout.tp > 1, "overlapped tensor-parallel traffic has no key")
    no.settle()
