"""Flags of the verbs about whole runs: how long to train, what fails, what a step meets in service."""

from __future__ import annotations

from lockstep.views.parts.options import Options, switch, text

_TARGET = "Target: one of --tokens, --loss, --compute-optimal"
TARGET: Options = {
    "tokens": text("--tokens", "T", "Tokens to train on, e.g. 15T (images for a ConvNet).", panel=_TARGET),
    "loss": text("--loss", "L", "Train until this loss, in nats per token, predicted by a scaling law.", panel=_TARGET),
    "compute_optimal": switch(
        "--compute-optimal", "Train on the model's compute-optimal number of tokens.", False, _TARGET
    ),
    "scaling_law": text(
        "--scaling-law", "LAW", "Scaling law: besiroglu, hoffmann or kaplan. (default: besiroglu)", panel=_TARGET
    ),
    "critical_batch_tokens": text(
        "--critical-batch-tokens",
        "N",
        "Critical batch size; larger batches need more tokens for the same loss.",
        panel=_TARGET,
    ),
}
_BETWEEN = "Lighter checkpoints between full ones"
LIGHTER: Options = {
    "local_write": text(
        "--local-write", "T", "Time to write one local checkpoint: to memory, a disk or a peer.", panel=_BETWEEN
    ),
    "local_restart": text(
        "--local-restart", "T", "Restart time from a local checkpoint or a copy. (default: --restart)", panel=_BETWEEN
    ),
    "local_frac": text("--local-frac", "FRAC", "Share of failures that a local checkpoint serves.", panel=_BETWEEN),
    "delta_write": text("--delta-write", "T", "Time to write one incremental checkpoint.", panel=_BETWEEN),
    "copies": text("--copies", "N", "Number of nodes whose memory holds a copy of the state.", panel=_BETWEEN),
    "copy_bandwidth": text(
        "--copy-bandwidth", "R", "Bandwidth per node for copies. (default: the cluster's network)", panel=_BETWEEN
    ),
    "every": text("--every", "K", "Write a full checkpoint every K checkpoints. (default: the best)", panel=_BETWEEN),
}
_FAILURES = "Failures and checkpoints (default: known values of the cluster)"
FAILURES: Options = {
    "mtbf": text("--mtbf", "T", "Mean time between failures of the job.", panel=_FAILURES),
    "device_mtbf": text(
        "--device-mtbf",
        "T",
        "Mean time between failures of one device; the rates of all parts add up.",
        panel=_FAILURES,
    ),
    "node_mtbf": text("--node-mtbf", "T", "Mean time between failures of one node.", panel=_FAILURES),
    "switch_mtbf": text(
        "--switch-mtbf", "T", "Mean time between failures of one switch, each serving 32 nodes.", panel=_FAILURES
    ),
    "rack_mtbf": text(
        "--rack-mtbf", "T", "Mean time between failures of one rack, each taking down its 4 nodes.", panel=_FAILURES
    ),
    "power_mtbf": text("--power-mtbf", "T", "Mean time between power failures of the whole job.", panel=_FAILURES),
    "software_mtbf": text(
        "--software-mtbf", "T", "Mean time between software failures, which do not lose a node.", panel=_FAILURES
    ),
    "law": text(
        "--law",
        "LAW",
        "Law of the times between failures, for the simulation: weibull:mean=3h,shape=0.7, trace:gaps.csv ...",
        panel=_FAILURES,
    ),
    "detection": text("--detection", "T", "Time until a failure is noticed. (default: 10 min)", panel=_FAILURES),
    "restart": text(
        "--restart",
        "T",
        "Restart time, excluding detection. (default: 5 min plus reading the checkpoint)",
        panel=_FAILURES,
    ),
    "silent_mtbf": text("--silent-mtbf", "T", "Mean time between silent corruptions of the job.", panel=_FAILURES),
    "silent_delay": text("--silent-delay", "T", "Time until a silent corruption is noticed.", panel=_FAILURES),
    "repair": text(
        "--repair", "T", "Mean time until a lost node is back. (default: replaced immediately)", panel=_FAILURES
    ),
    "spares": text("--spares", "N", "Spare nodes on standby; needs --repair. (default: 0)", panel=_FAILURES),
    "fewest_nodes": text(
        "--fewest-nodes", "N", "Continue on at least this many nodes instead of waiting for repairs.", panel=_FAILURES
    ),
    "grow": text(
        "--grow", "W", "When to take repaired nodes back: failure (default), checkpoint or at-once.", panel=_FAILURES
    ),
    "replaced": text("--replaced", "FRAC", "Share of failures that lose a node. (default: 1)", panel=_FAILURES),
    "write": text(
        "--write",
        "T",
        "Time to write one checkpoint, or run:last. (default: its size at the storage's rate)",
        panel=_FAILURES,
    ),
    "ranks": text("--ranks", "N", "Ranks that write simultaneously. (default: all)", panel=_FAILURES),
    "rank_bandwidth": text("--rank-bandwidth", "R", "Write bandwidth per rank.", panel=_FAILURES),
    "storage_bandwidth": text(
        "--storage-bandwidth", "R", "Bandwidth of the storage, shared by all devices.", panel=_FAILURES
    ),
    "async_frac": text(
        "--async", "FRAC", "Share of a checkpoint write hidden behind work. (default: 0)", panel=_FAILURES
    ),
    "interval": text("--interval", "T", "Work between checkpoints. (default: the best)", panel=_FAILURES),
}
_SERVICE = "Step time in production"
SERVICE: Options = {
    "straggler_cv": text("--straggler-cv", "FRAC", "Spread of the devices' compute times, e.g. 2%.", panel=_SERVICE),
    "eval_every": text("--eval-every", "N", "Steps between evaluations.", panel=_SERVICE),
    "eval_tokens": text("--eval-tokens", "N", "Tokens of one evaluation.", panel=_SERVICE),
    "data_bandwidth": text(
        "--data-bandwidth", "R", "Bandwidth at which all devices together read training data.", panel=_SERVICE
    ),
    "sample_size": text("--sample-size", "S", "Bytes read per token, or per image. (default: 4 B)", panel=_SERVICE),
}
