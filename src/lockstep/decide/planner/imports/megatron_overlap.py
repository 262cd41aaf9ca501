"""Kernels of Megatron-LM, its traffic alongside compute, and the exchange of its experts."""

from __future__ import annotations

from lockstep.decide.planner.export.megatron import CONTEXT
from lockstep.decide.planner.imports.imported import Imported
from lockstep.decide.planner.imports.said import Said
from lockstep.describe.workload import Transformer

KINDS = {word: kind for kind, word in CONTEXT.items()}
CAPTURED = {"transformer_engine": "attention", "full_iteration": "step"}
"""What CUDA graphs hold, by implementation."""


def overlap(found: Imported, said: Said) -> None:
    """Adds the settings of kernels and traffic."""
    _kernels(found, said)
    words, layout = found.words, found.layout
    if not said["overlap-grad-reduce"]:
        words["overlap"] = False
    elif layout.get("zero") and said["overlap-param-gather"] is None:
        # Only one of both is on: gradients are reduced alongside compute, parameters gathered before it.
        said.leave("overlap-grad-reduce", "gathers of parameters that compute waits for; they are taken to overlap")
    if said["tp-comm-overlap"] and layout.get("tp", 1) > 1:
        words["overlap_tp"] = "all"
    kinds = said["cp-comm-type"] or ("p2p",)
    if layout.get("cp", 1) > 1:
        kind = KINDS.get(kinds[0])
        if kind is None or len(set(kinds)) > 1:
            said.leave("cp-comm-type", "context parallelism of several kinds")
        elif kind != "ring":
            words["cp_kind"] = kind
        if kind == "mixed":
            said["hierarchical-context-parallel-sizes"]
    _experts(found, said)


def _kernels(found: Imported, said: Said) -> None:
    words = found.words
    if said["cross-entropy-loss-fusion"]:
        words["cross_entropy"] = "fused"
    backend, flash = said["attention-backend"], said["use-flash-attn"]
    if backend in ("unfused", "local") and not flash:
        words["flash"] = False
    activation = "no-bias-swiglu-fusion" if said["swiglu"] else "no-bias-gelu-fusion"
    if said["no-bias-dropout-fusion"]:
        words["fused_elementwise"] = False
    if said[activation] and "fused_elementwise" not in words:
        said.leave(activation, "kernels of the activation")
    if said["no-gradient-accumulation-fusion"] and found.layout.get("zero", 0) < 2:
        words["fused_accumulation"] = False
    graphs = said["cuda-graph-impl"]
    if graphs in CAPTURED:
        words["cuda_graphs"] = CAPTURED[graphs]
        scope = said["cuda-graph-scope"]
        if graphs == "transformer_engine" and scope and "attn" not in scope:
            said.leave("cuda-graph-scope", "which modules are captured in CUDA graphs")
    elif graphs != "none":
        said.leave("cuda-graph-impl", "CUDA graphs of layers")


def _experts(found: Imported, said: Said) -> None:
    words, model = found.words, found.model
    experts = model.experts if isinstance(model, Transformer) else None
    if experts is None:
        return
    if said["moe-router-force-load-balancing"]:
        words["routing"] = "forced"
    if found.layout.get("ep", 1) == 1:
        return
    if said["moe-shared-expert-overlap"] and experts.shared_ffn:
        words["overlap_ep"] = "shared"
    if said["overlap-moe-expert-parallel-comm"]:
        words["overlap_ep"] = "passes"
    dispatcher, backend = said["moe-token-dispatcher-type"], said["moe-flex-dispatcher-backend"]
    once = bool(said["moe-enable-deepep"]) or (dispatcher == "flex" and backend == "deepep")
    if dispatcher == "allgather":
        said.leave("moe-token-dispatcher-type", "experts that all ranks send all their tokens to")
    if dispatcher == "flex" and backend not in (None, "deepep"):
        said.leave("moe-flex-dispatcher-backend", "an exchange of tokens that is not described")
    if once != (experts.top_groups < experts.groups):
        words["exchange"] = "node" if once else "copy"
