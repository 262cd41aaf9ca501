"""OpenRLHF: the command of `openrlhf.cli.train_ppo_ray`, which trains with DeepSpeed and generates with vLLM.

    together              --train.colocate_all, with sleep of engines and of DeepSpeed
    apart, in step        neither that nor --train.async_enable
    apart, k steps stale  --train.async_enable --train.async_queue_size k

Source: openrlhf/cli/train_ppo_ray.py and openrlhf/trainer/ppo_trainer_async.py of OpenRLHF 0.11.2.
"""

from __future__ import annotations

from lockstep.base.types.plain import Json
from lockstep.decide.planner.export.refusals import Refusals
from lockstep.decide.planner.rl_export.run import Run, refuse_trainer
from lockstep.price.layout import Job, Layout

VERSION = "OpenRLHF 0.11.2"
ESTIMATORS = {"grpo": "group_norm", "rloo": "rloo"}
LEFT = (
    "left to you: --data.prompt_dataset, --reward.remote_url or --train.agent_func_path, --actor.adam.lr and "
    "--train.num_episodes; engines keep vLLM's own limits of sequences and tokens at a time"
)


def trainer(job: Job, layout: Layout, no: Refusals) -> None:
    """Notes why it does not train so."""
    no.when(layout.pp > 1, f"pp={layout.pp} of the trainer")
    refuse_trainer(job, layout, no, "deepspeed", ESTIMATORS)


def limits(run: Run, no: Refusals) -> None:
    """Notes why it does not run the step."""
    engine = run.engine
    no.when(engine.pp * engine.dp * engine.ep > 1, "engines of several stages, of --attention-dp or --rollout-ep")
    no.when(engine.weights_dtype == "fp8" or engine.kv_dtype == "fp8", "engines in fp8")


def write(run: Run) -> dict[str, str]:
    """The command, by the name of a file for it."""
    lines = [
        f"    --{name}" + ("" if value is True else f" {value}")
        for name, value in {**_training(run), **_generation(run)}.items()
        if value is not False
    ]
    head = f"# written for {VERSION}\n# {LEFT}\n"
    return {"openrlhf.sh": head + " \\\n".join(["python3 -m openrlhf.cli.train_ppo_ray", *lines]) + "\n"}


def _training(run: Run) -> Json:
    layout = run.layout
    inside = min(run.per_node, run.training)
    placed = {"num_nodes": run.training // inside, "num_gpus_per_node": inside}
    said: Json = {"actor.model_name_or_path": run.model, **{f"actor.{name}": one for name, one in placed.items()}}
    if run.refers:
        said |= {f"ref.{name}": one for name, one in placed.items()} | {"train.colocate_actor_ref": run.apart}
    return said | {
        "algo.advantage.estimator": ESTIMATORS[run.method],
        "algo.kl.init_coef": 1e-3 if run.refers else 0,
        "ds.zero_stage": layout.zero,
        "ds.tensor_parallel_size": layout.tp,
        "ds.param_dtype": "bf16" if run.dtype == "bfloat16" else "fp16",
        "actor.gradient_checkpointing_enable": layout.recompute == "full",
        "train.batch_size": run.update_answers,
        "train.micro_batch_size": layout.micro_batch,
        "ds.packing_samples": True,
        "train.dynamic_batch_enable": True,
        "train.max_tokens_per_gpu": run.micro_batch_tokens,
    }


def _generation(run: Run) -> Json:
    engine, rollout = run.engine, run.rollout
    return {
        "rollout.batch_size": rollout.prompts,
        "rollout.micro_batch_size": run.layout.micro_batch,
        "rollout.n_samples_per_prompt": rollout.group,
        "rollout.max_new_tokens": run.answer_tokens,
        "data.max_len": run.sequence_tokens,
        "vllm.num_engines": rollout.engines,
        "vllm.tensor_parallel_size": engine.tp,
        "vllm.gpu_memory_utilization": engine.memory_frac,
        "vllm.enable_prefix_caching": rollout.group > 1,
        "vllm.sync_backend": "nccl",
        "train.colocate_all": not run.apart,
        "vllm.enable_sleep": not run.apart,
        "ds.enable_sleep": run.step.offload_s > 0,
        "train.async_enable": run.step.staleness > 0,
        **({"train.async_queue_size": run.step.staleness} if run.step.staleness else {}),
    }
