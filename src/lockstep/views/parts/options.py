"""Arguments and flags that several verbs share, in the field's words, as groups that a `Command` takes.

Quantities stay text here: the library parses them once, with the flag's name as the place of an error.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from lockstep.views.parts.completing import clusters, models, optimizers, schedules, starting

Options = Mapping[str, tuple[Any, Any]]
"""Keyword of the library -> (annotated type, default)."""


def text(
    flags: str | tuple[str, ...],
    metavar: str | None,
    words: str,
    default: Any = None,
    panel: str = "",
    names: Any = None,
) -> Any:
    """A flag that takes text; None when it is not given, so that the library's own default holds.

    A shell offers the `names` that begin as its word does.
    """
    shown = typer.Option(
        *((flags,) if isinstance(flags, str) else flags), metavar=metavar, help=words, rich_help_panel=panel or None,
        show_default=False, autocompletion=names and starting(names),
    )  # fmt: skip
    return Annotated[str | None if default is None else str, shown], default


def required(flags: tuple[str, ...], metavar: str, words: str, names: Any = None) -> Any:
    """A flag that must be given."""
    shown = typer.Option(*flags, metavar=metavar, help=words, autocompletion=names and starting(names))
    return Annotated[str, shown], inspect.Parameter.empty


def switch(flags: str, words: str, default: bool | None, panel: str = "") -> Any:
    """A flag that is on or off; None when it is not given and has no default here."""
    return Annotated[bool | None, typer.Option(flags, help=words, rich_help_panel=panel or None)], default


def argument(metavar: str, words: str, default: Any = inspect.Parameter.empty, names: Any = None) -> Any:
    """A positional argument; optional when it has a default."""
    kind = str if default is inspect.Parameter.empty else str | None
    complete = names and starting(names)
    return Annotated[
        kind, typer.Argument(metavar=metavar, help=words, show_default=False, autocompletion=complete)
    ], default


_MODEL_HELP = "Catalog name, or a path to a Hugging Face config.json or a YAML file."
_CLUSTER_HELP = "Catalog cluster with nodes, e.g. dgx-h100:64; one machine, e.g. rtx-4090:4; or a YAML file."

MODEL: Options = {"model": argument("MODEL", _MODEL_HELP, names=models)}
MODEL_IF_ANY: Options = {"model": argument("[MODEL]", _MODEL_HELP, None, models)}
CLUSTER: Options = {
    "cluster": required(("--cluster", "-c"), "C", _CLUSTER_HELP, names=clusters),
    "gpus": text("--gpus", "N", "Number of devices, instead of the number of nodes in --cluster."),
}
CLUSTER_IF_ANY: Options = {**CLUSTER, "cluster": text(("--cluster", "-c"), "C", _CLUSTER_HELP, names=clusters)}
BATCH: Options = {
    "batch": text("--batch", "N", "Sequences per optimizer step."),
    "batch_tokens": text("--batch-tokens", "N", "Tokens per optimizer step, e.g. 4M; instead of --batch."),
    "seq": text("--seq", "S", "Tokens per sequence. (default: the model's longest, at most 8192)"),
}
_RECIPE = "Recipe"
RECIPE: Options = {
    "dtype": text(
        "--dtype", "T", "Number format of matrix products: bf16, fp16 or fp8. (default: bf16)", panel=_RECIPE
    ),
    "optimizer": text(
        "--optimizer",
        "O",
        "Optimizer: adamw, adamw-8bit, adafactor, sgd, lion, muon ... (default: adamw)",
        panel=_RECIPE,
        names=optimizers,
    ),
    "parameter_bytes": text("--parameter-bytes", "B", "Bytes per working parameter. (default: 2)", panel=_RECIPE),
    "gradient_bytes": text(
        "--gradient-bytes", "B", "Bytes per accumulated gradient: 4 (Megatron) or 2. (default: 4)", panel=_RECIPE
    ),
    "reduce_bytes": text(
        "--reduce-bytes", "B", "Bytes per gradient on the wire. (default: --gradient-bytes)", panel=_RECIPE
    ),
    "flash": switch("--flash/--no-flash", "Use fused attention (scores are not stored).", True, _RECIPE),
    "dropout": switch(
        "--dropout/--no-dropout",
        "Store dropout masks of attention and residuals (typical before 2022).",
        False,
        _RECIPE,
    ),
    "fused_elementwise": switch(
        "--fused-elementwise/--no-fused-elementwise",
        "Run neighbouring elementwise operations as one kernel.",
        True,
        _RECIPE,
    ),
    "fused_accumulation": switch(
        "--fused-accumulation/--no-fused-accumulation",
        "Accumulate weight gradients inside the products that compute them.",
        True,
        _RECIPE,
    ),
    "overlap": switch("--overlap/--no-overlap", "Overlap data-parallel traffic with compute.", True, _RECIPE),
    "overlap_tp": text(
        "--overlap-tp",
        "W",
        "Tensor-parallel traffic overlapped with products: none, gradients (Megatron) or all (userbuffers). "
        "(default: gradients)",
        panel=_RECIPE,
    ),
    "overlap_pp": switch("--overlap-pp/--no-overlap-pp", "Overlap pipeline sends with compute.", False, _RECIPE),
    "overlap_ep": text(
        "--overlap-ep",
        "W",
        "Expert exchange overlapped with compute: none, cells (of dualpipe) or shared (experts). (default: cells)",
        panel=_RECIPE,
    ),
    "overlap_device": text(
        "--overlap-device",
        "FRAC",
        "Fraction of the device used by the expert exchange. (default: 20 of 132, DeepSeek-V3)",
        panel=_RECIPE,
    ),
    "dispatch_bytes": text(
        "--dispatch-bytes",
        "B",
        "Bytes per element sent to experts; 1.03125 in fp8. (default: as activations)",
        panel=_RECIPE,
    ),
    "cached_bytes": text(
        "--cached-bytes",
        "B",
        "Bytes per element that linear layers keep for the backward pass. (default: as activations)",
        panel=_RECIPE,
    ),
    "cached_attention_bytes": text(
        "--cached-attention-bytes",
        "B",
        "Bytes per element kept of the attention output. (default: as activations)",
        panel=_RECIPE,
    ),
    "recompute_modules": text(
        "--recompute-modules",
        "W",
        "Modules that --recompute selective runs again: core_attn, layernorm, mla_up_proj, moe_act. "
        "(default: core_attn)",
        panel=_RECIPE,
    ),
}
_LAYOUT = "Layout"
OFFLOAD: Options = {
    "offload": text(
        "--offload",
        "W",
        "State kept in host memory: none, optimizer (and gradients) or parameters (as well, at ZeRO "
        "3). (default: none)",
        panel=_LAYOUT,
    )
}
LAYOUT: Options = {
    "tp": text("--tp", "N", "Tensor-parallel ranks. (default: 1)", panel=_LAYOUT),
    "pp": text("--pp", "N", "Pipeline stages. (default: 1)", panel=_LAYOUT),
    "dp": text("--dp", "N", "Data-parallel replicas. (default: the remaining devices)", panel=_LAYOUT),
    "cp": text("--cp", "N", "Context-parallel ranks. (default: 1)", panel=_LAYOUT),
    "ep": text("--ep", "N", "Expert-parallel ranks, inside dp. (default: 1)", panel=_LAYOUT),
    "vpp": text("--vpp", "N", "Model chunks per pipeline stage. (default: 1)", panel=_LAYOUT),
    "micro_batch": text("--micro-batch", "N", "Sequences per micro-batch. (default: 1)", panel=_LAYOUT),
    "zero": text(
        "--zero",
        "Z",
        "ZeRO stage: 0 replicates all, 1 shards optimizer state, 2 also gradients, 3 also parameters. (default: 0)",
        panel=_LAYOUT,
    ),
    "shard": text("--shard", "N", "HSDP: ranks that share one sharded copy. (default: 0, all)", panel=_LAYOUT),
    "recompute": text(
        "--recompute", "R", "Activation recomputation: none, selective or full. (default: none)", panel=_LAYOUT
    ),
    "sequence_parallel": switch(
        "--sequence-parallel", "Shard norms and residuals over the tensor-parallel ranks.", None, _LAYOUT
    ),
    "schedule": text(
        "--schedule",
        "S",
        "Pipeline schedule: gpipe, 1f1b, interleaved, zb-h1 ... (default: 1f1b, interleaved with --vpp)",
        panel=_LAYOUT,
        names=schedules,
    ),
    **OFFLOAD,
    "order": text("--order", "A", "Order of the rank grid, innermost first. (default: tp-cp-ep-dp-pp)", panel=_LAYOUT),
}
JSON: Options = {
    "as_json": (Annotated[bool, typer.Option("--json", help="Print one JSON object, in SI units.")], False)
}


CSV: Options = {"csv": text("--csv", "FILE", "Write a CSV file with one row for each value of a list or range.")}
CURVE: Options = {"plot": text("--plot", "FILE", "Draw the curve over a list or range: .png, .svg or .pdf.")}
PLOT: Options = {"plot": text("--plot", "FILE", "Also draw a picture: .png, .svg or .pdf.")}
