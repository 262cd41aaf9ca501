"""ResNets: bytes and FLOPs of their kernels by printed shapes, gradients in buckets, and activations in fp32."""

from dataclasses import replace

import pytest

from lockstep.describe.hardware import cluster
from lockstep.describe.stacks import stack
from lockstep.describe.workload import ConvNet, convnet_forward_flops, model
from lockstep.price.layout import Job, Layout, Recipe, memory
from lockstep.price.step import price_step

from .undisturbed import undisturbed

SOFTWARE = stack("megatron-te")


def bottleneck_passes(fused: bool) -> tuple[float, float]:
    """Bytes that one image moves behind ResNet-50's convolutions, forward and backward, by its printed shapes."""
    forward = backward = 0.0
    shapes = [(64, 56, 3), (128, 28, 4), (256, 14, 6), (512, 7, 3)]
    stem = 64 * 112**2
    kernels = [stem]
    ends = []
    for stage, (inner, side, blocks) in enumerate(shapes):
        for block in range(blocks):
            first_side = side * 2 if stage and not block else side
            kernels += [inner * first_side**2, inner * side**2, 4 * inner * side**2]
            ends.append(4 * inner * side**2)
    shortcuts = [4 * inner * side**2 for inner, side, _ in shapes]
    forward = 3.0 * (sum(kernels) + sum(shortcuts)) + 1.25 * stem
    backward = 5.0 * (sum(kernels) + sum(shortcuts)) + 1.25 * stem
    if fused:
        return forward + sum(ends), backward + sum(ends)
    return forward + 2.0 * sum(kernels) + 3.0 * sum(ends), backward + 3.0 * (sum(kernels) + sum(ends))


@pytest.mark.parametrize("fused", [True, False])
def test_resnet_traffic_is_that_of_its_norms_activations_and_additions(fused: bool) -> None:
    """With arithmetic, operands and launches for nothing, streams are all that is left."""
    machine = undisturbed(cluster("big-basin-p100:1", gpus=1))
    curve = replace(machine.device.efficiency, matmul_max_frac=1e12, matmul_bytes_factor=0.0, launch_s=0.0)
    free = replace(machine, device=replace(machine.device, efficiency=curve))
    quick = replace(stack("megatron-te"), launch_s=0.0).having(fused_elementwise=fused)
    recipe = Recipe(seq=1, batch=8, dtype="fp32", stack=quick)
    step = price_step(Job(model("resnet50"), recipe, 1), free, Layout(micro_batch=8).grid())
    rate_Bps = free.device.memory_bandwidth_Bps * curve.stream_frac / SOFTWARE.elementwise_factor
    assert float(step.compute_s) == pytest.approx(8 * 4.0 * sum(bottleneck_passes(fused)) / rate_Bps, rel=1e-6)


def test_convolutions_run_three_products_and_the_stem_two() -> None:
    machine = undisturbed(cluster("big-basin-p100:1", gpus=1))
    curve = replace(machine.device.efficiency, stream_frac=1e12, matmul_bytes_factor=0.0, launch_s=0.0)
    free = replace(machine, device=replace(machine.device, efficiency=curve))
    step = price_step(
        Job(model("resnet50"), Recipe(seq=1, batch=8, dtype="fp32"), 1), free, Layout(micro_batch=8).grid()
    )
    resnet = model("resnet50")
    assert isinstance(resnet, ConvNet)
    stem, classifier = 2 * 49 * 3 * 64 * 112**2, 2 * 2048 * 1000
    flops = 8 * (3 * (convnet_forward_flops(resnet) - classifier) - stem)
    rate = free.device.peak("fp32") * curve.matmul_max_frac
    assert float(step.compute_s) == pytest.approx(flops / rate, rel=1e-6)


def test_resnet_gradients_overlap_with_the_backward_pass_in_buckets() -> None:
    machine = cluster("big-basin-p100:32", gpus=256)
    job = Job(model("resnet50"), Recipe(seq=1, batch=8192, dtype="fp32", gradient_B=4.0, overlap_device_frac=0.0), 256)
    layout = Layout(dp=256, micro_batch=32)
    alone = replace(job, recipe=replace(job.recipe, overlap_dp=False))
    beside, after = (float(price_step(one, machine, layout.grid()).dp_comm_s) for one in (job, alone))
    buckets = 4  # 25,557,032 parameters of 4 bytes in pieces of 25 MiB
    assert after / buckets <= beside < after / buckets * 1.5


@pytest.mark.parametrize("name", ["resnet50", "resnet101"])
def test_fp32_activations_have_twice_the_bytes(name: str) -> None:
    """So half precision takes as long on a device with the peak of fp32 and half the memory bandwidth."""
    machine = cluster("dgx-v100:1", gpus=1)
    half = replace(
        machine.device,
        peak_flops={"fp16": machine.device.peak("fp32")},
        memory_bandwidth_Bps=machine.device.memory_bandwidth_Bps / 2,
    )
    layout = Layout(micro_batch=8).grid()
    seconds = []
    for dtype, device in (("fp32", machine.device), ("fp16", half)):
        job = Job(model(name), Recipe(seq=1, batch=8, dtype=dtype), 1)
        seconds.append(float(price_step(job, replace(machine, device=device), layout).compute_s))
    assert seconds[0] == pytest.approx(seconds[1])


def test_fp32_activations_fill_twice_the_memory() -> None:
    machine = cluster("dgx-v100:1", gpus=1)
    held = [
        float(
            memory(
                Job(model("resnet50"), Recipe(seq=1, batch=8, dtype=dtype), 1), machine, Layout(micro_batch=8).grid()
            ).activations_B
        )
        for dtype in ("fp16", "fp32")
    ]
    assert 1.9 < held[1] / held[0] <= 2
