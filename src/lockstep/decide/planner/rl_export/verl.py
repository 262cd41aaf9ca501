"""verl: the overrides of `python3 -m verl.trainer.main_ppo`.

    trainer on FSDP2      ZeRO 2 and 3, sequences over ranks by all-to-all (Ulysses)
    trainer on Megatron   all else that Megatron Core runs, by `model_engine=megatron`
    together              the trainer mode `sync`
    apart, k steps stale  `separate_async`, with rollout.nnodes; it has no mode that is apart and in step

A mini-batch counts prompts: verl multiplies it by the answers to each. Micro-batches are filled up by tokens. Source:
verl/trainer/config and verl/trainer/ppo/v1/trainer_separate_async.py of verl 0.9.1.
"""

from __future__ import annotations

from dataclasses import replace

from lockstep.base.types.plain import Json
from lockstep.decide.planner.export.refusals import Refusals
from lockstep.decide.planner.rl_export.run import Run, refuse_trainer, refuse_ulysses
from lockstep.price.layout import Job, Layout

VERSION = "verl 0.9.1"
ESTIMATORS = {"grpo": "grpo", "rloo": "rloo"}
ACTOR, ROLLOUT = "actor_rollout_ref.actor.", "actor_rollout_ref.rollout."
LEFT = (
    "left to you: data.train_files, data.val_files, the reward (reward.custom_reward_function.path), "
    "actor_rollout_ref.actor.optim.lr and trainer.total_training_steps"
)


def trainer(job: Job, layout: Layout, no: Refusals) -> None:
    """Notes why it does not train so."""
    sharded = layout.zero > 1
    whole = replace(layout, cp=1, dp=layout.dp * layout.cp) if sharded else layout
    if sharded:
        refuse_ulysses(job, layout, no)
    refuse_trainer(job, whole, no, "accelerate" if sharded else "megatron", ESTIMATORS)


def limits(run: Run, no: Refusals) -> None:
    """Notes why it does not run the step."""
    run.refuse_part_prompts(no)
    no.when(run.apart and not run.step.staleness, "devices apart that work in step; give --staleness 1 or more")


def write(run: Run) -> dict[str, str]:
    """The command, by the name of a file for it."""
    settings = {**_data(run), **_trainer(run), **_generation(run), **_placement(run)}
    lines = [f"    {name}={_written(value)}" for name, value in settings.items()]
    head = f"# written for {VERSION}\n# {LEFT}\n"
    return {"verl.sh": head + " \\\n".join(["python3 -m verl.trainer.main_ppo", *lines]) + "\n"}


def _on_fsdp(run: Run) -> bool:
    return run.layout.zero > 1


def _written(value: object) -> str:
    return "null" if value is None else str(value)


def _data(run: Run) -> Json:
    """The objective, and lengths and numbers of prompts and answers."""
    rollout = run.rollout
    return {
        "model_engine": "dp" if _on_fsdp(run) else "megatron",
        "algorithm.adv_estimator": ESTIMATORS[run.method],
        "data.train_batch_size": rollout.prompts,
        "data.max_prompt_length": rollout.prompt_tokens,
        "data.max_response_length": run.answer_tokens,
        "actor_rollout_ref.model.path": run.model,
    }


def _trainer(run: Run) -> Json:
    """The model that is trained, and where it lies."""
    layout = run.layout
    said: Json = {
        f"{ACTOR}ppo_mini_batch_size": run.update_prompts,
        f"{ACTOR}use_dynamic_bsz": True,
        f"{ACTOR}ppo_max_token_len_per_gpu": -(-run.micro_batch_tokens // layout.cp),
        f"{ACTOR}use_kl_loss": run.refers,
    }
    engine = f"{ACTOR}{'fsdp_config' if _on_fsdp(run) else 'megatron'}."
    offloads = run.step.offload_s > 0
    said |= {f"{engine}param_offload": offloads, f"{engine}optimizer_offload": offloads}
    said[f"{engine}dtype"] = run.dtype
    return said | (_fsdp(run, engine) if _on_fsdp(run) else _megatron(run, engine))


def _fsdp(run: Run, engine: str) -> Json:
    layout = run.layout
    return {
        "actor_rollout_ref.model.enable_gradient_checkpointing": layout.recompute == "full",
        f"{ACTOR}strategy": "fsdp2",
        f"{ACTOR}ulysses_sequence_parallel_size": layout.cp,
        f"{engine}fsdp_size": layout.shard or -1,
        f"{engine}reshard_after_forward": layout.zero == 3,
    }


def _megatron(run: Run, engine: str) -> Json:
    layout = run.layout
    core = f"{engine}override_transformer_config."
    said: Json = {
        f"{engine}tensor_model_parallel_size": layout.tp,
        f"{engine}pipeline_model_parallel_size": layout.pp,
        f"{engine}virtual_pipeline_model_parallel_size": layout.vpp if layout.vpp > 1 else None,
        f"{engine}context_parallel_size": layout.cp,
        f"{engine}expert_model_parallel_size": layout.ep,
        f"{engine}expert_tensor_parallel_size": layout.etp or None,
        f"{engine}sequence_parallel": layout.sequence_parallel,
        f"{engine}use_distributed_optimizer": layout.zero == 1,
        f"{core}recompute_granularity": None if layout.recompute == "none" else layout.recompute,
    }
    if layout.recompute == "full":
        said |= {f"{core}recompute_method": "uniform", f"{core}recompute_num_layers": 1}
    if layout.recompute == "selective":
        said[f"{core}recompute_modules"] = f"[{','.join(run.recomputed)}]"
    return said


def _generation(run: Run) -> Json:
    """The engines."""
    engine = run.engine
    said: Json = {
        f"{ROLLOUT}name": "vllm",
        f"{ROLLOUT}n": run.rollout.group,
        f"{ROLLOUT}tensor_model_parallel_size": engine.tp,
        f"{ROLLOUT}pipeline_model_parallel_size": engine.pp,
        f"{ROLLOUT}data_parallel_size": engine.dp,
        f"{ROLLOUT}expert_parallel_size": engine.ep,
        f"{ROLLOUT}gpu_memory_utilization": engine.memory_frac,
        f"{ROLLOUT}max_num_seqs": engine.most_sequences,
        f"{ROLLOUT}max_num_batched_tokens": engine.pass_tokens,
        f"{ROLLOUT}max_model_len": run.sequence_tokens,
        f"{ROLLOUT}free_cache_engine": not run.apart,
    }
    if engine.weights_dtype == "fp8":
        said[f"{ROLLOUT}quantization"] = "fp8"
    if engine.kv_dtype == "fp8":
        said[f"+{ROLLOUT}engine_kwargs.vllm.kv_cache_dtype"] = "fp8"
    return said


def _placement(run: Run) -> Json:
    """Devices, and who works when."""
    inside = min(run.per_node, run.training)
    said: Json = {"trainer.n_gpus_per_node": inside, "trainer.nnodes": run.training // inside}
    if not run.apart:
        return {**said, "trainer.v1.trainer_mode": "sync"}
    generates = min(run.per_node, run.rollout.devices)
    return {
        **said,
        "actor_rollout_ref.hybrid_engine": False,
        f"{ROLLOUT}nnodes": run.rollout.devices // generates,
        f"{ROLLOUT}n_gpus_per_node": generates,
        f"{ROLLOUT}checkpoint_engine.backend": "nccl",
        "trainer.v1.trainer_mode": "separate_async",
        "trainer.v1.separate_async.parameter_sync_step": run.step.updates,
        "trainer.v1.separate_async.num_warmup_batches": run.step.staleness,
        "trainer.v1.sampler.max_off_policy_threshold": run.step.staleness,
    }
