"""MindSpeed's arguments (Megatron-LM on Ascend) as a question and a layout: its own settings, and Megatron-LM's.

--multi-head-latent-attention, --qk-rope-head-dim, --qk-nope-head-dim    latent attention
--moe-intermediate-size, --n-shared-experts, --first-k-dense-replace     experts and where they are
--context-parallel-algo                                                  all-to-all, unless another is named
--num-layer-list, --noop-layers                                          layers by stage; layers that are empty
--moe-tp-extend-ep                                                       experts are spread over tp ep, and not cut
"""

from __future__ import annotations

from typing import Any

from lockstep.decide.planner.imports.imported import Imported
from lockstep.decide.planner.imports.megatron_through import through
from lockstep.decide.planner.imports.mindspeed_model import adapters, layers, model_options
from lockstep.decide.planner.imports.said import Said
from lockstep.describe.workload import Model

CONTEXT = {"ulysses_cp_algo": "a2a", "megatron_cp_algo": "p2p", "hybrid_cp_algo": "a2a+p2p",
           "kvallgather_cp_algo": "all_gather"}  # fmt: skip
FUSED = ("use-fused-rmsnorm", "use-fused-swiglu", "use-fused-rotary-pos-emb")
STAGES = {"sft": None, "pt": None}
"""Kinds of training that change nothing here."""


def mindspeed(said: Said, name: str, model: Model | None) -> Imported:
    """What a script or a log says."""
    options: dict[str, Any] = {word: value for word, value in said.values.items() if word not in OWN}
    own = model_options(said) | _context(said)
    placed = layers(said, model)
    words = {option: option for option in options} | {option: word for option, (_, word) in {**own, **placed}.items()}
    options |= {option: value for option, (value, _) in {**own, **placed}.items()}
    if said["o2-gradient"]:
        options["grad-reduce-in-bf16"] = True
        options.pop("accumulate-allreduce-grads-in-fp32", None)
    found, _ = through(said, name, model, options, words)
    _experts(found, said)
    for word in FUSED:
        said[word]
    said["gemm-gradient-accumulation-fusion"]
    # Attention is fused where it is asked for, and always with context parallelism (arguments.py, _validate_cp_args).
    if not said["use-flash-attn"] and found.layout.get("cp", 1) == 1:
        found.words["flash"] = False
    found.set(found.words, train=adapters(said))
    if said["stage"] not in STAGES:
        said.leave("stage", "another kind of training")
    return found


def _context(said: Said) -> dict[str, tuple[Any, str]]:
    """Context parallelism: all-to-all is the default."""
    if said["context-parallel-size"] == 1:
        return {}
    algorithm = said["context-parallel-algo"]
    if algorithm not in CONTEXT:
        said.leave("context-parallel-algo", "context parallelism that follows a mask; all-to-all is taken")
    word = "context-parallel-algo"
    found: dict[str, tuple[Any, str]] = {"cp-comm-type": (CONTEXT.get(algorithm, "a2a"), word)}
    if algorithm == "hybrid_cp_algo" and said["ulysses-degree-in-cp"]:
        near, cp = said["ulysses-degree-in-cp"], said["context-parallel-size"]
        if cp % near:
            raise said.refuse("ulysses-degree-in-cp", f"is {near}, which does not divide --context-parallel-size {cp}")
    return found


def _experts(found: Imported, said: Said) -> None:
    """Where experts are: over tensor-parallel ranks too, where those extend the expert-parallel ones."""
    layout, tp = found.layout, found.layout.get("tp", 1)
    if said["moe-tp-extend-ep"] and tp > 1:
        layout["ep"] = layout.get("ep", 1) * tp
        layout["etp"] = 1
    if said["schedules-method"] == "dualpipev" and layout.get("pp", 1) > 1:
        # Two chunks on every device, the second in reverse order.
        layout |= {"schedule": "dualpipe-v", "vpp": 2}
        layout.pop("stages", None)
        found.words.pop("overlap_pp", None)
    if said["moe-fb-overlap"] and layout.get("ep", 1) > 1 and "schedule" not in layout:
        found.words["overlap_ep"] = "passes"


OWN = frozenset({
    "multi-head-latent-attention", "qk-rope-head-dim", "qk-nope-head-dim", "moe-intermediate-size", "n-shared-experts",
    "first-k-dense-replace", "moe-layer-freq", "shared-expert-gate", "n-group", "topk-group", "routed-scaling-factor",
    "norm-topk-prob", "moe-router-load-balancing-type", "num-layer-list", "noop-layers", "tokenizer-name-or-path",
    "sliding-window", "rope-scaling-type", "rope-scaling-factor", "rope-scaling-mscale", "rope-scaling-mscale-all-dim",
    "yarn-scaling-factor", "context-parallel-algo", "ulysses-degree-in-cp", "moe-tp-extend-ep", "schedules-method",
    "moe-fb-overlap", "o2-gradient", "lora-r", "lora-target-modules", "stage", "spec",
    "gemm-gradient-accumulation-fusion", "transformer-impl", "ckpt-format", *FUSED,
})  # fmt: skip
"""Settings that are read here and not as Megatron-LM's."""
