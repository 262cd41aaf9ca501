"""Overrides of a Megatron-Bridge recipe, or its whole configuration as YAML, as a question and a layout.

Its fields are Megatron Core's, so they are turned into Megatron-LM's flags first; `export/bridge.py` is the same table
in the other direction.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from lockstep.planner.export.arguments import arguments
from lockstep.planner.export.bridge import FORMATS, GRADIENT_B
from lockstep.planner.imports.imported import Imported, flat
from lockstep.planner.imports.megatron import from_flags
from lockstep.planner.imports.megatron_text import Flags
from lockstep.workload import Model

SECTIONS = ("model", "train", "ddp", "optimizer", "dist", "comm_overlap", "dataset")
OFF = {
    "overlap_p2p_comm": "no-overlap-p2p-communication",
    "gradient_accumulation_fusion": "no-gradient-accumulation-fusion",
    "bias_dropout_fusion": "no-bias-dropout-fusion",
    "share_embeddings_and_output_weights": "untie-embeddings-and-output-weights",
    "add_bias_linear": "disable-bias-linear",
}
"""Fields whose flag is there where they are false."""
NAMES = {
    "num_moe_experts": "num-experts",
    "gated_linear_unit": "swiglu",
    "layernorm_epsilon": "norm-epsilon",
    "microbatch_group_size_per_vp_stage": "microbatch-group-size-per-virtual-pipeline-stage",
    "virtual_pipeline_model_parallel_size": "num-virtual-stages-per-pipeline-rank",
    "num_layers_in_first_pipeline_stage": "decoder-first-pipeline-num-layers",
    "num_layers_in_last_pipeline_stage": "decoder-last-pipeline-num-layers",
}


def bridge(data: Mapping[str, Any], name: str, model: Model | None) -> Imported | None:
    """What overrides say; None where they are something else."""
    if not any(isinstance(data.get(name), dict) for name in ("model", "ddp")) or not {
        "train",
        "ddp",
        "optimizer",
        "mixed_precision",
    } & set(data):
        return None
    flags = _flags(data)
    found = from_flags(flags, "Megatron-Bridge overrides", name, model)
    if "attention-dropout" not in flags and "hidden-dropout" not in flags:
        # Recipes of today's models have none; the parser's default does not hold here.
        found.words.pop("dropout", None)
    return found


def _flags(data: Mapping[str, Any]) -> Flags:
    names, found = arguments("megatron").names, dict[str, object]()
    for path, value in flat({section: data.get(section) or {} for section in SECTIONS}).items():
        field = path.split(".")[-1]
        flag = NAMES.get(field, field.replace("_", "-"))
        if value is False and field in OFF:
            found[OFF[field]] = True
        elif field == "seq_length":
            found["seq-length"] = value
        elif value not in (None, False) and flag in names:
            found[flag] = True if value is True else value if isinstance(value, list) else str(value)
            if flag == "num-query-groups":
                found["group-query-attention"] = True
    return found | _precision(data.get("mixed_precision"))


def _precision(said: object) -> Flags:
    """Formats, by the name of a recipe or its fields."""
    if isinstance(said, dict):
        dtype = "fp8" if said.get("fp8") else "bf16" if said.get("bf16") else "fp16" if said.get("fp16") else "bf16"
        whole = bool(said.get("grad_reduce_in_fp32", True))
    else:
        named = {word: dtype for dtype, word in FORMATS.items()}
        text = str(said or "bf16_mixed")
        dtype = named.get(text) or ("fp8" if "fp8" in text else "nvfp4" if "nvfp4" in text else text.split("_")[0])
        whole = GRADIENT_B.get(dtype, 4.0) == 4.0
    found: Flags = {"bf16" if dtype != "fp16" else "fp16": True}
    if dtype in ("fp8", "mxfp8"):
        found["fp8-format"] = "hybrid"
    for word, recipe in (("mxfp8", "mxfp8"), ("current", "tensorwise")):
        if word in str(said) or (isinstance(said, dict) and said.get("fp8_recipe") == recipe):
            found["fp8-recipe"] = recipe
    if dtype == "nvfp4":
        found["fp4-format"] = "e2m1"
    return found | ({"accumulate-allreduce-grads-in-fp32": True} if whole else {"grad-reduce-in-bf16": True})
