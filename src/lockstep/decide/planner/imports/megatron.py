"""Megatron-LM's arguments as a question and a layout: `export/megatron.py` read backwards.

Where an argument is left out, the default of Megatron-LM's parser holds: dropout 0.1, gradients in fp32 with bf16,
interleaved stages whose sends overlap.
"""

from __future__ import annotations

from lockstep.decide.planner.export.megatron_limits import PIPELINE_INSIDE, STRATEGIES
from lockstep.decide.planner.imports.imported import Imported
from lockstep.decide.planner.imports.launchers import devices
from lockstep.decide.planner.imports.megatron_model import compared, described, layers_of, megatron_model
from lockstep.decide.planner.imports.megatron_overlap import overlap
from lockstep.decide.planner.imports.megatron_stages import stages
from lockstep.decide.planner.imports.said import Said
from lockstep.describe.workload import Model

STAGES = {word: zero for zero, word in STRATEGIES.items()} | {"no_shard": 0, "optim": 1}
OPTIMIZERS = {"adam": None, "sgd": "sgd-momentum", "muon": "muon", "dist_muon": "muon", "lion": "lion"}


def megatron(said: Said, name: str, model: Model | None) -> Imported:
    """What a script, a command line or a log says. Raises BadInput for what no run of Megatron-LM can have."""
    found = Imported(said.format.name, model=model)
    if model is None:
        found.model = megatron_model(said, name)
        found.called = "" if found.model else described(said)
    else:
        compared(said, model)
    _degrees(found, said)
    if found.layout.get("pp", 1) > 1:
        stages(found, said, layers_of(said, found.model))
    _sharding(found, said)
    _memory(found, said)
    _batch(found, said)
    _formats(found, said)
    overlap(found, said)
    _world(found, said)
    return found


def _degrees(found: Imported, said: Said) -> None:
    found.degrees(
        tp=said["tensor-model-parallel-size"], pp=said["pipeline-model-parallel-size"],
        cp=said["context-parallel-size"], ep=said["expert-model-parallel-size"],
    )  # fmt: skip
    layout = found.layout
    etp = said["expert-tensor-parallel-size"]
    if etp and etp != layout.get("tp", 1):
        layout["etp"] = etp
    if said["sequence-parallel"] and layout.get("tp", 1) > 1:
        layout["sequence_parallel"] = True
    if said["use-tp-pp-dp-mapping"] and layout.get("pp", 1) > 1:
        layout["order"] = "-".join(PIPELINE_INSIDE)


def _world(found: Imported, said: Said) -> None:
    """The number of devices: of a log, or of what starts the run."""
    if said["world-size"]:
        found.words["gpus"] = said["world-size"]
    elif said.text.shape == "command" and (started := devices(said)) is not None:
        if started % found.dense_ranks:
            why = f"starts {started} processes, which tp*pp*cp = {found.dense_ranks} does not divide; it is left out"
            said.contradiction("launcher.nproc_per_node", why)
        else:
            found.words["gpus"] = started


def _sharding(found: Imported, said: Said) -> None:
    zero = 1 if said["use-distributed-optimizer"] else 0
    if said["use-megatron-fsdp"] or said["use-custom-fsdp"]:
        zero = STAGES[said["data-parallel-sharding-strategy"]]
    elif said["use-torch-fsdp2"]:
        zero = 3
        if said["torch-fsdp2-no-reshard-after-forward"]:
            found.words["reshard"] = False
    if zero:
        found.layout["zero"] = zero
        instances = said["num-distributed-optimizer-instances"]
        if instances > 1:
            cp = found.layout.get("cp", 1)
            found.layout["shard"] = lambda devices: found.replicas(devices) * cp // instances
    if said["optimizer-cpu-offload"]:
        found.layout["offload"] = "optimizer"


def _memory(found: Imported, said: Said) -> None:
    """Recomputation and activations in host memory."""
    granularity = said["recompute-granularity"]
    if granularity is None:
        granularity = (
            "full" if said["checkpoint-activations"] else "selective" if said["recompute-activations"] else None
        )
    if granularity in ("full", "selective"):
        found.layout["recompute"] = granularity
    if granularity == "full":
        _whole_layers(found, said)
    modules = said["recompute-modules"] if granularity == "selective" else None
    if modules:
        found.recomputes(said, "recompute-modules", modules)
    found.set(found.words, offload_layers=said["cpu-offloading-num-layers"] or None)


def _whole_layers(found: Imported, said: Said) -> None:
    """Layers that are recomputed as a whole: some of each stage, or all, each alone or several together."""
    layers = said["recompute-num-layers"]
    if said["recompute-method"] == "block":
        found.words["recompute_layers"] = layers
    elif layers != 1:
        said.leave("recompute-num-layers", "layers that are recomputed together")


def _batch(found: Imported, said: Said) -> None:
    if "micro-batch-size" in said or not said["global-batch-size"]:
        found.layout["micro_batch"] = said["micro-batch-size"] or 1
    micro = found.layout.get("micro_batch", 1)
    found.words["batch"] = said["global-batch-size"] or (lambda devices: micro * found.replicas(devices))
    seq, encoder = said["seq-length"], said["encoder-seq-length"]
    if seq and encoder and seq != encoder:
        said.contradiction("encoder-seq-length", f"--seq-length is {seq}, which counts")
    found.set(found.words, seq=seq or encoder)


def _formats(found: Imported, said: Said) -> None:
    if said["bf16"] and said["fp16"]:
        raise said.refuse("fp16", "is set, and so is bf16: the software accepts only one of them")
    half = "bf16" if said["bf16"] else "fp16" if said["fp16"] else None
    narrow = "nvfp4" if said["fp4-format"] else None
    if said["fp8-format"] or said["fp8-hybrid"] or said["fp8-e4m3"]:
        recipe = said["fp8-recipe"]
        narrow = "mxfp8" if recipe == "mxfp8" else "fp8"
        found.set(found.words, fp8_scaling="current" if recipe == "tensorwise" else None)
        if recipe in ("blockwise", "custom"):
            said.leave("fp8-recipe", "how fp8 is scaled")
    # Without a setting of precision its parameters are fp32 (args.params_dtype of arguments.py).
    found.words["dtype"] = narrow or half or "fp32"
    whole = said["accumulate-allreduce-grads-in-fp32"] or (half == "bf16" and not said["grad-reduce-in-bf16"])
    if half is not None and not whole:
        found.words["gradient_bytes"] = 2
    optimizer = said["optimizer"]
    if optimizer not in OPTIMIZERS:
        said.leave("optimizer", "an optimizer that is not described; AdamW is taken")
    found.set(found.words, optimizer=OPTIMIZERS.get(optimizer))
    if any([said["attention-dropout"], said["hidden-dropout"]]):
        found.words["dropout"] = True
