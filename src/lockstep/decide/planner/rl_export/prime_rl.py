"""prime-rl: the TOML of `uv run rl @ FILE`: a trainer on FSDP2 and vLLM apart from it, which never wait in step.

Staleness is `max_off_policy_steps`. Source: packages/prime-rl-configs/src/prime_rl/configs of
PrimeIntellect-ai/prime-rl@004274ec: rl.py, trainer.py, orchestrator.py, inference.py.
"""

from __future__ import annotations

from lockstep.base.types.plain import Json
from lockstep.decide.planner.export.refusals import Refusals
from lockstep.decide.planner.rl_export.run import Run, refuse_trainer
from lockstep.price.layout import Job, Layout

VERSION = "prime-rl, main of 2026 (004274ec)"
LEFT = (
    "left to you: [[orchestrator.train.env]], which also gives the reward, trainer.optim.lr, max_steps, and [slurm] of "
    "several nodes"
)


def trainer(job: Job, layout: Layout, no: Refusals) -> None:
    """Notes why it does not train so."""
    no.when(layout.tp * layout.pp > 1, f"tp={layout.tp}, pp={layout.pp} of the trainer: it has dp, cp and ep")
    no.when(layout.zero < 2, f"zero {layout.zero}: it shards parameters and gradients")
    no.when(layout.recompute == "selective", "recompute selective: its targets are other modules")
    refuse_trainer(job, layout, no, "torchtitan", ("grpo",))


def limits(run: Run, no: Refusals) -> None:
    """Notes why it does not run the step."""
    engine = run.engine
    no.when(not run.apart, "devices that generate and train in turn; give --split")
    no.when(run.apart and not run.step.staleness, "devices apart that work in step; give --staleness 1 or more")
    no.when(run.refers, "a reference model; give --train grpo:beta=0")
    no.when(run.step.updates > 1, f"{run.step.updates} updates on the answers of a step; it has one")
    no.when(engine.pp > 1, f"--rollout-pp {engine.pp}")
    no.when(engine.weights_dtype == "fp8", "weights of engines in fp8")


def write(run: Run) -> dict[str, str]:
    """The TOML, by the name of a file for it."""
    body = "\n".join(f"{_table(name)}{_lines(values)}" for name, values in _tables(run).items())
    return {"prime-rl.toml": f"# written for {VERSION}\n# {LEFT}\n{body}"}


def _table(name: str) -> str:
    return f"[{name}]\n" if name else ""


def _lines(values: Json) -> str:
    def written(value: object) -> str:
        return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else str(value)

    return "".join(f"{name} = {written(value)}\n" for name, value in values.items() if value is not None)


def _tables(run: Run) -> dict[str, Json]:
    layout, engine, rollout = run.layout, run.engine, run.rollout
    replicas = layout.dp // layout.shard if layout.shard else 1
    found: dict[str, Json] = {
        "": {"seq_len": run.sequence_tokens},
        "model": {"name": run.model},
        "weight_broadcast": {"type": "nccl"},
        "deployment": _deployment(run),
        "trainer.model": {
            "cp": layout.cp,
            "ep": layout.ep,
            "dp_replicate": replicas,
            "reshard_after_forward": layout.zero == 3,
        },
        "orchestrator": {
            "batch_size": rollout.answers,
            "group_size": rollout.group,
            "max_off_policy_steps": run.step.staleness,
        },
        "orchestrator.train.sampling": {"max_completion_tokens": run.answer_tokens},
        "inference": {
            "gpu_memory_utilization": engine.memory_frac,
            "enable_prefix_caching": rollout.group > 1,
            "enable_expert_parallel": engine.ep > 1,
        },
        "inference.model": {"max_model_len": run.sequence_tokens},
        "inference.parallel": {"tp": engine.tp, "dp": rollout.engines * engine.dp},
        "inference.vllm_extra": {
            "max_num_seqs": engine.most_sequences,
            "max_num_batched_tokens": engine.pass_tokens,
            "kv_cache_dtype": "fp8" if engine.kv_dtype == "fp8" else None,
        },
    }
    if layout.recompute == "full":
        found["trainer.model.ac"] = {"mode": "full", "freq": 1}
    return found


def _deployment(run: Run) -> Json:
    if run.nodes == 1:
        devices = {"num_train_gpus": run.training, "num_infer_gpus": run.rollout.devices}
        return {"type": "single_node", "gpus_per_node": run.per_node, **devices}
    return {
        "type": "multi_node",
        "gpus_per_node": run.per_node,
        "num_train_nodes": run.training // run.per_node,
        "num_infer_nodes": run.rollout.devices // run.per_node,
    }
