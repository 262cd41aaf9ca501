"""The engines of verl that train: FSDP and Megatron Core, for reinforcement learning and for fine-tuning."""

from __future__ import annotations

from lockstep.base.records import dataclass
from lockstep.decide.planner.imports.imported import Imported
from lockstep.decide.planner.imports.said import Said
from lockstep.decide.planner.imports.stages import ends

DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}


@dataclass(frozen=True, slots=True)
class Place:
    """Sections of a configuration."""

    actor: str
    """Where the strategy and the degree of Ulysses stand."""
    fsdp: str
    megatron: str
    model: str
    optim: str


ACTING = Place(
    "actor_rollout_ref.actor.",
    "actor_rollout_ref.actor.fsdp_config.",
    "actor_rollout_ref.actor.megatron.",
    "actor_rollout_ref.model.",
    "actor_rollout_ref.actor.optim.",
)
TUNING = Place("engine.", "engine.", "engine.", "model.", "optim.")


def fsdp(found: Imported, said: Said, at: Place) -> None:
    """Parameters are fp32, products bf16, and gradients are reduced in fp32 (workers/engine/fsdp)."""
    found.words |= {"stack": "hf-trainer-5", "reduce_bytes": 4, "dtype": DTYPES[said[f"{at.fsdp}dtype"]]}
    split = max(said[f"{at.actor}ulysses_sequence_parallel_size"], said[f"{at.fsdp}ulysses_sequence_parallel_size"])
    found.degrees(cp=split)
    found.set(found.words, cp_kind="all-to-all" if split > 1 else None)
    size = said[f"{at.fsdp}fsdp_size"]
    if size == 0:
        raise said.refuse(f"{at.fsdp}fsdp_size", "must be -1 or at least 1, got 0")
    found.layout["zero"] = 3 if said[f"{at.fsdp}reshard_after_forward"] or said[f"{at.actor}strategy"] == "fsdp" else 2
    found.set(found.layout, shard=size if size > 0 else None)
    if said[f"{at.fsdp}offload_policy"] and said[f"{at.actor}strategy"] == "fsdp2":
        found.offload_parameters()
    if said[f"{at.model}enable_gradient_checkpointing"]:
        found.layout["recompute"] = "full"
    if said[f"{at.model}enable_activation_offload"]:
        found.words["offload_layers"] = "all"
    _adam(found, said, at)


def _adam(found: Imported, said: Said, at: Place) -> None:
    word = f"{at.optim}optimizer"
    called = said[word].lower()
    if called not in ("adam", "adamw", "sgd"):
        said.leave(word, "an optimizer that is not described; AdamW is taken")
    found.set(found.words, optimizer="sgd" if called == "sgd" else None)


def megatron(found: Imported, said: Said, at: Place) -> None:
    """Megatron Core, with its distributed optimizer: ZeRO 1."""
    core = f"{at.megatron}override_transformer_config."
    found.words |= {"stack": "megatron-te", "dtype": DTYPES[said[f"{at.megatron}dtype"]]}
    named = {"tp": "tensor_model", "pp": "pipeline_model", "cp": "context", "ep": "expert_model",
             "vpp": "virtual_pipeline_model"}  # fmt: skip
    found.degrees(**{name: said[f"{at.megatron}{word}_parallel_size"] or 1 for name, word in named.items()})
    layout = found.layout
    cut = said[f"{at.megatron}expert_tensor_parallel_size"]
    if layout.get("ep", 1) > 1 and cut is not None and cut != layout.get("tp", 1):
        layout["etp"] = cut
    if layout.get("tp", 1) > 1 and said[f"{at.megatron}sequence_parallel"]:
        layout["sequence_parallel"] = True
    layout["zero"] = int(said[f"{at.megatron}use_distributed_optimizer"])
    if said[f"{at.optim}override_optimizer_config.optimizer_cpu_offload"]:
        layout["offload"] = "optimizer"
    ends(found, said, *(f"{core}num_layers_in_{end}_pipeline_stage" for end in ("first", "last")))
    _recompute(found, said, core)
    _adam(found, said, at)


def _recompute(found: Imported, said: Said, core: str) -> None:
    granularity = said[f"{core}recompute_granularity"]
    found.set(found.layout, recompute=granularity)
    layers, modules = said[f"{core}recompute_num_layers"], said[f"{core}recompute_modules"]
    if granularity == "full" and said[f"{core}recompute_method"] == "block":
        found.set(found.words, recompute_layers=layers)
    elif granularity == "full" and layers and layers > 1:
        said.leave(f"{core}recompute_num_layers", "how many layers are recomputed together")
    if granularity == "selective" and modules:
        named = modules.strip("[]").split(",") if isinstance(modules, str) else modules
        found.recomputes(said, f"{core}recompute_modules", [str(one).strip(" '\"") for one in named])
