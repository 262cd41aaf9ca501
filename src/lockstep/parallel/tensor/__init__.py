"""Tensor parallelism: layers cut over ranks as programs, run on numpy and priced; vocabulary-parallel loss."""

from lockstep.parallel.tensor.answer import LayerPass, Policy, Row, TensorLayer, tensor_layer
from lockstep.parallel.tensor.attention import attention
from lockstep.parallel.tensor.block import block, residual
from lockstep.parallel.tensor.layer import Exchange, Layer, Local, Split, program_of
from lockstep.parallel.tensor.linear import column, row
from lockstep.parallel.tensor.mlp import mlp
from lockstep.parallel.tensor.proof import Proof, prove
from lockstep.parallel.tensor.run import run
from lockstep.parallel.tensor.shape import Shape
from lockstep.parallel.tensor.vocabulary import vocabulary_loss

__all__ = [
    "Exchange",
    "Layer",
    "LayerPass",
    "Local",
    "Policy",
    "Proof",
    "Row",
    "Shape",
    "Split",
    "TensorLayer",
    "attention",
    "block",
    "column",
    "mlp",
    "program_of",
    "prove",
    "residual",
    "row",
    "run",
    "tensor_layer",
    "vocabulary_loss",
]
