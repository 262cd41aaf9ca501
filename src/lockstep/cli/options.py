"""Arguments and flags that several verbs share, in the field's words, and what turns them into library objects.

Quantities stay text here and are parsed once, with the flag's name as the place of an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from lockstep.hardware import Cluster
    from lockstep.layout import Layout, Recipe
    from lockstep.workload import Model

LAYOUT = "Layout"
RECIPE = "Recipe"

ModelArgument = Annotated[
    str, typer.Argument(metavar="MODEL", help="Catalog name, or a path to a Hugging Face config.json or a YAML file.")
]
ClusterOption = Annotated[
    str, typer.Option("--cluster", "-c", metavar="C", help="Catalog name with nodes, as dgx-h100:64, or a YAML file.")
]
GpusOption = Annotated[str | None, typer.Option("--gpus", metavar="N", help="Number of devices, instead of nodes.")]
BatchOption = Annotated[str | None, typer.Option("--batch", metavar="N", help="Sequences per optimizer step.")]
BatchTokensOption = Annotated[
    str | None,
    typer.Option("--batch-tokens", metavar="N", help="Tokens per optimizer step, as 4M; instead of --batch."),
]
SeqOption = Annotated[
    str | None, typer.Option("--seq", metavar="S", help="Tokens per sequence.  [default: the model's own]")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON object, SI units.")]

DtypeOption = Annotated[
    str | None,
    typer.Option("--dtype", help="Format of the matrix products: bf16, fp16, fp8.", rich_help_panel=RECIPE),
]
OptimizerOption = Annotated[
    str,
    typer.Option("--optimizer", help="adamw, adamw-8bit, adafactor, sgd, lion, muon, ...", rich_help_panel=RECIPE),
]
GradientOption = Annotated[
    str,
    typer.Option("--gradient-bytes", help="Bytes per accumulated gradient: 4 (Megatron) or 2.", rich_help_panel=RECIPE),
]
FlashOption = Annotated[
    bool, typer.Option("--flash/--no-flash", help="Fused attention that keeps no scores.", rich_help_panel=RECIPE)
]
OverlapOption = Annotated[
    bool,
    typer.Option("--overlap/--no-overlap", help="Data-parallel traffic beside compute.", rich_help_panel=RECIPE),
]


def _degree(flag: str, text: str) -> Any:
    return typer.Option(flag, metavar="N", help=text, rich_help_panel=LAYOUT)


TpOption = Annotated[str, _degree("--tp", "Tensor-parallel ranks.")]
PpOption = Annotated[str, _degree("--pp", "Pipeline stages.")]
DpOption = Annotated[str | None, _degree("--dp", "Data-parallel replicas.  [default: what is left]")]
CpOption = Annotated[str, _degree("--cp", "Context-parallel ranks.")]
EpOption = Annotated[str, _degree("--ep", "Expert-parallel ranks, inside dp.")]
VppOption = Annotated[str, _degree("--vpp", "Model chunks per pipeline stage.")]
MicroBatchOption = Annotated[str, _degree("--micro-batch", "Sequences per micro-batch.")]
ZeroOption = Annotated[
    str, _degree("--zero", "0 replicate, 1 shard optimizer, 2 gradients too, 3 parameters too (FSDP).")
]
ShardOption = Annotated[str, _degree("--shard", "HSDP: ranks that share one sharded copy; 0 = all.")]
RecomputeOption = Annotated[str, typer.Option("--recompute", help="none, selective or full.", rich_help_panel=LAYOUT)]
SequenceParallelOption = Annotated[
    bool, typer.Option("--sequence-parallel", help="Shard norms and residual over tp.", rich_help_panel=LAYOUT)
]
ScheduleOption = Annotated[
    str | None,
    typer.Option("--schedule", help="gpipe, 1f1b, interleaved, zb-h1, ...  [default: 1f1b, or interleaved with --vpp]",
                 rich_help_panel=LAYOUT),
]  # fmt: skip
OffloadOption = Annotated[
    str, typer.Option("--offload", help="none, optimizer or parameters (to host memory).", rich_help_panel=LAYOUT)
]
OrderOption = Annotated[
    str, typer.Option("--order", help="Axes of the rank grid, innermost first.", rich_help_panel=LAYOUT)
]


def read_cluster(cluster: str, gpus: str | None) -> Cluster:
    """The cluster behind `--cluster` and `--gpus`."""
    from lockstep.hardware import cluster as lookup
    from lockstep.units import parse_integer

    return lookup(cluster, gpus=None if gpus is None else parse_integer(gpus, "--gpus"))


def read_recipe(
    model: Model,
    *,
    batch: str | None,
    batch_tokens: str | None,
    seq: str | None,
    cluster: Cluster,
    dtype: str | None = None,
    optimizer: str = "adamw",
    gradient_bytes: str = "4",
    flash: bool = True,
    overlap: bool = True,
) -> Recipe:
    """The recipe behind the flags; exactly one of `--batch` and `--batch-tokens` must be given."""
    from lockstep.errors import BadInput
    from lockstep.layout import Recipe
    from lockstep.units import parse_count, parse_integer

    tokens = _default_seq(model) if seq is None else parse_integer(seq, "--seq")
    if (batch is None) == (batch_tokens is None):
        raise BadInput("give either --batch (sequences) or --batch-tokens (as 4M)", "--batch")
    if batch is not None:
        sequences = parse_integer(batch, "--batch")
    else:
        sequences = round(parse_integer(batch_tokens, "--batch-tokens") / tokens)
        if sequences < 1:
            raise BadInput(f"{batch_tokens} tokens are less than one sequence of {tokens}", "--batch-tokens")
    return Recipe(
        seq=tokens,
        batch=sequences,
        dtype=dtype or default_dtype(cluster),
        optimizer=optimizer,
        gradient_B=parse_count(gradient_bytes, "--gradient-bytes"),
        flash_attention=flash,
        overlap_dp=overlap,
    )


def default_dtype(cluster: Cluster) -> str:
    """bf16 where the device has it, else fp16 (V100)."""
    return "bf16" if "bf16" in cluster.device.peak_flops else "fp16"


def _default_seq(model: Model) -> int:
    """The longest sequence that the model was made for; an image counts as one sequence of one token."""
    return getattr(model, "max_positions", 1)


def read_layout(
    devices: int,
    *,
    tp: str,
    pp: str,
    dp: str | None,
    cp: str,
    ep: str,
    vpp: str,
    micro_batch: str,
    zero: str,
    shard: str,
    recompute: str,
    sequence_parallel: bool,
    schedule: str | None,
    offload: str,
    order: str,
) -> Layout:
    """The layout behind the flags; `dp` and `schedule` have defaults that follow from the others."""
    from lockstep.layout import Layout
    from lockstep.units import parse_integer

    degrees = {
        name: parse_integer(text, f"--{name.replace('_', '-')}")
        for name, text in {"tp": tp, "pp": pp, "cp": cp, "ep": ep, "vpp": vpp, "micro_batch": micro_batch}.items()
    }
    left = max(1, devices // (degrees["tp"] * degrees["pp"] * degrees["cp"]))
    return Layout(
        dp=left if dp is None else parse_integer(dp, "--dp"),
        zero=parse_integer(zero, "--zero", minimum=0),
        shard=parse_integer(shard, "--shard", minimum=0),
        recompute=recompute,
        sequence_parallel=sequence_parallel,
        schedule=schedule or ("interleaved" if degrees["vpp"] > 1 else "1f1b"),
        offload=offload,
        order=tuple(order.split("-")),
        **degrees,
    )
