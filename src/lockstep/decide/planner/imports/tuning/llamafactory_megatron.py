"""LLaMA-Factory on Megatron Core: its settings over the Trainer's, whose batch and sequence length count.

Source: mcore_adapter/training_args.py of alibaba/ROLL, which LLaMA-Factory 0.9.5 takes with USE_MCA=1; its examples.
"""

from __future__ import annotations

from lockstep.decide.planner.imports.imported import Imported
from lockstep.decide.planner.imports.said import Said
from lockstep.decide.planner.imports.tuning.run import Run
from lockstep.decide.planner.imports.tuning.sharding import with_others
from lockstep.describe.workload import Model, Transformer

DEGREES = {"tp": "tensor_model", "pp": "pipeline_model", "cp": "context", "ep": "expert_model"}


def on_megatron(said: Said) -> bool:
    """Whether Megatron Core trains: where the file says so, or splits the model."""
    return bool(said["use_mca"]) or any(f"{word}_parallel_size" in said for word in DEGREES.values())


def with_megatron(found: Imported, said: Said, run: Run, model: Model | None) -> Imported:
    """Adds to `found` the settings of a run by Megatron Core. Returns `found`."""
    sizes = {axis: said[f"{word}_parallel_size"] for axis, word in DEGREES.items()}
    found.degrees(**sizes, vpp=said["virtual_pipeline_model_parallel_size"])
    experts = isinstance(model, Transformer) and model.experts is not None
    if said["expert_tensor_parallel_size"] != sizes["tp"] and (experts or sizes["ep"] > 1):
        found.layout["etp"] = said["expert_tensor_parallel_size"]
    if said["sequence_parallel"] and sizes["tp"] > 1:
        found.layout["sequence_parallel"] = True
    micro, steps = run.micro * run.pair, run.steps
    found.layout["micro_batch"] = micro
    found.words["batch"] = lambda devices: micro * steps * found.replicas(devices)
    trained = ",".join(part for part in (run.objective, run.adapters) if part)
    found.words |= {"stack": "megatron-te", "dtype": run.dtype, "optimizer": "adamw"}
    found.set(found.words, seq=run.seq, base=run.base, train=trained or None)
    found.set(
        found.layout, recompute=said["recompute_granularity"], zero=int(said["use_distributed_optimizer"]) or None
    )
    if not said["overlap_grad_reduce"]:
        found.words["overlap"] = False
    if found.layout.get("vpp", 1) > 1 and said["overlap_p2p_comm"]:
        found.words["overlap_pp"] = True
    with_others(found, "zero", "overlap")
    return found
