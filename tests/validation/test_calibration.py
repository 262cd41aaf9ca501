"""Calibration finds what steps were made with, tells kernels from links where steps can, and larger sizes follow."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import lockstep
from cli_runner import run
from lockstep.base.errors import BadInput
from lockstep.check.validation import TABLES
from lockstep.check.validation.calibration import LEFT_FRAC, Measured, calibrate, changed
from lockstep.check.validation.without_program import without_program
from lockstep.decide.planner.estimate import estimate
from lockstep.describe.hardware import Cluster, cluster
from lockstep.describe.hardware.pace import paced
from lockstep.describe.stacks import DEFAULT
from lockstep.describe.workload import model
from lockstep.price.layout import Job, Layout, Recipe
from lockstep.price.step import price_step

ROOT = Path(__file__).parents[2]
MACHINE = cluster("cloud-h100:8")
LLAMA = model("llama3-8b")
ONE_NODE = Layout(dp=8, zero=1), Layout(tp=8), Layout(tp=2, dp=4, zero=1)
TWO_NODES = Layout(dp=16, zero=3), Layout(tp=8, dp=2, zero=1), Layout(dp=8, pp=2, zero=1)


def step(layout: Layout, on: Cluster, seq: int = 1024) -> Measured:
    """A step that takes what the cluster `on` takes."""
    devices = layout.dp * layout.tp * layout.pp
    job = Job(LLAMA, Recipe.by(DEFAULT, seq=seq, batch=2 * devices, cross_entropy="fused"), devices)
    seconds = float(price_step(job, on.resized(devices), layout.grid()).step_time_s)
    return Measured(f"{layout} x{devices}", job, layout, seconds)


@pytest.mark.parametrize("pace", [0.9, 1.0, 1.3])
def test_steps_on_one_node_determine_the_pace(pace: float) -> None:
    true = changed(MACHINE, [pace] * 4, [level.link.achieved_frac for level in MACHINE.levels])
    found = calibrate(MACHINE, [step(layout, true) for layout in ONE_NODE])
    assert found.pace == pytest.approx(pace, rel=0.065)
    assert found.factors[0].ci95[0] < pace < found.factors[0].ci95[1]
    told = [one.what.split()[0] for one in found.factors]
    assert (told[0], *told[-2:]) == ("matrix", "host", "node")
    assert max(abs(one.error_frac) for one in found.errors_after) < 0.02
    assert found.cluster.levels[1] == MACHINE.levels[1]


@pytest.mark.parametrize(("slow", "place"), [((1.0, 1.5, 1.0, 1.0), 0), ((1.0, 1.0, 1.6, 1.0), 1)])
def test_steps_with_different_kernels_separate_the_slow_classes(slow: tuple[float, ...], place: int) -> None:
    """Attention by sequences of other lengths, elementwise kernels by what tensor parallelism leaves whole."""
    true = changed(MACHINE, slow, [level.link.achieved_frac for level in MACHINE.levels])
    found = calibrate(MACHINE, [step(layout, true, seq) for layout in ONE_NODE for seq in (1024, 8192, 32768)])
    assert found.kinds[place] == max(found.kinds) > found.pace + 0.2
    assert max(abs(one.error_frac) for one in found.errors_after) < 0.03


@pytest.mark.parametrize("share", [0.55, 0.9])
def test_steps_on_two_nodes_separate_links_from_kernels(share: float) -> None:
    true = changed(MACHINE, [1.15] * 4, [MACHINE.levels[0].link.achieved_frac, share])
    found = calibrate(MACHINE, [step(layout, true) for layout in (*ONE_NODE, *TWO_NODES)])
    assert found.pace == pytest.approx(1.15, rel=0.03)
    link = found.cluster.levels[1].link
    assert link.achieved_frac == pytest.approx(share, rel=0.12)
    assert link.range_frac[0] < share < link.range_frac[1]
    assert np.median([abs(one.error_frac) for one in found.errors_after]) < 0.01


def test_more_steps_narrow_the_interval() -> None:
    few = calibrate(MACHINE, [step(ONE_NODE[0], MACHINE)])
    many = calibrate(MACHINE, [step(layout, MACHINE) for layout in (*ONE_NODE, *TWO_NODES)])
    assert np.ptp(many.factors[0].ci95) < np.ptp(few.factors[0].ci95)
    assert few.error_frac >= LEFT_FRAC


def test_a_calibrated_cluster_has_a_narrower_interval() -> None:
    found = calibrate(MACHINE, [step(layout, MACHINE) for layout in ONE_NODE])
    known = found.cluster
    device = paced(known.device, found.entry("test", "2026-11-23"))
    job, layout = Job(LLAMA, Recipe(seq=8192, batch=64), 8), Layout(dp=8, zero=1)
    wide = estimate(job, MACHINE.resized(8), layout).interval
    narrow = estimate(job, replace(known, device=device).resized(8), layout).interval
    assert narrow.high / narrow.low < wide.high / wide.low


def test_calibrated_clusters_predict_larger_published_sizes() -> None:
    """InternEvo, calibrated with twelve rows on 8 and 16 devices: from 18 % off to a third of that."""
    cases = [without_program(case) for case in TABLES["internlm_7b"].cases()]
    small, large = ([case for case in cases if (case.job.devices <= 16) == here] for here in (True, False))
    base = max((case.cluster for case in cases), key=lambda one: one.num_devices)
    found = calibrate(base, [Measured(one.row, one.job, one.layout, one.measured) for one in small])
    device = paced(base.device, found.entry("test", "2026-11-23"))
    known = replace(found.cluster, device=device)
    after = [
        abs(
            float(price_step(one.job, known.resized(one.job.devices), one.layout.grid()).step_time_s) / one.measured - 1
        )
        for one in large
    ]
    assert np.median(after) < 0.07


def test_calibrate_writes_a_file_that_plan_reads(tmp_path: Path) -> None:
    out = tmp_path / "mine.yaml"
    cases = [str(ROOT / "examples" / f"steps-{devices}.yaml") for devices in (8, 16)]
    answer = run(
        "calibrate", "-c", "dgx-h100:64", "--case", cases[0], "--case", cases[1], "-o", str(out), "--json"
    ).json()
    assert answer["file"] == str(out)
    assert [one["devices"] for one in answer["errors_after"]] == [8, 16]
    found = lockstep.estimate("llama3-8b", out, gpus=128, batch=2048, cp=2, dp=64, zero=1, stack="nemo-24")
    assert found.cluster.device.efficiency.kind == "calibrated"
    plain = lockstep.estimate("llama3-8b", "dgx-h100:16", batch=2048, cp=2, dp=64, zero=1, stack="nemo-24")
    assert found.step_time_s == pytest.approx(plain.step_time_s * answer["pace"], rel=0.01)
    assert any("calibrate" in said for said in found.assumptions())
    assert "median error" in run("calibrate", "-c", "dgx-h100:64", "--case", cases[0]).out


NCCL = "# all_reduce_perf\n#  Rank  0 on host0 device  0\n#  Rank  1 on host0 device  1\n" + (
    "#       size         count      type   redop    root     time   algbw   busbw #wrong\n"
    "     1048576        262144     float     sum      -1    25.00    0.00    0.00      0\n"
    "    16777216       4194304     float     sum      -1    80.00    0.00    0.00      0\n"
    "   268435456      67108864     float     sum      -1    920.0    0.00    0.00      0\n"
)


def test_measured_collectives_set_the_link_of_their_level(tmp_path: Path) -> None:
    file, out, case = tmp_path / "nccl.txt", tmp_path / "mine.yaml", ROOT / "examples" / "steps-8.yaml"
    file.write_text(NCCL)
    assert run("calibrate", str(file), "-c", "dgx-h100:2", "--case", str(case), "-o", str(out)).code == 0
    link = cluster(out).levels[0].link
    assert "measured" in link.name
    assert link.rate_Bps == pytest.approx((268435456 - 16777216) / (920e-6 - 80e-6), rel=0.1)
    assert "of the 450 GB/s" in link.provenance["achieved_frac"].text
    assert cluster(out).levels[1].link.range_frac == cluster("dgx-h100:2").levels[1].link.range_frac


def test_unusable_measurements_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="no measured step"):
        lockstep.calibrate(cluster="dgx-h100")
    case = (ROOT / "examples" / "steps-8.yaml").read_text()
    (tmp_path / "a.yaml").write_text(case.replace("cluster: dgx-h100", "cluster: dgx-a100-80gb"))
    assert run("calibrate", "-c", "dgx-h100", "--case", str(tmp_path / "a.yaml")).refusal().startswith("--case:")
    (tmp_path / "b.yaml").write_text(case.replace("zero: 1", "zero: unknown"))
    assert "must be known" in run("calibrate", "-c", "dgx-h100", "--case", str(tmp_path / "b.yaml")).refusal()
    assert run("calibrate", "-c", "dgx-h100", "-o", "mine.txt").refusal().startswith("--out")
