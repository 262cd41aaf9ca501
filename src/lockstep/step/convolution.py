"""Seconds of a convolutional network's passes: each convolution as the matrix product that it is on a tensor core.

A convolution of c_in to c_out channels with a k x k kernel and an output of side^2 pixels is the product
(b side^2, c_out, k^2 c_in). Batch norm and ReLU read and write its output: 4 passes forward, 7 backward.

Source: the implicit-GEMM form of cuDNN (Chetlur et al. 2014, arXiv 1410.0759).
"""

from __future__ import annotations

from lockstep.layout import Job, LayoutGrid
from lockstep.step.kernels import Clock, Work
from lockstep.step.stage import StageTimes
from lockstep.workload import ConvNet
from lockstep.workload.convnet import convolutions


def convolution_times(job: Job, grid: LayoutGrid, clock: Clock) -> StageTimes:
    """Seconds of one micro-batch of images through the whole network."""
    model = job.model
    if not isinstance(model, ConvNet):
        raise TypeError("convolution_times needs a ConvNet")
    images, launch_s = grid.micro_batch, clock.device.efficiency.launch_s
    forward, backward = Work(), Work()
    for layer in convolutions(model):
        pixels = images * layer.side**2
        shape = (pixels, layer.outputs, layer.kernel**2 * layer.inputs)
        output_B = pixels * layer.outputs * clock.element_B
        forward = forward + clock.matmul(*shape) + clock.stream(4.0 * output_B, 2)
        backward = backward + clock.matmul_backward(*shape) + clock.stream(7.0 * output_B, 3)
    return StageTimes(
        compute_forward_s=forward.seconds(launch_s),
        compute_backward_s=backward.seconds(launch_s),
        weight_s=backward.matmul_s / 2.0,
    )
