"""Tensor parallelism: layers cut over ranks as programs, run on numpy and priced; vocabulary-parallel loss."""

from lockstep.parallel.tensor.answer import Policy as Policy
from lockstep.parallel.tensor.answer import Row as Row
from lockstep.parallel.tensor.answer import TensorLayer as TensorLayer
from lockstep.parallel.tensor.answer import tensor_layer as tensor_layer
from lockstep.parallel.tensor.attention import attention as attention
from lockstep.parallel.tensor.block import block as block
from lockstep.parallel.tensor.block import residual as residual
from lockstep.parallel.tensor.layer import Layer as Layer
from lockstep.parallel.tensor.linear import column as column
from lockstep.parallel.tensor.linear import row as row
from lockstep.parallel.tensor.mlp import mlp as mlp
from lockstep.parallel.tensor.proof import Proof as Proof
from lockstep.parallel.tensor.proof import prove as prove
from lockstep.parallel.tensor.run import run as run
from lockstep.parallel.tensor.shape import Shape as Shape
from lockstep.parallel.tensor.vocabulary import vocabulary_loss as vocabulary_loss
