"""Programs of several ranks, captured as one of them: collectives and sharded bytes by arithmetic."""

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

import cli_runner
import lockstep
from lockstep.base.errors import BadInput
from lockstep.describe.captured import COLLECTIVES, Captured
from lockstep.describe.varied import LAYER
from lockstep.show.verbs.capture import CapturedMemory

torch = pytest.importorskip("torch", minversion="2.9")

HIDDEN, WIDE, LAYERS, RANKS = 256, 1024, 4, 8
WEIGHTS = 2 * HIDDEN * WIDE
"""Of a block."""
BEGIN = """
import contextlib, os, sys, torch
import torch.distributed as dist

class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = torch.nn.Linear(256, 1024, bias=False), torch.nn.Linear(1024, 256, bias=False)
    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))

dist.init_process_group("nccl")
local = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(local)
"""
END = """
optimizer = torch.optim.AdamW(net.parameters())
for _ in range(3):
    for micro in range(micros):
        last = micro == micros - 1
        x = torch.randn(512, 256, device="cuda", dtype=dtype)
        with contextlib.nullcontext() if last else net.no_sync():
            net(x).float().square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
SHARDED = """
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
with torch.device("meta"):
    net = torch.nn.Sequential(*(Block() for _ in range(4)))
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for block in net:
    fully_shard(block, mp_policy=policy)
fully_shard(net, mp_policy=policy)
net.to_empty(device="cuda")
micros, dtype = 1, torch.bfloat16
"""
FLAT = """
from torch.distributed.fsdp import FullyShardedDataParallel
net = torch.nn.Sequential(*(FullyShardedDataParallel(Block().cuda(), use_orig_params=True) for _ in range(4)))
net = FullyShardedDataParallel(net, use_orig_params=True)
micros, dtype = 2, torch.float32
"""
COPIED = """
net = torch.nn.Sequential(*(Block() for _ in range(4))).to(f"cuda:{local}")
view = "view" in sys.argv
net = torch.nn.parallel.DistributedDataParallel(net, device_ids=[local], gradient_as_bucket_view=view)
micros, dtype = 2, torch.float32
"""
TENSOR = """
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
mesh = init_device_mesh("cuda", (dist.get_world_size() // 4, 4), mesh_dim_names=("dp", "tp"))
net = torch.nn.Sequential(*(Block() for _ in range(4))).cuda()
for block in net:
    parallelize_module(block, mesh["tp"], {"up": ColwiseParallel(), "down": RowwiseParallel()})
micros, dtype = 1, torch.float32
"""


class Run:
    """Captures programs, each once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.known: dict[tuple[str, ...], CapturedMemory] = {}

    def __call__(self, program: str, *words: str, rank: int = 0) -> Captured:
        key = (program, *words, str(rank))
        if key not in self.known:
            script, out = (self.folder / f"{len(self.known)}.{ending}" for ending in ("py", "capture"))
            script.write_text(BEGIN + program + END)
            self.known[key] = lockstep.capture(
                str(script), *words, cluster="dgx-h100:2", ranks=RANKS, rank=rank, out=out
            )
        return self.known[key].captured

    def path(self, program: str) -> str:
        """The file of one."""
        self(program)
        return self.known[program, "0"].path


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return Run(tmp_path_factory.mktemp("ranks"))


def traffic_B(found: Captured) -> Counter[tuple[str, str]]:
    """Bytes of collectives by name and phase."""
    sizes: Counter[tuple[str, str]] = Counter()
    for one in found.operations:
        if one.group:
            sizes[one.name, one.phase] += one.size_B
    return sizes


def held_B(found: Captured, category: str) -> int:
    return sum(one.size_B for one in found.lives if one.category == category)


def test_sharded_parameters_are_gathered_twice_and_gradients_scattered_once(captured: Run) -> None:
    found = captured(SHARDED)
    whole = LAYERS * WEIGHTS
    assert found.program["parameters"] == whole
    assert held_B(found, "parameters") == 4 * whole // RANKS
    assert held_B(found, "optimizer") == 2 * 4 * whole // RANKS
    assert traffic_B(found) == {
        ("all-gather", "forward"): 2 * whole,
        ("all-gather", "backward"): 2 * whole,
        ("reduce-scatter", "backward"): 4 * whole,
    }
    assert set(map(tuple, found.groups.values())) == {tuple(range(RANKS))}


def test_offloaded_parameters_are_counted_and_have_no_time(captured: Run) -> None:
    program = SHARDED.replace("import MixedP", "import CPUOffloadPolicy, MixedP")
    program = program.replace("mp_policy=policy)", "mp_policy=policy, offload_policy=CPUOffloadPolicy())")
    found = captured(program.replace('to_empty(device="cuda")', 'to_empty(device="cpu")'))
    assert found.program["parameters"] == LAYERS * WEIGHTS
    assert held_B(found, "optimizer") == 0
    assert "on the host" in found.program["untimed"]


def test_parameters_that_are_parts_of_flat_ones_are_counted_whole(captured: Run) -> None:
    found = captured(FLAT)
    whole = LAYERS * WEIGHTS
    assert found.program["parameters"] == whole
    assert held_B(found, "parameters") == 4 * whole // RANKS
    sizes = traffic_B(found)
    # Gradients add up whole over the micro-batches, and travel once.
    assert sizes["all-gather", "forward"] == sizes["all-gather", "backward"] == 2 * sizes["reduce-scatter", "backward"]
    assert sizes["reduce-scatter", "backward"] == 4 * whole
    assert [one for one in found.program["notes"] if "record_stream" in one]


def test_gathers_of_sharded_parameters_have_a_stream_of_their_own(captured: Run) -> None:
    found = captured(SHARDED)
    compute = {one.stream for one in found.operations if one.flops}
    gathers = {one.stream for one in found.operations if one.name == "all-gather"}
    scatters = {one.stream for one in found.operations if one.name == "reduce-scatter"}
    assert compute == {0}
    assert not gathers & scatters
    assert 0 not in gathers | scatters
    waits = {one.event for one in found.operations if one.name == "wait" and one.stream == 0}
    recorded = {one.event for one in found.operations if one.name == "record" and one.stream in gathers}
    assert waits & recorded


@pytest.mark.parametrize("words", [(), ("view",)])
def test_copied_parameters_have_their_gradients_summed_once_a_step(captured: Run, words: tuple[str, ...]) -> None:
    found = captured(COPIED, *words, rank=3)
    assert traffic_B(found) == {("all-reduce", "backward"): 4 * LAYERS * WEIGHTS}
    # The gradient of the first block's input is needed by nobody.
    assert found.flops == 2 * (6 * LAYERS * WEIGHTS - 2 * HIDDEN * WIDE) * 512


def test_gradients_in_views_of_their_buckets_are_held_once(captured: Run) -> None:
    apart, views = captured(COPIED, rank=3), captured(COPIED, "view", rank=3)
    copies = [sum("copy_" in one.name for one in found.operations) for found in (apart, views)]
    assert copies[0] - copies[1] == 2 * LAYERS


def test_tensor_parallel_blocks_sum_activations_in_their_group(captured: Run) -> None:
    found = captured(TENSOR, rank=5)
    activation_B = 4 * 512 * HIDDEN
    assert held_B(found, "parameters") == 4 * LAYERS * WEIGHTS // 4
    # Nobody needs the gradient of the first block's input.
    assert traffic_B(found) == {
        ("all-reduce", "forward"): LAYERS * activation_B,
        ("all-reduce", "backward"): (LAYERS - 1) * activation_B,
    }
    assert list(found.groups.values()) == [[4, 5, 6, 7]]


def test_sixteen_layers_follow_from_three_and_four(tmp_path: Path) -> None:
    """The file of the example, captured with few layers, says the step that is captured with all."""
    out = tmp_path / "step.capture"
    found = lockstep.capture(str(EXAMPLE.with_suffix(".py")), cluster="dgx-h100:4", ranks=32, out=out)
    kept = lockstep.memory(EXAMPLE, "dgx-h100:4", at={"layers": 16, "batch": 4})
    assert isinstance(kept, CapturedMemory)
    assert [replace(one, event=0) for one in kept.captured.operations] == [
        replace(one, event=0, module=LAYER.sub("*", one.module)) for one in found.captured.operations
    ]
    assert kept.captured.live_B.tolist() == found.captured.live_B.tolist()
    assert kept.time == found.time
    assert [kept.captured.program[name] for name in SAID] == [found.captured.program[name] for name in SAID]


SAID = ("parameters", "trained_parameters", "values", "torch", "groups", "notes")


EXAMPLE = Path(__file__).parents[2] / "examples" / "pretrain.capture"


def test_parts_of_a_comparison_add_up_and_come_from_what_changed(tmp_path: Path) -> None:
    found = lockstep.compare(EXAMPLE, {"batch": 3}, "dgx-h100:4")
    times_s = [lockstep.memory(EXAMPLE, "dgx-h100:4", at={"batch": batch}).time.step_time_s for batch in (4, 3)]
    assert [side.step_time_s for side in (found.a, found.b)] == pytest.approx(times_s)
    assert found.a.parts_s["compute.matmul"] == pytest.approx(4 / 3 * found.b.parts_s["compute.matmul"], rel=0.05)
    assert found.a.parts_s["optimizer"] == found.b.parts_s["optimizer"]
    assert [one["setting"] for one in found.changed] == ["arguments", "FLOPs"]
    copy = tmp_path / "other.capture"
    copy.write_bytes(EXAMPLE.read_bytes())
    assert lockstep.compare(EXAMPLE, copy, "dgx-h100:4").same
    machines = lockstep.compare(EXAMPLE, "cluster=dgx-a100-80gb:4", "dgx-h100:4")
    assert machines.ratio > 1.5
    assert not machines.in_common
    for b, why in {"tp=2": "unknown argument", "llama3-8b": "must be NAME=VALUE"}.items():
        with pytest.raises(BadInput, match=why):
            lockstep.compare(EXAMPLE, b)
    with pytest.raises(BadInput, match="A is none"):
        lockstep.compare("llama3-8b", EXAMPLE, "dgx-h100:1")


def test_a_run_is_its_steps_and_costs_all_ranks() -> None:
    found = lockstep.memory(EXAMPLE, "dgx-h100:4", steps="10k")
    price = found.cluster.device.price_per_hour_usd
    assert found.run == {
        "steps": 10_000,
        "time_s": pytest.approx(10_000 * found.time.step_time_s),
        "cost_usd": pytest.approx(10_000 * found.time.step_time_s / 3600 * 32 * price),
    }
    assert lockstep.memory(EXAMPLE).run is None
    with pytest.raises(BadInput, match="applies to a captured step"):
        lockstep.memory("llama3-8b", "dgx-h100:1", steps=10)


def test_a_report_of_a_step_has_its_timeline_and_the_values_that_were_asked(tmp_path: Path) -> None:
    out = tmp_path / "step.html"
    said = cli_runner.run("report", str(EXAMPLE), "--at", "layers=6", "-o", str(out))
    assert said.code == 0
    assert "--layers 6 --batch 4" in said.out
    page = out.read_text("utf-8")
    assert "pretrain.py --layers 6 --batch 4" in page
    assert "all-gather" in page
    assert "The program asked" in page
    with pytest.raises(BadInput, match="does not belong to a captured step"):
        lockstep.report(EXAMPLE, tokens=1e12)


def test_the_largest_that_fits_fits_and_one_more_does_not() -> None:
    found = lockstep.memory(EXAMPLE, "dgx-a100-40gb:4", at={"layers": 16})
    assert isinstance(found, CapturedMemory)
    for name, most in found.largest.items():
        assert most is not None
        assert found.at(**{name: most}).fits
        assert not found.at(**{name: most + 1}).fits
    assert set(found.largest) == {"layers", "batch"}
    assert lockstep.memory(EXAMPLE, "dgx-a100-40gb:4", at={"layers": 200}).largest["batch"] is None


SPAWNED = """
import os, torch
import torch.distributed as dist
import torch.multiprocessing as mp

def main(rank, ranks):
    os.environ["MASTER_ADDR"], os.environ["MASTER_PORT"] = "localhost", "12355"
    dist.init_process_group("nccl", rank=rank, world_size=ranks)
    net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64, bias=False).to(rank), device_ids=[rank])
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(3):
        net(torch.randn(8, 64, device=rank)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()

if __name__ == "__main__":
    ranks = torch.cuda.device_count()
    mp.spawn(main, args=(ranks,), nprocs=ranks, join=True)
"""


@pytest.mark.usefixtures("own_process")
def test_a_program_that_starts_its_own_processes_is_captured_as_one_of_them(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(SPAWNED)
    found = lockstep.capture(str(script), cluster="dgx-h100:1", ranks=4, rank=2, out=tmp_path / "step.capture").captured
    assert traffic_B(found) == {("all-reduce", "backward"): 4 * 64 * 64}
    assert list(found.groups.values()) == [list(range(4))]


def test_what_ranks_of_deepspeed_compare_in_the_first_step_is_left_out(tmp_path: Path) -> None:
    folder = tmp_path / "deepspeed" / "runtime" / "zero"
    folder.mkdir(parents=True)
    for one in (folder, *folder.parents[:2]):
        (one / "__init__.py").touch()
    said = "def assert_ints_same_as_other_ranks(ints):\n    raise RuntimeError('ranks differ')\n\nOTHER = 7\n"
    (folder / "utils.py").write_text(said)
    script = tmp_path / "train.py"
    uses = "from deepspeed.runtime.zero.utils import OTHER, assert_ints_same_as_other_ranks\n"
    script.write_text(uses + "assert_ints_same_as_other_ranks([OTHER])\nraise RuntimeError('went on')\n")
    with pytest.raises(BadInput, match="went on"):
        lockstep.capture(str(script), cluster="dgx-h100:1", out=tmp_path / "step.capture")


ENGINE = """
import torch

class DeepSpeedEngine:
    def __init__(self, net, optimizer):
        self.net, self.optimizer = net, optimizer
    def backward(self, loss):
        loss.backward()
        self._backward_epilogue()
    def _backward_epilogue(self):
        for one in self.net.parameters():
            torch.distributed.all_reduce(one.grad)
    def step(self):
        self.scale = torch.linalg.vector_norm(self.net.weight.grad)
        self.optimizer.step()
        torch.distributed.broadcast(self.net.weight.data, 0)
"""
USES = """
import torch
from deepspeed.runtime.engine import DeepSpeedEngine
torch.distributed.init_process_group("nccl")
net = torch.nn.Linear(64, 64, bias=False).cuda()
engine = DeepSpeedEngine(net, torch.optim.SGD(net.parameters(), lr=0.1))
for _ in range(3):
    engine.backward(net(torch.randn(8, 64, device="cuda")).square().mean())
    engine.step()
    torch.distributed.all_gather([torch.empty(8, device="cuda") for _ in range(4)], torch.ones(8, device="cuda"))
"""


def test_what_the_engine_of_deepspeed_does_after_a_pass_and_around_an_update_is_of_these(tmp_path: Path) -> None:
    folder = tmp_path / "deepspeed" / "runtime"
    folder.mkdir(parents=True)
    for one in (folder, folder.parent):
        (one / "__init__.py").touch()
    (folder / "engine.py").write_text(ENGINE)
    script = tmp_path / "train.py"
    script.write_text(USES)
    found = lockstep.capture(str(script), cluster="dgx-h100:1", ranks=4, out=tmp_path / "step.capture").captured
    sent = {one.name: one.phase for one in found.operations if one.name in COLLECTIVES}
    assert sent == {"all-reduce": "reduction", "broadcast": "optimizer", "all-gather": "forward"}
    assert {one.phase for one in found.operations if "vector_norm" in one.name} == {"optimizer"}
    assert {one.phase for one in found.operations if one.flops} == {"forward", "backward"}


def test_time_needs_a_cluster_for_all_ranks_and_the_trace_is_of_its_streams(captured: Run, tmp_path: Path) -> None:
    path = captured.path(SHARDED)
    alone = lockstep.memory(path, "h100-sxm:1")
    with pytest.raises(BadInput, match="--tp: does not belong to a captured step"):
        lockstep.memory(path, tp=2)
    said = [cli_runner.run(verb, path, "-c", "dgx-h100:1", "--json").json() for verb in ("memory", "estimate")]
    assert said[0] == said[1]
    assert alone.time is None
    assert "8 ranks" in alone.untimed
    near, far = (lockstep.memory(path, machine).time for machine in ("dgx-h100:1", "rtx-4090:8"))
    assert near is not None
    assert far is not None
    assert far.communication_s > near.communication_s > 0
    out = tmp_path / "step.json"
    ran = cli_runner.run("trace", path, "-c", "dgx-h100:1", "-o", str(out))
    assert ran.code == 0
    names = {one["args"]["name"] for one in json.loads(out.read_text())["traceEvents"] if one["name"] == "thread_name"}
    assert {"rank 0 / launches", "rank 0 / compute"} <= names
    assert any("communication" in name for name in names)


def test_a_rank_is_one_of_the_ranks() -> None:
    with pytest.raises(BadInput, match="less than the number of ranks, 8"):
        lockstep.capture("train.py", cluster="dgx-h100:1", ranks=8, rank=8)
    with pytest.raises(BadInput, match="number of ranks, 1"):
        lockstep.capture("train.py", cluster="dgx-h100:1", rank=1)


FLAGGED = """
from torch.distributed.fsdp import FullyShardedDataParallel
net = torch.nn.Sequential(*(Block() for _ in range(4)))
net = FullyShardedDataParallel(net, use_orig_params=True, device_id=local)
stops = torch.tensor(0, device="cuda")
dist.broadcast(stops, 0)
micros, dtype = 0 if stops else 1, torch.float32
"""
NORMED = """
net = torch.nn.SyncBatchNorm.convert_sync_batchnorm(torch.nn.Sequential(Block(), torch.nn.BatchNorm1d(256))).cuda()
micros, dtype = 1, torch.float32
"""


def test_flat_parameters_count_whole_where_modules_keep_parts_of_them(captured: Run) -> None:
    """The flag that rank 0 sends is known, as it is a number of the program."""
    assert captured(FLAGGED).program["parameters"] == LAYERS * WEIGHTS


def test_norms_over_ranks_gather_statistics_and_reduce_their_gradients(captured: Run) -> None:
    """Mean, deviation and count of each rank; two sums for each channel."""
    assert traffic_B(captured(NORMED)) == {
        ("all-gather", "forward"): 4 * RANKS * (2 * HIDDEN + 1),
        ("all-reduce", "backward"): 4 * 2 * HIDDEN,
    }
