"""verl's configuration, saved as YAML or given as overrides, as a question and a layout; generation is left out.

    python3 -m verl.trainer.main_ppo actor_rollout_ref.actor.ppo_mini_batch_size=256 ...
    fsdp        ZeRO 3 over all ranks or fsdp_size of them, sequences split by all-to-all (Ulysses)
    megatron    Megatron Core, with its distributed optimizer: ZeRO 1

A step is one mini-batch: ppo_mini_batch_size prompts with rollout.n answers each (trainer/ppo/ray_trainer.py).
"""

from __future__ import annotations

from dataclasses import replace

from lockstep.planner.imports.imported import Imported
from lockstep.planner.imports.interpolated import interpolated
from lockstep.planner.imports.launchers import devices
from lockstep.planner.imports.named import name_model
from lockstep.planner.imports.said import Said
from lockstep.planner.imports.stages import ends
from lockstep.planner.imports.text import Text, Unset
from lockstep.planner.imports.trained import adapters, objective
from lockstep.workload import Model

MODEL, ACTOR = "actor_rollout_ref.model.", "actor_rollout_ref.actor."
FSDP, MEGATRON = f"{ACTOR}fsdp_config.", f"{ACTOR}megatron."
CORE = f"{MEGATRON}override_transformer_config."
DTYPES = {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"}
PATHS = (f"{MODEL}path", "model.path", "model.partial_pretrain")
DEVICES = ("trainer.nnodes", "trainer.n_gpus_per_node")
NOTHING = ("null", "None", "")
BESIDE = {
    "actor_rollout_ref.rollout": "generation is not priced",
    "actor_rollout_ref.ref": "the reference is taken to be laid out like the model",
    "critic": "the critic is taken to be laid out like the model",
}
"""Sections of what works beside the model that is trained."""


def prepared(text: Text) -> Text:
    """The text with its references resolved; of a command line, without quotation marks and with null as no value."""
    if text.shape == "command":
        plain = {word: value.strip("'\"") if type(value) is str else value for word, value in text.words.items()}
        kept = {word: None if value in NOTHING else value for word, value in plain.items()}
        text = replace(text, words=kept)
    text = interpolated(text)
    # Whatever folder a variable stands for, the name of a model is the end of its path.
    named = {word: str(text.words[word]) for word in PATHS if isinstance(text.words.get(word), Unset)}
    return replace(text, words={**text.words, **named})


def verl(said: Said, name: str, model: Model | None) -> Imported:
    """What a configuration says."""
    found = Imported(said.format.name)
    if not any(word.startswith("actor_rollout_ref") for word in said.text.words):
        return _fine_tuned(found, said, model)
    name_model(found, said, f"{MODEL}path", model)
    found.words["seq"] = said["data.max_prompt_length"] + said["data.max_response_length"]
    if not said.undecided(*DEVICES):
        found.words["gpus"] = said[DEVICES[0]] * said[DEVICES[1]]
    train = _objective(said)
    if _is_megatron(said):
        _megatron(found, said)
        said.idle(FSDP)
    else:
        _fsdp(found, said)
        said.idle(MEGATRON)
    found.words["train"] = ",".join(train + _adapters(said))
    _batch(found, said)
    for section, why in BESIDE.items():
        for word in said.text.words:
            if word.startswith(f"{section}.") and said.format.kind_of(word)[0] == "yours":
                said.open(word, why)
    return found


def _is_megatron(said: Said) -> bool:
    """Whether Megatron Core trains: by its strategy, by the file that is named, or by settings that only it has."""
    named = "megatron" in f"{said['model_engine']} {said['config-name']}"
    strategy = said[f"{ACTOR}strategy"]
    if strategy not in ("fsdp", "fsdp2", "megatron"):
        said.leave(f"{ACTOR}strategy", "another engine; FSDP is taken")
    implied = f"{ACTOR}strategy" not in said and any(word.startswith(MEGATRON) for word in said.text.words)
    return named or implied or bool(strategy == "megatron")


def _objective(said: Said) -> list[str]:
    """GRPO and those like it train one model; with generalised advantages a critic is trained too."""
    estimator, critic = said["algorithm.adv_estimator"], said["critic.enable"]
    refers = bool(said[f"{ACTOR}use_kl_loss"]) or bool(said["algorithm.use_kl_in_reward"])
    rewards = bool(said["reward_model.enable"]) or bool(said["reward.reward_model.enable"])
    apart = bool(said["reward.reward_model.enable_resource_pool"])
    trained = estimator == "gae" if critic is None else critic
    reward = "model" if rewards and not apart else "apart" if rewards else "none"
    (named,) = objective("ppo" if trained else "grpo", refers)
    usual = "model" if trained else "none"
    return [named + (f"{',' if ':' in named else ':'}reward={reward}" if reward != usual else "")]


def _batch(found: Imported, said: Said) -> None:
    batch = said[f"{ACTOR}ppo_mini_batch_size"] * said["actor_rollout_ref.rollout.n"]
    found.words["batch"] = batch
    each, micro = said[f"{ACTOR}ppo_micro_batch_size_per_gpu"], said[f"{ACTOR}ppo_micro_batch_size"]
    if said[f"{ACTOR}use_dynamic_bsz"]:
        tokens = said[f"{ACTOR}ppo_max_token_len_per_gpu"] * found.layout.get("cp", 1)
        each = max(1, tokens // found.words["seq"])
        said.leave(f"{ACTOR}use_dynamic_bsz", "micro-batches by tokens; as many whole sequences as they hold are taken")
    if each:
        found.layout["micro_batch"] = each
    elif micro:
        found.layout["micro_batch"] = lambda devices: max(1, micro // found.replicas(devices))


def _adapters(said: Said) -> list[str]:
    rank, word = said[f"{MODEL}lora_rank"], f"{MODEL}target_modules"
    if not rank and said[f"{MODEL}lora.rank"]:
        rank, word = said[f"{MODEL}lora.rank"], f"{MODEL}lora.target_modules"
    return adapters(said, word, rank, said[word], said[f"{MODEL}lora.dropout"]) if rank else []


def _fsdp(found: Imported, said: Said) -> None:
    """Parameters are fp32, products bf16, and gradients are reduced in fp32 (workers/engine/fsdp)."""
    found.words |= {"stack": "hf-trainer-5", "reduce_bytes": 4, "dtype": DTYPES[said[f"{FSDP}dtype"]]}
    split = max(said[f"{ACTOR}ulysses_sequence_parallel_size"], said[f"{FSDP}ulysses_sequence_parallel_size"])
    found.degrees(cp=split)
    found.set(found.words, cp_kind="all-to-all" if split > 1 else None)
    size = said[f"{FSDP}fsdp_size"]
    if size == 0:
        raise said.refuse(f"{FSDP}fsdp_size", "must be -1 or at least 1, got 0")
    found.layout["zero"] = 3 if said[f"{FSDP}reshard_after_forward"] or said[f"{ACTOR}strategy"] == "fsdp" else 2
    found.set(found.layout, shard=size if size > 0 else None)
    if said[f"{FSDP}offload_policy"] and said[f"{ACTOR}strategy"] == "fsdp2":
        found.offload_parameters()
    if said[f"{MODEL}enable_gradient_checkpointing"]:
        found.layout["recompute"] = "full"
    if said[f"{MODEL}enable_activation_offload"]:
        found.words["offload_layers"] = "all"
    _adam(found, said)


def _adam(found: Imported, said: Said) -> None:
    word = f"{ACTOR}optim.optimizer"
    called = said[word].lower()
    if called not in ("adam", "adamw", "sgd"):
        said.leave(word, "an optimizer that is not described; AdamW is taken")
    found.set(found.words, optimizer="sgd" if called == "sgd" else None)


def _megatron(found: Imported, said: Said) -> None:
    found.words |= {"stack": "megatron-te", "dtype": DTYPES[said[f"{MEGATRON}dtype"]]}
    named = {"tp": "tensor_model", "pp": "pipeline_model", "cp": "context", "ep": "expert_model",
             "vpp": "virtual_pipeline_model"}  # fmt: skip
    found.degrees(**{name: said[f"{MEGATRON}{word}_parallel_size"] or 1 for name, word in named.items()})
    layout = found.layout
    cut = said[f"{MEGATRON}expert_tensor_parallel_size"]
    if layout.get("ep", 1) > 1 and cut is not None and cut != layout.get("tp", 1):
        layout["etp"] = cut
    if layout.get("tp", 1) > 1 and said[f"{MEGATRON}sequence_parallel"]:
        layout["sequence_parallel"] = True
    layout["zero"] = int(said[f"{MEGATRON}use_distributed_optimizer"])
    if said[f"{ACTOR}optim.override_optimizer_config.optimizer_cpu_offload"]:
        layout["offload"] = "optimizer"
    ends(found, said, *(f"{CORE}num_layers_in_{end}_pipeline_stage" for end in ("first", "last")))
    _recompute(found, said)
    _adam(found, said)


def _recompute(found: Imported, said: Said) -> None:
    granularity = said[f"{CORE}recompute_granularity"]
    found.set(found.layout, recompute=granularity)
    layers, modules = said[f"{CORE}recompute_num_layers"], said[f"{CORE}recompute_modules"]
    if granularity == "full" and said[f"{CORE}recompute_method"] == "block":
        found.set(found.words, recompute_layers=layers)
    elif granularity == "full" and layers and layers > 1:
        said.leave(f"{CORE}recompute_num_layers", "how many layers are recomputed together")
    if granularity == "selective" and modules:
        named = modules.strip("[]").split(",") if isinstance(modules, str) else modules
        found.recomputes(said, f"{CORE}recompute_modules", [str(one).strip(" '\"") for one in named])


def _fine_tuned(found: Imported, said: Said, model: Model | None) -> Imported:
    """The supervised fine-tuning of 0.5, under FSDP."""
    name_model(found, said, "model.partial_pretrain" if "model.partial_pretrain" in said else "model.path", model)
    found.words |= {"stack": "hf-trainer-5", "reduce_bytes": 4, "dtype": "bf16", "seq": said["data.max_length"],
                    "batch": said["data.train_batch_size"]}  # fmt: skip
    started = devices(said) if said.text.shape == "command" else None
    if started is None and any(one in said for one in DEVICES) and not said.undecided(*DEVICES):
        started = said[DEVICES[0]] * said[DEVICES[1]]
    found.set(found.words, gpus=started)
    found.degrees(cp=said["ulysses_sequence_parallel_size"])
    found.set(found.words, cp_kind="all-to-all" if found.layout.get("cp") else None)
    found.layout["zero"] = 3
    micro = said["data.micro_batch_size_per_gpu"]
    found.set(found.layout, micro_batch=micro or None)
    if said["model.fsdp_config.cpu_offload"] and said["model.fsdp_config.offload_params"]:
        found.offload_parameters()
    if said["model.enable_gradient_checkpointing"]:
        found.layout["recompute"] = "full"
    if said["model.lora_rank"]:
        (found.words["train"],) = adapters(said, "model.target_modules", said["model.lora_rank"],
                                           said["model.target_modules"], 0.0)  # fmt: skip
    return found
