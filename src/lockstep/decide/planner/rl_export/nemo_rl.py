"""NeMo-RL: YAML over `grpo_math_1B.yaml`, for `uv run examples/run_grpo_math.py --config FILE`.

    trainer on DTensor    FSDP2 over all ranks: ZeRO 3, with tensor and context parallelism
    trainer on Megatron   all else that Megatron Core runs with its distributed optimizer
    together, apart       generation.colocated; staleness is async_grpo.max_trajectory_age_steps

Source: examples/configs/grpo_math_1B.yaml and grpo_math_1B_megatron.yaml of NVIDIA-NeMo/RL@00294d9b.
"""

from __future__ import annotations

import yaml

from lockstep.base.types.plain import Json
from lockstep.decide.planner.export.refusals import Refusals
from lockstep.decide.planner.rl_export.run import FORMATS, Run, refuse_trainer
from lockstep.price.layout import Job, Layout

VERSION = "NeMo-RL, main of October 2025 (00294d9b)"
LEFT = (
    "left to you: data, env, the learning rate and grpo.max_num_steps; this file belongs beside those that `defaults` "
    "names, in examples/configs"
)


def trainer(job: Job, layout: Layout, no: Refusals) -> None:
    """Notes why it does not train so."""
    dtensor = layout.zero > 1
    no.when(layout.zero == 2, "zero 2: FSDP2 shards parameters too there")
    no.when(bool(layout.shard), f"shard={layout.shard}: all ranks share one copy there")
    no.when(layout.vpp > 1, f"vpp={layout.vpp}: it has no key")
    no.when(layout.recompute == "selective", "recompute selective: it recomputes whole layers")
    refuse_trainer(job, layout, no, "accelerate" if dtensor else "megatron", ("grpo",))


def limits(run: Run, no: Refusals) -> None:
    """Notes why it does not run the step: nothing beside what any of them refuses."""


def write(run: Run) -> dict[str, str]:
    """The YAML, by the name of a file for it."""
    dtensor = run.layout.zero > 1
    document = {
        "defaults": f"grpo_math_1B{'' if dtensor else '_megatron'}.yaml",
        "grpo": _grpo(run),
        "loss_fn": {
            "reference_policy_kl_penalty": 0.01 if run.refers else 0,
            "use_importance_sampling_correction": run.step.staleness > 0,
        },
        "policy": _policy(run, dtensor),
        "cluster": {"gpus_per_node": run.per_node, "num_nodes": run.nodes},
    }
    body = yaml.safe_dump(document, sort_keys=False)
    return {"nemo-rl.yaml": f"# written for {VERSION}\n# {LEFT}\n{body}"}


def _grpo(run: Run) -> Json:
    return {
        "num_prompts_per_step": run.rollout.prompts,
        "num_generations_per_prompt": run.rollout.group,
        "async_grpo": {"enabled": run.step.staleness > 0, "max_trajectory_age_steps": max(1, run.step.staleness)},
    }


def _policy(run: Run, dtensor: bool) -> Json:
    """What is trained, and what generates."""
    layout = run.layout
    said: Json = {
        "model_name": run.model,
        "train_global_batch_size": run.update_answers,
        "train_micro_batch_size": layout.micro_batch,
        "logprob_batch_size": layout.micro_batch,
        "max_total_sequence_length": run.sequence_tokens,
        "precision": run.dtype,
        "sequence_packing": {
            "enabled": True,
            "train_mb_tokens": run.micro_batch_tokens,
            "logprob_mb_tokens": run.micro_batch_tokens,
        },
        "dtensor_cfg": {"enabled": dtensor},
        "megatron_cfg": {"enabled": not dtensor},
        "generation": _generation(run),
    }
    if dtensor:
        said["dtensor_cfg"] |= {
            "tensor_parallel_size": layout.tp,
            "context_parallel_size": layout.cp,
            "sequence_parallel": layout.sequence_parallel,
            "activation_checkpointing": layout.recompute == "full",
        }
    else:
        said["megatron_cfg"] |= {
            "tensor_model_parallel_size": layout.tp,
            "pipeline_model_parallel_size": layout.pp,
            "context_parallel_size": layout.cp,
            "expert_model_parallel_size": layout.ep,
            "expert_tensor_parallel_size": layout.expert_tp,
            "sequence_parallel": layout.sequence_parallel,
            "activation_checkpointing": layout.recompute == "full",
            "optimizer": {"use_distributed_optimizer": layout.zero == 1},
        }
    return said


def _generation(run: Run) -> Json:
    """The engines and their devices."""
    engine = run.engine
    fp8 = engine.weights_dtype == "fp8"
    vllm: Json = {
        "async_engine": run.step.staleness > 0,
        "precision": "fp8" if fp8 else FORMATS[engine.weights_dtype],
        "tensor_parallel_size": engine.tp,
        "pipeline_parallel_size": engine.pp,
        "expert_parallel_size": engine.ep,
        "gpu_memory_utilization": engine.memory_frac,
        "max_model_len": run.sequence_tokens,
    }
    kwargs: Json = {"max_num_seqs": engine.most_sequences, "max_num_batched_tokens": engine.pass_tokens}
    if engine.kv_dtype == "fp8":
        kwargs["kv_cache_dtype"] = "fp8"
    colocated: Json = {"enabled": not run.apart}
    if run.apart:
        whole = run.nodes > 1
        nodes = run.rollout.devices // run.per_node if whole else None
        colocated["resources"] = {
            "gpus_per_node": run.per_node if whole else run.rollout.devices,
            "num_nodes": nodes,
        }
    return {
        "backend": "vllm",
        "max_new_tokens": run.answer_tokens,
        "vllm_cfg": vllm,
        "vllm_kwargs": kwargs,
        "colocated": colocated,
    }
