"""Two steps of Llama 3.2 1B on one H100 each, with fused attention and with the one written out in transformers.

Recorded by `benchmarks/one_gpu.py --keep` on 26 November 2026 with PyTorch 2.11 and transformers 5.17, without the
events that reading does not need.
"""

import gzip
import json
from pathlib import Path
from statistics import median

import pytest

import lockstep
from lockstep.describe.hardware import device, efficiency
from lockstep.describe.stacks import find_way
from lockstep.price.kernels.clock import WIDENED, Clock
from lockstep.price.kernels.slots import way_work
from lockstep.price.layout import Recipe

TRACES = Path(__file__).parent / "h100"


def diagnosed(name: str, micro_batch: int) -> dict[str, float]:
    """Seconds of every cause that is named."""
    found = lockstep.diagnose(
        [TRACES / f"{name}.json.gz"], model="llama3.2-1b", cluster="dgx-h100:1", gpus=1, micro_batch=micro_batch,
        batch=micro_batch, seq=2048, stack="hf-trainer-5",
    )  # fmt: skip
    return {one["kind"]: one["seconds"] for one in found.to_dict()["causes"]}


def test_unfused_attention_is_named() -> None:
    """Of a step of 303 ms its softmax takes 49, 7 are predicted of a fused kernel; its products count as products."""
    causes = diagnosed("unfused", 2)
    assert causes["unfused"] == pytest.approx(0.042, abs=0.006)


def test_fused_attention_is_not_named() -> None:
    assert "unfused" not in diagnosed("fused", 4)


@pytest.mark.parametrize(("name", "micro_batch"), [("fused", 4), ("unfused", 2)])
def test_the_cluster_file_of_a_profile_predicts_the_step_without_a_late_host(
    name: str, micro_batch: int, tmp_path: Path
) -> None:
    """Of the two steps the host was late in the first, which is said and not written; the file has the other one."""
    words = {"model": "llama3.2-1b", "gpus": 1, "micro_batch": micro_batch, "batch": micro_batch, "seq": 2048,
             "stack": "hf-trainer-5"}  # fmt: skip
    mine = tmp_path / "mine.yaml"
    found = lockstep.diagnose([TRACES / f"{name}.json.gz"], cluster="dgx-h100:1", out=mine, **words)
    assert found.operations is not None
    assert found.recalibrated is not None
    assert any("late by so different times" in note for note in found.recalibrated.notes)
    steady_s = float(found.operations.step_s.min())
    assert lockstep.estimate(cluster=mine, **words).step_time_s == pytest.approx(steady_s, rel=0.02)


def test_kernels_of_a_step_match_their_price() -> None:
    """Products under the power limit, everything else as it is measured alone, and 1.5 us after each kernel."""
    found = lockstep.diagnose(
        [TRACES / "fused.json.gz"], model="llama3.2-1b", cluster="dgx-h100:1", gpus=1, micro_batch=4, batch=4, seq=2048,
        stack={"name": "mine", "like": "hf-trainer-5", "habits": {"foreach_update": True}},
    )  # fmt: skip
    parts = {one["part"]: (one["predicted_s"], one["measured_s"]) for one in found.to_dict()["parts"]}
    between_s = parts["idle.gaps"][1] + parts["copies"][1]
    assert parts["compute.matmul"][0] == pytest.approx(parts["compute.matmul"][1], rel=0.07)
    assert parts["compute.stream"][0] == pytest.approx(parts["compute.stream"][1] + between_s, rel=0.06)
    assert parts["optimizer"][0] == pytest.approx(parts["optimizer"][1], rel=0.03)


def test_kernels_over_attention_scores_match_their_price() -> None:
    """Scores of two sequences and 32 heads: a mask in fp32 is added, and their gradients are copied to fp32."""
    with gzip.open(TRACES / "unfused.json.gz", "rt") as read:
        kernels = [one for one in json.load(read)["traceEvents"] if one.get("cat") == "kernel"]
    rate_Bps = device("h100-sxm").memory_bandwidth_Bps * efficiency("h100").stream_frac
    bytes_s = 6.0 * 2 * 32 * 2048**2 / rate_Bps
    masked = find_way("scores", "autocast").forward[1].times
    for name, factor in (("gpu_kernel_impl<at::native::CUDAFunctor_add<float>", masked), ("direct_copy", WIDENED)):
        long = [one["dur"] * 1e-6 for one in kernels if name in one["name"] and one["dur"] * 1e-6 > 1.2 * bytes_s]
        assert len(long) >= 16
        assert median(long) / bytes_s == pytest.approx(factor, rel=0.05)


FORWARD_NORM = ("pow", "Mean", "add", "rsqrt", "Mul", "Mul")
BACKWARD_NORM = (
    "Mul",
    "Mul",
    "sum",
    "Mul",
    "Mul",
    "sum",
    "add",
    "pow",
    "Mul",
    "Mul",
    "Mul",
    "Memcpy",
    "Mul",
    "Mul",
    "add",
)
"""What names of a written norm's kernels say, in order; the first sum of two gradients is of the residual stream."""
RESIDUAL = 6


@pytest.mark.parametrize(("name", "micro_batch"), [("fused", 4), ("unfused", 2)])
def test_an_unfused_norm_of_an_fp32_stream_matches_its_price(name: str, micro_batch: int) -> None:
    """Kernel by kernel, of both norms of 16 layers in two steps; times within 10 %, a bound set beforehand."""
    with gzip.open(TRACES / f"{name}.json.gz", "rt") as read:
        events = json.load(read)["traceEvents"]
    ran = sorted((one for one in events if one.get("cat") in ("kernel", "gpu_memcpy")), key=lambda one: one["ts"])
    norm, weight = (find_way(slot, "written").parts["widened"] for slot in ("norm", "norm_weight"))
    clock = Clock.of(device("h100-sxm"), Recipe.by("hf-trainer-5", seq=2048, batch=micro_batch))
    works = [way_work(clock, way, micro_batch * 2048 * 2048) for way in (norm, weight)]
    for steps, parts, kernels in (
        (FORWARD_NORM, [works[0].forward], norm.kernels[0]),
        (BACKWARD_NORM, [one.backward for one in works], norm.kernels[1] + weight.kernels[1]),
    ):
        places = [
            i for i in range(len(ran) - len(steps))
            if all(word in one["name"] for word, one in zip(steps, ran[i : i + len(steps)], strict=True))
        ]  # fmt: skip
        assert len(places) >= 2 * 31
        own = [i for i in range(len(steps)) if len(steps) == len(FORWARD_NORM) or i != RESIDUAL]
        measured_s = median(sum(ran[at + i]["dur"] for i in own) for at in places) * 1e-6
        assert len(own) == kernels
        assert sum(float(one.stream_s) for one in parts) == pytest.approx(measured_s, rel=0.1)


@pytest.mark.parametrize(("name", "micro_batch"), [("fused", 4), ("unfused", 2)])
def test_rotary_embedding_under_autocast_matches_its_price(name: str, micro_batch: int) -> None:
    """Queries and keys promoted to fp32, within 10 %, a bound set beforehand."""
    found = lockstep.diagnose(
        [TRACES / f"{name}.json.gz"], model="llama3.2-1b", cluster="dgx-h100:1", gpus=1, micro_batch=micro_batch,
        batch=micro_batch, seq=2048, stack="hf-trainer-5",
    ).to_dict()  # fmt: skip
    rows = {one["pass"]: one for one in found["layer_operations"] if one["operation"].startswith("rotary")}
    assert rows["forward"]["kernels_profile"] == rows["forward"]["kernels_priced"] == 10
    for one in rows.values():
        assert one["priced_s"] == pytest.approx(one["measured_s"], rel=0.1)
