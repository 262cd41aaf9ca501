"""Tensor parallelism as programs: column and row layers, feed-forward, attention by heads, vocabulary-parallel loss."""

from lockstep.parallel.tensor.attention import attention
from lockstep.parallel.tensor.block import block, communication, layer_flops_per_rank, residual, sent_elems_per_rank
from lockstep.parallel.tensor.layer import Exchange, Layer, Local, Split, program_of
from lockstep.parallel.tensor.linear import column, row
from lockstep.parallel.tensor.mlp import mlp
from lockstep.parallel.tensor.run import run
from lockstep.parallel.tensor.vocabulary import vocabulary_loss

__all__ = [
    "Exchange",
    "Layer",
    "Local",
    "Split",
    "attention",
    "block",
    "column",
    "communication",
    "layer_flops_per_rank",
    "mlp",
    "program_of",
    "residual",
    "row",
    "run",
    "sent_elems_per_rank",
    "vocabulary_loss",
]
