"""Options that several verbs take, each declared once: its type, how a command line writes it, and what it means.

One that is used in several signatures is a constant; what belongs together is a class, taken by `Unpack`.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, TypedDict

from lockstep.show.verbs.words.named import Cluster
from lockstep.show.verbs.words.option import Argument, Option, Switch
from lockstep.show.verbs.words.quantity import Bandwidth, Length, Names, Quantities, Quantity, Size, Time
from lockstep.show.verbs.words.recipe import RecipeWords

MODEL = Argument(
    "MODEL",
    "Catalog name, or a path: to a Hugging Face config.json, a YAML file of a model or a plan (plan -o), or a script, "
    "configuration or log of other training software. One without a model follows a model: llama3-8b@ds.json.",
    "models",
)
CLUSTER = Option(
    "C",
    "Catalog cluster with nodes, e.g. dgx-h100:64; one machine, e.g. rtx-4090:4; or a YAML file. Several, separated by "
    "commas, or all (one of every device; all:4), give a row each.",
    "-c",
    names="clusters",
)  # fmt: skip
SAMPLES = Option(
    "N",
    "Samples of a data set instead of --tokens, e.g. 50k; a pair of answers, or a prompt with all its answers, is one. "
    "Each fills a sequence, unless --lengths or --sample-tokens say otherwise.",
)
EPOCHS = Option("E", "Passes over the samples.", default="1")
LENGTHS = Option(
    "FILE",
    "Tokens of each sample: a file, data.jsonl:FIELD, data.csv:COLUMN or data.txt with a number a line; or a law, with "
    "--samples, e.g. lognormal:mean=400,cv=0.8. Padding and packing are counted.",
)
PACKING = Option(
    "P",
    "How samples with --lengths become rows: none, padded to the longest of their micro-batch; max-length, padded to "
    "--seq; free, no padding; or packed by bfd (best fit, what is beyond --seq is cut), bfd-split or wrapped.",
    default="none",
)
OP = Argument(
    "OP", "Collective: all-reduce, all-gather, reduce-scatter, all-to-all, broadcast, reduce, scatter or gather.", "ops"
)
RANKS = Option("N", "Number of ranks in the group.")
SIZE = Option("S", "Message size as nccl-tests counts it, e.g. 100MB.")
PROCESSES = Option("N", "Processes to start.", default="those that torchrun or srun started, else 2")
SEED = Option("N", "Random seed.", default="0")
ENGINE = Option(
    "E",
    "Where runs are simulated, or a list is answered: serial, processes[:N], dask[:N], dask:ADDRESS or "
    "dask:scheduler-file:PATH.",
    default="serial",
)
STORE = Option(
    "FILE", "Keep simulated runs, or the answers of a list, in this file as they come; what it has is not computed."
)
RUNS = Option("DIR", "Folder in which to keep the run; see lockstep runs.", "--runs", default="$LOCKSTEP_RUNS")
SETTINGS = Option(
    "KEY=VALUE", "Value of one setting; may be repeated. --json without a name lists all settings.", "--set",
    repeated=True,
)  # fmt: skip


class QuestionWords(RecipeWords, total=False):
    """What every verb about a training run is asked."""

    accept_unknown: Annotated[
        str | None,
        Option(
            "WORD,...",
            "Unknown words of a configuration of other software, given as MODEL, that are left out; * stands for any "
            "letters. Without it, unknown words whose names are like those that change time or memory are refused.",
        ),
    ]
    gpus: Annotated[Quantity | None, Option("N", "Number of devices, instead of the number of nodes in --cluster.")]
    batch: Annotated[Quantity | None, Option("N", "Sequences (or images) per optimizer step.")]
    batch_tokens: Annotated[Quantity | None, Option("N", "Tokens per optimizer step, e.g. 4M; instead of --batch.")]
    seq: Annotated[
        Length | None,
        Option(
            "S",
            "Tokens per sequence, where 8k is 8,192; of an encoder with a decoder, into the former and out of the "
            "latter; not for images.",
            default="the model's longest, at most 8192",
        ),
    ]


class LayoutWords(QuestionWords, total=False):
    """What every verb about layouts is asked: the fields of `Layout`, of which a search takes several values."""

    tp: Annotated[Quantities | None, Option("N", "Tensor-parallel ranks.", default="1")]
    pp: Annotated[Quantities | None, Option("N", "Pipeline stages.", default="1")]
    dp: Annotated[Quantities | None, Option("N", "Data-parallel replicas.", default="the remaining devices")]
    cp: Annotated[Quantities | None, Option("N", "Context-parallel ranks.", default="1")]
    ep: Annotated[Quantities | None, Option("N", "Expert-parallel ranks, among the tp*cp*dp of a stage.", default="1")]
    etp: Annotated[
        Quantities | None, Option("N", "Ranks that split each expert's matrices.", default="as many as --tp")
    ]
    vpp: Annotated[Quantities | None, Option("N", "Model chunks per pipeline stage.", default="1")]
    micro_batch: Annotated[Quantities | None, Option("N", "Sequences per micro-batch.", default="the best that fits")]
    zero: Annotated[
        Quantities | None,
        Option(
            "Z",
            "ZeRO stage: 0 replicates all, 1 shards optimizer state, 2 also gradients, 3 also parameters.",
            default="0",
        ),
    ]
    shard: Annotated[Quantities | None, Option("N", "HSDP: ranks that share one sharded copy.", default="0, all")]
    recompute: Annotated[
        Names | None, Option("R", "Activation recomputation: none, selective or full.", default="none")
    ]
    sequence_parallel: Annotated[bool | None, Switch("Shard norms and residuals over the tensor-parallel ranks.", None)]
    schedule: Annotated[
        Names | None,
        Option(
            "S",
            "Pipeline schedule: gpipe, 1f1b, interleaved, zb-h1 ...",
            names="schedules",
            default="1f1b, interleaved with --vpp",
        ),
    ]
    offload: Annotated[
        Names | None,
        Option(
            "W",
            "State kept in host memory: none, paged (optimizer states that find no room on the device), optimizer "
            "(and gradients) or parameters (as well, at ZeRO 3).",
            kept=True,
            default="none",
        ),
    ]
    order: Annotated[
        str | None, Option("A", "Order of the rank grid, innermost first.", kept=True, default="tp-cp-ep-dp-pp")
    ]
    stages: Annotated[
        str | Sequence[int] | None,
        Option(
            "N,N,...",
            "Layers of each stage, or chunk with --vpp: 15,16,15,15 or 3,29x2,0, or best.",
            default="the even split",
        ),
    ]
    mtp_stage: Annotated[
        Quantity | None,
        Option("K", "Of --stages, the one with the multi-token-prediction modules, from 0.", default="the last"),
    ]


LAYOUT_WORDS = tuple(sorted(set(LayoutWords.__annotations__) - set(QuestionWords.__annotations__)))


class LinkWords(TypedDict, total=False):
    """The network that connects the ranks: latency and bandwidth, or a cluster."""

    latency: Annotated[Time | None, Option("T", "Latency per message, e.g. 5us.")]
    bandwidth: Annotated[Bandwidth | None, Option("R", "Bandwidth in each direction, e.g. 25GB/s or 400Gbit/s.")]
    cluster: Annotated[
        str | Path | Cluster | None,
        Option("C", "Cluster: catalog name with nodes, e.g. dgx-h100:4, or a YAML file.", "-c", names="clusters"),
    ]


_CORRUPTION = "Silent corruption, in addition to failures"
_NODES = "Spare nodes and repairs (default: a replacement is always available)"


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
    silent_mtbf: Annotated[
        Time | None, Option("T", "Mean time between silent corruptions of the job.", panel=_CORRUPTION)
    ]
    silent_delay: Annotated[Time | None, Option("T", "Time until a silent corruption is noticed.", panel=_CORRUPTION)]
    repair: Annotated[
        Time | None, Option("T", "Mean time until a lost node is back.", panel=_NODES, default="replaced immediately")
    ]
    spares: Annotated[
        Quantity | None, Option("N", "Spare nodes on standby; needs --repair.", panel=_NODES, default="0")
    ]
    fewest_nodes: Annotated[
        Quantity | None,
        Option("N", "Continue on at least this many nodes instead of waiting for repairs.", panel=_NODES),
    ]
    grow: Annotated[
        str | None,
        Option(
            "W", "When to take repaired nodes back: failure, checkpoint or at-once.", panel=_NODES, default="failure"
        ),
    ]
    replica_nodes: Annotated[
        Quantity | None, Option("N", "Nodes of one replica, which leave together.", panel=_NODES, default="1")
    ]
    replaced: Annotated[
        Quantity | None, Option("FRAC", "Share of failures that lose a node.", panel=_NODES, default="1")
    ]


class LighterWords(TypedDict, total=False):
    """Lighter checkpoints between full ones."""

    local_write: Annotated[Time | None, Option("T", "Time to write one local checkpoint: to memory, a disk or a peer.")]
    local_restart: Annotated[
        Time | None, Option("T", "Restart time from a local checkpoint or a copy.", default="--restart")
    ]
    local_frac: Annotated[Quantity | None, Option("FRAC", "Share of failures that a local checkpoint serves.")]
    delta_write: Annotated[Time | None, Option("T", "Time to write one incremental checkpoint.")]
    copies: Annotated[Quantity | None, Option("N", "Number of nodes whose memory holds a copy of the state.")]
    copy_bandwidth: Annotated[
        Bandwidth | None, Option("R", "Bandwidth per node for copies.", default="the cluster's network")
    ]
    every: Annotated[Quantity | None, Option("K", "Write a full checkpoint every K checkpoints.", default="the best")]


class WriteWords(TypedDict, total=False):
    """Noticing a failure, restarting, and writing checkpoints."""

    detection: Annotated[Time | None, Option("T", "Time until a failure is noticed.", default="10 min")]
    restart: Annotated[
        Time | None, Option("T", "Restart time, excluding detection.", default="5 min plus reading the checkpoint")
    ]
    write: Annotated[
        Time | None, Option("T", "Time to write one checkpoint, or run:last.", default="its size at the storage's rate")
    ]
    ranks: Annotated[Quantity | None, Option("N", "Ranks that write simultaneously.", default="all")]
    rank_bandwidth: Annotated[Bandwidth | None, Option("R", "Write bandwidth per rank.")]
    storage_bandwidth: Annotated[Bandwidth | None, Option("R", "Bandwidth of the storage, shared by all devices.")]
    async_frac: Annotated[
        Quantity | None, Option("FRAC", "Share of a checkpoint write hidden behind work.", "--async", default="0")
    ]
    interval: Annotated[Time | None, Option("T", "Work between checkpoints.", default="the best")]


class ServiceWords(TypedDict, total=False):
    """What slows a step in production."""

    straggler_cv: Annotated[Quantity | None, Option("FRAC", "Spread of the devices' compute times, e.g. 2%.")]
    eval_every: Annotated[Quantity | None, Option("N", "Steps between evaluations.")]
    eval_tokens: Annotated[Quantity | None, Option("N", "Tokens of one evaluation.")]
    data_bandwidth: Annotated[
        Bandwidth | None, Option("R", "Bandwidth at which all devices together read training data.")
    ]
    sample_size: Annotated[Size | None, Option("S", "Bytes read per token, or per image.", default="4 B")]


class OperationWords(FailureWords, WriteWords, LighterWords, ServiceWords, total=False):
    """Failures, checkpoints and what slows a step in production."""


class TargetWords(TypedDict, total=False):
    """How long to train, in one of three ways."""

    tokens: Annotated[
        Quantity | None, Option("T", "Tokens to train on, e.g. 15T (images for a model that reads images).")
    ]
    samples: Annotated[Quantity | None, SAMPLES]
    epochs: Annotated[Quantity | None, EPOCHS]
    loss: Annotated[
        Quantity | None, Option("L", "Train until this loss, in nats per token, predicted by a scaling law.")
    ]
    compute_optimal: Annotated[bool, Switch("Train on the model's compute-optimal number of tokens.")]
    scaling_law: Annotated[
        str | None, Option("LAW", "Scaling law: besiroglu, hoffmann or kaplan.", default="besiroglu")
    ]
    critical_batch_tokens: Annotated[
        Quantity | None, Option("N", "Critical batch size; larger batches need more tokens for the same loss.")
    ]


PANELS: Mapping[type, str] = {
    TargetWords: "Target: one of --tokens, --loss, --compute-optimal",
    FailureWords: "Failures: MTBF of the job or its parts, or a law (default: the cluster's)",
    WriteWords: "Checkpoints (default: known values of the cluster)",
    LighterWords: "Lighter checkpoints between full ones",
    ServiceWords: "Step time in production",
    LinkWords: "Link: --latency and --bandwidth, or --cluster",
    QuestionWords: "",
    LayoutWords: "Layout: the plan's best; where one is given, others take their defaults",
    RecipeWords: "Recipe",
}
"""Headings of these options in a help text, in the order in which they stand there."""
SEARCHED = "Layout: searched; what is given restricts the search, e.g. --tp 4,8"
"""That of `LayoutWords` where a verb searches for the best."""

FIRST: Mapping[type | None, frozenset[str]] = {
    home: frozenset(names.split())
    for home, names in {
        None: (
            "model cluster tokens objective software out plot as_json trace to measured against case "
            "ranks size algorithm stages microbatches schedule chunks forward_s backward_s simulate "
            "layers backward gradients bucket_size sweep heads batch top_k capacity_factor skew repeats "
            "steps optimizer settings target checkpoint resume nodes mtbf write restart interval work"
        ),
        TargetWords: "tokens loss",
        FailureWords: "mtbf device_mtbf",
        WriteWords: "write restart",
        LinkWords: "latency bandwidth cluster",
        QuestionWords: "batch batch_tokens seq",
        LayoutWords: "tp pp micro_batch zero",
        RecipeWords: "dtype stack",
    }.items()
}
"""What the short help of a verb with many options shows, by class; None: options of one verb, and of all commands."""
