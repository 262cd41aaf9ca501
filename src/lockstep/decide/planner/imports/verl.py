"""verl's configuration, saved as YAML or given as overrides, as a question and a layout; generation is left out.

    python3 -m verl.trainer.main_ppo actor_rollout_ref.actor.ppo_mini_batch_size=256 ...
    fsdp        ZeRO 3 over all ranks or fsdp_size of them, sequences split by all-to-all (Ulysses)
    megatron    Megatron Core, with its distributed optimizer: ZeRO 1

A step is one mini-batch: ppo_mini_batch_size prompts with rollout.n answers each (trainer/ppo/ray_trainer.py).
"""

from __future__ import annotations

from dataclasses import replace

from lockstep.decide.planner.imports.imported import Imported
from lockstep.decide.planner.imports.interpolated import interpolated
from lockstep.decide.planner.imports.launchers import devices
from lockstep.decide.planner.imports.named import name_model
from lockstep.decide.planner.imports.said import Said
from lockstep.decide.planner.imports.text import Text
from lockstep.decide.planner.imports.trained import adapters, objective
from lockstep.decide.planner.imports.verl_engine import ACTING, TUNING, fsdp, megatron
from lockstep.describe.workload import Model

MODEL, ACTOR = "actor_rollout_ref.model.", "actor_rollout_ref.actor."
FSDP, MEGATRON = f"{ACTOR}fsdp_config.", f"{ACTOR}megatron."
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
    return interpolated(text)


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
        megatron(found, said, ACTING)
        said.idle(FSDP)
    else:
        fsdp(found, said, ACTING)
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


def _fine_tuned(found: Imported, said: Said, model: Model | None) -> Imported:
    """Supervised fine-tuning: under FSDP by the settings of 0.5, or by an engine as releases from 0.6 have it."""
    name_model(found, said, "model.partial_pretrain" if "model.partial_pretrain" in said else "model.path", model)
    found.words |= {"stack": "hf-trainer-5", "reduce_bytes": 4, "dtype": "bf16", "seq": said["data.max_length"],
                    "batch": said["data.train_batch_size"]}  # fmt: skip
    started = devices(said) if said.text.shape == "command" else None
    if started is None and any(one in said for one in DEVICES) and not said.undecided(*DEVICES):
        started = said[DEVICES[0]] * said[DEVICES[1]]
    found.set(found.words, gpus=started)
    if said["engine"] == "megatron" or "engine.tensor_model_parallel_size" in said:
        megatron(found, said, TUNING)
    elif "engine" in said or any(word.startswith("engine.") for word in said.text.words):
        fsdp(found, said, TUNING)
    else:
        _sharded(found, said)
    micro = said["data.micro_batch_size_per_gpu"]
    found.set(found.layout, micro_batch=micro or None)
    if said["model.lora_rank"]:
        (found.words["train"],) = adapters(said, "model.target_modules", said["model.lora_rank"],
                                           said["model.target_modules"], 0.0)  # fmt: skip
    return found


def _sharded(found: Imported, said: Said) -> None:
    """FSDP by the settings of 0.5."""
    found.degrees(cp=said["ulysses_sequence_parallel_size"])
    found.set(found.words, cp_kind="all-to-all" if found.layout.get("cp") else None)
    found.layout["zero"] = 3
    if said["model.fsdp_config.cpu_offload"] and said["model.fsdp_config.offload_params"]:
        found.offload_parameters()
    if said["model.enable_gradient_checkpointing"]:
        found.layout["recompute"] = "full"
