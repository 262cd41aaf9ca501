"""A measured curve in a user's hardware file: measured here, written, planned with, and named with its day."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli_runner import run

from lockstep import hardware
from lockstep.base.errors import BadInput
from lockstep.describe.hardware.shipped import read_hardware
from lockstep.run.kernels import KERNELS, DeviceBench, DeviceFile, fit_curve
from lockstep.run.machine import this_machine

from .test_bench import kernel_rows

PEAK_FLOPS, MEMORY_BPS = 1e14, 2e12
TRUTH = {"matmul_max_frac": 0.7, "matmul_bytes_factor": 1.5, "stream_frac": 0.8, "attention_forward_frac": 0.5}

BLOCK = """\
# my own device
devices:
  my-gpu:
    memory: 64 GiB
    memory_bandwidth: 2e12
    peak_flops: {bf16: 100 TFLOP/s}
    efficiency: a100   # borrowed for now
    price_per_hour: 1.5
cluster:
  name: mine
  device: my-gpu
  levels: [{name: node, size: 2, link: nvlink4}]
"""
FLOW = """\
devices: {my-gpu: {memory: 64 GiB, memory_bandwidth: 2e12, peak_flops: {bf16: 1e14}, efficiency: a100}}
cluster: {name: mine, device: my-gpu, levels: [{name: node, size: 2, link: nvlink4}]}
"""


def measured(date: str = "2026-01-01", best_frac: float = 0.7) -> DeviceBench:
    """Kernels of a device whose curve is known."""
    rows = kernel_rows(PEAK_FLOPS, best_frac, 1.5, MEMORY_BPS)
    curve = fit_curve(rows, "A Device", date, PEAK_FLOPS, MEMORY_BPS)
    return DeviceBench("cpu", "A Device", "bf16", tuple(rows), curve, this_machine(), date)


@pytest.mark.parametrize("text", [BLOCK, FLOW])
def test_the_curve_replaces_the_borrowed_one_and_nothing_else(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    before = hardware.cluster(str(path))
    for best_frac, date in ((0.6, "2026-01-01"), (0.7, "2026-01-02")):
        DeviceFile.read(path).write(measured(date, best_frac))
    after = hardware.cluster(str(path))
    curve = after.device.efficiency
    assert {name: getattr(curve, name) for name in TRUTH} == pytest.approx(TRUTH, rel=1e-3)
    assert (curve.kind_on("my-gpu"), curve.date) == ("measured", "2026-01-02")
    assert replace(after.device, efficiency=before.device.efficiency, provenance={}) == replace(
        before.device, provenance={}
    )
    written = path.read_text()
    start = text.index("a100")
    assert written.startswith(text[:start])
    assert written.endswith(text[start + len("a100") :])
    assert list(tmp_path.iterdir()) == [path]


def test_a_curve_in_block_style_is_replaced_too(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    DeviceFile.read(path).write(measured())
    flow = path.read_text()
    start, stop = flow.index("efficiency: {"), flow.index("      }")
    keys = [line.strip(" ,") for line in flow[start:stop].splitlines()[1:]]
    block = "efficiency:\n" + "".join(f"      {key}\n" for key in keys)
    path.write_text(flow[:start] + block + flow[stop + len("      }\n") :])
    DeviceFile.read(path).write(measured("2026-02-02"))
    assert hardware.cluster(str(path)).device.efficiency.date == "2026-02-02"


def test_a_new_file_is_a_cluster_of_one(tmp_path: Path) -> None:
    path = tmp_path / "cpu.yaml"
    DeviceFile.read(path).write(measured())
    found = hardware.cluster(str(path))
    assert (found.num_devices, found.device.name) == (1, "cpu")
    assert found.device.peak_flops == {"bf16": PEAK_FLOPS}
    assert found.device.memory_bandwidth_Bps == MEMORY_BPS
    assert found.device.memory_B > 0


def test_a_measured_curve_is_used_by_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From this machine's kernels to a plan that says when they were measured."""
    for name, kernel in KERNELS.items():
        monkeypatch.setitem(KERNELS, name, replace(kernel, cpu_sizes=kernel.cpu_sizes[:2]))
    path = tmp_path / "here.yaml"
    bench = run("bench", "device", "--dtype", "bf16", "--device-file", str(path), "--json").json()
    curve = read_hardware(path).devices["here"].efficiency
    assert curve.matmul_max_frac == pytest.approx(bench["curve"]["matmul_max_frac"], rel=1e-3)
    question = ("bert-large", "--cluster", str(path), "--batch", "1", "--seq", "128")
    answer = run("plan", *question, "--json").json()
    (line,) = (line for line in answer["assumptions"] if line.startswith("kernel efficiency of here"))
    assert f"measured {bench['date']} (lockstep bench device" in line
    text = path.read_text()
    path.write_text(text.replace(f"{curve.launch_s:.4g}", "1 s"))
    slower = run("plan", *question, "--json").json()
    assert slower["plans"][0]["step_time_s"] > answer["plans"][0]["step_time_s"] + 1.0, "a second per launch is seen"


OTHER = "  other: {memory: 1 GiB, memory_bandwidth: 1e9, peak_flops: {bf16: 1e9}, efficiency: a100}\ncluster:"
REFUSED = {
    "two devices": (BLOCK.replace("cluster:", OTHER), "describes 2 devices of its own: my-gpu, other"),
    "no device": (BLOCK[BLOCK.index("cluster:") :].replace("my-gpu", "h100-sxm"), "describes 0 devices of its own"),
    "no such format": (BLOCK.replace("bf16", "fp32"), "my-gpu has no peak rate for 'bf16'; it has fp32"),
    "no hardware": ("devices: 5\n", "devices"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_files_that_cannot_hold_a_curve_are_refused_before_measuring(tmp_path: Path, what: str) -> None:
    text, why = REFUSED[what]
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    assert why in run("bench", "device", "--dtype", "bf16", "--device-file", str(path)).refusal()
    assert path.read_text() == text


def test_inapplicable_flags_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(BLOCK)
    words = ("--dtype", "bf16", "--device-file", str(path))
    assert run("bench", "matmul", *words).refusal().startswith("--device-file: belongs to `bench device`")
    assert run("bench", "device", *words, "--peak", "1e12").refusal().startswith("--peak: ")
    assert run("bench", "device", "--device-file", "mine.toml").refusal().startswith("--device-file: 'mine.toml'")
    with pytest.raises(BadInput, match="needs all kernels"):
        DeviceFile.read(path).text(replace(measured(), curve=None))


WRONG = {
    "matmul_max_frac: 0.7": ("matmul_max_frac: 0", "must be above zero"),
    "typical_error_frac: 0": ("typical_error_frac: -1", "typical_error_frac"),
    'kind: "measured"': ("kind: guessed", "kind"),
    'date: "2026-01-01"': ("date: soon", "date"),
    "stream_frac:": ("surprise:", "surprise"),
}


@pytest.mark.parametrize("right", WRONG)
def test_an_invalid_curve_is_refused_at_its_line(tmp_path: Path, right: str) -> None:
    path = tmp_path / "mine.yaml"
    bench = measured()
    assert bench.curve is not None
    exact = replace(bench.curve, efficiency=replace(bench.curve.efficiency, typical_error_frac=0.0))
    DeviceFile.read(path).write(replace(bench, curve=exact))
    wrong, why = WRONG[right]
    assert right in path.read_text()
    path.write_text(path.read_text().replace(right, wrong))
    with pytest.raises(BadInput, match=why) as caught:
        read_hardware(path)
    assert caught.value.where is not None
    assert caught.value.where.startswith(str(path))


def test_writing_touches_no_other_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    others = {tmp_path / name: f"{name} of the user" for name in ("mine.new.yaml", "mine.yaml.tmp", ".mine.yaml")}
    for other, text in others.items():
        other.write_text(text)
    DeviceFile.read(path).write(measured())
    assert {other: other.read_text() for other in others} == others
    assert set(tmp_path.iterdir()) == {path, *others}
    broken = tmp_path / "none" / "mine.yaml"
    with pytest.raises(OSError, match="No such file"):
        DeviceFile(broken, None).write(measured())
