"""Flags of the verbs about whole runs: how long to train, what fails, what a step meets in service."""

from __future__ import annotations

from lockstep.cli.options import Options, switch, text

_TARGET = "Target: one of --tokens, --loss, --compute-optimal"
TARGET: Options = {
    "tokens": text("--tokens", "T", "Tokens to train on, as 15T (images for a ConvNet).", panel=_TARGET),
    "loss": text("--loss", "L", "Until this loss, in nats per token, by a scaling law.", panel=_TARGET),
    "compute_optimal": switch("--compute-optimal", "On the model's compute-optimal tokens.", False, _TARGET),
    "scaling_law": text("--scaling-law", "LAW", "besiroglu, hoffmann or kaplan. (default: besiroglu)", panel=_TARGET),
    "critical_batch_tokens": text(
        "--critical-batch-tokens", "N", "Beyond it a batch spends more tokens on the same loss.", panel=_TARGET
    ),
}
_BETWEEN = "Lighter checkpoints between the whole ones"
LIGHTER: Options = {
    "local_write": text("--local-write", "T", "One local checkpoint: memory, disk, a peer.", panel=_BETWEEN),
    "local_restart": text(
        "--local-restart", "T", "Restart from it, or from a copy. (default: --restart)", panel=_BETWEEN
    ),
    "local_frac": text("--local-frac", "FRAC", "Share of the failures it serves.", panel=_BETWEEN),
    "delta_write": text("--delta-write", "T", "One incremental checkpoint.", panel=_BETWEEN),
    "copies": text("--copies", "N", "Copies in the memory of N nodes.", panel=_BETWEEN),
    "copy_bandwidth": text("--copy-bandwidth", "R", "Of one node. (default: the cluster's network)", panel=_BETWEEN),
    "every": text("--every", "K", "One whole in K checkpoints. (default: the best)", panel=_BETWEEN),
}
_FAILURES = "Failures and checkpoints (default: what is known of the cluster)"
FAILURES: Options = {
    "mtbf": text("--mtbf", "T", "Mean time between failures of the job.", panel=_FAILURES),
    "device_mtbf": text("--device-mtbf", "T", "Of one device; times of parts add up to the job's.", panel=_FAILURES),
    "node_mtbf": text("--node-mtbf", "T", "Of one node.", panel=_FAILURES),
    "switch_mtbf": text("--switch-mtbf", "T", "Of one switch, each for 32 nodes.", panel=_FAILURES),
    "rack_mtbf": text("--rack-mtbf", "T", "Of one rack, which takes its 4 nodes with it.", panel=_FAILURES),
    "power_mtbf": text("--power-mtbf", "T", "Of the power of the whole job.", panel=_FAILURES),
    "software_mtbf": text("--software-mtbf", "T", "Of the software, which loses no node.", panel=_FAILURES),
    "law": text("--law", "LAW", "weibull:mean=3h,shape=0.7, trace:gaps.csv, for the simulation.", panel=_FAILURES),
    "detection": text("--detection", "T", "Until a failure is noticed. (default: 10 min)", panel=_FAILURES),
    "restart": text("--restart", "T", "Until work goes on. (default: 5 min and reading back)", panel=_FAILURES),
    "silent_mtbf": text("--silent-mtbf", "T", "Mean time between silent corruptions of the job.", panel=_FAILURES),
    "silent_delay": text("--silent-delay", "T", "Until a corruption is noticed.", panel=_FAILURES),
    "repair": text(
        "--repair", "T", "Mean time until a lost node is back. (default: replaced at once)", panel=_FAILURES
    ),
    "spares": text("--spares", "N", "Nodes that stand by, with --repair. (default: 0)", panel=_FAILURES),
    "fewest_nodes": text("--fewest-nodes", "N", "Go on with so many instead of waiting.", panel=_FAILURES),
    "grow": text("--grow", "W", "Take nodes back at a failure (default), checkpoint, at-once.", panel=_FAILURES),
    "replaced": text("--replaced", "FRAC", "Share of the failures that lose a node. (default: 1)", panel=_FAILURES),
    "write": text(
        "--write", "T", "One checkpoint, or run:last. (default: its size at the storage's rate)", panel=_FAILURES
    ),
    "ranks": text("--ranks", "N", "Ranks that write at once. (default: all)", panel=_FAILURES),
    "rank_bandwidth": text("--rank-bandwidth", "R", "Of one of them.", panel=_FAILURES),
    "storage_bandwidth": text("--storage-bandwidth", "R", "Of the storage, for all devices.", panel=_FAILURES),
    "async_frac": text("--async", "FRAC", "Share of a write hidden behind work. (default: 0)", panel=_FAILURES),
    "interval": text("--interval", "T", "Work between checkpoints. (default: the best)", panel=_FAILURES),
}
_SERVICE = "The step in service"
SERVICE: Options = {
    "straggler_cv": text("--straggler-cv", "FRAC", "Spread of devices' compute times, as 2%.", panel=_SERVICE),
    "eval_every": text("--eval-every", "N", "Steps between evaluations.", panel=_SERVICE),
    "eval_tokens": text("--eval-tokens", "N", "Tokens of one evaluation.", panel=_SERVICE),
    "data_bandwidth": text("--data-bandwidth", "R", "At which all devices read training data.", panel=_SERVICE),
    "sample_size": text("--sample-size", "S", "Read per token, or per image. (default: 4 B)", panel=_SERVICE),
}
