"""TRL: the YAML of `trl grpo`, the Accelerate file beside it, and the command.

    together              vllm_mode colocate, with sleep where the trainer's states go to host memory
    apart, in step        vllm_mode server: one server, which for models without experts is one engine

Answers of one generation serve `updates` updates of `gradient_accumulation_steps` micro-batches each. Source:
trl/trainer/grpo_config.py, trl/scripts/vllm_serve.py and trl/cli of TRL 1.16.0.
"""

from __future__ import annotations

import yaml

from lockstep.base.types.plain import Json
from lockstep.decide.planner.export import export
from lockstep.decide.planner.export.refusals import Refusals
from lockstep.decide.planner.rl_export.run import Run, refuse_trainer
from lockstep.price.layout import Job, Layout

VERSION = "TRL 1.16.0"
LEFT = (
    "left to you: dataset_name, reward_funcs, learning_rate, max_steps; engines keep vLLM's own limits of sequences "
    "and tokens at a time"
)


def trainer(job: Job, layout: Layout, no: Refusals) -> None:
    """Notes why it does not train so."""
    refuse_trainer(job, layout, no, "accelerate", ("grpo", "rloo"))


def limits(run: Run, no: Refusals) -> None:
    """Notes why it does not run the step."""
    engine = run.engine
    no.when(run.step.staleness > 0, f"--staleness {run.step.staleness}: its GRPOTrainer waits for the answers")
    no.when(engine.pp * engine.dp * engine.ep > 1, "engines of several stages, of --attention-dp or --rollout-ep")
    no.when(engine.weights_dtype == "fp8", "weights of engines in fp8")
    no.when(engine.kv_dtype == "fp8" and not run.apart, "keys and values in fp8, for devices that also train")
    several = run.apart and run.rollout.engines > 1
    no.when(several, f"{run.rollout.engines} engines apart from the trainer: it talks to one server, which is one")


def write(run: Run) -> dict[str, str]:
    """The files by name."""
    name = run.method
    body = yaml.safe_dump(_arguments(run), sort_keys=False)
    command = f"# trl {name} --config trl-{name}.yaml --accelerate_config accelerate.yaml\n"
    server = f"# beside it: {_server(run)}\n" if run.apart else ""
    return {
        f"trl-{name}.yaml": f"# written for {VERSION}\n# {LEFT}\n{command}{server}{body}",
        "accelerate.yaml": export(run.step.trainer, "accelerate"),
    }


def _arguments(run: Run) -> Json:
    layout, engine = run.layout, run.engine
    said: Json = {
        "model_name_or_path": run.model,
        "bf16": run.dtype == "bfloat16",
        "fp16": run.dtype == "float16",
        "per_device_train_batch_size": layout.micro_batch,
        "gradient_accumulation_steps": run.accumulated,
        "gradient_checkpointing": layout.recompute == "full" and not layout.zero,
        "num_generations": run.rollout.group,
        "generation_batch_size": run.rollout.answers,
        "max_completion_length": run.answer_tokens,
        "beta": 0.04 if run.refers else 0.0,
        "use_vllm": True,
        "vllm_mode": "server" if run.apart else "colocate",
    }
    if not run.apart:
        said |= {
            "vllm_tensor_parallel_size": engine.tp,
            "vllm_gpu_memory_utilization": engine.memory_frac,
            "vllm_max_model_length": run.sequence_tokens,
            "vllm_enable_sleep_mode": run.step.offload_s > 0,
        }
    return said


def _server(run: Run) -> str:
    """The command of the server that generates."""
    engine = run.engine
    kv = " --kv_cache_dtype fp8" if engine.kv_dtype == "fp8" else ""
    return (
        f"trl vllm-serve --model {run.model} --tensor_parallel_size {engine.tp} "
        f"--gpu_memory_utilization {engine.memory_frac} --max_model_len {run.sequence_tokens}{kv}"
    )
