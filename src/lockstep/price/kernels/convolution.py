"""Seconds of a convolutional network's passes: each convolution as the matrix product that it is, and what follows it.

A convolution of c_in to c_out channels with a k x k kernel and an output of side^2 pixels is the product
(b side^2, c_out, k^2 c_in), whose first operand is gathered on chip: memory holds every input pixel once.

Passes over its output (reads and writes), forward + backward; kernels of their own unless elementwise work is fused:

    batch norm      3 + 5    statistics, then input read and output written; both sums, then the input's gradient
    ReLU            2 + 3    in place; not behind a shortcut's norm
    addition        3 + 3    at the end of a block; backward the gradients of both ways are added
    max pooling     1.25 + 1.25, behind the stem

Fused, norm, ReLU and addition are one kernel: the addition reads the shortcut, and writes its gradient, and no more.

Source: the implicit-GEMM form of cuDNN (Chetlur et al. 2014, arXiv 1410.0759); passes of batch norm: Jung et al. 2018
(arXiv 1807.01702), section 2.
"""

from __future__ import annotations

from lockstep.base.types.arrays import Number
from lockstep.describe.workload import ConvNet
from lockstep.describe.workload.convnet import Convolution, convolutions
from lockstep.price.kernels.clock import Clock, Work
from lockstep.price.kernels.shard import Passes
from lockstep.price.layout import Job, LayoutGrid

NORM = (3.0, 5.0)
RELU = (2.0, 3.0)
ADDITION = (3.0, 3.0)
FUSED_ADDITION = (1.0, 1.0)
POOLING = (1.25, 1.25)
"""A 3 x 3 window every second pixel leaves a quarter of the output."""


def convolution_work(job: Job, grid: LayoutGrid, clock: Clock) -> Passes:
    """Work of one micro-batch of images through the whole network."""
    model, recipe = job.model, job.recipe
    if not isinstance(model, ConvNet):
        raise TypeError("convolution_work needs a ConvNet")
    forward, backward = Work(), Work()
    for layer in convolutions(model):
        pixels = grid.micro_batch * layer.side**2
        output_B = pixels * layer.outputs * clock.element_B
        product = _product(layer, pixels, clock)
        passes = _passes(layer, recipe.fused_elementwise)
        forward = forward + product + sum((clock.elementwise(one[0] * output_B) for one in passes), Work())
        # The first layer needs no gradient of the images.
        products = product if layer.is_stem else 2 * product
        backward = backward + products + sum((clock.elementwise(one[1] * output_B) for one in passes), Work())
    return Passes(forward, backward)


def _product(layer: Convolution, pixels: Number, clock: Clock) -> Work:
    """One pass of a convolution; the gradients of its input and of its kernel move and multiply as much."""
    weights = layer.outputs * layer.inputs * layer.kernel**2
    moved = pixels * (layer.stride**2 * layer.inputs + layer.outputs) + weights
    return clock.arithmetic(2.0 * pixels * weights) + clock.operands(moved * clock.element_B)


def _passes(layer: Convolution, fused: bool) -> list[tuple[float, float]]:
    """(forward, backward) passes over the output of each kernel behind a convolution."""
    if fused:
        addition = FUSED_ADDITION if layer.ends_block else (0.0, 0.0)
        found = [(NORM[0] + addition[0], NORM[1] + addition[1])]
    else:
        found = [NORM, *([] if layer.is_shortcut else [RELU]), *([ADDITION] if layer.ends_block else [])]
    return [*found, POOLING] if layer.is_stem else found
