"""P9 and P10 under fire: faults at named points on the first and the last rank; the run says why, and goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from effort import share
from lockstep.base.errors import RunFailed
from lockstep.base.store import FAILED, RunStore
from lockstep.run.checkpoint import latest
from lockstep.run.launch import Fault
from lockstep.run.train import Saving, Task, TrainRun, train
from lockstep.show.verbs.words.keeping import kept

TASK = Task(steps=6, batch=16, optimizer="momentum")
RANKS = 2
ENDS = (0, RANKS - 1)
KILLS = [
    Fault(rank, point, "kill")
    for place, point in enumerate(("before_step:3", "mid_checkpoint:4", "after_checkpoint_file"))
    for rank in share(ENDS, 2, place)
] + [Fault(0, "before_commit:4", "kill")]
OTHERS = [
    Fault(rank, "before_step:3", action)
    for place, action in enumerate(("raise", "exit"))
    for rank in share(ENDS, 2, place)
] + [Fault(RANKS - 1, "before_step:3", "stop")]
WORDS = {
    "kill": "killed by SIGKILL",
    "raise": "failed before step 3: InjectedFault",
    "exit": "exited early with code 0",
    "stop": "stopped by a signal",
}


@pytest.fixture(scope="module")
def undisturbed() -> TrainRun:
    return train("zero-1", TASK, RANKS)


@pytest.mark.parametrize("fault", KILLS + OTHERS, ids=lambda one: f"{one.action} rank {one.rank} {one.point}")
def test_a_resumed_run_ends_bit_identical(fault: Fault, undisturbed: TrainRun, tmp_path: Path) -> None:
    timeout_s = 2.0 if fault.action == "stop" else 20.0
    run = train("zero-1", TASK, RANKS, saving=Saving(tmp_path, 2), restarts=1, faults=[fault], timeout_s=timeout_s)
    assert run.weights.tobytes() == undisturbed.weights.tobytes()
    (why,) = run.failures
    assert f"rank {fault.rank} {WORDS[fault.action]}" in why
    last = {"mid_checkpoint:4": 2, "before_commit:4": 2, "before_step:3": 2, "after_checkpoint_file": 0}
    assert run.first_step == last[fault.point]


def test_a_run_that_dies_after_its_last_checkpoint_is_evaluated_from_that(
    undisturbed: TrainRun, tmp_path: Path
) -> None:
    fault = Fault(1, "before_evaluation", "kill")
    run = train("zero-1", TASK, RANKS, saving=Saving(tmp_path, 2), restarts=1, faults=[fault], timeout_s=20)
    assert run.weights.tobytes() == undisturbed.weights.tobytes()
    assert (run.first_step, run.loss, run.test_loss) == (TASK.steps, (), undisturbed.test_loss)
    (why,) = run.failures
    assert "rank 1 killed by SIGKILL before evaluation" in why


def test_without_restarts_the_failure_names_rank_reason_and_point(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match=r"^rank 1 killed by SIGKILL before step 3"):
        train("synchronous", TASK, RANKS, saving=Saving(tmp_path, 2), faults=[Fault(1, "before_step:3", "kill")])
    found = latest(tmp_path)
    assert found is not None
    assert found.step == 2


def test_a_killed_run_is_kept_with_its_reason_and_its_measurements(tmp_path: Path) -> None:
    with pytest.raises(RunFailed), kept("train", {"method": "synchronous"}, tmp_path) as record:
        train(
            "synchronous", TASK, RANKS, faults=[Fault(1, "before_step:4", "kill")],
            on_step=lambda done, seen: record(step=done, loss=seen.loss),
        )  # fmt: skip
    found = RunStore(tmp_path).read("last")
    assert found.status == FAILED
    assert found.reason.startswith("rank 1 killed by SIGKILL before step 4")
    assert [event["step"] for event in found.measurements] == [1, 2, 3, 4]


SCRIPT = """
import json, os, sys
from pathlib import Path
from lockstep.run.launch import Fault
from lockstep.run.train import Saving, Task, train
first = os.environ["TORCHELASTIC_RESTART_COUNT"] == "0"
run = train(
    "zero-1", Task(steps=6, batch=16, optimizer="momentum"), 2, saving=Saving(Path(sys.argv[1]), 2, resume=True),
    faults=[Fault(1, "before_step:3", "kill")] if first else [], timeout_s=20,
)
if os.environ["RANK"] == "0":
    Path(sys.argv[2]).write_text(json.dumps({"first_step": run.first_step, "weights": run.weights.tobytes().hex()}))
"""


def test_ranks_restarted_by_torchrun_resume(undisturbed: TrainRun, tmp_path: Path) -> None:
    script, answer = tmp_path / "script.py", tmp_path / "answer.json"
    script.write_text(SCRIPT)
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
        "--max-restarts", "1", "--monitor-interval", "0.1", str(script), str(tmp_path / "saves"), str(answer),
    ]  # fmt: skip
    ended = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"}, check=False, timeout=120
    )
    assert ended.returncode == 0, ended.stderr[-2000:]
    found: dict[str, Any] = json.loads(answer.read_text())
    assert found["first_step"] == 2
    assert bytes.fromhex(found["weights"]) == undisturbed.weights.tobytes()
