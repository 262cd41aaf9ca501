"""Flags of the verbs about whole runs: how long to train, what fails, what a step meets in service."""

from __future__ import annotations

from lockstep.verbs.words.shared import FailureWords, ServiceWords, WriteWords
from lockstep.views.parts.options import Options, flags, switch, text

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
_FAILURES = "Failures and checkpoints (default: known values of the cluster)"
FAILURES = {**flags(FailureWords, _FAILURES, without=("replica_nodes",)), **flags(WriteWords, _FAILURES)}
SERVICE = flags(ServiceWords, "Step time in production")
