"""Megatron-LM's arguments as a question and a layout: `export/megatron.py` read backwards.

Where an argument is left out, the default of Megatron-LM's parser holds: dropout 0.1, gradients in fp32 with bf16,
interleaved stages whose sends overlap. What would change a run and has no word is named in `unread`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from lockstep.planner.export.megatron import CONTEXT
from lockstep.planner.export.megatron_limits import PIPELINE_INSIDE, STRATEGIES
from lockstep.planner.imports.imported import Imported, integer
from lockstep.planner.imports.megatron_model import megatron_model
from lockstep.planner.imports.megatron_text import Flags, megatron_flags
from lockstep.workload import Model, Transformer

SIGNS = ("--tensor-model-parallel-size", "--micro-batch-size", "tensor_model_parallel_size ..", "--num-layers")
STAGES = {word: zero for zero, word in STRATEGIES.items()} | {"no_shard": 0, "optim": 1}
KINDS = {word: kind for kind, word in CONTEXT.items()}
UNREAD = (
    "rampup-batch-size", "moe-expert-capacity-factor", "delay-wgrad-compute",
    "fine-grained-activation-offloading", "enable-cuda-graph", "cuda-graph-impl", "hybrid-layer-pattern",
    "use-torch-fsdp2", "fp8-recipe", "optimizer-offload-fraction", "train-sync-interval",
    "moe-layer-recompute", "distribute-saved-activations", "fp8-param-gather",
)  # fmt: skip
HARMLESS = {"fp8-recipe": "delayed", "optimizer-offload-fraction": "1.0", "cuda-graph-impl": "none"}
"""Values with which these say nothing new."""
CAPTURED = {"transformer_engine": "attention", "full_iteration": "step"}
"""What CUDA graphs hold, by implementation."""
MOST_LAYERS = 10_000
REPEATED = re.compile(r"(\w|\([^()]*\))\*(\d+)")


def megatron(text: str, name: str, model: Model | None) -> Imported | None:
    """What a script, a command line or a log says; None where it holds no arguments of Megatron-LM."""
    if not any(sign in text for sign in SIGNS):
        return None
    return from_flags(megatron_flags(text), "Megatron-LM arguments", name, model)


def from_flags(flags: Flags, software: str, name: str, model: Model | None) -> Imported:
    """What flags say."""
    model = model or megatron_model(flags, name)
    found = Imported(software, model=model)
    _degrees(found, flags, model)
    _sharding(found, flags)
    _memory(found, flags)
    _batch(found, flags)
    _formats(found, flags)
    _overlap(found, flags, model)
    left = {one: value for one, value in flags.items() if str(value) != HARMLESS.get(one)}
    for word, flag in (("cuda_graphs", "cuda-graph-impl"), ("fp8_scaling", "fp8-recipe")):
        if word in found.words:
            del left[flag]
    found.missing(UNREAD, left)
    return found


def _degrees(found: Imported, flags: Mapping[str, Any], model: Model | None) -> None:
    found.degrees(
        tp=integer(flags, "tensor-model-parallel-size"),
        pp=integer(flags, "pipeline-model-parallel-size"),
        cp=integer(flags, "context-parallel-size"),
        ep=integer(flags, "expert-model-parallel-size"),
    )
    layout, pp = found.layout, found.layout.get("pp", 1)
    etp = integer(flags, "expert-tensor-parallel-size", 0)
    if etp and etp != layout.get("tp", 1):
        layout["etp"] = etp
    if "sequence-parallel" in flags and layout.get("tp", 1) > 1:
        layout["sequence_parallel"] = True
    if "use-tp-pp-dp-mapping" in flags and pp > 1:
        layout["order"] = "-".join(PIPELINE_INSIDE)
    if "world-size" in flags or "world_size" in flags:
        found.words["gpus"] = integer(flags, "world-size" if "world-size" in flags else "world_size")
    if pp > 1:
        _stages(found, flags, integer(flags, "num-layers", model.layers if isinstance(model, Transformer) else 0))


def _stages(found: Imported, flags: Mapping[str, Any], layers: int) -> None:
    """Chunks, and layers placed by hand."""
    layout, pp = found.layout, found.layout["pp"]
    if "pipeline-model-parallel-layout" in flags:
        parts = _expanded(str(flags["pipeline-model-parallel-layout"]).strip("\"'")).split("|")
        layout["stages"] = ",".join(str(part.count("t")) for part in parts)
        if len(parts) > pp:
            layout["vpp"] = len(parts) // pp
        ahead = [place for place, part in enumerate(parts) if "m" in part]
        if ahead and ahead[0] != len(parts) - 1:
            layout["mtp_stage"] = ahead[0]
    counted = layers + sum(f"account-for-{end}-in-pipeline-split" in flags for end in ("embedding", "loss"))
    if "num-layers-per-virtual-pipeline-stage" in flags and counted:
        layout["vpp"] = counted // (pp * integer(flags, "num-layers-per-virtual-pipeline-stage"))
    if "num-virtual-stages-per-pipeline-rank" in flags:
        layout["vpp"] = integer(flags, "num-virtual-stages-per-pipeline-rank")
    first, last = (integer(flags, f"decoder-{end}-pipeline-num-layers", 0) for end in ("first", "last"))
    if (first or last) and layers and layout.get("vpp", 1) == 1:
        inner = pp - bool(first) - bool(last)
        even = [(layers - first - last) // inner] * inner if inner else []
        layout["stages"] = ",".join(map(str, [*([first] if first else []), *even, *([last] if last else [])]))
    if layout.get("vpp", 1) > 1 and "no-overlap-p2p-communication" not in flags:
        found.words["overlap_pp"] = True


def _expanded(said: str) -> str:
    """A layout string without its `t*3` and `(tt|)*2`."""
    while REPEATED.search(said) and len(said) < MOST_LAYERS:
        said = REPEATED.sub(lambda part: part[1].strip("()") * min(int(part[2]), MOST_LAYERS), said)
    return said.replace(",", "")


def _sharding(found: Imported, flags: Mapping[str, Any]) -> None:
    zero = 1 if "use-distributed-optimizer" in flags else 0
    if "use-megatron-fsdp" in flags or "use-custom-fsdp" in flags:
        zero = STAGES.get(str(flags.get("data-parallel-sharding-strategy", "no_shard")), zero)
    if zero:
        found.layout["zero"] = zero
    instances = integer(flags, "num-distributed-optimizer-instances")
    if zero and instances > 1:
        cp = found.layout.get("cp", 1)
        found.layout["shard"] = lambda devices: found.replicas(devices) * cp // instances
    if "optimizer-cpu-offload" in flags:
        found.layout["offload"] = "optimizer"


def _memory(found: Imported, flags: Mapping[str, Any]) -> None:
    """Recomputation and activations in host memory."""
    granularity = flags.get("recompute-granularity")
    if granularity is None and "recompute-activations" in flags:
        granularity = "selective"
    if granularity in ("full", "selective"):
        found.layout["recompute"] = granularity
    layers = integer(flags, "recompute-num-layers", 1)
    if granularity == "full" and flags.get("recompute-method") == "block":
        found.set(found.words, recompute_layers=layers)
    elif layers != 1:
        found.unread.append(f"recompute-num-layers={layers}")
    modules = flags.get("recompute-modules")
    if granularity == "selective" and modules:
        said = modules if isinstance(modules, list) else [str(modules)]
        if said != ["core_attn"]:
            found.words["recompute_modules"] = ",".join(map(str, said))
    layers = integer(flags, "cpu-offloading-num-layers", 0)
    found.set(found.words, offload_layers=layers or None)


def _batch(found: Imported, flags: Mapping[str, Any]) -> None:
    micro = integer(flags, "micro-batch-size")
    found.layout["micro_batch"] = micro
    batch = integer(flags, "global-batch-size", 0)
    found.words["batch"] = batch or (lambda devices: micro * found.replicas(devices))
    found.set(found.words, seq=integer(flags, "seq-length", 0) or None)


def _formats(found: Imported, flags: Mapping[str, Any]) -> None:
    half = "bf16" if "bf16" in flags else "fp16" if "fp16" in flags else None
    narrow = "nvfp4" if "fp4-format" in flags else None
    if "fp8-format" in flags:
        narrow = "mxfp8" if flags.get("fp8-recipe") == "mxfp8" else "fp8"
        found.set(found.words, fp8_scaling="current" if flags.get("fp8-recipe") == "tensorwise" else None)
    found.set(found.words, dtype=narrow or half)
    if half is None and narrow is None:
        found.unread.append("fp32, as neither --bf16 nor --fp16 is given")
    fp32 = "accumulate-allreduce-grads-in-fp32" in flags or (half == "bf16" and "grad-reduce-in-bf16" not in flags)
    if not fp32 and half is not None:
        found.words["gradient_bytes"] = 2
    optimizer = str(flags.get("optimizer", "adam"))
    known = {"adam": None, "sgd": "sgd-momentum", "muon": "muon", "lion": "lion"}
    if optimizer not in known:
        found.unread.append(f"optimizer={optimizer}")
    found.set(found.words, optimizer=known.get(optimizer))
    rates = [float(flags.get(f"{part}-dropout", 0.1)) for part in ("attention", "hidden")]
    if any(rates):
        found.words["dropout"] = True


def _overlap(found: Imported, flags: Mapping[str, Any], model: Model | None) -> None:
    """Kernels, traffic alongside compute, and experts."""
    words, layout = found.words, found.layout
    if "cross-entropy-loss-fusion" in flags:
        words["cross_entropy"] = "fused"
    if flags.get("attention-backend") == "unfused":
        words["flash"] = False
    if "no-bias-dropout-fusion" in flags:
        words["fused_elementwise"] = False
    if "no-gradient-accumulation-fusion" in flags and layout.get("zero", 0) < 2:
        words["fused_accumulation"] = False
    if "overlap-grad-reduce" not in flags:
        words["overlap"] = False
    if "tp-comm-overlap" in flags and layout.get("tp", 1) > 1:
        words["overlap_tp"] = "all"
    said = flags.get("cp-comm-type", "p2p")
    kind = KINDS.get(str(said[0] if isinstance(said, list) else said))
    if layout.get("cp", 1) > 1 and kind not in (None, "ring"):
        words["cp_kind"] = kind
    if (graphs := CAPTURED.get(str(flags.get("cuda-graph-impl")))) is not None:
        words["cuda_graphs"] = graphs
    experts = model.experts if isinstance(model, Transformer) else None
    if experts is None:
        return
    if "moe-router-force-load-balancing" in flags:
        words["routing"] = "forced"
    if layout.get("ep", 1) == 1:
        return
    if "moe-shared-expert-overlap" in flags and experts.shared_ffn:
        words["overlap_ep"] = "shared"
    if "overlap-moe-expert-parallel-comm" in flags:
        words["overlap_ep"] = "passes"
    once = "moe-enable-deepep" in flags or flags.get("moe-flex-dispatcher-backend") == "deepep"
    if once != (experts.top_groups < experts.groups):
        words["exchange"] = "node" if once else "copy"
