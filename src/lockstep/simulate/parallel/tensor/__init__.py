"""Tensor parallelism: layers cut over ranks as programs, run on numpy and priced; vocabulary-parallel loss."""

from lockstep.simulate.parallel.tensor.attention import attention as attention
from lockstep.simulate.parallel.tensor.block import block as block
from lockstep.simulate.parallel.tensor.block import residual as residual
from lockstep.simulate.parallel.tensor.layer import Layer as Layer
from lockstep.simulate.parallel.tensor.linear import column as column
from lockstep.simulate.parallel.tensor.linear import row as row
from lockstep.simulate.parallel.tensor.mlp import mlp as mlp
from lockstep.simulate.parallel.tensor.proof import Proof as Proof
from lockstep.simulate.parallel.tensor.proof import prove as prove
from lockstep.simulate.parallel.tensor.run import run as run
from lockstep.simulate.parallel.tensor.shape import Shape as Shape
from lockstep.simulate.parallel.tensor.vocabulary import vocabulary_loss as vocabulary_loss
