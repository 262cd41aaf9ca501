"""A captured step beside a profile that others made of the same program on two A100: calls by name, one by one."""

import pytest

import lockstep
from lockstep.explain.captured_calls import CallsBeside
from published_traces import published_trace

torch = pytest.importorskip("torch", minversion="2.9")

RESNET = """
import os, torch
from torch import nn

class Block(nn.Module):
    def __init__(self, inside, width, stride, first):
        super().__init__()
        sizes = (inside, width, 1, 1), (width, width, 3, stride), (width, 4 * width, 1, 1)
        for number, (read, given, side, step) in enumerate(sizes, start=1):
            setattr(self, f"conv{number}", nn.Conv2d(read, given, side, step, side // 2, bias=False))
            setattr(self, f"bn{number}", nn.BatchNorm2d(given))
        self.relu, self.downsample = nn.ReLU(inplace=True), None
        if first:
            turned = nn.Conv2d(inside, 4 * width, 1, stride, bias=False)
            self.downsample = nn.Sequential(turned, nn.BatchNorm2d(4 * width))

    def forward(self, x):
        kept = x if self.downsample is None else self.downsample(x)
        x = self.relu(self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x))))))
        x = self.bn3(self.conv3(x))
        x += kept
        return self.relu(x)

def resnet50():
    inside = 64
    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    for width, blocks, stride in (64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2):
        for block in range(blocks):
            layers.append(Block(inside, width, 1 if block else stride, not block))
            inside = 4 * width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2048, 1000))

rank = int(os.environ["RANK"])
torch.distributed.init_process_group("nccl")
torch.cuda.set_device(rank)
model = nn.parallel.DistributedDataParallel(resnet50().cuda(), device_ids=[rank])
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
for _ in range(3):
    images, labels = torch.randn(32, 3, 224, 224, device="cuda"), torch.randn(32, 1000, device="cuda").softmax(1)
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
DATA = {"randn", "_softmax"}
"""What makes data in place of the program's loader."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> CallsBeside:
    profile, folder = published_trace("hta_ddp_2xa100.rank0.json.gz"), tmp_path_factory.mktemp("resnet")
    script, out = folder / "resnet.py", folder / "resnet.capture"
    script.write_text(RESNET)
    lockstep.capture(str(script), cluster="dgx-a100-80gb:1", ranks=2, out=out)
    beside = lockstep.diagnose(profile, capture=out).captured
    assert beside is not None
    return beside


def test_every_operation_of_the_profile_is_called_as_often_in_the_capture(found: CallsBeside) -> None:
    """Also the copies and sums by which DDP fills its buckets, and its collectives."""
    assert {one.operation: one.profiled for one in found.rows if one.operation not in DATA} == {
        one.operation: one.calls for one in found.rows if one.operation not in DATA
    }
    assert sum(one.calls for one in found.rows) > 800
    assert (found.apart, found.times) == ((), 1.0)
    assert found.matched_frac == pytest.approx(1.0)


def test_what_moves_bytes_takes_as_long_as_it_is_priced_at(found: CallsBeside) -> None:
    rows = {one.operation: one.measured_s / one.priced_s for one in found.rows if one.priced_s}
    assert all(0.8 < rows[name] < 1.25 for name in ("relu", "threshold_backward", "add", "copy", "mul"))
