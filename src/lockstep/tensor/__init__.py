"""Tensor parallelism as programs: column and row layers, feed-forward, attention by heads, vocabulary-parallel loss."""

from lockstep.tensor.attention import attention
from lockstep.tensor.block import block, communication, layer_flops_per_rank, residual, sent_elems_per_rank
from lockstep.tensor.layer import Exchange, Layer, Local, Split, program_of
from lockstep.tensor.linear import column, row
from lockstep.tensor.mlp import mlp
from lockstep.tensor.run import run
from lockstep.tensor.vocabulary import vocabulary_loss

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
