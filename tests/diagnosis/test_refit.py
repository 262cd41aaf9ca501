"""The cluster as a run shows it predicts that run, and its file says the same."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import lockstep
from lockstep.base.errors import BadInput
from lockstep.decide.planner.estimate import Estimate
from lockstep.decide.planner.estimate import estimate as price
from lockstep.describe.hardware import cluster as find_cluster
from lockstep.explain.beside import beside
from lockstep.explain.predicted import Shown, traces_of
from lockstep.explain.ranks import all_ranks
from lockstep.explain.recalibrate import Recalibrated, recalibrate
from lockstep.explain.replay import Factors, Replay, same
from lockstep.explain.seen import see
from lockstep.explain.write_kineto import write_kineto
from lockstep.price.kernels.clock import Clock
from lockstep.price.kernels.layer import embedding_work, head_work
from lockstep.price.kernels.shard import Shard
from lockstep.price.kernels.states import states_work
from lockstep.price.layout import layer_parameters
from lockstep.price.step.stage import layer_inside, part_inside
from lockstep.show.verbs.estimate import estimate


def run(estimated: Estimate, **factors: object) -> tuple[object, float]:
    """(what diagnosis says of a run with some factors, what its step takes)."""
    one = all_ranks(estimated, range(estimated.layout.world))
    plain = same(one.program.ranks, max(one.stages) + 1)
    replay = Replay(one, Factors(**{**vars(plain), **factors}))  # type: ignore[arg-type]
    names = replay.factors.names
    line, shares = replay.timeline(names, 0), replay.shares(names, 0)
    shares = shares / np.maximum(shares.sum(axis=1, keepdims=True), 1e-12)
    traces = traces_of([line] * 3, Shown.of(one), shares=[shares] * 3)
    return beside(estimated, see(traces, estimated.layout)), line.makespan_s


def test_slow_kernels_and_a_slow_link_are_written_to_the_cluster_file(tmp_path: Path) -> None:
    """Each is found as it is, and the estimate on the refitted cluster takes as long as the run."""
    estimated = estimate("llama3-8b", "dgx-h100:2", tp=8, micro_batch=1, batch=16, seq=4096, zero=1)
    slow = dict.fromkeys(("matmul", "attention", "elementwise"), 1.3)
    found, step_s = run(estimated, classes=slow, links={"tp": 2.0, "dp": 3.0})
    again = found.refit  # type: ignore[attr-defined]
    assert again.pace == pytest.approx(1.3, rel=1e-3)
    inner, outer = (level.name for level in estimated.cluster.levels)
    assert again.links[inner][0] == pytest.approx(2.0, rel=0.01)
    assert again.links[outer][0] == pytest.approx(3.0, rel=0.01)
    late_s = estimated.step_time_s - run(estimated)[1]
    made = recalibrate(estimated, step_s, again)
    assert price(estimated.job, made.paced, estimated.layout).step_time_s == pytest.approx(step_s + late_s, rel=0.07)
    assert same_from_its_file(made, estimated, tmp_path / "mine.yaml")


def same_from_its_file(made: Recalibrated, estimated: Estimate, path: Path) -> bool:
    """The file predicts what the cluster does, with the same range, and says what it rests on."""
    path.write_text(made.yaml("mine"))
    read = find_cluster(str(path), gpus=estimated.layout.world)
    one, two = (price(estimated.job, each, estimated.layout) for each in (read, made.paced))
    assert one.step_time_s == pytest.approx(two.step_time_s, rel=1e-12)
    assert one.interval.to_dict() == pytest.approx(two.interval.to_dict())
    assert read.device.efficiency.source == made.source
    assert any("calibrated (lockstep diagnose on" in line for line in one.assumptions())
    return True


def test_each_kernel_class_has_its_own_factor(tmp_path: Path) -> None:
    """Attention twice as slow, products a tenth faster: neither moves the other's, nor the update."""
    estimated = estimate("llama3-8b", "dgx-h100:1", tp=8, micro_batch=1, batch=4, seq=4096)
    found, step_s = run(estimated, classes={"matmul": 0.9, "attention": 2.0, "elementwise": 1.0, "optimizer": 1.5})
    again = found.refit  # type: ignore[attr-defined]
    factors = {name: factor for name, (factor, _) in again.classes.items()}
    assert factors == pytest.approx({"matmul": 0.9, "attention": 2.0, "elementwise": 1.0, "optimizer": 1.5}, rel=1e-3)
    made = recalibrate(estimated, step_s, again)
    late_s = estimated.step_time_s - run(estimated)[1]
    assert price(estimated.job, made.paced, estimated.layout).step_time_s == pytest.approx(step_s + late_s, rel=0.02)
    assert same_from_its_file(made, estimated, tmp_path / "mine.yaml")


def test_a_slow_rank_does_not_slow_the_device_factor() -> None:
    """What one rank does is a fault of the run."""
    estimated = estimate("gpt2-medium", "dgx-h100:1", micro_batch=1, batch=16, seq=1024, zero=1)
    factor = np.ones((1, 8))
    factor[0, 5] = 1.5
    found, _ = run(estimated, ranks=factor)
    assert found.refit.pace == pytest.approx(1.0, rel=1e-3)  # type: ignore[attr-defined]


def test_the_fitted_pace_excludes_host_delays() -> None:
    """What the prediction has it take too much goes into the pace; what it takes more does not (test_late_host.py)."""
    estimated = estimate("gpt2-medium", "dgx-h100:1", micro_batch=1, batch=16, seq=1024, zero=1)
    predicted_s = run(estimated)[0].refit  # type: ignore[attr-defined]
    assert predicted_s.host == pytest.approx(1.0, rel=1e-3)
    late, _ = run(estimated, host_s=np.full((1, 8), 0.2))
    assert late.refit.host == pytest.approx(1.0, rel=1e-9)  # type: ignore[attr-defined]


def test_kernel_classes_of_a_step_follow_its_kernels() -> None:
    """Seconds of products over a whole step are those of layers, head and accumulation, each priced alone."""
    estimated = estimate("llama3-8b", "dgx-h100:1", gpus=1, micro_batch=1, batch=2, seq=4096)
    one = all_ranks(estimated, [0])
    job, clock = estimated.job, Clock.of(estimated.cluster.device, estimated.job.recipe)
    shard = Shard(job.transformer, estimated.layout.grid(), job.recipe, clock)
    whole = layer_parameters(job, estimated.layout.grid())
    insides = [layer_inside(shard, kind, states_work(shard, kind, whole[kind.stored])) for kind in job.kinds]
    works = [*(work for work, _, _ in insides), *(states for _, _, states in insides)]
    works += [part_inside(clock, one) for one in (head_work(shard), embedding_work(shard))]
    passes = [*(work.forward for work in works), *(work.backward for work in works)]
    expected_s = sum(float(np.asarray(one.matmul_s)) for one in passes)
    mine = (one.program.rank == 0) & (np.array(one.part) == "compute")
    products_s = float((one.program.duration_s * one.shares[:, 0])[mine].sum())
    assert products_s == pytest.approx(2 * expected_s, rel=1e-6)


def test_no_cluster_file_is_written_for_a_different_run(tmp_path: Path) -> None:
    """Traces of eight tensor-parallel ranks, described as a pipeline: the replay is far off, so no file is written."""
    estimated = estimate("llama3-8b", "dgx-h100:1", tp=8, micro_batch=1, batch=16, seq=4096)
    one = all_ranks(estimated, range(8))
    (tmp_path / "traces").mkdir()
    for trace in traces_of([Replay(one, same(8, 1)).timeline((), 0)] * 4, Shown.of(one)):
        write_kineto(trace, tmp_path / "traces" / f"{trace.rank}.json")
    words = {"model": "llama3-8b", "cluster": "dgx-h100:1", "pp": 8, "micro_batch": 1, "batch": 4, "seq": 4096}
    answer = lockstep.diagnose(tmp_path / "traces", **words)
    assert answer.beside is not None
    assert any("no cause is named" in note for note in answer.not_known)
    mine = tmp_path / "mine.yaml"
    with pytest.raises(BadInput, match="check that model, batch, length and layout") as refused:
        lockstep.diagnose(tmp_path / "traces", out=mine, **words)
    assert refused.value.where == "--out"
    assert not mine.exists()
    with pytest.raises(BadInput, match="--replan"):
        lockstep.diagnose(tmp_path / "traces", replan=True, **words)


def test_recorded_shapes_round_trip_through_the_cluster_file(tmp_path: Path) -> None:
    """From traces to `-o` and a plan on it: the curve of products, its shapes, its source, and the same step."""
    words = {"tp": 8, "micro_batch": 1, "batch": 8, "seq": 4096}
    estimated = estimate("llama3-8b", "dgx-h100:1", **words)
    one = all_ranks(estimated, range(8))
    (tmp_path / "traces").mkdir()
    for trace in traces_of([Replay(one, same(8, 1)).timeline((), 0)] * 4, Shown.of(one)):
        path = tmp_path / "traces" / f"{trace.rank}.json"
        write_kineto(trace, path)
        with_shapes(path, estimated.cluster.device.peak("bf16"), max_frac=0.7)
    mine = tmp_path / "mine.yaml"
    found = lockstep.diagnose(
        tmp_path / "traces", model="llama3-8b", cluster="dgx-h100:1", out=mine, replan=True, **words
    )
    made = found.recalibrated
    assert made is not None
    assert made.products is not None
    assert len(made.products.products) >= 6
    assert np.median(np.abs(made.products.after_frac)) < 0.03
    assert made.replanned is not None
    again = estimate("llama3-8b", str(mine), **words)
    assert again.step_time_s == pytest.approx(made.replanned.own.step_time_s, rel=1e-6)
    assert again.cluster.device.efficiency.matmul_max_frac == pytest.approx(made.products.max_frac, abs=1e-4)
    assert f"matrix products by {len(made.products.products)} shapes" in again.cluster.device.efficiency.source


def with_shapes(path: Path, peak_flops: float, max_frac: float) -> None:
    """Gives the operators of products shapes by which they reach a share of the peak."""
    data = json.loads(path.read_text())
    took_us = {each["args"]["External id"]: each["dur"] for each in data["traceEvents"] if each["cat"] == "kernel"}
    products = [each for each in data["traceEvents"] if each["name"] == "aten::mm"]
    for number, each in enumerate(products):
        m, k = 4096 + 64 * (number % 40), 8192
        n = max(1, round(took_us[each["args"]["External id"]] / 1e6 * peak_flops * max_frac / (2 * m * k)))
        each["args"] |= {"Input Dims": [[m, k], [k, n]], "Input type": ["c10::BFloat16", "c10::BFloat16"]}
    path.write_text(json.dumps(data))
