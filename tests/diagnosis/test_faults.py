"""Runs with a known fault, one of each kind: the cause is found first, and its seconds are right.

`benchmarks/diagnose.py` draws hundreds.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from drawn import FAULTS, draw

from lockstep.diagnosis.answer import Beside


@pytest.mark.parametrize("fault", FAULTS)
def test_the_cause_and_its_seconds(fault: str, tmp_path: Path) -> None:
    """As drawn, to 5 %; a run without a fault is as predicted."""
    run = draw(7, fault)
    found = run.diagnosed(tmp_path)
    assert adds_up(found)
    assert found.as_predicted == (fault == "none")
    if fault == "none":
        assert not found.causes
        return
    first = found.causes[0]
    assert first.kind == fault
    assert first.seconds == pytest.approx(run.true_s(), rel=0.05)
    assert "{" not in first.cause + first.change
    for name in ("rank", "stage"):
        if name in run.told:
            assert f"{name} {run.told[name]}" in first.cause


def adds_up(found: Beside) -> bool:
    """The parts of both steps are the steps, and the replay is near the measured one."""
    assert found.replayed_s == pytest.approx(found.measured_s, rel=0.02)
    assert sum(one.measured_s or 0.0 for one in found.parts) == pytest.approx(found.measured_s, rel=1e-9)
    assert sum(one.predicted_s or 0.0 for one in found.parts) == pytest.approx(found.predicted_s, rel=0.02)
    return True
