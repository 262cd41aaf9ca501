"""Options that several verbs take, each declared once: its type, how a command line writes it, and what it means.

A keyword of Python is a flag of the command line, `micro_batch` is `--micro-batch`. What is left out keeps the default
of the library, which the help states.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TypedDict

from lockstep.verbs.words.quantity import Bandwidth, Quantity, Size, Time

if TYPE_CHECKING:
    from pathlib import Path

    from lockstep.hardware import Cluster


@dataclass(frozen=True, slots=True)
class Option:
    """An option that takes a value."""

    metavar: str
    help: str
    flag: str = ""
    """Where it is not the keyword with hyphens."""


@dataclass(frozen=True, slots=True)
class Switch:
    """An option that is on or off."""

    help: str
    default: bool | None
    """None where only one of the two can be said."""


class RecipeWords(TypedDict, total=False):
    """How a model is trained, whatever the layout."""

    dtype: Annotated[str | None, Option("T", "Number format of matrix products: bf16, fp16 or fp8. (default: bf16)")]
    optimizer: Annotated[
        str | None, Option("O", "Optimizer: adamw, adamw-8bit, adafactor, sgd, lion, muon ... (default: adamw)")
    ]
    parameter_bytes: Annotated[Size | None, Option("B", "Bytes per working parameter. (default: 2)")]
    gradient_bytes: Annotated[
        Size | None, Option("B", "Bytes per accumulated gradient: 4 (Megatron) or 2. (default: 4)")
    ]
    reduce_bytes: Annotated[Size | None, Option("B", "Bytes per gradient on the wire. (default: --gradient-bytes)")]
    flash: Annotated[bool | None, Switch("Use fused attention (scores are not stored).", True)]
    dropout: Annotated[
        bool | None, Switch("Store dropout masks of attention and residuals (typical before 2022).", False)
    ]
    fused_elementwise: Annotated[bool | None, Switch("Run neighbouring elementwise operations as one kernel.", True)]
    fused_accumulation: Annotated[
        bool | None, Switch("Accumulate weight gradients inside the products that compute them.", True)
    ]
    overlap: Annotated[bool | None, Switch("Overlap data-parallel traffic with compute.", True)]
    overlap_tp: Annotated[
        str | None,
        Option(
            "W",
            "Tensor-parallel traffic overlapped with products: none, gradients (Megatron) or all (userbuffers). "
            "(default: gradients)",
        ),
    ]
    overlap_pp: Annotated[bool | None, Switch("Overlap pipeline sends with compute.", False)]
    overlap_ep: Annotated[
        str | None,
        Option(
            "W",
            "Expert exchange overlapped with compute: none, cells (of dualpipe) or shared (experts). (default: cells)",
        ),
    ]
    overlap_device: Annotated[
        Quantity | None,
        Option("FRAC", "Fraction of the device used by the expert exchange. (default: 20 of 132, DeepSeek-V3)"),
    ]
    dispatch_bytes: Annotated[
        Size | None, Option("B", "Bytes per element sent to experts; 1.03125 in fp8. (default: as activations)")
    ]
    cached_bytes: Annotated[
        Size | None,
        Option("B", "Bytes per element that linear layers keep for the backward pass. (default: as activations)"),
    ]
    cached_attention_bytes: Annotated[
        Size | None, Option("B", "Bytes per element kept of the attention output. (default: as activations)")
    ]
    recompute_modules: Annotated[
        str | None,
        Option(
            "W",
            "Modules that --recompute selective runs again: core_attn, layernorm, mla_up_proj, moe_act. "
            "(default: core_attn)",
        ),
    ]


class QuestionWords(RecipeWords, total=False):
    """What every verb about a training run is asked."""

    gpus: Annotated[Quantity | None, Option("N", "Number of devices, instead of the number of nodes in --cluster.")]
    batch: Annotated[Quantity | None, Option("N", "Sequences per optimizer step.")]
    batch_tokens: Annotated[Quantity | None, Option("N", "Tokens per optimizer step, e.g. 4M; instead of --batch.")]
    seq: Annotated[Quantity | None, Option("S", "Tokens per sequence. (default: the model's longest, at most 8192)")]


class LayoutWords(QuestionWords, total=False):
    """What every verb about one layout is asked: the fields of `Layout`."""

    tp: Annotated[Quantity | None, Option("N", "Tensor-parallel ranks. (default: 1)")]
    pp: Annotated[Quantity | None, Option("N", "Pipeline stages. (default: 1)")]
    dp: Annotated[Quantity | None, Option("N", "Data-parallel replicas. (default: the remaining devices)")]
    cp: Annotated[Quantity | None, Option("N", "Context-parallel ranks. (default: 1)")]
    ep: Annotated[Quantity | None, Option("N", "Expert-parallel ranks, inside dp. (default: 1)")]
    vpp: Annotated[Quantity | None, Option("N", "Model chunks per pipeline stage. (default: 1)")]
    micro_batch: Annotated[Quantity | None, Option("N", "Sequences per micro-batch. (default: 1)")]
    zero: Annotated[
        Quantity | None,
        Option(
            "Z",
            "ZeRO stage: 0 replicates all, 1 shards optimizer state, 2 also gradients, 3 also parameters. (default: 0)",
        ),
    ]
    shard: Annotated[Quantity | None, Option("N", "HSDP: ranks that share one sharded copy. (default: 0, all)")]
    recompute: Annotated[str | None, Option("R", "Activation recomputation: none, selective or full. (default: none)")]
    sequence_parallel: Annotated[bool | None, Switch("Shard norms and residuals over the tensor-parallel ranks.", None)]
    schedule: Annotated[
        str | None,
        Option("S", "Pipeline schedule: gpipe, 1f1b, interleaved, zb-h1 ... (default: 1f1b, interleaved with --vpp)"),
    ]
    offload: Annotated[
        str | None,
        Option(
            "W",
            "State kept in host memory: none, optimizer (and gradients) or parameters (as well, at ZeRO 3). "
            "(default: none)",
        ),
    ]
    order: Annotated[str | None, Option("A", "Order of the rank grid, innermost first. (default: tp-cp-ep-dp-pp)")]


LAYOUT_WORDS = tuple(sorted(set(LayoutWords.__annotations__) - set(QuestionWords.__annotations__)))


class LinkWords(TypedDict, total=False):
    """The network that connects the ranks: latency and bandwidth, or a cluster."""

    latency: Annotated[Time | None, Option("T", "Latency per message, e.g. 5us.")]
    bandwidth: Annotated[Bandwidth | None, Option("R", "Bandwidth in each direction, e.g. 25GB/s or 400Gbit/s.")]
    cluster: Annotated[
        str | Path | Cluster | None,
        Option("C", "Cluster: catalog name with nodes, e.g. dgx-h100:4, or a YAML file.", "-c"),
    ]


class FailureWords(TypedDict, total=False):
    """Failures, corruption, and what replaces lost nodes."""

    mtbf: Annotated[Time | None, Option("T", "Mean time between failures of the job.")]
    device_mtbf: Annotated[
        Time | None, Option("T", "Mean time between failures of one device; the rates of all parts add up.")
    ]
    node_mtbf: Annotated[Time | None, Option("T", "Mean time between failures of one node.")]
    switch_mtbf: Annotated[Time | None, Option("T", "Mean time between failures of one switch, each serving 32 nodes.")]
    rack_mtbf: Annotated[
        Time | None, Option("T", "Mean time between failures of one rack, each taking down its 4 nodes.")
    ]
    power_mtbf: Annotated[Time | None, Option("T", "Mean time between power failures of the whole job.")]
    software_mtbf: Annotated[Time | None, Option("T", "Mean time between software failures, which do not lose a node.")]
    law: Annotated[
        str | None,
        Option(
            "LAW",
            "Law of the times between failures: exponential:mean=3h, weibull:mean=3h,shape=0.7 or trace:gaps.csv.",
        ),
    ]
    silent_mtbf: Annotated[Time | None, Option("T", "Mean time between silent corruptions of the job.")]
    silent_delay: Annotated[Time | None, Option("T", "Time until a silent corruption is noticed.")]
    repair: Annotated[Time | None, Option("T", "Mean time until a lost node is back. (default: replaced immediately)")]
    spares: Annotated[Quantity | None, Option("N", "Spare nodes on standby; needs --repair. (default: 0)")]
    fewest_nodes: Annotated[
        Quantity | None, Option("N", "Continue on at least this many nodes instead of waiting for repairs.")
    ]
    grow: Annotated[
        str | None,
        Option("W", "When to take repaired nodes back: failure, checkpoint or at-once. (default: failure)"),
    ]
    replica_nodes: Annotated[Quantity | None, Option("N", "Nodes of one replica, which leave together. (default: 1)")]
    replaced: Annotated[Quantity | None, Option("FRAC", "Share of failures that lose a node. (default: 1)")]


class LighterWords(TypedDict, total=False):
    """Lighter checkpoints between full ones."""

    local_write: Annotated[Time | None, Option("T", "Time to write one local checkpoint: to memory, a disk or a peer.")]
    local_restart: Annotated[
        Time | None, Option("T", "Restart time from a local checkpoint or a copy. (default: --restart)")
    ]
    local_frac: Annotated[Quantity | None, Option("FRAC", "Share of failures that a local checkpoint serves.")]
    delta_write: Annotated[Time | None, Option("T", "Time to write one incremental checkpoint.")]
    copies: Annotated[Quantity | None, Option("N", "Number of nodes whose memory holds a copy of the state.")]
    copy_bandwidth: Annotated[
        Bandwidth | None, Option("R", "Bandwidth per node for copies. (default: the cluster's network)")
    ]
    every: Annotated[Quantity | None, Option("K", "Write a full checkpoint every K checkpoints. (default: the best)")]


class WriteWords(TypedDict, total=False):
    """Noticing a failure, restarting, and writing checkpoints."""

    detection: Annotated[Time | None, Option("T", "Time until a failure is noticed. (default: 10 min)")]
    restart: Annotated[
        Time | None,
        Option("T", "Restart time, excluding detection. (default: 5 min plus reading the checkpoint)"),
    ]
    write: Annotated[
        Time | None,
        Option("T", "Time to write one checkpoint, or run:last. (default: its size at the storage's rate)"),
    ]
    ranks: Annotated[Quantity | None, Option("N", "Ranks that write simultaneously. (default: all)")]
    rank_bandwidth: Annotated[Bandwidth | None, Option("R", "Write bandwidth per rank.")]
    storage_bandwidth: Annotated[Bandwidth | None, Option("R", "Bandwidth of the storage, shared by all devices.")]
    async_frac: Annotated[
        Quantity | None, Option("FRAC", "Share of a checkpoint write hidden behind work. (default: 0)", "--async")
    ]
    interval: Annotated[Time | None, Option("T", "Work between checkpoints. (default: the best)")]


class ServiceWords(TypedDict, total=False):
    """What slows a step in production."""

    straggler_cv: Annotated[Quantity | None, Option("FRAC", "Spread of the devices' compute times, e.g. 2%.")]
    eval_every: Annotated[Quantity | None, Option("N", "Steps between evaluations.")]
    eval_tokens: Annotated[Quantity | None, Option("N", "Tokens of one evaluation.")]
    data_bandwidth: Annotated[
        Bandwidth | None, Option("R", "Bandwidth at which all devices together read training data.")
    ]
    sample_size: Annotated[Size | None, Option("S", "Bytes read per token, or per image. (default: 4 B)")]


class OperationWords(FailureWords, WriteWords, LighterWords, ServiceWords, total=False):
    """Failures, checkpoints and what slows a step in production."""


OPERATION_WORDS = tuple(sorted(OperationWords.__annotations__))
