"""The pace of a cluster's file: one factor for all kernels, or one for each class and the curve of products."""

from __future__ import annotations

from pathlib import Path

import pytest

from lockstep.base.errors import BadInput
from lockstep.describe.hardware import cluster as find_cluster
from lockstep.show.verbs.estimate import estimate

WORDS = {"tp": 8, "micro_batch": 1, "batch": 4, "seq": 4096}
BASE = estimate("llama3-8b", "dgx-h100:1", **WORDS)


def paced(folder: Path, pace: str):
    """The same step on the cluster with a pace."""
    path = folder / "mine.yaml"
    said = f"{{error: 5%, source: test, date: 2026-11-26, {pace}}}"
    path.write_text(f"cluster: {{device: h100-sxm, pace: {said}, levels: [{{name: node, size: 8, link: nvlink4}}]}}")
    return estimate("llama3-8b", str(path), **WORDS)


def test_a_single_pace_factor_applies_to_every_kernel(tmp_path: Path) -> None:
    """Compute and the update take as many times as long; classes that say the same change nothing."""
    one = paced(tmp_path, "factor: 1.5")
    assert one.step.compute_s == pytest.approx(1.5 * BASE.step.compute_s, rel=0.01)
    assert one.step.optimizer_s == pytest.approx(1.5 * BASE.step.optimizer_s)
    same = ", ".join(f"{name}: {{factor: 1.5}}" for name in ("matmul", "attention", "stream", "optimizer"))
    assert paced(tmp_path, f"factor: 1.5, {same}").step_time_s == pytest.approx(one.step_time_s, rel=1e-12)


@pytest.mark.parametrize("name", ["matmul", "attention", "stream"])
def test_a_kernel_class_factor_does_not_change_the_update(name: str, tmp_path: Path) -> None:
    """And the update leaves the classes alone."""
    one = paced(tmp_path, f"factor: 1, {name}: {{factor: 3, error: 2%}}")
    assert one.step.optimizer_s == pytest.approx(BASE.step.optimizer_s)
    assert one.step.compute_s > 1.02 * BASE.step.compute_s
    two = paced(tmp_path, "factor: 1, optimizer: {factor: 3}")
    assert two.step.optimizer_s == pytest.approx(3 * BASE.step.optimizer_s)
    assert two.step.compute_s == pytest.approx(BASE.step.compute_s)


def test_product_factors_change_the_constants_of_the_curve(tmp_path: Path) -> None:
    """Instead of the curve's own, whatever factor products have."""
    curve = BASE.cluster.device.efficiency
    ends = "max_frac_ci95: [0.5, 0.9], bytes_factor_ci95: [0, 3], shapes: 8"
    own = f"{{max_frac: {curve.matmul_max_frac}, bytes_factor: {curve.matmul_bytes_factor}, {ends}}}"
    one = paced(tmp_path, f"factor: 1, matmul: {{factor: 4}}, products: {own}")
    assert one.step.compute_s == pytest.approx(BASE.step.compute_s, rel=1e-12)
    other = paced(tmp_path, f"factor: 1, products: {{max_frac: 0.4, bytes_factor: 2, {ends}}}")
    assert other.step.compute_s > 1.3 * BASE.step.compute_s


def test_an_invalid_pace_entry_is_named(tmp_path: Path) -> None:
    """With its place in the file."""
    with pytest.raises(BadInput, match="max_frac_ci95"):
        paced(tmp_path, "factor: 1, products: {max_frac: 0.8, bytes_factor: 1, shapes: 8, bytes_factor_ci95: [0, 1]}")
    assert find_cluster("dgx-h100:1").device.efficiency.optimizer_factor == 1.0
