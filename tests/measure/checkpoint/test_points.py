"""A save passes its points in order, so that a rank that dies there can be told where, and tests can kill it there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from lockstep.run.checkpoint import CheckpointWriter, Part, writer


@pytest.mark.parametrize("rank", [0, 1])
def test_a_save_reaches_its_fault_points_in_order(rank: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The data file is whole on the disk at its point, and the manifest is not there before the commit."""
    passed: list[tuple[str, list[str]]] = []

    def point(name: str) -> None:
        passed.append((name, sorted(path.name for path in tmp_path.rglob("*") if path.is_file())))

    ranks = 1 + rank
    saver = CheckpointWriter(tmp_path, rank, ranks, "a")
    with monkeypatch.context() as patch:
        patch.setattr(writer, "point", point)
        saver.save(4, [Part("weights", np.zeros(3))], {})
    names = [name for name, _ in passed]
    assert names == ["mid_checkpoint:4", "after_checkpoint_file", *["before_commit:4"] * (rank == 0)]
    files = dict(passed)
    assert files["mid_checkpoint:4"] == []
    assert len(files["after_checkpoint_file"]) == 1
    if rank == 0:
        before = files["before_commit:4"]
        assert len(before) == 2
        after = {path.name for path in tmp_path.rglob("*") if path.is_file()}
        assert len(after - set(before)) == 1
